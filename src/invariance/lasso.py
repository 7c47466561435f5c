"""The cross-validated Lasso on pooled rows that selections and the screen share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .data import DataError, MultiEnvironmentData

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LassoFit:
    """coefficients (p,) per standard deviation of the features, or per unit where not standardised; penalty."""

    coefficients: Floats
    penalty: float


def standardized(data: MultiEnvironmentData) -> Floats:
    """X (N, p) with pooled mean 0 and standard deviation 1."""
    centred = data.X - data.X.mean(axis=0)
    spread = np.abs(centred).max(axis=0)  # keeps the squares of features near 1e100 finite
    scaled = centred / spread
    return scaled / np.sqrt(np.mean(scaled * scaled, axis=0))


def cross_validated_lasso(
    data: MultiEnvironmentData, cv: int, standardize: bool = True, random_state: int = 0, n_jobs: int | None = None
) -> LassoFit:
    """Lasso whose penalty minimises the error over `cv` random folds of the pooled rows.

    The folds are random because rows usually come sorted by environment.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    if isinstance(cv, bool) or not isinstance(cv, (int, np.integer)) or cv < 2:
        raise ValueError(f"cv={cv!r} is not a number of folds: use a whole number from 2 on.")
    if data.n_rows < 2 * cv:
        raise DataError(f"{data.n_rows} rows are too few for {cv} folds of two or more: use cv={data.n_rows // 2}.")
    X = standardized(data) if standardize else data.X
    folds = KFold(cv, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        # At the small end of the path an unconverged fit costs a little precision, never the answer's meaning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LassoCV(cv=folds, n_jobs=n_jobs).fit(X, data.y - data.y.mean())
    return LassoFit(fit.coef_, float(fit.alpha_))
