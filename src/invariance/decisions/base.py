"""What a rule that selects features is."""

from __future__ import annotations

from typing import Protocol

from .._tools.arrays import Mask
from ..inference.target import Target
from ..posterior.posterior import Posterior


class Rule(Protocol):
    """A specification: parameters only."""

    def select(self, posterior: Posterior, target: Target) -> Mask:
        """(p,) the features to use"""
        ...
