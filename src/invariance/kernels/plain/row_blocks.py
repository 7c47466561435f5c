"""Twins of what sorts and centres blocks of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..._tools.arrays import Floats, Integers


def sort_groups(codes: Integers, starts: Integers, places: Integers) -> None:
    starts[0] = 0
    starts[1:] = np.cumsum(np.bincount(codes, minlength=len(starts) - 1))
    places[np.argsort(codes, kind="stable")] = np.arange(len(codes))


def put(values: Floats, places: Integers, block: Floats, j: int) -> None:
    block[j, places] = values


def describe_groups(block: Floats, starts: Integers, centre: Floats, minimum: Floats, maximum: Floats) -> bool:
    for g, rows in _groups(starts):
        values = block[:, rows]
        minimum[g], maximum[g] = values.min(axis=1), values.max(axis=1)
        centre[g] = np.where(minimum[g] == maximum[g], minimum[g], values.mean(axis=1))
    return bool(np.isfinite(block).all())


def centre_groups(
    block: Floats,
    starts: Integers,
    centre: Floats,
    minimum: Floats,
    maximum: Floats,
    rest: Floats,
    at_ends: Integers,
) -> None:
    for g, rows in _groups(starts):
        values = block[:, rows]
        at_ends[g] = (values == minimum[g][:, None]).sum(axis=1), (values == maximum[g][:, None]).sum(axis=1)
        values -= centre[g][:, None]
        rest[g] = values.mean(axis=1)


def mirror(scatter: Floats) -> None:
    above = np.triu_indices(len(scatter), 1)
    scatter[above] = scatter.T[above]


def _groups(starts: Integers) -> list[tuple[int, slice]]:
    bounds = starts.tolist()
    return [(g, slice(low, high)) for g, (low, high) in enumerate(pairwise(bounds)) if low < high]
