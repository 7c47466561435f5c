"""A Lasso screen on the pooled rows, for methods that cannot use many features.

The paper's screened methods use the ten features with the largest absolute coefficients, or those
with the largest marginal correlations if the Lasso keeps none (section 4.1 of Wu et al. 2025,
arXiv:2506.22675).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ._tools.arrays import Floats, Mask
from .data.checks import check_whole_number
from .data.multi_environment import MultiEnvironmentData
from .exceptions import DataError
from .kernels.lasso import descend

SCREENED_FEATURES = 10  # by default
# Of scikit-learn's LassoCV
_PENALTIES = 100
_SMALLEST_PENALTY = 1e-3
# Of the duality gap, as a share of the squares of y. scikit-learn asks for 1e-4 and usually finds
# less.
_TOLERANCE = 1e-6
# Before the next Newton step
_SWEEPS = (10, 20, 40, 80, 160, 320, 640)
# Columns below 0.928 of the next penalty stay at zero by the strong rule; a few more save second
# rounds.
_ENTERING = 0.9


@dataclass(frozen=True, eq=False)
class LassoFit:
    """Hold a Lasso fit.

    coefficients : (q,) per standard deviation of the columns, or per unit if not standardised
    penalty : its penalty; intercept : at the mean of the columns
    """

    coefficients: Floats
    penalty: float
    intercept: float = 0.0


def standardized(data: MultiEnvironmentData) -> Floats:
    """X (N, q) with pooled mean 0 and standard deviation 1."""
    centred = data.X - data.X.mean(axis=0)
    spread = np.abs(centred).max(axis=0)  # keeps the squares of features near 1e100 finite
    scaled = centred / spread
    return scaled / np.sqrt(np.mean(scaled * scaled, axis=0))


def random_folds(data: MultiEnvironmentData, cv: int, random_state: int) -> Any:
    """Return random folds of the pooled rows; raise if these are too few for them.

    Rows are usually sorted by environment, so that folds must be random.
    """
    from sklearn.model_selection import KFold

    check_whole_number("cv", cv, 2)
    if data.n_rows < 2 * cv:
        raise DataError(
            f"{data.n_rows} rows are too few for {cv} folds of two or more: use "
            f"cv={data.n_rows // 2}."
        )
    return KFold(cv, shuffle=True, random_state=random_state)


def cross_validated_lasso(
    data: MultiEnvironmentData,
    cv: int,
    standardize: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> LassoFit:
    """Lasso whose penalty minimises the error over `cv` random folds of the pooled rows.

    It is scikit-learn's LassoCV. If there are more columns than rows, `lasso_path` replaces its
    solver.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    folds = random_folds(data, cv, random_state)
    X = standardized(data) if standardize else data.X
    if X.shape[1] > X.shape[0]:
        return _wide_lasso(X, data.y, folds, n_jobs)
    with warnings.catch_warnings():
        # At the small end of the path an unconverged fit costs a little precision, never the
        # answer's meaning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LassoCV(cv=folds, n_jobs=n_jobs).fit(X, data.y - data.y.mean())
    return LassoFit(fit.coef_, float(fit.alpha_), float(data.y.mean()))


def _wide_lasso(X: Floats, y: Floats, folds: Any, n_jobs: int | None) -> LassoFit:
    """Return LassoCV's fit by `lasso_path`."""
    from joblib import Parallel, delayed

    n = len(y)
    intercept = float(y.mean())
    y = y - intercept
    centred = X - X.mean(axis=0)
    largest = float(np.abs(y @ centred).max()) / n
    penalties = (
        np.geomspace(largest, largest * _SMALLEST_PENALTY, _PENALTIES) if largest else np.zeros(1)
    )
    of_folds = Parallel(n_jobs, prefer="threads")(
        delayed(_errors)(X, y, penalties, *rows) for rows in folds.split(X)
    )
    best = int(np.argmin(np.mean(of_folds, axis=0)))
    coefficients = lasso_path(np.asfortranarray(centred), y, penalties[: best + 1])[-1]
    return LassoFit(coefficients, float(penalties[best]), intercept)


def _errors(X: Floats, y: Floats, penalties: Floats, fitted: Any, held_out: Any) -> Floats:
    """Return the mean squared error of the held-out rows at each penalty (K,)."""
    mean = X[fitted].mean(axis=0)
    intercept = y[fitted].mean()
    path = lasso_path(np.asfortranarray(X[fitted] - mean), y[fitted] - intercept, penalties)
    residuals = y[held_out] - intercept - path @ (X[held_out] - mean).T
    return np.mean(residuals * residuals, axis=1)


def lasso_path(X: Floats, y: Floats, penalties: Floats) -> Floats:
    """Minimise ‖y − Xw‖²/2n + penalty·‖w‖₁ for each penalty, with scikit-learn's tolerance.

    Coordinate descent from the solution before visits only columns that entered by the strong rule,
    with their products at hand. It starts at the minimum for the signs of that solution, which
    replaces most of its sweeps. The duality gap over all columns decides whether more columns or
    sweeps are needed.

    Parameters
    ----------
    X : (n, q) centred columns, in Fortran order
    y : (n,) centred
    penalties : (K,) falling

    Returns
    -------
    (K, q) coefficients

    References
    ----------
    Tibshirani et al. (2012), Strong rules for discarding predictors in lasso-type problems.
    """
    n, q = X.shape
    products = X.T @ y
    path = np.empty((len(penalties), q))
    w = np.zeros(q)
    residual = y
    gradient = products
    order = np.empty(0, dtype=int)
    columns = np.empty((0, n))
    gram = np.empty((0, 0))
    for k, penalty in enumerate(n * penalties):
        threshold = _ENTERING * penalty
        for n_sweeps in _SWEEPS:
            if _gap(y, residual, gradient, w, penalty) <= _TOLERANCE * (y @ y):
                break
            entering = np.abs(gradient) > threshold
            entering[order] = False
            old = len(order)
            order = np.append(order, np.flatnonzero(entering))
            size = len(order)
            if size > len(gram):
                gram = np.pad(gram, (0, size))
                columns = np.pad(columns, ((0, size), (0, 0)))
            columns[old:size] = X.T[order[old:]]
            gram[old:size, :size] = columns[old:size] @ columns[:size].T
            gram[:old, old:size] = gram[old:size, :old].T
            inner, slope = _newton(
                gram[:size, :size], products[order], w[order], gradient[order], penalty
            )
            descend(gram, slope, inner, penalty, n_sweeps)
            w[order] = inner
            residual = y - inner @ columns[:size]
            gradient = X.T @ residual
            threshold = penalty
        path[k] = w
    return path


def _gap(y: Floats, residual: Floats, gradient: Floats, w: Floats, penalty: float) -> float:
    """Return the duality gap of n times the objective."""
    scale = min(1.0, penalty / max(np.abs(gradient).max(), np.finfo(float).tiny))
    squares = residual @ residual
    return float(
        0.5 * (1.0 + scale * scale) * squares + penalty * np.abs(w).sum() - scale * (residual @ y)
    )


def _newton(
    gram: Floats, products: Floats, w: Floats, gradient: Floats, penalty: float
) -> tuple[Floats, Floats]:
    """Return the minimum for the signs of w (m,) and its gradient; w and its own if the objective
    does not fall.

    Where a sign would change, the coefficient is zero.
    """
    from scipy.linalg.lapack import dposv

    active = np.flatnonzero(w)
    signs = np.sign(w[active])
    if len(active) == 0:
        return w, gradient
    _, minimum, failed = dposv(
        gram[active[:, None], active].T, products[active] - penalty * signs, overwrite_a=True
    )
    if failed:
        return w, gradient
    moved = np.zeros(len(w))
    moved[active] = np.where(minimum * signs > 0.0, minimum, 0.0)
    slope = products - gram @ moved
    before = penalty * np.abs(w).sum() - 0.5 * w @ (products + gradient)
    after = penalty * np.abs(moved).sum() - 0.5 * moved @ (products + slope)
    return (moved, slope) if after < before else (w, gradient)


@dataclass(frozen=True, eq=False)
class Screening:
    """Hold the result of a screen.

    kept : (p,) features that passed
    coefficients : (q,) of their columns in the Lasso, NaN if it was not fitted
    used_fallback : whether the Lasso kept no feature, so that correlations decided
    """

    kept: Mask
    coefficients: Floats
    used_fallback: bool


@dataclass(eq=False, repr=False)
class LassoScreen(BaseEstimator):
    """Keep the k features with the largest coefficients of a cross-validated Lasso.

    The Lasso is fitted to the pooled rows. If it keeps fewer than k features, only those pass; if
    it keeps none, the k features with the largest absolute correlation with the outcome pass, which
    is reported as the fallback. A feature of several columns counts by the largest of their
    coefficients.

    Parameters
    ----------
    k : int, default=10
        Largest number of features that pass. With k or fewer features all pass, and the Lasso is
        not fitted.
    cv : int, default=10
        Number of random folds.
    standardize : bool, default=True
        Whether to scale every column to standard deviation 1 first. Without it columns with large
        values are favoured.
    random_state : int, default=0
        Seed of the folds.
    n_jobs : int, default=None
        Processes over the folds, as in scikit-learn.

    See Also
    --------
    Screened : Fit a method to the features that pass a screen.

    References
    ----------
    Tibshirani, R. (1996), Regression shrinkage and selection via the lasso, Journal of the Royal
    Statistical Society B 58, 267-288, doi:10.1111/j.2517-6161.1996.tb02080.x.

    Tibshirani, R., Bien, J., Friedman, J., Hastie, T., Simon, N., Taylor, J. and Tibshirani, R. J.
    (2012), Strong rules for discarding predictors in lasso-type problems, arXiv:1011.2234.
    """

    k: int = SCREENED_FEATURES
    cv: int = 10
    standardize: bool = True
    random_state: int = 0
    n_jobs: int | None = None

    def screen(self, data: MultiEnvironmentData) -> Screening:
        check_whole_number("k", self.k, 1)
        p = data.n_features
        features = data.features
        if p <= self.k:
            return Screening(np.ones(p, dtype=bool), np.full(features.n_columns, np.nan), False)
        fit = cross_validated_lasso(data, self.cv, self.standardize, self.random_state, self.n_jobs)
        return screening_of(data, fit, self.k)


def screening_of(data: MultiEnvironmentData, fit: LassoFit, k: int) -> Screening:
    """Return the result of a screen for k features, given a fitted Lasso."""
    used_fallback = not fit.coefficients.any()
    by_column = np.abs(pooled_correlations(data) if used_fallback else fit.coefficients)
    size = np.maximum.reduceat(by_column, data.features.starts[:-1])
    kept = np.zeros(data.n_features, dtype=bool)
    kept[np.argsort(-size, kind="stable")[:k]] = True
    return Screening(kept & (size > 0.0), fit.coefficients, used_fallback)


def pooled_correlations(data: MultiEnvironmentData) -> Floats:
    """Return the correlation of each column with the outcome over all rows, (q,)."""
    y = data.y - data.y.mean()
    return np.clip(standardized(data).T @ y / (np.sqrt(data.n_rows) * np.linalg.norm(y)), -1.0, 1.0)


__all__ = ["LassoScreen", "Screening"]
