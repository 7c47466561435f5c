"""Decisions: from a posterior to the features to use, whether they are invariant, and why."""

from .decision import Decision
from .rules import BestCompatible, Median, Mode, Threshold

__all__ = ["BestCompatible", "Decision", "Median", "Mode", "Threshold"]
