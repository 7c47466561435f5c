"""Data for regressions, and some on which they are easily wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from invariance import MultiEnvironmentData
from invariance.models.base import BoundModel, Level

Table = tuple[NDArray, NDArray, NDArray]
# How often each row counts with the pooled mean as its outcome where counts have pseudo-data.
GUARD = 1e-6


@dataclass(frozen=True)
class AtEffects:
    """A family whose models have a baseline of their own in each environment."""

    family: Any

    def bind(self, data: MultiEnvironmentData, n_jobs: int | None = None) -> BoundModel:
        return self.family.bind(data, n_jobs).at_level(Level.effects)


def regression_data(X: NDArray, y: NDArray, environment: NDArray) -> MultiEnvironmentData:
    """As from_arrays, also with outcomes that are constant inside an environment."""
    stand_in = np.random.default_rng(0).normal(size=len(y))
    return replace(
        MultiEnvironmentData.from_arrays(X, stand_in, environment), y=np.asarray(y, dtype=float)
    )


def plain_table(
    counts: bool, n: int = 60, n_environments: int = 3, p: int = 5, seed: int = 0
) -> Table:
    """X, y and environments: y follows x0 and x1 alike everywhere, the last feature follows y,
    differently in each."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(n_environments), n)
    X = (
        rng.normal(size=(len(environment), p))
        + 0.5 * rng.normal(size=(n_environments, p))[environment]
    )
    predictor = 0.8 * X[:, 0] - 0.6 * X[:, 1]
    y = (
        rng.poisson(np.exp(0.5 * predictor))
        if counts
        else rng.random(len(X)) < 1.0 / (1.0 + np.exp(-predictor))
    )
    X[:, -1] += np.linspace(-1.0, 1.0, n_environments)[environment] * y
    return X, y.astype(float), environment


def constant_somewhere(X: NDArray, y: NDArray, environment: NDArray) -> Table:
    X = X.copy()
    X[environment == 1, 2] = 2.0
    X[environment != 0, 3] = 0.0
    return X, y, environment


def hardly_any_rows(X: NDArray, y: NDArray, environment: NDArray) -> Table:
    kept = np.flatnonzero((environment > 0) | (np.arange(len(y)) < 7))
    return X[kept], y[kept], environment[kept]


NOISE, MIXED = (np.random.default_rng(seed).normal(size=(k, 10)) for seed, k in ((8, 180), (9, 3)))
UNITS = 10.0 ** np.array([12, -12, 6, 0, -6])
MEANS = np.array([1e12, 0, -1e8, 1e3, 0])
# {what is hard: a table made from another one}
HARD: dict[str, Callable[[NDArray, NDArray, NDArray], Table]] = {
    "separated": lambda X, y, e: (X, (X[:, 0] + X[:, 1] > 0.0).astype(float), e),
    "separated in one": lambda X, y, e: (X, np.where(e == 0, X[:, 0] > 0.0, y).astype(float), e),
    "none in one": lambda X, y, e: (X, np.where(e == 1, 0.0, y), e),
    "all in one": lambda X, y, e: (X, np.where(e == 1, 1.0, y), e),
    "one event": lambda X, y, e: (X, np.eye(len(y))[7], e),
    "constant somewhere": constant_somewhere,
    "huge scales": lambda X, y, e: (X * UNITS + MEANS, y, e),
    "ten collinear": lambda X, y, e: (X[:, [0] * 10] + 1e-4 * NOISE, y, e),
    "ten of rank three": lambda X, y, e: (X[:, :3] @ MIXED, y, e),
    "duplicates": lambda X, y, e: (X[:, [0, 1, 0, 0, 1]], y, e),
    "hardly any rows": hardly_any_rows,
}


def grouped_log_likelihood(
    counts: bool,
    X: NDArray,
    y: NDArray,
    environment: NDArray,
    common_level: bool,
    pseudo_rows: float = 1.0,
) -> float:
    """The largest log-likelihood with common slopes, and one intercept or one for each environment,
    by scipy."""
    labels, codes = np.unique(environment, return_inverse=True)
    # Of counts, pseudo-data are at the pooled fit and do not move it.
    extra = np.full(len(y), GUARD) if counts else pseudo_rows / np.bincount(codes)[codes]
    level = (
        np.ones((len(y), 1))
        if common_level
        else (codes[:, None] == np.arange(len(labels))).astype(float)
    )
    design = np.column_stack([X, level])
    weight = 1.0 + extra
    outcome = y + extra * y.mean()

    def loss(theta: NDArray) -> tuple[float, NDArray]:
        eta = design @ theta
        if counts:
            mean = weight * np.exp(eta)
            value = weight @ np.exp(eta)
        else:
            mean = weight / (1.0 + np.exp(-eta))
            value = weight @ np.logaddexp(0.0, eta)
        return float(value - outcome @ eta), design.T @ (mean - outcome)

    return -float(
        minimize(
            loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-8}
        ).fun
    )
