"""Features and their columns: what is chosen or left out as one, and what a model fits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, groupby

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Integers, Mask, Names, Places
from ..exceptions import DataError, WrongTypeError
from .checks import check_unique, did_you_mean


@dataclass(frozen=True, eq=False)
class Features:
    """Names of p features and of the q columns that they stand for, each feature's columns side by
    side.
    widths : (p,) number of columns of each feature"""

    names: Names
    columns: Names
    widths: Integers

    @classmethod
    def single(cls, names: Iterable[str]) -> Features:
        """Every feature is one column."""
        listed = tuple(names)
        return cls(listed, listed, np.ones(len(listed), np.int64))

    @classmethod
    def of(cls, columns: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Features:
        """Columns in their order, those of each group {feature: columns} side by side; all others
        on their own."""
        owner = {column: name for name, members in groups.items() for column in members}
        parts = [
            (name, list(own))
            for name, own in groupby(columns, key=lambda column: owner.get(column, column))
        ]
        names = tuple(name for name, _ in parts)
        check_unique(names, "the features")
        return cls(names, tuple(columns), np.array([len(own) for _, own in parts], dtype=np.int64))

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    @cached_property
    def grouped(self) -> bool:
        """Whether some feature has several columns."""
        return bool((self.widths != 1).any())

    @cached_property
    def starts(self) -> Integers:
        """(p + 1,) the columns of feature j are starts[j] to starts[j + 1] − 1."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @property
    def groups(self) -> dict[str, Names]:
        """{feature: its columns} of the features that have a name other than their one column's."""
        parts = (
            self.columns[start:stop]
            for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True)
        )
        return {name: part for name, part in zip(self.names, parts, strict=True) if part != (name,)}

    @property
    def alone(self) -> frozenset[str]:
        """Columns that are features on their own"""
        return frozenset(self.names) - self.groups.keys()

    def expand(self, masks: Mask) -> Mask:
        """(…, p) over features → (…, q) over columns"""
        return np.repeat(masks, self.widths, axis=-1) if self.grouped else masks

    def with_columns(self, columns: Collection[str]) -> Names:
        """Names of the features of which some column is among these."""
        held = np.isin(self.columns, list(columns))
        starts = self.starts[:-1]
        flags = np.logical_or.reduceat(held, starts) if len(starts) else held
        return tuple(compress(self.names, flags))

    def columns_of(self, members: Integers) -> Integers:
        """Columns of the features `members` (k,), in their order."""
        if not self.grouped:
            return members.astype(np.int64)
        parts = [np.arange(self.starts[j], self.starts[j + 1]) for j in members]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def chosen(self, mask: Mask) -> Features:
        """The features of a mask (p,) alone."""
        columns = tuple(compress(self.columns, self.expand(mask)))
        return Features(tuple(compress(self.names, mask)), columns, self.widths[mask])

    def without_columns(self, gone: Mask) -> Features:
        """After columns (q,) are left out; a feature stays while one of its columns does."""
        left = np.add.reduceat(~gone, self.starts[:-1]).astype(np.int64)
        columns = tuple(compress(self.columns, ~gone))
        return Features(tuple(compress(self.names, left)), columns, left[left > 0])


Subset = Iterable[str] | ArrayLike


def as_masks(masks: ArrayLike, n_features: int) -> Mask:
    """Boolean (S, p) from booleans or 0/1 numbers; one row may be given flat."""
    array = np.atleast_2d(np.asarray(masks))
    if array.ndim != 2 or array.shape[1] != n_features:
        raise DataError(
            f"masks must have shape (S, {n_features}), one column per feature, not {array.shape}."
        )
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise DataError(
                "masks must be boolean or hold only 0 and 1; a subset may also be a list of names."
            )
        array = array.astype(bool)
    return array


def as_mask(subset: Subset, feature_names: Sequence[str]) -> Mask:
    """Boolean mask (p,) of a subset given as an iterable of feature names or as a boolean mask
    already."""
    if isinstance(subset, str) or not isinstance(subset, Iterable):
        raise WrongTypeError(
            f"a subset is a list of feature names or a boolean mask, not {subset!r}"
        )
    items = list(subset)
    p = len(feature_names)
    if any(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != p or not all(isinstance(item, bool | np.bool_) for item in items):
            raise DataError(f"a boolean mask needs one True or False for each of the {p} features")
        return np.array(items, dtype=bool)
    for item in items:
        if not isinstance(item, str):
            raise WrongTypeError(
                f"a subset is a list of feature names or a boolean mask; it cannot hold {item!r}"
            )
        if item not in feature_names:
            raise DataError(f"no feature is named {item!r}{did_you_mean(item, feature_names)}")
    return np.array([name in items for name in feature_names], dtype=bool)


def as_lists(masks: Mask) -> tuple[Integers, Integers]:
    """(starts (S+1,), members): the features of subset s are members[starts[s]:starts[s+1]],
    ascending."""
    return np.concatenate([[0], np.cumsum(masks.sum(axis=1))]).astype(np.int64), np.nonzero(masks)[
        1
    ].astype(np.int64)


def distinct(masks: Mask) -> tuple[Places, Places]:
    """(first, group): masks[first] are the distinct rows, masks[first][group] is masks."""
    packed = np.ascontiguousarray(np.packbits(masks, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group.ravel()
