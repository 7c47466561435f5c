"""Cholesky factors in tiles of 8×8: what many members leave of the outcome, several times faster than by sweeps.

The upper triangle of a symmetric matrix is kept by blocks of eight columns, one after the other: block b holds rows
0 … 8b+7, row by row, from `block_start(b)` on.
"""

import numpy as np
from numba import njit

from .lanes import LANES, less, load, product, scaled, store


@njit(cache=True, nogil=True, error_model="numpy")
def n_blocks(n):
    return (n + LANES - 1) // LANES


@njit(cache=True, nogil=True, error_model="numpy")
def block_start(b):
    """Where block b begins; what b blocks take."""
    return LANES * LANES * (b * (b + 1) // 2)


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(triangle, scale, a, b):
    """Tile (a, b), scaled, less what the rows above it explain."""
    left, right = block_start(a), block_start(b)
    tile, row = right + LANES * LANES * a, LANES * a
    across = load(scale, LANES * b)
    c0 = scaled(product(load(triangle, tile), across), scale[row])
    c1 = scaled(product(load(triangle, tile + 8), across), scale[row + 1])
    c2 = scaled(product(load(triangle, tile + 16), across), scale[row + 2])
    c3 = scaled(product(load(triangle, tile + 24), across), scale[row + 3])
    c4 = scaled(product(load(triangle, tile + 32), across), scale[row + 4])
    c5 = scaled(product(load(triangle, tile + 40), across), scale[row + 5])
    c6 = scaled(product(load(triangle, tile + 48), across), scale[row + 6])
    c7 = scaled(product(load(triangle, tile + 56), across), scale[row + 7])
    for m in range(0, LANES * row, LANES):
        above = load(triangle, right + m)
        at = left + m
        c0 = less(c0, triangle[at], above)
        c1 = less(c1, triangle[at + 1], above)
        c2 = less(c2, triangle[at + 2], above)
        c3 = less(c3, triangle[at + 3], above)
        c4 = less(c4, triangle[at + 4], above)
        c5 = less(c5, triangle[at + 5], above)
        c6 = less(c6, triangle[at + 6], above)
        c7 = less(c7, triangle[at + 7], above)
    store(triangle, tile, c0)
    store(triangle, tile + 8, c1)
    store(triangle, tile + 16, c2)
    store(triangle, tile + 24, c3)
    store(triangle, tile + 32, c4)
    store(triangle, tile + 40, c5)
    store(triangle, tile + 48, c6)
    store(triangle, tile + 56, c7)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(triangle, reciprocals, a, b):
    """Tile (a, b) becomes rows of the factor, by those of the diagonal tile (a, a) and the reciprocals of its roots."""
    tile, diagonal = block_start(b) + LANES * LANES * a, block_start(a) + LANES * LANES * a
    for i in range(LANES):
        row = load(triangle, tile + LANES * i)
        for m in range(i):
            row = less(row, triangle[diagonal + LANES * m + i], load(triangle, tile + LANES * m))
        store(triangle, tile + LANES * i, scaled(row, reciprocals[LANES * a + i]))


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
def factor(triangle, scale, reciprocals, blocks, tolerance):
    """The Cholesky factor of `blocks` blocks of the triangle times scale (8·blocks,) on both sides, in place.

    A column of scale 0 counts as one that nothing depends on, with a diagonal of 1. Returns whether all pivots reach
    the tolerance. reciprocals (8·blocks,): work space, for those of the factor's diagonal.
    """
    for b in range(blocks):
        for a in range(b):
            _eliminate(triangle, scale, a, b)
            _solve(triangle, reciprocals, a, b)
        _eliminate(triangle, scale, b, b)
        if not _factor_diagonal(triangle, scale, reciprocals, b, tolerance):
            return False
    return True
