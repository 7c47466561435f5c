"""Names that settings take, as types: where types are checked, a typo in one is an error. Loads
nothing."""

from __future__ import annotations

from typing import Literal

FamilyName = Literal[
    "auto",
    "linear_gaussian",
    "linear_gaussian_mean",
    "bayesian_linear_gaussian",
    "logistic",
    "poisson",
    "negative_binomial",
    "piecewise_exponential",
    "additive",
]
EngineName = Literal["auto", "exact", "tempering", "vi", "vi-simulation", "vi-genes"]
RuleName = Literal["predictive", "mode", "threshold", "median"]
Deviations = Literal["auto", "free", "random"]
Baseline = Literal["auto", "shared", "free"]
PredictWith = Literal["auto", "selected", "everything", "average"]
Missing = Literal["error", "drop", "level"]
BelowLimit = Literal["half", "limit", "missing"]
Unknown = Literal["error", "ignore"]
PlotKind = Literal[
    "inclusion",
    "effects",
    "left_out",
    "calibration",
    "subsets",
    "coefficients",
    "environments",
    "frontier",
    "along",
    "trace",
]
