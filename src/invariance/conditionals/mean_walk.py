"""All subsets of some features under the linear Gaussian model whose environments have variances of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.feasible_least_squares import walk_extensions
from ..kernels.feature_order import feature_starts
from .base import NDArray32

if TYPE_CHECKING:
    from .mean_gaussian import MeanGaussian

_LOW_FEATURES = 10


@dataclass(frozen=True, eq=False)
class MeanWalk:
    """free (f,), forced (k,): features. From second moments, and from the rows where those cannot decide."""

    model: MeanGaussian
    free: Integers
    forced: Integers

    @property
    def n_features(self) -> int:
        return len(self.free)

    @property
    def n_low(self) -> int:
        return min(self.n_features, _LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        members = np.empty((1 << self.n_low, self.n_low), np.int32)
        values = self._extended(high, 0, self.n_low, sizes[len(high) :], members)
        codes = np.where(members >= 0, 1 << members, 0).sum(axis=1)
        log_ratio = np.empty(len(values))
        log_ratio[codes] = values
        return log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        first, most = int(prefix[-1]) + 1 if len(prefix) else 0, max_size - len(prefix)
        more = np.empty((len(members), most), np.int32)
        values = self._extended(prefix, first, self.n_features, sizes[len(prefix) :], more)
        members[:] = -1
        members[:, : len(prefix)] = prefix
        members[:, len(prefix) : max_size] = more
        return values

    def _extended(self, fixed: Integers, first: int, stop: int, sizes: Mask, members: NDArray32) -> Floats:
        """(n,) of the features `fixed` joined by some of first:stop, up to as many as `members` (n, k) can hold, which
        is filled with these; sizes (k + 1,), or more: which numbers of them count"""
        always, columns = self.model.columns_of(np.append(self.forced, self.free[fixed])), self._columns
        ratios, gains = np.empty((2, len(members)))
        arguments = always, columns, self._starts, first, stop, members.shape[1], sizes, members, ratios, gains
        walk_extensions(self.model.local_moments, *arguments)
        values = self.model.rewarded(ratios, gains)
        if self.model.has_rows and np.isnan(values).any():
            unknown = np.flatnonzero(np.isnan(values))
            unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
            chosen = np.zeros((len(unknown), self.n_features + 1), dtype=bool)
            chosen[np.arange(len(unknown))[:, None], members[unknown]] = True
            masks = np.zeros((len(unknown), self.model.n_features), dtype=bool)
            masks[:, self.free] = chosen[:, :-1]
            masks[:, np.append(self.forced, self.free[fixed])] = True
            values[unknown] = self.model.values_from_rows(masks)
        return values

    @property
    def _columns(self) -> Integers:
        return self.model.columns_of(self.free)

    @property
    def _starts(self) -> Integers:
        return feature_starts(self.model.free_columns[self.free])
