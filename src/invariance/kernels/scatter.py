"""Centred sums of products (E + 1, d, d) of E environments and of all their rows, filled row by row."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
from numba.extending import get_cython_function_address

from .compiled import copy_into, kernel


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


# Nothing is found in a group that holds NaN: its sum tells.
_NO_NAN = {"nnan", "nsz"}


@kernel
def sort_groups(codes, starts, places):
    """Of rows with codes (n,) from 0 to G - 1: where each group begins when sorted (G + 1,), and each row's place."""
    starts[:] = 0
    for code in codes:
        starts[code + 1] += 1
    for g in range(starts.size - 1):
        starts[g + 1] += starts[g]
    free = starts[:-1].copy()
    for i in range(codes.size):
        places[i] = free[codes[i]]
        free[codes[i]] += 1


@kernel
def put(values, places, block, j):
    """block[j, places] = values"""
    row = block[j]
    for i in range(values.size):
        row[places[i]] = values[i]


@kernel
def _sum(values):
    """Eight sums that a processor can take at once. Their order is spelt out: a compiler that may choose it chooses
    another one where a kernel comes from the cache, and so other last digits."""
    a = b = c = d = e = f = g = h = 0.0
    whole = values.size - values.size % 8
    for i in range(0, whole, 8):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
        e += values[i + 4]
        f += values[i + 5]
        g += values[i + 6]
        h += values[i + 7]
    for i in range(whole, values.size):
        a += values[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel(fastmath=_NO_NAN)
def _range(values):
    low, high = np.inf, -np.inf
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return low, high


@kernel
def describe_groups(block, starts, centre, minimum, maximum):
    """Of a block (d, n) sorted by group: means, lowest and highest values (G, d); those of an empty group are left as
    they are. Returns whether all values are finite."""
    finite = True
    for g in range(starts.size - 1):
        if starts[g] == starts[g + 1]:
            continue
        for j in range(block.shape[0]):
            values = block[j, starts[g] : starts[g + 1]]
            total = _sum(values)
            minimum[g, j], maximum[g, j] = _range(values)
            finite &= np.isfinite(total)
            centre[g, j] = minimum[g, j] if minimum[g, j] == maximum[g, j] else total / values.size
    return finite


@kernel
def _centre(values, centre, low, high):
    at_low, at_high = 0, 0
    for i in range(values.size):
        value = values[i]
        at_low += value == low
        at_high += value == high
        values[i] = value - centre
    return _sum(values), at_low, at_high


@kernel
def centre_groups(block, starts, centre, minimum, maximum, rest, at_ends):
    """Less the centre of each group (G, d), in place. Fills rest (G, d), the mean of what is left, and at_ends
    (G, 2, d), how many rows hold the lowest and the highest value exactly."""
    for g in range(starts.size - 1):
        size = starts[g + 1] - starts[g]
        if size == 0:
            continue
        for j in range(block.shape[0]):
            values = block[j, starts[g] : starts[g + 1]]
            total, at_ends[g, 0, j], at_ends[g, 1, j] = _centre(values, centre[g, j], minimum[g, j], maximum[g, j])
            rest[g, j] = total / size


_SIGN, _INT, _REAL = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
_UPPER, _TRANSPOSED = b"U", b"T"
_ONE = ctypes.c_double(1.0)


@cache
def _syrk():
    """The BLAS routine, for calls that let other threads work meanwhile."""
    address = get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
    kinds = _SIGN, _SIGN, _INT, _INT, _REAL, ctypes.c_void_p, _INT, _REAL, ctypes.c_void_p, _INT
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def add_products(block, start, stop, scatter, weight=1.0):
    """scatter (d, d) += weight · block[:, start:stop] · its transpose, on and below the diagonal; both in C order."""
    d, n = block.shape
    order, rows, lead = ctypes.c_int(d), ctypes.c_int(stop - start), ctypes.c_int(n)
    first = ctypes.c_void_p(block.ctypes.data + start * block.itemsize)
    products = ctypes.c_void_p(scatter.ctypes.data)
    _syrk()(_UPPER, _TRANSPOSED, order, rows, ctypes.c_double(weight), first, lead, _ONE, products, order)


@kernel
def mirror(scatter):
    """Above the diagonal of scatter (d, d) what is below it, tile by tile."""
    d = scatter.shape[0]
    for top in range(0, d, 32):
        for left in range(0, top + 1, 32):
            for i in range(top, min(top + 32, d)):
                for j in range(left, min(left + 32, i)):
                    scatter[j, i] = scatter[i, j]
