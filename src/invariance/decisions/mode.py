"""The most probable subset."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.arrays import Mask
from ..inference.target import Target
from ..posterior.posterior import Posterior


@dataclass(frozen=True)
class Mode:
    """The features of the most probable subset."""

    def select(self, posterior: Posterior, target: Target) -> Mask:
        return posterior.mode_mask
