"""Every feature that is probable enough by itself."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.arrays import Mask
from ..exceptions import SettingError
from .base import Findings


@dataclass(frozen=True)
class Threshold:
    """Every feature whose inclusion probability is at least `threshold`."""

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise SettingError(f"threshold={self.threshold!r} is not a probability: use a number between 0 and 1.")

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.inclusion >= self.threshold
