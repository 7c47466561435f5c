"""All subsets of some features under the linear Gaussian model, in compiled code.

From second moments, and from the rows where those cannot decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.subsets import as_lists
from ..kernels.active_set import Scoring
from ..kernels.block_gibbs import block_log_ratios
from ..kernels.combinations import score_extensions
from ..kernels.subset_cholesky import score_subsets
from ..kernels.subset_tree import reciprocal_pivot, score_block, sweep_in_place
from .base import NDArray32

LOW_FEATURES = 14


@dataclass(frozen=True, eq=False)
class GaussianWalk:
    """grams (G, f+1, f+1): scaled second moments of f features and the outcome (last) in E environments and the pool,
    after regression on what is always in; absent (G, f+1): constant in that group.

    forced (k,), free (f,): columns; scoring: what the rows decide with; from_rows: whether they are at hand.
    """

    grams: Floats
    absent: Mask
    scoring: Scoring
    forced: Integers
    free: Integers
    from_rows: bool

    @classmethod
    def of(cls, scoring: Scoring, forced: Integers, free: Integers, from_rows: bool) -> GaussianWalk:
        columns = np.concatenate([forced, free, [scoring.outcome]]).astype(np.intp)
        scale = scoring.inverse_scale[:, columns]
        grams = scoring.scatter[:, columns[:, None], columns] * scale[:, :, None] * scale[:, None, :]
        absent = scale == 0.0
        k = len(forced)
        for g, gram in enumerate(grams):
            for j in range(k):
                reciprocal = reciprocal_pivot(gram[j, j], absent[g, j], scoring.tolerance)
                sweep_in_place(gram, j, len(columns) - 1, reciprocal)
        reduced = np.ascontiguousarray(grams[:, k:, k:])
        return cls(reduced, np.ascontiguousarray(absent[:, k:]), scoring, forced, free, from_rows)

    @property
    def n_features(self) -> int:
        return len(self.free)

    @property
    def n_low(self) -> int:
        return min(self.n_features, LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        log_ratio = np.empty(1 << self.n_low)
        prefix = int(np.sum(1 << (high - self.n_low))) if len(high) else 0
        score_block(self.grams, self.absent, *self._terms, prefix, self.n_low, log_ratio)
        if self.from_rows and np.isnan(log_ratio).any():
            unknown = np.flatnonzero(np.isnan(log_ratio))
            unknown = unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]
            if len(unknown):
                decided = np.empty(1 << self.n_low)
                fixed = np.sort(np.concatenate([self.forced, self.free[high]]))
                block_log_ratios(self.scoring, fixed, self.free[: self.n_low], decided)
                log_ratio[unknown] = decided[unknown]
        return log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        log_ratio = np.empty(len(members))
        score_extensions(self.grams, self.absent, *self._terms, prefix, max_size, members, log_ratio)
        if self.from_rows:
            unknown = np.flatnonzero(np.isnan(log_ratio))
            unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
            log_ratio[unknown] = self._from_rows(members[unknown])
        return log_ratio

    @property
    def _terms(self) -> tuple[Floats, float, float]:
        return self.scoring.weights, self.scoring.offset, self.scoring.tolerance

    def _from_rows(self, members: NDArray32) -> Floats:
        """(n,) log Λ of subsets given by their members (n, k), -1 beyond the last"""
        masks = np.zeros((len(members), self.n_features + 1), dtype=bool)
        masks[np.arange(len(members))[:, None], members] = True
        always = np.ones((len(masks), len(self.forced)), bool)
        starts, chosen = as_lists(np.column_stack([always, masks[:, :-1]]))
        log_ratio = np.empty(len(members))
        score_subsets(self.scoring, np.nan, starts, np.concatenate([self.forced, self.free])[chosen], log_ratio)
        return log_ratio
