"""The moments of one environment's rows: computed in blocks, merged, and freed of a row again."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.dispatch import centre_columns, centred_rows, fill_pooled
from .least_squares import distance, gaps_between, moved, two_sum

_EPSILON = float(np.finfo(float).eps)
# What is left of a column's scatter when a row is removed must be known to this relative accuracy: far better than the
# smallest pivot that second moments may decide by.
_RESOLVED = 2e-11
_ROWS_PER_BLOCK = 65_536
_COLUMNS_AT_ONCE = 32
# Numbers that are too large to square are refused once all rows were read.
_silently = np.errstate(over="ignore", invalid="ignore")


class Part(NamedTuple):
    """The moments of one environment's rows, or of some of them."""

    n_rows: int
    centre: Floats
    rest: Floats
    minimum: Floats
    maximum: Floats
    at_ends: Integers
    rounding: Floats
    scatter: Floats


def of_rows(X: Floats, y: Floats, rows: NDArray[np.intp]) -> Part:
    """Of the columns of X (N, p) and, last, of y (N,), at these rows"""
    blocks = (rows[start : start + _ROWS_PER_BLOCK] for start in range(0, len(rows), _ROWS_PER_BLOCK))
    return reduce(merged, (_of_block(X, y, block) for block in blocks))


@_silently
def _of_block(X: Floats, y: Floats, rows: NDArray[np.intp]) -> Part:
    centre, rest, minimum, maximum = np.empty((4, X.shape[1] + 1))
    at_ends = np.empty((2, X.shape[1] + 1), np.int64)
    centred = centred_rows(X, y, rows, centre, rest, minimum, maximum, at_ends)
    return _part(centred, centre, rest, minimum, maximum, at_ends)


@_silently
def of_columns(block: Floats, start: int, stop: int) -> Part:
    """Of rows start:stop of the columns (d, n), which are overwritten"""
    columns, d = block[:, start:stop], len(block)
    minimum, maximum, rest, at_ends = columns.min(axis=1), columns.max(axis=1), np.empty(d), np.empty((2, d), np.int64)
    centre = np.where(minimum == maximum, minimum, columns.mean(axis=1))
    centre_columns(block, start, stop, minimum, maximum, centre, rest, at_ends)
    return _part(columns.T, centre, rest, minimum, maximum, at_ends)


def _part(centred: Floats, centre: Floats, rest: Floats, *ends: Any) -> Part:
    """Of deviations (n, d)"""
    scatter = centred.T @ centred
    rounding = _EPSILON * np.sqrt(len(centred)) * np.diagonal(scatter)
    return Part(len(centred), *two_sum(centre, rest), *ends, rounding, scatter)


@_silently
def merged(a: Part, b: Part) -> Part:
    """The rows of both (Chan, Golub & LeVeque 1983)"""
    n, share = a.n_rows + b.n_rows, a.n_rows * b.n_rows / (a.n_rows + b.n_rows)
    minimum, maximum = np.minimum(a.minimum, b.minimum), np.maximum(a.maximum, b.maximum)
    gap = np.where(minimum == maximum, 0.0, distance(b.centre, b.rest, a.centre, a.rest))
    scatter = a.scatter + b.scatter
    for start in range(0, len(gap), _COLUMNS_AT_ONCE):
        own = slice(start, start + _COLUMNS_AT_ONCE)
        scatter[own] += share * (gap[own, None] * gap)
    at_ends = np.zeros_like(a.at_ends)
    for part in (a, b):
        at_ends += np.where([part.minimum == minimum, part.maximum == maximum], part.at_ends, 0)
    blurred = 4.0 * share * gap**2 + np.diagonal(scatter)
    rounding = a.rounding + b.rounding + _EPSILON * blurred
    return Part(n, *moved(a.centre, a.rest, gap * (b.n_rows / n)), minimum, maximum, at_ends, rounding, scatter)


class Left(NamedTuple):
    """What is left of a part when a row leaves: as there, but for the scatter, which loses loss (d,) · deviation (d,)',
    and all of the columns that are constant (d,).

    unresolved (d,): columns whose scatter is then not known to `_RESOLVED`
    """

    n_rows: int
    centre: Floats
    rest: Floats
    minimum: Floats
    maximum: Floats
    at_ends: Integers
    rounding: Floats
    loss: Floats
    deviation: Floats
    constant: Mask
    unresolved: Mask


def without(part: Part, values: Floats) -> Left:
    """The part without the row of `values`. Integers at the ends, not rounded sums, tell a column that is constant in
    the remaining rows."""
    n = part.n_rows - 1
    deviation = distance(values, np.zeros_like(values), part.centre, part.rest)
    loss = (part.n_rows / n) * deviation
    ends = np.stack([part.minimum, part.maximum])
    at_ends = part.at_ends - (ends == values)
    constant = (at_ends == n).any(axis=0)
    only = np.where(at_ends[0] == n, part.minimum, part.maximum)
    minimum, maximum = np.where(constant, only, ends)
    at_ends[:, constant] = n
    blurred = 8.0 * deviation**2 + np.diagonal(part.scatter)
    rounding = np.where(constant, 0.0, part.rounding + _EPSILON * blurred)
    squares = np.where(constant, 0.0, np.diagonal(part.scatter) - loss * deviation)
    unresolved = ~(rounding <= _RESOLVED * squares)
    centre, rest = moved(part.centre, part.rest, -deviation / n)
    centre, rest = np.where(constant, only, centre), np.where(constant, 0.0, rest)
    return Left(n, centre, rest, minimum, maximum, at_ends, rounding, loss, deviation, constant, unresolved)


def fill_pool(counts: Integers, centre: Floats, rest: Floats, scatter: Floats) -> None:
    """Into the last of scatter (E + 1, d, d): centred products over all rows, from those of each environment."""
    fill_pooled(scatter, counts, gaps_between(counts, centre, rest))


def filled_pool(counts: Integers, centre: Floats, rest: Floats, local: Floats) -> Floats:
    """(E + 1, d, d) centred products of each environment (E, d, d) and of the pool"""
    scatter = np.concatenate([local, np.empty((1, *local.shape[1:]))])
    fill_pool(counts, centre, rest, scatter)
    return scatter


def in_columns(part: Part, places: Integers, d: int) -> Part:
    """With its columns at these places among d, without those at -1; no row of it has anything but 0 in the others."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    at = places[kept]
    centre, rest, minimum, maximum, rounding = wide = np.zeros((5, d))
    for row, values in zip(wide, (part.centre, part.rest, part.minimum, part.maximum, part.rounding), strict=True):
        row[at] = values[kept]
    at_ends = np.full((2, d), part.n_rows, np.int64)
    at_ends[:, at] = part.at_ends[:, kept]
    scatter = np.zeros((d, d))
    scatter[np.ix_(at, at)] = part.scatter[np.ix_(kept, kept)]
    return Part(part.n_rows, centre, rest, minimum, maximum, at_ends, rounding, scatter)
