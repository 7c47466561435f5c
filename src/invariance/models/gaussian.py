"""The linear Gaussian model on second moments: log Λ(z) from them, and from the rows where those cannot decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, f, ncf, ncx2

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Features, Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..kernels.active_set import Scoring, flip_changes
from ..kernels.dispatch import (
    grouped_block_log_ratios,
    relative_residuals,
    score_grouped_block,
    score_grouped_extensions,
    score_subsets,
    screen_grouped_block,
    share_from_rows,
    sizes,
    subset_fits,
)
from ..kernels.plain import settle, swept
from ..kernels.row_residuals import GroupRows
from ..kernels.subset_tree import POSSIBLE, UNDECIDABLE, feature_starts, low_features, walk_order
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, NDArray32, Prediction, Weigh, in_pieces
from .gaussian_fit import (
    LinearFit,
    Unsupported,
    always_decidable,
    find_causes,
    fit_from_moments,
    fit_from_roots,
    fit_from_rows,
    group_rows,
    no_rows,
    reasons_of,
    too_few_rows,
    unit_groups,
)
from .gaussian_shared import GaussianModel, group_weights, inverse_scales
from .invariance_test import Residuals, Tolerance, spread_statistics


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


_MOST_EXPLAINED = 50


class GaussianFromMoments(GaussianModel):
    """Outcome ~ Normal(intercept + coefficients · columns of z, variance), by maximum likelihood.

    On data, or on moments alone. A subset that second moments in float64 cannot decide (smallest scaled pivot under
    1e-9) is decided by the rows where these are at hand; with moments alone its log ratio is -inf.
    """

    def __init__(
        self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None, prediction: float = 0.0
    ) -> None:
        self.data = data if isinstance(data, MultiEnvironmentData) else None
        self.moments = Moments.from_data(data) if isinstance(data, MultiEnvironmentData) else data
        self.moments.check_outcome()
        self.n_jobs = n_jobs
        self.prediction = prediction

    def of(self, data: MultiEnvironmentData | Moments) -> GaussianFromMoments:
        return GaussianFromMoments(data, self.n_jobs)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._supported(masks, np.nan)

    @property
    def search_penalty(self) -> float:
        return 0.05

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """As log_ratio_many, but with moments alone a collinear subset counts as its decidable part, at a cost: for
        searching only.
        """
        return self._supported(masks, self.search_penalty)

    def _supported(self, masks: ArrayLike, penalty: float) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = self._score(chosen, penalty)
        outside = np.isnan(values) if self.has_rows else np.isnan(values) | self._too_large(chosen)
        values[outside] = -np.inf
        return values

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        chosen = as_masks(masks, self.n_features)
        # Log Λ of weights that leave the pooled fit alone, with its sign turned: kernels expect at most 0.
        pooled = np.append(np.zeros(self.moments.n_environments), 0.5 * self.moments.n_rows)
        losses = self._score(chosen, np.nan, self._scoring._replace(weights=pooled, offset=0.0))
        gain = np.where(np.isnan(losses), -np.inf, -losses)
        return Prediction(gain, self.ranks(chosen)[:, -1].astype(float) + 2.0)

    def residuals(self, masks: Mask) -> Residuals:
        shares, ranks = self._fits(masks)
        if not self.has_rows:
            shares[self._too_large(masks)] = np.nan
        y = self.moments.outcome
        return Residuals(shares * self.moments.scatter[:, y, y], ranks, self.moments.group_counts)

    def ranks(self, masks: Mask) -> Integers:
        """As of any `GaussianModel`; subsets with other dependences are fitted to the rows where these are at hand."""
        return self._fits(masks)[1] if self._scoring.rows.values.size else super().ranks(masks)

    def fit(self, subset: Subset, local: bool = True) -> LinearFit:
        mask = as_mask(subset, self.feature_names)
        if self.data is not None:
            return fit_from_rows(self.data, mask, local)
        if self.roots is not None:
            return fit_from_roots(self.moments, self.roots, mask)
        return fit_from_moments(self.moments, mask)

    @property
    def steps_per_subset(self) -> int:
        # A walk over features of m columns takes about m² times as long.
        squares = int(np.ceil(np.mean(self.features.widths.astype(float) ** 2)))
        return (self.moments.n_environments + 1) * squares

    @property
    def dense_advantage(self) -> int:
        return max(2, round(16 / float(self.features.widths.mean())))

    def subset_walk(self, free: Integers, forced: Integers) -> GaussianWalk:
        widths = self.features.widths[free]
        by_rows = self if self.has_rows else None
        return GaussianWalk.of(self._from_moments, self._columns(forced), self._columns(free), widths, by_rows)

    def screening_walk(self, free: Integers, forced: Integers, tolerance: Tolerance, weigh: Weigh) -> GaussianScreen:
        limits = Limits.of(self.moments, tolerance, self.data)
        return GaussianScreen.of(self, self.subset_walk(free, forced), free, forced, limits, weigh)

    def walk_order(self, free: Integers) -> Integers:
        return walk_order(self.features.widths[free])

    def scoring(self) -> Scoring | None:
        return None if self.features.grouped else self._scoring

    def flip_neighbours(self, mask: Mask) -> Floats:
        if self.features.grouped:
            return super().flip_neighbours(as_masks(mask, self.n_features)[0])
        chosen = as_masks(mask, self.n_features)
        change = np.empty(len(self.moments.columns))
        members = self._columns(np.flatnonzero(chosen[0]))
        arguments = (self.moments.scatter, self._from_moments.inverse_scale, self.moments.outcome)
        flip_changes(*arguments, self._from_moments.weights, PIVOT_TOLERANCE, members, change)
        now = self.log_ratio_many(chosen)[0]
        if now == -np.inf:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(chosen)}.")
        change = change[self.moments.feature_columns]
        unknown = np.flatnonzero(np.isnan(change))
        change[unknown] = self.log_ratio_many(chosen ^ np.eye(self.n_features, dtype=bool)[unknown]) - now
        return change

    def flip_steps(self, size: float) -> float:
        if self.features.grouped:
            return super().flip_steps(size)
        return (self.moments.n_environments + 1) * size**2 * self.n_features

    def alike(self, feature: int, most: int) -> NDArray[np.intp]:
        """By the largest correlation of their columns over all rows."""
        columns, pooled = self.moments.feature_columns, self.moments.scatter[-1]
        own = self._columns(np.array([feature]))
        products = np.abs(pooled[np.ix_(own, columns)]) / np.sqrt(np.diagonal(pooled)[columns])
        products /= np.sqrt(np.diagonal(pooled)[own])[:, None]
        closest = np.maximum.reduceat(products.max(axis=0), self.features.starts[:-1])
        closest[feature] = 0.0
        return np.argsort(-closest, kind="stable")[:most]

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """(S,) log Λ by orthogonalising the centred, scaled rows: decides what second moments cannot."""
        if not self.has_rows:
            return None
        chosen = self.features.expand(as_masks(masks, self.n_features))
        used = np.flatnonzero(chosen.any(axis=0))
        starts, members = as_lists(chosen[:, used])
        counts = self.moments.group_counts
        total = np.full(len(chosen), self._from_moments.offset)
        unsupported = np.zeros(len(chosen), dtype=bool)
        residual, rank = np.empty(len(chosen)), np.empty(len(chosen), np.int64)
        for g, unit in enumerate(self._unit_groups(used)):
            relative_residuals(unit, starts, members, DEPENDENT, residual, rank)
            unfit = (counts[g] < rank + 2) | (residual < DEPENDENT)
            total += self._from_moments.weights[g] * np.log(np.where(unfit, 1.0, residual))
            unsupported |= unfit
        total[unsupported] = np.nan
        settle(total, self._from_moments.weights)
        total[np.isnan(total)] = -np.inf
        return total

    def _unit_groups(self, used: Integers) -> Iterator[Floats]:
        """Columns `used` (k,) of the features and the outcome, centred and of unit length (k + 1, n), in every
        environment and the pool"""
        if self.data is None:
            assert self.roots is not None
            yield from unit_groups(
                self.moments, self.roots, np.append(self.moments.feature_columns[used], self.moments.outcome)
            )
            return
        columns = np.column_stack([self.data.X[:, used], self.data.y])
        groups = [self.data.rows(e) for e in range(self.data.n_environments)]
        for rows in [*groups, np.arange(self.data.n_rows)]:
            yield unit_rows(columns[rows])[0]

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        """Which of the subsets are outside the support, and why."""
        chosen = as_masks(masks, self.n_features)
        outside = np.isnan(self._score(chosen))
        too_large = self._too_large(chosen) & outside
        undecidable = outside & ~too_large
        causes = find_causes(chosen[undecidable], lambda mask: ~np.isnan(self._score(mask)), self._places)
        reasons = too_few_rows(self.moments, chosen[too_large]) + reasons_of(causes, self.moments, self.has_rows)
        involved = np.any([cause.features for cause in causes], axis=0) if causes else np.zeros(self.n_features, bool)
        names = tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)
        return Unsupported(too_large, undecidable, names, tuple(reasons))

    def _places(self, mask: Mask) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Groups where an undecidable subset (p,) is so, and what it leaves of the outcome there; NaN if collinear."""
        columns = self._columns(np.flatnonzero(mask))
        groups, shares = [], []
        for g in range(self.moments.n_environments + 1):
            if self.has_rows:
                share = share_from_rows(self._scoring.rows, g, columns, self.moments.outcome)
                share = 0.0 if np.isnan(share) else 1.0
            else:
                share = _outcome_share(self._gram(g, np.append(columns, self.moments.outcome)))
            if not share >= PIVOT_TOLERANCE:
                groups.append(g)
                shares.append(max(share, 0.0))
        return tuple(groups), tuple(shares)

    def nearly_outcome(self) -> Mask:
        """(p,) features that alone explain, in some group, all but 1e-9 of the outcome: unsupported, or nearly so."""
        y, scale = self.moments.outcome, self._from_moments.inverse_scale
        correlations = self.moments.scatter[:, y] * scale * scale[:, y, None]
        nearly = np.any(correlations[:, self.moments.feature_columns] ** 2 > 1.0 - PIVOT_TOLERANCE, axis=0)
        return np.logical_or.reduceat(nearly, self.features.starts[:-1])

    def dependent_features(self, masks: Mask) -> tuple[str, ...]:
        """Features that are, in some environment or in the pool, nearly a combination of others in the same subset."""
        involved = np.zeros(self.n_features, dtype=bool)
        for mask in masks[:_MOST_EXPLAINED]:
            members = np.flatnonzero(mask)
            owners = np.repeat(members, self.features.widths[members])
            for g in range(self.moments.n_environments + 1):
                involved[owners[_nearly_dependent(self._gram(g, self._columns(members)))]] = True
        return tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)

    def _columns(self, members: Integers) -> Integers:
        """Columns of the moments that features `members` (k,) stand for."""
        return self.moments.feature_columns[self.features.columns_of(members)].astype(np.int64)

    def scoring_by_moments(self) -> Scoring:
        """Without the rows."""
        return self._from_moments

    def scoring_by_rows(self) -> Scoring:
        """With the rows, which take longer to prepare, for what second moments cannot decide."""
        return self._scoring

    @property
    def _scoring(self) -> Scoring:
        return self._from_moments._replace(rows=self._rows)

    @property
    def _from_moments(self) -> Scoring:
        return self.rewarding(self._untilted_from_moments)

    @cached_property
    def _untilted_from_moments(self) -> Scoring:
        moments = self.moments
        diagonal = np.einsum("gjj->gj", moments.scatter)
        scale, weights = inverse_scales(diagonal, moments.present), group_weights(moments.group_counts)
        offset = float(weights @ np.log(diagonal[:, moments.outcome] / moments.group_counts))
        return Scoring(moments.scatter, scale, moments.outcome, weights, offset, PIVOT_TOLERANCE, no_rows(moments))

    @cached_property
    def decides_all(self) -> bool:
        """Whether second moments decide every subset."""
        return always_decidable(self.moments, self._from_moments.inverse_scale, PIVOT_TOLERANCE)

    @cached_property
    def _rows(self) -> GroupRows:
        if not self.has_rows or self.decides_all:
            return no_rows(self.moments)
        return group_rows(self.data, self.moments)

    def _gram(self, g: int, columns: Integers) -> Floats:
        scale = self._from_moments.inverse_scale[g, columns]
        return self.moments.scatter[g][np.ix_(columns, columns)] * scale[:, None] * scale

    def _too_large(self, masks: Mask) -> Mask:
        more = self.moments.varying_widths - 1
        other = np.flatnonzero(more.any(axis=0))
        ranks = sizes(masks)[:, None] + masks[:, other].astype(np.float64) @ more[:, other].T
        return np.any(ranks + 2 > self.moments.group_counts, axis=1)

    def _score(self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None) -> Floats:
        out = np.empty(len(masks))

        def score(rows: slice, starts: Integers, columns: Integers) -> None:
            score_subsets(self._scoring if scoring is None else scoring, penalty, starts, columns, out[rows])

        self._in_pieces(masks, score)
        return out

    def _fits(self, masks: Mask) -> tuple[Floats, Integers]:
        """(S, G) what the subsets leave of the outcome in each group, NaN where undecidable, and their ranks there"""
        shape = len(masks), len(self.moments.group_counts)
        shares, ranks = np.empty(shape), np.empty(shape, np.int64)

        def fit(rows: slice, starts: Integers, columns: Integers) -> None:
            subset_fits(self._scoring, starts, columns, shares[rows], ranks[rows])

        self._in_pieces(masks, fit)
        return shares, ranks

    def _in_pieces(self, masks: Mask, work: Callable[[slice, Integers, Integers], None]) -> None:
        """Have threads work on pieces of the subsets: which of them, and the columns of each."""

        def of_columns(rows: slice, starts: Integers, members: Integers) -> None:
            work(rows, starts, self.moments.feature_columns[members].astype(np.int64))

        in_pieces(self.features.expand(masks), self.n_jobs, of_columns)


def _outcome_share(gram: Floats) -> float:
    """What the other columns of `gram` leave of the last one; NaN where they are too collinear to tell."""
    reduced = gram.copy()
    for j in range(len(gram) - 1):
        if gram[j, j] == 0.0:
            continue
        if reduced[j, j] < PIVOT_TOLERANCE:
            return np.nan
        reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
    return float(reduced[-1, -1])


def _nearly_dependent(gram: Floats) -> Mask:
    """(p,) columns that take part in a near dependence among the unit-diagonal columns of `gram`."""
    involved = np.zeros(len(gram), dtype=bool)
    kept: list[int] = []
    reduced = gram.copy()
    for j in np.flatnonzero(np.diagonal(gram) > 0.0).tolist():
        if reduced[j, j] >= PIVOT_TOLERANCE:
            kept.append(j)
            reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
            continue
        involved[j] = True
        partners = np.linalg.lstsq(gram[np.ix_(kept, kept)], gram[kept, j], rcond=None)[0]
        involved[np.array(kept)[np.abs(partners) > 1e-3]] = True
    return involved
