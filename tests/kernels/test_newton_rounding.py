"""Reported log ratios where rounding hides what the last steps gain: local fits go by the hazards of the pooled one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from invariance import MultiEnvironmentData, PiecewiseExponential
from survival_twins import hazards_of, log_likelihood, split
from twins import all_masks


def followed(p: int = 7, n: int = 120, n_environments: int = 4) -> MultiEnvironmentData:
    """Three causes, and three features that follow the time closely, differently in each environment"""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), p)) + 0.6 * rng.normal(size=(n_environments, p))[environment]
    times = rng.exponential(size=len(X)) * np.exp(-X[:, :3] @ [0.8, -0.6, 0.4])
    leaves = rng.exponential(2.0 * np.median(times), len(X))
    for j in (3, 4, 5):
        X[:, j] = rng.uniform(-2.0, 3.0, n_environments)[environment] * np.log(times) + 0.3 * rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, np.minimum(times, leaves), environment, event=times <= leaves)


def climbed(events: NDArray, watched: NDArray, X: NDArray) -> tuple[float, NDArray]:
    """Largest log-likelihood and its hazards, by Newton's steps that are told by the score alone"""
    theta, counts = np.zeros(X.shape[1]), events.sum(axis=0)
    for _ in range(40):
        risk, hazards = np.exp(X @ theta), hazards_of(events, watched, X @ theta)
        mean = risk * (watched @ hazards)
        means = (X * risk[:, None]).T @ watched * hazards / counts
        step = np.linalg.solve((X * mean[:, None]).T @ X - counts * means @ means.T, X.T @ (events.sum(axis=1) - mean))
        theta = theta + step / max(1.0, np.abs(X @ step).max() / 2.0)
    hazards = hazards_of(events, watched, X @ theta)
    return log_likelihood(events, watched, X @ theta, hazards), hazards


def test_reported_log_ratios() -> None:
    data, specification = followed(), PiecewiseExponential()
    parts, masks = split(data, specification), all_masks(7)[1:]
    intervals = np.eye(parts.group.max() + 1)[parts.group]
    found = specification.bind(data).log_ratio_many(masks)
    for mask, value in zip(masks[::3], found[::3], strict=True):
        X = (data.X[:, mask] - data.X[:, mask].mean(axis=0)) / data.X[:, mask].std(axis=0)
        expected, hazards = climbed(parts.events, parts.watched, X)
        for e in range(4):
            rows = data.rows(e)
            events, watched = parts.events[rows], parts.watched[rows] * hazards
            expected -= climbed(events @ intervals, watched @ intervals, X[rows])[0]
            expected -= events.sum(axis=0) @ np.log(hazards)
        assert value == pytest.approx(expected, abs=1e-8)
