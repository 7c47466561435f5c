"""Real environments that nobody has seen: every method of `invariance.compare`, and the ways of BIP
to predict, on sixteen data sets, or on one's own. Each environment is left out in turn and
predicted by what the others tell.

python benchmarks/real_environments.py                       all sets and methods
python benchmarks/real_environments.py --only exam cars      two sets
python benchmarks/real_environments.py --methods BIP Lasso   two methods, beside pooled regression
    on all features
python benchmarks/real_environments.py --sets my-sets        the CSV files that my-sets/sets.toml
    lists

Fourteen of the sets come with `pip install 'invariant-prediction[examples]'`, which nothing else
needs; the light tunnel and the cells of Sachs et al. are left out where ../shared/data is not
there. How each set is prepared is in _real_sets.py.

--picture draws that of the front page, docs/figures/real-environments.png.
--out names a folder. Its results.jsonl has one line for each set, environment and method, and a
line is not computed again while code and data are the same; ratios.csv has the errors of each set.
Tables are Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import t as student

from _harness import digest, header, table
from _real_sets import SETS, RealSet, sets_in
from invariance import BIP, Columns, MultiEnvironmentData
from invariance._tools.files import lock_folder
from invariance._tools.parallel import run_tasks
from invariance._tools.progress import ProgressBar
from invariance.baselines.base import kind_for
from invariance.baselines.comparison import error_in, named_methods
from invariance.baselines.registry import METHODS, default_names
from invariance.estimators.saved import fingerprint
from invariance.exceptions import EngineError
from invariance.moments.least_squares import least_squares
from invariance.prediction.model_choice import PREDICT_WITH
from invariance.prediction.predictor import Design, columns_of

YARDSTICK = "Regression"
OURS = "BIP auto"
COVERAGE = 0.9
# Errors that differ by less count as equal.
EQUAL = 0.01
DRAWS = 10_000  # of sets, for intervals
FIGURES = ("error", "coverage", "width", "uses", "seconds", "reason")
RESULTS = "results.jsonl"
RATIOS = "ratios.csv"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "real-environments.png"
SHOWN = {"BIP selected": ("invariant ones", "#0072b2", "o"), OURS: ("predict()", "#009e73", "D")}


class Task(NamedTuple):
    """An environment of a set, by its place, to be left out of the fit of a method; code : of
    package and data"""

    set: str
    environment: int
    method: str
    code: str

    @property
    def names(self) -> list[str]:
        """Of the results: BIP predicts in several ways."""
        return [f"BIP {way}" for way in PREDICT_WITH] if self.method == "BIP" else [self.method]

    def key(self, name: str) -> tuple[str, int, str, str]:
        return self.set, self.environment, name, self.code


def tasks_of(sets: Mapping[str, RealSet], methods: Sequence[str]) -> Iterator[Task]:
    """The environments of a set one after the other; methods: none is all that `compare` has."""
    code = digest(__file__)
    for set_name, each in sets.items():
        known = default_names(each.data.n_features, left_out=True)
        chosen = [
            name
            for name in known
            if not methods or name.removesuffix("-screen") in (YARDSTICK, *methods)
        ]
        of = f"{code} {fingerprint(each.data)[:19]} {each.family}"
        yield from (
            Task(set_name, e, method, of)
            for e in range(each.data.n_environments)
            for method in chosen
        )


def results_of(sets: Mapping[str, RealSet], task: Task) -> list[dict[str, Any]]:
    """One line for each way to predict: the error in the environment left out and, of numbers,
    which share of its rows intervals hold, and their mean width."""
    data = sets[task.set].data
    started = time.perf_counter()
    data = data.with_classes() if kind_for(data).classifies else data
    others = data.choosing(
        [label for e, label in enumerate(data.environments) if e != task.environment]
    )
    bip = BIP(sets[task.set].family, progress=False)
    ((_, model),) = named_methods([task.method], data.n_features, bip)
    model.set_params(columns=Columns(handle_unknown="ignore"))
    found: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(others)
            if task.method == "BIP" and kind_for(data).by_least_squares:
                model._predictions.leave_out(
                    PREDICT_WITH[1:]
                )  # of all ways together, which saves repeated selections
            for way in PREDICT_WITH if task.method == "BIP" else [None]:
                found.append(
                    figures(
                        model if way is None else model.set_params(predict_with=way),
                        others,
                        data,
                        task,
                    )
                )
        except (ValueError, EngineError, np.linalg.LinAlgError) as error:
            found = [{"error": None, "reason": str(error)} for _ in task.names]
    seconds = round(time.perf_counter() - started, 3)
    label = str(data.environments[task.environment])
    return [
        {**task._asdict(), "label": label, "method": name, **one, "seconds": seconds}
        for name, one in zip(task.names, found, strict=True)
    ]


def figures(
    model: Any, others: MultiEnvironmentData, data: MultiEnvironmentData, task: Task
) -> dict[str, Any]:
    frame = data.to_frame()
    rows = data.rows(task.environment)
    found: dict[str, Any] = {"error": error_in(task.environment, model, data, frame)}
    if isinstance(model, BIP) and model.predict_with == "auto":
        found["uses"] = model.decision_.prediction.uses
    if not kind_for(data).by_least_squares or not (
        isinstance(model, BIP) or task.method == YARDSTICK
    ):
        return found
    if isinstance(model, BIP):
        low, high = model.predict_interval(frame.iloc[rows], COVERAGE).T
    else:
        low, high = t_interval(others, columns_of(data, others.features.columns)[rows]).T
    held = (low <= data.y[rows]) & (data.y[rows] <= high)
    return found | {"coverage": float(held.mean()), "width": float(np.mean(high - low))}


def t_interval(data: MultiEnvironmentData, X: np.ndarray) -> np.ndarray:
    """(n, 2) of rows X (n, q), by least squares on all columns"""
    fit = least_squares(data.X, data.y)
    design = Design.of(data, data.features.columns)
    freedom = data.n_rows - 1 - design.rank
    noise = np.sum((data.y - data.X @ fit.coefficients - fit.intercept) ** 2) / freedom
    half = student.ppf(0.5 + 0.5 * COVERAGE, freedom) * np.sqrt(noise * (1.0 + design.leverage(X)))
    mean = X @ fit.coefficients + fit.intercept
    return np.column_stack([mean - half, mean + half])


# ---------------------------------------------------------------- what is kept


def read(file: Path) -> dict[tuple, dict[str, Any]]:
    """{key of a task: its line}; a last line that was cut short is taken away."""
    if not file.exists():
        return {}
    content = file.read_bytes()
    whole = content.rfind(b"\n") + 1
    os.truncate(file, whole)
    lines = map(json.loads, content[:whole].splitlines())
    return {
        (line["set"], line["environment"], line["method"], line["code"]): line for line in lines
    }


def run(
    sets: Mapping[str, RealSet], methods: Sequence[str], folder: Path, jobs: int
) -> pd.DataFrame:
    """Does what the folder does not hold yet; one row for each line that was asked for."""
    tasks = list(tasks_of(sets, methods))
    with lock_folder(folder):
        done = read(folder / RESULTS)
        left = [task for task in tasks if not all(task.key(name) in done for name in task.names)]
        _, batches = run_tasks(results_of, left, shared=sets, jobs=jobs)
        bar = ProgressBar("environments left out", len(left), "auto")
        with bar, (folder / RESULTS).open("a", encoding="utf-8") as file:
            for lines in batches:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
                done |= {
                    (line["set"], line["environment"], line["method"], line["code"]): line
                    for line in lines
                }
                bar.advance(1, f"{lines[0]['set']}, {lines[0]['method']}")
    asked = [done[task.key(name)] for task in tasks for name in task.names]
    return pd.DataFrame(asked, columns=["set", "environment", "label", "method", *FIGURES]).astype(
        {"error": float}
    )


# ---------------------------------------------------------------- what is told


def ratios_of(results: pd.DataFrame) -> pd.DataFrame:
    """(set, method): mean and worst error over those of pooled regression, in the environments
    where both have one, which are `known`; coverage, and the median over environments of the width
    over that of the t interval"""
    regression = results[results["method"] == YARDSTICK].set_index(["set", "environment"])[
        ["error", "width"]
    ]
    both = results.join(regression.add_suffix("_of_regression"), on=["set", "environment"])
    both = both.dropna(subset=["error", "error_of_regression"])
    grouped = both.assign(wider=both["width"] / both["width_of_regression"]).groupby(
        ["set", "method"], sort=False
    )
    error = grouped["error"]
    yardstick = grouped["error_of_regression"]
    return pd.DataFrame(
        {
            "mean": error.mean() / yardstick.mean(),
            "worst": error.max() / yardstick.max(),
            "known": grouped.size(),
            "coverage": grouped["coverage"].mean(),
            "width": grouped["wider"].median(),
        }
    )


def geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values.astype(float)).mean()))


def with_interval(values: pd.Series) -> str:
    """The geometric mean, and the 95% interval of draws of sets"""
    logs = np.log(values.to_numpy(float))
    drawn = np.random.default_rng(0).choice(logs, (DRAWS, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975]))
    return f"{geometric_mean(values):.3f} [{low:.3f}, {high:.3f}]"


def tell_methods(ratios: pd.DataFrame) -> None:
    """With the mean of BIP's default on the sets that a method can be fitted to, which may be
    fewer."""
    rows = []
    ours = ratios[ratios.index.get_level_values("method") == OURS].droplevel("method")
    for name in ratios.index.get_level_values("method").unique():
        of = ratios.xs(name, level="method")
        counts = f"{(of['mean'] < 1 - EQUAL).sum()} / {(of['mean'] > 1 + EQUAL).sum()}"
        same = " / ".join(
            f"{geometric_mean(ours.reindex(of.index)[which]):.3f}" for which in ("mean", "worst")
        ).replace("nan", "–")
        rows.append(
            (
                name,
                with_interval(of["mean"]),
                with_interval(of["worst"]),
                counts,
                str(len(of)),
                same,
            )
        )
    table(
        ["method", "mean", "worst environment", "better / worse", "sets", f"{OURS} on these sets"],
        rows,
    )


def tell_sets(ratios: pd.DataFrame, sets: Mapping[str, RealSet], ways: Sequence[str]) -> None:
    rows = []
    for name, each in sets.items():
        mean = ratios.loc[name, "mean"]
        worst = ratios.loc[name, "worst"]
        best = mean.drop(ways, errors="ignore").idxmin()
        shape = f"{each.data.n_environments} / {each.data.n_rows:,} / {each.data.n_features}"
        cells = [
            f"{mean.get(way, np.nan):.3f} / {worst.get(way, np.nan):.3f}" for way in (*ways, best)
        ]
        rows.append(
            (name, kind_for(each.data).error_name, shape, *cells[:-1], f"{best} {cells[-1]}")
        )
    table(["set", "error", "environments / rows / features", *ways, "best of the others"], rows)


def tell_intervals(ratios: pd.DataFrame, natural: Sequence[str], ways: Sequence[str]) -> None:
    """Coverage / relative width, by set, of those whose outcome is a number; of several sets mean
    and median"""
    shown = ratios[["coverage", "width"]].dropna()
    if shown.empty:
        return
    print(f"\n{COVERAGE:.0%} intervals: coverage / width relative to the t interval")
    rows = [(name, of.droplevel("set")) for name, of in shown.groupby("set", sort=False)]
    without = shown[shown.index.get_level_values("set").isin(natural)]
    for what, several in (("without experiments", without), ("all", shown)):
        if len(several):
            of = several.groupby("method").agg({"coverage": "mean", "width": "median"})
            rows.append((f"mean / median, {what}", of))
    cells = [
        (
            name,
            *(
                f"{of.loc[way, 'coverage']:.3f} / {of.loc[way, 'width']:.2f}"
                for way in (*ways, YARDSTICK)
            ),
        )
        for name, of in rows
    ]
    table(["set", *ways, "t interval of least squares"], cells)


def losses(ratios: pd.DataFrame) -> Iterator[str]:
    """Where predictions by default are worse than pooled regression."""
    for (name, _), of in ratios[ratios.index.get_level_values("method") == OURS].iterrows():
        if max(of["mean"], of["worst"]) > 1 + EQUAL:
            yield (
                f"{name}: {of['mean']:.3f} of the mean and {of['worst']:.3f} of the worst error "
                f"of {YARDSTICK}"
            )


def gates(results: pd.DataFrame) -> Iterator[str]:
    """Where environments showed that all features fail, so that the selected ones predict by
    default."""
    for name, uses in results[results["method"] == OURS].groupby("set", sort=False)["uses"]:
        if (uses == "selected").any():
            yield f"{name}: in {(uses == 'selected').sum()} of {len(uses)} environments"


def failures(results: pd.DataFrame) -> Iterator[str]:
    """Of each method: on which sets, in how many environments, and the first reason."""
    for method, lines in results[results["error"].isna()].groupby("method", sort=False):
        counts = lines["set"].value_counts(sort=False).items()
        where = ", ".join(
            f"{name} ({number} of {results.loc[results['set'] == name, 'label'].nunique()})"
            for name, number in counts
        )
        yield f"{method}: {where}: {lines['reason'].iloc[0]}"


def tell(results: pd.DataFrame, sets: Mapping[str, RealSet]) -> pd.DataFrame:
    ratios = ratios_of(results)
    ways = [name for name in results["method"].unique() if name.startswith("BIP ")]
    sets = {name: each for name, each in sets.items() if name in ratios.index.levels[0]}
    natural = [name for name, each in sets.items() if not each.experiment]
    print(
        "\nErrors in environments left out, relative to pooled regression on all features: "
        f"{len(natural)} sets"
    )
    print(
        "(geometric mean over sets, with a 95% interval; better / worse: by more than 1% in the "
        "mean)"
    )
    tell_methods(ratios.loc[natural])
    print("\nThe same by set, mean / worst environment")
    tell_sets(ratios, sets, ways)
    tell_intervals(ratios, natural, ways)
    for heading, lines in (
        (f"Where {OURS} predicts with the selected features", gates(results)),
        (f"Where {OURS} is worse than {YARDSTICK} by more than 1%", losses(ratios)),
        ("Without a result", failures(results)),
    ):
        listed = "\n".join(f"- {line}" for line in lines) or "- nowhere"
        print(f"\n{heading}:\n{listed}")
    return ratios


def draw(ratios: pd.DataFrame, sets: Mapping[str, RealSet], path: Path) -> None:
    """Mean errors by set, the best for the invariant features first, those with interventions
    marked"""
    means = ratios.pivot_table("mean", "set", "method").sort_values("BIP selected", ascending=False)
    names = [f"{name} *" if sets[name].experiment else name for name in means.index]
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    figure.suptitle(
        f"Real: {len(means)} data sets, environments left out", fontweight="bold", fontsize="medium"
    )
    ax = figure.subplots()
    ax.axvline(1.0, color="#d55e00", lw=1.5, label="all features")
    for method, (label, colour, marker) in SHOWN.items():
        ax.plot(means[method], names, marker, color=colour, ms=5, label=label)
    ax.set_xlabel("mean error over that of regression on all features")
    ax.tick_params(axis="y", labelsize="small")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(
        loc="upper right", fontsize="small", title="* with interventions", title_fontsize="small"
    )
    figure.savefig(path, dpi=160, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", type=Path, metavar="FOLDER", help="of CSV files and a sets.toml, in place of ours"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="SET")
    parser.add_argument(
        "--methods", nargs="+", default=[], metavar="METHOD", help="of `invariance compare`"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(tempfile.gettempdir()) / "real_environments"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--picture", action="store_true")
    given = parser.parse_args()
    unknown = [name for name in given.methods if name not in METHODS]
    if unknown:
        parser.error(f"no method is named {unknown[0]!r}: known are {', '.join(METHODS)}.")
    header("# Real environments left out")
    listed = SETS if given.sets is None else sets_in(given.sets)
    for name in given.only:
        if name not in listed:
            parser.error(f"no set is named {name!r}: known are {', '.join(listed)}.")
    wanted = {name: each for name, each in listed.items() if not given.only or name in given.only}
    sets = {name: each for name, each in wanted.items() if not each.absent}
    for name, each in wanted.items():
        if each.absent:
            print(f"{name} is left out: {each.absent}")
    started = time.perf_counter()
    results = run(sets, given.methods, given.out, given.jobs)
    ratios = tell(results, sets)
    ratios.to_csv(given.out / RATIOS)
    if given.picture:
        draw(ratios, sets, PICTURE)
    seconds = results.drop_duplicates(["set", "environment", "seconds"])["seconds"].sum()
    print(
        f"\n{time.perf_counter() - started:.0f} s with {given.jobs} processes; {seconds:.0f} s of "
        "work in all"
    )


if __name__ == "__main__":
    main()
