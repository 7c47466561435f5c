"""All subsets of some features that the tests of invariance may accept, under the linear Gaussian model.

A subset is left out only where its F statistic, or Bartlett's, is so large that it cannot be compatible, whatever the
other one is and however heavy the tails are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f, ncf, ncx2

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Features
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.by_size import screen_grouped_block
from ..kernels.screen import POSSIBLE, UNDECIDABLE
from ..moments.moments import Moments
from .base import NDArray32, Weigh
from .gaussian_walk import GaussianWalk
from .invariance_test import Residuals, spread_statistics
from .pivots import PIVOT_TOLERANCE
from .tolerance import Tolerance

# How far a statistic must be above its limit for rounding to be no reason.
_MARGIN = 1.0 + 1e-6
_MOST_SUBSETS = 1 << 16


class Screened(Protocol):
    """What a screen asks of a model."""

    moments: Moments

    @property
    def features(self) -> Features: ...

    @property
    def has_rows(self) -> bool: ...

    def residuals(self, masks: Mask) -> Residuals: ...


@dataclass(frozen=True, eq=False)
class Limits:
    """mean (r, m): largest F statistic of a compatible subset, by its rank in the pool and by how much less those in
    the E environments are in sum than E times that; inf where none has such ranks, as in the last column. spread:
    largest statistic of Bartlett's test."""

    mean: Floats
    spread: float

    @classmethod
    def of(cls, moments: Moments, tolerance: Tolerance, data: MultiEnvironmentData | None) -> Limits:
        # By Fisher's rule the product of both p-values is at least this, and so is each of them.
        smallest = float(np.exp(-0.5 * chi2.isf(tolerance.level, 4)))
        heaviest = _heaviest(moments) if data is None else largest_excess_kurtosis(data, moments)
        mean = _mean_limits(moments, tolerance.delta, smallest)
        return cls(_MARGIN * mean, _MARGIN * _spread_limit(moments, tolerance.tau, smallest, heaviest))

    def allow(self, residuals: Residuals) -> Mask:
        """(S,) whether both statistics are within the limits"""
        rss, ranks = residuals.rss, residuals.ranks
        left = residuals.freedom[:, :-1].sum(axis=1)
        between = residuals.freedom[:, -1] - left
        local = rss[:, :-1].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(between > 0.0, (rss[:, -1] - local) / between / (local / left), 0.0)
        missing = (ranks[:, -1:] - ranks[:, :-1]).sum(axis=1)
        allowed = statistic <= self.mean[ranks[:, -1], np.minimum(missing, self.mean.shape[1] - 1)]
        if rss.shape[1] > 2:
            allowed &= spread_statistics(residuals) <= self.spread
        return np.asarray(allowed & ~np.isnan(rss).any(axis=1))


def _mean_limits(moments: Moments, delta: float, smallest: float) -> Floats:
    environments, widths = moments.n_environments, moments.varying_widths
    fewer = (widths[-1] - widths[:-1]).sum(axis=0)
    reached = np.zeros((widths[-1].sum() + 1, fewer.sum() + 2), dtype=bool)
    reached[0, 0] = True
    for width, less in zip(widths[-1], fewer, strict=True):
        pooled, missing = np.nonzero(reached)
        reached[pooled + width, missing + less] = True
    pooled, missing = np.nonzero(reached)
    left = moments.n_rows - environments * (1.0 + pooled) + missing
    between = moments.n_rows - 1.0 - pooled - left
    tested = (between > 0.0) & (left > 0.0)
    between, left, allowed = between[tested], left[tested], moments.n_rows * delta
    found = ncf.isf(smallest, between, left, allowed) if delta > 0.0 else f.isf(smallest, between, left)
    limits = np.full(reached.shape, np.inf)
    limits[pooled[tested], missing[tested]] = np.where(np.isnan(found), np.inf, found)
    return limits


def _spread_limit(moments: Moments, tau: float, smallest: float, heaviest: float) -> float:
    """Where the statistic is at least its noncentrality, its p-value grows with the inflation by heavy tails: it is the
    probability that a normal vector of that variance leaves a ball in which its mean lies."""
    degrees, inflation = moments.n_environments - 1, 1.0 + heaviest / 2.0
    if degrees < 1 or not np.isfinite(inflation):
        return np.inf
    allowed = moments.n_rows * tau**2 / 2.0
    found = ncx2.isf(smallest, degrees, allowed / inflation) if tau > 0.0 else chi2.isf(smallest, degrees)
    return np.inf if np.isnan(found) else max(float(inflation * found), allowed)


def largest_excess_kurtosis(data: MultiEnvironmentData, moments: Moments) -> float:
    """A bound for the residuals of all subsets with own intercepts; inf where columns nearly depend on each other.

    Residuals are r = Zb, with Z'Z = I, of the columns and the outcome; then r_i² ≤ h_i ‖b‖², h_i = ‖z_i‖², and
    Σ r_i⁴ ≤ ‖b‖² · b'(Σ h_i z_i z_i')b.
    """
    found = _whitening(moments, np.append(moments.feature_columns, moments.outcome))
    if found is None:
        return np.inf
    varying, whiten = found
    weighted = np.zeros((len(varying), len(varying)))
    for e in range(data.n_environments):
        rows = data.rows(e)
        Z = np.column_stack([data.X[rows], data.y[rows]])[:, varying]
        Z = (Z - Z.mean(axis=0)) @ whiten
        weighted += (Z * np.einsum("nk,nk->n", Z, Z)[:, None]).T @ Z
    return max(0.0, data.n_rows * float(np.linalg.eigvalsh(weighted)[-1]) - 3.0)


def _heaviest(moments: Moments) -> float:
    """The same from sums of fourth powers; residuals of subsets with columns of which these are not known count as
    normal."""
    fourths = None if moments.second is None else moments.second.fourths
    if fourths is None:
        return 0.0
    known = [j for j, name in enumerate(moments.columns) if name in fourths.columns]
    found = _whitening(moments, np.array(known, dtype=np.intp))
    if found is None:
        return np.inf
    varying, whiten = found
    places = fourths.places(tuple(moments.columns[known[j]] for j in varying))
    transform = np.zeros((len(fourths.columns), whiten.shape[1]))
    transform[places] = whiten
    return max(0.0, moments.n_rows * fourths.largest_share(transform) - 3.0)


def _whitening(moments: Moments, columns: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats] | None:
    """Those of the columns that vary inside environments, and what makes them orthonormal over all rows, less their
    means there; None where they nearly depend on each other."""
    within = moments.scatter[:-1, columns[:, None], columns].sum(axis=0)
    varying = np.flatnonzero(np.diagonal(within) > 0.0)
    scale = 1.0 / np.sqrt(np.diagonal(within)[varying])
    values, vectors = np.linalg.eigh(within[np.ix_(varying, varying)] * scale[:, None] * scale)
    return None if values[0] < PIVOT_TOLERANCE else (varying, scale[:, None] * vectors / np.sqrt(values))


@dataclass(frozen=True, eq=False)
class GaussianScreen:
    """A walk whose values are what subsets weigh; NaN where they cannot be compatible with invariance.

    free (f,), forced (k,): features; walk: over them, of log Λ; weigh: gain (S,) of the pooled fit and its number of
    columns (S,) → weights (S,).
    """

    model: Screened
    walk: GaussianWalk
    free: Integers
    forced: Integers
    limits: Limits
    weigh: Weigh
    low_ranks: Integers

    @classmethod
    def of(
        cls, model: Screened, walk: GaussianWalk, free: Integers, forced: Integers, limits: Limits, weigh: Weigh
    ) -> GaussianScreen:
        low_ranks = np.zeros((model.moments.n_environments + 1, 1 << walk.n_low), np.int64)
        for j, widths in enumerate(model.moments.varying_widths[:, free[: walk.n_low]].T):
            low_ranks[:, 1 << j : 2 << j] = low_ranks[:, : 1 << j] + widths[:, None]
        return cls(model, walk, free, forced, limits, weigh, low_ranks)

    @property
    def n_features(self) -> int:
        return self.walk.n_features

    @property
    def n_low(self) -> int:
        return self.walk.n_low

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        moments, walk = self.model.moments, self.walk
        always = np.concatenate([self.forced, self.free[high]]).astype(np.intp)
        high_ranks = moments.varying_widths[:, always].sum(axis=1)
        prefix = int(np.sum(1 << (high - self.n_low))) if len(high) else 0
        share, state = np.empty(1 << self.n_low), np.empty(1 << self.n_low, np.uint8)
        squares = np.ascontiguousarray(moments.scatter[:, moments.outcome, moments.outcome])
        screen_grouped_block(
            *(walk.grams, walk.absent, squares, moments.group_counts, self.limits.mean, self.limits.spread),
            *(walk.scoring.tolerance, walk.starts, prefix, self.n_low, high_ranks, self.low_ranks, share, state),
        )
        weights = np.full(len(share), np.nan)
        possible = np.flatnonzero(state == POSSIBLE)
        columns = high_ranks[-1] + self.low_ranks[-1, possible]
        weights[possible] = self.weigh(-0.5 * moments.n_rows * share[possible], columns)
        unknown = np.flatnonzero(state == UNDECIDABLE) if self.model.has_rows else possible[:0]
        unknown = unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]
        if len(unknown):
            draws = np.zeros((len(unknown), self.n_features), dtype=bool)
            draws[:, : self.n_low] = unknown[:, None] >> np.arange(self.n_low) & 1
            draws[:, high] = True
            weights[unknown] = self._one_by_one(draws)
        return weights

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        self.list_members(prefix, max_size, members)
        weights = np.full(len(members), np.nan)
        wanted = np.flatnonzero(sizes[(members >= 0).sum(axis=1)])
        for start in range(0, len(wanted), _MOST_SUBSETS):
            part = wanted[start : start + _MOST_SUBSETS]
            draws = np.zeros((len(part), self.n_features + 1), dtype=bool)
            draws[np.arange(len(part))[:, None], members[part]] = True
            weights[part] = self._one_by_one(draws[:, :-1])
        return weights

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        """Only fill `members`, as `listed` does."""
        self.walk.listed(prefix, max_size, np.zeros(self.n_features + 1, dtype=bool), members)

    def _one_by_one(self, draws: Mask) -> Floats:
        """(S,) of draws (S, f) over the free features, from the rows where second moments do not tell"""
        masks = np.zeros((len(draws), self.model.features.n_features), dtype=bool)
        masks[:, self.free] = draws
        masks[:, self.forced] = True
        residuals = self.model.residuals(masks)
        moments, allowed = self.model.moments, self.limits.allow(residuals)
        total = moments.scatter[-1][moments.outcome, moments.outcome]
        gain = -0.5 * moments.n_rows * np.log(residuals.rss[allowed, -1] / total)
        weights = np.full(len(draws), np.nan)
        weights[allowed] = self.weigh(gain, masks[allowed] @ moments.varying_widths[-1])
        return weights
