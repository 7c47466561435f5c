"""The picture of simulated data on the front page: errors in environments that were fitted, and in
one nobody has seen.

Ten features, five environments of 200 rows that are fitted, a sixth that is not: the paper's
simulation, which the picture shows, and a gentler one. An error is a root mean square in units of
the outcome's own noise: with the true equation it is 1. "By default": BIP().predict, which uses all
features unless environments left out show that they fail.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression

from _harness import sample_apart
from invariance import BIP
from invariance.exceptions import PredictionWarning
from invariance.simulation import StructuralModel, flat, p10

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "new-environment.png"
ENVIRONMENTS = 5
ROWS = 200
ALL = "all features"
SELECTED = "invariant ones"
DEFAULT = "by default"
SEEN = "where they were fitted"
NEW = "where nobody has been"
SIMULATIONS = {"the paper's (p10)": p10, "causes never touched (flat)": flat}
COLOURS = {ALL: "#d55e00", SELECTED: "#0072b2"}


def errors_of(
    simulation: Callable[..., StructuralModel], seed: int
) -> dict[tuple[str, str], float]:
    rng = np.random.default_rng([15, seed])
    model = simulation(ENVIRONMENTS + 1, rng)
    seen, new = sample_apart(model, ROWS, 1, rng)
    fitted = BIP(progress=False).fit(seen.X, seen.y, environments=seen.environment_index)
    fits = {
        ALL: LinearRegression().fit(seen.X, seen.y),
        SELECTED: copy.copy(fitted).set_params(predict_with="selected"),
        DEFAULT: fitted,
    }
    noise = float(np.sqrt(model.variances[0, -1]))
    return {
        (where, name): float(np.sqrt(np.mean((fit.predict(data.X) - data.y) ** 2))) / noise
        for where, data in ((SEEN, seen), (NEW, new))
        for name, fit in fits.items()
    }


def draw(errors: pd.DataFrame, path: Path) -> None:
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    figure.suptitle(
        f"Simulated: {len(errors)} data sets, strong interventions",
        fontweight="bold",
        fontsize="medium",
    )
    panels = figure.subplots(1, 2, sharey=True)
    rng = np.random.default_rng(0)
    for ax, where in zip(panels, (SEEN, NEW), strict=True):
        for place, (name, colour) in enumerate(COLOURS.items()):
            values = errors[where, name]
            ax.plot(
                place + rng.uniform(-0.28, 0.28, len(values)),
                values,
                ".",
                color=colour,
                alpha=0.45,
                mew=0,
            )
            ax.plot([place - 0.34, place + 0.34], [values.median()] * 2, color="black", lw=2)
        ax.axhline(1.0, color="0.55", lw=1, ls="--", zorder=0)
        ax.set(yscale="log", xticks=[0, 1], xticklabels=list(COLOURS), xlim=(-0.5, 1.5))
        ax.set_title(where, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("error (1 is that of the true equation)")
    panels[0].set_yticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
    figure.savefig(path, dpi=160, metadata={"Software": None})


def table(errors: pd.DataFrame) -> str:
    lines = ["| | | median | worst tenth above |", "|---|---|---:|---:|"]
    for where, name in errors:
        values = errors[where, name]
        lines.append(f"| {where} | {name} | {values.median():.2f} | {values.quantile(0.9):.2f} |")
    better = (errors[NEW, SELECTED] < errors[NEW, ALL]).mean()
    return "\n".join(
        [
            *lines,
            f"selected features err less in the new environment: share of data sets {better:.2f}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args()
    warnings.simplefilter("ignore", PredictionWarning)
    for name, simulation in SIMULATIONS.items():
        errors = pd.DataFrame([errors_of(simulation, seed) for seed in range(options.sets)])
        print(f"{name}, {options.sets} data sets\n{table(errors)}\n")
        if simulation is p10:
            draw(errors, options.out)


if __name__ == "__main__":
    main()
