"""One subset fitted by least squares, pooled and in each environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..moments.least_squares import least_squares, least_squares_of_root
from ..moments.moments import Moments
from ..moments.roots import roots_of_groups


@dataclass(frozen=True, eq=False)
class LinearFit:
    """columns: k names; coefficients (k,), intercept: pooled; local_coefficients (E, k), local_intercepts (E,).

    A column that adds nothing to those before it has coefficient 0; one that is constant in an environment, NaN there.
    """

    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats

    def mean(self, predictor: Floats) -> Floats:
        return predictor

    def predict(self, X: Floats) -> Floats:
        return self.mean(X @ self.coefficients + self.intercept)


def fit_from_rows(data: MultiEnvironmentData, mask: Mask, local: bool = True) -> LinearFit:
    """The subset (p,) fitted to the rows, those of each environment too if `local`."""
    features = data.features.chosen(mask)
    X = data.X[:, data.features.expand(mask)]
    pooled = least_squares(X, data.y)
    groups = [data.rows(e) for e in range(data.n_environments if local else 0)]
    fits = [least_squares(X[rows], data.y[rows]) for rows in groups]
    slopes = np.array([fit.coefficients for fit in fits]).reshape(len(groups), X.shape[1])
    constant = np.array([np.ptp(X[rows], axis=0) == 0.0 for rows in groups], dtype=bool).reshape(slopes.shape)
    slopes[constant] = np.nan
    intercepts = np.array([fit.intercept for fit in fits])
    return LinearFit(features.columns, pooled.coefficients, pooled.intercept, slopes, intercepts)


def fit_from_roots(moments: Moments, roots: Floats, mask: Mask) -> LinearFit:
    """The subset (p,) from factors (E, m, d) of the rows."""
    features = moments.features.chosen(mask)
    columns = moments.feature_columns[moments.features.expand(mask)]
    used = np.append(columns, moments.outcome)
    means = np.vstack([moments.means, moments.pooled_mean])[:, used]
    fits = [
        least_squares_of_root(root, mean)
        for root, mean in zip(roots_of_groups(moments, roots, used), means, strict=True)
    ]
    slopes, intercepts = np.array([fit.coefficients for fit in fits]), np.array([fit.intercept for fit in fits])
    slopes[:-1][~moments.varies[:-1, columns]] = np.nan
    return LinearFit(features.columns, slopes[-1], float(intercepts[-1]), slopes[:-1], intercepts[:-1])


def fit_from_moments(moments: Moments, mask: Mask) -> LinearFit:
    """The subset (p,) from second moments alone."""
    features = moments.features.chosen(mask)
    columns = moments.feature_columns[moments.features.expand(mask)]
    slopes = np.array([_solved(moments, g, columns) for g in range(moments.n_environments + 1)])
    means = np.vstack([moments.means, moments.pooled_mean])
    intercepts = means[:, moments.outcome] - np.einsum("gk,gk->g", means[:, columns], slopes)
    slopes[:-1][~moments.varies[:-1, columns]] = np.nan
    return LinearFit(features.columns, slopes[-1], float(intercepts[-1]), slopes[:-1], intercepts[:-1])


def _solved(moments: Moments, g: int, columns: NDArray[np.intp]) -> Floats:
    """(k,) coefficients in one group; 0 for columns that are not present there."""
    slopes = np.zeros(len(columns))
    varying = moments.present[g, columns]
    used = columns[varying]
    gram = moments.scatter[g][np.ix_(used, used)]
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    cross = moments.scatter[g][used, moments.outcome] * scale
    slopes[varying] = np.linalg.lstsq(gram * scale[:, None] * scale, cross, rcond=None)[0] * scale
    return slopes
