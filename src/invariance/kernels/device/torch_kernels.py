"""What scoring subsets for several outcomes takes on a device."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Problem(NamedTuple):
    """B outcomes over the same d columns in G groups, the pool last; float64 tensors on one device.

    scatter (G, d, d): of all rows, shared by all outcomes
    outcome (B,): the column of each; scale (B, G, d): 1 / root of its sum of squares, 0 where it
    does not vary removed (B, R, G, d): rows that are not used for an outcome; its scatter is
    scatter − Σ_r removed_r removed_r' weights (B, G), offset (B,): log Λ = offset + Σ_g
    weight·log(residual share) tolerance: smallest decidable pivot
    """

    scatter: torch.Tensor
    outcome: torch.Tensor
    scale: torch.Tensor
    removed: torch.Tensor
    weights: torch.Tensor
    offset: torch.Tensor
    tolerance: float

    @property
    def device(self) -> torch.device:
        return self.scatter.device


class Subsets(NamedTuple):
    """S subsets: owner (S,), the outcome of each among the B; size (S,): of how many columns;
    members (S, k): these. One of more than k members is not scored."""

    owner: torch.Tensor
    members: torch.Tensor
    size: torch.Tensor


# 64-bit constants as the signed numbers of the same bits.
GOLDEN = -0x61C8864680B583EB
FIRST = -0x40A7B892E31B1A47
SECOND = -0x6B2FB644ECCEEE15
UNIT = 2.0**-53


class Draws(NamedTuple):
    """Of B outcomes and M pairs over d columns. signs (B, M, d) int8: first draw − second; slopes
    (B, M): Σ_j signs_j·direction_j; subsets: 2M of each outcome, pair after pair"""

    signs: torch.Tensor
    slopes: torch.Tensor
    subsets: Subsets


def uniforms(seeds: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """(B, count) numbers in [0, 1): the entries first, first + 1, … of the sequences of seeds
    (B,)"""
    place = torch.arange(first + 1, first + count + 1, device=seeds.device)
    bits = seeds[:, None] + place * GOLDEN
    for shift, factor in ((30, FIRST), (27, SECOND)):
        bits = (bits ^ _shifted(bits, shift)) * factor
    bits = bits ^ _shifted(bits, 31)
    return _shifted(bits, 11).double() * UNIT


def _shifted(bits: torch.Tensor, by: int) -> torch.Tensor:
    """To the right, with zeros coming in from the left"""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def draw_pairs(
    inclusion: torch.Tensor,
    direction: torch.Tensor,
    seeds: torch.Tensor,
    step: int,
    pairs: int,
    room: int,
) -> Draws:
    """The pairs of one step, with inclusion (B, d) and direction (B, d); at most `room` members are
    listed."""
    n_outcomes, d = inclusion.shape
    u = uniforms(seeds, step * pairs * d, pairs * d).view(n_outcomes, pairs, d)
    chosen = torch.stack([u > 1.0 - inclusion[:, None], u < inclusion[:, None]], dim=2)
    signs = chosen[:, :, 0].to(torch.int8) - chosen[:, :, 1].to(torch.int8)
    slopes = torch.where(signs != 0, signs * direction[:, None], 0.0).sum(dim=2)
    return Draws(signs, slopes, listed(chosen.view(-1, d), 2 * pairs, room))


def listed(chosen: torch.Tensor, per_outcome: int, room: int) -> Subsets:
    """The subsets of masks (S, d), `per_outcome` of each outcome."""
    n_subsets, d = chosen.shape
    place = torch.cumsum(chosen, dim=1, dtype=torch.int32) - 1
    # Everything that is not listed goes to a last place, which is cut off.
    place = torch.where(chosen & (place < room), place, room).long()
    members = torch.zeros((n_subsets, room + 1), dtype=torch.int32, device=chosen.device)
    columns = torch.arange(d, dtype=torch.int32, device=chosen.device)
    members.scatter_(1, place, columns.expand(n_subsets, d))
    owner = torch.arange(n_subsets, device=chosen.device) // per_outcome
    return Subsets(owner, members[:, :room].contiguous(), chosen.sum(dim=1))


def log_shares(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """(S, G) log of what each subset leaves of its outcome in each group; NaN where undecidable or
    not scored."""
    n_subsets, room = subsets.members.shape
    n_groups = len(problem.scatter)
    place = torch.arange(room + 1, device=problem.device)
    # The outcome comes last, after the places that a smaller subset leaves open.
    columns = torch.cat([subsets.members.long(), problem.outcome[subsets.owner, None]], dim=1)
    there = (place < subsets.size[:, None]) | (place == room)
    columns = torch.where(there, columns, 0)
    out = torch.empty((n_subsets, n_groups), dtype=torch.float64, device=problem.device)
    for g in range(n_groups):
        gram = problem.scatter[g][columns[:, :, None], columns[:, None, :]]
        for removed in problem.removed[subsets.owner, :, g].unbind(1):
            part = removed.gather(1, columns)
            gram -= part[:, :, None] * part[:, None, :]
        scale = problem.scale[subsets.owner, g].gather(1, columns) * there
        gram *= scale[:, :, None] * scale[:, None, :]
        gram.diagonal(dim1=1, dim2=2).add_((scale == 0.0).double())
        factor, failed = torch.linalg.cholesky_ex(gram)
        pivots = factor.diagonal(dim1=1, dim2=2) ** 2
        decided = (failed == 0) & (pivots >= problem.tolerance).all(dim=1) & (subsets.size <= room)
        out[:, g] = torch.where(decided, torch.log(pivots[:, -1]), torch.nan)
    return out
