"""All subsets of p features, or those up to a size, in an order that can be entered anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from .._tools.arrays import Integers, Mask
from .._tools.text import approximate_count, duration
from ..data.features import Features, as_lists
from ..exceptions import DataError, SettingError
from ..inference.enumeration import count_subsets
from ..screening import screened

Lists = tuple[Integers, Integers]

MOST_SUBSETS = 1 << 24


@dataclass(frozen=True)
class BitPatterns:
    """All 2**p subsets; bit j of a position says whether feature j is in the subset."""

    n_features: int

    @property
    def n_subsets(self) -> int:
        return 1 << self.n_features

    def masks(self, positions: Integers) -> Mask:
        """(len(positions), p)"""
        return (positions[:, None] >> np.arange(self.n_features) & 1).astype(bool)

    def lists(self, positions: Integers) -> Lists:
        """(starts, members), as `invariance.data.features.as_lists` gives them."""
        return as_lists(self.masks(positions))


@dataclass(frozen=True)
class SizedSubsets:
    """Subsets of at most max_size features, by size; within one size in colexicographic order."""

    n_features: int
    max_size: int

    @property
    def n_subsets(self) -> int:
        return int(self._first[-1])

    @cached_property
    def _first(self) -> Integers:
        """(max_size + 2,) position of the first subset of each size, and the number of subsets."""
        counts = [comb(self.n_features, k) for k in range(self.max_size + 1)]
        return np.concatenate([[0], np.cumsum(counts)])

    def lists(self, positions: Integers) -> Lists:
        sizes = np.searchsorted(self._first, positions, side="right") - 1
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        members = np.empty(starts[-1], np.int64)
        rank = positions - self._first[sizes]
        # The largest member of the r-th subset of size k is the largest c with C(c, k) <= r, and so on down.
        for k in range(int(sizes.max(initial=0)), 0, -1):
            rows = np.flatnonzero(sizes >= k)
            table = np.array([comb(c, k) for c in range(self.n_features + 1)])
            largest = np.searchsorted(table, rank[rows], side="right") - 1
            members[starts[rows] + k - 1] = largest
            rank[rows] -= table[largest]
        return starts, members

    def masks(self, positions: Integers) -> Mask:
        starts, members = self.lists(positions)
        masks = np.zeros((len(positions), self.n_features), dtype=bool)
        masks[np.repeat(np.arange(len(positions)), np.diff(starts)), members] = True
        return masks


def subset_space(n_features: int, max_size: int | None) -> BitPatterns | SizedSubsets:
    return BitPatterns(n_features) if max_size is None else SizedSubsets(n_features, max_size)


def column_lists(lists: Lists, features: Features) -> Lists:
    """From lists of features to lists of all the columns that these stand for."""
    if not features.grouped:
        return lists
    starts, members = lists
    widths = features.widths[members]
    ends = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    skipped = features.starts[members] - ends[:-1]
    return ends[starts], np.arange(ends[-1]) + np.repeat(skipped, widths)


def most_columns(features: Features, size: int | None) -> int:
    """Columns of the widest subset of `size` features; None is all features."""
    return int(np.sort(features.widths)[::-1][:size].sum())


def most_features(features: Features, n_columns: int) -> int:
    """The largest size at which every subset has at most `n_columns` columns."""
    return int(np.searchsorted(np.cumsum(np.sort(features.widths)[::-1]), n_columns, side="right"))


def refuse_wide(method: str, features: Features, room: int) -> None:
    """Raise when one feature alone has more columns than the `room` that a fit has; after it smaller sizes work."""
    widest = int(np.argmax(features.widths))
    if features.widths[widest] > room:
        raise DataError(
            f"{method} can fit up to {room} columns here, and feature {features.names[widest]!r} alone has "
            f"{features.widths[widest]}: leave it out, or make fewer columns of it."
        )


def features_text(n_features: int, n_columns: int) -> str:
    """ "3 features", or "3 features (7 columns)" where they are more than one column each."""
    return f"{n_features} features" + (f" ({n_columns} columns)" if n_columns != n_features else "")


def resolve_max_size(max_size: int | None, n_features: int) -> int | None:
    """None when every size is allowed; complains about what is not a size."""
    if max_size is None:
        return None
    if isinstance(max_size, bool) or not isinstance(max_size, (int, np.integer)) or max_size < 0:
        raise SettingError(f"max_size={max_size!r} is not a size: use None or a whole number from 0 on.")
    return None if max_size >= n_features else int(max_size)


def refuse_too_many(
    method: str,
    n_features: int,
    max_size: int | None,
    seconds_per_subset: float,
    n_rows: int,
    largest_fit: int | None = None,
) -> None:
    """Raise when there are more subsets than one run can hold; says how long it would take and what works.

    largest_fit : the most features that the rows can fit, where that matters.
    """
    count = count_subsets(n_features, n_features if max_size is None else max_size)
    if count <= MOST_SUBSETS:
        return
    sizes = range(n_features if largest_fit is None else min(n_features, largest_fit + 1))
    largest = max(k for k in sizes if count_subsets(n_features, k) <= MOST_SUBSETS)
    seconds = count * seconds_per_subset if count < 1e300 else float("inf")
    estimate = f", which would take about {duration(seconds)}" if seconds < 1e300 else ""
    raise DataError(
        f"{method} tests every subset: {approximate_count(count)} of {n_features} features{estimate}. It takes on up "
        f"to {MOST_SUBSETS:,}. Use {method}(max_size={largest}), or screen the features first with "
        f"{screened(method, n_rows, largest_fit)}."
    )
