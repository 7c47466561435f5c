from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest

from invariance import (
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    UniformPrior,
)
from invariance.exceptions import ApproximationWarning, EngineError
from invariance.inference.base import RunOptions, Target
from invariance.inference.tempering.engine import Tempering, differences, retuned
from invariance.inference.tempering.ladders import CompiledTarget, Proposals, Replica, block_rules
from invariance.inference.tempering.posterior import TemperingPosterior, agreement_of
from invariance.models.gaussian import GaussianOnDemand, fits_in_memory, moments_bytes
from invariance.posterior import Posterior
from invariance.simulation import example_1, example_2, example_3, p10, p450
from twins import simulated

PRIORS = [
    UniformPrior(),
    UniformPrior(max_size=2),
    InclusionPrior([0.1, 0.9, 0.3, 0.4, 0.5]),
    InclusionPrior({"x0": 1.0, "x2": 0.0, "x1": 0.9}),
    BetaBinomialPrior(1, 3),
]


def run(model: LinearGaussian, prior, engine: Tempering | None = None, seed: int = 0, n_jobs: int | None = None):
    bound = prior.bind(model.feature_names, model.largest_size)
    options = RunOptions(n_jobs=n_jobs, rng=np.random.default_rng(seed), progress=False)
    return (engine or Tempering()).run(Target(model, bound), options)


def exact(model: LinearGaussian, prior) -> Posterior:
    bound = prior.bind(model.feature_names, model.largest_size)
    return Enumeration().run(Target(model, bound), RunOptions(progress=False))


def many_modes(n: int) -> list[MultiEnvironmentData]:
    """Two-feature examples with two invariant subsets, and ten-feature data whose truth is rarely the only one."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        make = (example_1, example_2, example_3)[seed % 3] if seed % 5 == 0 else None
        model = make(2) if make else p10(2 + seed % 2, rng, p=16 if seed % 5 == 1 else 10)
        found.append(model.sample((30, 60, 150)[seed % 3], rng))
    return found


def largest_difference(data: MultiEnvironmentData, engine: Tempering, seed: int) -> float:
    model = LinearGaussian().bind(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        sampled = run(model, UniformPrior(), engine, seed)
    return float(np.abs(sampled.inclusion - exact(model, UniformPrior()).inclusion).max())


def test_inclusion_is_that_of_exact_inference() -> None:
    engine = Tempering(precision=0.002)
    differences_seen = [largest_difference(data, engine, seed) for seed, data in enumerate(many_modes(12))]
    assert max(differences_seen) < 0.01


@pytest.mark.slow
def test_inclusion_is_that_of_exact_inference_on_fifty_data_sets() -> None:
    engine = Tempering(precision=0.002, steps=20_000)
    differences_seen = [largest_difference(data, engine, seed) for seed, data in enumerate(many_modes(50))]
    assert max(differences_seen) < 0.01


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_everything_agrees_with_exact_inference(prior) -> None:
    model = LinearGaussian().bind(simulated(5, (20, 25, 15), seed=20))
    truth, sampled = exact(model, prior), run(model, prior, Tempering(precision=0.003))
    np.testing.assert_allclose(sampled.inclusion, truth.inclusion, atol=0.012)
    assert sampled.log_evidence == pytest.approx(truth.log_evidence, abs=0.03)
    assert sampled.entropy == pytest.approx(truth.entropy, abs=0.05)
    assert sampled.mode == truth.mode
    assert sampled.mode_probability == pytest.approx(truth.mode_probability, rel=0.03)
    assert sampled.n_subsets == truth.n_subsets
    for mask in truth.masks:
        assert sampled.probability(mask) == pytest.approx(truth.probability(mask), rel=0.04, abs=1e-12)
    draws = sampled.sample(2000, random_state=0).to_numpy()
    np.testing.assert_allclose(draws.mean(axis=0), truth.inclusion, atol=0.08)
    forced = prior.bind(model.feature_names, model.largest_size)
    assert sampled.inclusion[forced.forced_in].tolist() == [1.0] * int(forced.forced_in.sum())
    assert sampled.inclusion[forced.forced_out].tolist() == [0.0] * int(forced.forced_out.sum())


def test_one_environment_gives_back_the_prior() -> None:
    several = simulated(6, (20, 20), seed=3)
    data = MultiEnvironmentData.from_arrays(several.X, several.y)
    prior = InclusionPrior([0.1, 0.2, 0.5, 0.7, 0.4, 0.9], max_size=4)
    posterior = run(LinearGaussian().bind(data), prior)
    expected = prior.bind(data.feature_names, 6).inclusion_probabilities()
    np.testing.assert_allclose(posterior.inclusion, expected, atol=0.03)
    assert posterior.log_evidence == 0.0


def test_many_features_are_found() -> None:
    """The published high-dimensional model: 450 features, half of the larger subsets undecidable."""
    rng = np.random.default_rng(11)
    data = p450(10, rng).sample(100, rng)
    posterior = run(LinearGaussian().bind(data), UniformPrior(max_size=20))
    assert isinstance(posterior, TemperingPosterior)
    assert posterior.mode_mask.tolist() == data.truth.tolist()
    assert posterior.diagnostics["converged"]
    assert posterior.diagnostics["replicas_that_found_the_best"] >= 2
    assert len(posterior.diagnostics["swap_rates"]) == len(posterior.diagnostics["inverse_temperatures"]) - 1
    assert posterior.inclusion_errors.max() <= 0.01
    assert "replicas agree" in posterior.notes[0]
    json.loads(posterior.to_json())
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.sample(5, random_state=1), posterior.sample(5, random_state=1))


def test_threads_do_not_change_the_result() -> None:
    model = LinearGaussian().bind(simulated(30, (40, 50, 60), seed=21))
    engine = Tempering(chains=3, steps=100, searches=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        one, three = (run(model, UniformPrior(max_size=6), engine, 5, n_jobs) for n_jobs in (1, 3))
        other = run(model, UniformPrior(max_size=6), engine, 6)
    for name in ("inclusion", "masks", "log_probabilities", "log_evidence"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    assert not np.array_equal(one.inclusion, other.inclusion)


def test_a_short_run_says_that_it_is_short() -> None:
    model = LinearGaussian().bind(simulated(40, (30, 30), seed=8))
    with pytest.warns(ApproximationWarning, match="replicas disagree"):
        posterior = run(model, UniformPrior(), Tempering(chains=2, steps=10, searches=1))
    assert not posterior.diagnostics["converged"]
    assert "the budget of 10 sweeps ended" in posterior.notes[0]


def test_forced_features_that_cannot_be_scored() -> None:
    data = simulated(3, (20, 25), seed=5)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index, feature_names=list("abcd"))
    model = LinearGaussian().bind(LinearGaussian().bind(data).moments)
    with pytest.raises(EngineError, match=r"'a', 'b', 'd' are too collinear .* force fewer in"):
        run(model, InclusionPrior({"a": 1.0, "b": 1.0, "d": 1.0}))
    posterior = run(model, InclusionPrior({"a": 1.0, "b": 1.0}))
    assert posterior.inclusion_probabilities["d"] == 0.0
    assert posterior.probability(["a", "b", "d"]) == 0.0


@pytest.mark.parametrize(
    "settings",
    [
        {"chains": 0},
        {"temperatures": [0.5, 0.4, 1.0]},
        {"temperatures": [0.1, 0.9]},
        {"temperatures": 0},
        {"steps": 0},
        {"block_size": 30},
        {"precision": 0.0},
        {"agreement": 1.0},
        {"searches": 1.5},
    ],
    ids=str,
)
def test_impossible_settings(settings) -> None:
    with pytest.raises(ValueError, match=r"must|too many"):
        Tempering(**settings)


def test_given_temperatures_are_kept() -> None:
    model = LinearGaussian().bind(simulated(5, (20, 25), seed=1))
    assert run(model, UniformPrior(), Tempering(temperatures=[0.2, 1.0])).diagnostics["inverse_temperatures"] == [
        0.2,
        1,
    ]
    assert len(run(model, UniformPrior(), Tempering(temperatures=3)).diagnostics["inverse_temperatures"]) == 3
    assert run(model, UniformPrior(), Tempering(temperatures=1)).diagnostics["swap_rates"] == []


def test_agreement_tells_drifting_from_settled_replicas() -> None:
    rng = np.random.default_rng(0)
    settled = agreement_of(0.5 + 0.05 * rng.normal(size=(4, 20, 3)))
    assert settled.reached(0.01, 1.05)
    np.testing.assert_allclose(settled.standard_error, 0.05 / np.sqrt(80), rtol=0.8)
    torn = np.zeros((4, 20, 3))
    torn[:2] = 1.0
    assert agreement_of(torn).largest_r_hat > 100
    assert agreement_of(torn).largest_error > 0.1
    assert not agreement_of(np.full((1, 1, 2), 0.5)).reached(0.01, 1.05)


def test_ladder_is_cut_into_equal_barriers() -> None:
    betas = np.geomspace(0.01, 1.0, 5)
    tuned = retuned(betas, np.array([0.0, 0.0, 0.9, 0.0]), free_number=False)
    assert len(tuned) == 5
    assert (np.diff(tuned) > 0).all()
    assert ((tuned > betas[2]) & (tuned < betas[3])).sum() == 3
    assert len(retuned(betas, np.full(4, 0.9), free_number=True)) == 7


def test_differences_leave_out_what_single_flips_reach() -> None:
    modes = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(differences(modes), [[True, True, True, False]])
    assert differences(modes[:1]).shape == (0, 4)


def test_every_feature_keeps_its_turn_in_blocks() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 60), seed=2))
    target = CompiledTarget.of(
        Target(model, InclusionPrior({"x3": 0.0, "x4": 1.0}, max_size=5).bind(model.feature_names))
    )
    interest = np.zeros(41)
    interest[7] = 1.0
    following, fixed = block_rules(target, interest, 12)
    for rule in (following, fixed):
        assert (rule.chance[[3, 4, 40]] == 0.0).all()
        assert (rule.chance[target.prior.free] > 0.02).all()
        assert rule.chance[7] == rule.chance.max() <= 0.9
    assert fixed.chance.sum() == pytest.approx(9.0, rel=1e-3)
    assert block_rules(target, interest, 38)[1].chance.tolist() == target.prior.free.tolist()


def test_search_leaves_a_subset_at_every_temperature() -> None:
    model = LinearGaussian().bind(simulated(12, (60, 60), seed=2))
    target = CompiledTarget.of(Target(model, UniformPrior().bind(model.feature_names)))
    replica = Replica(target, np.random.default_rng(0))
    rules = block_rules(target, np.zeros(13), 6)
    replica.search(Proposals(np.geomspace(0.1, 1.0, 4), rules, np.zeros((0, 13), bool)), 5)
    assert replica.included.shape == (4, 13)
    np.testing.assert_allclose(replica.log_ratios, model.log_ratio_many(replica.included[:, :12]), rtol=1e-12)
    best = exact(model, UniformPrior())
    assert replica.best.included[:12].tolist() == best.mode_mask.tolist()


def with_knockout(p: int) -> MultiEnvironmentData:
    data = simulated(p, (30, 40, 35), seed=9, scale=10.0)
    X = data.X.copy()
    X[data.rows(1), 2] = 7.0
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def test_second_moments_on_demand_give_the_same_numbers() -> None:
    data = with_knockout(8)
    dense, rows = LinearGaussian().bind(data), GaussianOnDemand(data)
    masks = np.random.default_rng(0).random((60, 8)) < 0.4
    np.testing.assert_allclose(rows.log_ratio_many(masks), dense.log_ratio_many(masks), atol=1e-9)
    np.testing.assert_allclose(rows.rescore(masks), dense.rescore(masks), atol=1e-9)
    assert rows.largest_size == dense.largest_size


@pytest.mark.slow  # the kernels compile a second time
@pytest.mark.parametrize("kept", [64, 9])
def test_sampling_without_a_matrix_of_second_moments(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Also when the cache is so small that it is emptied again and again."""
    monkeypatch.setattr("invariance.models.gaussian._CACHE_BYTES", 0.0)
    monkeypatch.setattr("invariance.models.gaussian._FEWEST_KEPT", kept)
    data = with_knockout(20)
    engine, prior = Tempering(chains=2, steps=200, searches=1), UniformPrior(max_size=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        one = run(GaussianOnDemand(data), prior, engine, 3, n_jobs=2)
        other = run(LinearGaussian().bind(data), prior, engine, 3)
    assert one.mode == other.mode
    np.testing.assert_allclose(one.inclusion, other.inclusion, atol=0.1)
    assert fits_in_memory(data)
    assert moments_bytes(data) == LinearGaussian().bind(data).moments.scatter.nbytes
