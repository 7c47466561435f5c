"""Centred second moments per environment and pooled: all that the Gaussian model needs of the rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import DataError, check_max_size, check_whole, largest_size, nearest
from .data import MultiEnvironmentData

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
    means : (E, d); minimum, maximum : (E, d), equal exactly where a column is constant inside an environment
    scatter : (E + 1, d, d) centred sums of products; the last one is over the pooled rows
    """

    columns: tuple[str, ...]
    outcome: int
    environments: tuple[Hashable, ...]
    counts: NDArray[np.int64]
    means: Floats
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

    @property
    def features(self) -> NDArray[np.intp]:
        """(p,) indices of the feature columns."""
        return np.delete(np.arange(len(self.columns)), self.outcome)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for j, name in enumerate(self.columns) if j != self.outcome)

    @property
    def outcome_name(self) -> str:
        return self.columns[self.outcome]

    @property
    def group_counts(self) -> Floats:
        """(E + 1,) rows of each environment and of the pool."""
        return np.append(self.counts, self.n_rows).astype(float)

    @property
    def pooled_mean(self) -> Floats:
        """(d,)"""
        return self.counts @ self.means / self.n_rows

    @property
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

    @property
    def largest_size(self) -> int:
        """The largest subset size at which every local fit is estimable."""
        return largest_size(self.counts, self._varying_features, self.n_features)

    def check_max_size(self, max_size: int) -> None:
        """Raise when some environment is too small to fit `max_size` features."""
        check_max_size(max_size, self.counts, self._varying_features, self.environments)

    @property
    def _varying_features(self) -> NDArray[np.int64]:
        return self.varies[:-1, self.features].sum(axis=1)

    @classmethod
    def from_data(cls, data: MultiEnvironmentData) -> Moments:
        """Moments of one data set that is in memory."""
        parts = (_of_rows(data, data.rows(e)) for e in range(data.n_environments))
        return _assembled((*data.feature_names, data.outcome_name), data.n_features, data.environments, parts)

    @classmethod
    def from_chunks(cls, chunks: Iterable[MultiEnvironmentData]) -> Moments:
        """Moments of a data set that arrives in pieces, for example from `invariance.data.read_chunks`."""
        total: Moments | None = None
        for chunk in chunks:
            part = cls.from_data(chunk)
            total = part if total is None else total.merge(part)
        if total is None:
            raise DataError("there are no rows: the source gave no chunk. Pass a table with data.")
        total.check()
        return total

    def check(self) -> None:
        """The complaints that only the whole data set can justify (sizes of environments, constant outcome)."""
        check_whole(
            self.environments,
            self.counts,
            self.minimum[:, self.outcome],
            self.maximum[:, self.outcome],
            outcome_name=self.outcome_name,
        )

    def merge(self, other: Moments) -> Moments:
        """Moments of the rows of both, as if they had been one table (Chan, Golub & LeVeque 1983)."""
        if set(self.columns) != set(other.columns) or self.outcome_name != other.outcome_name:
            difference = sorted(set(self.columns) ^ set(other.columns)) or [
                self.outcome_name,
                other.outcome_name,
            ]
            raise DataError(f"cannot merge moments of different columns; they differ in {difference}.")
        other = other._reordered(self.columns)
        environments = tuple(dict.fromkeys(self.environments + other.environments))
        parts = (_merged(self._part(label), other._part(label)) for label in environments)
        return _assembled(self.columns, self.outcome, environments, parts)

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
        counts, means, scatter = self.counts.copy(), self.means.copy(), self.scatter.copy()
        deviation = values - means[e]
        before = np.diagonal(scatter[e]).copy()
        counts[e] = n - 1
        means[e] -= deviation / (n - 1)
        scatter[e] -= (n / (n - 1)) * np.outer(deviation, deviation)
        constant = np.diagonal(scatter[e]) <= _VANISHED * before
        scatter[e][constant, :] = 0.0
        scatter[e][:, constant] = 0.0
        remaining = np.where(values == self.maximum[e], self.minimum[e], self.maximum[e])
        minimum, maximum = self.minimum.copy(), self.maximum.copy()
        minimum[e] = np.where(constant, remaining, minimum[e])
        maximum[e] = np.where(constant, remaining, maximum[e])
        _fill_pool(counts, means, scatter)
        return replace(self, counts=counts, means=means, minimum=minimum, maximum=maximum, scatter=scatter)

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
            means=self.means[:, order],
            minimum=self.minimum[:, order],
            maximum=self.maximum[:, order],
            scatter=self.scatter[:, order][:, :, order],
        )

    def _part(self, environment: Hashable) -> _Part | None:
        if environment not in self.environments:
            return None
        e = self.environments.index(environment)
        return (int(self.counts[e]), self.means[e], self.minimum[e], self.maximum[e], self.scatter[e])


_Part = tuple[int, Floats, Floats, Floats, Floats]


def _of_rows(data: MultiEnvironmentData, rows: NDArray[np.intp]) -> _Part:
    parts = (_of_block(np.column_stack([data.X[b], data.y[b]])) for b in _blocks(rows))
    total: _Part | None = None
    for part in parts:
        total = _merged(total, part)
    assert total is not None
    return total


def _blocks(rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        yield rows[start : start + _ROWS_PER_BLOCK]


def _of_block(block: Floats) -> _Part:
    mean = block.mean(axis=0)
    centred = block - mean
    correction = centred.mean(axis=0)
    centred -= correction
    minimum, maximum = block.min(axis=0), block.max(axis=0)
    centred[:, minimum == maximum] = 0.0
    mean = np.where(minimum == maximum, minimum, mean + correction)
    return len(block), mean, minimum, maximum, centred.T @ centred


def _merged(a: _Part | None, b: _Part | None) -> _Part:
    if a is None or b is None:
        only = a or b
        assert only is not None
        return only
    (n_a, mean_a, min_a, max_a, scatter_a), (n_b, mean_b, min_b, max_b, scatter_b) = a, b
    n = n_a + n_b
    minimum, maximum = np.minimum(min_a, min_b), np.maximum(max_a, max_b)
    shift = np.where(minimum == maximum, 0.0, mean_b - mean_a)
    scatter = scatter_a + scatter_b + (n_a * n_b / n) * np.outer(shift, shift)
    return n, mean_a + shift * (n_b / n), minimum, maximum, scatter


def _assembled(
    columns: tuple[str, ...], outcome: int, environments: tuple[Hashable, ...], parts: Iterator[_Part]
) -> Moments:
    d, n_environments = len(columns), len(environments)
    counts = np.empty(n_environments, np.int64)
    means, minimum, maximum = (np.empty((n_environments, d)) for _ in range(3))
    scatter = np.empty((n_environments + 1, d, d))
    for e, part in enumerate(parts):
        counts[e], means[e], minimum[e], maximum[e], scatter[e] = part
    _fill_pool(counts, means, scatter)
    return Moments(columns, outcome, environments, counts, means, minimum, maximum, scatter)


def _fill_pool(counts: NDArray[np.int64], means: Floats, scatter: Floats) -> None:
    shifts = means - counts @ means / counts.sum()
    np.matmul((shifts * counts[:, None]).T, shifts, out=scatter[-1])
    for local in scatter[:-1]:
        scatter[-1] += local
