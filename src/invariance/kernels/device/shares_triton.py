"""Residual shares of the outcome by one blocked Cholesky factorisation for each subset and group, in one launch.

Left-looking over blocks of BLOCK columns: a tile is gathered from the second moments when its turn comes, so that of a
subset only its factor is ever written. Sizes differ between programs, and none is padded by more than a block.
"""

import torch
import triton
import triton.language as tl

from .problem import Problem, Subsets

# Measured on an H200 with subsets of 60 to 190 columns: twice as fast as blocks of 32.
BLOCK = 16
WARPS = 2


@triton.jit
def _columns(members, outcome, n, block, BLOCK: tl.constexpr):
    """Columns of one block, the outcome after the n members, and whether they are there."""
    place = block * BLOCK + tl.arange(0, BLOCK)
    column = tl.load(members + place, mask=place < n, other=0)
    return tl.where(place == n, outcome, column).to(tl.int64), place <= n


@triton.jit
def _tile(gram, scale, removed, removed_stride, d, rows, row_in, columns, column_in, REMOVED: tl.constexpr):
    """Scaled second moments of rows × columns without the removed rows; 0 where a column is not there."""
    inside = row_in[:, None] & column_in[None, :]
    tile = tl.load(gram + rows[:, None] * d + columns[None, :], mask=inside, other=0.0)
    for r in tl.static_range(REMOVED):
        row = removed + r * removed_stride
        a = tl.load(row + rows, mask=row_in, other=0.0)
        b = tl.load(row + columns, mask=column_in, other=0.0)
        tile -= a[:, None] * b[None, :]
    a = tl.load(scale + rows, mask=row_in, other=0.0)
    b = tl.load(scale + columns, mask=column_in, other=0.0)
    return tile * a[:, None] * b[None, :]


@triton.jit
def _product(a, b):
    return tl.dot(a, tl.trans(b), out_dtype=tl.float64, input_precision="ieee")


@triton.jit
def _shares(
    scatter,
    scale,
    removed,
    outcomes,
    owners,
    members,
    sizes,
    work,
    out,
    d,
    room,
    width,
    n_groups,
    tolerance,
    REMOVED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    s, g = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    n = tl.load(sizes + s)
    if n <= room:
        owner = tl.load(owners + s).to(tl.int64)
        outcome = tl.load(outcomes + owner)
        gram = scatter + g * d * d
        scale += (owner * n_groups + g) * d
        removed += (owner * REMOVED * n_groups + g) * d
        members += s * room
        factor = work + (s * n_groups + g) * width * width
        place = tl.arange(0, BLOCK)
        offsets = place[:, None] * width + place[None, :]
        smallest, share = tl.full((), 1.0, tl.float64), tl.full((), 1.0, tl.float64)
        n_blocks = n // BLOCK + 1
        for j in range(n_blocks):
            columns, there = _columns(members, outcome, n, j, BLOCK)
            tile = _tile(gram, scale, removed, n_groups * d, d, columns, there, columns, there, REMOVED)
            for k in range(j):
                left = tl.load(factor + j * BLOCK * width + k * BLOCK + offsets)
                tile -= _product(left, left)
            absent = tl.load(scale + columns, mask=there, other=0.0) == 0.0
            tile = tl.where((place[:, None] == place[None, :]) & absent[:, None], 1.0, tile)
            inverse = tl.where(place[:, None] == place[None, :], 1.0, 0.0).to(tl.float64)
            last = n - j * BLOCK
            for c in range(BLOCK):
                column = tl.sum(tl.where(place[None, :] == c, tile, 0.0), axis=1)
                row = tl.sum(tl.where(place[:, None] == c, tile, 0.0), axis=0)
                pivot = tl.sum(tl.where(place == c, column, 0.0), axis=0)
                share = tl.where(c == last, pivot, share)
                smallest = tl.minimum(smallest, pivot)
                reciprocal = 1.0 / pivot
                root = tl.sqrt(reciprocal)
                below = tl.where(place > c, column, 0.0)
                tile -= below[:, None] * (row * reciprocal)[None, :]
                solved = tl.sum(tl.where(place[:, None] == c, inverse, 0.0), axis=0)
                # The rows of the inverse below are those of an elimination with pivots, scaled at the end.
                inverse -= (below * reciprocal)[:, None] * solved[None, :]
                inverse = tl.where(place[:, None] == c, (solved * root)[None, :], inverse)
            for i in range(j + 1, n_blocks):
                rows, row_there = _columns(members, outcome, n, i, BLOCK)
                tile = _tile(gram, scale, removed, n_groups * d, d, rows, row_there, columns, there, REMOVED)
                for k in range(j):
                    left = tl.load(factor + i * BLOCK * width + k * BLOCK + offsets)
                    right = tl.load(factor + j * BLOCK * width + k * BLOCK + offsets)
                    tile -= _product(left, right)
                tl.store(factor + i * BLOCK * width + j * BLOCK + offsets, _product(tile, inverse))
            tl.debug_barrier()
        tl.store(out + s * n_groups + g, tl.where(smallest >= tolerance, tl.log(share), float("nan")))


def log_shares(problem: Problem, subsets: Subsets, block: int = BLOCK, warps: int = WARPS) -> torch.Tensor:
    """(S, G) log of what each subset leaves of its outcome in each group; NaN where undecidable or not scored."""
    n_subsets, room = subsets.members.shape
    n_groups, d = problem.scatter.shape[:2]
    width = (room // block + 1) * block
    out = torch.full((n_subsets, n_groups), torch.nan, dtype=torch.float64, device=problem.device)
    work = torch.empty((n_subsets, n_groups, width, width), dtype=torch.float64, device=problem.device)
    _shares[(n_subsets, n_groups)](
        problem.scatter,
        problem.scale,
        problem.removed,
        problem.outcome,
        subsets.owner,
        subsets.members,
        subsets.size,
        work,
        out,
        d,
        room,
        width,
        n_groups,
        problem.tolerance,
        REMOVED=problem.removed.shape[1],
        BLOCK=block,
        num_warps=warps,
    )
    return out
