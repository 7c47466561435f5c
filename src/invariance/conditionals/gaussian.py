"""What the Gaussian models share: their columns, and how log Λ scatters for an invariant subset."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, polygamma

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Features
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import Subset, as_mask, as_masks
from ..kernels.active_set import Scoring
from ..moments.fourths import FourthMoments
from ..moments.moments import Moments
from .base import BoundConditional, Null
from .description import Description
from .invariance_test import InvarianceTest, Residuals, invariance_test
from .kurtosis import excess_kurtosis, kurtosis_from_fourths
from .random_effects import random_effects_risk
from .standard_errors import StandardErrors, errors_from_moments, errors_from_roots, errors_from_rows
from .tolerance import Tolerance
from .transfer import left_out_errors, left_out_errors_from_roots, left_out_errors_from_rows


class GaussianModel(BoundConditional):
    """Base of the models whose log Λ is that of linear Gaussian fits to `moments`; data: the rows, if at hand.

    prediction: the reward λ. What engines call log Λ is then log Λ + λ · (gain of the pooled fit over the empty one).
    """

    moments: Moments
    data: MultiEnvironmentData | None
    n_jobs: int | None
    prediction: float = 0.0
    name = "linear Gaussian"

    @abstractmethod
    def of(self, data: MultiEnvironmentData | Moments) -> GaussianModel:
        """The same model of other data, without a reward for prediction."""

    @property
    def features(self) -> Features:
        return self.moments.features

    @property
    def free_columns(self) -> Integers:
        """Fewer than there are columns where a level that the others are compared with does not occur."""
        return self.moments.varying_widths[-1]

    @property
    def by_least_squares(self) -> GaussianModel:
        return self

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.data

    @property
    def has_rows(self) -> bool:
        """Whether the rows are at hand, or factors of them, which decide what second moments cannot."""
        return self.data is not None or self.roots is not None

    @property
    def roots(self) -> Floats | None:
        """(E, m, d) factors of the rows, where these were looked at beside the moments"""
        return None if self.moments.second is None else self.moments.second.roots

    @property
    def fourths(self) -> FourthMoments | None:
        """Sums of fourth powers, where the rows were looked at beside the moments"""
        return None if self.moments.second is None else self.moments.second.fourths

    @property
    def largest_size(self) -> int:
        return self.moments.largest_size

    def check_max_size(self, max_size: int) -> None:
        self.moments.check_max_size(max_size)

    def describe(self) -> Description:
        moments = self.moments
        name = self.name
        if self.prediction > 0.0:
            name = f"{name}, prediction rewarded by {self.prediction:g}"
        return Description(name, moments.outcome_name, moments.environments, moments.counts)

    @property
    def untilted(self) -> GaussianModel:
        # Not cached where it is the model itself: second moments would wait for the garbage collector.
        return self if self.prediction == 0.0 else self._without_reward

    @cached_property
    def _without_reward(self) -> GaussianModel:
        plain = copy(self)
        plain.prediction = 0.0
        return plain

    def rewarding(self, scoring: Scoring) -> Scoring:
        """The scoring of log Λ, with the reward for prediction in the weight of the pool."""
        if self.prediction == 0.0:
            return scoring
        weights = scoring.weights.copy()
        weights[-1] -= 0.5 * self.prediction * self.moments.n_rows
        return scoring._replace(weights=weights)

    def null_many(self, masks: ArrayLike) -> Null:
        """Under invariance RSS/σ² is chi-square in every environment and in the pool, and −2 log Λ is independent of
        the pooled RSS: its first two moments have no unknowns."""
        ranks = self.ranks(as_masks(masks, self.n_features))
        mean, variance = deviance_moments(self.moments.group_counts, ranks)
        known = variance > 0.0
        degrees = (ranks[:, :-1] + 2).sum(axis=1) - (ranks[:, -1] + 2)
        return Null(np.where(known, -0.5 * mean, -np.inf), 0.25 * variance, np.where(known, degrees, 0.0))

    @abstractmethod
    def residuals(self, masks: Mask) -> Residuals:
        """Residual sums of squares and ranks of the subsets (S, p) in every environment and in the pool."""

    def excess_kurtosis(self, masks: Mask) -> Floats:
        """(S,) of the residuals with common slopes and own intercepts of the subsets (S, p); 0 without the rows, or
        sums of fourth powers."""
        if self.data is None and self.fourths is None:
            return np.zeros(len(masks))
        chosen = self.features.expand(masks)
        used = np.flatnonzero(chosen.any(axis=0))
        columns = np.append(self.moments.feature_columns[used], self.moments.outcome)
        within = self.moments.scatter[:-1, columns[:, None], columns].sum(axis=0)
        if self.data is None:
            assert self.fourths is not None
            return kurtosis_from_fourths(self.moments, self.fourths, used, within, chosen[:, used])
        return excess_kurtosis(self.data, used, within, chosen[:, used], self.n_jobs)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """By the F test of common coefficients and Bartlett's test of equal variances, corrected for heavy tails."""
        chosen = as_masks(masks, self.n_features)
        return invariance_test(self.residuals(chosen), tolerance, self.excess_kurtosis(chosen))

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        if self.moments.n_environments < 2:
            return np.full(len(chosen), np.nan)
        total = self.moments.scatter[-1][self.moments.outcome, self.moments.outcome]
        columns = self.features.expand(chosen)
        errors = left_out_errors(self.moments, columns)
        for s in np.flatnonzero(np.isnan(errors).any(axis=1)):
            if self.data is not None:
                errors[s] = left_out_errors_from_rows(self.data, columns[s])
            elif self.roots is not None:
                errors[s] = left_out_errors_from_roots(self.moments, self.roots, columns[s])
        return 1.0 - errors.sum(axis=1) / total

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats | None:
        chosen = as_masks(masks, self.n_features)
        fits = self.residuals(chosen)
        return random_effects_risk(self.moments, self.features.expand(chosen), fits.rss, fits.freedom)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        columns = self.features.expand(as_mask(subset, self.feature_names))
        if self.data is not None:
            return errors_from_rows(self.data, columns)
        if self.roots is not None:
            return errors_from_roots(self.moments, self.roots, columns)
        return errors_from_moments(self.moments, columns)

    def ranks(self, masks: Mask) -> Integers:
        """(S, E + 1) ranks of the fits in each environment and in the pool.

        They are the numbers of columns that vary there, as in every subset that second moments can decide. Columns
        that are constant in every environment differ between E points only, and have rank E − 1 at most.
        """
        chosen = self.features.expand(masks)
        constant = ~self.moments.present[:, self.moments.feature_columns]
        partly = np.flatnonzero(constant.any(axis=0) & chosen.any(axis=0))
        settings = constant[:-1].all(axis=0) & ~constant[-1]
        ranks = chosen.sum(axis=1)[:, None] - chosen[:, partly].astype(np.int64) @ constant[:, partly].T
        ranks[:, -1] -= np.maximum(chosen[:, settings].sum(axis=1) - (self.moments.n_environments - 1), 0)
        return ranks


def deviance_moments(counts: Floats, ranks: Integers | Floats) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets, from counts (G,) of rows and ranks (S, G) of the fits in
    each environment and, last, in the pool.

    Both are 0 where some fit has no degree of freedom left, and with one environment, whose log Λ is always 0.
    """
    freedom = counts - 1.0 - ranks
    estimable = (freedom > 0.0).all(axis=1) & (len(counts) > 2)
    halves = freedom[estimable] / 2.0
    signs = np.append(-np.ones(len(counts) - 1), 1.0)
    mean, variance = np.zeros((2, len(ranks)))
    mean[estimable] = (digamma(halves) + np.log(2.0 / counts)) @ (signs * counts)
    variance[estimable] = polygamma(1, halves) @ (-signs * counts**2)
    return mean, variance


def group_weights(counts: Floats) -> Floats:
    """(G,) log Λ = offset + Σ weights · log(residual share); with one environment everything cancels."""
    if len(counts) == 2:
        return np.zeros(2)
    return 0.5 * counts * np.append(np.ones(len(counts) - 1), -1.0)


def inverse_scales(diagonal: Floats, present: Mask) -> Floats:
    """(G, d) 1 / root of the sums of squares (G, d); 0 where a column is not present."""
    return np.where(present, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
