"""Rows in record batches, cut anywhere, and what their moments must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from invariance.data.settings import Columns
from invariance.moments.accumulator import MomentsAccumulator, Wanted
from invariance.moments.moments import Moments


def cut(table: pa.Table, cuts: Iterable[int]) -> list[pa.Table]:
    """Pieces that begin at these rows"""
    ends = [0, *sorted({row % (table.num_rows + 1) for row in cuts}), table.num_rows]
    return [table.slice(begin, end - begin) for begin, end in pairwise(ends)]


def added(
    pieces: Iterable[pa.Table], columns: Sequence[str], missing: str = "error", **settings: Any
) -> MomentsAccumulator:
    """Of tables with the environments in `site`; the last of the columns is the outcome"""
    *features, outcome = columns
    wanted = Wanted(outcome, "site", Columns(features=features, **settings), missing=missing)
    rows = wanted.among([*columns, "site"], "the table").accumulated()
    for piece in pieces:
        rows.extend(piece.to_batches())
    return rows


def moments_of(rows: MomentsAccumulator) -> Moments:
    return rows.wanted.screened(rows).moments()


def assert_alike(first: Moments, second: Moments, rtol: float = 1e-10) -> None:
    """Counts and ranges the same; sums up to rounding"""
    assert first.columns == second.columns
    assert first.environments == second.environments
    for name in ("outcome", "groups", "encoding", "constants", "dropped_rows", "environment_notes"):
        assert getattr(first, name) == getattr(second, name)
    for name in ("counts", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    np.testing.assert_allclose(first.means, second.means, rtol=1e-15, atol=1e-15)
    size = np.sqrt(np.diagonal(first.scatter, axis1=1, axis2=2))
    assert (
        np.abs(first.scatter - second.scatter) <= rtol * size[:, :, None] * size[:, None, :]
    ).all()


def assert_same_bits(first: Moments, second: Moments) -> None:
    """But for the kind of the outcome"""
    pairs = {
        field.name: (getattr(first, field.name), getattr(second, field.name))
        for field in fields(Moments)
        if field.name not in ("kind", "sample")
    }
    if first.sample is not None and second.sample is not None:
        pairs |= {
            name: (getattr(first.sample, name), getattr(second.sample, name))
            for name in ("places", "keys", "values", "size")
        }
    else:
        assert first.sample is second.sample
    for name, (one, other) in pairs.items():
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (
                other.dtype,
                other.shape,
                other.tobytes(),
            ), name
        else:
            assert one == other, name
    assert list(map(type, first.environments)) == list(map(type, second.environments))


def exact_scatter(X: np.ndarray) -> np.ndarray:
    """Centred products (d, d) of rows (n, d), rounded once"""
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    centred = [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]
    columns = list(zip(*centred, strict=True))
    return np.array(
        [[float(sum(a * b for a, b in zip(u, v, strict=True))) for v in columns] for u in columns]
    )
