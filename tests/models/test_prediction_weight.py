"""The reward for prediction: p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance_cases import table
from invariance import (
    Enumeration,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.inference.base import RunOptions, Target
from twins import all_masks, half_n_log_variance, log_ratio, simulated

REWARD = 0.3
pytestmark = [
    pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning"),
    pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning"),
    pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning"),
]


def gain(data: MultiEnvironmentData, columns: np.ndarray) -> float:
    return half_n_log_variance(data.X[:, :0], data.y) - half_n_log_variance(data.X[:, columns], data.y)


def rewarded(data: MultiEnvironmentData, columns: np.ndarray) -> float:
    return log_ratio(data, columns) + REWARD * gain(data, columns)


def target_of(data: MultiEnvironmentData | Moments, reward: float = REWARD) -> Target:
    model = LinearGaussian(prediction=reward).bind(data)
    return Target(model, UniformPrior().bind(model.feature_names, model.largest_size))


@pytest.mark.parametrize("second_moments", ["all", "on demand", "alone"])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_pooled_fit_is_rewarded(second_moments: str, grouped: bool) -> None:
    data = table(grouped, binary=False)
    family = LinearGaussian(prediction=REWARD)
    if second_moments == "alone":
        model = family.bind(Moments.from_data(data))
    else:
        model = replace(family, second_moments=second_moments).bind(data)
    masks = all_masks(data.n_features)
    expected = [rewarded(data, columns) for columns in data.features.expand(masks)]
    assert max(expected) > 0.0
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, atol=1e-8)
    plain = [log_ratio(data, columns) for columns in data.features.expand(masks)]
    np.testing.assert_allclose(model.untilted.log_ratio_many(masks), plain, atol=1e-8)
    if model.rescore(masks) is not None:
        np.testing.assert_allclose(model.rescore(masks), expected, atol=1e-8)


@pytest.mark.parametrize("engine", [Enumeration(), Tempering(chains=2, searches=2), Variational(iterations=300)])
def test_the_verdict_is_about_invariance(engine) -> None:
    """A reward that makes every value positive does not make a subset look invariant."""
    rng = np.random.default_rng(1)
    environment = np.repeat(range(3), 60)
    X = rng.normal(size=(180, 4))
    y = np.array([3.0, -3.0, 0.5])[environment] * X[:, 0] + 5.0 * X[:, 1] + 4.0 * environment + rng.normal(size=180)
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    target = target_of(data, 3.0)
    posterior = engine.run(target, RunOptions(1, np.random.default_rng(0), False))
    assert target.model.log_ratio_many(posterior.masks[:1])[0] > 0.0
    assert posterior.verdict is not None
    assert posterior.verdict.log_ratio == pytest.approx(log_ratio(data, posterior.masks[0]))


def test_in_a_search_a_collinear_column_costs_also_where_values_are_positive() -> None:
    data = simulated(3, (40, 45), 5)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    moments = Moments.from_data(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    model = LinearGaussian(prediction=5.0).bind(moments)
    within, beyond = np.array([True, True, True, False]), np.ones(4, dtype=bool)
    (value,) = model.log_ratio_many(within[None])
    assert value > 0.0
    assert model.log_ratio_many(beyond[None])[0] == -np.inf
    assert model.search_ratio_many(beyond[None])[0] == pytest.approx(value / 1.05)
