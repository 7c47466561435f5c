"""The moments of one environment's rows: computed in blocks, and merged."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.dispatch import centred_rows
from .least_squares import distance, gaps_between, moved, two_sum

_ROWS_PER_BLOCK = 65_536
_COLUMNS_AT_ONCE = 32
_EPSILON = float(np.finfo(float).eps)
# What is left of a column's scatter when rows are removed must be known to this relative accuracy: far better than the
# smallest pivot that second moments may decide by.
_RESOLVED = 2e-11
# Rows of a scatter that are filled together: they stay in a cache.
_STRIP = 64
# Numbers that are too large to square are refused once all rows were read.
_silently = np.errstate(over="ignore", invalid="ignore")


class Part(NamedTuple):
    """The moments of one environment's rows, or of some of them; as in `Moments`."""

    n_rows: int
    centre: Floats
    rest: Floats
    minimum: Floats
    maximum: Floats
    scatter: Floats


def of_rows(X: Floats, y: Floats, rows: NDArray[np.intp]) -> Part:
    """Of the columns of X (N, p) and, last, of y (N,), at these rows"""
    blocks = (rows[start : start + _ROWS_PER_BLOCK] for start in range(0, len(rows), _ROWS_PER_BLOCK))
    return reduce(merged, (_of_block(X, y, block) for block in blocks))


@_silently
def _of_block(X: Floats, y: Floats, rows: NDArray[np.intp]) -> Part:
    centre, rest, minimum, maximum = np.empty((4, X.shape[1] + 1))
    centred = centred_rows(X, y, rows, centre, rest, minimum, maximum)
    return Part(len(rows), *two_sum(centre, rest), minimum, maximum, centred.T @ centred)


@_silently
def of_columns(columns: Floats) -> Part:
    """Of columns (d, n), which are overwritten"""
    minimum, maximum = columns.min(axis=1), columns.max(axis=1)
    centre = np.where(minimum == maximum, minimum, columns.mean(axis=1))
    columns -= centre[:, None]
    n, rest, scatter = columns.shape[1], columns.mean(axis=1), columns @ columns.T
    scatter -= n * np.multiply.outer(rest, rest)
    return Part(n, *two_sum(centre, rest), minimum, maximum, scatter)


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
    return Part(n, *moved(a.centre, a.rest, gap * (b.n_rows / n)), minimum, maximum, scatter)


def resolved(before: Floats, left: Floats, n_rows: int | Floats) -> Mask:
    """Whether squares that are left of those `before`, of n_rows rows, when rows are removed, keep their digits"""
    return np.asarray(_EPSILON * (np.sqrt(n_rows) + 8.0) * before <= _RESOLVED * left)


def fill_pooled(scatter: Floats, counts: Integers, gaps: Floats) -> None:
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and the pooled one."""
    weighted = counts[:, None] * gaps
    for start in range(0, scatter.shape[1], _STRIP):
        rows = slice(start, start + _STRIP)
        pooled = scatter[-1, rows]
        pooled[:] = 0.0
        for factor, gap in zip(weighted[:, rows], gaps, strict=True):
            pooled += factor[:, None] * gap
        for local in scatter[:-1, rows]:
            pooled += local


def filled_pool(counts: Integers, centre: Floats, rest: Floats, local: Floats) -> Floats:
    """(E + 1, d, d) centred products of each environment (E, d, d) and, last, over all rows"""
    scatter = np.concatenate([local, np.empty((1, *local.shape[1:]))])
    fill_pooled(scatter, counts, gaps_between(counts, centre, rest))
    return scatter


def in_columns(part: Part, places: Integers, d: int) -> Part:
    """With its columns at these places among d, without those at -1; no row of it has anything but 0 in the others."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    at = places[kept]
    centre, rest, minimum, maximum = vectors = np.zeros((4, d))
    vectors[:, at] = np.stack([part.centre, part.rest, part.minimum, part.maximum])[:, kept]
    scatter = np.zeros((d, d))
    scatter[np.ix_(at, at)] = part.scatter[np.ix_(kept, kept)]
    return Part(part.n_rows, centre, rest, minimum, maximum, scatter)
