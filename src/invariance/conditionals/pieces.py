"""Many subsets, shared out to threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._tools.arrays import Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.subsets import as_lists

_FEWEST_PER_THREAD = 256


def in_pieces(chosen: Mask, n_jobs: int | None, work: Callable[[slice, Integers, Integers], None]) -> None:
    """Have threads work on pieces of the subsets (S, q): which of them, and the members of each (see `as_lists`)."""
    pieces = min(n_workers(n_jobs), max(1, len(chosen) // _FEWEST_PER_THREAD))
    bounds = np.linspace(0, len(chosen), pieces + 1).astype(int)

    def one(piece: int) -> None:
        rows = slice(bounds[piece], bounds[piece + 1])
        work(rows, *as_lists(chosen[rows]))

    for _ in ordered_map(one, range(pieces), pieces):
        pass
