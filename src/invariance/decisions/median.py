"""The median probability model of the compatible subsets."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.arrays import Mask
from .base import Findings
from .random_effects import least_risky


@dataclass(frozen=True)
class Median:
    """Every feature whose inclusion probability in the predictive posterior is at least one half. The features so
    chosen need not be compatible with invariance together; where no subset is, as in `BestCompatible`."""

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.inclusion >= 0.5
