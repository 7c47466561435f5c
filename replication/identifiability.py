"""Two invariant subsets in two environments, one in three (the paper's examples 1-3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from invariance._tools.plotting import BLUE, GREEN
from invariance.models.gaussian import LinearGaussian
from invariance.moments.moments import Moments
from invariance.simulation import StructuralModel, example_2

from .heterogeneity import all_subsets
from .runs import Cell, Picture, Row, Study, grid, mean_band, panels
from .simulators import example_1, example_3

_EXAMPLES: dict[int, Callable[[int], StructuralModel]] = {1: example_1, 2: example_2, 3: example_3}
# Columns of a row, by the bit pattern of the subset (bit 0 is x1).
SUBSETS = ("z00", "z10", "z01", "z11")
_NAMES = ("[0,0]", "[1,0]", "[0,1]", "[1,1]")
TRUTH = {1: "z10", 2: "z11", 3: "z10"}
# A subset counts as a mode of the mean posterior from here on: far above what a subset that is not
# invariant gets.
MODE = 0.05


@dataclass(frozen=True, kw_only=True)
class Identifiability(Study):
    """The posterior over the four subsets of two features, with n rows per environment."""

    choice: ClassVar[frozenset[str]] = Study.choice | {"examples", "environments"}
    per_task: ClassVar[int] = 100

    examples: tuple[int, ...] = (1, 2, 3)
    environments: tuple[int, ...] = (2, 3)
    n: int = 200

    @property
    def name(self) -> str:
        return "identifiability"

    @property
    def title(self) -> str:
        return "Identifiability under limited environments, p = 2 features"

    def cells(self) -> tuple[Cell, ...]:
        return grid(example=self.examples, E=self.environments)

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row: the posterior probability of each subset."""
        data = _EXAMPLES[cell["example"]](cell["E"]).sample(self.n, self.rng(cell, number))
        log_ratio = LinearGaussian().bind(Moments.from_data(data)).log_ratio_many(all_subsets(2))
        weights = np.exp(log_ratio - log_ratio.max())
        return [dict(zip(SUBSETS, (weights / weights.sum()).tolist(), strict=True))]

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per example, E and subset: mean posterior with its interval."""
        lines = []
        for (example, n_environments), rows in results.groupby(["example", "E"]):
            for subset, name in zip(SUBSETS, _NAMES, strict=True):
                mean, low, high = mean_band(rows[subset], high=1.0)
                lines.append(
                    {
                        "example": example,
                        "E": n_environments,
                        "subset": name,
                        "posterior": mean,
                        "low": low,
                        "high": high,
                        "is_mode": mean >= MODE,
                        "is_truth": subset == TRUTH[int(str(example))],
                    }
                )
        return pd.DataFrame(lines)

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        table = self.table(results)
        rows = len(self.examples)
        columns = len(self.environments)
        figure, axes = panels(
            rows, columns, 3.0 * columns + 0.6, 2.1 * rows + 0.4, sharey=True, sharex=True
        )
        for row, example in zip(axes, self.examples, strict=True):
            for ax, n_environments in zip(row, self.environments, strict=True):
                chosen = table[(table["example"] == example) & (table["E"] == n_environments)]
                error = [chosen["posterior"] - chosen["low"], chosen["high"] - chosen["posterior"]]
                colors = [GREEN if true else BLUE for true in chosen["is_truth"]]
                ax.bar(
                    chosen["subset"],
                    chosen["posterior"],
                    yerr=error,
                    width=0.62,
                    color=colors,
                    capsize=3,
                    zorder=2,
                )
                ax.set_title(f"example {example}, E = {n_environments}", fontsize="medium")
                ax.set_ylim(0.0, 1.02)
                ax.grid(visible=False, axis="x")
            row[0].set_ylabel("posterior")
        for ax in axes[-1]:
            ax.set_xlabel("subset z = [x1, x2]")
        caption = (
            f"Mean posterior of the four subsets, n = {self.n} per environment; the truth is "
            "green, whiskers are 95% "
            "intervals."
        )
        return [Picture("posterior", caption, figure)]

    def reading(self, results: pd.DataFrame) -> list[str]:
        table = self.table(results)
        said = []
        for example in self.examples:
            parts = []
            for n_environments in self.environments:
                chosen = table[
                    (table["example"] == example)
                    & (table["E"] == n_environments)
                    & table["is_mode"]
                ]
                modes = " and ".join(
                    f"{name} ({mean:.3f})"
                    for name, mean in zip(chosen["subset"], chosen["posterior"], strict=True)
                )
                count = f"{len(chosen)} mode{'' if len(chosen) == 1 else 's'}"
                parts.append(f"{count} with {n_environments} environments, {modes}")
            truth = _NAMES[SUBSETS.index(TRUTH[example])]
            said.append(f"Example {example} (truth {truth}): {'; '.join(parts)}.")
        return said


def at_scale(name: str, scale: str, **changes: Any) -> Identifiability:
    return Identifiability(
        **({"scale": scale, "replicates": 1000 if scale == "paper" else 200} | changes)
    )
