"""Tempering on models without a compiled scorer: the memory of subsets, moves in lockstep, and whole runs."""

from __future__ import annotations

import warnings
from itertools import combinations, permutations, product

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from invariance import BetaBinomialPrior, Enumeration, InclusionPrior, LinearGaussian, UniformPrior
from invariance._tools.progress import ProgressBar
from invariance.conditionals.base import BoundConditional, Description, Fit, Null, Prediction
from invariance.data.features import Features
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions
from invariance.inference.memory import ScoredSubsets
from invariance.inference.target import Target
from invariance.inference.tempering.cached import CachedCrew, CachedTarget
from invariance.inference.tempering.engine import Tempering
from invariance.inference.tempering.ladders import Proposals
from invariance.inference.tempering.lockstep import (
    Chains,
    Laws,
    acceptance,
    block_shares,
    block_subsets,
    chosen_blocks,
    drawn_from,
    exchanged,
)
from invariance.inference.tempering.replicas import block_rules
from invariance.inference.variational.modes import find_modes
from twins import all_masks, simulated


class Toy(BoundConditional):
    """log Λ = −½ (z − c)'A(z − c), or −inf for subsets that hold all of `hole`."""

    def __init__(self, p: int, seed: int = 0, strength: float = 3.0, hole: tuple[int, ...] = ()) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(p, p))
        self.curvature = strength * root.T @ root / p
        self.centre = 0.2 + (rng.random(p) < 0.4)
        self.hole = hole
        self.asked: list[np.ndarray] = []

    @property
    def features(self) -> Features:
        return Features.single(f"x{j}" for j in range(len(self.centre)))

    def describe(self) -> Description:
        return Description("toy", "y", ("a", "b"), np.array([50, 50]))

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        z = np.asarray(masks, dtype=float)
        self.asked.append(z.astype(bool))
        values = -0.5 * np.einsum("si,ij,sj->s", z - self.centre, self.curvature, z - self.centre)
        holed = z[:, self.hole].all(axis=1) if self.hole else np.zeros(len(z), dtype=bool)
        return np.where(holed, -np.inf, values)

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        raise NotImplementedError

    def null_many(self, masks: ArrayLike) -> Null:
        n = len(np.asarray(masks))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def fit(self, subset: object) -> Fit:
        raise NotImplementedError


class Plain(BoundConditional):
    """A model with all its abilities but the required ones hidden."""

    def __init__(self, model: BoundConditional) -> None:
        self.model = model
        self.describe, self.log_ratio_many, self.fit = model.describe, model.log_ratio_many, model.fit
        self.prediction_many, self.null_many = model.prediction_many, model.null_many

    features = property(lambda self: self.model.features)
    describe = log_ratio_many = prediction_many = null_many = fit = None  # type: ignore[assignment]


PRIORS = {
    "uniform": UniformPrior(),
    "max_size": UniformPrior(max_size=3),
    "beta-binomial": BetaBinomialPrior(1, 2),
    "inclusion": InclusionPrior({"x1": 1.0, "x2": 0.0, "x0": 0.8}, max_size=4),
}


def target_of(model: BoundConditional, prior: object = None) -> Target:
    return Target(model, (prior or UniformPrior()).bind(model.feature_names))  # type: ignore[attr-defined]


def brute_force(target: Target) -> tuple[np.ndarray, np.ndarray, float]:
    """All masks, their posterior probabilities and the log evidence."""
    masks = all_masks(target.n_features)
    log_joint = target.log_joint(masks)
    evidence = float(logsumexp(log_joint))
    return masks, np.exp(log_joint - evidence), evidence


def run(target: Target, engine: Tempering | None = None, seed: int = 0, n_jobs: int = 1):
    return (engine or Tempering()).run(target, RunOptions(n_jobs, np.random.default_rng(seed), False))


# ---------------------------------------------------------------- the memory


@pytest.mark.parametrize("width", [6, 30])
def test_the_memory_asks_once_and_all_at_a_time(width: int) -> None:
    calls = []

    def score(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        assert len(np.unique(rows, axis=0)) == len(rows)
        values = -rows.sum(axis=1).astype(float)
        values[values < -3] = np.nan
        return values

    memory, rng = ScoredSubsets(score, width), np.random.default_rng(0)
    rows = np.zeros((40, width), dtype=bool)
    rows[:, -5:] = rng.random((40, 5)) < 0.5
    expected = np.where(rows.sum(axis=1) > 3, -np.inf, -rows.sum(axis=1))
    for _ in range(2):
        np.testing.assert_array_equal(memory.values(rows), expected)
    np.testing.assert_array_equal(memory.values(rows[::-2]), expected[::-2])
    assert calls == [len(np.unique(rows, axis=0))]
    assert memory.values(rows[:0]).shape == (0,)
    assert set(memory.without_value.sum(axis=1)) <= {4, 5}
    assert len(memory.without_value) == len(np.unique(rows[expected == -np.inf], axis=0))


def test_a_full_memory_begins_anew() -> None:
    asked: list[int] = []

    def score(rows: np.ndarray) -> np.ndarray:
        asked.extend(np.flatnonzero(rows.any(axis=0)).tolist())
        return np.flip(np.arange(len(rows), dtype=float))

    memory, single = ScoredSubsets(score, 30, most=3), np.eye(30, dtype=bool)
    for j in (0, 1, 2, 0, 3, 0, 3):
        memory.values(single[[j]])
    assert asked == [0, 1, 2, 3, 0]


def test_the_memory_shows_the_smallest_subsets_without_value() -> None:
    memory = ScoredSubsets(lambda rows: np.full(len(rows), -np.inf), 7)
    memory.values(all_masks(7)[::-1])
    assert len(memory.without_value) == 64
    assert memory.without_value.sum(axis=1).max() == 3
    assert (np.diff(memory.without_value.sum(axis=1)) >= 0).all()


# ---------------------------------------------------------------- moves


@pytest.fixture(params=product(PRIORS, [(), (0, 3)], [0.0, 0.4, 1.0]), ids=str)
def law(request: pytest.FixtureRequest):
    """One chain in every subset of positive probability; all subsets and their probabilities under π_β."""
    name, hole, beta = request.param
    target = target_of(Toy(5, hole=hole), PRIORS[name])
    subsets = all_masks(len(target.free))
    log_ratios = target.model.log_ratio_many(target.masks(subsets))
    values = np.where(log_ratios > -np.inf, beta * np.maximum(log_ratios, -1e9), -np.inf)
    values = values + target.prior.log_prob(target.masks(subsets))
    probabilities = np.exp(values - logsumexp(values))
    inside = probabilities > 0
    laws = Laws.tempered(np.full(inside.sum(), beta))
    chains = CachedTarget(target).chains(laws, subsets[inside])
    return chains, np.flatnonzero(inside), subsets, probabilities


def codes(subsets: np.ndarray) -> np.ndarray:
    return subsets @ (1 << np.arange(subsets.shape[-1]))


def assert_reversible(matrix: np.ndarray, probabilities: np.ndarray) -> None:
    inside = probabilities > 0
    np.testing.assert_allclose(matrix[inside].sum(axis=1), 1.0, atol=1e-12)
    balance = probabilities[:, None] * matrix
    np.testing.assert_allclose(balance, balance.T, atol=1e-12)
    assert (matrix[inside][:, ~inside] == 0.0).all()


def metropolis_matrix(chains: Chains, states: np.ndarray, n: int, proposals: list[np.ndarray]) -> np.ndarray:
    """Of a move to each of the proposals (states, f) in turn; uniforms of 1 are never below an acceptance."""
    matrix = np.zeros((n, n))
    for proposal in proposals:
        accept = acceptance(chains.metropolis(proposal, np.ones(len(states))))
        np.add.at(matrix, (states, codes(proposal)), accept / len(proposals))
        matrix[states, states] += (1.0 - accept) / len(proposals)
    return matrix


def test_flips_exchanges_and_jumps_are_reversible(law) -> None:
    chains, states, subsets, probabilities = law
    f = subsets.shape[1]
    differences = np.array([np.arange(f) < 3, np.arange(f) > 1])
    keys = [np.tile(np.array(order) / f, (len(states), 1)) for order in permutations(range(f))]
    for proposals in (
        *([chains.included ^ flip] for flip in np.eye(f, dtype=bool)),
        [exchanged(chains.included, key) for key in keys],
        [chains.included ^ difference for difference in differences],
    ):
        assert_reversible(metropolis_matrix(chains, states, len(subsets), proposals), probabilities)


def test_exchanges_keep_the_size() -> None:
    subsets, keys = all_masks(5), np.random.default_rng(0).random((32, 5))
    changed = exchanged(subsets, keys) ^ subsets
    mixed = (codes(subsets) > 0) & (codes(subsets) < 31)
    assert changed.sum(axis=1).tolist() == np.where(mixed, 2, 0).tolist()
    assert ((changed & subsets).sum(axis=1) == mixed).all()


@pytest.mark.parametrize("size", [1, 3])
def test_blocks_are_reversible(law, size: int) -> None:
    chains, states, subsets, probabilities = law
    for block in combinations(range(subsets.shape[1]), size):
        inside, choices = block_subsets(chains.included, np.tile(block, (len(states), 1)))
        assert (inside[..., list(block)] == choices[:, None]).all()
        shares = block_shares(chains.laws.log_weights(chains.scored(inside)))
        matrix = np.zeros((len(subsets), len(subsets)))
        for n, share in enumerate(shares):
            np.add.at(matrix, (states, codes(inside[n])), share)
        assert_reversible(matrix, probabilities)


def test_flips_tell_the_conditional_probability_of_a_feature(law) -> None:
    chains, states, subsets, probabilities = law
    for j in range(subsets.shape[1]):
        chains.flip(np.full(len(states), j), np.ones(len(states)))
        outside, inside = probabilities[states & ~(1 << j)], probabilities[states | 1 << j]
        np.testing.assert_allclose(chains.flips[:, j], inside / (inside + outside), atol=1e-12)
    np.testing.assert_array_equal(codes(chains.included), states)


def test_blocks_tell_the_conditional_probability_of_a_feature(law) -> None:
    chains, states, _, probabilities = law
    block = np.tile([2, 0], (len(states), 1))
    rest = states & ~5
    chains.draw_block(block, np.full(len(states), 0.5))
    weights = probabilities[rest[:, None] | np.array([0, 1, 4, 5])]
    weights = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chains.blocks[:, 0], weights[:, [1, 3]].sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(chains.blocks[:, 2], weights[:, [2, 3]].sum(axis=1), atol=1e-12)
    np.testing.assert_array_equal(chains.n_blocks[:, :3], [[1, 0, 1]] * len(states))
    np.testing.assert_array_equal(codes(chains.included) & ~5, rest)
    assert (probabilities[codes(chains.included)] > 0).all()


def test_swaps_are_reversible() -> None:
    target = target_of(Toy(3))
    subsets, betas = all_masks(3), np.array([0.2, 0.7])
    log_ratios = target.model.log_ratio_many(subsets)
    hot, cold = (np.exp(beta * log_ratios - logsumexp(beta * log_ratios)) for beta in betas)
    pairs = np.array(list(product(range(8), repeat=2)))
    chains = CachedTarget(target).chains(Laws.tempered(np.tile(betas, 64)), subsets[pairs.ravel()])
    accept = chains.swap_acceptance(2 * np.arange(64))
    matrix = np.zeros((64, 64))
    matrix[np.arange(64), 8 * pairs[:, 1] + pairs[:, 0]] += accept
    matrix[np.arange(64), np.arange(64)] += 1.0 - accept
    assert_reversible(matrix, np.outer(hot, cold).ravel())
    half = np.arange(64) % 2 == 0
    chains.swap(2 * np.arange(64), np.where(half, 0.0, 1.0))
    np.testing.assert_array_equal(codes(chains.included).reshape(-1, 2), np.where(half[:, None], pairs[:, ::-1], pairs))
    np.testing.assert_array_equal(chains.scores.log_ratios, log_ratios[codes(chains.included)])


def test_numbers_are_drawn_with_their_probabilities() -> None:
    shares = np.array([[0.0, 0.3], [0.25, 0.7], [0.75, 0.0]])
    for uniform, expected in ((0.0, [1, 0]), (0.249, [1, 0]), (0.3001, [2, 1]), (1.0 - 1e-16, [2, 1]), (1.0, [2, 1])):
        assert drawn_from(shares, np.full(2, uniform)).tolist() == expected


def test_blocks_are_drawn_in_proportion_to_their_chances() -> None:
    chances, n = np.array([0.1, 0.2, 0.3, 0.4]), 20_000
    uniforms = np.random.default_rng(0).random((n, 4))
    first = chosen_blocks(chances, uniforms, 1)[:, 0]
    assert (np.abs(np.bincount(first) / n - chances) < 4.5 * np.sqrt(chances * (1 - chances) / n)).all()
    pairs = np.sort(chosen_blocks(chances, uniforms, 2), axis=1)
    expected = 0.1 * 0.2 / 0.9 + 0.2 * 0.1 / 0.8
    share = (pairs == [0, 1]).all(axis=1).mean()
    assert abs(share - expected) < 4.5 * np.sqrt(expected / n)
    assert (np.sort(chosen_blocks(chances, uniforms[:9], 4), axis=1) == np.arange(4)).all()


def test_the_chains_sample_their_target() -> None:
    """120 ladders at once: frequencies of all subsets of the coldest chains, and the averaged conditionals."""
    prior = InclusionPrior([0.4, 0.3, 0.2, 0.5, 0.3], max_size=4)
    target = target_of(Toy(5, strength=6.0, hole=(1, 3)), prior)
    _, probabilities, _ = brute_force(target)
    cached = CachedTarget(target)
    with ProgressBar("", 1, False) as bar:
        crew = CachedCrew(cached, np.random.default_rng(1).spawn(120), bar)
        for replica in crew.replicas:
            replica.place(np.repeat(cached.start[None], 3, axis=0), np.repeat(cached.start_log_ratio, 3))
        rules = block_rules(cached, np.array([0.1, 0.9, 0.2, 0.3, 0.1]), 2)
        jumps = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=bool)
        proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, jumps)
        list(crew.rounds(proposals, 20))
        rounds = list(crew.rounds(proposals, 200))
    batches = []
    for part in rounds:
        draws = np.unpackbits(part.draws, axis=1, count=5).astype(bool)
        np.testing.assert_allclose(part.log_ratios, target.model.log_ratio_many(draws), rtol=1e-12)
        batches.append(np.concatenate([np.bincount(codes(draws), minlength=32) / 200, part.inclusion]))
    means, errors = np.mean(batches, axis=0), np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    expected = np.concatenate([probabilities, probabilities @ all_masks(5)])
    assert (means[:32][probabilities == 0] == 0).all()
    assert (np.abs(means - expected) < 4.5 * errors + 2e-4).all()
    assert errors[32:].max() < 0.01


def test_climbing_ends_where_no_flip_helps() -> None:
    target = target_of(Toy(9), UniformPrior(max_size=6))
    starts = all_masks(9)[[0, 5, 63, 40]]
    chains = CachedTarget(target).chains(Laws.tempered(np.ones(4)), starts)
    before = chains.best.copy()
    chains.climb()
    assert (chains.best > before).all()
    for included, value in zip(chains.best_included, chains.best, strict=True):
        around = target.log_joint(included ^ np.eye(9, dtype=bool))
        assert around.max() <= value == pytest.approx(target.log_joint(included[None])[0], rel=1e-12)


# ---------------------------------------------------------------- runs


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
    posterior = run(target_of(model, InclusionPrior({"x2": 1.0, "x5": 0.0}, max_size=5)), Tempering(steps=50))
    asked = np.concatenate([masks for masks in model.asked if len(masks) not in (1, len(posterior.masks))])
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
    assert plain.scoring() is None
    exact = Enumeration().run(target_of(model, prior), RunOptions())
    posterior = run(target_of(plain, prior))
    np.testing.assert_allclose(posterior.inclusion, exact.inclusion, atol=0.03)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    assert posterior.mode_mask.tolist() == exact.mode_mask.tolist()


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
    with pytest.raises(EngineError, match="All subsets hold 'x1', 'x2': force fewer features in"):
        run(target)


class Rugged(Toy):
    """Every subset has a value of its own, unlike those of its neighbours."""

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        mixed = np.sin(np.asarray(masks) @ (1.0 + self.centre + np.sqrt(np.arange(len(self.centre))))) * 1e5
        return -1000.0 - 30.0 * np.log(-np.log(1e-9 + (1 - 2e-9) * (mixed - np.floor(mixed))))


@pytest.mark.parametrize("model", [Rugged, Toy])
def test_searches_go_on_until_several_come_near_the_best(model: type[Toy]) -> None:
    with ProgressBar("", 1, False) as bar:
        crew = CachedCrew(CachedTarget(target_of(model(21))), np.random.default_rng(0).spawn(2), bar)
        found = crew.search(np.array([0.3, 1.0]), 4, searches=2)
    assert found.hidden == (model is Rugged)
    assert len(found.ends) == len(found.states) == (16 if model is Rugged else 4)
    assert bar.done == len(found.ends)
    assert crew.best[1] == found.best[1]
    for included, value in found.ends:
        assert crew.target.log_posterior(included[None], crew.target.target.model.log_ratio_many(included[None])) == (
            pytest.approx(value)
        )


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
    space = CachedTarget(target_of(Toy(15)))
    assert Tempering().used_block_size(space) == 4
    assert Tempering(block_size=12).used_block_size(space) == 8
    assert Tempering(block_size=3).used_block_size(space) == 3
    assert Tempering().used_block_size(CachedTarget(target_of(Toy(2)))) == 2
