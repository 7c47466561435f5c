"""The moments of one environment's rows: computed in blocks, merged, and freed of a row again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.by_size import centred_rows, fill_pooled
from .two_sum import distance, gaps_between, moved, two_sum

_EPSILON = float(np.finfo(float).eps)
# What is left of a column's scatter when a row is removed must be known to this relative accuracy: far better than the
# smallest pivot that second moments may decide by.
_RESOLVED = 2e-11
_ROWS_PER_BLOCK = 65_536


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


def of_rows(data: MultiEnvironmentData, rows: NDArray[np.intp]) -> Part:
    total: Part | None = None
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        total = merged(total, _of_block(data, rows[start : start + _ROWS_PER_BLOCK]))
    assert total is not None
    return total


def _of_block(data: MultiEnvironmentData, rows: NDArray[np.intp]) -> Part:
    n, (centre, rest, minimum, maximum) = len(rows), np.empty((4, data.features.n_columns + 1))
    at_ends = np.empty((2, data.features.n_columns + 1), np.int64)
    centred = centred_rows(data.X, data.y, rows, centre, rest, minimum, maximum, at_ends)
    scatter = centred.T @ centred
    rounding = _EPSILON * np.sqrt(n) * np.diagonal(scatter)
    return Part(n, *two_sum(centre, rest), minimum, maximum, at_ends, rounding, scatter)


def merged(a: Part | None, b: Part | None) -> Part:
    if a is None or b is None:
        only = a or b
        assert only is not None
        return only
    n, share = a.n_rows + b.n_rows, a.n_rows * b.n_rows / (a.n_rows + b.n_rows)
    minimum, maximum = np.minimum(a.minimum, b.minimum), np.maximum(a.maximum, b.maximum)
    gap = np.where(minimum == maximum, 0.0, distance(b.centre, b.rest, a.centre, a.rest))
    scatter = a.scatter + b.scatter + share * np.outer(gap, gap)
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
