"""Which columns a regression would pick, one after the other, from second moments alone."""

import numpy as np
from numba import njit

from .gram_rows import gram_row


@njit(cache=True, nogil=True, error_model="numpy")
def pursuit(scoring, first, last, free, path):
    """Orthogonal matching pursuit of the outcome on the `free` (d,) columns; returns how many were found.

    The second moments are those of groups first..last-1 added up: the environments' own deviations for (0, E), the
    pool's for (E, E+1). path (n,) receives columns in the order of entering: each has the largest covariance, per
    standard deviation, with what the earlier ones leave of the outcome. Nearly dependent columns are passed over.
    """
    d = free.size
    scale = np.zeros(d)
    for g in range(first, last):
        for j in range(d):
            if scoring.inverse_scale[g, j] > 0.0:
                scale[j] += scoring.inverse_scale[g, j] ** -2.0
    for j in range(d):
        scale[j] = 1.0 / np.sqrt(scale[j]) if scale[j] > 0.0 else 0.0
    rows = np.zeros((path.size, d))
    remaining = np.ones(d)
    covariance = np.zeros(d)
    for g in range(first, last):
        covariance += gram_row(scoring.scatter, g, scoring.outcome)
    covariance *= scale * scale[scoring.outcome]
    open_ones = free & (scale > 0.0)
    for k in range(path.size):
        top = -1
        for j in range(d):
            if open_ones[j] and remaining[j] < scoring.tolerance:
                open_ones[j] = False
            if open_ones[j] and (top < 0 or abs(covariance[j]) > abs(covariance[top])):
                top = j
        if top < 0:
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
        covariance -= new[scoring.outcome] * new
    return path.size
