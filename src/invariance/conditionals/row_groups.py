"""The rows in the form in which kernels decide from them what second moments cannot."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.group_rows import GroupRows
from ..moments.least_squares import unit_rows
from ..moments.moments import Moments
from ..moments.roots import roots_of_groups, unit_columns

# With fewer rows to a column than this, a triangular factor saves less than it costs.
_WORTHWHILE = 2


def no_rows(moments: Moments) -> GroupRows:
    counts = moments.group_counts
    nowhere = np.zeros(len(counts), np.int64)
    return GroupRows(np.empty((0, 0)), nowhere, nowhere, counts, np.empty((0, len(moments.columns))))


def compressed_rows(data: MultiEnvironmentData, moments: Moments) -> GroupRows:
    """Unit columns in every environment and the pool, or, where these have many rows, the triangular factor of them:
    any of its columns leave the same residuals as the rows.
    """
    columns = np.column_stack([data.X, data.y])
    parts: list[Floats] = []
    for rows in [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]:
        unit, _, _ = unit_rows(columns[rows])
        if unit.shape[1] > _WORTHWHILE * len(unit):
            unit = np.asarray(np.linalg.qr(unit.T, mode="r")).T
        parts.append(unit)
    return _assembled(parts, moments)


def group_rows(data: MultiEnvironmentData | None, moments: Moments) -> GroupRows:
    """Of the rows or, without them, of the factors that a second look at them left in the moments."""
    if data is not None:
        return compressed_rows(data, moments)
    assert moments.second is not None
    assert moments.second.roots is not None
    return _rows_of_roots(moments, moments.second.roots)


def _rows_of_roots(moments: Moments, roots: Floats) -> GroupRows:
    every = np.arange(len(moments.columns))
    return _assembled([unit_columns(_narrow(root))[0] for root in roots_of_groups(moments, roots, every)], moments)


def unit_groups(moments: Moments, roots: Floats, columns: Integers) -> list[Floats]:
    """The columns in every environment and the pool, scaled to unit length (k, m)"""
    return [unit_columns(root)[0] for root in roots_of_groups(moments, roots, columns)]


def _narrow(root: Floats) -> Floats:
    return root if len(root) <= root.shape[1] else np.asarray(np.linalg.qr(root, mode="r"))


def _assembled(parts: list[Floats], moments: Moments) -> GroupRows:
    d, ends = len(parts[0]), np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int64)
    # Kernels are compiled for each order of the entries in memory: of factors alone `concatenate` would make the other.
    values = np.concatenate(parts, axis=1, out=np.empty((d, ends[-1])))
    return GroupRows(values, ends[:-1], ends[1:], moments.group_counts, np.empty((0, d)))


def always_decidable(moments: Moments, inverse_scale: Floats, tolerance: float) -> bool:
    """Whether second moments can decide every subset.

    Every pivot of every subset is at least the smallest eigenvalue of the scaled second moments of all columns.
    """
    for g, scatter in enumerate(moments.scatter):
        varying = np.flatnonzero(inverse_scale[g])
        if len(varying) >= moments.group_counts[g]:
            return False
        scale = inverse_scale[g, varying]
        gram = scatter[np.ix_(varying, varying)] * scale[:, None] * scale
        gram[np.diag_indices_from(gram)] -= 2.0 * tolerance
        try:
            np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return False
    return True
