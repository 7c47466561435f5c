"""The linear Gaussian model in which only the mean must be the same in every environment.

With RSS_e the residual sum of squares of environment e's own fit, and RSS_e(β) that of the common
fit β by feasible generalised least squares::

    log Λ(z) = ½ Σ_e n_e log(RSS_e / RSS_e(β))
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, polygamma

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Subset, as_mask, as_masks
from ..kernels.generalised_least_squares import (
    LocalMoments,
    fit_from_moments,
    fit_from_rows,
    score_common_fits,
    score_common_fits_from_rows,
)
from ..kernels.row_residuals import GroupRows
from ..moments.moments import with_own_means
from .base import (
    IN_MEAN,
    NO_GAIN,
    PIVOT_TOLERANCE,
    BoundModel,
    EnvironmentData,
    Fit,
    Level,
    Null,
    StandardErrors,
    SubsetWalk,
    Walked,
    in_parts,
    of_interest,
)
from .gaussian import GaussianModel
from .gaussian_fits import group_rows, weighted_errors
from .invariance_test import (
    Difference,
    InvarianceTest,
    Tolerance,
    deviance_tails,
    deviance_test,
    sidak,
    with_each,
    without_spread,
)


def mean_deviance_moments(
    counts: Floats, ranks: Integers, leverages: Floats
) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets with normal noise, from counts (E,)
    of rows, ranks (S, E) of the environments' own fits, and leverages (S, E): how much of the
    pooled fit comes from each environment.

    An environment's own fit is ahead of the pooled one in r + 1 − h directions, r its rank and h
    its leverage. Its share of −2 log Λ is n·log(1 + q/RSS), q a chi-square of so many degrees, less
    what estimated weights gain the pool.
    """
    freedom = counts - 1.0 - ranks
    ahead = np.maximum(ranks + 1.0 - leverages, 0.0)
    own = freedom / 2.0
    joint = (freedom + ahead) / 2.0
    known = (freedom > 0.0).all(axis=1)
    mean, variance = np.zeros((2, len(ranks)))
    whole = np.maximum(leverages.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    regained = 2.0 / freedom[known] * (leverages - leverages**2 / whole)[known]
    mean[known] = ((digamma(joint) - digamma(own))[known] * counts - regained).sum(axis=1)
    variance[known] = (polygamma(1, own) - polygamma(1, joint))[known] @ counts**2
    return mean, variance


# p-values that are so many times too small are not rejected yet where leverages are not known.
_MARGIN = 10.0


class _Scores(NamedTuple):
    """ratios (S,): log Λ, NaN outside the support; gains (S,): of the environments' own fits over
    their means; squares (S, E): residual sums of squares of the common fit, in common units, and
    leverages (S, E) in it, or no rows"""

    ratios: Floats
    gains: Floats
    squares: Floats
    leverages: Floats


class MeanGaussian(GaussianModel):
    """Bind the linear Gaussian model in which each environment has its own variance.

    log Λ(z) = ½ Σ_e n_e log(RSS_e / RSS_e(β)), RSS_e the residual sum of squares of environment e's
    own fit and β the common fit, by feasible generalised least squares.
    """

    kind = "linear Gaussian, same mean"
    compares: tuple[str, ...] = IN_MEAN
    judged = ("invariance of the mean", "rho")

    def of(self, data: EnvironmentData) -> MeanGaussian:
        return MeanGaussian(data, self.n_jobs)

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return (Level.effects_noise_free,) if self.n_environments > 1 else ()

    def at_level(self, level: Level) -> BoundModel:
        from .free_baselines import FreeBaselineMeanGaussian

        return (
            FreeBaselineMeanGaussian(self)
            if level in self.lower_levels
            else super().at_level(level)
        )

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._values(self._scored(as_masks(masks, self.n_features)))

    def gain_many(self, masks: ArrayLike) -> Floats:
        """Return the gain of the log-likelihood with own variances."""
        return self._gains(self._scored(as_masks(masks, self.n_features)))

    def r2_many(self, masks: ArrayLike) -> Floats:
        """Return R² of all rows, whatever the variance of their environment."""
        y = self.moments.outcome
        squares = self._scored(as_masks(masks, self.n_features), pooled=True).squares
        return 1.0 - squares.sum(axis=1) / (
            self.moments.scatter[-1, y, y] * self.pooled_scale[y] ** 2
        )

    def null_many(self, masks: ArrayLike) -> Null:
        """−2 log Λ is chi-square for many rows; its mean and variance are those of few."""
        _, mean, variance, degrees = self._law(as_masks(masks, self.n_features))[1]
        return Null.of_deviance(mean, variance, degrees)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """Test the coefficients alone by the distribution of log Λ; variances may differ."""
        scores, (ratios, mean, variance, _) = self._law(as_masks(masks, self.n_features))
        p_values = np.where(np.isnan(ratios), 0.0, 1.0)
        tested = variance > 0.0
        allowed = self.tolerated(self._gains(scores), tolerance)
        p_values[tested] = deviance_tails(
            -2.0 * ratios[tested], mean[tested], variance[tested], allowed[tested]
        )
        joint = without_spread(p_values, tolerance)
        each = self.each_p_values(masks, joint >= tolerance.lowest_level, allowed)
        return InvarianceTest(
            p_values, np.full(len(p_values), np.nan), each, with_each(joint, each)
        )

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        return BoundModel.compatible(self, masks, tolerance)

    def subset_walk(
        self, free: Integers, forced: Integers, tolerance: Tolerance | None = None
    ) -> MeanWalk:
        return MeanWalk(self, free, forced, tolerance)

    def each_p_values(self, masks: ArrayLike, asked: Mask, allowed: Floats) -> Floats:
        """Return p-values by the loss of −2 log Λ without an environment, which has its variance in
        both."""
        chosen = as_masks(masks, self.n_features)
        places = np.arange(self.n_environments)
        rows = np.flatnonzero(asked)
        each = np.full(len(chosen), np.nan)
        if self.n_environments < 3 or not len(rows):
            return each
        law = self._law(chosen[rows])[1]
        p_values = np.ones((len(rows), len(places)))
        for e in places:
            others = self.of_environments(places != e)
            ratio, mean, _, degrees = (
                whole - part for whole, part in zip(law, others._law(chosen[rows])[1], strict=True)
            )
            tested = ~np.isnan(ratio) & (degrees > 0.0) & (mean > 0.0)
            deviance = -2.0 * np.minimum(ratio[tested], 0.0)
            share = allowed[rows] * self.moments.counts[e] / self.n_rows
            p_values[tested, e] = deviance_test(
                deviance, mean[tested], degrees[tested], share[tested]
            )
        each[rows] = sidak(p_values)
        return each

    def of_environments(self, kept: Mask) -> MeanGaussian:
        """The same model of the environments `kept` (E,)."""
        return MeanGaussian(with_own_means(self.moments, kept, np.zeros_like(kept)), self.n_jobs)

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        return BoundModel.difference(self.untilted, masks, ends)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        mask = as_mask(subset, self.feature_names)
        beta, _ = self._pooled(mask)
        columns = self.moments.feature_columns[self.features.expand(mask)]
        y = self.moments.outcome
        used = self.moments.present[-1, columns]
        means = self.moments.pooled_mean
        slopes = np.zeros(len(columns))
        slopes[used] = beta[1:] * self.pooled_scale[columns[used]] / self.pooled_scale[y]
        intercept = means[y] + beta[0] / self.pooled_scale[y] - means[columns] @ slopes
        return replace(
            self.linear.fit(mask, local), coefficients=slopes, intercept=float(intercept)
        )

    def standard_errors(self, subset: Subset) -> StandardErrors:
        """Those of the pooled fit allow for the environments' own variances."""
        mask = as_mask(subset, self.feature_names)
        values, freedom = self.linear.standard_errors(mask)
        _, squares = self._pooled(mask)
        deviations = (
            np.sqrt(squares / self.moments.counts) / self.pooled_scale[self.moments.outcome]
        )
        values[-1] = weighted_errors(
            self.data, self.moments, self.features.expand(mask), deviations
        )
        return StandardErrors(values, freedom)

    @property
    def steps_per_subset(self) -> int:
        return 200 * self.linear.steps_per_subset

    def flip_steps(self, size: float) -> float:
        """Return the cost of neighbours: some twenty weighted fits for each."""
        columns = size * float(self.features.widths.mean())
        fits = 20.0 * self.n_features * (self.n_environments * columns**2 + columns**3)
        return max(super().flip_steps(size), fits)

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """Return log Λ (S,) by orthogonalising the centred, scaled rows."""
        if not self.has_rows:
            return None
        return self._values(self._scored(as_masks(masks, self.n_features), from_rows=True))

    def _values(self, scores: _Scores) -> Floats:
        """Return the values (S,) that engines use as log Λ; -inf outside the support."""
        values = scores.ratios
        if self.prediction > 0.0:
            values = values + self.prediction * (values + scores.gains - self._empty)
        return np.where(np.isnan(values), -np.inf, values)

    @cached_property
    def local_moments(self) -> LocalMoments:
        moments = self.moments
        scale = self.pooled_scale
        gaps = np.ascontiguousarray(moments.gaps * scale)
        scatter = moments.scatter[:-1] * scale[:, None] * scale
        counts = moments.counts.astype(float)
        present = np.ascontiguousarray(moments.present[:-1])
        return LocalMoments(scatter, gaps, present, counts, moments.outcome, PIVOT_TOLERANCE)

    @cached_property
    def _rows(self) -> GroupRows:
        return group_rows(self.data, self.moments)

    @cached_property
    def _empty(self) -> float:
        """Return the log-likelihood of the environments' own means minus that of the empty
        subset."""
        return float(self._scored(np.zeros((1, self.n_features), dtype=bool)).ratios[0])

    def _gains(self, scores: _Scores) -> Floats:
        """Return the gains (S,) of `gain_many`."""
        gain = scores.ratios + scores.gains - self._empty
        return np.where(np.isnan(gain), -np.inf, gain)

    def _scored(self, masks: Mask, pooled: bool = False, from_rows: bool = False) -> _Scores:
        """Return scores from second moments, or the rows if those cannot decide.

        With squares and leverages if `pooled`.
        """
        n = len(masks)
        order = np.lexsort((np.arange(n), *masks.T[::-1]))
        found = *np.empty((2, n)), *np.empty((2, n if pooled else 0, self.moments.n_environments))

        def one(part: slice) -> None:
            given = self.local_moments, *self.pooled_lists(masks[order[part]])
            own = [values[part] for values in found]
            if from_rows:
                score_common_fits_from_rows(self._rows, *given, *own)
            else:
                score_common_fits(*given, *own)

        in_parts(n, self.n_jobs, one)
        places = np.argsort(order)
        scores = _Scores(*(values[places[: len(values)]] for values in found))
        unknown = np.flatnonzero(np.isnan(scores.ratios))
        if self.has_rows and not from_rows and len(unknown):
            for part, decided in zip(
                scores, self._scored(masks[unknown], pooled, from_rows=True), strict=True
            ):
                part[unknown[: len(decided)]] = decided
        return scores

    def leverages(self, scores: _Scores) -> Floats:
        """Return how much of the pooled fit comes from each environment, (S, E)."""
        return scores.leverages

    def _law(self, masks: Mask) -> tuple[_Scores, tuple[Floats, Floats, Floats, Floats]]:
        """The scores, and (S,) log Λ, mean, variance and degrees of freedom of −2 log Λ; 0 where
        nothing is known"""
        scores = self._scored(masks, pooled=True)
        ratios = scores.ratios
        leverages = self.leverages(scores)
        ranks = self.ranks(masks)[:, :-1]
        known = ~np.isnan(ratios) & (self.moments.n_environments > 1)
        counts = self.moments.counts.astype(float)
        mean, variance, degrees = np.zeros((3, len(masks)))
        mean[known], variance[known] = mean_deviance_moments(counts, ranks[known], leverages[known])
        degrees[known] = np.rint((ranks + 1.0 - leverages)[known].sum(axis=1))
        return scores, (ratios, mean, variance, degrees)

    def _pooled(self, mask: Mask) -> tuple[Floats, Floats]:
        """Return constant and slopes (k + 1,) of the common fit, and its residual sums of squares
        (E,).

        They are in common units.
        """
        _, columns = self.pooled_lists(mask[None])
        if self.has_rows:
            beta, squares = fit_from_rows(self._rows, self.local_moments, columns)
        else:
            beta, squares = fit_from_moments(self.local_moments, columns)
        self.require(not np.isnan(beta).any(), mask)
        return beta, squares


class MeanWalk(SubsetWalk):
    """Rejects what the largest law of −2 log Λ does, that without leverages: these take as long as
    log Λ."""

    model: MeanGaussian

    def _scored(self, draws: Mask, sizes: Mask, least: Floats | None) -> Walked:
        model = self.model
        wanted = sizes[draws.sum(axis=1)]
        masks = self.of_all_features(draws)
        scores, (ratios, log_ratio, gain) = (
            model._scored(masks[wanted]),
            np.full((3, len(draws)), np.nan),
        )
        ratios[wanted], log_ratio[wanted] = scores.ratios, model._values(scores)
        log_ratio[log_ratio == -np.inf] = np.nan
        if least is None:
            return Walked(log_ratio, NO_GAIN)
        assert self.tolerance is not None
        gain[wanted] = model._gains(scores)
        gain = of_interest(gain, masks @ model.free_columns, least)
        asked = np.flatnonzero(~np.isnan(gain))
        listed, which = np.unique(model.ranks(masks[asked])[:, :-1], axis=0, return_inverse=True)
        largest = mean_deviance_moments(
            model.moments.counts.astype(float), listed, np.zeros(listed.shape)
        )
        mean, variance = (moment[which] for moment in largest)
        tested = (variance > 0.0) & (-2.0 * ratios[asked] > mean)
        mean = mean[tested]
        variance = variance[tested]
        asked = asked[tested]
        tails = deviance_tails(
            -2.0 * ratios[asked], mean, variance, model.tolerated(gain[asked], self.tolerance)
        )
        gain[asked[_MARGIN * without_spread(tails, self.tolerance) < self.tolerance.level]] = np.nan
        return Walked(log_ratio, gain)
