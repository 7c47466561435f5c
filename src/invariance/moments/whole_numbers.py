"""Which whole numbers a column takes, of rows that arrive in pieces: they tell counts from other numbers."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats

# Different values that are kept: no count takes more.
_MOST = 1 << 20
# Below this, numbers are told apart by their place.
_SMALL = 1 << 16


class WholeNumbers:
    """values : (k,) sorted, each once; None once a number was not whole or below 0, or there were too many"""

    def __init__(self) -> None:
        self.values: Floats | None = np.empty(0)

    def add(self, numbers: Floats) -> None:
        """(n,) from one on"""
        if self.values is None:
            return
        if numbers.min() < 0.0 or (numbers != np.rint(numbers)).any():
            self.values = None
            return
        small = numbers.max() < _SMALL
        found = np.flatnonzero(np.bincount(numbers.astype(np.intp))) if small else np.unique(numbers)
        self._join(found.astype(np.float64))

    def absorb(self, other: WholeNumbers) -> None:
        if other.values is None:
            self.values = None
        else:
            self._join(other.values)

    def _join(self, found: Floats) -> None:
        if self.values is None:
            return
        both = np.union1d(self.values, found)
        self.values = both if len(both) <= _MOST else None

    @property
    def n_values(self) -> int | None:
        return None if self.values is None else len(self.values)
