"""The rows in the form in which kernels decide from them what second moments cannot."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.group_rows import GroupRows
from ..moments.least_squares import unit_rows
from ..moments.moments import Moments

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
    ends = np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int64)
    # Kernels are compiled for each order of the entries in memory: of factors alone `concatenate` would make the other.
    values = np.concatenate(parts, axis=1, out=np.empty((columns.shape[1], ends[-1])))
    no_gaps = np.empty((0, columns.shape[1]))
    return GroupRows(values, ends[:-1], ends[1:], moments.group_counts, no_gaps)


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
