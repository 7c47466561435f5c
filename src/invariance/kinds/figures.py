"""Measures of predictions in an environment that was held out, with 95% intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student

from .._tools.arrays import Floats

COVERAGE = 0.95
MAX_STEPS = 100
CONVERGED = 1e-12
# Cumulant function of outcomes at linear predictors (n,), and its derivatives, mean and variance
Law = tuple[
    Callable[[Floats], Floats],
    Callable[[Floats], Floats],
    Callable[[Floats], Floats],
]


class Figure(NamedTuple):
    """Hold an estimate with a 95% interval, NaN if there is none."""

    value: float
    low: float = np.nan
    high: float = np.nan


UNKNOWN = Figure(np.nan)


def around(value: float, error: float, freedom: float = np.inf) -> Figure:
    """Return value ± the quantile of Student's t times its standard error."""
    margin = float(student.ppf(0.5 + 0.5 * COVERAGE, freedom)) * error if freedom > 0.0 else np.nan
    return Figure(float(value), float(value - margin), float(value + margin))


def share(value: float, error: float) -> Figure:
    """Return an interval between 0 and 1, symmetric in log odds; at 0 and 1 the error is
    unknown."""
    if not 0.0 < value < 1.0 or not error > 0.0:
        return Figure(value)
    _, *ends = around(float(logit(value)), error / (value * (1.0 - value)))
    return Figure(value, *(float(expit(end)) for end in ends))


def ratio(value: float, relative: float, freedom: float = np.inf) -> Figure:
    """Return an interval above 0, symmetric in logarithms; relative: the standard error of
    these."""
    _, *ends = around(0.0, relative, freedom)
    return Figure(value, *(value * float(np.exp(end)) for end in ends))


def explained(missed: Floats, scatter: Floats) -> Figure:
    """Return 1 − Σ missed / Σ scatter, of errors (n,) of the rows and of their distances from their
    own mean, which are smallest."""
    value = share_explained(float(missed.sum()), float(scatter.sum()))
    error = np.nan
    if np.isfinite(value):
        error = np.sqrt(np.sum((missed - (1.0 - value) * scatter) ** 2)) / scatter.sum()
    _, low, high = around(value, float(error))
    return Figure(value, low, float(np.minimum(high, 1.0)))


def share_explained(missed: float, scatter: float) -> float:
    """Return NaN if nothing scatters."""
    return 1.0 - missed / scatter if scatter > 0.0 else np.nan


def calibration_slope(y: Floats, predictor: Floats, law: Law, start: float) -> Figure:
    """Return the maximum likelihood slope of y on the predictor (n,), which must exist, with its
    sandwich standard error; start: intercept without a slope."""
    cumulant, mean, variance = law
    scale = predictor.std()
    design = np.column_stack([np.ones(len(y)), (predictor - predictor.mean()) / scale])

    def log_likelihood(theta: Floats) -> float:
        return float(y @ (design @ theta) - cumulant(design @ theta).sum())

    theta = np.array([start, 0.0])
    value = log_likelihood(theta)
    for _ in range(MAX_STEPS):
        eta = design @ theta
        scores = design * (y - mean(eta))[:, None]
        try:
            steps = np.linalg.solve((design * variance(eta)[:, None]).T @ design, scores.T)
        except np.linalg.LinAlgError:
            return UNKNOWN
        step = steps.sum(axis=1)
        if step @ scores.sum(axis=0) < CONVERGED:
            return around(theta[1] / scale, float(np.sqrt(np.sum(steps[1] ** 2)) / scale))
        while not (new := log_likelihood(theta + step)) >= value and np.abs(step).max() > CONVERGED:
            step = 0.5 * step
        theta = theta + step
        value = new
    return UNKNOWN
