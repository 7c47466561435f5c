"""The same as `draws_torch` in one launch."""

import torch
import triton
import triton.language as tl

from .draws_torch import FIRST, GOLDEN, SECOND, UNIT, Draws
from .problem import Subsets

_CHUNK = 1024


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
    GOLDEN: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    UNIT: tl.constexpr,
    CHUNK: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    outcome = pair // pairs
    seed = tl.load(seeds + outcome)
    start = first + (pair % pairs) * d + 1
    slope = tl.zeros((), tl.float64)
    n_first, n_second = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
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
    inclusion: torch.Tensor, direction: torch.Tensor, seeds: torch.Tensor, step: int, pairs: int, room: int
) -> Draws:
    """The pairs of one step, with inclusion (B, d) and direction (B, d); at most `room` members are listed."""
    n_outcomes, d = inclusion.shape
    device, n_pairs = inclusion.device, n_outcomes * pairs
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
        GOLDEN=GOLDEN,
        FIRST=FIRST,
        SECOND=SECOND,
        UNIT=UNIT,
        CHUNK=_CHUNK,
    )
    owner = torch.arange(2 * n_pairs, device=device) // (2 * pairs)
    return Draws(signs, slopes, Subsets(owner, members, sizes))
