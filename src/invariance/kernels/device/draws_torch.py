"""Coupled draws in plain torch operations, from random numbers that are a function of their place alone.

The numbers of an outcome are the sequence of splitmix64 (Steele, Lea & Flood 2014) from its own seed on: they depend
neither on the device nor on which outcomes are drawn together.
"""

from typing import NamedTuple

import torch

from .problem import Subsets

# 64-bit constants as the signed numbers of the same bits.
GOLDEN = -0x61C8864680B583EB
FIRST = -0x40A7B892E31B1A47
SECOND = -0x6B2FB644ECCEEE15
UNIT = 2.0**-53


class Draws(NamedTuple):
    """Of B outcomes and M pairs over d columns.

    signs (B, M, d) int8: first draw − second; slopes (B, M): Σ_j signs_j·direction_j
    subsets: 2M of each outcome, pair after pair
    """

    signs: torch.Tensor
    slopes: torch.Tensor
    subsets: Subsets


def uniforms(seeds: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """(B, count) numbers in [0, 1): the entries first, first + 1, … of the sequences of seeds (B,)"""
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
    inclusion: torch.Tensor, direction: torch.Tensor, seeds: torch.Tensor, step: int, pairs: int, room: int
) -> Draws:
    """The pairs of one step, with inclusion (B, d) and direction (B, d); at most `room` members are listed."""
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
