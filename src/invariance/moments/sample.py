"""A bounded, mergeable sample of the rows of every environment: those with the smallest random
keys (a reservoir by bottom-k sampling)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Places

Keys = NDArray[np.float32]

# Rows that are kept in all, and of each environment at least.
MAX_ROWS = 20_000
MIN_ROWS = 50
MAX_NUMBERS = 1_000_000


class RowSample(NamedTuple):
    """Rows of environments, in the order in which they were read.

    places (n,) : environments; keys (n,) : random numbers in [0, 1), by which rows were drawn;
        values (n, d)
    size : rows that are kept of an environment with more
    """

    places: Places
    keys: Keys
    values: Floats
    size: int = MAX_ROWS

    @property
    def n_rows(self) -> int:
        return len(self.keys)

    def bounded(self) -> RowSample:
        """Keep the rows with the smallest keys, equally many of each environment that has more,
        and sort them by environment. It does not matter where else some rows were left out, and how
        often: more rows and more columns only ever make `size` smaller."""
        counts = np.bincount(self.places)
        size = min(self.size, _fair_share(counts, self.values.shape[1]))
        order = np.argsort(self.places.astype(np.min_scalar_type(len(counts))), kind="stable")
        parts = np.split(order, np.cumsum(counts)[:-1])
        for e in np.flatnonzero(counts > size):
            own = self.keys[parts[e]]
            parts[e] = parts[e][own <= np.partition(own, size - 1)[size - 1]]  # and what ties
        return self.at(np.concatenate(parts))._replace(size=size)

    def at(self, rows: Places) -> RowSample:
        return RowSample(self.places[rows], self.keys[rows], self.values[rows], self.size)

    def choosing(self, places: Integers) -> RowSample:
        """Rows of the environments e, which become places[e]; not of those with -1."""
        placed = self._replace(places=places[self.places])
        return placed.at(np.flatnonzero(placed.places >= 0))

    def in_columns(self, places: Integers, n_columns: int) -> RowSample:
        """With the columns at these places among n_columns, without those at -1; 0 in the others"""
        if np.array_equal(places, np.arange(n_columns)):
            return self
        kept = np.flatnonzero(places >= 0)
        values = np.zeros((self.n_rows, n_columns))
        values[:, places[kept]] = self.values[:, kept]
        return self._replace(values=values)

    def joined(self, *others: RowSample) -> RowSample:
        """The rows of all samples, of the same columns"""
        places, keys, values, sizes = zip(self, *others, strict=True)
        return RowSample(
            np.concatenate(places), np.concatenate(keys), np.concatenate(values), min(sizes)
        )


def _fair_share(counts: Integers, n_columns: int) -> int:
    """The most rows of an environment such that all together are within the bounds"""
    most = min(MAX_ROWS, MAX_NUMBERS // max(n_columns, 1))
    ascending = np.sort(counts)
    before = np.cumsum(ascending) - ascending
    shares = (most - before) // np.arange(len(counts), 0, -1)
    return max(MIN_ROWS, int(np.append(shares[ascending > shares], MAX_ROWS)[0]))
