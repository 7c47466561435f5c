"""Tempering on models without a compiled scorer: whole runs and searches against brute force."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from conformance_cases import Plain
from invariance import Enumeration, InclusionPrior, LinearGaussian
from invariance._tools.progress import ProgressBar
from invariance.data.features import Features
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions, Target
from invariance.inference.tempering.crews import GenericCrew
from invariance.inference.tempering.engine import Tempering, find_modes
from invariance.inference.tempering.generic import GenericTarget
from invariance.inference.tempering.ladders import Proposals, block_rules
from invariance.models.base import scoring_of
from quadratic_toy import PRIORS, Toy, brute_force, target_of
from twins import simulated


def run(target: Target, engine: Tempering | None = None, seed: int = 0, n_jobs: int = 1):
    return (engine or Tempering()).run(target, RunOptions(n_jobs, np.random.default_rng(seed), False))


@pytest.mark.parametrize("hole", [(), (0, 3)], ids=["", "hole"])
@pytest.mark.parametrize("prior", PRIORS)
def test_runs_agree_with_brute_force(prior: str, hole: tuple[int, ...]) -> None:
    target = target_of(Toy(9, seed=2, hole=hole), PRIORS[prior])
    masks, probabilities, evidence = brute_force(target)
    posterior = run(target)
    np.testing.assert_allclose(posterior.inclusion, probabilities @ masks, atol=0.03)
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.1)
    assert posterior.mode_mask.tolist() == masks[probabilities.argmax()].tolist()
    surprise = -np.log(np.where(probabilities > 0, probabilities, 1.0))
    assert posterior.entropy == pytest.approx(probabilities @ surprise, abs=0.1)
    assert posterior.diagnostics["converged"]
    assert (posterior.inclusion_errors[target.prior.forced_in | target.prior.forced_out] == 0.0).all()
    assert (target.prior.log_prob(posterior.masks) > -np.inf).all()


def test_subsets_without_value_are_never_visited_and_are_named() -> None:
    target = target_of(Toy(8, seed=3, hole=(1, 4)))
    posterior = run(target, Tempering(steps=200))
    draws = np.unpackbits(posterior.source.draws, axis=1, count=8).astype(bool)
    assert not draws[:, [1, 4]].all(axis=1).any()
    assert not posterior.masks[:, [1, 4]].all(axis=1).any()
    assert "the model has no value for {x1, x4}" in " ".join(posterior.notes)
    assert "no value" not in " ".join(run(target_of(Toy(8, seed=3)), Tempering(steps=50)).notes)


def test_the_model_is_asked_once_and_only_inside_the_support_of_the_prior() -> None:
    model = Toy(9)
    target = target_of(model, InclusionPrior({"x2": 1.0, "x5": 0.0}, max_size=5))
    with ProgressBar("", 1, False) as bar:
        crew = GenericCrew(GenericTarget(target), np.random.default_rng(0).spawn(2), bar)
        model.asked.clear()
        crew.search(np.array([0.3, 1.0]), 4, searches=2)
        rules = block_rules(crew.target, np.zeros(7), 4)
        list(crew.rounds(Proposals(np.ones(1), rules, np.zeros((0, 7), dtype=bool)), 20))
    asked = np.concatenate(model.asked)
    assert asked[:, 2].all()
    assert not asked[:, 5].any()
    assert asked.sum(axis=1).max() == 5
    assert len(np.unique(asked, axis=0)) == len(asked)


def test_seeds_and_threads() -> None:
    target = target_of(Toy(12, seed=4))
    engine = Tempering(steps=100)
    one, two, other = run(target, engine), run(target, engine, n_jobs=2), run(target, engine, seed=1)
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    np.testing.assert_array_equal(one.source.draws, two.source.draws)
    assert one.log_evidence == two.log_evidence
    assert (one.inclusion != other.inclusion).any()


class TwoModes(Toy):
    """Ten features all in or all out, and 25 nats between."""

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        sizes = np.asarray(masks)[:, :10].sum(axis=1)
        return np.where(sizes < 5, -0.5, 0.0) - 5.0 * np.minimum(sizes, 10 - sizes)


def test_two_far_modes_get_their_shares() -> None:
    target = target_of(TwoModes(12))
    masks, probabilities, evidence = brute_force(target)
    posterior = run(target)
    np.testing.assert_allclose(posterior.inclusion, probabilities @ masks, atol=0.03)
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.1)


def test_linear_gaussian_without_its_abilities_agrees_with_enumeration() -> None:
    model = LinearGaussian().bind(simulated(9, (40, 50, 60), seed=5))
    prior = InclusionPrior({"x3": 1.0}, max_size=6)
    plain = Plain(model)
    assert scoring_of(plain) is None
    exact = Enumeration().run(target_of(model, prior), RunOptions())
    posterior = run(target_of(plain, prior))
    np.testing.assert_allclose(posterior.inclusion, exact.inclusion, atol=0.03)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    assert posterior.mode_mask.tolist() == exact.mode_mask.tolist()


def test_features_of_several_columns_agree_with_enumeration() -> None:
    data = simulated(12, (11, 70, 80), seed=3)
    grouping = Features.of(data.features.columns, {"g": ["x0", "x1"], "h": ["x5", "x6", "x7"]})
    model = LinearGaussian().bind(replace(data, grouping=grouping))
    target = target_of(model)
    assert model.scoring() is None
    exact = Enumeration().run(target, RunOptions())
    posterior = run(target)
    np.testing.assert_allclose(posterior.inclusion, exact.inclusion, atol=0.03)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    assert "has 11 rows, too few to fit more than 9 columns" in " ".join(posterior.notes)


def test_wide_posteriors_have_their_evidence_from_stepping_stones() -> None:
    """Features that do not interact: Z is a product. Beyond 20 free features the memory is a dictionary."""
    model = Toy(22)
    model.curvature = np.diag(np.linspace(0.1, 2.0, 22))
    posterior = run(target_of(model), Tempering(chains=3, searches=2, steps=100))
    at_zero, at_one = -0.5 * np.diag(model.curvature) * np.array([model.centre**2, (1.0 - model.centre) ** 2])
    evidence = np.logaddexp(at_zero, at_one).sum() - 22 * np.log(2.0)
    assert posterior.diagnostics["log_evidence_method"] == "stepping stones"
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.25)
    np.testing.assert_allclose(posterior.inclusion, 1.0 / (1.0 + np.exp(at_zero - at_one)), atol=0.05)


def test_nothing_left_to_choose() -> None:
    target = target_of(Toy(2), InclusionPrior({"x0": 1.0, "x1": 0.0}))
    posterior = run(target)
    assert posterior.inclusion.tolist() == [1.0, 0.0]
    assert posterior.log_evidence == pytest.approx(float(target.log_joint(target.start[None])[0]))


def test_forced_features_without_a_value_are_named() -> None:
    target = target_of(Toy(4, hole=(1, 2)), InclusionPrior({"x1": 1.0, "x2": 1.0}))
    with pytest.raises(EngineError, match="All subsets hold 'x1', 'x2': force fewer in"):
        run(target)


class Rugged(Toy):
    """Every subset has a value of its own, unlike those of its neighbours."""

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        mixed = np.sin(np.asarray(masks) @ (1.0 + self.centre + np.sqrt(np.arange(len(self.centre))))) * 1e5
        return -1000.0 - 30.0 * np.log(-np.log(1e-9 + (1 - 2e-9) * (mixed - np.floor(mixed))))


@pytest.mark.parametrize("model", [Rugged, Toy])
def test_searches_go_on_until_several_come_near_the_best(model: type[Toy]) -> None:
    target = target_of(model(21))
    with ProgressBar("", 1, False) as bar:
        crew = GenericCrew(GenericTarget(target), np.random.default_rng(0).spawn(2), bar)
        found = crew.search(np.array([0.3, 1.0]), 4, searches=2)
    assert found.hidden == (model is Rugged)
    assert len(found.ends) == len(found.states) == (16 if model is Rugged else 4)
    assert bar.done == len(found.ends)
    assert crew.best[1] == found.best[1]
    for mask, value in found.ends:
        assert value == pytest.approx(float(target.log_joint(mask[None])[0]))
        assert target.log_joint(mask ^ np.eye(21, dtype=bool)).max() < value
    for masks, log_ratios in found.states:
        np.testing.assert_allclose(log_ratios, target.model.log_ratio_many(masks))


@pytest.mark.parametrize("prior", PRIORS)
def test_searches_find_the_best_subset(prior: str) -> None:
    target = target_of(Toy(11, seed=6, strength=10.0), PRIORS[prior])
    masks, probabilities, _ = brute_force(target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modes = find_modes(target, RunOptions(rng=np.random.default_rng(0), progress=False))
    np.testing.assert_array_equal(modes[0], masks[probabilities.argmax()])
    assert len(np.unique(modes, axis=0)) == len(modes)
    assert (np.diff(target.log_joint(modes)) <= 0).all()


def test_blocks_stay_small_without_a_compiled_scorer() -> None:
    space = GenericTarget(target_of(Toy(15)))
    assert Tempering().used_block_size(space) == 4
    assert Tempering(block_size=12).used_block_size(space) == 8
    assert Tempering(block_size=3).used_block_size(space) == 3
    assert Tempering().used_block_size(GenericTarget(target_of(Toy(2)))) == 2
