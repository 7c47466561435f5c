"""A Lasso screen on pooled rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from .lasso import SCREEN_FOLDS, SCREENED_FEATURES, LassoFit, cross_validated_lasso, standardized


@dataclass(frozen=True, eq=False)
class Screening:
    """kept (p,): the features that passed; coefficients (q,): of their columns in the Lasso, NaN where none was needed.

    used_fallback: the Lasso kept nothing, so that correlation with the outcome decided alone.
    """

    kept: Mask
    coefficients: Floats
    used_fallback: bool


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

    def __init__(
        self,
        k: int = SCREENED_FEATURES,
        cv: int = SCREEN_FOLDS,
        standardize: bool = True,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.k = k
        self.cv = cv
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def screen(self, data: MultiEnvironmentData, typed: str = "{}") -> Screening:
        """Which features pass; `typed` is how a method with this screen, {}, is written, for advice on the screen."""
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise SettingError(f"k={self.k!r} is not a number of features: use a whole number from 1 on.")
        p, features = data.n_features, data.features
        if p <= self.k:
            return Screening(np.ones(p, dtype=bool), np.full(features.n_columns, np.nan), False)
        fit = cross_validated_lasso(
            data,
            self.cv,
            self.standardize,
            self.random_state,
            self.n_jobs,
            with_folds=lambda folds: typed.format(" ".join(repr(clone(self).set_params(cv=folds)).split())),
        )
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
