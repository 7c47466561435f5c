"""Selections that ignore invariance: the yardsticks that an invariant method should beat, and the one it cannot."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, stdtr

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import quoted, warn
from ..data.features import as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, use
from ..kernels.row_residuals import triangular_factor
from ..moments.least_squares import DEPENDENT, unit_rows
from ..screening import LassoFit, cross_validated_lasso, pooled_correlations
from .base import Baseline


def coefficient_tests(X: Floats, y: Floats, widths: Integers) -> tuple[Floats, bool]:
    """p-values (p,) in least squares with an intercept, t-tests or F-tests of several columns, NaN for combinations of
    earlier columns; and whether X determines y up to rounding, where p-values are 0 or 1.

    X (n, k) with n >= k + 2; widths (p,): columns of each feature
    """
    n, k = X.shape
    unit, _, _ = unit_rows(np.column_stack([X, y]))
    triangle, independent = triangular_factor(unit, np.arange(k + 1), DEPENDENT)
    kept = np.flatnonzero(independent[:k])
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    df = n - len(kept) - 1.0
    coefficients, lengths = inverse @ triangle[kept, k], np.sqrt(np.sum(inverse**2, axis=1))
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
        _, p_values[j] = _joint_test(unit, kept[owner != j], kept[owner == j])
    return p_values, exact


def _joint_test(unit: Floats, others: Integers, columns: Integers) -> tuple[float, float]:
    """What `columns` explain of the outcome's squares beside `others`, and the p-value of its F-test, NaN without
    residuals. unit (k + 1, n): rows as `unit_rows` gives them, the outcome's last"""
    order = np.concatenate([others, columns, [len(unit) - 1]]).astype(np.int64)
    triangle, independent = triangular_factor(unit, order, DEPENDENT)
    tested = slice(len(others), len(order) - 1)
    rank, df = independent[tested].sum(), unit.shape[1] - 1.0 - independent[:-1].sum()
    explained = float(np.sum(triangle[tested, -1] ** 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (explained / rank) / (triangle[-1, -1] ** 2 / df)
    return explained, float(fdtrc(rank, df, ratio))


def _tested(data: MultiEnvironmentData, alpha: float) -> tuple[Floats, Mask]:
    """p-values of the features and which are significant; says what makes them other than they seem."""
    p_values, exact = coefficient_tests(data.X, data.y, data.features.widths)
    names = np.array(data.feature_names, dtype=object)
    redundant, selected = np.isnan(p_values), p_values < alpha
    if redundant.any():
        warn(f"features that are combinations of those before them are not selected: {quoted(names[redundant])}")
    if exact:
        warn(
            f"the outcome {data.outcome_name!r} is an exact linear function of {quoted(names[selected])}, beside which "
            "nothing can be significant: leave them out to see what the other features say."
        )
    return p_values, selected


class PooledRegression(Baseline):
    """Features with a significant coefficient in pooled least squares on all of them; where rows are too few for that,
    those that a Lasso with 10-fold cross-validation keeps.

    Parameters
    ----------
    alpha : a feature is selected when its p-value is smaller
    random_state : seed of the folds, where the Lasso is used
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    used_lasso_ : bool
    p_values_ : (n_features_in_,) of t-tests, of an F-test for a feature of several columns; NaN for a combination of
        earlier features and where the Lasso was used
    """

    def __init__(self, alpha: float = 0.05, random_state: int = 0, columns: Columns | None = None) -> None:
        self.alpha = alpha
        self.random_state = random_state
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        self.used_lasso_ = data.n_rows < data.features.n_columns + 2
        if self.used_lasso_:
            self.p_values_ = self._expand(np.full(data.n_features, np.nan), np.nan)
            folds = min(10, data.n_rows // 2)
            return _kept(cross_validated_lasso(data, folds, random_state=self.random_state), data)
        p_values, selected = _tested(data, self.alpha)
        self.p_values_ = self._expand(p_values, 1.0)
        return selected


class LassoSelection(Baseline):
    """Features that a Lasso on the pooled rows keeps, its penalty chosen by cross-validation.

    A feature of several columns is kept when one of them is.

    Parameters
    ----------
    cv : number of random folds
    standardize : give every feature standard deviation 1 first
    random_state : seed of the folds
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    penalty_ : float; lasso_coef_ : (len(coef_),) on the scale the Lasso saw
    coef_, intercept_ : pooled least squares on the selected features, for prediction
    """

    def __init__(
        self, cv: int = 5, standardize: bool = True, random_state: int = 0, columns: Columns | None = None
    ) -> None:
        self.cv = cv
        self.standardize = standardize
        self.random_state = random_state
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        fit = cross_validated_lasso(data, self.cv, self.standardize, self.random_state)
        self.penalty_ = fit.penalty
        self.lasso_coef_ = self._expand_columns(fit.coefficients, 0.0)
        return _kept(fit, data)


def _kept(fit: LassoFit, data: MultiEnvironmentData) -> Mask:
    return np.logical_or.reduceat(fit.coefficients != 0.0, data.features.starts[:-1])


class MarginalSelection(Baseline):
    """Features whose correlation with the outcome over the pooled rows is significant, each on its own.

    Parameters
    ----------
    alpha : a feature is selected when its p-value is smaller
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    correlations_, p_values_ : (n_features_in_,); a constant feature has 0 and 1. A feature of several columns has the
        multiple correlation and the p-value of its F-test, NaN where these columns leave no residual.
    """

    def __init__(self, alpha: float = 0.05, columns: Columns | None = None) -> None:
        self.alpha = alpha
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        features = data.features
        correlations = pooled_correlations(data)[features.starts[:-1]]
        df = data.n_rows - 2.0
        with np.errstate(divide="ignore"):
            p_values = 2.0 * stdtr(df, -np.abs(correlations) * np.sqrt(df / (1.0 - correlations**2)))
        if features.grouped:
            unit, _, _ = unit_rows(np.column_stack([data.X, data.y]))
            for j in np.flatnonzero(features.widths > 1):
                alone = np.arange(features.starts[j], features.starts[j + 1])
                explained, p_values[j] = _joint_test(unit, alone[:0], alone)
                correlations[j] = min(np.sqrt(explained), 1.0)
        self.correlations_ = self._expand(correlations, 0.0)
        self.p_values_ = self._expand(p_values, 1.0)
        return p_values < self.alpha


class Oracle(Baseline):
    """Pooled least squares on features that are known to be invariant, those that are significant: for simulations.

    Parameters
    ----------
    support : the true features, as names, positions or a boolean mask over the features as given; None takes `truth`
        of a MultiEnvironmentData
    alpha : a feature is selected when its p-value is smaller
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    p_values_ : (n_features_in_,) of t-tests, of F-tests for features of several columns; NaN outside `support`
    """

    def __init__(
        self, support: Iterable[str] | ArrayLike | None = None, alpha: float = 0.05, columns: Columns | None = None
    ) -> None:
        self.support = support
        self.alpha = alpha
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        true = self._true_features(data)
        known = data.narrowed(true)
        n_columns = known.features.n_columns
        if data.n_rows < n_columns + 2:
            raise DataError(f"{data.n_rows} rows cannot fit the {n_columns} true columns and leave residuals.")
        p_values = np.full(data.n_features, np.nan)
        selected = np.zeros(data.n_features, dtype=bool)
        p_values[true], selected[true] = _tested(known, self.alpha)
        self.p_values_ = self._expand(p_values, np.nan)
        return selected

    def _true_features(self, data: MultiEnvironmentData) -> Mask:
        if self.support is None:
            if data.truth is None:
                raise DataError(
                    "Oracle needs to know the true features, which simulated data carry", use(support=["x0", "x1"])
                )
            return data.truth
        names, chosen = data.names_as_given, np.asarray(self.support)
        if chosen.dtype.kind in "iu":
            if chosen.min() < 0 or chosen.max() >= len(names):
                raise DataError(f"support={chosen.tolist()}: the positions of features are 0 to {len(names) - 1}.")
            chosen = np.isin(np.arange(len(names)), chosen)
        return as_mask(chosen.tolist(), names)[np.isin(names, data.feature_names)]
