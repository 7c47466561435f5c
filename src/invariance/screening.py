"""A Lasso screen on pooled rows."""

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

SCREENED_FEATURES = 10  # by default


@dataclass(frozen=True, eq=False)
class LassoFit:
    """coefficients (q,) per standard deviation of the columns, or per unit where not standardised; penalty; intercept
    at the mean of the columns"""

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
    """Of the pooled rows, which usually come sorted by environment; raises where they are too few for so many folds."""
    from sklearn.model_selection import KFold

    check_whole_number("cv", cv, 2)
    if data.n_rows < 2 * cv:
        raise DataError(f"{data.n_rows} rows are too few for {cv} folds of two or more: use cv={data.n_rows // 2}.")
    return KFold(cv, shuffle=True, random_state=random_state)


def cross_validated_lasso(
    data: MultiEnvironmentData, cv: int, standardize: bool = True, random_state: int = 0, n_jobs: int | None = None
) -> LassoFit:
    """Lasso whose penalty minimises the error over `cv` random folds of the pooled rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    folds = random_folds(data, cv, random_state)
    X = standardized(data) if standardize else data.X
    with warnings.catch_warnings():
        # At the small end of the path an unconverged fit costs a little precision, never the answer's meaning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LassoCV(cv=folds, n_jobs=n_jobs).fit(X, data.y - data.y.mean())
    return LassoFit(fit.coef_, float(fit.alpha_), float(data.y.mean()))


@dataclass(frozen=True, eq=False)
class Screening:
    """kept (p,): the features that passed; coefficients (q,): of their columns in the Lasso, NaN where none was needed.
    used_fallback: the Lasso kept nothing, so that correlation with the outcome decided alone."""

    kept: Mask
    coefficients: Floats
    used_fallback: bool


@dataclass(eq=False, repr=False)
class LassoScreen(BaseEstimator):
    """The k features with the largest coefficients of a cross-validated Lasso on the pooled rows.

    Where the Lasso keeps fewer than k, only those pass; where it keeps none, the k features with the largest
    correlation with the outcome do, which is reported as the fallback. A feature of several columns counts once, by
    the largest of its columns' values.

    Parameters
    ----------
    k : how many features pass at most; with k or fewer features all pass and no Lasso is fitted
    cv : number of random folds
    standardize : give every feature standard deviation 1 first; False lets large units win
    random_state : seed of the folds
    n_jobs : processes over folds, as in scikit-learn
    """

    k: int = SCREENED_FEATURES
    cv: int = 10
    standardize: bool = True
    random_state: int = 0
    n_jobs: int | None = None

    def screen(self, data: MultiEnvironmentData) -> Screening:
        check_whole_number("k", self.k, 1)
        p, features = data.n_features, data.features
        if p <= self.k:
            return Screening(np.ones(p, dtype=bool), np.full(features.n_columns, np.nan), False)
        fit = cross_validated_lasso(data, self.cv, self.standardize, self.random_state, self.n_jobs)
        return screening_of(data, fit, self.k)


def screening_of(data: MultiEnvironmentData, fit: LassoFit, k: int) -> Screening:
    """What passes a screen for k features whose Lasso was fitted before."""
    used_fallback = not fit.coefficients.any()
    by_column = np.abs(pooled_correlations(data) if used_fallback else fit.coefficients)
    size = np.maximum.reduceat(by_column, data.features.starts[:-1])
    kept = np.zeros(data.n_features, dtype=bool)
    kept[np.argsort(-size, kind="stable")[:k]] = True
    return Screening(kept & (size > 0.0), fit.coefficients, used_fallback)


def pooled_correlations(data: MultiEnvironmentData) -> Floats:
    """(q,) correlation of each column with the outcome over all rows."""
    y = data.y - data.y.mean()
    return np.clip(standardized(data).T @ y / (np.sqrt(data.n_rows) * np.linalg.norm(y)), -1.0, 1.0)


__all__ = ["LassoScreen", "Screening"]
