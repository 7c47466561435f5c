"""Selections that ignore invariance: the yardsticks that an invariant method should beat, and the one it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from .._tools.arrays import Floats, Mask
from ..data.checks import quoted, warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import as_mask
from ..estimators.selector import EnvironmentSelector
from ..exceptions import DataError
from ..kernels.orthogonal import triangular_factor
from ..moments.least_squares import DEPENDENT, unit_rows
from ..screening.lasso import cross_validated_lasso
from ..screening.lasso_screen import pooled_correlations
from .icp import check_level


def coefficient_p_values(X: Floats, y: Floats) -> Floats:
    """(k,) two-sided t-tests of the coefficients of X (n, k) in least squares with an intercept.

    NaN for a column that is a combination of those before it. Needs n >= k + 2. Where the columns determine y exactly,
    those that do have 0 and the others 1.
    """
    return _t_tests(X, y)[0]


def _t_tests(X: Floats, y: Floats) -> tuple[Floats, bool]:
    """The p-values (k,), and whether the columns of X determine y up to rounding, which then is no noise to test by."""
    n, k = X.shape
    unit, _, _ = unit_rows(np.column_stack([X, y]))
    triangle, independent = triangular_factor(unit, np.arange(k + 1), DEPENDENT)
    kept = np.flatnonzero(independent[:k])
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    df = n - len(kept) - 1.0
    coefficients, lengths = inverse @ triangle[kept, k], np.sqrt(np.sum(inverse**2, axis=1))
    p_values = np.full(k, np.nan)
    exact = not independent[k]
    if exact:
        p_values[kept] = np.where(np.abs(coefficients) > np.sqrt(DEPENDENT) * lengths, 0.0, 1.0)
    else:
        errors = triangle[k, k] / np.sqrt(df) * lengths
        p_values[kept] = 2.0 * stdtr(df, -np.abs(coefficients) / errors)
    return p_values, exact


def _tested(X: Floats, alpha: float, names: Iterable[str], data: MultiEnvironmentData) -> tuple[Floats, Mask]:
    """p-values of the columns of X and which are significant; says what makes them other than they seem."""
    p_values, exact = _t_tests(X, data.y)
    columns = np.array(list(names), dtype=object)
    redundant, selected = columns[np.isnan(p_values)], p_values < alpha
    if len(redundant):
        warn(f"features that are combinations of those before them are not selected: {quoted(redundant)}")
    if exact:
        exactly = quoted(columns[selected])
        warn(
            f"the outcome {data.outcome_name!r} is an exact linear function of {exactly} (a copy of it?), beside which "
            f"nothing can be significant: fit without {exactly} to see what the other features say"
        )
    return p_values, selected


class _Pooled(EnvironmentSelector):
    """Methods that look at all rows together."""

    _single_environment_message = (
        "no environments were given, so all rows count as one environment. This method pools all rows in any case."
    )


class PooledRegression(_Pooled):
    """Features with a significant coefficient in pooled least squares on all of them.

    When there are too few rows for that (N < p + 2), the features that a Lasso with 10-fold cross-validation keeps.

    Parameters
    ----------
    alpha : a feature is selected when its p-value is smaller
    random_state : seed of the folds, where the Lasso is used
    environment : name of the column of a data frame X that holds the environment labels

    Attributes
    ----------
    used_lasso_ : bool
    p_values_ : (n_features_in_,) of t-tests; NaN for a combination of earlier features and where the Lasso was used
    """

    def __init__(self, alpha: float = 0.05, random_state: int = 0, environment: str | None = None) -> None:
        self.alpha = alpha
        self.random_state = random_state
        self.environment = environment

    def _select(self, data: MultiEnvironmentData) -> Mask:
        check_level(self.alpha)
        self.used_lasso_ = data.n_rows < data.n_features + 2
        if self.used_lasso_:
            self.p_values_ = self._expand(np.full(data.n_features, np.nan), np.nan)
            folds = min(10, data.n_rows // 2)
            return cross_validated_lasso(data, folds, random_state=self.random_state).coefficients != 0.0
        p_values, selected = _tested(data.X, self.alpha, data.feature_names, data)
        self.p_values_ = self._expand(p_values, 1.0)
        return selected


class LassoSelection(_Pooled):
    """Features that a Lasso on the pooled rows keeps, its penalty chosen by cross-validation.

    Parameters
    ----------
    cv : number of random folds
    standardize : give every feature standard deviation 1 first
    random_state : seed of the folds
    environment : name of the column of a data frame X that holds the environment labels

    Attributes
    ----------
    penalty_ : float; lasso_coef_ : (n_features_in_,) on the scale the Lasso saw
    coef_, intercept_ : pooled least squares on the selected features, for prediction
    """

    def __init__(
        self, cv: int = 5, standardize: bool = True, random_state: int = 0, environment: str | None = None
    ) -> None:
        self.cv = cv
        self.standardize = standardize
        self.random_state = random_state
        self.environment = environment

    def _select(self, data: MultiEnvironmentData) -> Mask:
        fit = cross_validated_lasso(
            data, self.cv, self.standardize, self.random_state, with_folds="LassoSelection(cv={})".format
        )
        self.penalty_ = fit.penalty
        self.lasso_coef_ = self._expand(fit.coefficients, 0.0)
        return fit.coefficients != 0.0


class MarginalSelection(_Pooled):
    """Features whose correlation with the outcome over the pooled rows is significant, each on its own.

    Parameters
    ----------
    alpha : a feature is selected when its p-value is smaller
    environment : name of the column of a data frame X that holds the environment labels

    Attributes
    ----------
    correlations_, p_values_ : (n_features_in_,); a constant feature has 0 and 1
    """

    def __init__(self, alpha: float = 0.05, environment: str | None = None) -> None:
        self.alpha = alpha
        self.environment = environment

    def _select(self, data: MultiEnvironmentData) -> Mask:
        check_level(self.alpha)
        correlations = pooled_correlations(data)
        df = data.n_rows - 2.0
        with np.errstate(divide="ignore"):
            p_values = 2.0 * stdtr(df, -np.abs(correlations) * np.sqrt(df / (1.0 - correlations**2)))
        self.correlations_ = self._expand(correlations, 0.0)
        self.p_values_ = self._expand(p_values, 1.0)
        return p_values < self.alpha


class Oracle(_Pooled):
    """Pooled least squares on features that are known to be invariant, those that are significant: for simulations.

    Parameters
    ----------
    support : the true features, as names, positions or a boolean mask; None takes `truth` of the data set given to
        fit_data
    alpha : a feature is selected when its p-value is smaller
    environment : name of the column of a data frame X that holds the environment labels

    Attributes
    ----------
    p_values_ : (n_features_in_,) of t-tests; NaN outside `support`
    """

    def __init__(
        self,
        support: Iterable[str] | ArrayLike | None = None,
        alpha: float = 0.05,
        environment: str | None = None,
    ) -> None:
        self.support = support
        self.alpha = alpha
        self.environment = environment

    def _select(self, data: MultiEnvironmentData) -> Mask:
        check_level(self.alpha)
        true = self._true_features(data)
        if data.n_rows < true.sum() + 2:
            raise DataError(f"{data.n_rows} rows cannot fit the {true.sum()} true features and leave residuals.")
        p_values = np.full(data.n_features, np.nan)
        selected = np.zeros(data.n_features, dtype=bool)
        names = np.array(data.feature_names, dtype=object)[true]
        p_values[true], selected[true] = _tested(data.X[:, true], self.alpha, names, data)
        self.p_values_ = self._expand(p_values, np.nan)
        return selected

    def _true_features(self, data: MultiEnvironmentData) -> Mask:
        if self.support is None:
            if data.truth is None:
                raise DataError(
                    "Oracle needs to know the true features: name them in Oracle(support=[...]), or pass simulated "
                    "data, which carry their truth, to fit_data()."
                )
            return data.truth
        names = getattr(self, "feature_names_in_", None)
        all_names = [f"x{j}" for j in range(self.n_features_in_)] if names is None else list(names)
        chosen: list[Any] = list(cast("Iterable[Any]", self.support))
        if chosen and all(isinstance(j, (int, np.integer)) and not isinstance(j, bool) for j in chosen):
            outside = [int(j) for j in chosen if not 0 <= j < len(all_names)]
            if outside:
                raise DataError(f"support names positions {outside}, but there are features 0 to {len(all_names) - 1}.")
            return np.isin(np.arange(len(all_names)), chosen)[self._kept]
        return as_mask(chosen, all_names)[self._kept]
