"""Walks over all subsets, and what is reported, on many small tables: where Newton's method may stop too early."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import Logistic, MultiEnvironmentData, PiecewiseExponential, Poisson
from invariance.inference.enumeration import all_log_ratios
from invariance.models.regression import READ, RegressionModel
from twins import all_masks

P = 4


def table(seed: int, n: int, n_environments: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    site = np.repeat(range(n_environments), n)
    return rng, rng.normal(size=(len(site), P)) + site[:, None], site


def survival(seed: int) -> RegressionModel:
    rng, X, site = table(seed, 20, 2)
    time, censored = rng.exponential(size=len(X)) * np.exp(-X[:, 0]), rng.exponential(2.0, len(X))
    event = (time <= censored).astype(float)
    data = MultiEnvironmentData.from_arrays(X, np.minimum(time, censored), site, event=event)
    return PiecewiseExponential().bind(data)


def nearly_separated(seed: int) -> RegressionModel:
    rng, X, site = table(seed, 12, 3)
    y = rng.random(len(X)) < 1.0 / (1.0 + np.exp(X[:, 1] - X[:, 0]))
    return Logistic(pseudo_rows=0.0).bind(MultiEnvironmentData.from_arrays(X, y.astype(float), site))


def counts(seed: int) -> RegressionModel:
    rng, X, site = table(seed, 12, 3)
    y = rng.poisson(np.exp(0.4 * (X[:, 0] - X[:, 1]))).astype(float)
    return Poisson().bind(MultiEnvironmentData.from_arrays(X, y, site))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_of", [survival, nearly_separated, counts])
def test_walks_and_reported_values(model_of: object) -> None:
    for seed in range(15):
        model = model_of(seed)
        reported = model.scores(all_masks(P)).log_ratio
        np.testing.assert_allclose(all_log_ratios(model), reported, atol=1e-3)
        np.testing.assert_allclose(reported, model.scores(all_masks(P), READ).log_ratio, atol=1e-8)
