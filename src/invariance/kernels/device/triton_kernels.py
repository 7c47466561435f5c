"""The kernels of `torch_kernels`, each in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import torch_kernels
from .torch_kernels import Draws, Problem, Subsets

GOLDEN = tl.constexpr(torch_kernels.GOLDEN)
FIRST = tl.constexpr(torch_kernels.FIRST)
SECOND = tl.constexpr(torch_kernels.SECOND)
UNIT = tl.constexpr(torch_kernels.UNIT)


@triton.jit
def _mixed(bits, shift: tl.constexpr):
    return bits ^ (bits.to(tl.uint64, bitcast=True) >> shift).to(tl.int64, bitcast=True)


@triton.jit(do_not_specialize=["first"])
def _draw_pairs(
    inclusions,
    directions,
    seeds,
    signs,
    slopes,
    members,
    sizes,
    first,
    d,
    pairs,
    room,
    CHUNK: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    outcome = pair // pairs
    seed = tl.load(seeds + outcome)
    start = first + (pair % pairs) * d + 1
    slope = tl.zeros((), tl.float64)
    n_first = tl.zeros((), tl.int32)
    n_second = tl.zeros((), tl.int32)
    for chunk in range(0, d, CHUNK):
        column = chunk + tl.arange(0, CHUNK)
        there = column < d
        bits = _mixed(_mixed(seed + (start + column) * GOLDEN, 30) * FIRST, 27) * SECOND
        bits = _mixed(bits, 31).to(tl.uint64, bitcast=True) >> 11
        u = bits.to(tl.float64) * UNIT
        inclusion = tl.load(inclusions + outcome * d + column, mask=there, other=0.0)
        in_first = (u > 1.0 - inclusion) & there
        in_second = (u < inclusion) & there
        sign = in_first.to(tl.int8) - in_second.to(tl.int8)
        tl.store(signs + pair * d + column, sign, mask=there)
        direction = tl.load(directions + outcome * d + column, mask=there & (sign != 0), other=0.0)
        slope += tl.sum(sign.to(tl.float64) * direction, axis=0)
        place = n_first + tl.cumsum(in_first.to(tl.int32), axis=0) - 1
        tl.store(members + 2 * pair * room + place, column, mask=in_first & (place < room))
        n_first += tl.sum(in_first.to(tl.int32), axis=0)
        place = n_second + tl.cumsum(in_second.to(tl.int32), axis=0) - 1
        tl.store(members + (2 * pair + 1) * room + place, column, mask=in_second & (place < room))
        n_second += tl.sum(in_second.to(tl.int32), axis=0)
    tl.store(slopes + pair, slope)
    tl.store(sizes + 2 * pair, n_first.to(tl.int64))
    tl.store(sizes + 2 * pair + 1, n_second.to(tl.int64))


def draw_pairs(
    inclusion: torch.Tensor,
    direction: torch.Tensor,
    seeds: torch.Tensor,
    step: int,
    pairs: int,
    room: int,
) -> Draws:
    """As `torch_kernels.draw_pairs`."""
    n_outcomes, d = inclusion.shape
    device = inclusion.device
    n_pairs = n_outcomes * pairs
    signs = torch.empty((n_outcomes, pairs, d), dtype=torch.int8, device=device)
    slopes = torch.empty((n_outcomes, pairs), dtype=torch.float64, device=device)
    members = torch.empty((2 * n_pairs, room), dtype=torch.int32, device=device)
    sizes = torch.empty(2 * n_pairs, dtype=torch.int64, device=device)
    _draw_pairs[(n_pairs,)](
        inclusion,
        direction,
        seeds,
        signs,
        slopes,
        members,
        sizes,
        step * pairs * d,
        d,
        pairs,
        room,
        CHUNK=1024,
    )
    owner = torch.arange(2 * n_pairs, device=device) // (2 * pairs)
    return Draws(signs, slopes, Subsets(owner, members, sizes))


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
def _tile(
    gram, scale, removed, removed_stride, d, rows, row_in, columns, column_in, REMOVED: tl.constexpr
):
    """Scaled second moments of rows × columns without the removed rows; 0 where a column is not
    there."""
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


@triton.jit(
    do_not_specialize=["room"]
)  # it differs from call to call, and would compile another kernel
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
    s = tl.program_id(0).to(tl.int64)
    g = tl.program_id(1).to(tl.int64)
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
        smallest = tl.full((), 1.0, tl.float64)
        share = tl.full((), 1.0, tl.float64)
        n_blocks = n // BLOCK + 1
        for j in range(n_blocks):
            columns, there = _columns(members, outcome, n, j, BLOCK)
            tile = _tile(
                gram, scale, removed, n_groups * d, d, columns, there, columns, there, REMOVED
            )
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
                # The rows of the inverse below are those of an elimination with pivots, scaled at
                # the end.
                inverse -= (below * reciprocal)[:, None] * solved[None, :]
                inverse = tl.where(place[:, None] == c, (solved * root)[None, :], inverse)
            for i in range(j + 1, n_blocks):
                rows, row_there = _columns(members, outcome, n, i, BLOCK)
                tile = _tile(
                    gram, scale, removed, n_groups * d, d, rows, row_there, columns, there, REMOVED
                )
                for k in range(j):
                    left = tl.load(factor + i * BLOCK * width + k * BLOCK + offsets)
                    right = tl.load(factor + j * BLOCK * width + k * BLOCK + offsets)
                    tile -= _product(left, right)
                tl.store(factor + i * BLOCK * width + j * BLOCK + offsets, _product(tile, inverse))
            tl.debug_barrier()
        tl.store(
            out + s * n_groups + g, tl.where(smallest >= tolerance, tl.log(share), float("nan"))
        )


def log_shares(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """As `torch_kernels.log_shares`."""
    n_subsets, room = subsets.members.shape
    n_groups, d = problem.scatter.shape[:2]
    width = (room // BLOCK + 1) * BLOCK
    out = torch.full((n_subsets, n_groups), torch.nan, dtype=torch.float64, device=problem.device)
    work = torch.empty(
        (n_subsets, n_groups, width, width), dtype=torch.float64, device=problem.device
    )
    given = problem.scatter, problem.scale, problem.removed, problem.outcome, *subsets
    sizes = d, room, width, n_groups, problem.tolerance
    constants = {"REMOVED": problem.removed.shape[1], "BLOCK": BLOCK, "num_warps": WARPS}
    _shares[(n_subsets, n_groups)](*given, work, out, *sizes, **constants)
    return out
