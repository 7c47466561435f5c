"""Which columns add something in an environment: of levels, second moments tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask

if TYPE_CHECKING:
    from .moments import Moments

# Share of a column's scatter that others of its feature leave when they determine it, up to rounding.
_DEPENDENT = 1e-12


def present(moments: Moments) -> Mask:
    """(E + 1, d) see `Moments.present`"""
    if not moments.features.grouped or not moments.scatter.size:
        return moments.varies
    present = moments.varies.copy()
    starts = moments.features.starts
    for j in np.flatnonzero(moments.features.widths > 1):
        columns = moments.feature_columns[starts[j] : starts[j + 1]]
        if not _zero_or_one(moments, columns):
            continue
        for g in range(moments.n_environments + 1):
            present[g, columns] &= _adding(moments.scatter[g][np.ix_(columns, columns)], present[g, columns])
    return present


def _zero_or_one(moments: Moments, columns: NDArray[np.intp]) -> bool:
    """Whether the columns hold 0 and 1 only: then, and between 0 and 1 only then, they vary as much as such do."""
    means, squares = moments.means[:, columns], np.einsum("gjj->gj", moments.scatter[:-1])[:, columns]
    inside = (moments.minimum[:, columns] >= 0.0) & (moments.maximum[:, columns] <= 1.0)
    most = moments.counts[:, None] * means * (1.0 - means)
    return bool(inside.all() and np.allclose(squares, most, rtol=1e-9, atol=1e-9))


def _adding(scatter: Floats, varying: Mask) -> Mask:
    """(m,) the varying columns that are no combination of those before them"""
    adding = np.zeros(len(scatter), dtype=bool)
    left = scatter.copy()
    for c in np.flatnonzero(varying):
        if left[c, c] > _DEPENDENT * scatter[c, c]:
            adding[c] = True
            left -= np.outer(left[:, c], left[c]) / left[c, c]
    return adding
