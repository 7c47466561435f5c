"""From a posterior to what a person does: which features to use."""

from .decision import Decision
from .rules import BestCompatible, Median, Mode, Threshold

__all__ = ["BestCompatible", "Decision", "Median", "Mode", "Threshold"]
