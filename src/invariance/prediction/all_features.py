"""Predictors with all features, invariant or not.

For numbers they average pooled least squares and the fixed part of a random intercept model, which
combines environments with weights n_e / (1 + n_e ψ) for the ratio ψ of variances.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Names
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, use
from ..kinds import COUNT
from ..kinds.classes import log_loss, log_odds
from ..models.base import BoundModel, Family, Fit, kind_of, moments_of
from ..models.counts import CountRegression
from ..models.regression import Logistic, Regression
from ..models.survival import PiecewiseExponentialFit
from ..moments.least_squares import independent_columns, least_squares
from ..moments.moments import Moments
from ..moments.random_intercept import inverse_roots, random_intercept
from .predictor import LinearFit, columns_of, squared_error

Data = MultiEnvironmentData | Moments
# Features that are constant in every environment count where there are so many more environments
# than they are.
_MORE_ENVIRONMENTS = 5
# With more columns than this share of the rows, or this many, coefficients are shrunk.
_MOST_FREE = 0.2
_MOST_COLUMNS = 1000
# Penalties that are tried, of columns with sums of squares 1.
_PENALTIES = np.geomspace(1e-4, 1e3, 29)


def line_of_everything(data: Data) -> LinearFit:
    """Return the average of pooled least squares and a random intercept's fixed part, on all
    features.

    With many columns it is ridge regression, whose penalty has the smallest error in held-out
    environments.
    """
    columns = usable_columns(data)
    if shrinks(data):
        return _ridge(data, columns)
    moments = moments_of(data)
    at = moments.places(columns)
    mixed = random_intercept(moments, at)
    centre = moments.pooled_mean
    coefficients = 0.5 * (mixed.pooled + mixed.coefficients)
    intercept = 0.5 * (float(centre[moments.outcome] - centre[at] @ mixed.pooled) + mixed.intercept)
    # By differences from the pooled means, which may be large.
    own = moments.gaps[:, moments.outcome]
    means = moments.gaps[:, at]
    weights = moments.counts / (1.0 + mixed.ratio * moments.counts)
    left = (
        own
        - means @ coefficients
        - 0.5 * float(weights @ (own - means @ mixed.coefficients) / weights.sum())
    )
    freedom = max(moments.n_rows - 1.0 - len(at), 1.0)
    effects = np.column_stack([mixed.ratio * weights * left, np.zeros((len(weights), len(at)))])
    return LinearFit(columns, coefficients, intercept, freedom, effects)


def shrinks(data: Data) -> bool:
    """Return whether there are too many columns for least squares."""
    return data.features.n_columns > min(_MOST_FREE * data.n_rows, _MOST_COLUMNS)


def least_squares_line(data: Data, columns: Names) -> LinearFit:
    """Pooled, on these columns."""
    if isinstance(data, Moments):
        return _line(data, columns, random_intercept(data, data.places(columns), 0.0))
    return _line(data, columns, least_squares(columns_of(data, columns), data.y))


def random_intercept_line(data: Data, columns: Names) -> LinearFit:
    """Return the fixed part of a fit with a random intercept, on these columns."""
    moments = moments_of(data)
    return _line(data, columns, random_intercept(moments, moments.places(columns)))


def _line(data: Data, columns: Names, fit: Any) -> LinearFit:
    freedom = max(data.n_rows - 1.0 - len(columns), 1.0)
    return LinearFit(columns, fit.coefficients, fit.intercept, freedom)


def usable_columns(data: Data) -> Names:
    """Return the columns of all features that can be used.

    Columns that are constant in every environment are excluded if there are too few environments to
    estimate their coefficients.
    """
    features = data.features
    whole = data.site_level.features(data.features)
    if data.n_environments >= features.widths[whole].sum() + _MORE_ENVIRONMENTS:
        return features.columns
    return features.chosen(~whole).columns


# ---------------------------------------------------------------- ridge regression


class _Spectrum(NamedTuple):
    """Hold the spectrum of k columns.

    Means (k,), 1 / roots of the sums of squares (k,), eigenvalues (r,) and vectors (k, r) of their
    correlations, products (r,) of these directions with the outcome, its mean and sum of squares.
    """

    means: Floats
    scale: Floats
    values: Floats
    vectors: Floats
    products: Floats
    outcome_mean: float
    outcome_squares: float
    n_rows: int

    @classmethod
    def of(cls, data: Data, columns: Names) -> _Spectrum:
        if isinstance(data, Moments):
            at = data.places(columns)
            y = data.outcome
            scatter = data.scatter[-1]
            scale = inverse_roots(np.diagonal(scatter)[at])
            values, vectors = np.linalg.eigh(scatter[np.ix_(at, at)] * scale[:, None] * scale)
            with_outcome = scatter[at, y] * scale
            squares = float(scatter[y, y])
            means = data.pooled_mean[at]
            outcome_mean = float(data.pooled_mean[y])
            n_rows = data.n_rows
        else:
            X = columns_of(data, columns)
            n_rows = data.n_rows
            means = X.mean(axis=0)
            outcome_mean = float(data.y.mean())
            X = X - means
            scale = inverse_roots(np.einsum("nk,nk->k", X, X))
            X *= scale
            if X.shape[1] <= n_rows:
                values, vectors = np.linalg.eigh(X.T @ X)
            else:
                _, roots, transposed = np.linalg.svd(X, full_matrices=False)
                values = roots**2
                vectors = transposed.T
            outcome = data.y - outcome_mean
            with_outcome = X.T @ outcome
            squares = float(outcome @ outcome)
        about = vectors.T @ with_outcome, outcome_mean, squares, n_rows
        return cls(means, scale, np.maximum(values, 0.0), vectors, *about)

    def lines(self, penalties: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (L, k) and intercepts (L,)."""
        shrunk = self.products / (self.values + penalties[:, None])
        coefficients = shrunk @ self.vectors.T * self.scale
        return coefficients, self.outcome_mean - coefficients @ self.means

    def freedom(self, penalties: Floats) -> Floats:
        """Return the residual degrees of freedom, (L,)."""
        return np.maximum(
            self.n_rows - 1.0 - (self.values / (self.values + penalties[:, None])).sum(axis=1), 1.0
        )

    def cross_validated(self, penalties: Floats) -> Floats:
        """Return mean squared errors (L,) by generalised cross-validation over the rows."""
        shrunk = self.values + penalties[:, None]
        explained = self.products**2 * (self.values + 2.0 * penalties[:, None]) / shrunk**2
        return (self.outcome_squares - explained.sum(axis=1)) / self.freedom(penalties) ** 2


def _ridge(data: Data, columns: Names) -> LinearFit:
    whole = _Spectrum.of(data, columns)
    penalty = _PENALTIES[[int(np.argmin(_errors_by_penalty(data, whole, columns)))]]
    (coefficients,), (intercept,) = whole.lines(penalty)
    return LinearFit(columns, coefficients, float(intercept), float(whole.freedom(penalty)[0]))


def _errors_by_penalty(data: Data, whole: _Spectrum, columns: Names) -> Floats:
    """Return mean squared errors (L,) in held-out environments, which count equally."""
    if data.n_environments == 1:
        return whole.cross_validated(_PENALTIES)
    found = []
    for place, label in enumerate(data.environments):
        others = without(data, label)
        left = tuple(name for name in columns if name in set(others.features.columns))
        coefficients, intercepts = _Spectrum.of(others, left).lines(_PENALTIES)
        if isinstance(data, Moments):
            lines = zip(coefficients, intercepts, strict=True)
            found.append(
                np.array([squared_error(data, place, left, b, float(a)) for b, a in lines])
            )
        else:
            own = data.rows(place)
            predicted = columns_of(data, left)[own] @ coefficients.T + intercepts
            found.append(np.mean((data.y[own, None] - predicted) ** 2, axis=0))
    return np.asarray(np.mean(found, axis=0))


def without(data: Data, label: Hashable) -> Any:
    """Return the data of all other environments."""
    return data.choosing([other for other in data.environments if other != label])


# ---------------------------------------------------------------- classes, counts and times


def mean_deviance(fit: Fit, data: MultiEnvironmentData, rows: Integers) -> float:
    """Return the mean deviance of these rows (n,).

    For times it is the mean of squared deviance residuals: events per unit of cumulative hazard.
    """
    y = data.y[rows]
    linear = columns_of(data, fit.columns)[rows] @ fit.coefficients + fit.intercept
    if kind_of(fit.specification).classifies:
        own_link = not isinstance(fit.specification, Regression)
        return 2.0 * log_loss(y, log_odds(fit.mean(linear)) if own_link else linear)
    exposure = None if data.exposure is None else data.exposure[rows]
    with np.errstate(over="ignore"):
        if not isinstance(fit, PiecewiseExponentialFit):
            return COUNT.error(y, fit.mean(linear), exposure)
        assert data.event is not None
        return COUNT.error(data.event[rows], np.exp(linear), fit.baseline.cumulative(y))


def pooled_model(family: Family, data: MultiEnvironmentData) -> BoundModel:
    """Return a model of all rows as one environment, so that no environment needs rows for its own
    fit."""
    return family.bind(
        replace(
            data, environment_index=np.zeros_like(data.environment_index), environments=("all",)
        )
    )


def regression_on(family: Family, data: MultiEnvironmentData, names: Collection[str]) -> Fit:
    """Return the family's pooled fit on those of the named features that the data have."""
    return pooled_model(family, data).fit(
        [name for name in data.feature_names if name in names], local=False
    )


def regression_on_everything(family: Family, data: MultiEnvironmentData) -> Fit:
    """Return the family's pooled fit on all features.

    With many columns it has a ridge penalty with the smallest deviance in held-out environments.
    """
    columns = usable_columns(data)
    n_free = int(independent_columns(columns_of(data, columns)).sum())
    informative = data.n_rows if data.event is None else int(data.event.sum())
    if n_free <= _MOST_FREE * informative:
        return regression_on(family, data, data.features.with_columns(columns))
    if isinstance(getattr(family, "family", family), Logistic | CountRegression):
        return _penalized(family, data, columns)
    source = f"{informative} {'rows' if data.event is None else 'events'}"
    raise DataError(
        f"{n_free} columns are too many to predict with all after {source}",
        use(predict_with="selected"),
    )


_GLM_PENALTIES = np.geomspace(1e-3, 1e3, 13)


def _penalized(family: Any, data: MultiEnvironmentData, columns: Names) -> Fit:
    errors = np.zeros(len(_GLM_PENALTIES))
    for place, label in enumerate(data.environments if data.n_environments > 1 else ()):
        with suppress(DataError):  # as where all events are in one environment
            others = without(data, label)
            left = tuple(name for name in columns if name in set(others.features.columns))
            fits = (_penalized_fit(family, others, left, penalty) for penalty in _GLM_PENALTIES)
            errors += [mean_deviance(fit, data, data.rows(place)) for fit in fits]
    penalty = float(_GLM_PENALTIES[int(np.argmin(errors))]) if errors.any() else 1.0
    return _penalized_fit(family, data, columns, penalty)


def _penalized_fit(family: Any, data: MultiEnvironmentData, columns: Names, penalty: float) -> Fit:
    """penalty : of columns with standard deviation 1"""
    X = columns_of(data, columns)
    kind = kind_of(family)
    y, weights = rates(data)
    mean = X.mean(axis=0)
    spread = X.std(axis=0)
    unit = kind.unit(y, weights)
    model = kind.ridge(penalty, data.y).fit((X - mean) / spread, y / unit, sample_weight=weights)
    slopes = np.ravel(model.coef_) / spread
    intercept = float(np.ravel(model.intercept_)[0] + np.log(unit) - slopes @ mean)
    none = np.zeros((0, len(columns))), np.zeros(0)
    return Fit(columns, slopes, intercept, *none, getattr(family, "family", family))


def rates(data: MultiEnvironmentData) -> tuple[Floats, Floats | None]:
    """Return outcomes (n,), as rates if there is an exposure, and their weights."""
    return (data.y, None) if data.exposure is None else (data.y / data.exposure, data.exposure)
