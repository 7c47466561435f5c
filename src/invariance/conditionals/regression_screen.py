"""All subsets of some features that the test of invariance may accept, under a regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .base import NDArray32, Null, Weigh
from .figures import Figures
from .invariance_test import largest_deviance
from .regression_walk import RegressionWalk

# How far a statistic must be above its limit for rounding to be no reason.
_MARGIN = 1.0 + 1e-6


@dataclass(frozen=True, eq=False)
class RegressionScreen:
    """A walk whose values are what subsets weigh; NaN where they cannot be compatible with invariance.

    null: figures → the law of log Λ; error: by how much log Λ of the walk may be off; tolerated: noncentrality
    of −2 log Λ that is no reason against a subset at this level; empty: pooled log-likelihood
    without features; n_forced: columns that are always in; weigh: gain (S,) of the pooled fit and its number of columns
    (S,) → weights (S,).
    """

    walk: RegressionWalk
    null: Callable[[Figures], Null]
    error: float
    tolerated: float
    level: float
    empty: float
    n_forced: int
    weigh: Weigh

    @property
    def n_features(self) -> int:
        return self.walk.n_features

    @property
    def n_low(self) -> int:
        return self.walk.n_low

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        widths = np.diff(self.walk.starts)
        low = np.arange(1 << self.n_low)[:, None] >> np.arange(self.n_low) & 1
        return self._weights(self.walk.dense_figures(high), widths[high].sum() + low @ widths[: self.n_low])

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        figures = self.walk.listed_figures(prefix, max_size, sizes, members)
        widths = np.append(np.diff(self.walk.starts), 0)
        return self._weights(figures, widths[members].sum(axis=1))

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        self.walk.list_members(prefix, max_size, members)

    def _weights(self, figures: Figures, columns: Integers) -> Floats:
        """(S,) of subsets with so many free columns (S,)"""
        possible = ~np.isnan(figures.log_ratio)
        null = self.null(figures)
        tested = possible & (null.variance > 0.0)
        degrees = null.degrees[tested]
        deviance = -2.0 * (figures.log_ratio[tested] + self.error)
        scaled = deviance * degrees / (-2.0 * null.expected[tested])
        distinct, group = np.unique(degrees, return_inverse=True)
        possible[tested] = scaled <= _MARGIN * largest_deviance(distinct, self.tolerated, self.level)[group]
        gain = figures.pooled[possible] - self.empty
        weights = np.full(len(possible), np.nan)
        weights[possible] = self.weigh(gain, self.n_forced + columns[possible])
        return weights
