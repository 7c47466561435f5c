"""Least squares with an intercept by orthogonalising the centred, scaled rows: right where second
moments are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.row_residuals import DEPENDENT, triangular_factor


def unit_columns(root: Floats) -> tuple[Floats, Floats]:
    """The columns (m, k) scaled to unit length, as rows (k, m), and their lengths (k,)"""
    norms = np.sqrt(np.einsum("mk,mk->k", root, root))
    return np.ascontiguousarray((root / np.where(norms > 0.0, norms, 1.0)).T), norms


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """coefficients (k,), zero for columns that add nothing; rss: residual sum of squares; kept
    (rank,): columns that add something, of these lengths; triangle (rank, rank): their factor."""

    coefficients: Floats
    intercept: float
    rss: float
    kept: Integers
    lengths: Floats
    triangle: Floats

    @property
    def rank(self) -> int:
        return len(self.kept)

    @property
    def unscaled_errors(self) -> Floats:
        """(k,) standard errors for noise of variance 1, NaN for columns that add nothing"""
        errors = np.full(len(self.coefficients), np.nan)
        inverse = np.linalg.inv(self.triangle)
        errors[self.kept] = np.sqrt((inverse**2).sum(axis=1)) / self.lengths
        return errors


def unit_rows(columns: Floats) -> tuple[Floats, Floats, Floats]:
    """The k columns (n, k) centred, scaled to unit norm and laid out as rows (k, n); their norms
    and means (k,). The second pass removes the rounding of the first. A constant column becomes
    zero, exactly."""
    rows = np.ascontiguousarray(columns.T)
    means = rows.mean(axis=1)
    deviations = rows - means[:, None]
    correction = deviations.mean(axis=1)
    deviations -= correction[:, None]
    constant = rows.min(axis=1) == rows.max(axis=1)
    deviations[constant] = 0.0
    norms = np.sqrt(np.einsum("kn,kn->k", deviations, deviations))
    deviations /= np.where(norms > 0.0, norms, 1.0)[:, None]
    return deviations, norms, np.where(constant, rows[:, 0], means + correction)


def independent_columns(X: Floats) -> Mask:
    """(k,) the columns of X (n, k) that vary and are no combination of those before them and a
    constant."""
    unit, _, _ = unit_rows(X)
    return np.asarray(triangular_factor(unit, np.arange(X.shape[1]), DEPENDENT)[1])


def least_squares(X: Floats, y: Floats) -> LeastSquares:
    """Fit y on the columns of X (n, k) and an intercept; a column that depends on earlier ones gets
    coefficient 0."""
    return least_squares_of_units(*unit_rows(np.column_stack([X, y])))


def least_squares_of_units(unit: Floats, norms: Floats, means: Floats) -> LeastSquares:
    """The same of centred unit columns (k + 1, n), the last of them the outcome, their lengths and
    means (k + 1,)."""
    k = len(unit) - 1
    triangle, independent = triangular_factor(unit, np.arange(k + 1), DEPENDENT)
    kept = np.flatnonzero(independent[:k])
    lengths = norms[kept]
    root = triangle[np.ix_(kept, kept)]
    coefficients = np.zeros(k)
    coefficients[kept] = np.linalg.solve(root, triangle[kept, k]) * (norms[k] / lengths)
    intercept = float(means[k] - means[:k] @ coefficients)
    rss = float((triangle[k, k] * norms[k]) ** 2)
    return LeastSquares(coefficients, intercept, rss, kept, lengths, root)
