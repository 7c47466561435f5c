"""Simulated multi-environment data whose invariant features are known: the paper's synthetic studies."""

from .presets import (
    P10,
    P450,
    THEORY,
    CoefficientBound,
    SimulationParameters,
    example_1,
    example_2,
    example_3,
    flat,
    p10,
    p450,
    random_model,
    theory,
)
from .structural import StructuralModel

__all__ = [
    "P10",
    "P450",
    "THEORY",
    "CoefficientBound",
    "SimulationParameters",
    "StructuralModel",
    "example_1",
    "example_2",
    "example_3",
    "flat",
    "p10",
    "p450",
    "random_model",
    "theory",
]
