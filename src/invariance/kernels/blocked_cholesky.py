"""Cholesky factors in tiles of 8×8: what many members leave of the outcome, several times faster than by sweeps.

The upper triangle of a symmetric matrix is kept by blocks of eight columns, one after the other: block b holds rows
0 … 8b+7, row by row, from `block_start(b)` on.
"""

import numpy as np
from numba import njit

from .lanes import LANES, less, load, scaled, store
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
def factor_tile(triangle, scale, reciprocals, a, b, tolerance):
    """Tile (a, b) of the Cholesky factor of the triangle times scale on both sides, in place of the triangle's.

    Tiles above it and those of block a come first. A column of scale 0 counts as one that nothing depends on, with a
    diagonal of 1. reciprocals: those of the factor's diagonal. Returns whether all pivots reach the tolerance.
    """
    left, right, row = block_start(a), block_start(b), LANES * a
    place = right + LANES * row
    tile = scaled_tile(load_tile(triangle, place), load(scale, LANES * b), scale, row)
    for m in range(0, LANES * row, LANES):
        tile = less_outer(tile, triangle, left + m, load(triangle, right + m))
    if a == b:
        store_tile(triangle, place, tile)
        return _factor_diagonal(triangle, scale, reciprocals, b, tolerance)
    store_tile(triangle, place, solved_tile(tile, triangle, left + LANES * row, reciprocals, row))
    return True
