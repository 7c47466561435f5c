"""Simulated multi-environment data whose invariant features are known: the paper's synthetic
studies."""

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
