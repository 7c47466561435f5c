"""The most probable subset."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.arrays import Mask
from .base import Findings


@dataclass(frozen=True)
class Mode:
    """The features of the most probable invariant subset."""

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.mode_mask
