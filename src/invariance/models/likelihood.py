"""log Λ by maximum likelihood, and any model with such a fit as a family: write one method, `maximise`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..moments.least_squares import independent_columns
from .base import BoundModel, EnvironmentData, Fit, Memory, Null, rows_for
from .gaussian import LinearGaussian
from .gaussian_fits import row_groups
from .invariance_test import EACH, Tolerance, deviance_test, sidak

_MOST_REMEMBERED = 500_000
# A pooled fit that is better than the local ones by less than this share of their size is so by the optimiser's error.
_ROUNDING = 1e-6


class Figures(NamedTuple):
    """(S,) each: log Λ, the pooled log-likelihood, degrees of freedom of −2 log Λ, parameters of the pooled fit."""

    log_ratio: Floats
    pooled: Floats
    degrees: Floats
    parameters: Floats

    @classmethod
    def of(cls, log_ratio: Floats, pooled: Floats, ranks: Integers, profiled: Integers | int) -> Figures:
        """ranks (S, E + 1): identified parameters of the fits; profiled: those that are not counted there."""
        parameters = (ranks + profiled).astype(float)
        degrees = parameters[:, :-1].sum(axis=1) - parameters[:, -1]
        return cls(log_ratio, pooled, degrees, parameters[:, -1])


class LikelihoodRatioModel(BoundModel):
    """Base of models whose log Λ is a ratio of maximised likelihoods of the rows; each subset is fitted once."""

    data: MultiEnvironmentData

    def __init__(self, specification: Any, data: MultiEnvironmentData, n_jobs: int | None = None) -> None:
        super().__init__(data)
        self.specification, self.data, self.n_jobs = specification, data, n_jobs
        self._memory = Memory(_MOST_REMEMBERED)

    @abstractmethod
    def computed(self, masks: Mask) -> Figures:
        """Of the subsets in masks (S, p); log Λ is NaN outside the support."""

    @property
    def name(self) -> str:
        return str(self.specification.name)

    def figures(self, masks: ArrayLike) -> Figures:
        """Of the subsets in masks (S, p), each fitted once; log Λ is -inf outside the support."""
        chosen = as_masks(masks, self.n_features)
        known = self._memory.of(chosen, lambda new: np.column_stack(self.computed(new)).tolist())
        figures = Figures(*np.array(known).reshape(len(known), len(Figures._fields)).T)
        log_ratio = np.where(np.isnan(figures.log_ratio), -np.inf, figures.log_ratio)
        return figures._replace(log_ratio=log_ratio)

    def without(self, environment: Hashable) -> BoundModel:
        others = [label for label in self.data.environments if label != environment]
        bound: BoundModel = self.specification.bind(self.data.choosing(others), self.n_jobs)
        return bound

    @cached_property
    def empty(self) -> float:
        """Pooled log-likelihood of the empty subset"""
        value = float(self.figures(np.zeros(self.n_features, dtype=bool)).pooled[0])
        if np.isnan(value):
            raise DataError(f"the {self.name} model cannot be fitted to {self.data.outcome_name!r} alone.")
        return value

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self.figures(masks).log_ratio

    def gain_many(self, masks: ArrayLike) -> Floats:
        figures = self.figures(masks)
        return np.where(figures.log_ratio > -np.inf, figures.pooled - self.empty, -np.inf)

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        """An environment and the rest differ in no more than all environments do: where that would be little for the
        two, the rest is not fitted."""
        joint, allowed = self._all_together(masks, tolerance)
        figures, enough = self.figures(masks), EACH * tolerance.level
        environments, passed = self.data.n_environments, joint >= tolerance.level
        # An environment may lack parameters of the pooled fit.
        fewest = figures.parameters - np.maximum((environments - 1) * figures.parameters - figures.degrees, 0.0)
        asked, share = np.flatnonzero(passed & (fewest > 0.0)), allowed * self.data.counts.min() / self.n_rows
        degrees = fewest[asked]
        alone = deviance_test(-2.0 * figures.log_ratio[asked], degrees, degrees, share[asked])
        open_yet = passed.copy()
        open_yet[asked[sidak(np.tile(alone[:, None], environments)) >= enough]] = False
        each = self.each_p_values(masks, open_yet, allowed)
        return np.asarray(passed & ~(each < enough))

    def null_many(self, masks: ArrayLike) -> Null:
        return self.null_of(self.figures(masks))

    @cached_property
    def _linear(self) -> BoundModel | None:
        """The linear Gaussian model of the working outcome, in environments where that varies; None with one of them"""
        data, y = self.data, self.specification.working_outcome(self.data)
        varying = [e for e in range(data.n_environments) if np.ptp(y[data.rows(e)]) > 0.0]
        kept = np.flatnonzero(np.isin(data.environment_index, varying))
        index, labels = np.searchsorted(varying, data.environment_index[kept]), [data.environments[e] for e in varying]
        part = replace(data, X=data.X[kept], y=y[kept], environment_index=index, environments=tuple(labels))
        return LinearGaussian().bind(part, self.n_jobs) if len(varying) > 1 else None

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        """Of least squares fits to the working outcome; inf outside the support."""
        chosen = as_masks(masks, self.n_features)
        risks = np.full(len(chosen), np.inf) if self._linear is None else self._linear.random_effects_risk_many(chosen)
        return np.where(self.in_support(chosen), risks, np.inf)

    def in_support(self, masks: Mask) -> Mask:
        """(S,) whether the subsets in masks (S, p) can be fitted"""
        return self.log_ratio_many(masks) > -np.inf

    def null_of(self, figures: Figures, counts: Integers | None = None) -> Null:
        """For many rows −2 log Λ is chi-square, with a degree of freedom for each parameter that may differ. counts
        (G,): rows of the groups that are compared, if these are not the environments"""
        degrees = figures.degrees if self.data.n_environments > 1 else np.zeros_like(figures.degrees)
        return Null.of_deviance(degrees, 2.0 * degrees, degrees)


class Maximum(NamedTuple):
    """log_likelihood at the maximum, coefficients (k,) and intercept there, number of parameters in all."""

    log_likelihood: float
    coefficients: Floats
    intercept: float
    n_parameters: int


class ByLikelihood(ABC):
    """Base of specifications (frozen dataclasses) that say how one table is fitted."""

    name: str = "maximum likelihood"

    @abstractmethod
    def maximise(self, X: Floats, y: Floats) -> Maximum | None:
        """The fit to rows X (n, k), y (n,) with an intercept; None where there is none (too few rows, no maximum)."""

    def mean(self, predictor: Floats) -> Floats:
        """The expected outcome (n,) at intercept + coefficients · columns (n,)."""
        return predictor

    def working_outcome(self, data: MultiEnvironmentData) -> Floats:
        """(N,) numbers of which least squares tell how coefficients differ between environments."""
        return data.y

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> LikelihoodModel:
        """Tie the model to data."""
        return LikelihoodModel(self, rows_for(self.name, data), n_jobs)


class LikelihoodModel(LikelihoodRatioModel):
    """A specification tied to rows. Columns that are constant or dependent in an environment are left out there."""

    def against_the_rest(self, masks: Mask) -> Iterator[tuple[Floats, Null]]:
        for e, label in enumerate(self.data.environments):
            groups = (self.data.environment_index == e).astype(np.intp)
            data = replace(self.data, environment_index=groups, environments=(None, label))
            pair = LikelihoodModel(self.specification, data, self.n_jobs)
            yield pair.log_ratio_many(masks), pair.null_many(masks)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        mask = as_mask(subset, self.feature_names)
        chosen = self.features.expand(mask)
        fits = self._fitted(chosen, local) or []
        self.require(bool(fits), mask)
        slopes = np.full((len(fits), int(chosen.sum())), np.nan)
        for row, (fit, used) in zip(slopes, fits, strict=True):
            row[used] = fit.coefficients
        intercepts = np.array([fit.intercept for fit, _ in fits])
        names, pooled = self.features.chosen(mask).columns, np.nan_to_num(slopes[-1])
        return Fit(names, pooled, intercepts[-1], slopes[:-1], intercepts[:-1], self.specification)

    def computed(self, masks: Mask) -> Figures:
        each = list(ordered_map(self._figures_of, self.features.expand(masks), self.n_jobs))
        return Figures(*np.array(each, dtype=float).reshape(len(each), len(Figures._fields)).T)

    def _figures_of(self, chosen: Mask) -> tuple[float, ...]:
        found = self._fitted(chosen)
        if found is None:
            return np.nan, np.nan, 0.0, np.nan
        *local, pooled = [fit for fit, _ in found]
        degrees = sum(fit.n_parameters for fit in local) - pooled.n_parameters
        own = sum(fit.log_likelihood for fit in local)
        value = pooled.log_likelihood - own if len(local) > 1 else 0.0
        # Above 0 an optimiser stopped early: a little, which is rounding, or too early for log Λ to make sense.
        if value > 0.0:
            value = 0.0 if value <= _ROUNDING * max(1.0, abs(own)) else -np.inf
        return value, pooled.log_likelihood, degrees, pooled.n_parameters

    def _fitted(self, chosen: Mask, local: bool = True) -> list[tuple[Maximum, Mask]] | None:
        """Fits of chosen columns (q,) and the columns that each could use, the pooled one last; None where none is."""
        fits = []
        for rows in row_groups(self.data)[0 if local else -1 :]:
            X = self.data.X[np.ix_(rows, chosen)]
            used = independent_columns(X)
            fit = self.specification.maximise(X[:, used], self.data.y[rows])
            if fit is None or not np.isfinite(fit.log_likelihood):
                return None
            fits.append((fit, used))
        return fits
