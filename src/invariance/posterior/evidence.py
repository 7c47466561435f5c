"""What the data say about subsets: how invariant each of them is, and how well it predicts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from .._tools.arrays import Floats


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of k subsets, each (k,).

    deviance : −2 log Λ; expected_deviance, deviance_sd : its mean and standard deviation if the subset is invariant
    p_value : that it is then as large or larger, for the model's own noise
    p_mean, p_spread, p_invariant : p-values for approximate invariance of the coefficients, of the noise's scale, and
        of both together; NaN where a model does not tell them apart, and where the deviance is infinite: such a subset
        cannot be fitted as it should, and nothing was tested
    r2 : share of the outcome's variance that the pooled fit explains; r2_new : the same for each environment by the
        fit to all others, NaN where that is not known
    """

    deviance: Floats
    expected_deviance: Floats
    deviance_sd: Floats
    p_value: Floats
    p_mean: Floats
    p_spread: Floats
    p_invariant: Floats
    r2: Floats
    r2_new: Floats

    def __len__(self) -> int:
        return len(self.deviance)

    @classmethod
    def unknown(cls, k: int) -> Self:
        return cls(*np.full((len(fields(cls)), k), np.nan))

    def columns(self) -> dict[str, Floats]:
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def head(self, k: int) -> Evidence:
        return Evidence(*(values[:k] for values in self.columns().values()))

    def padded(self, k: int) -> Evidence:
        """Of k subsets, NaN for those after the known ones."""
        more = np.full(k - len(self), np.nan)
        return Evidence(*(np.append(values, more) for values in self.columns().values()))

    def one(self, row: int = 0) -> SubsetEvidence:
        return SubsetEvidence(**{name: float(values[row]) for name, values in self.columns().items()})


@dataclass(frozen=True)
class SubsetEvidence:
    """Of one subset; see `Evidence`."""

    deviance: float
    expected_deviance: float
    deviance_sd: float
    p_value: float
    p_mean: float
    p_spread: float
    p_invariant: float
    r2: float
    r2_new: float
