"""Cholesky factors in tiles of 8×8: what many members leave of the outcome, several times faster than by sweeps.

The upper triangle of a symmetric matrix is kept by blocks of eight columns, one after the other: block b holds rows
0 … 8b+7, row by row, from `block_start(b)` on.
"""

import numpy as np
from numba import njit

from .lanes import LANES, less, load, scaled, send_for, store
from .tiles import less_outer, load_tile, scaled_tile, solved_tile, store_tile


@njit(cache=True, nogil=True, error_model="numpy")
def n_blocks(n):
    return (n + LANES - 1) // LANES


@njit(cache=True, nogil=True, error_model="numpy")
def block_start(b):
    """Where block b begins; what b blocks take."""
    return LANES * LANES * (b * (b + 1) // 2)


@njit(cache=True, nogil=True, error_model="numpy")
def _factor_diagonal(triangle, scale, reciprocals, b, tolerance):
    """The factor of the diagonal tile of block b; False as soon as a pivot is below the tolerance."""
    tile = block_start(b) + LANES * LANES * b
    for i in range(LANES):
        at = tile + (LANES + 1) * i
        pivot = triangle[at] if scale[LANES * b + i] > 0.0 else 1.0
        if not pivot >= tolerance:
            return False
        root = np.sqrt(pivot)
        reciprocal = 1.0 / root
        reciprocals[LANES * b + i] = reciprocal
        own = scaled(load(triangle, tile + LANES * i), reciprocal)
        store(triangle, tile + LANES * i, own)
        triangle[at] = root
        for m in range(i + 1, LANES):
            place = tile + LANES * m
            store(triangle, place, less(load(triangle, place), triangle[tile + LANES * i + m], own))
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _send_for_pairs(source, starts, shifts, b, first, last):
    for q in range(first, last):
        send_for(source, starts[LANES * b + q % LANES] + shifts[q // LANES])


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminated(triangle, scale, a, b, source, starts, shifts, sent, each):
    """Tile (a, b), scaled, less what the rows above it explain."""
    left, right, row = block_start(a), block_start(b), LANES * a
    tile = scaled_tile(load_tile(triangle, right + LANES * row), load(scale, LANES * b), scale, row)
    for above in range(a):
        first = sent + above * each
        for q in range(first, first + each):
            send_for(source, starts[LANES * (b + 1) + (q & 7)] + shifts[q >> 3])
        for m in range(LANES * LANES * above, LANES * LANES * (above + 1), LANES):
            tile = less_outer(tile, triangle, left + m, load(triangle, right + m))
    return tile


@njit(cache=True, nogil=True, error_model="numpy")
def factor_block(triangles, scale, reciprocals, b, tolerance, source, starts, shifts):
    n_groups = triangles.shape[0]
    right = block_start(b)
    lines, steps = LANES * shifts.size, n_groups * (b * (b + 1) // 2)
    each = lines // max(steps, 1) + 1 if lines > 0 and steps > 0 else 0
    sent = 0
    for a in range(b):
        for g in range(n_groups):
            triangle = triangles[g]
            now = max(min(each, (lines - sent) // a), 0) if a > 0 else 0
            tile = _eliminated(triangle, scale[g], a, b, source, starts, shifts, sent, now)
            sent += a * now
            tile = solved_tile(tile, triangle, block_start(a) + LANES * LANES * a, reciprocals[g], LANES * a)
            store_tile(triangle, right + LANES * LANES * a, tile)
    for g in range(n_groups):
        now = max(min(each, (lines - sent) // b), 0) if b > 0 else 0
        tile = _eliminated(triangles[g], scale[g], b, b, source, starts, shifts, sent, now)
        sent += b * now
        store_tile(triangles[g], right + LANES * LANES * b, tile)
        if not _factor_diagonal(triangles[g], scale[g], reciprocals[g], b, tolerance):
            return False
    return True
