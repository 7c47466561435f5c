"""Data on which regressions are easily wrong, and their log-likelihoods in plain NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from invariance import MultiEnvironmentData
from invariance.data.features import Features


def regression_data(
    X: NDArray, y: NDArray, environment: NDArray, groups: dict[str, tuple[str, ...]] | None = None
) -> MultiEnvironmentData:
    """As from_arrays, also with outcomes that are constant inside an environment."""
    stand_in = np.random.default_rng(0).normal(size=len(y))
    data = replace(MultiEnvironmentData.from_arrays(X, stand_in, environment), y=np.asarray(y, dtype=float))
    if groups is None:
        return data
    features = Features.of(data.feature_names, groups)
    return replace(data, feature_names=features.names, original_features=features.names, grouping=features)


def plain_table(counts: bool, n: int = 60, n_environments: int = 3, p: int = 5, seed: int = 0) -> tuple[NDArray, ...]:
    """X, y and environments: y follows x0 and x1 alike everywhere, the last feature follows y, differently in each."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(environment), p)) + 0.5 * rng.normal(size=(n_environments, p))[environment]
    predictor = 0.8 * X[:, 0] - 0.6 * X[:, 1]
    y = rng.poisson(np.exp(0.5 * predictor)) if counts else rng.random(len(X)) < 1.0 / (1.0 + np.exp(-predictor))
    X[:, -1] += np.linspace(-1.0, 1.0, n_environments)[environment] * y
    return X, y.astype(float), environment


def log_likelihood(counts: bool, y: NDArray, weight: NDArray, predictor: NDArray) -> float:
    """Σ weight·log p(y), less what does not depend on the predictor; y: with its pseudo-data, by weight"""
    if counts:
        return float(np.sum(weight * (y * predictor - np.exp(predictor))))
    return float(np.sum(weight * (y * predictor - np.logaddexp(0.0, predictor))))
