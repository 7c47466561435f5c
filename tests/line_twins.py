"""The line of all features from rows, by dense matrices; and environments whose intercepts
differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar


def shifted(
    n_environments: int = 5, n: int = 30, k: int = 3, seed: int = 0, effect: float = 1.0
) -> Any:
    """X, y and labels: intercepts and means of features differ between environments."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(env), k)) + rng.normal(size=(n_environments, k))[env]
    y = (
        X @ np.linspace(1.0, -0.5, k)
        + effect * rng.normal(size=n_environments)[env]
        + rng.normal(size=len(env))
    )
    return X, y, env


def mixed_by_rows(X: np.ndarray, y: np.ndarray, env: np.ndarray) -> tuple[np.ndarray, float]:
    """Fixed part with the intercept last, and ψ, by restricted maximum likelihood with N × N
    matrices."""
    W = np.column_stack([X, np.ones(len(y))])
    member = (env[:, None] == np.unique(env)).astype(float)

    def fit(ratio: float) -> tuple[float, np.ndarray]:
        V = np.eye(len(y)) + ratio * member @ member.T
        weighted = np.linalg.solve(V, W)
        b = np.linalg.solve(W.T @ weighted, weighted.T @ y)
        rss = (y - W @ b) @ np.linalg.solve(V, y - W @ b)
        volumes = np.linalg.slogdet(V)[1] + np.linalg.slogdet(W.T @ weighted)[1]
        return (len(y) - W.shape[1]) * np.log(rss) + volumes, b

    found = minimize_scalar(
        lambda log: fit(np.exp(log))[0], bounds=(-15, 10), options={"xatol": 1e-8}
    )
    ratio = float(np.exp(found.x)) if found.fun < fit(0.0)[0] else 0.0
    return fit(ratio)[1], ratio


def line_by_rows(X: np.ndarray, y: np.ndarray, env: np.ndarray) -> np.ndarray:
    """Half of both, with the intercept last."""
    pooled = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    return 0.5 * (pooled + mixed_by_rows(X, y, env)[0])
