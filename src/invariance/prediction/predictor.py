"""What predicts: a linear fit, an average of several, or a regressor of the user's; each with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.stats import t as student

from .._tools.arrays import Floats, Integers
from .design import Design

_FOLDS = 5


class Predictor(Protocol):
    """design: of the k columns that rows to predict must have, in its order"""

    @property
    def design(self) -> Design: ...

    def mean(self, X: Floats) -> Floats:
        """(n,) of rows X (n, k)"""
        ...

    def half_width(self, X: Floats, coverage: float) -> Floats:
        """(n,) of intervals that hold this share of outcomes like those that were fitted"""
        ...


@dataclass(frozen=True, eq=False)
class Member:
    """One linear fit. at : (m,) positions of its columns; weight : its share in an average; noise : residual variance;
    freedom : degrees of freedom it was estimated with; design : of its own columns"""

    at: Integers
    coefficients: Floats
    intercept: float
    weight: float
    noise: float
    freedom: float
    design: Design


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """An average of linear fits, often of one; link: the outcome that is expected at intercept + coefficients ·
    columns, None where it is that itself."""

    design: Design
    members: tuple[Member, ...]
    link: Callable[[Floats], Floats] | None = None

    def mean(self, X: Floats) -> Floats:
        weights = np.array([member.weight for member in self.members])
        return weights @ self._each(X)

    def half_width(self, X: Floats, coverage: float) -> Floats:
        """By Student's t: noise, uncertain coefficients and, in an average, how far its members are apart."""
        means = self._each(X)
        weights = np.array([member.weight for member in self.members])
        apart = weights @ (means - weights @ means) ** 2
        own = [m.weight * m.noise * (1.0 + m.design.leverage(np.take(X, m.at, axis=1))) for m in self.members]
        freedom = min(member.freedom for member in self.members)
        return t_quantile(coverage, freedom) * np.sqrt(np.sum(own, axis=0) + apart)

    def _each(self, X: Floats) -> Floats:
        """(K, n)"""
        means = np.array([np.take(X, m.at, axis=1) @ m.coefficients + m.intercept for m in self.members])
        return means if self.link is None else np.array([self.link(row) for row in means])

    @cached_property
    def line(self) -> tuple[Floats, float]:
        """Coefficients (k,) and intercept of the average."""
        coefficients = np.zeros(len(self.design.columns))
        for member in self.members:
            coefficients[member.at] += member.weight * member.coefficients
        return coefficients, float(sum(member.weight * member.intercept for member in self.members))


class RefittedPredictor:
    """A regressor that was fitted to the chosen columns of all rows.

    Its noise is what it misses in rows that it was not fitted to, by cross-validation over all rows: residuals of the
    rows that it was fitted to would be too small.
    """

    def __init__(
        self,
        design: Design,
        regressor: Any,
        noise: float | None = None,
        rows: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.design, self.regressor = design, regressor
        self._noise, self._rows = noise, rows

    @classmethod
    def fitted(cls, design: Design, regressor: Any, X: Floats, y: Floats) -> RefittedPredictor:
        from sklearn.base import clone

        return cls(design, clone(regressor).fit(X, y), rows=(X, y))

    @property
    def noise(self) -> float:
        if self._noise is None:
            assert self._rows is not None
            self._noise = _cross_validated(self.regressor, *self._rows)
        return self._noise

    @property
    def freedom(self) -> float:
        return max(self.design.n_rows - 1.0 - self.design.rank, 1.0)

    def mean(self, X: Floats) -> Floats:
        return _one_each(self.regressor.predict(X), len(X))

    def half_width(self, X: Floats, coverage: float) -> Floats:
        variance = self.noise * (1.0 + self.design.leverage(X))
        return t_quantile(coverage, self.freedom) * np.sqrt(variance)


def t_quantile(coverage: float, freedom: float) -> float:
    """Half the width of a central interval of Student's t."""
    return float(student.ppf(0.5 + 0.5 * coverage, freedom))


def _cross_validated(regressor: Any, X: Floats, y: Floats) -> float:
    from sklearn.base import clone
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
    predicted = cross_val_predict(clone(regressor), X, y, cv=folds)
    return float(np.mean((y - _one_each(predicted, len(y))) ** 2))


def _one_each(predicted: Any, n_rows: int) -> Floats:
    """(n,) of what a regressor predicts, which may have a second axis of length one"""
    return np.asarray(predicted, dtype=float).reshape(n_rows)
