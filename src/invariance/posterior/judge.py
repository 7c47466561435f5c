"""Judges any subset by the data behind a posterior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Mask
from ..conditionals.tolerance import Tolerance
from ..data.subsets import as_masks
from .evidence import Evidence

if TYPE_CHECKING:
    from ..conditionals.base import BoundConditional


@dataclass(frozen=True, eq=False)
class Judge:
    """Answers what the data say about any subset."""

    model: BoundConditional
    tolerance: Tolerance = field(default_factory=Tolerance)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self.model.untilted)

    def evidence(self, masks: ArrayLike, log_ratios: Floats | None = None) -> Evidence:
        """Of the subsets in masks (S, p), whose log Λ (S,) may be known. Outside the support nothing was tested, and
        p-values are NaN."""
        chosen = as_masks(masks, self.model.n_features)
        if log_ratios is None:
            log_ratios = self.model.log_ratio_many(chosen)
        null, tails = self.model.null_many(chosen), self.model.invariance_tails(chosen, log_ratios)
        test = self.model.invariance_test(chosen, self.tolerance)
        known, scored = null.variance > 0.0, log_ratios > -np.inf
        return Evidence(
            deviance=-2.0 * log_ratios,
            expected_deviance=np.where(known, -2.0 * np.where(known, null.expected, 0.0), np.nan),
            deviance_sd=np.where(known, 2.0 * np.sqrt(null.variance), np.nan),
            p_value=np.where(scored, tails.probability, np.nan),
            p_mean=np.where(scored, test.mean, np.nan),
            p_spread=np.where(scored, test.spread, np.nan),
            p_invariant=np.where(scored, test.joint, np.nan),
            r2=self.model.r2_many(chosen),
            r2_new=np.where(scored, self.model.left_out_r2_many(chosen), np.nan),
        )

    def compatible(self, masks: Mask) -> Mask:
        """(S,) whether the subsets are compatible with invariance, up to the tolerance"""
        return self.model.invariance_test(masks, self.tolerance).joint >= self.tolerance.level

    def rejected(self, masks: Mask) -> Mask:
        """(S,) whether the data speak against the invariance of the subsets, whatever the others are like"""
        return ~(self.model.invariance_test(masks, self.tolerance).joint >= self.tolerance.lowest_level)
