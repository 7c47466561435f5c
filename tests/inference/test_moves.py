"""Each move of the tempered samplers leaves its target unchanged: transition matrices by
enumeration, then the code."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from invariance import (
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    UniformPrior,
)
from invariance.inference.base import RunOptions, ScoredSubsets, Target
from invariance.inference.replicas import (
    CompiledSampler,
    GenericSampler,
    Proposals,
    block_rules,
    sampler_of,
)
from invariance.kernels.active_set import active_set, flip_scores, load
from invariance.kernels.mcmc import (
    Effort,
    active_chance,
    block_log_weights,
    flip_chances,
    jump_acceptance,
    log_prior_of,
    log_ratio_of,
    normalised,
    place_weights,
    swap_acceptance,
)
from quadratic_toy import Toy, brute_force, codes, target_of, with_sum
from twins import all_masks, simulated

P = 5
PRIORS = [InclusionPrior({"x1": 1.0, "x0": 0.8}, max_size=3), BetaBinomialPrior(1, 2)]
SOFT = InclusionPrior([0.4, 0.3, 0.2, 0.5, 0.3], max_size=4)
JUMPS = np.array([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0]], dtype=bool)


def with_intervention() -> MultiEnvironmentData:
    """The first feature, a cause, is 1e6 times as large in the second environment: only rows see
    what it leaves."""
    data = simulated(P, (14, 16, 18), 33)
    X = data.X.copy()
    X[data.rows(1), 0] *= 1e6
    y = X[:, 0] + X[:, 1] + np.random.default_rng(33).normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, data.environment_index)


COLLINEAR = with_sum(simulated(P - 1, (14, 16, 18), 31))
DATA = {
    "plain": simulated(P, (14, 16, 18), 30),
    "collinear": COLLINEAR,
    "intervention": with_intervention(),
}


def compiled(data: MultiEnvironmentData, prior: object) -> CompiledSampler:
    model = LinearGaussian().bind(data)
    return sampler_of(
        Target(model, prior.bind(model.feature_names)), 1, RunOptions(rng=np.random.default_rng(7))
    )


@pytest.fixture(params=product(DATA, PRIORS, [0.1, 1.0]), ids=str)
def chain(request):
    """Sampler, inverse temperature, all subsets (2**p, p+1) and their probabilities under π_β."""
    name, prior, beta = request.param
    sampler = compiled(DATA[name], prior)
    return sampler, beta, *law(sampler, beta)


def law(sampler: CompiledSampler, beta: float) -> tuple[np.ndarray, np.ndarray]:
    p = sampler.n_columns - 1
    subsets = np.column_stack([all_masks(p), np.zeros(1 << p, bool)])
    inside = (subsets[:, ~sampler.free] == sampler.start[~sampler.free]).all(axis=1)
    ratios = np.array([log_ratio_of(sampler.scoring, z) for z in subsets])
    priors = np.array([log_prior_of(sampler.prior, z) for z in subsets])
    values = np.where(inside & ~np.isnan(ratios), beta * np.nan_to_num(ratios) + priors, -np.inf)
    return subsets, np.exp(values - logsumexp(values))


def code_of(included: np.ndarray) -> int:
    return int((included[:-1] << np.arange(included.size - 1)).sum())


def assert_reversible(matrix: np.ndarray, probabilities: np.ndarray) -> None:
    inside = probabilities > 0
    np.testing.assert_allclose(matrix[inside].sum(axis=1), 1.0, atol=1e-12)
    balance = probabilities[:, None] * matrix
    np.testing.assert_allclose(balance, balance.T, atol=1e-12)
    assert (matrix[inside][:, ~inside] == 0.0).all()


def test_informed_flips(chain) -> None:
    sampler, beta, subsets, probabilities = chain
    n, d = subsets.shape
    state = active_set(len(sampler.scoring.weights), d, d)
    chances = np.zeros((n, d))
    totals = np.zeros(n)
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        change = np.empty(d)
        if not load(sampler.scoring, state, subsets[s]):
            continue  # only blocks and jumps reach it
        flip_scores(sampler.scoring, state, change)
        totals[s] = flip_chances(
            sampler.prior, beta, subsets[s], int(subsets[s].sum()), change, chances[s]
        )
        for j in np.flatnonzero(sampler.free & ~np.isnan(change)):
            flipped = probabilities[s ^ (1 << j)]
            assert chances[s, j] == pytest.approx(
                flipped / (flipped + probabilities[s]), rel=1e-7, abs=1e-300
            )
    for s in np.flatnonzero(probabilities > 0):
        for j in np.flatnonzero(chances[s] > 0):
            other = s ^ (1 << j)
            assert chances[other, j] > 0.0
            matrix[s, other] = chances[s, j] / totals[s] * min(1.0, totals[s] / totals[other])
        matrix[s, s] = 1.0 - matrix[s].sum()
    assert_reversible(matrix, probabilities)


def test_exchange(chain) -> None:
    sampler, beta, subsets, probabilities = chain
    n, d = subsets.shape
    state = active_set(len(sampler.scoring.weights), d, d)
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        members = np.flatnonzero(subsets[s] & sampler.free)
        if not len(members):
            matrix[s, s] = 1.0
        for out in members:
            rest = subsets[s].copy()
            rest[out] = False
            log_weights = np.full(d, -np.inf)
            weights = np.empty(d)
            if load(sampler.scoring, state, subsets[s]):
                load(sampler.scoring, state, rest)
                place_weights(sampler.scoring, sampler.prior, beta, rest, state, log_weights)
            if log_weights[out] == -np.inf:
                matrix[s, s] += 1.0 / len(members)
                continue
            assert normalised(log_weights, weights)
            for j in np.flatnonzero(weights):
                matrix[s, code_of(rest) | 1 << j] += weights[j] / len(members)
    assert_reversible(matrix, probabilities)


@pytest.mark.parametrize("largest", [P, 3])
def test_blocks(chain, largest: int) -> None:
    """Sum over all blocks of their probability given z times the tilted conditional inside."""
    sampler, beta, subsets, probabilities = chain
    n = len(subsets)
    free = np.flatnonzero(sampler.free)
    for rule in block_rules(sampler, np.array([0.1, 0.5, 0.0, 0.2, 0.9, 0.0]), P, np.zeros(6)):
        chance = np.where(
            sampler.free, np.array([0.9, 0.2, 0.5, 0.3, 0.7, 0.0]) * (0.6 if rule.follows else 1), 0
        )
        rule = rule._replace(largest=largest, chance=chance)
        matrix = np.zeros((n, n))
        for s in np.flatnonzero(probabilities > 0):
            z = subsets[s]
            q = np.where(
                z & rule.follows, active_chance(rule.active, int(z[free].sum())), rule.chance
            )
            for bits in all_masks(len(free)):
                block = free[bits]
                chance = np.prod(np.where(bits, q[free], 1.0 - q[free]))
                if len(block) == 0 or len(block) > largest:
                    matrix[s, s] += chance
                    continue
                weights, one, two = np.empty((3, 1 << len(block)))
                how = rule, beta, z, block, rule.follows, one, two
                assert normalised(block_log_weights(sampler.scoring, sampler.prior, *how), weights)
                rest = code_of(z) & ~int((1 << block).sum())
                for choice, weight in zip(all_masks(len(block)), weights, strict=True):
                    matrix[s, rest | int((1 << block[choice]).sum())] += chance * weight
        assert_reversible(matrix, probabilities)


def test_jumps(chain) -> None:
    sampler, beta, subsets, probabilities = chain
    n, d = subsets.shape
    differences = (
        np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 0]], dtype=bool)
        & sampler.free
    )
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        log_ratio = log_ratio_of(sampler.scoring, subsets[s])
        for flipped in differences:
            proposal = np.empty(d, bool)
            accept, _ = jump_acceptance(
                sampler.scoring, sampler.prior, beta, subsets[s], log_ratio, flipped, proposal
            )
            matrix[s, code_of(proposal)] += accept / len(differences)
        matrix[s, s] += 1.0 - matrix[s].sum()
    assert_reversible(matrix, probabilities)


def test_swaps() -> None:
    sampler = compiled(simulated(3, (14, 16), 32), UniformPrior())
    hot = 0.2
    cold = 0.7
    subsets, hot_law = law(sampler, hot)
    ratios = [log_ratio_of(sampler.scoring, z) for z in subsets]
    matrix = np.zeros((64, 64))
    for a, b in product(range(8), repeat=2):
        accept = swap_acceptance(hot, cold, ratios[a], ratios[b])
        matrix[8 * a + b, 8 * b + a] += accept
        matrix[8 * a + b, 8 * a + b] += 1.0 - accept
    assert_reversible(matrix, np.outer(hot_law, law(sampler, cold)[1]).ravel())


def assert_frequencies(parts: list, expected: np.ndarray, n: int, errors_allowed: float) -> None:
    """Of all subsets, and of the averaged conditionals, within their batch-means errors."""
    batches = []
    for part in parts:
        draws = np.unpackbits(part.draws, axis=1, count=P).astype(bool)
        batches.append(
            np.concatenate([np.bincount(codes(draws), minlength=32) / n, part.inclusion[:P]])
        )
    means = np.mean(batches, axis=0)
    errors = np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    assert (means[:32][expected == 0] == 0).all()
    assert (
        np.abs(means - [*expected, *(expected @ all_masks(P))]) < errors_allowed * errors + 2e-4
    ).all()


EFFORTS = {
    "flips": ("plain", Effort(0, 1, 1, 0, False)),
    "blocks": ("intervention", Effort(0, 0, 2, 0, False)),
    "exchange and flips": ("collinear", Effort(1, 1, 1, 0, False)),
    "jumps and flips": ("collinear", Effort(0, 1, 1, 1, False)),
    "rounds": ("plain", Effort(1, 1, 1, 1, False, 3)),
}


@pytest.mark.parametrize("kind", EFFORTS)
def test_the_kernel_samples_its_target(kind: str) -> None:
    name, effort = EFFORTS[kind]
    sampler = compiled(DATA[name], SOFT)
    most = 2 if kind == "flips" else 4
    rules = block_rules(sampler, np.zeros(6), P, np.zeros(6))
    rules = tuple(rule._replace(largest=most, chance=0.4 * sampler.free) for rule in rules)
    (replica,) = sampler.replicas
    replica.place(np.repeat(sampler.start[None], 3, axis=0), np.repeat(sampler.start_log_ratio, 3))
    proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, JUMPS)
    parts = [sampler.sweep(replica, proposals, 300, effort) for _ in range(30)]
    assert_frequencies(parts, law(sampler, 1.0)[1], 300, 5.0)


# Any model


def test_the_memory_asks_once_and_all_at_a_time() -> None:
    calls = []

    def score(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        values = -rows.sum(axis=1).astype(float)
        values[values < -3] = np.nan
        return values

    memory = ScoredSubsets(score, 30, most=40)
    rng = np.random.default_rng(0)
    rows = np.zeros((40, 30), dtype=bool)
    rows[:, -5:] = rng.random((40, 5)) < 0.5
    expected = np.where(rows.sum(axis=1) > 3, -np.inf, -rows.sum(axis=1))
    for part in (slice(None), slice(None), slice(None, None, -2), slice(0)):
        np.testing.assert_array_equal(memory.values(rows[part]), expected[part])
    n = len(np.unique(rows, axis=0))
    assert calls == [n]
    np.testing.assert_array_equal(
        np.unique(memory.without_value, axis=0), np.unique(rows[expected == -np.inf], axis=0)
    )
    # With more than 40 all are forgotten.
    memory.values(np.eye(30, dtype=bool)[:20])
    np.testing.assert_array_equal(memory.values(rows), expected)
    assert calls == [n, 20, n]


def generic(target: Target, n: int = 1) -> GenericSampler:
    return sampler_of(target, n, RunOptions(rng=np.random.default_rng(1)))


def test_generic_chains_sample_their_target() -> None:
    """80 ladders at once"""
    target = target_of(Toy(P, strength=6.0, hole=(1, 3)), SOFT)
    sampler = generic(target, 80)
    for replica in sampler.replicas:
        replica.place(np.repeat(replica.included, 3, axis=0), np.repeat(replica.log_ratios, 3))
    rules = block_rules(sampler, np.array([0.1, 0.9, 0.2, 0.3, 0.1]), 2, np.zeros(P))
    proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, JUMPS[:, :P])
    list(sampler.rounds(proposals, 20))
    rounds = list(sampler.rounds(proposals, 150))
    for replica, part in zip(sampler.replicas, rounds, strict=True):
        draws = np.unpackbits(part.draws, axis=1, count=P).astype(bool)
        np.testing.assert_allclose(
            part.trace[:, -1], target.model.log_ratio_many(draws), rtol=1e-12
        )
        best = float(target.log_joint(replica.best.included[None])[0])
        assert replica.best.log_posterior[0] == pytest.approx(best)
        assert best > target.log_joint(draws).max() - 1e-9
    assert_frequencies(rounds, brute_force(target)[1], 150, 4.5)


def test_the_model_is_asked_once_and_only_inside_the_support_of_the_prior() -> None:
    model = Toy(9)
    sampler = generic(target_of(model, InclusionPrior({"x2": 1.0, "x5": 0.0}, max_size=5)), 2)
    model.asked.clear()
    proposals = Proposals(
        np.array([0.3, 1.0]), block_rules(sampler, np.zeros(7), 4, np.zeros(7)), JUMPS[:0, [0] * 7]
    )
    sampler.anneal(proposals, 2, np.zeros(4))
    list(sampler.rounds(proposals._replace(betas=np.ones(1)), 20))
    asked = np.concatenate(model.asked)
    assert asked[:, 2].all()
    assert not asked[:, 5].any()
    assert asked.sum(axis=1).max() == 5
    assert len(np.unique(asked, axis=0)) == len(asked)


@pytest.mark.parametrize(("p", "used"), [(15, 4), (2, 2)])
def test_blocks_stay_small_without_a_compiled_scorer(p: int, used: int) -> None:
    assert generic(target_of(Toy(p))).block_size == used
