"""How well least squares coefficients are known, in every environment and in the pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.orthogonal import DEPENDENT, triangular_factor
from ..moments.least_squares import unit_rows
from ..moments.moments import Moments


class StandardErrors(NamedTuple):
    """values (E + 1, k): of the coefficients of k columns in each environment and, last, in the pool; NaN where a
    column is constant or given by the others. freedom (E + 1,): degrees of freedom that the fits leave."""

    values: Floats
    freedom: Floats


class _Factor(NamedTuple):
    """triangle (k + 1, k + 1): R of the unit columns and, last, the outcome; independent (k + 1,): which of them stand
    on their own; norms (k + 1,); n_rows."""

    triangle: Floats
    independent: Mask
    norms: Floats
    n_rows: int

    def errors(self) -> tuple[Floats, float]:
        k = len(self.norms) - 1
        kept = np.flatnonzero(self.independent[:k])
        freedom = self.n_rows - 1.0 - len(kept)
        values = np.full(k, np.nan)
        if freedom > 0.0 and len(kept):
            inverse = np.linalg.inv(self.triangle[np.ix_(kept, kept)])
            sigma = self.triangle[k, k] * self.norms[k] / np.sqrt(freedom)
            values[kept] = sigma * np.sqrt((inverse**2).sum(axis=1)) / self.norms[kept]
        return values, freedom


def errors_from_rows(data: MultiEnvironmentData, columns: Mask) -> StandardErrors:
    """Of the columns (q,) fitted to the rows."""
    groups = [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]
    return _collected([_factor_of_rows(data.X[np.ix_(rows, columns)], data.y[rows]) for rows in groups])


def errors_from_moments(moments: Moments, columns: Mask) -> StandardErrors:
    """Of the columns (q,) of the features, from second moments alone."""
    used = moments.feature_columns[columns]
    return _collected([_factor_of_moments(moments, g, used) for g in range(moments.n_environments + 1)])


def _collected(factors: list[_Factor]) -> StandardErrors:
    values, freedom = zip(*(factor.errors() for factor in factors), strict=True)
    return StandardErrors(np.array(values), np.array(freedom))


def _factor_of_rows(X: Floats, y: Floats) -> _Factor:
    unit, norms, _ = unit_rows(np.column_stack([X, y]))
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    return _Factor(triangle, independent, norms, len(y))


def _factor_of_moments(moments: Moments, g: int, columns: NDArray[np.intp]) -> _Factor:
    members = np.append(columns, moments.outcome)
    present = moments.present[g, members]
    norms = np.where(present, np.sqrt(np.diagonal(moments.scatter[g])[members]), 1.0)
    gram = moments.scatter[g][np.ix_(members, members)] / (norms[:, None] * norms)
    triangle, kept = np.zeros(gram.shape), np.flatnonzero(present)
    triangle[np.ix_(kept, kept)] = np.linalg.cholesky(gram[np.ix_(kept, kept)]).T
    return _Factor(triangle, present, norms, int(moments.group_counts[g]))
