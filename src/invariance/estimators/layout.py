"""Where values that belong to features or to their columns stand in what a selector reports, and in tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Mask
from ..data.columns import frame_names
from ..data.encoding import Encoding
from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments

_ABSENT = -1


@dataclass(frozen=True, eq=False)
class Layout:
    """table: the columns of the table that was fitted, or the features where no table is known; columns: what
    coefficients belong to, with those that are constant.

    feature_at, column_at : where each of these stands among the features and columns that were fitted; -1 if nowhere
    """

    table: tuple[str, ...]
    columns: tuple[str, ...]
    feature_at: NDArray[np.intp]
    column_at: NDArray[np.intp]
    encoding: Encoding | None

    @classmethod
    def of(cls, data: MultiEnvironmentData | Moments) -> Layout:
        features, encoding = data.features, data.encoding
        if encoding is not None:
            table, columns = encoding.columns, encoding.features.columns
            owners = [encoding.owners[name] for name in table]
        else:
            table = data.names_as_given if isinstance(data, MultiEnvironmentData) else features.names
            columns = table if features.columns == features.names else features.columns
            owners = list(table)
        return cls(table, columns, _places(owners, features.names), _places(columns, features.columns), encoding)

    @property
    def grouped_without_table(self) -> bool:
        """Whether features have other columns than themselves, and it is not known how a table becomes these."""
        return self.encoding is None and self.columns != self.table

    @property
    def derived(self) -> frozenset[str]:
        """Columns that only follow another one, the curves of splines."""
        return frozenset() if self.encoding is None else self.encoding.derived

    @property
    def kept(self) -> Mask:
        """(n_features_in_,) what belongs to a feature that was fitted"""
        return self.feature_at != _ABSENT

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of the table of which nothing was fitted, because they are constant."""
        if self.encoding is None:
            return tuple(name for name, kept in zip(self.table, self.kept, strict=True) if not kept)
        fitted = {name for name, place in zip(self.columns, self.column_at, strict=True) if place != _ABSENT}
        return tuple(term.column for term in self.encoding.terms if not fitted.intersection(term.names))

    def blanked(self, X: Any) -> Any:
        """A table with zeros for columns of which nothing was fitted: whatever is in them, or missing, is not used."""
        if self.encoding is not None or self.kept.all():
            return X
        if frame_names(X) is None:
            values = np.asarray(X)
            return np.where(self.kept, values, 0) if values.shape[1:] == self.kept.shape else X
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        there = [nw.lit(0).alias(name) for name in self.ignored if name in frame.columns]
        return frame.with_columns(*there).to_native()

    def by_table(self, values: NDArray, fill: Any) -> NDArray:
        """(n_features_in_, …) from (p, …), one of each feature that was fitted"""
        return _spread(values, self.feature_at, fill)

    def by_column(self, values: NDArray, fill: Any) -> NDArray:
        """(number of columns, …) from (q, …), one of each column that was fitted"""
        return _spread(values, self.column_at, fill)


def _spread(values: NDArray, places: NDArray[np.intp], fill: Any) -> NDArray:
    full = np.full(places.shape + values.shape[1:], fill, dtype=values.dtype)
    full[places != _ABSENT] = values[places[places != _ABSENT]]
    return full


def _places(names: Sequence[str], among: Sequence[str]) -> NDArray[np.intp]:
    position = {name: j for j, name in enumerate(among)}
    return np.array([position.get(name, _ABSENT) for name in names], dtype=np.intp)
