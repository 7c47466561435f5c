"""Each move of the tempered sampler leaves its target unchanged: transition matrices by enumeration, then the code."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from invariance import BetaBinomialPrior, InclusionPrior, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.inference.base import Target
from invariance.inference.tempering.ladders import CompiledTarget, Proposals, Replica, block_rules
from invariance.kernels.active_set import active_set, flip_scores, load
from invariance.kernels.moves import (
    Effort,
    active_chance,
    block_log_weights,
    choose_block,
    flip_chances,
    jump_acceptance,
    log_prior_of,
    log_ratio_of,
    normalised,
    place_weights,
    swap_acceptance,
)
from twins import all_masks, simulated

P = 5
PRIORS = [UniformPrior(), UniformPrior(max_size=3), InclusionPrior({"x1": 1.0, "x0": 0.8}), BetaBinomialPrior(1, 2)]
BETAS = [0.1, 1.0]


def with_copy(p: int = P) -> MultiEnvironmentData:
    """The fourth feature is the sum of the first two: subsets with all three are undecidable."""
    data = simulated(p, (14, 16, 18), 31)
    X = data.X.copy()
    X[:, 3] = X[:, 0] + X[:, 1]
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def with_intervention(p: int = P) -> MultiEnvironmentData:
    """The first feature, a cause, is 1e6 times as large in the second environment: only rows see what it leaves."""
    data = simulated(p, (14, 16, 18), 33)
    X = data.X.copy()
    X[data.rows(1), 0] *= 1e6
    y = X[:, 0] + X[:, 1] + np.random.default_rng(33).normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, data.environment_index)


DATA = {"plain": simulated(P, (14, 16, 18), 30), "collinear": with_copy(), "intervention": with_intervention()}


@pytest.fixture(params=product(DATA, PRIORS, BETAS), ids=str)
def chain(request):
    """Target, inverse temperature, all subsets (2**p, p+1) and their probabilities under π_β."""
    name, prior, beta = request.param
    model = LinearGaussian().bind(DATA[name])
    target = CompiledTarget.of(Target(model, prior.bind(model.feature_names)))
    return target, beta, *law(target, beta)


def law(target: Target, beta: float) -> tuple[np.ndarray, np.ndarray]:
    p = target.n_columns - 1
    subsets = np.column_stack([all_masks(p), np.zeros(1 << p, bool)])
    frozen = ~target.prior.free
    inside = (subsets[:, frozen] == target.start[frozen]).all(axis=1)
    ratios = np.array([log_ratio_of(target.scoring, z) for z in subsets])
    priors = np.array([log_prior_of(target.prior, z) for z in subsets])
    values = np.where(inside & ~np.isnan(ratios), beta * np.nan_to_num(ratios) + priors, -np.inf)
    return subsets, np.exp(values - logsumexp(values))


def code_of(included: np.ndarray) -> int:
    return int((included[:-1] << np.arange(included.size - 1)).sum())


def assert_stationary(matrix: np.ndarray, probabilities: np.ndarray) -> None:
    inside = probabilities > 0
    np.testing.assert_allclose(matrix[inside].sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(probabilities @ matrix, probabilities, atol=1e-12)
    balance = probabilities[:, None] * matrix
    np.testing.assert_allclose(balance, balance.T, atol=1e-12)


def test_informed_flips(chain) -> None:
    target, beta, subsets, probabilities = chain
    n, d = subsets.shape
    state = active_set(len(target.scoring.weights), d, d)
    chances, totals = np.zeros((n, d)), np.zeros(n)
    for s in np.flatnonzero(probabilities > 0):
        change = np.empty(d)
        if not load(target.scoring, state, subsets[s]):
            continue  # only blocks and jumps reach it
        flip_scores(target.scoring, state, change)
        totals[s] = flip_chances(target.prior, beta, subsets[s], int(subsets[s].sum()), change, chances[s])
        for j in np.flatnonzero(target.prior.free & ~np.isnan(change)):
            flipped = probabilities[s ^ (1 << j)]
            expected = flipped / (flipped + probabilities[s])
            assert chances[s, j] == pytest.approx(expected, rel=1e-7, abs=1e-300)
    for s, j in zip(*np.nonzero(chances), strict=True):
        assert chances[s ^ (1 << j), j] > 0.0
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        for j in np.flatnonzero(chances[s] > 0):
            other = s ^ (1 << j)
            matrix[s, other] = chances[s, j] / totals[s] * min(1.0, totals[s] / totals[other])
        matrix[s, s] = 1.0 - matrix[s].sum()
    assert_stationary(matrix, probabilities)


def test_exchange(chain) -> None:
    target, beta, subsets, probabilities = chain
    n, d = subsets.shape
    state = active_set(len(target.scoring.weights), d, d)
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        members = np.flatnonzero(subsets[s] & target.prior.free)
        if not len(members):
            matrix[s, s] = 1.0
        for out in members:
            rest = subsets[s].copy()
            rest[out] = False
            log_weights, weights = np.full(d, -np.inf), np.empty(d)
            if load(target.scoring, state, subsets[s]):
                load(target.scoring, state, rest)
                place_weights(target.scoring, target.prior, beta, rest, state, log_weights)
            if log_weights[out] == -np.inf:
                matrix[s, s] += 1.0 / len(members)
                continue
            assert normalised(log_weights, weights)
            for j in np.flatnonzero(weights):
                matrix[s, code_of(rest) | 1 << j] += weights[j] / len(members)
    assert_stationary(matrix, probabilities)


@pytest.mark.parametrize("largest", [P, 3])
def test_blocks(chain, largest: int) -> None:
    """Sum over all blocks of their probability given z times the tilted conditional inside."""
    target, beta, subsets, probabilities = chain
    n = len(subsets)
    interest = np.array([0.1, 0.5, 0.0, 0.2, 0.9, 0.0])
    for rule in block_rules(target, interest, P, np.zeros(6)):
        chance = np.where(target.prior.free, np.array([0.9, 0.2, 0.5, 0.3, 0.7, 0.0]) * (0.6 if rule.follows else 1), 0)
        rule = rule._replace(largest=largest, chance=chance)
        matrix = np.zeros((n, n))
        free = np.flatnonzero(target.prior.free)
        for s in np.flatnonzero(probabilities > 0):
            z = subsets[s]
            q = np.where(z & rule.follows, active_chance(rule.active, int(z[free].sum())), rule.chance)
            for bits in all_masks(len(free)):
                block = free[bits]
                chance = np.prod(np.where(bits, q[free], 1.0 - q[free]))
                if len(block) == 0 or len(block) > largest:
                    matrix[s, s] += chance
                    continue
                size = 1 << len(block)
                weights = np.empty(size)
                log_weights = block_log_weights(
                    target.scoring, target.prior, rule, beta, z, block, rule.follows, np.empty(size), np.empty(size)
                )
                assert normalised(log_weights, weights)
                rest = code_of(z) & ~int((1 << block).sum())
                for choice, weight in zip(all_masks(len(block)), weights, strict=True):
                    matrix[s, rest | int((1 << block[choice]).sum())] += chance * weight
        assert_stationary(matrix, probabilities)


def test_blocks_are_chosen_with_the_stated_probabilities() -> None:
    model = LinearGaussian().bind(DATA["plain"])
    target = CompiledTarget.of(Target(model, InclusionPrior({"x4": 1.0}).bind(model.feature_names)))
    rule = block_rules(target, np.zeros(6), 3, np.zeros(6))[0]._replace(largest=P, active=1.2)
    included = np.array([True, True, False, False, True, False])
    rng, n = np.random.default_rng(0), 4000
    entered = np.zeros(6)
    for _ in range(n):
        entered[choose_block(target.prior, rule, included, rng)] += 1
    expected = np.where(included & target.prior.free, 0.6, rule.chance)
    assert expected[4] == expected[5] == 0.0
    assert (np.abs(entered / n - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_jumps(chain) -> None:
    target, beta, subsets, probabilities = chain
    n, d = subsets.shape
    differences = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 0]], dtype=bool)
    differences &= target.prior.free
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        log_ratio = log_ratio_of(target.scoring, subsets[s])
        for flipped in differences:
            proposal = np.empty(d, bool)
            accept, _ = jump_acceptance(target.scoring, target.prior, beta, subsets[s], log_ratio, flipped, proposal)
            matrix[s, code_of(proposal)] += accept / len(differences)
        matrix[s, s] += 1.0 - matrix[s].sum()
    assert_stationary(matrix, probabilities)


def test_swaps() -> None:
    model = LinearGaussian().bind(simulated(3, (14, 16), 32))
    target = CompiledTarget.of(Target(model, UniformPrior().bind(model.feature_names)))
    hot, cold = 0.2, 0.7
    subsets, hot_law = law(target, hot)
    cold_law = law(target, cold)[1]
    ratios = [log_ratio_of(target.scoring, z) for z in subsets]
    joint = np.outer(hot_law, cold_law).ravel()
    matrix = np.zeros((64, 64))
    for a, b in product(range(8), repeat=2):
        accept = swap_acceptance(hot, cold, ratios[a], ratios[b])
        matrix[8 * a + b, 8 * b + a] += accept
        matrix[8 * a + b, 8 * a + b] += 1.0 - accept
    assert_stationary(matrix, joint)


EFFORTS = {
    "flips": Effort(0, 1, 1, 0, False),
    "blocks": Effort(0, 0, 2, 0, False),
    "exchange and flips": Effort(1, 1, 1, 0, False),
    "jumps and flips": Effort(0, 1, 1, 1, False),
}


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("name", DATA)
def test_the_code_samples_its_target(effort: str, name: str) -> None:
    """20,000 sweeps of a ladder: frequencies of all subsets of the coldest chain within their batch-means error."""
    model = LinearGaussian().bind(DATA[name])
    target = CompiledTarget.of(
        Target(model, InclusionPrior([0.4, 0.3, 0.2, 0.5, 0.3], max_size=4).bind(model.feature_names))
    )
    betas = np.array([0.1, 0.4, 1.0])
    _, probabilities = law(target, 1.0)
    rules = tuple(
        rule._replace(largest=2 if effort == "flips" else 4, chance=0.4 * target.prior.free)
        for rule in block_rules(target, np.zeros(6), P, np.zeros(6))
    )
    jumps = np.array([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0]], dtype=bool)
    replica = Replica(target, np.random.default_rng(7))
    replica.place(np.repeat(target.start[None], 3, axis=0), np.repeat(target.start_log_ratio, 3))
    proposals = Proposals(betas, rules, jumps)
    batches = []
    for _ in range(40):
        part = replica.advance(proposals, 500, EFFORTS[effort])
        draws = np.unpackbits(part.draws, axis=1, count=6).astype(bool)
        codes = (draws[:, :-1] << np.arange(5)).sum(axis=1)
        batches.append(np.concatenate([np.bincount(codes, minlength=32) / 500, part.inclusion[:5]]))
    means, errors = np.mean(batches, axis=0), np.std(batches, axis=0, ddof=1) / np.sqrt(40)
    expected = np.concatenate([probabilities, probabilities @ all_masks(5)])
    assert (means[:32][probabilities == 0] == 0).all()
    assert (np.abs(means - expected) < 5 * errors + 2e-4).all()
