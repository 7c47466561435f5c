"""Centred sums of products (E + 1, d, d) of E environments and of all their rows, filled row by row."""

from __future__ import annotations

import numpy as np

from .compiled import kernel


@kernel
def fill_pooled(scatter, counts, gaps):
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and the pooled one."""
    weighted = np.expand_dims(counts, 1) * gaps
    for i in range(scatter.shape[1]):
        local, pooled = scatter[:-1, i], scatter[-1, i]
        pooled[:] = 0.0
        for e in range(len(local)):
            for j in range(pooled.size):
                pooled[j] += weighted[e, i] * gaps[e, j]
        for e in range(len(local)):
            for j in range(pooled.size):
                pooled[j] += local[e, j]


@kernel
def centred_rows(X, y, rows, centre, rest, minimum, maximum):
    """Deviations (n, p + 1) of [X, y] at `rows` from their means; fills centre, rest, minimum, maximum (p + 1,).

    The mean is centre + rest: the rounding of the first mean is found in the deviations and kept. A constant column
    deviates by exactly 0.
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
