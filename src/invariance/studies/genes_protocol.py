"""Which samples a fit of the gene study sees, and what the samples that it does not see say about its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..simulation.knockouts import Deletions

# The targets of the paper's table, of which the first has the paper's picture.
PAPER_TARGETS = (
    *("YMR103C", "YMR321C", "YCL042W", "YLL020C", "YPL240C", "YBR126C", "YMR173W-A", "YGR264C", "YJL077C", "YLR170C"),
)
# Outside these quantiles among wild types a gene has moved.
BAND = (0.01, 0.99)
VALIDATED, NO_EFFECT, UNCHECKED = "validated", "no effect", "cannot be checked"


@dataclass(frozen=True, eq=False)
class Split:
    """Deletions in blocks, each of which is held out once. block : (n,) of every sample, -1 for wild types."""

    deletions: Deletions
    block: Integers

    @classmethod
    def of(cls, deletions: Deletions, n_blocks: int, rng: np.random.Generator) -> Split:
        """Blocks of nearly equal numbers of deleted genes; all samples that lack a gene are in one block."""
        genes = sorted({gene for gene in deletions.deleted if gene is not None})
        if len(genes) < n_blocks:
            raise DataError(f"{len(genes)} deleted genes cannot be split into {n_blocks} blocks.")
        block_of: dict[str | None, int] = {None: -1}
        block_of |= {genes[place]: i % n_blocks for i, place in enumerate(rng.permutation(len(genes)))}
        return cls(deletions, np.array([block_of[gene] for gene in deletions.deleted]))

    def held_out(self, fold: int) -> Mask:
        """(n,) the samples that no fit of this fold sees"""
        return self.block == fold

    def training(self, target: str, fold: int) -> Mask:
        """(n,) all wild types and the other blocks, without samples that perturb the target"""
        chosen = ~self.held_out(fold)
        chosen[self.deletions.deleting(target)] = False
        return chosen

    def fold_of(self, gene: str) -> int | None:
        """The fold that holds out the deletion of a gene; None where it was not deleted."""
        rows = self.deletions.deleting(gene)
        return int(self.block[rows[0]]) if len(rows) else None


def training_data(deletions: Deletions, target: str, rows: Mask) -> MultiEnvironmentData:
    """The target as outcome of all other genes that vary in these samples, in two environments."""
    values = deletions.values[rows]
    used = np.ptp(values, axis=0) > 0.0
    place = deletions.place[target]
    if not used[place]:
        raise DataError(f"the target {target!r} is constant in the {len(values)} samples that it is fitted to.")
    used[place] = False
    names = tuple(gene for gene, flag in zip(deletions.genes, used, strict=True) if flag)
    return MultiEnvironmentData.from_arrays(
        values[:, used], values[:, place], deletions.environments[rows], feature_names=names, outcome_name=target
    )


@dataclass(frozen=True, eq=False)
class Effects:
    """What the deletions did.

    low, high : (d,) the band of each gene among wild types
    deleted : D genes, each once; moved : (D, d) whether the deletion of a gene took another outside its band, by the
        mean where several samples lack that gene
    """

    deletions: Deletions
    low: Floats
    high: Floats
    deleted: tuple[str, ...]
    moved: Mask

    @classmethod
    def of(cls, deletions: Deletions) -> Effects:
        low, high = np.quantile(deletions.values[deletions.wild_type], BAND, axis=0)
        deleted = tuple(dict.fromkeys(gene for gene in deletions.deleted if gene is not None))
        levels = np.array([deletions.values[deletions.deleting(gene)].mean(axis=0) for gene in deleted])
        return cls(deletions, low, high, deleted, (levels < low) | (levels > high))

    @cached_property
    def successful(self) -> Mask:
        """(D,) whether the deleted gene itself left its band; never where it is not measured"""
        place = self.deletions.place
        return np.array([gene in place and self.moved[i, place[gene]] for i, gene in enumerate(self.deleted)])

    @cached_property
    def _row(self) -> dict[str, int]:
        return {gene: i for i, gene in enumerate(self.deleted)}

    def verdict(self, gene: str, target: str) -> str:
        """What the deletion of a gene says about it as a cause of the target."""
        row = self._row.get(gene)
        if row is None or not self.successful[row]:
            return UNCHECKED
        return VALIDATED if self.moved[row, self.deletions.place[target]] else NO_EFFECT

    def checks(self, target: str, features: tuple[str, ...], rows: Mask) -> tuple[Mask, Mask]:
        """Of p features: which can be checked by a successful deletion in these samples, and which of them move the
        target.
        """
        lacking = {gene for gene, flag in zip(self.deletions.deleted, rows, strict=True) if flag}
        verdicts: NDArray[np.str_] = np.array(
            [self.verdict(gene, target) if gene in lacking else UNCHECKED for gene in features]
        )
        return verdicts != UNCHECKED, verdicts == VALIDATED
