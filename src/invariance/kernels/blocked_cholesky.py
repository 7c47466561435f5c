"""Cholesky factors in tiles of 8×8: what many members leave of the outcome, several times faster than by sweeps.

The upper triangle of a symmetric matrix is kept by blocks of eight columns, one after the other: block b holds rows
0 … 8b+7, row by row, from `block_start(b)` on.
"""

from typing import NamedTuple

import numpy as np

from .compiled import kernel
from .lanes import LANES, less, load, scaled, send_for, store
from .tiles import less_outer, load_tile, scaled_tile, solved_tile, store_tile


class Ahead(NamedTuple):
    """Entries of the next block: source[starts[c] + shifts[i]], flat, in its column c < 8 and row i."""

    source: np.ndarray
    starts: np.ndarray
    shifts: np.ndarray


@kernel
def n_blocks(n):
    return (n + LANES - 1) // LANES


@kernel
def block_start(b):
    """Where block b begins; what b blocks take."""
    return LANES * LANES * (b * (b + 1) // 2)


@kernel
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


@kernel
def factor_block(triangles, scale, reciprocals, b, tolerance, ahead):
    """Block b of the Cholesky factors of triangles (G, t) times scale (G, n) on both sides, in their place.

    Blocks before it come first. A column of scale 0 counts as one that nothing depends on, with a diagonal of 1.
    Returns whether all pivots reach the tolerance. reciprocals (G, n): those of the factors' diagonals. Groups take
    turns: the processor begins with the next while it waits for a tile. Entries of the block ahead are sent for along
    the way: when it is read, they are near.
    """
    n_groups, right = triangles.shape[0], block_start(b)
    source, starts, shifts = ahead
    n_ahead, sent = LANES * shifts.size, 0
    each = n_ahead // max(n_groups * (b * (b + 1) // 2), 1) + 1
    for a in range(b + 1):
        left, row, place = block_start(a), LANES * a, right + LANES * LANES * a
        for g in range(n_groups):
            triangle = triangles[g]
            tile = scaled_tile(load_tile(triangle, place), load(scale[g], LANES * b), scale[g], row)
            for rows in range(0, LANES * row, LANES * LANES):
                until = min(sent + each, n_ahead)
                for q in range(sent, until):
                    send_for(source, starts[q % LANES] + shifts[q // LANES])
                sent = until
                for m in range(rows, rows + LANES * LANES, LANES):
                    tile = less_outer(tile, triangle, left + m, load(triangle, right + m))
            if a < b:
                tile = solved_tile(tile, triangle, left + LANES * row, reciprocals[g], row)
            store_tile(triangle, place, tile)
            if a == b and not _factor_diagonal(triangle, scale[g], reciprocals[g], b, tolerance):
                return False
    return True
