"""Seconds per fit by n, E and p on one thread (the paper's wall-clock table).

Seconds are of the processor, which on one thread are those of the clock on a machine without other
work.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from invariance.baselines.base import Screened
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.decisions.pipeline import FitSettings
from invariance.estimators.bip import BIP
from invariance.exceptions import EngineError
from invariance.simulation import p10

from .methods import METHODS, TimedScreening, fit_and_score
from .runs import (
    Cell,
    Picture,
    Row,
    Study,
    Table,
    check_methods,
    numbered_axis,
    panels,
    shared_legend,
)
from .simulators import p450

_PRESETS = {10: p10, 450: p450}
# Seconds in the paper's table (8 threads), by (p, n, E).
PAPER = {
    "BIP-VI-two-starts": (8.54, 8.77, 9.56, 12.02, 8.45, 8.86, 9.38, 11.43),
    "ICP": (6.28, 6.33, 6.39, 6.68, 2.60, 12.62, 25.52, 6.35),
    "BIP": (0.27, 0.30, 0.36, 0.65, 0.16, 0.53, 0.99, 0.34),
    "EILLS": (0.12, 0.12, 0.12, 0.12, 0.06, 0.21, 0.38, 0.15),
    "Hidden-ICP": (0.01, 0.04, 0.09, 0.36, 0.004, 0.15, 0.57, 0.08),
}
POINTS = (
    *((10, n, 5) for n in (50, 200, 500, 2000)),
    *((10, 200, n_environments) for n_environments in (2, 10, 20)),
    (450, 200, 5),
)


@dataclass(frozen=True, kw_only=True)
class Cost(Study):
    """Median seconds of the processor over strengths and replicates, at points (p, n, E) around
    (10, 200, 5).

    With 450 features the methods that list subsets see ten screened features, and their seconds
    include the screening.
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"points", "strengths"}
    measures_time: ClassVar[bool] = True

    points: tuple[tuple[int, int, int], ...] = POINTS
    strengths: tuple[float, ...] = (1 / 2, 2 / 3, 5 / 6, 1.0)
    methods: tuple[str, ...] = ("BIP-VI-two-starts", "BIP-VI", "ICP", "BIP", "EILLS", "Hidden-ICP")

    @property
    def name(self) -> str:
        return "cost"

    @property
    def title(self) -> str:
        return "Seconds per fit on one thread"

    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell((("p", p), ("n", n), ("E", n_environments), ("strength", strength)))
            for p, n, n_environments in self.points
            for strength in self.strengths
        )

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row per method: method, seconds, outcome."""
        _warm_up(self.methods)
        rng = self.rng(cell, number)
        data = _PRESETS[cell["p"]](cell["E"], rng, strength=cell["strength"]).sample(cell["n"], rng)
        used = [_name_at(name, cell["p"]) for name in self.methods]
        shared = TimedScreening.of(data, used)
        return [
            {"method": name} | timed(at_p, data, self.seed_of(cell, number, at_p), shared)
            for name, at_p in zip(self.methods, used, strict=True)
        ]

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per method and point: median and quartiles of the seconds, and the paper's
        median."""
        published = {
            (name, *point): value
            for name in PAPER
            for point, value in zip(POINTS, PAPER[name], strict=True)
        }
        lines = []
        for name in self.methods:
            for p, n, n_environments in self.points:
                chosen = results[
                    (results["p"] == p) & (results["n"] == n) & (results["E"] == n_environments)
                ]
                seconds = chosen.loc[chosen["method"] == name, "seconds"]
                low, median, high = np.quantile(seconds, (0.25, 0.5, 0.75))
                lines.append(
                    {
                        "method": name,
                        "p": p,
                        "n": n,
                        "E": n_environments,
                        "seconds": median,
                        "lower_quartile": low,
                        "upper_quartile": high,
                        "paper": published.get((name, p, n, n_environments), np.nan),
                    }
                )
        return pd.DataFrame(lines)

    def tables(self, results: pd.DataFrame) -> list[Table]:
        table = self.table(results)
        wide = {"": [_labelled(name) for name in self.methods]}
        for p, n, n_environments in self.points:
            chosen = table[(table["p"] == p) & (table["n"] == n) & (table["E"] == n_environments)]
            wide[f"p={p} n={n} E={n_environments}"] = [
                _rounded(seconds) if np.isnan(paper) else f"{_rounded(seconds)} ({paper:g})"
                for seconds, paper in zip(chosen["seconds"], chosen["paper"], strict=True)
            ]
        return [
            Table(
                "Median seconds on one thread; in brackets the paper's, with eight threads",
                pd.DataFrame(wide),
            )
        ]

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        table = self.table(results)
        figure, axes = panels(1, 2, 8.6, 4.2, sharey=True)
        ten = table[table["p"] == 10]
        for ax, axis, chosen, label in (
            (axes[0, 0], "n", ten[ten["E"] == 5], "rows per environment, n (E = 5)"),
            (axes[0, 1], "E", ten[ten["n"] == 200], "environments, E (n = 200)"),
        ):
            for name in self.methods:
                rows = chosen[chosen["method"] == name].sort_values(axis)
                style = METHODS[name]
                marker = "s" if name == "BIP-VI" else "o"
                ax.plot(
                    rows[axis],
                    rows["seconds"],
                    color=style.color,
                    marker=marker,
                    markersize=4,
                    label=_labelled(name),
                )
                ax.plot(rows[axis], rows["paper"], color=style.color, linestyle=":", linewidth=1.2)
            numbered_axis(ax, sorted(set(chosen[axis])), label)
            ax.set_yscale("log")
        axes[0, 0].set_ylabel("median seconds per fit")
        shared_legend(
            figure, axes[0, 0], 3, "solid: one thread here; dotted: the paper, eight threads"
        )
        return [Picture("seconds", "Median seconds per fit with 10 features.", figure)]

    def reading(self, results: pd.DataFrame) -> list[str]:
        table = self.table(results)
        said = []
        for name in self.methods:
            rows = table[table["method"] == name]
            seconds = (
                f"{_labelled(name)}: {_rounded(rows['seconds'].min())} to "
                f"{_rounded(rows['seconds'].max())} seconds"
            )
            ratio = (rows["paper"] / rows["seconds"]).dropna()
            times = f"reports {ratio.min():.2g} to {ratio.max():.0f} times as much"
            said.append(
                f"{seconds}; the paper, with eight threads, {times}."
                if len(ratio)
                else f"{seconds}."
            )
            failed = results.loc[results["method"] == name, "outcome"] == "failed"
            if failed.any():
                said[-1] += (
                    f" No result in {failed.sum()} of {len(failed)} fits, whose seconds count."
                )
        return said


def timed(name: str, data: MultiEnvironmentData, seed: int, shared: TimedScreening | None) -> Row:
    """seconds: of the fit, with the screening where there is one; of BIP until the posterior is
    there, without the verdict on it and the choice of a predictor, which the paper does not have;
    outcome: "posterior" of BIP, or as in `fit_and_score`
    """
    model = METHODS[name].build(seed)
    inner = model.estimator if isinstance(model, Screened) else model
    if not isinstance(inner, BIP):
        row = fit_and_score(name, data, seed, shared)
        return {"seconds": row["seconds"], "outcome": row["outcome"]}
    before = 0.0
    if isinstance(model, Screened) and shared is not None:
        data = data.narrowed(shared.screening.kept)
        before = shared.seconds
    started = time.process_time()
    outcome = "posterior"
    try:
        settings = FitSettings.of(inner, np.random.default_rng(seed))
        settings.findings(settings.target(data), progress=False)
    except (ValueError, EngineError, np.linalg.LinAlgError):
        outcome = "failed"
    return {"seconds": before + time.process_time() - started, "outcome": outcome}


def _name_at(name: str, p: int) -> str:
    """Where there are many features, the method behind a screen if there is such a method."""
    return f"{name}-screen" if p != 10 and f"{name}-screen" in METHODS else name


def _labelled(name: str) -> str:
    """The two configurations of BIP-VI, told apart."""
    return {"BIP-VI": "BIP-VI (default engine)", "BIP-VI-two-starts": "BIP-VI (two starts)"}.get(
        name, name
    )


@cache
def _warm_up(methods: tuple[str, ...]) -> None:
    """Load the compiled code of every method, which the first fit in a process would be charged
    for."""
    rng = np.random.default_rng(0)
    data = p10(2, rng).sample(50, rng)
    for name in methods:
        timed(name, data, 0, None)


def _rounded(seconds: float) -> str:
    return "" if np.isnan(seconds) else f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


def at_scale(name: str, scale: str, **changes: Any) -> Cost:
    check_methods(changes.get("methods", ()), METHODS)
    return Cost(**({"scale": scale, "replicates": 3 if scale == "paper" else 1} | changes))
