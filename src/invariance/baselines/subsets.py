"""All subsets of p features, or those up to a size, in an order that can be entered anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from .._tools.arrays import Integers, Mask, subsets_at
from .._tools.parallel import Result, ordered_map
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import format_count
from ..data.checks import check_whole_number, rows_text
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..inference.enumeration import count_subsets
from ..screening import SCREENED_FEATURES

MOST_SUBSETS = 1 << 24
PER_BLOCK = 1 << 13


@dataclass(frozen=True)
class Subsets:
    """Enumerate all 2**p subsets, or those of at most max_size features.

    In the first case bit j of a position is whether feature j is in the subset; in the second,
    subsets are ordered by size and within a size colexicographically.
    """

    n_features: int
    max_size: int | None = None

    @cached_property
    def _first(self) -> Integers:
        """Return the position of the first subset of each size, and their number, (max_size +
        2,)."""
        sizes = range((self.n_features if self.max_size is None else self.max_size) + 1)
        return np.concatenate([[0], np.cumsum([comb(self.n_features, k) for k in sizes])])

    @property
    def n_subsets(self) -> int:
        return int(self._first[-1])

    def masks(self, positions: Integers) -> Mask:
        """Return the subsets at these positions, (len(positions), p)."""
        if self.max_size is None:
            return subsets_at(positions, self.n_features)
        masks = np.zeros((len(positions), self.n_features), dtype=bool)
        sizes = np.searchsorted(self._first, positions, side="right") - 1
        rank = positions - self._first[sizes]
        # The largest member of the r-th subset of size k is the largest c with C(c, k) <= r, and so
        # on down.
        for k in range(int(sizes.max(initial=0)), 0, -1):
            rows = np.flatnonzero(sizes >= k)
            table = np.array([comb(c, k) for c in range(self.n_features + 1)])
            largest = np.searchsorted(table, rank[rows], side="right") - 1
            masks[rows, largest] = True
            rank[rows] -= table[largest]
        return masks

    def blocks(
        self, work: Callable[[Mask], Result], what: str, n_jobs: int | None, progress: ProgressMode
    ) -> Iterator[tuple[slice, Mask, Result]]:
        """Yield positions, masks and `work(masks)` of block after block of all subsets."""

        def of_block(start: int) -> tuple[slice, Mask, Result]:
            block = slice(start, min(start + PER_BLOCK, self.n_subsets))
            masks = self.masks(np.arange(block.start, block.stop))
            return block, masks, work(masks)

        starts = range(0, self.n_subsets, PER_BLOCK)
        with ProgressBar(what, len(starts), progress) as bar:
            for found in ordered_map(of_block, starts, n_jobs):
                yield found
                bar.advance()


def check_columns(
    method: str, data: MultiEnvironmentData, room: int, max_size: int | None = None
) -> None:
    """Raise if a subset of `max_size` features (None: all) has more columns than a fit can use."""
    widest = np.cumsum(np.sort(data.features.widths)[::-1])
    columns = widest[:max_size].max(initial=0)
    if columns > room:
        k = np.clip(np.searchsorted(widest, room, side="right"), 1, SCREENED_FEATURES)
        raise DataError(
            f"{method} fits up to {room} columns here ({rows_text(data.n_rows)}), and subsets "
            f"have up to {columns}: "
            f"use Screened({method}(), LassoScreen(k={k}))."
        )


def checked_subsets(method: str, n_features: int, max_size: int | None) -> Subsets:
    """Return the requested subsets; raise if one run cannot hold them."""
    if max_size is not None:
        check_whole_number("max_size", max_size, 0)
        max_size = None if max_size >= n_features else int(max_size)
    count = 1 << n_features if max_size is None else count_subsets(n_features, max_size)
    if count > MOST_SUBSETS:
        raise DataError(
            f"{method} takes up to {MOST_SUBSETS:,} subsets, and there are {format_count(count)} "
            f"of {n_features} "
            f"features: use max_size=2 or Screened({method}())."
        )
    return Subsets(n_features, max_size)
