"""Centred second moments per environment and pooled: all that the Gaussian model needs of the rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import (
    DataError,
    announce_constant,
    check_max_size,
    check_spread,
    check_whole,
    largest_size,
    nearest,
)
from .data import MultiEnvironmentData
from .kernels.centring import centred_rows

Floats = NDArray[np.float64]

# A column whose scatter falls by this factor when one row is removed was constant in the other rows:
# what is left is rounding.
_VANISHED = 1e-12
_ROWS_PER_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of d columns (the features and the outcome) in E environments.

    columns : d names; outcome : index of the column that is predicted
    environments : E labels; counts : (E,) rows of each
    origin : (d,) a value of each column; shifts : (E, d) means measured from it, so that a large mean costs no digits
    minimum, maximum : (E, d), equal exactly where a column is constant inside an environment
    scatter : (E + 1, d, d) centred sums of products; the last one is over the pooled rows
    """

    columns: tuple[str, ...]
    outcome: int
    environments: tuple[Hashable, ...]
    counts: NDArray[np.int64]
    origin: Floats
    shifts: Floats
    minimum: Floats
    maximum: Floats
    scatter: Floats

    @property
    def n_environments(self) -> int:
        return len(self.environments)

    @property
    def n_features(self) -> int:
        return len(self.columns) - 1

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """(p,) indices of the feature columns."""
        return np.delete(np.arange(len(self.columns)), self.outcome)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for j, name in enumerate(self.columns) if j != self.outcome)

    @property
    def outcome_name(self) -> str:
        return self.columns[self.outcome]

    @cached_property
    def group_counts(self) -> Floats:
        """(E + 1,) rows of each environment and of the pool."""
        return np.append(self.counts, self.n_rows).astype(float)

    @property
    def means(self) -> Floats:
        """(E, d)"""
        return self.origin + self.shifts

    @property
    def pooled_mean(self) -> Floats:
        """(d,)"""
        return self.origin + self.counts @ self.shifts / self.n_rows

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """(E + 1, d) whether a column takes more than one value in each environment, and in the pool."""
        local = self.maximum > self.minimum
        pooled = self.maximum.max(axis=0) > self.minimum.min(axis=0)
        return np.vstack([local, pooled])

    @property
    def scales(self) -> Floats:
        """(E + 1, d) maximum-likelihood standard deviation of each column in each environment, and in the pool."""
        variances = np.einsum("gjj->gj", self.scatter) / self.group_counts[:, None]
        return np.where(self.varies, np.sqrt(variances), 0.0)

    @cached_property
    def largest_size(self) -> int:
        """The largest subset size at which every local fit is estimable."""
        return largest_size(self.counts, self._varying_features, self.n_features)

    def check_max_size(self, max_size: int) -> None:
        """Raise when some environment is too small to fit `max_size` features."""
        check_max_size(max_size, self.counts, self._varying_features, self.environments)

    @cached_property
    def _varying_features(self) -> NDArray[np.int64]:
        return self.varies[:-1, self.features].sum(axis=1)

    @classmethod
    def from_data(cls, data: MultiEnvironmentData) -> Moments:
        """Moments of one data set that is in memory."""
        origin = np.append(data.X[0], data.y[0])
        parts = (_of_rows(data, data.rows(e), origin) for e in range(data.n_environments))
        columns = (*data.feature_names, data.outcome_name)
        return _assembled(columns, data.n_features, data.environments, origin, parts)

    @classmethod
    def from_chunks(cls, chunks: Iterable[MultiEnvironmentData]) -> Moments:
        """Moments of a data set that arrives in pieces, for example from `invariance.data.read_chunks`."""
        total: Moments | None = None
        for chunk in chunks:
            part = cls.from_data(chunk)
            total = part if total is None else total.merge(part)
        if total is None:
            raise DataError("there are no rows: the source gave no chunk. Pass a table with data.")
        return total._checked()

    def _checked(self) -> Moments:
        """After the complaints that only all rows can justify; without the features that no row varies."""
        lowest, highest = self.minimum.min(axis=0), self.maximum.max(axis=0)
        check_spread(self.columns, lowest, highest)
        check_whole(
            self.environments,
            self.counts,
            self.minimum[:, self.outcome],
            self.maximum[:, self.outcome],
            outcome_name=self.outcome_name,
        )
        constant = lowest == highest
        if not constant.any():
            return self
        announce_constant([self.columns[j] for j in np.flatnonzero(constant)], self.n_features)
        return self._reordered(tuple(name for name, flat in zip(self.columns, constant, strict=True) if not flat))

    def merge(self, other: Moments) -> Moments:
        """Moments of the rows of both, as if they had been one table (Chan, Golub & LeVeque 1983)."""
        if set(self.columns) != set(other.columns) or self.outcome_name != other.outcome_name:
            difference = sorted(set(self.columns) ^ set(other.columns)) or [
                self.outcome_name,
                other.outcome_name,
            ]
            raise DataError(f"cannot merge moments of different columns; they differ in {difference}.")
        other = other._reordered(self.columns)._measured_from(self.origin)
        environments = tuple(dict.fromkeys(self.environments + other.environments))
        parts = (_merged(self._part(label), other._part(label)) for label in environments)
        return _assembled(self.columns, self.outcome, environments, self.origin, parts)

    def without_row(self, environment: Hashable, row: ArrayLike) -> Moments:
        """Moments after one row (values of all d columns, in the order of `columns`) leaves an environment."""
        e = self._environment_index(environment)
        values = np.asarray(row, dtype=float)
        if values.shape != (len(self.columns),):
            raise DataError(f"a row has {len(self.columns)} values ({self.columns[0]!r}, …), not {values.shape}.")
        n = self.counts[e]
        if n < 2:
            raise DataError(f"environment {environment!r} has {n} row; the last row cannot be removed.")
        outside = (values < self.minimum[e]) | (values > self.maximum[e])
        if outside.any():
            name = self.columns[int(np.argmax(outside))]
            raise DataError(f"this row is not in environment {environment!r}: its {name!r} is outside the range there.")
        counts, shifts, scatter = self.counts.copy(), self.shifts.copy(), self.scatter.copy()
        deviation = (values - self.origin) - shifts[e]
        before = np.diagonal(scatter[e]).copy()
        counts[e] = n - 1
        shifts[e] -= deviation / (n - 1)
        scatter[e] -= (n / (n - 1)) * np.outer(deviation, deviation)
        constant = np.diagonal(scatter[e]) <= _VANISHED * before
        scatter[e][constant, :] = 0.0
        scatter[e][:, constant] = 0.0
        remaining = np.where(values == self.maximum[e], self.minimum[e], self.maximum[e])
        minimum, maximum = self.minimum.copy(), self.maximum.copy()
        minimum[e] = np.where(constant, remaining, minimum[e])
        maximum[e] = np.where(constant, remaining, maximum[e])
        _fill_pool(counts, shifts, scatter)
        return replace(self, counts=counts, shifts=shifts, minimum=minimum, maximum=maximum, scatter=scatter)

    def with_outcome(self, name: str) -> Moments:
        """The same moments (shared, not copied) with another column as the outcome; the old one becomes a feature."""
        if name not in self.columns:
            raise DataError(f"column {name!r} is not in the data; {nearest(name, self.columns)}")
        return replace(self, outcome=self.columns.index(name))

    def _environment_index(self, environment: Hashable) -> int:
        if environment not in self.environments:
            raise DataError(f"there is no environment {environment!r}; the environments are {list(self.environments)}.")
        return self.environments.index(environment)

    def _reordered(self, columns: tuple[str, ...]) -> Moments:
        if columns == self.columns:
            return self
        order = [self.columns.index(name) for name in columns]
        return replace(
            self,
            columns=columns,
            outcome=columns.index(self.outcome_name),
            origin=self.origin[order],
            shifts=self.shifts[:, order],
            minimum=self.minimum[:, order],
            maximum=self.maximum[:, order],
            scatter=self.scatter[:, order][:, :, order],
        )

    def _measured_from(self, origin: Floats) -> Moments:
        return replace(self, origin=origin, shifts=self.shifts + (self.origin - origin))

    def _part(self, environment: Hashable) -> _Part | None:
        if environment not in self.environments:
            return None
        e = self.environments.index(environment)
        return (int(self.counts[e]), self.shifts[e], self.minimum[e], self.maximum[e], self.scatter[e])


_Part = tuple[int, Floats, Floats, Floats, Floats]


def _of_rows(data: MultiEnvironmentData, rows: NDArray[np.intp], origin: Floats) -> _Part:
    total: _Part | None = None
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        total = _merged(total, _of_block(data, rows[start : start + _ROWS_PER_BLOCK], origin))
    assert total is not None
    return total


def _of_block(data: MultiEnvironmentData, rows: NDArray[np.intp], origin: Floats) -> _Part:
    shift, minimum, maximum = np.empty((3, data.n_features + 1))
    centred = centred_rows(data.X, data.y, rows, origin, shift, minimum, maximum)
    return len(rows), shift, minimum, maximum, centred.T @ centred


def _merged(a: _Part | None, b: _Part | None) -> _Part:
    if a is None or b is None:
        only = a or b
        assert only is not None
        return only
    (n_a, shift_a, min_a, max_a, scatter_a), (n_b, shift_b, min_b, max_b, scatter_b) = a, b
    n = n_a + n_b
    minimum, maximum = np.minimum(min_a, min_b), np.maximum(max_a, max_b)
    gap = np.where(minimum == maximum, 0.0, shift_b - shift_a)
    scatter = scatter_a + scatter_b + (n_a * n_b / n) * np.outer(gap, gap)
    return n, shift_a + gap * (n_b / n), minimum, maximum, scatter


def _assembled(
    columns: tuple[str, ...],
    outcome: int,
    environments: tuple[Hashable, ...],
    origin: Floats,
    parts: Iterator[_Part],
) -> Moments:
    d, n_environments = len(columns), len(environments)
    counts = np.empty(n_environments, np.int64)
    shifts, minimum, maximum = (np.empty((n_environments, d)) for _ in range(3))
    scatter = np.empty((n_environments + 1, d, d))
    for e, part in enumerate(parts):
        counts[e], shifts[e], minimum[e], maximum[e], scatter[e] = part
    _fill_pool(counts, shifts, scatter)
    return Moments(columns, outcome, environments, counts, origin, shifts, minimum, maximum, scatter)


def _fill_pool(counts: NDArray[np.int64], shifts: Floats, scatter: Floats) -> None:
    gaps = shifts - counts @ shifts / counts.sum()
    np.matmul((gaps * counts[:, None]).T, gaps, out=scatter[-1])
    for local in scatter[:-1]:
        scatter[-1] += local
