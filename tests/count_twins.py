"""Negative binomial likelihoods in plain NumPy, and data to compare them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from invariance import MultiEnvironmentData
from regression_cases import GUARD, regression_data


def log_density(y: np.ndarray, mean: np.ndarray, alpha: float) -> np.ndarray:
    """Of counts or fractions y, negative binomial with variance mean + alpha·mean²; Poisson where
    alpha is 0."""
    if alpha == 0.0:
        return y * np.log(mean) - mean - gammaln(y + 1.0)
    s = 1.0 / alpha
    rising = gammaln(y + s) - gammaln(s) - gammaln(y + 1.0)
    return rising + y * np.log(alpha * mean) - (y + s) * np.log1p(alpha * mean)


class Group(NamedTuple):
    """Rows X (n, k), counts y, exposure, and `rate` with how often a row counts with it; pseudo (2,
    n): outcome and weight of Poisson counts with the same means"""

    X: np.ndarray
    y: np.ndarray
    exposure: np.ndarray
    rate: float
    guard: float
    pseudo: np.ndarray

    def log_likelihood(self, beta: np.ndarray, alpha: float) -> float:
        eta = self.X @ beta
        mean = self.exposure * np.exp(eta)
        rows = log_density(self.y, mean, alpha)
        rows += (
            self.guard * log_density(self.rate * self.exposure, mean, alpha) if self.guard else 0.0
        )
        return float(np.sum(rows + self.pseudo[0] * eta - self.pseudo[1] * mean))

    def gradient(self, beta: np.ndarray, alpha: float) -> np.ndarray:
        """By beta and, last, by alpha > 0."""
        mean = self.exposure * np.exp(self.X @ beta)
        s = 1.0 / alpha
        grown = 1.0 + alpha * mean

        def parts(count: np.ndarray) -> tuple[np.ndarray, float]:
            by_s = digamma(count + s) - digamma(s) - np.log(grown)
            return (count - mean) / grown, float(
                np.sum(-by_s * s**2 + (count - mean) / (alpha * grown))
            )

        rows, alone = parts(self.y)
        guard, guard_alone = parts(self.rate * self.exposure)
        by_eta = rows + self.guard * guard + self.pseudo[0] - self.pseudo[1] * mean
        return np.append(self.X.T @ by_eta, alone + self.guard * guard_alone)

    def pulled(self, share: float, beta: np.ndarray, alpha: float) -> Group:
        """With pseudo-data of this weight at a fit"""
        mean = self.exposure * np.exp(self.X @ beta)
        weight = share / (1.0 + alpha * mean)
        return self._replace(pseudo=np.array([weight * mean, weight]))


def largest(groups: list[Group], smallest: float = 1e-6) -> tuple[float, np.ndarray]:
    """Of the sum of the log-likelihoods of groups by beta and alpha, which has to be above
    `smallest`; and where."""
    k = groups[0].X.shape[1]
    y, exposure = (np.concatenate([group[i] for group in groups]) for i in (1, 2))
    theta = np.zeros(k + 1)
    theta[0] = np.log((y.sum() + 0.5) / exposure.sum())
    theta[-1] = 0.5

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = theta[:-1], float(theta[-1])
        return -sum(group.log_likelihood(*at) for group in groups), -sum(
            group.gradient(*at) for group in groups
        )

    for _ in range(3):
        bounds = [(None, None)] * k + [(smallest, 1e6)]
        options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
        theta = minimize(
            value, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        ).x
    if theta[-1] > 1.01 * smallest:
        theta = newton(lambda at: value(at)[1], theta)
    return -value(theta)[0], theta


def newton(gradient: Callable[[np.ndarray], np.ndarray], theta: np.ndarray) -> np.ndarray:
    """The last digits of a minimum, which L-BFGS-B leaves to the rounding; by differences of the
    gradient"""
    step = 1e-5
    for _ in range(3):
        each = step * np.eye(len(theta))
        curvature = np.array([gradient(theta + e) - gradient(theta - e) for e in each]) / (
            2.0 * step
        )
        theta = theta - np.linalg.solve(curvature + curvature.T, 2.0 * gradient(theta))
    return theta


def log_ratio(data: MultiEnvironmentData, mask: np.ndarray, pseudo_rows: float) -> float:
    """log Λ by optimisation from scipy"""
    exposure = np.ones(data.n_rows) if data.exposure is None else data.exposure
    rate = data.y.sum() / exposure.sum()
    guard = GUARD if pseudo_rows else 0.0
    design = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
    parts = [data.rows(e) for e in range(data.n_environments)]
    plain = [
        Group(design[own], data.y[own], exposure[own], rate, guard, np.zeros((2, len(own))))
        for own in parts
    ]
    _, theta = largest(plain)
    groups = [group.pulled(pseudo_rows / len(group.y), theta[:-1], theta[-1]) for group in plain]
    return sum(group.log_likelihood(theta[:-1], theta[-1]) for group in groups) - sum(
        largest([group])[0] for group in groups
    )


def counted(
    seed: int = 0,
    counts: tuple[int, ...] = (60, 50, 70),
    p: int = 4,
    alpha: float = 0.5,
    mean: float = 3.0,
    exposed: bool = False,
) -> MultiEnvironmentData:
    """Counts that follow x0 and x1 alike everywhere; the last feature follows the count,
    differently."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(len(counts)), counts)
    X = (
        rng.normal(size=(len(environment), p))
        + 0.5 * rng.normal(size=(len(counts), p))[environment]
    )
    exposure = np.exp(rng.normal(size=len(X))) if exposed else np.ones(len(X))
    rate = mean * exposure * np.exp(0.5 * X[:, 0] - 0.4 * X[:, 1])
    y = rng.poisson(rate * (rng.gamma(1 / alpha, alpha, len(X)) if alpha else 1.0)).astype(float)
    X[:, -1] += np.linspace(-0.5, 1.5, len(counts))[environment] * np.log1p(y)
    data = regression_data(X, y, environment)
    return replace(data, exposure=exposure) if exposed else data
