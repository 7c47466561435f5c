"""Plain twins of the meta-analysis of effects, one effect at a time, by matrices and a general
optimiser."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import t


class MetaAnalysis(NamedTuple):
    tau2: float
    i2: float
    q: float
    mean: float
    standard_error: float
    hartung_knapp: float


def restricted_likelihood(tau2: float, values: NDArray, errors: NDArray) -> float:
    """Of y ~ Normal(μ1, diag(s² + τ²)): −½(log|V| + log|1'V⁻¹1| + y'Py), P = V⁻¹ −
    V⁻¹1(1'V⁻¹1)⁻¹1'V⁻¹"""
    inverse = np.linalg.inv(np.diag(errors**2 + tau2))
    one = np.ones((len(values), 1))
    information = one.T @ inverse @ one
    P = inverse - inverse @ one @ np.linalg.inv(information) @ one.T @ inverse
    return float(
        0.5
        * (np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(information)[1] - values @ P @ values)
    )


def restricted_slope(tau2: float, values: NDArray, errors: NDArray) -> float:
    """½(y'PPy − tr P), the derivative of the restricted likelihood (Viechtbauer 2005)"""
    inverse = np.linalg.inv(np.diag(errors**2 + tau2))
    one = np.ones((len(values), 1))
    P = inverse - inverse @ one @ np.linalg.inv(one.T @ inverse @ one) @ one.T @ inverse
    return float(0.5 * (values @ P @ P @ values - np.trace(P)))


def meta_analysis(values: NDArray, errors: NDArray) -> MetaAnalysis:
    """The best of several local maxima over the standard deviation, and of none."""
    largest = np.ptp(values) + 1e-12
    ends = np.linspace(0.0, 2.0 * largest, 41)
    found = [
        minimize_scalar(
            lambda tau: -restricted_likelihood(tau**2, values, errors),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-12 * largest},
        )
        for low, high in pairwise(ends)
    ]
    best = min(found, key=lambda each: each.fun)
    tau2 = float(best.x**2)
    if restricted_likelihood(0.0, values, errors) >= -best.fun:
        tau2 = 0.0
    fixed = errors**-2.0
    random = 1.0 / (errors**2 + tau2)
    n = len(values)
    q = float(fixed @ (values - np.average(values, weights=fixed)) ** 2)
    typical = (n - 1) * fixed.sum() / (fixed.sum() ** 2 - (fixed**2).sum())
    mean = float(np.average(values, weights=random))
    plain = float(random.sum() ** -0.5)
    hartung_knapp = float(np.sqrt(random @ (values - mean) ** 2 / (n - 1) / random.sum()))
    return MetaAnalysis(tau2, float(tau2 / (tau2 + typical)), q, mean, plain, hartung_knapp)


def prediction_interval(found: MetaAnalysis, n: int, coverage: float = 0.95) -> tuple[float, float]:
    margin = t.ppf(0.5 + coverage / 2, n - 2) * np.sqrt(
        found.tau2 + max(found.standard_error, found.hartung_knapp) ** 2
    )
    return found.mean - margin, found.mean + margin
