"""Linear Gaussian models in which each environment has its own baseline: effects are compared,
intercepts are not.

Fits with environment intercepts are fits to rows that are centred within environments. The second
moments of the pooled rows then are W, the sum of the environments' scatters, and pooled fits have E
− 1 parameters more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.random_deviations import DeviationProducts
from ..moments.moments import with_own_means
from ..moments.random_intercept import RandomInterceptFit, random_intercept
from .additive import AdditiveModel
from .base import SLOPES, VARIANCE, BoundModel, EnvironmentData, Fit, Level, Null, StandardErrors
from .gaussian import GaussianFromMoments, GaussianModel, MomentModel, null_of_ranks
from .gaussian_mean import MeanGaussian
from .invariance_test import Residuals
from .random_coefficients import GaussianRandomDeviations


def centred_within(data: MultiEnvironmentData) -> MultiEnvironmentData:
    """Return the rows with each column and the outcome centred in each environment."""
    X = data.X.copy()
    y = data.y.copy()
    for e in range(data.n_environments):
        rows = data.rows(e)
        own = X[rows]
        X[rows] = np.where(np.ptp(own, axis=0) > 0.0, own - own.mean(axis=0), 0.0)
        y[rows] -= y[rows].mean()
    return replace(data, X=X, y=y)


class FreeBaselines(MomentModel):
    """Base of the models with environment intercepts; full : the model of the same rows in which
    all are the same"""

    full: Any

    def __init__(self, full: MomentModel) -> None:
        super().__init__(full.moments.within, full.n_jobs)
        self.full = full
        self.extra_intercepts = self.n_environments - 1
        if full.data is not None:
            self.data = centred_within(full.data)

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return ()

    def at_level(self, level: Level) -> BoundModel:
        return self if level is self.level else self.full.at_level(level)

    def without(self, environment: Hashable) -> BoundModel:
        return self.full.without(environment).at_level(self.level)

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        """Return the risk in a new environment with a baseline of its own."""
        return self.full.random_effects_risk_many(masks)

    def unjudged(self, masks: Mask) -> Mask:
        """Return subsets (S,) with a feature that is constant in every environment."""
        return np.asarray(masks[:, self.constant_within].any(axis=1))

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        return np.where(self.unjudged(chosen), -np.inf, super().log_ratio_many(chosen))  # type: ignore[safe-super]

    def gain_many(self, masks: ArrayLike) -> Floats:
        """Over environment intercepts alone."""
        chosen = as_masks(masks, self.n_features)
        return np.where(self.unjudged(chosen), -np.inf, super().gain_many(chosen))  # type: ignore[safe-super]

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Return the fit with environment intercepts; its intercept is the mean baseline over all
        rows."""
        mask = as_mask(subset, self.feature_names)
        coefficients = super().fit(mask, local=False).coefficients  # type: ignore[safe-super]
        moments = self.full.moments
        columns = moments.feature_columns[self.features.expand(mask)]
        centre = moments.pooled_mean
        intercept = float(centre[moments.outcome] - centre[columns] @ coefficients)
        return replace(self.full.fit(mask, local), coefficients=coefficients, intercept=intercept)

    def line(self, mask: Mask) -> Fit:
        """Return the fit that predicts new environments: with a random intercept in each
        environment."""
        found = self.random_intercept(mask)
        return replace(
            self.fit(mask, local=False), coefficients=found.coefficients, intercept=found.intercept
        )

    def random_intercept(self, mask: Mask) -> RandomInterceptFit:
        """Return the random intercept fit of a subset (p,), with predicted baselines (BLUP)."""
        moments = self.full.moments
        return random_intercept(moments, moments.feature_columns[self.features.expand(mask)])


class SharedNoise(FreeBaselines):
    """Base of those in which environments share the noise, too."""

    level = Level.effects
    compares: tuple[str, ...] = (SLOPES, VARIANCE)
    judged: tuple[str, ...] = ("invariance of effects", "rho", "tau")

    @abstractmethod
    def ranks(self, masks: Mask) -> Integers | Floats:
        """Return ranks (S, E + 1) of the fits in each environment and in the pool, without
        environment intercepts."""

    def residuals(self, masks: Mask) -> Residuals:
        found = super().residuals(masks)
        found.rss[self.unjudged(masks)] = np.nan
        return found._replace(extra_intercepts=self.extra_intercepts)

    def rests(self, masks: Mask) -> Residuals:
        found = super().rests(masks)
        return found._replace(ranks=found.ranks + self.extra_intercepts - 1)

    def null_many(self, masks: ArrayLike) -> Null:
        ranks = self.ranks(as_masks(masks, self.n_features))
        ranks[:, -1] += self.extra_intercepts
        return null_of_ranks(self.moments.group_counts, ranks)


class FreeBaselineGaussian(SharedNoise, GaussianFromMoments):
    """Environments share effects and noise, and have baselines of their own.

    log Λ(z) = ½ [Σ n_e log(RSS_e/n_e) − N log(RSS_W/N)], RSS_W of the fit with environment
    intercepts.
    """

    kind = "linear Gaussian, free baselines"

    def of(self, data: EnvironmentData) -> FreeBaselineGaussian:
        return FreeBaselineGaussian(GaussianFromMoments(data, self.n_jobs))

    def ranks(self, masks: Mask) -> Integers:
        return GaussianFromMoments.ranks(self, masks)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        values, freedom = super().standard_errors(subset)
        return _with_freedom(values, freedom, freedom[-1] - self.extra_intercepts)


class FreeBaselineAdditive(SharedNoise, AdditiveModel):  # type: ignore[misc]
    """Environments share the curves and the noise. Components are those of the fit with environment
    intercepts."""

    name = "additive, compared by shape, free baselines"

    def ranks(self, masks: Mask) -> Floats:
        return np.array(AdditiveModel.residuals(self, masks).ranks)

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask]:
        components, chosen = super().compared_by(mask)
        return FreeBaselineGaussian(components), chosen

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        mask = as_mask(subset, self.feature_names)
        pooled = super().fit(mask, local=False)
        if not local:
            return pooled
        moments = self.full.moments
        own = AdditiveModel.fit(self, mask)
        means = moments.means[:, moments.feature_columns[self.features.expand(mask)]]
        shift = (np.nan_to_num(own.local_coefficients) * means).sum(axis=1)
        intercepts = moments.means[:, moments.outcome] - shift
        return replace(
            pooled, local_coefficients=own.local_coefficients, local_intercepts=intercepts
        )

    def standard_errors(self, subset: Subset) -> StandardErrors:
        values, freedom = super().standard_errors(subset)
        return _with_freedom(values, freedom, freedom[-1] - self.extra_intercepts)


class FreeBaselineMeanGaussian(FreeBaselines, MeanGaussian):
    """Environments share effects alone: baselines and noise are their own."""

    kind = "linear Gaussian, free baselines and noise"
    level = Level.effects_noise_free
    compares: tuple[str, ...] = (SLOPES,)
    judged = ("invariance of effects", "rho")

    @cached_property
    def linear(self) -> GaussianFromMoments:
        return FreeBaselineGaussian(self.full.linear)

    def of(self, data: EnvironmentData) -> FreeBaselineMeanGaussian:
        return FreeBaselineMeanGaussian(MeanGaussian(data, self.n_jobs))

    @property
    def shared_baseline(self) -> MeanGaussian:
        """The model of the same rows in which environments share their baseline too, and have noise
        of their own."""
        if isinstance(self.full, MeanGaussian):
            return self.full
        return MeanGaussian(self.full.observed, self.n_jobs)

    def baselines(self, mask: Mask) -> tuple[Floats, Floats]:
        """Return the baseline of each environment, of a row with the mean of each column over all
        rows.

        Standard errors are those of generalised least squares: σ_e²/n_e + a'Va, with a from the
        means of all rows to those of the environment and V the covariance of the common effects.

        Returns
        -------
        values, errors : ndarray of shape (n_environments,)
        """
        moments = self.full.moments
        columns = moments.feature_columns[self.features.expand(mask)]
        away = moments.means[:, columns] - moments.pooled_mean[columns]
        values = moments.means[:, moments.outcome] - away @ self.fit(mask, local=False).coefficients
        _, squares = self._pooled(mask)
        variances = squares / moments.counts / self.pooled_scale[moments.outcome] ** 2
        scale = self.pooled_scale[columns]
        scatter = self.moments.scatter[:-1][:, columns][:, :, columns] * scale[:, None] * scale
        precision = (scatter / variances[:, None, None]).sum(axis=0)
        scaled = away * scale
        of_effects = ((scaled @ np.linalg.pinv(precision, hermitian=True)) * scaled).sum(axis=1)
        return values, np.sqrt(variances / moments.counts + of_effects)

    def of_environments(self, kept: Mask) -> MeanGaussian:
        return self.of(with_own_means(self.full.moments, kept, np.zeros_like(kept)))

    def leverages(self, scores: Any) -> Floats:
        """Each environment has the whole of its own intercept, in place of its share of a common
        one."""
        common = self.moments.counts**2 / scores.squares
        return np.asarray(scores.leverages - common / common.sum(axis=1, keepdims=True) + 1.0)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        values, freedom = super().standard_errors(subset)
        left = self.full.linear.standard_errors(subset).freedom[-1]
        return _with_freedom(values, np.append(freedom[:-1], left), left - self.extra_intercepts)


class FreeBaselineRandomDeviations(FreeBaselines, GaussianRandomDeviations):
    """Effects deviate at random between environments, which have baselines of their own: W = x − x̄
    of the environment, without a constant."""

    kind = "linear Gaussian, random deviations, free baselines"
    level = Level.effects
    judged: tuple[str, ...] = ("invariance of effects, by random deviations,", "rho", "tau")

    def __init__(self, full: GaussianModel) -> None:
        super().__init__(full)
        self.compares = (SLOPES,) if self.data is None else (SLOPES, VARIANCE)
        self.judged = self.judged[: len(self.compares) + 1]

    def of(self, data: EnvironmentData) -> FreeBaselineRandomDeviations:
        return FreeBaselineRandomDeviations(GaussianRandomDeviations(data, self.n_jobs))

    @cached_property
    def _sites(self) -> DeviationProducts:
        """Without products of the constant, which the kernel then takes for a column that others
        give"""
        sites = super()._sites
        products = sites.products.copy()
        pooled = sites.pooled.copy()
        products[0] = products[:, 0] = 0.0
        pooled[0] = pooled[:, 0] = 0.0
        return sites._replace(products=products, pooled=pooled)

    def ranks(self, masks: Mask) -> Integers:
        return super().ranks(masks) + 1

    def residuals(self, masks: Mask) -> Residuals:
        found = super().residuals(masks)
        return found._replace(
            ranks=np.asarray(found.ranks + 1.0), extra_intercepts=self.extra_intercepts
        )

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Generalised least squares with environment intercepts; an environment's coefficients are
        predicted (BLUP)."""
        mask = as_mask(subset, self.feature_names)
        if not mask.any():
            return self.full.fit(mask, local)
        fit = GaussianRandomDeviations.fit(self, mask, local)
        moments = self.full.moments
        columns = moments.feature_columns[self.features.expand(mask)]
        own = np.nan_to_num(fit.local_coefficients)
        means = moments.means[: len(own)]
        centre = moments.pooled_mean
        intercept = float(centre[moments.outcome] - centre[columns] @ fit.coefficients)
        intercepts = means[:, moments.outcome] - (means[:, columns] * own).sum(axis=1)
        return replace(fit, intercept=intercept, local_intercepts=intercepts)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        mask = as_mask(subset, self.feature_names)
        return super().standard_errors(mask) if mask.any() else self.full.standard_errors(mask)


def _with_freedom(values: Floats, freedom: Floats, left: float) -> StandardErrors:
    """Return standard errors with these degrees of freedom of pooled fits."""
    factor = np.sqrt(freedom[-1] / left) if left > 0.0 else np.nan
    return StandardErrors(
        np.vstack([values[:-1], factor * values[-1:]]), np.append(freedom[:-1], left)
    )
