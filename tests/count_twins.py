"""Negative binomial likelihoods in plain NumPy, and data to compare them on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from invariance import MultiEnvironmentData
from regression_cases import regression_data


def log_density(y: np.ndarray, mean: np.ndarray, alpha: float) -> np.ndarray:
    """Of counts or fractions y, negative binomial with variance mean + alpha·mean²; Poisson where alpha is 0."""
    if alpha == 0.0:
        return y * np.log(mean) - mean - gammaln(y + 1.0)
    s = 1.0 / alpha
    rising = gammaln(y + s) - gammaln(s) - gammaln(y + 1.0)
    return rising + y * np.log(alpha * mean) - (y + s) * np.log1p(alpha * mean)


def log_likelihood(
    X: np.ndarray, y: np.ndarray, exposure: np.ndarray, rate: float, share: float, beta: np.ndarray, alpha: float
) -> float:
    """Of rows, and of the same rows with the count rate·exposure at the weight `share`."""
    mean = exposure * np.exp(X @ beta)
    pseudo = share * log_density(rate * exposure, mean, alpha) if share else 0.0
    return float(np.sum(log_density(y, mean, alpha) + pseudo))


def gradient(
    X: np.ndarray, y: np.ndarray, exposure: np.ndarray, rate: float, share: float, beta: np.ndarray, alpha: float
) -> np.ndarray:
    """By beta and, last, by alpha > 0."""
    mean, s = exposure * np.exp(X @ beta), 1.0 / alpha
    grown = 1.0 + alpha * mean

    def parts(count: np.ndarray) -> tuple[np.ndarray, float]:
        by_s = digamma(count + s) - digamma(s) - np.log(grown)
        return (count - mean) / grown, float(np.sum(-by_s * s**2 + (count - mean) / (alpha * grown)))

    rows, alone = parts(y)
    pseudo, pseudo_alone = parts(rate * exposure)
    return np.append(X.T @ (rows + share * pseudo), alone + share * pseudo_alone)


def largest(groups: list[tuple[np.ndarray, np.ndarray, np.ndarray, float, float]], smallest: float = 1e-6) -> float:
    """Of the sum of the log-likelihoods of groups of rows (the first arguments of `log_likelihood`), by beta and alpha,
    which has to be above `smallest`."""
    k = groups[0][0].shape[1]
    y, exposure = (np.concatenate([group[i] for group in groups]) for i in (1, 2))
    start = np.zeros(k + 1)
    start[0], start[-1] = np.log((y.sum() + 0.5) / exposure.sum()), 0.5

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        arguments = theta[:-1], float(theta[-1])
        slopes = np.sum([gradient(*group, *arguments) for group in groups], axis=0)
        return -sum(log_likelihood(*group, *arguments) for group in groups), -slopes

    for _ in range(3):
        bounds = [(None, None)] * k + [(smallest, 1e6)]
        options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
        start = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return -value(start)[0]


def log_ratio(data: MultiEnvironmentData, mask: np.ndarray, pseudo_rows: float) -> float:
    """log Λ by optimisation from scipy"""
    exposure = np.ones(data.n_rows) if data.exposure is None else data.exposure
    rate = data.y.sum() / exposure.sum()
    design = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
    parts = [data.rows(e) for e in range(data.n_environments)]
    groups = [(design[own], data.y[own], exposure[own], rate, pseudo_rows / len(own)) for own in parts]
    return largest(groups) - sum(largest([group]) for group in groups)


def counted(
    seed: int = 0,
    counts: tuple[int, ...] = (60, 50, 70),
    p: int = 4,
    alpha: float = 0.5,
    mean: float = 3.0,
    exposed: bool = False,
) -> MultiEnvironmentData:
    """Counts that follow x0 and x1 alike everywhere; the last feature follows the count, differently."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(len(counts)), counts)
    X = rng.normal(size=(len(environment), p)) + 0.5 * rng.normal(size=(len(counts), p))[environment]
    exposure = np.exp(rng.normal(size=len(X))) if exposed else np.ones(len(X))
    rate = mean * exposure * np.exp(0.5 * X[:, 0] - 0.4 * X[:, 1])
    y = rng.poisson(rate * (rng.gamma(1 / alpha, alpha, len(X)) if alpha else 1.0)).astype(float)
    X[:, -1] += np.linspace(-0.5, 1.5, len(counts))[environment] * np.log1p(y)
    data = regression_data(X, y, environment)
    return replace(data, exposure=exposure) if exposed else data
