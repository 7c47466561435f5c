"""Selections that ignore invariance, and the oracle that knows the true features.

They are the reference methods "Regression" and "Oracle" of the paper's synthetic study, and the
Lasso and marginal correlations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, fdtrc, stdtr

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import quoted, warn
from ..data.features import as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, use
from ..kernels.row_residuals import triangular_factor
from ..kinds import OutcomeKind
from ..models.registry import family_of
from ..moments.least_squares import (
    DEPENDENT,
    independent_columns,
    least_squares,
    unit_rows,
)
from ..prediction.all_features import pooled_model
from ..screening import (
    LassoFit,
    cross_validated_lasso,
    pooled_correlations,
    random_folds,
    standardized,
)
from .base import Baseline, Line, kind_for

# Of a Lasso of classes or counts: penalties, most steps at each, smallest weight of a row, and when
# steps end.
_N_PENALTIES = 12
_MAX_IRLS_STEPS = 25
_LEAST_WEIGHT = 1e-5
_CONVERGED = 1e-5


def coefficient_tests(X: Floats, y: Floats, widths: Integers) -> tuple[Floats, bool]:
    """Return p-values (p,) in least squares with an intercept, and whether X determines y.

    They are of t-tests, or F-tests of several columns; NaN for combinations of earlier columns; 0
    or 1 if X determines y up to rounding. X (n, k) with n ≥ k + 2; widths (p,): columns of each
    feature.
    """
    n, k = X.shape
    unit, _, _ = unit_rows(np.column_stack([X, y]))
    triangle, independent = triangular_factor(unit, np.arange(k + 1), DEPENDENT)
    kept = np.flatnonzero(independent[:k])
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    df = n - len(kept) - 1.0
    coefficients = inverse @ triangle[kept, k]
    lengths = np.sqrt(np.sum(inverse**2, axis=1))
    by_column = np.full(k, np.nan)
    exact = not independent[k]
    if exact:
        by_column[kept] = np.where(np.abs(coefficients) > np.sqrt(DEPENDENT) * lengths, 0.0, 1.0)
    else:
        errors = triangle[k, k] / np.sqrt(df) * lengths
        by_column[kept] = 2.0 * stdtr(df, -np.abs(coefficients) / errors)
    p_values = np.fmin.reduceat(by_column, np.cumsum(widths) - widths)
    owner = np.repeat(np.arange(len(widths)), widths)[kept]
    for j in np.flatnonzero(np.bincount(owner) > 1) if not exact else ():
        own = owner == j
        explained = coefficients[own] @ np.linalg.solve(
            inverse[own] @ inverse[own].T, coefficients[own]
        )
        p_values[j] = fdtrc(own.sum(), df, explained / own.sum() / (triangle[k, k] ** 2 / df))
    return p_values, exact


def _tested(data: MultiEnvironmentData, alpha: float) -> tuple[Floats, Mask]:
    """Return p-values of the features and which are significant, with warnings on special cases."""
    p_values, exact = coefficient_tests(data.X, data.y, data.features.widths)
    names = np.array(data.feature_names, dtype=object)
    selected = p_values < alpha
    _warn_of_redundant(np.isnan(p_values), data)
    if exact:
        warn(
            f"the outcome {data.outcome_name!r} is an exact linear function of "
            f"{quoted(names[selected])}, beside which "
            "nothing can be significant: leave them out to see what the other features say."
        )
    return p_values, selected


def _warn_of_redundant(redundant: Mask, data: MultiEnvironmentData) -> None:
    """Warn of redundant features (p,)."""
    if redundant.any():
        names = np.array(data.feature_names, dtype=object)[redundant]
        warn(
            f"features that are combinations of those before them are not selected: {quoted(names)}"
        )


@dataclass(eq=False, repr=False)
class PooledRegression(Baseline):
    """Select the features with significant coefficients in a regression on all features.

    All rows are fitted together: numbers by least squares, two classes by logistic, counts by
    negative binomial and times by piecewise exponential regression. Predictions use all features.
    With too few rows for that (fewer than the columns plus 2), the method is `LassoSelection` with
    up to ten folds.

    Parameters
    ----------
    alpha : float, default=0.05
        Level. A feature is selected if its p-value is smaller.
    random_state : int, default=0
        Seed of the folds of the Lasso.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    used_lasso_ : bool
        Whether the Lasso was used.
    p_values_ : ndarray of shape (n_features,)
        P-values of t-tests for numbers (F-tests for features of several columns) and of
        likelihood-ratio tests otherwise. NaN for a linear combination of earlier features and if
        the Lasso was used.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    coef_ : ndarray of shape (n_columns,)
        Coefficients of all columns.
    intercept_ : float
        Intercept.

    Examples
    --------
    >>> from invariance.baselines import PooledRegression
    >>> from invariance.datasets import make_example
    >>> PooledRegression().fit(make_example()).used_lasso_
    False
    """

    _kinds = ("number", "classes", "count", "time")
    _takes = ("event", "exposure")
    _as_number = False
    _any_size = True

    alpha: float = 0.05
    random_state: int = 0
    columns: Columns | None = None

    def _select(self, data: MultiEnvironmentData) -> Mask:
        self.used_lasso_ = data.n_rows < data.features.n_columns + 2
        if self.used_lasso_:
            self.p_values_ = self._expand(np.full(data.n_features, np.nan), np.nan)
            self._lasso = _lasso(data, min(10, data.n_rows // 2), self.random_state)
            return _features_kept(self._lasso, data)
        if kind_for(data).by_least_squares:
            p_values, selected = _tested(data, self.alpha)
        else:
            p_values = _likelihood_ratio_tests(data)
            selected = p_values < self.alpha
        self.p_values_ = self._expand(p_values, 1.0)
        return selected

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        if self.used_lasso_:
            return per_unit(data, self._lasso.coefficients, self._lasso.intercept)
        return super()._coefficients(data, np.ones(data.n_features, dtype=bool))


def _likelihood_ratio_tests(data: MultiEnvironmentData) -> Floats:
    """Return p-values (p,) of each feature given all others in the model of the outcome.

    NaN for combinations of earlier features.
    """
    degrees = np.add.reduceat(independent_columns(data.X).astype(int), data.features.starts[:-1])
    model = pooled_model(family_of(data), data)
    tested = degrees > 0
    _warn_of_redundant(~tested, data)
    gain = model.gain_many(np.vstack([tested, tested & ~np.eye(data.n_features, dtype=bool)]))
    model.require(gain[0] > -np.inf, tested)
    return np.where(tested, chdtrc(degrees, np.maximum(2.0 * (gain[0] - gain[1:]), 0.0)), np.nan)


@dataclass(eq=False, repr=False)
class LassoSelection(Baseline):
    """Select the features that a cross-validated Lasso on the pooled rows keeps.

    The penalised log-likelihood is Gaussian for numbers, logistic for two classes and Poisson for
    counts. A feature of several columns is selected if one of its columns is.

    Parameters
    ----------
    cv : int, default=5
        Number of random folds.
    random_state : int, default=0
        Seed of the folds.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    penalty_ : float
        The penalty with the smallest error in the folds.
    lasso_coef_ : ndarray of shape (n_columns,)
        Coefficients per standard deviation of each column.
    coef_ : ndarray of shape (n_columns,)
        Coefficients per unit of each column, for prediction.
    intercept_ : float
        Intercept.

    References
    ----------
    Tibshirani, R. (1996), Regression shrinkage and selection via the lasso, Journal of the Royal
    Statistical Society B 58, 267-288, doi:10.1111/j.2517-6161.1996.tb02080.x.
    """

    _takes = ("exposure",)
    _as_number = False
    _any_size = True

    cv: int = 5
    random_state: int = 0
    columns: Columns | None = None

    def _select(self, data: MultiEnvironmentData) -> Mask:
        self._lasso = _lasso(data, self.cv, self.random_state)
        self.penalty_ = self._lasso.penalty
        self.lasso_coef_ = self._expand_columns(self._lasso.coefficients, 0.0)
        return _features_kept(self._lasso, data)

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        return per_unit(data, self._lasso.coefficients, self._lasso.intercept)


def per_unit(data: MultiEnvironmentData, coefficients: Floats, intercept: float) -> Line:
    """Return coefficients per unit of the columns (q,), given per standard deviation, and the
    intercept at 0 of the columns, given at their means."""
    slopes = coefficients * (np.ptp(standardized(data), axis=0) / np.ptp(data.X, axis=0))
    return slopes, float(intercept - data.X.mean(axis=0) @ slopes)


def _lasso(data: MultiEnvironmentData, cv: int, random_state: int) -> LassoFit:
    """Fit a Lasso for the kind of outcome.

    For classes and counts, one of 12 penalties has the smallest deviance over the folds.
    """
    kind = kind_for(data)
    if kind.by_least_squares:
        return cross_validated_lasso(data, cv, random_state=random_state)
    if kind.censored:
        what = (
            f"{data.n_rows} rows are too few for a regression of times on "
            f"{data.features.n_columns} columns"
        )
        raise DataError(f"{what}: leave some of them out.")
    folds = random_folds(data, cv, random_state)
    X = standardized(data)
    exposure = np.ones(data.n_rows) if data.exposure is None else data.exposure
    largest = (
        np.abs(X.T @ (data.y - exposure * (data.y.sum() / exposure.sum()))).max() / data.n_rows
    )
    penalties = largest * np.logspace(0.0, -3.0, _N_PENALTIES)
    predictor = np.empty((_N_PENALTIES, data.n_rows))
    for fitted, left in folds.split(X):
        path = _lasso_path(kind, X[fitted], data.y[fitted], exposure[fitted], penalties)
        predictor[:, left] = path[:, 1:] @ X[left].T + path[:, :1]
    errors = [kind.error(data.y, kind.inverse_link(each), exposure) for each in predictor]
    best = int(np.argmin(errors))
    found = _lasso_path(kind, X, data.y, exposure, penalties[: best + 1])[-1]
    return LassoFit(found[1:], float(penalties[best]), float(found[0]))


def _lasso_path(
    kind: OutcomeKind, X: Floats, y: Floats, exposure: Floats, penalties: Floats
) -> Floats:
    """Return intercept and coefficients (P, 1 + q) at each penalty (P,), the largest first.

    The penalties are on the mean log-likelihood. Each fit is a sequence of Lassos of the working
    outcome of iteratively reweighted least squares, as in glmnet.
    """
    from sklearn.linear_model import Lasso

    lasso = Lasso(warm_start=True)
    start = (y.sum() + 0.5) / (exposure.sum() + 1.0)
    linear = np.full(len(y), kind.link(start))
    path = np.empty((len(penalties), 1 + X.shape[1]))
    for k, penalty in enumerate(penalties):
        for _ in range(_MAX_IRLS_STEPS):
            mean = exposure * kind.inverse_link(linear)
            weight = np.maximum(kind.variance(mean), _LEAST_WEIGHT)
            lasso.set_params(alpha=penalty * len(y) / weight.sum())
            lasso.fit(X, linear + (y - mean) / weight, sample_weight=weight)
            before = linear
            linear = lasso.predict(X)
            if np.abs(linear - before).max() < _CONVERGED:
                break
        path[k] = np.append(lasso.intercept_, lasso.coef_)
    return path


def _features_kept(fit: LassoFit, data: MultiEnvironmentData) -> Mask:
    return np.logical_or.reduceat(fit.coefficients != 0.0, data.features.starts[:-1])


def marginal_tests(data: MultiEnvironmentData) -> tuple[Floats, Floats]:
    """Return the correlation of each feature with the outcome over the pooled rows (p,), and its
    p-value (p,)."""
    features = data.features
    correlations = pooled_correlations(data)[features.starts[:-1]]
    df = data.n_rows - 2.0
    with np.errstate(divide="ignore"):
        p_values = 2.0 * stdtr(df, -np.abs(correlations) * np.sqrt(df / (1.0 - correlations**2)))
    if features.grouped:
        for j in np.flatnonzero(features.widths > 1):
            own = data.X[:, features.starts[j] : features.starts[j + 1]]
            p_value, exact = coefficient_tests(own, data.y, features.widths[[j]])
            p_values[j] = np.nan if exact else p_value[0]
            fitted = own @ least_squares(own, data.y).coefficients
            correlations[j] = np.corrcoef(fitted, data.y)[0, 1]
    return correlations, p_values


@dataclass(eq=False, repr=False)
class MarginalSelection(Baseline):
    """Select the features with a significant marginal correlation with the outcome.

    Parameters
    ----------
    alpha : float, default=0.05
        Level. A feature is selected if its p-value is smaller.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    correlations_, p_values_ : ndarray of shape (n_features,)
        Correlations over the pooled rows and their p-values; 0 and 1 for a constant feature. For a
        feature of several columns the multiple correlation and the p-value of its F-test, which is
        NaN if these columns determine the outcome exactly.
    """

    _any_size = True

    alpha: float = 0.05
    columns: Columns | None = None

    def _select(self, data: MultiEnvironmentData) -> Mask:
        correlations, p_values = marginal_tests(data)
        self.correlations_ = self._expand(correlations, 0.0)
        self.p_values_ = self._expand(p_values, 1.0)
        return p_values < self.alpha


@dataclass(eq=False, repr=False)
class Oracle(Baseline):
    """Select the significant ones among features that are known to be invariant.

    Pooled least squares on the true features: the reference method for simulations.

    Parameters
    ----------
    support : list of str, list of int or array of bool, default=None
        The true features by name, by position or as a mask over all features of the data. None
        takes `truth` of a MultiEnvironmentData.
    alpha : float, default=0.05
        Level. A feature is selected if its p-value is smaller.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    p_values_ : ndarray of shape (n_features,)
        P-values of t-tests, or of F-tests for features of several columns; NaN for features outside
        `support`.

    Examples
    --------
    >>> from invariance.baselines import Oracle
    >>> from invariance.datasets import make_example
    >>> Oracle().fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    _any_size = True

    support: Iterable[str] | ArrayLike | None = None
    alpha: float = 0.05
    columns: Columns | None = None

    def _select(self, data: MultiEnvironmentData) -> Mask:
        true = self._true_features(data)
        known = data.narrowed(true)
        n_columns = known.features.n_columns
        if data.n_rows < n_columns + 2:
            raise DataError(
                f"{data.n_rows} rows cannot fit the {n_columns} true columns and leave residuals."
            )
        p_values = np.full(data.n_features, np.nan)
        selected = np.zeros(data.n_features, dtype=bool)
        p_values[true], selected[true] = _tested(known, self.alpha)
        self.p_values_ = self._expand(p_values, np.nan)
        return selected

    def _true_features(self, data: MultiEnvironmentData) -> Mask:
        if self.support is None:
            if data.truth is None:
                what = "Oracle needs to know the true features, which simulated data carry"
                raise DataError(what, use(support=["x0", "x1"]))
            return data.truth
        names = data.names_as_given
        chosen = np.asarray(self.support)
        if chosen.dtype.kind in "iu":
            if chosen.min() < 0 or chosen.max() >= len(names):
                raise DataError(
                    f"support={chosen.tolist()}: the positions of features are 0 to "
                    f"{len(names) - 1}."
                )
            chosen = np.isin(np.arange(len(names)), chosen)
        return as_mask(chosen.tolist(), names)[np.isin(names, data.feature_names)]
