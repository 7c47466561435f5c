"""How well least squares coefficients are known, in every environment and in the pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.by_size import triangular_factor
from ..kernels.orthogonal import DEPENDENT
from ..moments.least_squares import unit_rows
from ..moments.moments import Moments
from ..moments.roots import roots_of_groups, unit_columns


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


def errors_from_roots(moments: Moments, roots: Floats, columns: Mask) -> StandardErrors:
    """Of the columns (q,) of the features, from factors (E, m, d) of the rows."""
    used = np.append(moments.feature_columns[columns], moments.outcome)
    each = zip(roots_of_groups(moments, roots, used), moments.group_counts, strict=True)
    return _collected([_factor_of_unit(*unit_columns(root), int(n)) for root, n in each])


def errors_from_moments(moments: Moments, columns: Mask) -> StandardErrors:
    """Of the columns (q,) of the features, from second moments alone."""
    used = moments.feature_columns[columns]
    return _collected([_factor_of_moments(moments, g, used) for g in range(moments.n_environments + 1)])


def weighted_errors_from_rows(data: MultiEnvironmentData, columns: Mask, deviations: Floats) -> Floats:
    """(k,) of the columns (q,) of one fit to all rows, whose noise has a standard deviation (E,) in each environment;
    NaN where a column is constant or given by the others."""
    X = data.X[:, columns]
    weighted = np.column_stack([np.ones(data.n_rows), X - X.mean(axis=0)]) / deviations[data.environment_index, None]
    norms = np.sqrt(np.einsum("nk,nk->k", weighted, weighted))
    norms[norms == 0.0] = 1.0
    unit = np.ascontiguousarray((weighted / norms).T)
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    return _weighted_errors(triangle, independent, norms, data.n_rows)


def weighted_errors_from_moments(moments: Moments, columns: Mask, deviations: Floats) -> Floats:
    """The same from second moments alone."""
    used = moments.feature_columns[columns]
    gaps = moments.gaps[:, used]
    design = np.insert(gaps, 0, 1.0, axis=1)
    precision = 1.0 / deviations**2
    gram = np.einsum("e,ei,ej->ij", precision * moments.counts, design, design)
    gram[1:, 1:] += np.einsum("e,eij->ij", precision, moments.scatter[:-1][:, used[:, None], used])
    independent = np.insert(moments.present[-1, used], 0, True)
    norms = np.where(independent, np.sqrt(np.diagonal(gram)), 1.0)
    triangle, kept = np.zeros(gram.shape), np.flatnonzero(independent)
    triangle[np.ix_(kept, kept)] = np.linalg.cholesky((gram / (norms[:, None] * norms))[np.ix_(kept, kept)]).T
    return _weighted_errors(triangle, independent, norms, moments.n_rows)


def _weighted_errors(triangle: Floats, independent: Mask, norms: Floats, n_rows: int) -> Floats:
    """Of all columns but the first, a constant. Variances by maximum likelihood are too small by N to the degrees of
    freedom left."""
    kept = np.flatnonzero(independent)
    values = np.full(len(norms), np.nan)
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    values[kept] = np.sqrt((inverse**2).sum(axis=1) * n_rows / (n_rows - len(kept))) / norms[kept]
    return values[1:]


def _collected(factors: list[_Factor]) -> StandardErrors:
    values, freedom = zip(*(factor.errors() for factor in factors), strict=True)
    return StandardErrors(np.array(values), np.array(freedom))


def _factor_of_rows(X: Floats, y: Floats) -> _Factor:
    unit, norms, _ = unit_rows(np.column_stack([X, y]))
    return _factor_of_unit(unit, norms, len(y))


def _factor_of_unit(unit: Floats, norms: Floats, n_rows: int) -> _Factor:
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    return _Factor(triangle, independent, norms, n_rows)


def _factor_of_moments(moments: Moments, g: int, columns: NDArray[np.intp]) -> _Factor:
    members = np.append(columns, moments.outcome)
    present = moments.present[g, members]
    norms = np.where(present, np.sqrt(np.diagonal(moments.scatter[g])[members]), 1.0)
    gram = moments.scatter[g][np.ix_(members, members)] / (norms[:, None] * norms)
    triangle, kept = np.zeros(gram.shape), np.flatnonzero(present)
    triangle[np.ix_(kept, kept)] = np.linalg.cholesky(gram[np.ix_(kept, kept)]).T
    return _Factor(triangle, present, norms, int(moments.group_counts[g]))
