"""In which order the tree decides features of several columns, and how many of them make a block.

The tree has most nodes where it decides the last features of a block. So these are the narrow ones, which leave little
to update there; the widest are high features, decided once for each block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .subset_tree import tree_starts

LOW_FEATURES = 14
# Entries of the tree of a block, 16 MB: more would leave the cache for less and less gain.
_LARGEST_TREE = 1 << 21


def feature_starts(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f+1,) first column of each feature of widths (f,), and their end."""
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def low_features(widths: NDArray[np.int64]) -> int:
    """How many of the first features make a good block for `score_grouped_block`; widths (f,): columns of each."""
    n_low = min(len(widths), LOW_FEATURES)
    # Interpreted: these are a few additions.
    while tree_starts.py_func(feature_starts(widths[:n_low]))[-1] > _LARGEST_TREE:
        n_low -= 1
    return n_low


def walk_order(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f,) features in the order that is cheapest to walk; as they are, where all have the same width.

    The narrowest make the block, the widest of them first; the others follow as high features.
    """
    ascending = np.argsort(widths, kind="stable")
    n_low = min(len(widths), LOW_FEATURES)
    while True:
        low = ascending[:n_low]
        low = low[np.argsort(-widths[low], kind="stable")]
        if low_features(widths[low]) == n_low:
            return np.concatenate([low, ascending[n_low:]])
        n_low -= 1
