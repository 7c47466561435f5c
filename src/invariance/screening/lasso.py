"""The cross-validated Lasso on pooled rows that selections and the screen share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, SettingError

# Of a screen, unless it is told otherwise: how many features pass, and the folds.
SCREENED_FEATURES = 10
SCREEN_FOLDS = 10


@dataclass(frozen=True, eq=False)
class LassoFit:
    """coefficients (q,) per standard deviation of the columns, or per unit where not standardised; penalty."""

    coefficients: Floats
    penalty: float


def standardized(data: MultiEnvironmentData) -> Floats:
    """X (N, q) with pooled mean 0 and standard deviation 1."""
    centred = data.X - data.X.mean(axis=0)
    spread = np.abs(centred).max(axis=0)  # keeps the squares of features near 1e100 finite
    scaled = centred / spread
    return scaled / np.sqrt(np.mean(scaled * scaled, axis=0))


def cross_validated_lasso(
    data: MultiEnvironmentData,
    cv: int,
    standardize: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    with_folds: Callable[[int], str] = "cv={}".format,
) -> LassoFit:
    """Lasso whose penalty minimises the error over `cv` random folds of the pooled rows.

    The folds are random because rows usually come sorted by environment. `with_folds` says how another number of folds
    is typed where this one was.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    if isinstance(cv, bool) or not isinstance(cv, (int, np.integer)) or cv < 2:
        raise SettingError(f"cv={cv!r} is not a number of folds: use a whole number from 2 on.")
    if data.n_rows < 2 * cv:
        most = data.n_rows // 2
        way_out = f"use {with_folds(most)}" if most > 1 else "a cross-validated Lasso needs 4 rows or more"
        raise DataError(f"{data.n_rows} rows are too few for {cv} folds of two or more: {way_out}.")
    X = standardized(data) if standardize else data.X
    folds = KFold(cv, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        # At the small end of the path an unconverged fit costs a little precision, never the answer's meaning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LassoCV(cv=folds, n_jobs=n_jobs).fit(X, data.y - data.y.mean())
    return LassoFit(fit.coef_, float(fit.alpha_))


def screened(method: str, n_rows: int, largest_fit: int | None = None) -> str:
    """How to type `method` behind a screen that so few rows allow; largest_fit: the most features it can take."""
    most = SCREENED_FEATURES if largest_fit is None else min(SCREENED_FEATURES, largest_fit)
    chosen = {"k": (most, SCREENED_FEATURES), "cv": (max(n_rows // 2, 2), SCREEN_FOLDS)}
    settings = ", ".join(f"{name}={value}" for name, (value, default) in chosen.items() if value < default)
    return f"Screened({method}(), screen=LassoScreen({settings}))" if settings else f"Screened({method}())"
