"""Names for the types that appear everywhere."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rng = np.random.Generator
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
# Positions in an array
Places = NDArray[np.intp]
# Of features or columns
Names = tuple[str, ...]
# Of environments
Labels = tuple[Hashable, ...]
# Values by the names of fields or arguments
Fields = dict[str, Any]


def subsets_at(positions: Integers, n_features: int) -> Mask:
    """Return subsets (m, f) by their positions (m,) among all 2**f: bit j stands for feature j."""
    octets = positions.astype("<u8").view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1, count=n_features, bitorder="little").view(bool)
