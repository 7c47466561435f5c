"""What a posterior asks of its arrays, and the order of its table."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Mask
from ..exceptions import SettingError, WrongTypeError


def checked_floats(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name}: shape {shape} is needed, not {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name}: holds NaN")
    return array


def table_order(masks: Mask, log_probabilities: Floats) -> NDArray[np.intp]:
    """Order (k,) by probability (largest first), then size, then positions of the features."""
    # A zero bit marks a member, so that of two subsets of one size the one with the earlier feature
    # sorts first; byte strings of one length compare like the bits they hold.
    packed = np.ascontiguousarray(np.packbits(~masks, axis=1))
    keys = packed.view(f"S{packed.shape[1]}").ravel()
    distinct, position = np.unique(keys, return_inverse=True)
    if len(distinct) < len(keys):
        raise ValueError("masks: the same subset occurs twice")
    return np.lexsort((position, masks.sum(axis=1), -log_probabilities))


def check_at_least_one(name: str, value: int) -> None:
    if not isinstance(value, Integral):
        raise WrongTypeError(f"{name} must be a whole number of at least 1, not {value!r}")
    if value < 1:
        raise SettingError(f"{name} must be at least 1, not {value}")
