"""All subsets of some features under the linear Gaussian model, in compiled code.

From second moments, and from the rows where those cannot decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.subsets import as_lists
from ..kernels.active_set import Scoring
from ..kernels.by_size import (
    grouped_block_log_ratios,
    score_grouped_block,
    score_grouped_extensions,
    score_subsets,
)
from ..kernels.feature_order import feature_starts, low_features
from ..kernels.plain.tree import swept
from .base import NDArray32


class DecidesByRows(Protocol):
    def scoring_by_rows(self) -> Scoring: ...


@dataclass(frozen=True, eq=False)
class GaussianWalk:
    """grams (G, q+1, q+1): scaled second moments of the columns of f features and of the outcome (last) in E
    environments and the pool, after regression on what is always in; absent (G, q+1): not present in that group.

    forced (k,), free (q,): columns; starts (f+1,): feature j is free[starts[j]:starts[j+1]]; n_low: features of a dense
    block; scoring: of second moments; by_rows: what has the rows, if they are at hand.
    """

    grams: Floats
    absent: Mask
    scoring: Scoring
    forced: Integers
    free: Integers
    starts: Integers
    n_low: int
    by_rows: DecidesByRows | None

    @classmethod
    def of(
        cls, scoring: Scoring, forced: Integers, free: Integers, widths: Integers, by_rows: DecidesByRows | None
    ) -> GaussianWalk:
        """widths (f,): how many of the columns `free` each feature has"""
        columns = np.concatenate([forced, free, [scoring.outcome]]).astype(np.intp)
        scale = scoring.inverse_scale[:, columns]
        grams = scoring.scatter[:, columns[:, None], columns] * scale[:, :, None] * scale[:, None, :]
        absent = scale == 0.0
        k = len(forced)
        for j in range(k):
            grams = swept(grams[..., None], absent[:, j], scoring.tolerance)[..., 0]
        if k:
            # The walk may take columns in another order, and must find the same there.
            upper = np.triu(grams)
            grams = upper + np.triu(upper, 1).transpose(0, 2, 1)
        grams, absent = np.ascontiguousarray(grams), np.ascontiguousarray(absent[:, k:])
        return cls(grams, absent, scoring, forced, free, feature_starts(widths), low_features(widths), by_rows)

    @property
    def n_features(self) -> int:
        return len(self.starts) - 1

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        log_ratio = np.empty(1 << self.n_low)
        prefix = int(np.sum(1 << (high - self.n_low))) if len(high) else 0
        score_grouped_block(self.grams, self.absent, *self._terms, self.starts, prefix, self.n_low, log_ratio)
        if self.by_rows is not None and np.isnan(log_ratio).any():
            unknown = np.flatnonzero(np.isnan(log_ratio))
            unknown = unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]
            if len(unknown):
                decided = np.empty(1 << self.n_low)
                parts = [self.forced, *(self.free[self.starts[j] : self.starts[j + 1]] for j in high)]
                low = self.starts[: self.n_low + 1]
                fixed = np.sort(np.concatenate(parts))
                grouped_block_log_ratios(self.by_rows.scoring_by_rows(), fixed, low, self.free[: low[-1]], decided)
                log_ratio[unknown] = decided[unknown]
        return log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        log_ratio = np.empty(len(members))
        score_grouped_extensions(
            self.grams, self.absent, *self._terms, self.starts, prefix, max_size, members, log_ratio
        )
        if self.by_rows is not None:
            unknown = np.flatnonzero(np.isnan(log_ratio))
            unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
            if len(unknown):
                log_ratio[unknown] = self._decided(self.by_rows.scoring_by_rows(), members[unknown])
        return log_ratio

    @property
    def _terms(self) -> tuple[Floats, float, float]:
        return self.scoring.weights, self.scoring.offset, self.scoring.tolerance

    def _decided(self, scoring: Scoring, members: NDArray32) -> Floats:
        """(n,) log Λ of subsets given by their members (n, k), -1 beyond the last"""
        masks = np.zeros((len(members), self.n_features + 1), dtype=bool)
        masks[np.arange(len(members))[:, None], members] = True
        always = np.ones((len(masks), len(self.forced)), bool)
        columns = np.repeat(masks[:, :-1], np.diff(self.starts), axis=1)
        starts, chosen = as_lists(np.column_stack([always, columns]))
        log_ratio = np.empty(len(members))
        score_subsets(scoring, np.nan, starts, np.concatenate([self.forced, self.free])[chosen], log_ratio)
        return log_ratio
