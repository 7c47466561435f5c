"""Draw the picture of real interventions on the first page: accuracy if a sensor is disturbed.

D-spur is a physical experiment with a binary outcome: a light source with three colours, eight
other measurements, six training environments and five test environments in which the experimenters
changed the light or disturbed a sensor. The published stable set is the three colours. The data are
read from `shared/data/light_tunnel_binary` beside the checkout.

python benchmarks/disturbed_sensor.py
python benchmarks/disturbed_sensor.py --draws 3 --rows 200 --out picture.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import BIPClassifier

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT.parent / "shared" / "data" / "light_tunnel_binary"
PICTURE = ROOT / "docs" / "figures" / "disturbed-sensor.png"
SELECTED = "selected features (BIPClassifier)"
REGRESSION = "all features (logistic regression)"
BOOSTING = "all features (gradient boosting)"
COLOURS = {SELECTED: "#0072b2", REGRESSION: "#d55e00", BOOSTING: "#e69f00"}


def read(name: str) -> pd.DataFrame:
    table = pd.read_csv(FOLDER / f"d_spur_{name}.csv.gz")
    return table.astype({"E": str})


def accuracies(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, str]:
    """Return the accuracy of each method in each test environment, and the selected features."""
    X = train.drop(columns=["Y", "E"])
    y = train["Y"]
    ours = BIPClassifier(progress=False).fit(X, y, environments=train["E"])
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    boosting = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    fits = {SELECTED: ours, REGRESSION: regression, BOOSTING: boosting}
    lines = [
        {"environment": name, "method": method, "accuracy": fit.score(rows[X.columns], rows["Y"])}
        for name, rows in test.groupby("E")
        for method, fit in fits.items()
    ]
    return pd.DataFrame(lines), ", ".join(sorted(ours.selected_features_))


def draw(results: pd.DataFrame, path: Path) -> None:
    means = results.pivot_table("accuracy", "environment", "method")
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    places = np.arange(len(means))
    for shift, (method, colour) in zip((-0.12, 0.0, 0.12), COLOURS.items(), strict=True):
        ax.plot(places + shift, means[method], "o", ms=8, color=colour, label=method)
    ax.set_xticks(places, means.index)
    ax.set_ylim(0, 1.04)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.set_xlabel("test environment")
    ax.set_ylabel("accuracy")
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", frameon=False, fontsize="small")
    figure.savefig(path, dpi=160, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000, help="drawn from each environment")
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args()
    if not FOLDER.exists():
        print(f"skipped: {FOLDER} is not there, and the data are not part of this repository")
        return
    train = read("train")
    test = read("test")
    found = []
    for seed in range(options.draws):
        rng = np.random.default_rng(seed)
        rows = train.groupby("E").sample(options.rows, random_state=rng)
        accuracy, selected = accuracies(rows, test, seed)
        found.append(accuracy.assign(draw=seed))
        print(f"draw {seed}: selected {selected}", flush=True)
    results = pd.concat(found)
    means = results.pivot_table("accuracy", "method", "environment")
    print(f"\nmean accuracy, {options.draws} draws of {options.rows} rows an environment")
    print(means.assign(worst=means.min(axis=1)).round(2).loc[list(COLOURS)].to_string())
    draw(results, options.out)


if __name__ == "__main__":
    main()
