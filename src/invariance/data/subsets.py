"""The ways to write a subset of features down: names, a boolean mask, ascending lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Integers, Mask
from ..exceptions import DataError, WrongTypeError
from .checks import did_you_mean

Subset = Iterable[str] | ArrayLike


def as_masks(masks: ArrayLike, n_features: int) -> Mask:
    """Boolean (S, p) from booleans or 0/1 numbers; one row may be given flat."""
    array = np.atleast_2d(np.asarray(masks))
    if array.ndim != 2 or array.shape[1] != n_features:
        raise DataError(f"masks must have shape (S, {n_features}), one column per feature, not {array.shape}.")
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise DataError("masks must be boolean or hold only 0 and 1; a subset may also be a list of names.")
        array = array.astype(bool)
    return array


def as_mask(subset: Subset, feature_names: Sequence[str]) -> Mask:
    """Boolean mask (p,) of a subset given as an iterable of feature names or as a boolean mask already."""
    if isinstance(subset, str):
        raise WrongTypeError(f"a subset is a collection of feature names, for example [{subset!r}], not one string")
    if not isinstance(subset, Iterable):
        raise WrongTypeError(f"a subset is a collection of feature names or a boolean mask, not {subset!r}")
    p = len(feature_names)
    items = list(subset)
    if any(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != p or not all(isinstance(item, bool | np.bool_) for item in items):
            raise DataError(f"a boolean mask needs one True or False for each of the {p} features")
        return np.array(items, dtype=bool)
    position = {name: j for j, name in enumerate(feature_names)}
    mask = np.zeros(p, dtype=bool)
    for item in items:
        if not isinstance(item, str):
            raise WrongTypeError(f"a subset holds feature names, or is a boolean mask; it cannot hold {item!r}")
        if item not in position:
            raise DataError(f"no feature is named {item!r}{did_you_mean(item, feature_names)}")
        mask[position[item]] = True
    return mask


def as_lists(masks: Mask) -> tuple[Integers, Integers]:
    """(starts (S+1,), members): the features of subset s are members[starts[s]:starts[s+1]], ascending."""
    starts = np.concatenate([[0], np.cumsum(masks.sum(axis=1))]).astype(np.int64)
    return starts, np.nonzero(masks)[1].astype(np.int64)


def distinct(masks: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(first, group): masks[first] are the distinct rows, masks[first][group] is masks."""
    packed = np.ascontiguousarray(np.packbits(masks, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group.ravel()
