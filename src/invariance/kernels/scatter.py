"""Centred sums of products (E + 1, d, d) of E environments and of all their rows, filled row by row."""

from __future__ import annotations

import numpy as np

from .compiled import ZERO, copy_into, kernel


@kernel
def _fill_pooled_row(scatter, i, weighted, gaps):
    local, pooled = scatter[:-1, i], scatter[-1, i]
    pooled[:] = 0.0
    for e in range(len(local)):
        for j in range(pooled.size):
            pooled[j] += weighted[e, i] * gaps[e, j]
    for e in range(len(local)):
        for j in range(pooled.size):
            pooled[j] += local[e, j]


@kernel
def fill_pooled(scatter, counts, gaps):
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and the pooled one."""
    weighted = np.expand_dims(counts, 1) * gaps
    for i in range(scatter.shape[1]):
        _fill_pooled_row(scatter, i, weighted, gaps)


@kernel
def fill_without_row(scatter, e, loss, deviation, constant, counts, gaps, out):
    """Into out what is left of scatter (E + 1, d, d) when environment e loses loss (d,) · deviation (d,)', and has
    nothing left of the columns that are constant (d,) there; counts, gaps: of the rows that are left."""
    weighted = np.expand_dims(counts, 1) * gaps
    for i in range(scatter.shape[1]):
        for other in range(len(scatter) - 1):
            copy_into(out[other, i], scatter[other, i])
        row = out[e, i]
        for j in range(row.size):
            row[j] = 0.0 if constant[i] or constant[j] else row[j] - loss[i] * deviation[j]
        _fill_pooled_row(out, i, weighted, gaps)


@kernel
def centred_rows(X, y, rows, centre, rest, minimum, maximum, at_ends=None):
    """Deviations (n, p + 1) of [X, y] at `rows` from their means; fills centre, rest, minimum, maximum (p + 1,).

    The mean is centre + rest: the rounding of the first mean is found in the deviations and kept. A constant column
    deviates by exactly 0. `at_ends` (2, p + 1), where given: how many rows hold the minimum and the maximum exactly.
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


@kernel
def centre_columns(block, start, stop, minimum, maximum, centre, rest, at_ends):
    """Rows start:stop of the columns block (d, n) less their means centre + rest (d,), in place, of which rest is
    filled; also at_ends (2, d): how many rows hold the minimum and the maximum (d,) exactly."""
    for j in range(block.shape[0]):
        values, low, high = block[j, start:stop], minimum[j], maximum[j]
        at_low, at_high = ZERO, ZERO
        for i in range(values.size):
            value = values[i]
            at_low += value == low
            at_high += value == high
            values[i] = value - centre[j]
        at_ends[0, j], at_ends[1, j] = at_low, at_high
        # Four sums that a processor can take at once, in an order that does not depend on the compiler.
        a = b = c = d = 0.0
        whole = values.size - values.size % 4
        for i in range(0, whole, 4):
            a += values[i]
            b += values[i + 1]
            c += values[i + 2]
            d += values[i + 3]
        for i in range(whole, values.size):
            a += values[i]
        rest[j] = ((a + b) + (c + d)) / values.size
        for i in range(values.size):
            values[i] -= rest[j]
