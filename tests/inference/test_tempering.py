"""Runs of parallel tempering against exact inference, compiled or not, and what they say of
themselves."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from invariance import (
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    UniformPrior,
)
from invariance.data.features import Features
from invariance.exceptions import ApproximationWarning
from invariance.inference import tempering
from invariance.inference.base import RunOptions, Target
from invariance.inference.mode_search import Searched
from invariance.inference.replicas import Proposals, block_rules, sampler_of
from invariance.inference.tempering import (
    DrawnSource,
    Tempering,
    Visited,
    agreement_of,
    by_revisits,
    differences,
    retuned,
)
from quadratic_toy import Toy, TwoModes, brute_force, run, target_of
from twins import simulated


@pytest.mark.parametrize(
    "model", [TwoModes(9), Toy(9, seed=2, hole=(0, 3))], ids=["two far modes", "hole"]
)
def test_models_without_a_compiled_scorer_agree_with_brute_force(model: Toy) -> None:
    target = target_of(model)
    masks, probabilities, evidence = brute_force(target)
    posterior = run(model, UniformPrior(), Tempering(precision=0.015))
    np.testing.assert_allclose(posterior.inclusion, probabilities @ masks, atol=0.03)
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.1)
    draws = np.unpackbits(posterior.source.draws, axis=1, count=9).astype(bool)
    assert (target.log_joint(draws) > -np.inf).all()
    assert ("{x0, x3}" in " ".join(posterior.notes)) == bool(model.hole)


def test_one_environment_gives_back_the_prior() -> None:
    several = simulated(6, (20, 20), seed=3)
    data = MultiEnvironmentData.from_arrays(several.X, several.y)
    prior = InclusionPrior([0.1, 0.2, 0.5, 0.7, 0.4, 0.9], max_size=4)
    posterior = run(LinearGaussian().bind(data), prior, Tempering())
    expected = prior.bind(data.feature_names, 6).inclusion_probabilities()
    np.testing.assert_allclose(posterior.inclusion, expected, atol=0.03)
    assert posterior.log_evidence == 0.0


def test_a_short_run_says_that_it_is_short() -> None:
    model = LinearGaussian().bind(simulated(40, (30, 30), seed=8))
    with pytest.warns(ApproximationWarning, match="replicas disagree"):
        posterior = run(model, UniformPrior(), Tempering(chains=2, steps=10, searches=1))
    assert not posterior.diagnostics["converged"]
    assert posterior.diagnostics["sweeps"] == 10


def with_levels(near: float) -> MultiEnvironmentData:
    """Features of one and of three columns; in one environment one is another one and `near` times
    a third."""
    rng = np.random.default_rng(3)
    site = np.repeat([0, 1, 2], [40, 35, 60])
    level = rng.integers(0, 4, len(site))
    X = rng.normal(size=(len(site), 3))
    X[site == 1, 2] = (X[:, 0] + near * X[:, 1])[site == 1]
    y = X[:, 0] + X[:, 1] - (level == 1) + 0.4 * site + rng.normal(size=len(site))
    X = np.column_stack([X, *(level == k for k in (1, 2, 3))])
    data = MultiEnvironmentData.from_arrays(X, y, site)
    features = Features(tuple("abcl"), data.feature_names, np.array([1, 1, 1, 3]))
    return replace(
        data, feature_names=features.names, original_features=features.names, grouping=features
    )


@pytest.mark.parametrize("near", [0.0, 1e-6])
def test_what_is_sampled_nearly_is_reported_exactly(near: float) -> None:
    """And a run says so where the difference is large."""
    model = LinearGaussian().bind(with_levels(near))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        posterior = run(model, UniformPrior(), Tempering(chains=2, steps=200, searches=1))
    told = [str(each.message) for each in warned if "nearly depend" in str(each.message)]
    assert len(told) == (near > 0.0)
    assert not model.samples_exactly
    np.testing.assert_array_equal(posterior.log_ratios, model.log_ratio_many(posterior.masks))
    if not near:
        masks, probabilities, _ = brute_force(target_of(model))
        np.testing.assert_allclose(posterior.inclusion, probabilities @ masks, atol=0.05)


IMPOSSIBLE = [
    {"chains": 0},
    {"chains": "auto"},
    {"steps": 0},
    {"precision": 0.0},
    {"searches": 1.5},
]


@pytest.mark.parametrize("settings", IMPOSSIBLE, ids=str)
def test_impossible_settings(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Tempering(**settings)


def test_agreement_tells_drifting_from_settled_replicas() -> None:
    rng = np.random.default_rng(0)
    settled = agreement_of(0.5 + 0.05 * rng.normal(size=(4, 20, 3)))
    assert settled.reached(0.01)
    np.testing.assert_allclose(settled.standard_error, 0.05 / np.sqrt(80), rtol=0.8)
    torn = np.zeros((4, 20, 3))
    torn[:2] = 1.0
    assert agreement_of(torn).largest_r_hat > 100
    assert agreement_of(torn).largest_error > 0.1
    assert not agreement_of(np.full((1, 1, 2), 0.5)).reached(0.01)


def test_ladder_is_cut_into_equal_barriers() -> None:
    betas = np.geomspace(0.01, 1.0, 5)
    tuned = retuned(betas, np.array([0.0, 0.0, 0.9, 0.0]))
    assert len(tuned) == 4
    assert (np.diff(tuned) > 0).all()
    assert ((tuned > betas[2]) & (tuned < betas[3])).sum() == 2
    assert len(retuned(betas, np.full(4, 0.9))) == 7


def test_differences_leave_out_what_single_flips_reach() -> None:
    modes = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(differences(modes), [[True, True, True, False]])
    assert differences(modes[:1]).shape == (0, 4)


def test_every_feature_keeps_its_turn_in_blocks() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 60), seed=2))
    prior = InclusionPrior({"x3": 0.0, "x4": 1.0}, max_size=5).bind(model.feature_names)
    target = sampler_of(Target(model, prior), 1, RunOptions())
    interest = np.zeros(41)
    interest[7] = 1.0
    rules = block_rules(target, interest, 12, np.zeros(41))
    for rule in rules:
        assert (rule.chance[[3, 4, 40]] == 0.0).all()
        assert (rule.chance[target.free] > 0.02).all()
        assert rule.chance[7] == rule.chance.max() <= 0.9
    assert rules[1].chance.sum() == pytest.approx(9.0, rel=1e-3)
    assert (
        block_rules(target, interest, 38, np.zeros(41))[1].chance.tolist() == target.free.tolist()
    )


def test_search_leaves_a_subset_at_every_temperature() -> None:
    model = LinearGaussian().bind(simulated(12, (60, 60), seed=2))
    sampler = sampler_of(target_of(model), 1, RunOptions(rng=np.random.default_rng(0)))
    (replica,) = sampler.replicas
    rules = block_rules(sampler, np.zeros(13), 6, np.zeros(13))
    sampler.search(replica, Proposals(np.geomspace(0.1, 1.0, 4), rules, np.zeros((0, 13), bool)), 5)
    assert replica.included.shape == (4, 13)
    np.testing.assert_allclose(
        replica.log_ratios, model.log_ratio_many(replica.included[:, :12]), rtol=1e-12
    )
    assert replica.best.included[:12].tolist() == run(model, UniformPrior()).mode_mask.tolist()


def sweeps(n_rows: int, p: int, family: Logistic | LinearGaussian, engine: Tempering) -> int:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, p))
    y = (rng.random(n_rows) < 0.5).astype(float)
    model = family.bind(MultiEnvironmentData.from_arrays(X, y, np.arange(n_rows) % 5))
    return engine.most_sweeps(
        Target(model, BetaBinomialPrior(max_size=2).bind(model.feature_names))
    )


def test_few_sweeps_where_rows_are_many() -> None:
    few, many = (sweeps(n, 80, Logistic(), Tempering()) for n in (5_000, 500))
    assert 200 < few < 1_000
    assert few < many <= 3_000
    assert sweeps(200_000, 3, Logistic(), Tempering()) == 200
    assert sweeps(5_000, 80, Logistic(), Tempering(chains=2)) == pytest.approx(2 * few, abs=2)
    assert sweeps(5_000, 80, LinearGaussian(), Tempering()) == 3_000
    assert sweeps(5_000, 80, Logistic(), Tempering(steps=7)) == 7


# What a run says about itself

LOG_EVIDENCE = -7.0


def long_tailed(n_heavy: int, n_light: int, light: float) -> np.ndarray:
    """Log probabilities of subsets: heavy ones of unequal weight, and many light ones with `light`
    of the mass."""
    heavy = np.arange(1.0, n_heavy + 1.0)
    return np.log(
        np.concatenate([(1.0 - light) * heavy / heavy.sum(), np.full(n_light, light / n_light)])
    )


def visited(log_probabilities: np.ndarray, n: int, rng: np.random.Generator) -> Visited:
    """As if eight segments had each drawn n subsets independently."""
    probabilities = np.exp(log_probabilities)
    visits = rng.multinomial(n, probabilities / probabilities.sum(), size=8)
    seen = visits.sum(axis=0) > 0
    codes = np.flatnonzero(seen)[:, None] >> np.arange(12) & 1
    log_joint = log_probabilities[seen] + LOG_EVIDENCE
    return Visited(codes.astype(bool), log_joint, log_joint, visits[:, seen])


LAWS = {
    "nearly all mass visited": (long_tailed(50, 2000, 0.05), 500),
    "much of it": (long_tailed(20, 2000, 0.5), 300),
    "little of it": (long_tailed(2, 3000, 0.95), 300),
    "all of it": (long_tailed(6, 1, 0.01), 400),
}


@pytest.mark.parametrize("name", LAWS)
def test_entropy_and_evidence_have_no_bias_and_the_stated_error(name: str) -> None:
    log_probabilities, n = LAWS[name]
    entropy = -float(np.exp(log_probabilities) @ log_probabilities)
    rng = np.random.default_rng(8)
    runs = [visited(log_probabilities, n, rng) for _ in range(100)]
    found = [by_revisits(one.log_joint, one.visits) for one in runs]
    deviations = np.array([one.log_evidence - LOG_EVIDENCE for one in found])
    assert np.mean(deviations) == pytest.approx(0.0, abs=0.02)
    entropies = np.array([one.entropy(LOG_EVIDENCE) for one in runs])
    assert np.mean(entropies) == pytest.approx(entropy, abs=0.03)
    assert np.abs(entropies - entropy).max() < 0.35
    if name != "all of it":
        reported = np.array([one.error for one in found])
        assert 0.8 < np.sqrt(np.mean(deviations**2) / np.mean(reported**2)) < 1.25


def test_hardly_any_revisits_say_nothing() -> None:
    one = visited(long_tailed(1, 100_000, 0.999), 100, np.random.default_rng(1))
    assert by_revisits(one.log_joint, one.visits) is None


@pytest.mark.parametrize("counting", [200, 3_000], ids=["from draws of the prior", "by a ladder"])
def test_stepping_stones_lead_to_the_evidence(
    counting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempering, "by_revisits", lambda log_joint, visits: None)
    monkeypatch.setattr(tempering, "_COUNTING", counting)
    monkeypatch.setattr(
        tempering, "_KEPT", 60 if counting > 200 else 0
    )  # without a ladder nothing is kept of it
    model = LinearGaussian().bind(simulated(9, (40, 50, 45), seed=6))
    prior = UniformPrior(max_size=6)
    found = run(model, prior, Tempering(steps=300))
    assert found.diagnostics["log_evidence_method"] == "stepping stones"
    assert found.log_evidence == pytest.approx(run(model, prior).log_evidence, abs=0.25)
    assert 0.001 < found.diagnostics["log_evidence_error"] < 0.2


SETTLED = agreement_of(np.full((4, 20, 3), 0.5))
TORN = agreement_of(np.repeat([0.1, 0.9], 2)[:, None, None] * np.ones((4, 20, 3)))
ENDS = [(np.eye(3, dtype=bool)[0], -1.0)] * 3


@pytest.mark.parametrize(
    ("n_ends", "agreement", "never_sampled", "tail", "said", "remedy"),
    [
        (3, SETTLED, -np.inf, 1.0, None, None),
        (3, SETTLED, np.log(0.04), 1.0, None, None),
        (3, SETTLED, np.log(0.06), 1.0, "never sampled", "tempering(chains=8, steps=20000)"),
        (3, TORN, -np.inf, 1.0, "replicas disagree", "tempering(chains=8, steps=20000)"),
        (2, SETTLED, -np.inf, 1.0, "only 2 of 2 searches", "tempering(searches=20)"),
        (3, SETTLED, -np.inf, 0.9e-3, "better one is hidden", "tempering(searches=20)"),
    ],
)
def test_what_stands_against_a_run(n_ends, agreement, never_sampled, tail, said, remedy) -> None:
    problem = tempering._problem(
        Searched(np.zeros(3), ENDS[:n_ends]), agreement, never_sampled, tail
    )
    assert (problem is None) == (said is None)
    if problem is not None:
        assert said in problem
        assert [dict(one.settings) for one in problem.remedies] == [{"engine": remedy}]


def test_a_subset_above_the_evidence_was_missed() -> None:
    target = target_of(Toy(4))
    masks, probabilities, evidence = brute_force(target)
    good, low = (
        DrawnSource(target, evidence - less, np.packbits(masks, axis=1)) for less in (0.0, 60.0)
    )
    np.testing.assert_allclose(np.exp(good.log_probability(masks)), probabilities)
    with pytest.warns(ApproximationWarning, match="missed a mode"):
        assert low.log_probability(masks[:1]) == [0.0]
