"""A memory of scored subsets: what a model is asked once it is not asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask

# Up to this many flags there is a place for every subset.
_TABLE_WIDTH = 20
_MOST_NOTES = 1_000_000
_EXAMPLES = 64


class ScoredSubsets:
    """The values that `score` gives to subsets, rows of `width` flags: (S, width) → (S,), -inf outside the support.

    Each call asks for all unknown ones together. Beyond 20 flags at most `most` are remembered; with more, all are
    forgotten. without_value (k, width): the smallest of those outside the support, at most 64.
    """

    def __init__(self, score: Callable[[Mask], Floats], width: int, most: int = _MOST_NOTES) -> None:
        self._score = score
        self._notes: _Notes = _Table(width) if width <= _TABLE_WIDTH else _Book(most)
        self.without_value = np.zeros((0, width), dtype=bool)

    def values(self, subsets: Mask) -> Floats:
        """(S,) of subsets (S, width)"""
        keys = self._notes.keys(subsets)
        values = self._notes.recalled(keys)
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            distinct, first, group = np.unique(keys[unknown], return_index=True, return_inverse=True)
            new = self._asked(subsets[unknown[first]])
            self._notes.keep(distinct, new)
            values[unknown] = new[group]
        return values

    def _asked(self, rows: Mask) -> Floats:
        values = np.array(self._score(rows), dtype=float)
        values[np.isnan(values)] = -np.inf
        outside = values == -np.inf
        if outside.any():
            examples = np.concatenate([self.without_value, rows[outside]])
            self.without_value = examples[np.argsort(examples.sum(axis=1), kind="stable")[:_EXAMPLES]]
        return values


class _Notes(Protocol):
    """Values by key; NaN stands for an unknown one."""

    def keys(self, rows: Mask) -> NDArray[Any]: ...

    def recalled(self, keys: NDArray[Any]) -> Floats: ...

    def keep(self, keys: NDArray[Any], values: Floats) -> None: ...


class _Table:
    """A place for each of the 2**width subsets."""

    def __init__(self, width: int) -> None:
        self._bits = 1 << np.arange(width)
        self._values = np.full(1 << width, np.nan)

    def keys(self, rows: Mask) -> NDArray[Any]:
        return rows @ self._bits

    def recalled(self, keys: NDArray[Any]) -> Floats:
        return self._values[keys]

    def keep(self, keys: NDArray[Any], values: Floats) -> None:
        self._values[keys] = values


class _Book:
    """A dictionary by packed subsets, begun anew when it is full."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[bytes, float] = {}

    def keys(self, rows: Mask) -> NDArray[Any]:
        packed = np.packbits(rows, axis=1)
        return packed.view(f"V{packed.shape[1]}")[:, 0]

    def recalled(self, keys: NDArray[Any]) -> Floats:
        known = self._values
        return np.array([known.get(key, np.nan) for key in keys.tolist()], dtype=float)

    def keep(self, keys: NDArray[Any], values: Floats) -> None:
        if len(self._values) + len(keys) > self._most:
            self._values.clear()
        self._values.update(zip(keys.tolist(), values.tolist(), strict=True))
