"""The memory of subsets, and moves of many chains at once: each leaves its law unchanged."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.special import logsumexp

from invariance import InclusionPrior
from invariance._tools.progress import ProgressBar
from invariance.inference.base import ScoredSubsets
from invariance.inference.tempering.crews import (
    Chains,
    GenericCrew,
    GenericTarget,
    Laws,
    acceptance,
    block_shares,
    block_subsets,
    exchanged,
)
from invariance.inference.tempering.ladders import Proposals, block_rules
from quadratic_toy import PRIORS, Toy, brute_force, codes, target_of
from twins import all_masks


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
    chains = GenericTarget(target).chains(laws, subsets[inside])
    return chains, np.flatnonzero(inside), subsets, probabilities


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


def test_swaps_are_reversible() -> None:
    target = target_of(Toy(3))
    subsets, betas = all_masks(3), np.array([0.2, 0.7])
    log_ratios = target.model.log_ratio_many(subsets)
    hot, cold = (np.exp(beta * log_ratios - logsumexp(beta * log_ratios)) for beta in betas)
    pairs = np.array(list(product(range(8), repeat=2)))
    chains = GenericTarget(target).chains(Laws.tempered(np.tile(betas, 64)), subsets[pairs.ravel()])
    accept = chains.swap_acceptance(2 * np.arange(64))
    matrix = np.zeros((64, 64))
    matrix[np.arange(64), 8 * pairs[:, 1] + pairs[:, 0]] += accept
    matrix[np.arange(64), np.arange(64)] += 1.0 - accept
    assert_reversible(matrix, np.outer(hot, cold).ravel())
    half = np.arange(64) % 2 == 0
    chains.swap(2 * np.arange(64), np.where(half, 0.0, 1.0))
    np.testing.assert_array_equal(codes(chains.included).reshape(-1, 2), np.where(half[:, None], pairs[:, ::-1], pairs))
    np.testing.assert_array_equal(chains.scores.log_ratios, log_ratios[codes(chains.included)])


def test_the_chains_sample_their_target() -> None:
    """120 ladders at once: frequencies of all subsets of the coldest chains, and the averaged conditionals."""
    prior = InclusionPrior([0.4, 0.3, 0.2, 0.5, 0.3], max_size=4)
    target = target_of(Toy(5, strength=6.0, hole=(1, 3)), prior)
    _, probabilities, _ = brute_force(target)
    cached = GenericTarget(target)
    with ProgressBar("", 1, False) as bar:
        crew = GenericCrew(cached, np.random.default_rng(1).spawn(120), bar)
        for replica in crew.replicas:
            replica.place(np.repeat(cached.start[None], 3, axis=0), np.repeat(cached.start_log_ratio, 3))
        rules = block_rules(cached, np.array([0.1, 0.9, 0.2, 0.3, 0.1]), 2, np.zeros(5))
        jumps = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=bool)
        proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, jumps)
        list(crew.rounds(proposals, 20))
        rounds = list(crew.rounds(proposals, 200))
    batches = []
    for replica, part in zip(crew.replicas, rounds, strict=True):
        draws = np.unpackbits(part.draws, axis=1, count=5).astype(bool)
        np.testing.assert_allclose(part.trace[:, -1], target.model.log_ratio_many(draws), rtol=1e-12)
        best = float(target.log_joint(replica.best.included[None])[0])
        assert replica.best.log_posterior[0] == pytest.approx(best)
        assert best > target.log_joint(draws).max() - 1e-9
        batches.append(np.concatenate([np.bincount(codes(draws), minlength=32) / 200, part.inclusion]))
    means, errors = np.mean(batches, axis=0), np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    expected = np.concatenate([probabilities, probabilities @ all_masks(5)])
    assert (means[:32][probabilities == 0] == 0).all()
    assert (np.abs(means - expected) < 4.5 * errors + 2e-4).all()
    assert errors[32:].max() < 0.01
