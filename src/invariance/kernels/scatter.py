"""Centred rows, and centred sums of products (E + 1, d, d) of E environments and of all their rows."""

from __future__ import annotations

import numpy as np

from .compiled import kernel

# Rows of a scatter that are filled together: they stay in a cache.
_STRIP = 64


def fill_pooled(scatter, counts, gaps):
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and the pooled one."""
    weighted = counts[:, None] * gaps
    for start in range(0, scatter.shape[1], _STRIP):
        rows = slice(start, start + _STRIP)
        pooled = scatter[-1, rows]
        pooled[:] = 0.0
        for factor, gap in zip(weighted[:, rows], gaps, strict=True):
            pooled += factor[:, None] * gap
        for local in scatter[:-1, rows]:
            pooled += local


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
