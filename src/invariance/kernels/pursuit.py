"""Which columns a regression would pick, one after the other, from second moments alone."""

import numpy as np
from numba import njit

from .gram_rows import gram_row

# Forward selection, except that a column of which little is left must explain much more to enter.
FORWARD = 0.01
# Matching pursuit: whatever is left of a column, its covariance with what is left of the target counts.
MATCHING = 1e9


@njit(cache=True, nogil=True, error_model="numpy")
def inverse_scale_of(scoring, first, last):
    """(d,) 1/√ of each column's sum of squares, groups first..last-1 added up; 0 where it is constant."""
    scale = np.zeros(scoring.inverse_scale.shape[1])
    for g in range(first, last):
        for j in range(scale.size):
            own = scoring.inverse_scale[g, j]
            if own > 0.0:
                scale[j] += 1.0 / (own * own)
    for j in range(scale.size):
        scale[j] = 1.0 / np.sqrt(scale[j]) if scale[j] > 0.0 else 0.0
    return scale


@njit(cache=True, nogil=True, error_model="numpy")
def pursuit(scoring, target, first, last, scale, free, damping, path, given):
    """The columns out of the `free` (d,) that a regression of the column `target` picks; returns how many were found.

    The first `given` columns of `path` are there already: they enter before the search begins.
    scale (d,): `inverse_scale_of` groups first..last-1, whose second moments are added up: the environments' own
    deviations for (0, E), the pool's for (E, E+1). path (n,) receives columns in the order of entering: each has the
    largest c²/(r + damping), where r is the share of the column that the earlier ones leave and c its covariance, per
    standard deviations, with what they leave of the target. Columns that nearly depend on the earlier ones are passed
    over.
    """
    d = free.size
    rows = np.zeros((path.size, d))
    remaining = np.ones(d)
    covariance = np.zeros(d)
    for g in range(first, last):
        covariance += gram_row(scoring.scatter, g, target)
    covariance *= scale * scale[target]
    open_ones = free & (scale > 0.0)
    open_ones[target] = False
    for k in range(path.size):
        top = path[k] if k < given else -1
        largest = -1.0
        for j in range(d if k >= given else 0):
            if open_ones[j] and remaining[j] < scoring.tolerance:
                open_ones[j] = False
            gain = covariance[j] ** 2 / (remaining[j] + damping)
            if open_ones[j] and gain > largest:
                top, largest = j, gain
        if top < 0 or remaining[top] < scoring.tolerance:
            return k
        open_ones[top] = False
        path[k] = top
        new = rows[k]
        for g in range(first, last):
            new += gram_row(scoring.scatter, g, top)
        new *= scale * scale[top]
        for m in range(k):
            new -= rows[m, top] * rows[m]
        new /= np.sqrt(new[top])
        remaining -= new * new
        covariance -= new[target] * new
    return path.size
