"""The subset that predicts best among those that are compatible with invariance."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.arrays import Mask
from .base import Findings
from .random_effects import least_risky


@dataclass(frozen=True)
class BestCompatible:
    """The mode of the predictive posterior. Where no subset is compatible, the one of which the random-effects
    rule expects the least error in a new environment: a way to predict, and no claim of invariance."""

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.mode_mask
