"""All subsets of a linear Gaussian model in compiled code: their log Λ, and which of them may be invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2, f, ncf, ncx2

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import as_lists
from ..kernels.dispatch import score_block, score_extensions, score_subsets, screen_block
from ..kernels.subset_tree import POSSIBLE, UNDECIDABLE, feature_starts, low_features
from ..moments.moments import Moments
from .base import NDArray32, SubsetWalk, Weigh, dense_subsets, list_subsets, listed_subsets
from .gaussian_fits import largest_excess_kurtosis
from .invariance_test import MARGIN, Residuals, Tolerance, spread_statistics

if TYPE_CHECKING:
    from .gaussian import GaussianFromMoments

_MOST_SUBSETS = 1 << 16


class GaussianWalk(SubsetWalk):
    """From second moments, and from the rows where those cannot decide. starts (f+1,): free feature j has the columns
    starts[j]:starts[j+1] of the columns of all free features."""

    def __init__(self, model: GaussianFromMoments, free: Integers, forced: Integers) -> None:
        super().__init__(model.log_ratio_many, model.n_features, free, forced)
        self.model, self.scoring, widths = model, model.scoring_by_moments(), model.features.widths[free]
        self._forced, self._free = model.columns_of(forced), model.columns_of(free)
        self.starts, self.n_low = feature_starts(widths), low_features(widths)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        log_ratio, block = np.empty(1 << self.n_low), self._block(high)
        score_block(self.scoring, *block, log_ratio)
        unknown = self._for_rows(np.isnan(log_ratio), high, sizes)
        if len(unknown):
            decided = np.empty(1 << self.n_low)
            score_block(self.model.scoring_by_rows(), *block, decided)
            log_ratio[unknown] = decided[unknown]
        return log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        log_ratio, first = np.empty(len(members)), int(prefix[-1]) + 1 if len(prefix) else 0
        later = self.starts[first:] - self.starts[first]
        block = self._with_forced(prefix), later, self._free[self.starts[first] :]
        score_extensions(self.scoring, *block, prefix, first, max_size, members, log_ratio)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
        if len(unknown) and self.model.has_rows:
            draws = np.repeat(listed_subsets(members[unknown], self.n_features), np.diff(self.starts), axis=1)
            starts, chosen = as_lists(np.pad(draws, ((0, 0), (len(self._forced), 0)), constant_values=True))
            decided, columns = np.empty(len(unknown)), np.concatenate([self._forced, self._free])[chosen]
            score_subsets(self.model.scoring_by_rows(), np.nan, starts, columns, decided)
            log_ratio[unknown] = decided
        return log_ratio

    def _with_forced(self, features: Integers) -> Integers:
        """Columns that are always in, and those of free features"""
        parts = [self._forced, *(self._free[self.starts[j] : self.starts[j + 1]] for j in features)]
        return np.sort(np.concatenate(parts))

    def _block(self, high: Integers) -> tuple[Integers, Integers, Integers]:
        """Columns of all subsets of a dense block, and the features that it ranges over"""
        low = self.starts[: self.n_low + 1]
        return self._with_forced(high), low, self._free[: low[-1]]

    def _for_rows(self, undecided: Mask, high: Integers, sizes: Mask) -> Integers:
        """Those of a dense block that only the rows can decide"""
        unknown = np.flatnonzero(undecided)
        if not self.model.has_rows:
            return unknown[:0]
        return unknown[sizes[len(high) + np.bitwise_count(unknown.astype(np.uint64))]]


def mean_limits(moments: Moments, tolerance: Tolerance) -> Floats:
    """(r, m) largest F statistic of a compatible subset, by pooled rank r and missing ranks m = Σ_e (r − rank_e); inf
    where no subset has such ranks, as in the last column."""
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
    between, left, allowed = between[tested], left[tested], moments.n_rows * tolerance.delta
    smallest = _smallest_p_value(tolerance)
    found = ncf.isf(smallest, between, left, allowed) if allowed > 0.0 else f.isf(smallest, between, left)
    limits = np.full(reached.shape, np.inf)
    limits[pooled[tested], missing[tested]] = MARGIN * np.where(np.isnan(found), np.inf, found)
    return limits


def _smallest_p_value(tolerance: Tolerance) -> float:
    """By Fisher's rule the product of both p-values is at least this, and so is each of them."""
    return float(np.exp(-0.5 * chi2.isf(tolerance.level, 4)))


def spread_limit(model: GaussianFromMoments, tolerance: Tolerance) -> float:
    """Largest statistic of Bartlett's test of a compatible subset, whatever its tails. Where the statistic is at least
    its noncentrality, its p-value grows with the inflation by heavy tails: it is the probability that a normal vector
    of that variance leaves a ball in which its mean lies."""
    degrees = model.moments.n_environments - 1
    inflation = 1.0 + largest_excess_kurtosis(model.data, model.moments) / 2.0
    if degrees < 1 or inflation == np.inf:
        return np.inf
    allowed, smallest = model.moments.n_rows * tolerance.tau**2 / 2.0, _smallest_p_value(tolerance)
    found = ncx2.isf(smallest, degrees, allowed / inflation) if allowed > 0.0 else chi2.isf(smallest, degrees)
    return np.inf if np.isnan(found) else MARGIN * max(float(inflation * found), allowed)


def within_limits(residuals: Residuals, limits: Floats, spread: float) -> Mask:
    """(S,) whether the F statistics are within the limits (r, m) of their ranks, and Bartlett's within that of all"""
    rss, ranks = residuals.rss, residuals.ranks
    left = residuals.freedom[:, :-1].sum(axis=1)
    between = residuals.freedom[:, -1] - left
    local = rss[:, :-1].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(between > 0.0, (rss[:, -1] - local) / between / (local / left), 0.0)
    missing = np.minimum((ranks[:, -1:] - ranks[:, :-1]).sum(axis=1), limits.shape[1] - 1)
    equal = statistic <= limits[ranks[:, -1], missing]
    return np.asarray(equal & (spread_statistics(residuals) <= spread) & ~np.isnan(rss).any(axis=1))


class GaussianScreen(GaussianWalk):
    """The weights of subsets; NaN where the F test of common coefficients or Bartlett's alone rejects them."""

    def __init__(
        self, model: GaussianFromMoments, free: Integers, forced: Integers, tolerance: Tolerance, weigh: Weigh
    ) -> None:
        super().__init__(model, free, forced)
        self._limits, self._weigh = (mean_limits(model.moments, tolerance), spread_limit(model, tolerance)), weigh
        # (G, 2**n_low) of all subsets of the first features
        self._low_ranks = np.zeros((model.moments.n_environments + 1, 1 << self.n_low), np.int64)
        for j, widths in enumerate(model.moments.varying_widths[:, free[: self.n_low]].T):
            self._low_ranks[:, 1 << j : 2 << j] = self._low_ranks[:, : 1 << j] + widths[:, None]

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        moments, low_ranks = self.model.moments, self._low_ranks
        always = np.concatenate([self.forced, self.free[high]]).astype(np.intp)
        high_ranks = moments.varying_widths[:, always].sum(axis=1)
        share, state = np.empty(1 << self.n_low), np.empty(1 << self.n_low, np.uint8)
        squares = np.ascontiguousarray(moments.scatter[:, moments.outcome, moments.outcome])
        tests = squares, moments.group_counts, *self._limits, high_ranks, low_ranks
        screen_block(self.scoring, *self._block(high), *tests, share, state)
        weights = np.full(len(share), np.nan)
        possible = np.flatnonzero(state == POSSIBLE)
        columns = high_ranks[-1] + low_ranks[-1, possible]
        weights[possible] = self._weigh(-0.5 * moments.n_rows * share[possible], columns)
        unknown = self._for_rows(state == UNDECIDABLE, high, sizes)
        if len(unknown):
            weights[unknown] = self._one_by_one(dense_subsets(high, self.n_low, self.n_features)[unknown])
        return weights

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        draws = list_subsets(prefix, max_size, self.n_features, members)
        weights = np.full(len(draws), np.nan)
        wanted = np.flatnonzero(sizes[draws.sum(axis=1)])
        for start in range(0, len(wanted), _MOST_SUBSETS):
            part = wanted[start : start + _MOST_SUBSETS]
            weights[part] = self._one_by_one(draws[part])
        return weights

    def _one_by_one(self, draws: Mask) -> Floats:
        """(S,) of draws (S, f) over the free features, from the rows where second moments do not tell"""
        masks = self.of_all_features(draws)
        residuals = self.model.residuals(masks)
        moments, allowed = self.model.moments, within_limits(residuals, *self._limits)
        total = moments.scatter[-1][moments.outcome, moments.outcome]
        gain = -0.5 * moments.n_rows * np.log(residuals.rss[allowed, -1] / total)
        weights = np.full(len(draws), np.nan)
        weights[allowed] = self._weigh(gain, masks[allowed] @ moments.varying_widths[-1])
        return weights
