"""Twins of what is decided by orthogonalising rows."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from ..group_rows import GroupRows
from ..orthogonal import DEPENDENT

# Numbers in the bases of subsets that are worked on together.
_MOST_NUMBERS = 1 << 21


def triangular_factor(columns: Floats, members: Integers, dependent: float) -> tuple[Floats, Mask]:
    triangle, independent = _factors(columns, members[None], dependent)
    return triangle[0], independent[0]


def _factors(columns: Floats, members: Integers, dependent: float) -> tuple[Floats, Mask]:
    """R (S, k, k) and independent (S, k) of each subset: see `triangular_factor`; members (S, k)"""
    n_subsets, k = members.shape
    basis = np.zeros((n_subsets, k, columns.shape[1]))
    triangle, independent = np.zeros((n_subsets, k, k)), np.zeros((n_subsets, k), dtype=bool)
    for j in range(k):
        rest, earlier = columns[members[:, j]], basis[:, :j]
        for _ in range(2):
            # Dependent columns have a basis vector of zeros, which removes nothing.
            projections = np.einsum("sin,sn->si", earlier, rest)
            triangle[:, :j, j] += projections
            rest -= np.einsum("sin,si->sn", earlier, projections)
        squared = np.einsum("sn,sn->s", rest, rest)
        own = independent[:, j] = squared >= dependent
        norm = np.sqrt(squared[own])
        triangle[own, j, j] = norm
        basis[own, j] = rest[own] / norm[:, None]
    return triangle, independent


def of_one_size(starts: Integers, members: Integers) -> list[tuple[Integers, Integers]]:
    """Subsets of the same size together: (which (S,), their members (S, k))"""
    sizes = np.diff(starts)
    groups = [(np.flatnonzero(sizes == k), k) for k in np.unique(sizes)]
    return [(which, members[starts[which][:, None] + np.arange(k)]) for which, k in groups]


def residual_shares(columns: Floats, members: Integers, outcome: int, dependent: float) -> tuple[Floats, Integers]:
    """(S,) share of the outcome's squares that subsets (S, k) of the unit rows of columns (d, n) leave; their ranks"""
    shares, ranks = np.empty(len(members)), np.empty(len(members), np.int64)
    chosen = np.column_stack([members, np.full(len(members), outcome)])
    together = max(1, _MOST_NUMBERS // max(1, chosen.shape[1] * columns.shape[1]))
    for start in range(0, len(members), together):
        part = slice(start, start + together)
        triangle, independent = _factors(columns, chosen[part], dependent)
        shares[part] = triangle[:, -1, -1] ** 2
        ranks[part] = independent[:, :-1].sum(axis=1)
    return shares, ranks


def relative_residuals(
    columns: Floats, starts: Integers, members: Integers, dependent: float, residual: Floats, rank: Integers
) -> None:
    for which, chosen in of_one_size(starts, members):
        residual[which], rank[which] = residual_shares(columns, chosen, len(columns) - 1, dependent)


def fits_from_rows(rows: GroupRows, g: int, members: Integers, outcome: int) -> tuple[Floats, Integers]:
    """Of subsets (S, k) in group g: (S,) shares of the outcome, NaN outside the support, and ranks"""
    values = rows.values[:, rows.starts[g] : rows.stops[g]]
    norms = np.sqrt(np.einsum("dn,dn->d", values, values))
    unit = values / np.where(norms > 0.0, norms, 1.0)[:, None]
    shares, ranks = residual_shares(unit, members, outcome, DEPENDENT)
    return np.where((shares >= DEPENDENT) & (rows.counts[g] >= ranks + 2), shares, np.nan), ranks


def share_from_rows(rows: GroupRows, g: int, members: Integers, outcome: int) -> float:
    return float(fits_from_rows(rows, g, members[None], outcome)[0][0]) if rows.values.size else np.nan
