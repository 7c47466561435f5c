"""Any model with a maximum-likelihood fit as a conditional: write one method, `maximise`, and every engine runs on it.

log Λ(z) is the largest log-likelihood of the pooled rows less the sum of those of each environment's rows. It takes as
long as E + 1 fits; a member for which that is too long overrides the abilities of `BoundModel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Mask
from .._tools.parallel import ordered_map
from ..data.features import Features, Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..moments.least_squares import independent_columns
from ..moments.moments import Moments
from .base import BoundModel, Description, Null, Prediction

# A pooled fit that is better than the local ones by less than this share of their size is so by the optimiser's error.
_ROUNDING = 1e-6


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

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> LikelihoodModel:
        """Tie the model to data."""
        if isinstance(data, Moments):
            raise DataError(f"the {self.name} model needs the rows, and only moments are at hand: pass the data.")
        return LikelihoodModel(self, data, n_jobs)


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """As `Fit`: the pooled maximum and those of each environment, NaN for columns that are left out there."""

    specification: ByLikelihood
    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats

    def mean(self, predictor: Floats) -> Floats:
        return self.specification.mean(predictor)

    def predict(self, X: Floats) -> Floats:
        return self.mean(X @ self.coefficients + self.intercept)


class LikelihoodModel(BoundModel):
    """A specification tied to rows. Columns that do not vary in an environment, and those that are combinations of
    others there, are left out of the fit."""

    def __init__(self, specification: ByLikelihood, data: MultiEnvironmentData, n_jobs: int | None = None) -> None:
        self.specification = specification
        self.data = data
        self.n_jobs = n_jobs
        self._groups = [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]

    @property
    def features(self) -> Features:
        return self.data.features

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.data

    def describe(self) -> Description:
        data = self.data
        return Description(self.specification.name, data.outcome_name, data.environments, data.counts)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._each(masks, lambda fits: _log_ratio([fit.log_likelihood for fit in fits]), -np.inf)

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        empty = self._fitted(self.data.features.expand(np.zeros(self.n_features, dtype=bool)), self._groups[-1:])
        if empty is None:
            raise DataError(
                f"the {self.specification.name} model cannot be fitted to {self.data.outcome_name!r} alone."
            )
        pooled = self._groups[-1:]
        gain = self._each(masks, lambda fits: fits[0].log_likelihood - empty[0].log_likelihood, -np.inf, pooled)
        return Prediction(gain, self._each(masks, lambda fits: float(fits[0].n_parameters), np.nan, pooled))

    def null_many(self, masks: ArrayLike) -> Null:
        """−2 log Λ is chi-square for many rows, with a degree of freedom for each parameter that may differ."""
        degrees = self._each(masks, lambda fits: sum(f.n_parameters for f in fits[:-1]) - fits[-1].n_parameters, 0.0)
        return Null(np.where(degrees > 0.0, -0.5 * degrees, -np.inf), 0.5 * degrees, degrees)

    def fit(self, subset: Subset, local: bool = True) -> LikelihoodFit:
        mask = as_mask(subset, self.feature_names)
        chosen = self.features.expand(mask)
        groups = self._groups if local else self._groups[-1:]
        fits = self._fitted(chosen, groups)
        if fits is None:
            raise DataError(f"this subset cannot be fitted: {self.unsupported(mask)}.")
        slopes = np.full((len(fits), int(chosen.sum())), np.nan)
        for row, fit, rows in zip(slopes, fits, groups, strict=True):
            row[independent_columns(self.data.X[np.ix_(rows, chosen)])] = fit.coefficients
        intercepts = np.array([fit.intercept for fit in fits])
        pooled = np.nan_to_num(slopes[-1])
        columns = self.features.chosen(mask).columns
        return LikelihoodFit(self.specification, columns, pooled, intercepts[-1], slopes[:-1], intercepts[:-1])

    def _each(
        self,
        masks: ArrayLike,
        value: Callable[[list[Maximum]], float],
        otherwise: float,
        groups: Sequence[NDArray[np.intp]] | None = None,
    ) -> Floats:
        """(S,) `value` of the fits of each subset in the groups (default: the environments and the pool)"""
        chosen = self.features.expand(as_masks(masks, self.n_features))

        def one(columns: Mask) -> float:
            fits = self._fitted(columns, self._groups if groups is None else groups)
            return otherwise if fits is None else float(value(fits))

        return np.array(list(ordered_map(one, chosen, self.n_jobs)), dtype=float)

    def _fitted(self, chosen: Mask, groups: Sequence[NDArray[np.intp]]) -> list[Maximum] | None:
        """The fits of the chosen columns (q,) to each group of rows; None where one of them has none."""
        fits = []
        for rows in groups:
            X = self.data.X[np.ix_(rows, chosen)]
            fit = self.specification.maximise(X[:, independent_columns(X)], self.data.y[rows])
            if fit is None or not np.isfinite(fit.log_likelihood):
                return None
            fits.append(fit)
        return fits


def _log_ratio(log_likelihoods: list[float]) -> float:
    """Of the local fits and, last, the pooled one; -inf where an optimiser stopped too early for it to make sense."""
    if len(log_likelihoods) == 2:
        return 0.0
    local = sum(log_likelihoods[:-1])
    value = log_likelihoods[-1] - local
    return value if value <= 0.0 else 0.0 if value <= _ROUNDING * max(1.0, abs(local)) else -np.inf
