"""Means, ranges and deviations of chosen rows, in two passes so that a large mean costs no digits."""

import numpy as np

from .compiled import kernel


@kernel
def centred_rows(X, y, rows, centre, rest, minimum, maximum, at_ends=None):
    """Deviations (n, p + 1) of [X, y] at `rows` from their means; fills centre, rest, minimum, maximum (p + 1,).

    The mean is centre + rest: the rounding of the first mean is found in the deviations and kept.
    A constant column deviates by exactly 0. `at_ends` (2, p + 1), where given: how many rows hold the minimum and the
    maximum exactly.
    """
    n, p = rows.size, X.shape[1]
    centred = np.empty((n, p + 1))
    centre[:] = 0.0
    rest[:] = 0.0
    minimum[:] = np.inf
    maximum[:] = -np.inf
    for i in range(n):
        for j in range(p):
            centred[i, j] = X[rows[i], j]
        centred[i, p] = y[rows[i]]
        for j in range(p + 1):
            value = centred[i, j]
            centre[j] += value
            minimum[j] = min(minimum[j], value)
            maximum[j] = max(maximum[j], value)
    if at_ends is not None:
        at_ends[:] = 0
        for i in range(n):
            row = centred[i]
            for j in range(p + 1):
                at_ends[0, j] += row[j] == minimum[j]
                at_ends[1, j] += row[j] == maximum[j]
    for j in range(p + 1):
        centre[j] = minimum[j] if minimum[j] == maximum[j] else centre[j] / n
    for i in range(n):
        for j in range(p + 1):
            centred[i, j] -= centre[j]
            rest[j] += centred[i, j]
    for j in range(p + 1):
        rest[j] /= n
    for i in range(n):
        for j in range(p + 1):
            centred[i, j] -= rest[j]
    return centred
