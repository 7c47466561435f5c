"""One subset fitted by a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._tools.arrays import Floats

if TYPE_CHECKING:
    from .regression import Regression


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """As `Fit`: the pooled maximum and those of each environment, NaN for columns that are left out there.

    more (E + 1, r): parameters without a column, of each environment and, last, of the pool
    """

    specification: Regression
    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats
    more: Floats

    def mean(self, predictor: Floats) -> Floats:
        return self.specification.mean(predictor)

    def predict(self, X: Floats) -> Floats:
        return self.mean(X @ self.coefficients + self.intercept)
