"""All subsets of some features under a regression, in compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.newton.rows import Rows, Work, work_for
from ..kernels.newton.walk import score_dense, score_lists
from .base import NDArray32

_LOW_FEATURES = 10


@dataclass(frozen=True, eq=False)
class RegressionWalk:
    """rows: their columns are those that are always in, n_always of them, and those of f features: feature j has the
    columns starts[j]:starts[j + 1] (f + 1,). beginning (E + 1, n_always + r): where fits without features start;
    tolerance: see `kernels.newton.maximise`; most: columns of a subset that the rows can fit."""

    rows: Rows
    starts: Integers
    n_always: int
    beginning: Floats
    tolerance: float
    most: int

    @property
    def n_features(self) -> int:
        return len(self.starts) - 1

    @property
    def n_low(self) -> int:
        return min(self.n_features, _LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        low = self.starts[: self.n_low + 1]
        width = np.diff(self.starts)
        needed = width[high].sum() + (np.arange(1 << self.n_low)[:, None] >> np.arange(self.n_low) & 1) @ np.diff(low)
        n = len(needed)
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, len(self.rows.starts)), np.int64)
        score_dense(
            self.rows,
            high.astype(np.int64),
            self.n_low,
            self.starts,
            np.arange(self.n_always),
            self.beginning,
            self.tolerance,
            self._work,
            log_ratio,
            pooled,
            ranks,
        )
        return np.where(needed <= self.most, log_ratio, np.nan)

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        first = int(prefix[-1]) + 1 if len(prefix) else 0
        members[:, :] = -1
        masks = np.zeros((len(members), self.n_features), dtype=bool)
        later = range(first, self.n_features)
        more = chain.from_iterable(combinations(later, k) for k in range(max_size - len(prefix) + 1))
        for row, extension in enumerate(more):
            subset = [*prefix.tolist(), *extension]
            members[row, : len(subset)] = subset
            masks[row, subset] = True
        wanted = sizes[masks.sum(axis=1)] & (masks @ np.diff(self.starts) <= self.most)
        n, groups, most = int(wanted.sum()), len(self.rows.starts), len(self.rows.columns) + self.beginning.shape[1]
        values, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, groups), np.int64)
        score_lists(
            self.rows,
            masks[wanted],
            self.starts,
            np.arange(self.n_always),
            self.beginning,
            self.tolerance,
            self._work,
            values,
            pooled,
            ranks,
            np.empty((n, groups, most)),
        )
        log_ratio = np.full(len(members), np.nan)
        log_ratio[wanted] = values
        return log_ratio

    @property
    def _work(self) -> Work:
        return work_for(self.rows, len(self.rows.columns) + self.beginning.shape[1])
