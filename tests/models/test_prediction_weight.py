"""The reward for prediction: p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2)."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from conformance_cases import table
from invariance import (
    BIP,
    BetaBinomialPrior,
    Enumeration,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.inference.base import RunOptions, Target
from invariance.posterior.posterior import Judge
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


def test_no_reward_is_the_papers() -> None:
    data, masks = simulated(6), all_masks(6)
    model = LinearGaussian(prediction=0).bind(data)
    assert model.untilted is model
    assert model.describe().model == "linear Gaussian"
    np.testing.assert_array_equal(model.log_ratio_many(masks), LinearGaussian().bind(data).log_ratio_many(masks))
    assert LinearGaussian(prediction=0.1).bind(data).describe().model == "linear Gaussian, prediction rewarded by 0.1"


@pytest.mark.parametrize("engine", [Enumeration(), Tempering(chains=2, searches=2), Variational(iterations=300)])
def test_reports_remain_about_invariance(engine) -> None:
    data = table(False, binary=False)
    target = target_of(data)
    posterior = engine.run(target, RunOptions(1, np.random.default_rng(0), False))
    paper = LinearGaussian().bind(data)
    np.testing.assert_allclose(posterior.log_ratios, paper.log_ratio_many(posterior.masks), atol=1e-8)
    everything = np.ones(data.n_features, dtype=bool)
    assert asdict(posterior.evidence(everything)) == asdict(Judge(paper).evidence(everything[None]).one())
    assert posterior.credible_subsets(0.99)["log_ratio"].max() <= 0.0
    if isinstance(engine, Variational):
        table_of = posterior.reweighted
        np.testing.assert_allclose(table_of.log_ratios, paper.log_ratio_many(table_of.masks), atol=1e-8)


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


def test_with_one_environment_the_reward_is_all_there_is() -> None:
    several = simulated(4, (30, 30), 3)
    data = MultiEnvironmentData.from_arrays(several.X, several.y)
    target = target_of(data, 0.1)
    masks = all_masks(4)
    joint = np.array([0.1 * gain(data, mask) for mask in masks]) - np.log(16.0)
    for engine, tolerance in ((Enumeration(), 1e-9), (Tempering(chains=2, searches=2), 0.1)):
        posterior = engine.run(target, RunOptions(1, np.random.default_rng(0), False))
        assert posterior.log_evidence == pytest.approx(np.logaddexp.reduce(joint), abs=tolerance)


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


def test_the_predictive_posterior_does_not_know_the_reward() -> None:
    data = table(False, binary=False)
    prior = BetaBinomialPrior(max_size=4)
    one, two = (
        BIP(prior=prior, family=LinearGaussian(prediction=reward), progress=False).fit(data).predictive_
        for reward in (0.0, REWARD)
    )
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    np.testing.assert_array_equal(one.log_ratios, two.log_ratios)
