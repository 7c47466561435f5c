"""All subsets of the linear Gaussian model in compiled code: their log Λ, and which of them may be invariant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f, ncf, ncx2

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Features, as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.active_set import Scoring
from ..kernels.dispatch import (
    grouped_block_log_ratios,
    score_grouped_block,
    score_grouped_extensions,
    score_subsets,
    screen_grouped_block,
)
from ..kernels.plain import swept
from ..kernels.subset_tree import POSSIBLE, UNDECIDABLE, feature_starts, low_features
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, NDArray32, Weigh, listed_subsets, low_subsets, of_all_features
from .invariance_test import Residuals, Tolerance, spread_statistics

# How far a statistic must be above its limit for rounding to be no reason.
MARGIN = 1.0 + 1e-6
_MOST_SUBSETS = 1 << 16


class WalkedModel(Protocol):
    """What walks ask of a model."""

    moments: Moments

    @property
    def features(self) -> Features: ...

    @property
    def has_rows(self) -> bool: ...

    def scoring_by_rows(self) -> Scoring: ...

    def residuals(self, masks: Mask) -> Residuals: ...


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
    by_rows: WalkedModel | None

    @classmethod
    def of(
        cls, scoring: Scoring, forced: Integers, free: Integers, widths: Integers, by_rows: WalkedModel | None
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
        prefix = dense_prefix(high, self.n_low)
        score_grouped_block(self.grams, self.absent, *self._terms, self.starts, prefix, self.n_low, log_ratio)
        unknown = np.flatnonzero(np.isnan(log_ratio)) if self.by_rows is not None else np.empty(0, np.intp)
        unknown = unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]
        if self.by_rows is not None and len(unknown):
            decided = np.empty(1 << self.n_low)
            parts = [self.forced, *(self.free[self.starts[j] : self.starts[j + 1]] for j in high)]
            low, fixed = self.starts[: self.n_low + 1], np.sort(np.concatenate(parts))
            grouped_block_log_ratios(self.by_rows.scoring_by_rows(), fixed, low, self.free[: low[-1]], decided)
            log_ratio[unknown] = decided[unknown]
        return log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        log_ratio = np.empty(len(members))
        score_grouped_extensions(
            self.grams, self.absent, *self._terms, self.starts, prefix, max_size, members, log_ratio
        )
        unknown = np.flatnonzero(np.isnan(log_ratio)) if self.by_rows is not None else np.empty(0, np.intp)
        unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
        if self.by_rows is not None and len(unknown):
            log_ratio[unknown] = self._decided(self.by_rows.scoring_by_rows(), members[unknown])
        return log_ratio

    @property
    def _terms(self) -> tuple[Floats, float, float]:
        return self.scoring.weights, self.scoring.offset, self.scoring.tolerance

    def _decided(self, scoring: Scoring, members: NDArray32) -> Floats:
        """(n,) log Λ of subsets given by their members (n, k), -1 beyond the last"""
        always = np.ones((len(members), len(self.forced)), bool)
        columns = np.repeat(listed_subsets(members, self.n_features), np.diff(self.starts), axis=1)
        starts, chosen = as_lists(np.column_stack([always, columns]))
        log_ratio = np.empty(len(members))
        score_subsets(scoring, np.nan, starts, np.concatenate([self.forced, self.free])[chosen], log_ratio)
        return log_ratio


def dense_prefix(high: Integers, n_low: int) -> int:
    return int(np.sum(1 << (high - n_low))) if len(high) else 0


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
        heaviest = largest_kurtosis_from_fourths(moments) if data is None else largest_excess_kurtosis(data, moments)
        mean = _mean_limits(moments, tolerance.delta, smallest)
        return cls(MARGIN * mean, MARGIN * _spread_limit(moments, tolerance.tau, smallest, heaviest))

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


def largest_kurtosis_from_fourths(moments: Moments) -> float:
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
    """A walk whose values are the weights of subsets; NaN where they cannot be compatible with invariance.

    free (f,), forced (k,): features; walk: over them, of log Λ; weigh: gain (S,) of the pooled fit and its number of
    columns (S,) → weights (S,).
    """

    model: WalkedModel
    walk: GaussianWalk
    free: Integers
    forced: Integers
    limits: Limits
    weigh: Weigh

    @property
    def n_features(self) -> int:
        return self.walk.n_features

    @property
    def n_low(self) -> int:
        return self.walk.n_low

    @cached_property
    def _low_ranks(self) -> Integers:
        """(G, 2**n_low) of all subsets of the first features"""
        low_ranks = np.zeros((self.model.moments.n_environments + 1, 1 << self.n_low), np.int64)
        for j, widths in enumerate(self.model.moments.varying_widths[:, self.free[: self.n_low]].T):
            low_ranks[:, 1 << j : 2 << j] = low_ranks[:, : 1 << j] + widths[:, None]
        return low_ranks

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        moments, walk, low_ranks = self.model.moments, self.walk, self._low_ranks
        always = np.concatenate([self.forced, self.free[high]]).astype(np.intp)
        high_ranks = moments.varying_widths[:, always].sum(axis=1)
        share, state = np.empty(1 << self.n_low), np.empty(1 << self.n_low, np.uint8)
        squares = np.ascontiguousarray(moments.scatter[:, moments.outcome, moments.outcome])
        blocks = walk.starts, dense_prefix(high, self.n_low), self.n_low, high_ranks, low_ranks
        screen_grouped_block(
            *(walk.grams, walk.absent, squares, moments.group_counts, self.limits.mean, self.limits.spread),
            *(walk.scoring.tolerance, *blocks, share, state),
        )
        weights = np.full(len(share), np.nan)
        possible = np.flatnonzero(state == POSSIBLE)
        columns = high_ranks[-1] + low_ranks[-1, possible]
        weights[possible] = self.weigh(-0.5 * moments.n_rows * share[possible], columns)
        unknown = np.flatnonzero(state == UNDECIDABLE) if self.model.has_rows else possible[:0]
        unknown = unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]
        if len(unknown):
            draws = np.zeros((len(unknown), self.n_features), dtype=bool)
            draws[:, : self.n_low] = low_subsets(self.n_low, unknown)
            draws[:, high] = True
            weights[unknown] = self._one_by_one(draws)
        return weights

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        self.list_members(prefix, max_size, members)
        weights = np.full(len(members), np.nan)
        wanted = np.flatnonzero(sizes[(members >= 0).sum(axis=1)])
        for start in range(0, len(wanted), _MOST_SUBSETS):
            part = wanted[start : start + _MOST_SUBSETS]
            weights[part] = self._one_by_one(listed_subsets(members[part], self.n_features))
        return weights

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        self.walk.listed(prefix, max_size, np.zeros(self.n_features + 1, dtype=bool), members)

    def _one_by_one(self, draws: Mask) -> Floats:
        """(S,) of draws (S, f) over the free features, from the rows where second moments do not tell"""
        masks = of_all_features(draws, self.free, self.forced, self.model.features.n_features)
        residuals = self.model.residuals(masks)
        moments, allowed = self.model.moments, self.limits.allow(residuals)
        total = moments.scatter[-1][moments.outcome, moments.outcome]
        gain = -0.5 * moments.n_rows * np.log(residuals.rss[allowed, -1] / total)
        weights = np.full(len(draws), np.nan)
        weights[allowed] = self.weigh(gain, masks[allowed] @ moments.varying_widths[-1])
        return weights
