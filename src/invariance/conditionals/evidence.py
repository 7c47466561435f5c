"""What the data say about single subsets: how invariant each of them is, and how well it predicts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Mask
from ..data.subsets import as_masks
from .base import BoundConditional
from .tolerance import Tolerance


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of k subsets, each (k,).

    deviance : −2 log Λ; expected_deviance, deviance_sd : its mean and standard deviation if the subset is invariant
    p_value : that it is then as large or larger, for the model's own noise
    p_mean, p_spread, p_invariant : p-values for approximate invariance of the coefficients, of the noise's scale, and
        of both together; NaN where a model does not tell them apart
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
        return {field.name: getattr(self, field.name) for field in fields(self)}

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


@dataclass(frozen=True, eq=False)
class Judge:
    """Answers what the data say about any subset."""

    model: BoundConditional
    tolerance: Tolerance = Tolerance()

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self.model.untilted)

    def evidence(self, masks: ArrayLike, log_ratios: Floats | None = None) -> Evidence:
        """Of the subsets in masks (S, p), whose log Λ (S,) may be known."""
        chosen = as_masks(masks, self.model.n_features)
        if log_ratios is None:
            log_ratios = self.model.log_ratio_many(chosen)
        null, tails = self.model.null_many(chosen), self.model.invariance_tails(chosen, log_ratios)
        test = self.model.invariance_test(chosen, self.tolerance)
        n_rows = self.model.n_rows
        known = null.variance > 0.0
        return Evidence(
            deviance=-2.0 * log_ratios,
            expected_deviance=np.where(known, -2.0 * np.where(known, null.expected, 0.0), np.nan),
            deviance_sd=np.where(known, 2.0 * np.sqrt(null.variance), np.nan),
            p_value=np.where(log_ratios > -np.inf, tails.probability, 0.0),
            p_mean=test.mean,
            p_spread=test.spread,
            p_invariant=test.joint,
            r2=-np.expm1(-2.0 * self.model.prediction_many(chosen).gain / n_rows),
            r2_new=self.model.left_out_r2_many(chosen),
        )

    def compatible(self, masks: Mask) -> Mask:
        """(S,) whether the subsets are compatible with invariance, up to the tolerance"""
        return self.model.invariance_test(masks, self.tolerance).joint >= self.tolerance.level
