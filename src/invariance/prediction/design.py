"""Where the rows that were fitted lie in the space of the chosen columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats
from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments

# Share of a direction's scatter, after scaling, below which the columns depend on each other.
_DEPENDENT = 1e-11
# So many times the largest leverage of the fitted rows, and a row is far outside of them.
FAR = 2.0


@dataclass(frozen=True, eq=False)
class Design:
    """columns : k names; n_rows : how many were fitted; centre : (k,) their mean
    whitening : (k, r) with (x − centre) · whitening = r numbers whose squares sum to the leverage, less 1 / n_rows
    minimum, maximum : (k,); farthest : largest leverage of a fitted row, less 1 / n_rows
    """

    columns: tuple[str, ...]
    n_rows: int
    centre: Floats
    whitening: Floats
    minimum: Floats
    maximum: Floats
    farthest: float

    @classmethod
    def of(cls, data: MultiEnvironmentData | Moments, columns: tuple[str, ...]) -> Design:
        """Of second moments the largest leverage is not known: a bound is taken for it that no fitted row exceeds, so
        that fewer rows may be called far than by the rows themselves."""
        if isinstance(data, Moments):
            return cls._of_moments(data, columns)
        X = columns_of(data, columns)
        centre = X.mean(axis=0)
        whitening = _whitening((X - centre).T @ (X - centre))
        farthest = float(_squares((X - centre) @ whitening).max(initial=0.0))
        return cls(columns, len(X), centre, whitening, X.min(axis=0), X.max(axis=0), farthest)

    @classmethod
    def _of_moments(cls, moments: Moments, columns: tuple[str, ...]) -> Design:
        at = [moments.columns.index(name) for name in columns]
        centre, scatter = moments.pooled_mean[at], moments.scatter[-1][np.ix_(at, at)]
        minimum, maximum = moments.minimum.min(axis=0)[at], moments.maximum.max(axis=0)[at]
        reach = np.maximum(moments.maximum[:, at] - centre, centre - moments.minimum[:, at])
        whitening = _whitening(scatter)
        within_ranges = float(_squares(reach @ np.abs(whitening)).max(initial=0.0))
        farthest = min(within_ranges, 1.0 - 1.0 / moments.n_rows)
        return cls(columns, moments.n_rows, centre, whitening, minimum, maximum, farthest)

    @property
    def rank(self) -> int:
        return self.whitening.shape[1]

    def leverage(self, X: Floats) -> Floats:
        """(n,) of rows X (n, k): what uncertain coefficients add to the variance, in units of the noise's"""
        return 1.0 / self.n_rows + _squares((X - self.centre) @ self.whitening)

    def far(self, X: Floats) -> Floats:
        """(n,) how many times the largest leverage of a fitted row that of each row of X (n, k) is, where that is more
        than `FAR`; else 0"""
        if not self.rank:
            return np.zeros(len(X))
        times = _squares((X - self.centre) @ self.whitening) / self.farthest
        return np.where(times > FAR, times, 0.0)

    def outside(self, X: Floats, derived: Collection[str] = ()) -> str:
        """What is most unusual about those of the rows X (n, k) that are far from the fitted ones; empty if none is.
        Columns that are derived from others of a table are not named."""
        times = self.far(X)
        n_far = int((times > 0.0).sum())
        if not n_far:
            return ""
        row = X[int(np.argmax(times))]
        width = self.maximum - self.minimum
        excess = np.maximum(row - self.maximum, self.minimum - row) / np.where(width > 0.0, width, 1.0)
        excess[[name in derived for name in self.columns]] = 0.0
        j = int(np.argmax(excess))
        if excess[j] > 0.0:
            what = (
                f"the farthest has {self.columns[j]} = {row[j]:.4g}, and the fitted rows have "
                f"{self.minimum[j]:.4g} to {self.maximum[j]:.4g}"
            )
        else:
            what = f"the farthest combines values of {', '.join(self.columns[:4])} as no fitted row does"
        return f"{n_far:,} of {len(X):,} rows lie far outside the rows that were fitted: {what}"


def columns_of(data: MultiEnvironmentData, columns: tuple[str, ...]) -> Floats:
    """(N, k) by name"""
    place = {name: j for j, name in enumerate(data.features.columns)}
    return data.X[:, [place[name] for name in columns]]


def _squares(values: Floats) -> Floats:
    return np.einsum("nk,nk->n", values, values)


def _whitening(scatter: Floats) -> Floats:
    """(k, r) W with W W' a generalised inverse of the scatter (k, k), whose columns may depend on each other"""
    diagonal = np.diagonal(scatter)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(scatter * scale[:, None] * scale)
    kept = values > _DEPENDENT * len(values)
    return scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
