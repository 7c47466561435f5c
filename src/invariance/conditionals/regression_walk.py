"""All subsets of some features under a regression, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.newton.rows import Rows, Work, work_for
from ..kernels.newton.walk import score_dense, score_lists
from .base import NDArray32
from .figures import Figures

_LOW_FEATURES = 10
_MOST_REMEMBERED = 1 << 21


@dataclass(frozen=True, eq=False)
class RegressionWalk:
    """rows: their columns are those that are always in, n_always of them, and those of f features: feature j has the
    columns starts[j]:starts[j + 1] (f + 1,). beginning (E + 1, n_always + r): where fits without features start;
    tolerance: see `kernels.newton.maximise`; needed (f, E): columns of a feature that vary in an environment;
    room (E,): how many of them its rows can fit; profiled: see `Figures`.

    What was walked is remembered, while it is not too much: who decides after an enumeration need not walk again.
    """

    rows: Rows
    starts: Integers
    n_always: int
    beginning: Floats
    tolerance: float
    needed: Integers
    room: Integers
    profiled: Integers | int = 0
    remembered: dict[Any, Figures] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"remembered": {}}

    @property
    def n_features(self) -> int:
        return len(self.starts) - 1

    @property
    def n_low(self) -> int:
        return min(self.n_features, _LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        return self.dense_figures(high).log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        return self.listed_figures(prefix, max_size, sizes, members).log_ratio

    def dense_figures(self, high: Integers) -> Figures:
        """(2**n_low,) each; log Λ is NaN where a subset has too many columns."""
        return self._once(tuple(high.tolist()), lambda: self._walked(high))

    def listed_figures(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Figures:
        """(n,) each, and `members` filled as in `listed`; NaN also where a size does not count."""
        masks = self.list_members(prefix, max_size, members)
        wanted = sizes[masks.sum(axis=1)] & self._fits(masks.astype(np.int64) @ self.needed)
        key = tuple(prefix.tolist()), max_size, sizes.tobytes()
        return self._once(key, lambda: self._one_by_one(masks, wanted))

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> Mask:
        """Only fill `members`, as `listed` does; (n, f) the same subsets"""
        first = int(prefix[-1]) + 1 if len(prefix) else 0
        members[:, :] = -1
        masks = np.zeros((len(members), self.n_features), dtype=bool)
        later = range(first, self.n_features)
        more = chain.from_iterable(combinations(later, k) for k in range(max_size - len(prefix) + 1))
        for row, extension in enumerate(more):
            subset = [*prefix.tolist(), *extension]
            members[row, : len(subset)] = subset
            masks[row, subset] = True
        return masks

    def _once(self, key: Any, walk: Callable[[], Figures]) -> Figures:
        known = self.remembered.get(key)
        if known is None:
            known = walk()
            held = sum(len(figures.pooled) for figures in list(self.remembered.values()))
            if held + len(known.pooled) <= _MOST_REMEMBERED:
                self.remembered[key] = known
        return known

    def _walked(self, high: Integers) -> Figures:
        n = 1 << self.n_low
        low = np.arange(n)[:, None] >> np.arange(self.n_low) & 1
        fits = self._fits(self.needed[high].sum(axis=0) + low @ self.needed[: self.n_low])
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
        return Figures.of(np.where(fits, log_ratio, np.nan), pooled, ranks, self.profiled)

    def _fits(self, needed: Integers) -> Mask:
        """(S,) whether every environment has rows enough for so many columns (S, E)"""
        return np.asarray((needed <= self.room).all(axis=1))

    def _one_by_one(self, masks: Mask, wanted: Mask) -> Figures:
        n, groups, most = int(wanted.sum()), len(self.rows.starts), len(self.rows.columns) + self.beginning.shape[1]
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, groups), np.int64)
        score_lists(
            self.rows,
            masks[wanted],
            self.starts,
            np.arange(self.n_always),
            self.beginning,
            self.tolerance,
            self._work,
            log_ratio,
            pooled,
            ranks,
            np.empty((n, groups, most)),
        )
        every = np.full((len(Figures._fields), len(masks)), np.nan)
        every[:, wanted] = Figures.of(log_ratio, pooled, ranks, self.profiled)
        return Figures(*every)

    @property
    def _work(self) -> Work:
        return work_for(self.rows, len(self.rows.columns) + self.beginning.shape[1])
