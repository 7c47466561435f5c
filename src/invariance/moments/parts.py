"""The moments of one environment's rows: computed in blocks, merged, and freed of a row again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.dispatch import centred_rows, fill_pooled, mirror
from ..kernels.scatter import add_products
from .least_squares import distance, gaps_between, moved, two_sum

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


# Corrections of the scatter that wait for each other: one look at it serves them all.
_MOST_WAITING = 32
# Numbers that are too large to square are complained about at the end.
_silently = np.errstate(over="ignore", invalid="ignore")


class Running:
    """As `Part`, changed in place; of the scatter only what is on and below the diagonal."""

    def __init__(self, d: int) -> None:
        self.n_rows = 0
        self.centre, self.rest, self.rounding = np.zeros((3, d))
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.at_ends = np.zeros((2, d), np.int64)
        self.scatter = np.zeros((d, d))
        self._waiting: tuple[list[Floats], list[Floats]] = [], []  # to be added, to be subtracted

    @_silently
    def add(
        self,
        block: Floats,
        rows: slice,
        centre: Floats,
        rest: Floats,
        minimum: Floats,
        maximum: Floats,
        at_ends: Integers,
    ) -> None:
        """Rows of a block (d, n), less their centre (d,), from which `rest` (d,) is left on average."""
        n = rows.stop - rows.start
        before = np.diagonal(self.scatter).copy()
        add_products(block, rows.start, rows.stop, self.scatter)
        self._waiting[1].append(np.sqrt(n) * rest)
        self.rounding += _EPSILON * np.sqrt(n) * (np.diagonal(self.scatter) - before)
        self._join(n, *two_sum(centre, rest), minimum, maximum, at_ends)
        if len(self._waiting[1]) >= _MOST_WAITING:
            self.settle()

    @_silently
    def settle(self) -> None:
        added, subtracted = self._waiting
        for vectors, sign in ((added, 1.0), (subtracted, -1.0)):
            if vectors:
                add_products(np.stack(vectors, axis=1), 0, len(vectors), self.scatter, sign)
        self.rounding += len(added) * _EPSILON * np.diagonal(self.scatter)
        self._waiting = [], []

    @_silently
    def absorb(self, other: Running) -> None:
        """Rows of the same columns. Nothing waits then: last digits do not depend on what is sent elsewhere when."""
        other.settle()
        self.settle()
        self.scatter += other.scatter
        self.rounding += other.rounding
        self._join(other.n_rows, other.centre, other.rest, other.minimum, other.maximum, other.at_ends)
        self.settle()

    def _join(self, n: int, centre: Floats, rest: Floats, minimum: Floats, maximum: Floats, at_ends: Integers) -> None:
        """Means and ranges of n more rows, whose own scatter is counted already."""
        low, high = np.minimum(self.minimum, minimum), np.maximum(self.maximum, maximum)
        if self.n_rows == 0:
            self.centre, self.rest = centre.copy(), rest.copy()
        else:
            gap = np.where(low == high, 0.0, distance(centre, rest, self.centre, self.rest))
            both = self.n_rows + n
            share = self.n_rows * (n / both)
            self._waiting[0].append(np.sqrt(share) * gap)
            self.centre, self.rest = moved(self.centre, self.rest, gap * (n / both))
            self.rounding += 4.0 * _EPSILON * share * gap**2
        self.at_ends = np.where([self.minimum == low, self.maximum == high], self.at_ends, 0)
        self.at_ends += np.where([minimum == low, maximum == high], at_ends, 0)
        self.minimum, self.maximum = low, high
        self.n_rows += n

    def in_columns(self, places: Integers, d: int) -> Running:
        """With its columns at these places among d; no row has anything but 0 in the others."""
        if np.array_equal(places, np.arange(d)):
            return self
        return Running.of(in_columns(self.part(), places, d))

    def part(self) -> Part:
        """What there is so far; it shares its arrays, which more rows would change."""
        self.settle()
        mirror(self.scatter)
        vectors = self.centre, self.rest, self.minimum, self.maximum
        return Part(self.n_rows, *vectors, self.at_ends, self.rounding, self.scatter)

    def __getstate__(self) -> dict[str, Any]:
        """Half of the scatter says all."""
        self.settle()
        return {**self.__dict__, "scatter": self.scatter[_on_and_below(len(self.centre))]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        d = len(self.centre)
        self.scatter = np.zeros((d, d))
        self.scatter[_on_and_below(d)] = state["scatter"]

    @classmethod
    def of(cls, part: Part) -> Running:
        """One that rows can be added to; the part stays as it is."""
        running = cls(0)
        running.n_rows = part.n_rows
        for name in part._fields[1:]:
            setattr(running, name, np.array(getattr(part, name)))
        return running


def _on_and_below(d: int) -> Mask:
    return np.tri(d, dtype=bool)


def in_columns(part: Part, places: Integers, d: int) -> Part:
    """With its columns at these places among d; no row of it has anything but 0 in the others."""
    wide = np.zeros((5, d))
    for row, values in zip(wide, (part.centre, part.rest, part.minimum, part.maximum, part.rounding), strict=True):
        row[places] = values
    at_ends = np.full((2, d), part.n_rows, np.int64)
    at_ends[:, places] = part.at_ends
    scatter = np.zeros((d, d))
    scatter[np.ix_(places, places)] = part.scatter
    centre, rest, minimum, maximum, rounding = wide
    return Part(part.n_rows, centre, rest, minimum, maximum, at_ends, rounding, scatter)
