"""What the gene study costs: seconds per target, and how many subsets each method searches (the
paper's table)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from invariance.data.multi_environment import MultiEnvironmentData
from invariance.priors import UniformPrior

from .genes import Genes, failures_in_words
from .genes import at_scale as at_scale_of_genes
from .genes_methods import GENE_METHODS, SCREENED, Training, published_max_size, training_data
from .knockouts import knockouts
from .runs import Cell, Picture, Row, Table, check_methods

SCREEN = "Lasso"
METHODS = (*(name for name, method in GENE_METHODS.items() if method.paper is not None), SCREEN)
# Seconds of the paper's screen, of which it gives no error.
PAPER_SCREEN = (8.7, np.nan)
_TARGETS = 10
# With so many features all engines take the way that they take with thousands.
_PLENTY = 150


@dataclass(frozen=True, kw_only=True)
class GenesCost(Genes):
    """Mean seconds over targets and seeds of one fold, one target at a time."""

    measures_time: ClassVar[bool] = True

    methods: tuple[str, ...] = METHODS

    @property
    def name(self) -> str:
        return "genes-cost"

    @property
    def title(self) -> str:
        return "Gene deletions: seconds per target on one thread"

    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in super().cells() if cell["fold"] == 0)

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """As in the study of predictions, with compiled code in memory."""
        _warm_up(self.methods, min(len(self.samples[0].genes), _PLENTY))
        return super().replicate(cell, number)

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line for each method, or setting with a fit of its own: mean seconds and standard
        error over targets and seeds, the paper's, and the decimal logarithm of the number of
        subsets that are searched.
        """
        data = self.fitted(self.cells()[0], 0)
        lines = []
        for name in self.methods:
            method = GENE_METHODS[name]
            mean, error = method.paper or PAPER_SCREEN
            for setting in method.settings if method.separate else method.settings[:1]:
                chosen = results[(results["method"] == name) & (results["setting"] == setting)]
                lines.append(
                    {
                        "method": f"{name} {setting}" if method.separate else name,
                        "screened": method.shares == "lasso" and name != SCREEN,
                        "seconds": chosen["seconds"].mean(),
                        "error": chosen["seconds"].sem(),
                        "runs": len(chosen),
                        "paper": mean,
                        "paper_error": error,
                        "log10_sets": _log10(candidate_sets(name, data)),
                    }
                )
        return pd.DataFrame(lines)

    def tables(self, results: pd.DataFrame) -> list[Table]:
        lines = [
            {
                "method": "the screen alone" if line["method"] == SCREEN else line["method"],
                "candidate sets": _power(line["log10_sets"]),
                "seconds": _with_error(line["seconds"], line["error"]),
                "the paper's": _published(line["paper"], line["paper_error"]),
            }
            for line in self.table(results).to_dict("records")
        ]
        n_targets = len(results[["panel", "target"]].drop_duplicates())
        title = (
            f"Seconds, mean ± standard error over targets ({n_targets}) × seeds "
            f"({self.replicates}), one fold, on one "
            "thread, with the screen where there is one; the paper's with 8 threads, 6,169 "
            "features, 1,479 deletions"
        )
        return [Table(title, pd.DataFrame(lines))]

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        return []

    def reading(self, results: pd.DataFrame) -> list[str]:
        data = self.fitted(self.cells()[0], 0)
        said = ["A simulated network, not the yeast."] if self.data is None else []
        fewer, more = sorted(data.counts.tolist())
        said.append(
            f"{data.n_features:,} features, {fewer} and {more} samples in the two environments, "
            f"{self.iterations:,} "
            f"iterations of BIP-VI over subsets of at most {published_max_size(data)} genes."
        )
        table = self.table(results).set_index("method")
        slowest = table.loc[table["screened"], ["seconds", "paper"]].max()
        for name, what in ((SCREEN, "The screen"), ("BIP-VI", "BIP-VI")):
            if name in self.methods and slowest.notna().all():
                here, there = table.loc[name, ["seconds", "paper"]] / slowest
                said.append(
                    f"{what}: {here:.2g} times the slowest screened method ({there:.2g} in the "
                    "paper)."
                )
        return [*said, *failures_in_words(results)]


def candidate_sets(name: str, data: MultiEnvironmentData) -> int:
    """How many subsets a method searches: those of the screened genes, those of the prior, or each
    gene by itself; 0 for the screen, which searches none.
    """
    if name == SCREEN:
        return 0
    if GENE_METHODS[name].shares == "lasso":
        return 1 << min(SCREENED, data.n_features)
    if name == "Marginal":
        return data.n_features
    return UniformPrior(max_size=published_max_size(data)).bind(data.feature_names).support_size()


def _log10(sets: int) -> float:
    return math.log10(sets) if sets else math.nan


def _power(log10: float) -> str:
    if np.isnan(log10):
        return ""
    return f"{10**log10:,.0f}" if log10 < 6 else f"10^{log10:.0f}"


def _with_error(seconds: float, error: float) -> str:
    return f"{seconds:.3g}" if np.isnan(error) else f"{seconds:.3g} ± {error:.2g}"


def _published(seconds: float, error: float) -> str:
    return f"{seconds:g}" if np.isnan(error) else f"{seconds:g} ± {error:g}"


@cache
def _warm_up(methods: tuple[str, ...], genes: int) -> None:
    """Load the compiled code of every method, which the first fit in a process would be charged
    for."""
    samples = knockouts(genes, 40, max(genes // 2, 1), pairs=0).data
    training = Training(
        training_data(samples, samples.genes[0], np.full(len(samples.samples), True)), 0, 20
    )
    for name in methods:
        GENE_METHODS[name].answer(training)


def at_scale(name: str, scale: str, **changes: Any) -> Genes:
    check_methods(changes.get("methods", ()), METHODS)
    settings = {"targets": _TARGETS, "replicates": 3 if scale == "paper" else 1}
    return at_scale_of_genes(name, scale, kind=GenesCost, **(settings | changes))
