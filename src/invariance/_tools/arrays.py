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
