"""Means, ranges and deviations of chosen rows, in two passes so that a large mean costs no digits."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def centred_rows(X, y, rows, origin, shift, minimum, maximum):
    """Deviations (n, p + 1) of [X, y] at `rows` from their means; fills shift, minimum, maximum (p + 1,).

    `shift` is the mean measured from `origin`: the rounding of the first mean is found in the deviations and kept.
    A constant column deviates by exactly 0.
    """
    n, p = rows.size, X.shape[1]
    centred = np.empty((n, p + 1))
    mean = np.zeros(p + 1)
    minimum[:] = np.inf
    maximum[:] = -np.inf
    for i in range(n):
        for j in range(p):
            centred[i, j] = X[rows[i], j]
        centred[i, p] = y[rows[i]]
        for j in range(p + 1):
            value = centred[i, j]
            mean[j] += value
            minimum[j] = min(minimum[j], value)
            maximum[j] = max(maximum[j], value)
    for j in range(p + 1):
        mean[j] = minimum[j] if minimum[j] == maximum[j] else mean[j] / n
    correction = np.zeros(p + 1)
    for i in range(n):
        for j in range(p + 1):
            centred[i, j] -= mean[j]
            correction[j] += centred[i, j]
    correction /= n
    for i in range(n):
        for j in range(p + 1):
            centred[i, j] -= correction[j]
    for j in range(p + 1):
        shift[j] = (mean[j] - origin[j]) + correction[j]
    return centred


@njit(cache=True, nogil=True)
def count_equal(X, y, rows, values):
    """(p + 1,) how many of the rows of [X, y] hold exactly values[j] in column j."""
    p = X.shape[1]
    counts = np.zeros(p + 1, np.int64)
    for i in range(rows.size):
        for j in range(p):
            counts[j] += X[rows[i], j] == values[j]
        counts[p] += y[rows[i]] == values[p]
    return counts
