"""Simulated data of several environments with known invariant features.

The models are those of the paper's synthetic studies (section 4.2 and its supplement, Wu et al.
2025, arXiv:2506.22675).
"""

from .presets import P10, CoefficientBound, SimulationParameters, example_2, flat, p10, random_model
from .structural import StructuralModel

__all__ = [
    "P10",
    "CoefficientBound",
    "SimulationParameters",
    "StructuralModel",
    "example_2",
    "flat",
    "p10",
    "random_model",
]
