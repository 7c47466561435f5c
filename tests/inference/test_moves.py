"""Each move of the tempered samplers leaves its target unchanged: transition matrices by enumeration, then the code."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.special import logsumexp

from invariance import BetaBinomialPrior, InclusionPrior, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.inference.base import RunOptions, ScoredSubsets, Target
from invariance.inference.replicas import (
    Chains,
    CompiledSampler,
    GenericSampler,
    Proposals,
    acceptance,
    block_rules,
    block_shares,
    block_subsets,
    exchanged,
    flip_order,
    n_flipped,
    sampler_of,
)
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
from quadratic_toy import Toy, brute_force, codes, target_of
from twins import all_masks, simulated

P = 5
PRIORS = [InclusionPrior({"x1": 1.0, "x0": 0.8}, max_size=3), BetaBinomialPrior(1, 2)]
SOFT = InclusionPrior([0.4, 0.3, 0.2, 0.5, 0.3], max_size=4)
JUMPS = np.array([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0]], dtype=bool)


def with_copy() -> MultiEnvironmentData:
    """The fourth feature is the sum of the first two: subsets with all three are undecidable."""
    data = simulated(P, (14, 16, 18), 31)
    X = data.X.copy()
    X[:, 3] = X[:, 0] + X[:, 1]
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def with_intervention() -> MultiEnvironmentData:
    """The first feature, a cause, is 1e6 times as large in the second environment: only rows see what it leaves."""
    data = simulated(P, (14, 16, 18), 33)
    X = data.X.copy()
    X[data.rows(1), 0] *= 1e6
    y = X[:, 0] + X[:, 1] + np.random.default_rng(33).normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, data.environment_index)


DATA = {"plain": simulated(P, (14, 16, 18), 30), "collinear": with_copy(), "intervention": with_intervention()}


def compiled(data: MultiEnvironmentData, prior: object) -> CompiledSampler:
    model = LinearGaussian().bind(data)
    return sampler_of(Target(model, prior.bind(model.feature_names)), 1, RunOptions(rng=np.random.default_rng(7)))


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
    chances, totals, matrix = np.zeros((n, d)), np.zeros(n), np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        change = np.empty(d)
        if not load(sampler.scoring, state, subsets[s]):
            continue  # only blocks and jumps reach it
        flip_scores(sampler.scoring, state, change)
        totals[s] = flip_chances(sampler.prior, beta, subsets[s], int(subsets[s].sum()), change, chances[s])
        for j in np.flatnonzero(sampler.free & ~np.isnan(change)):
            flipped = probabilities[s ^ (1 << j)]
            assert chances[s, j] == pytest.approx(flipped / (flipped + probabilities[s]), rel=1e-7, abs=1e-300)
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
            log_weights, weights = np.full(d, -np.inf), np.empty(d)
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
    n, free = len(subsets), np.flatnonzero(sampler.free)
    for rule in block_rules(sampler, np.array([0.1, 0.5, 0.0, 0.2, 0.9, 0.0]), P, np.zeros(6)):
        chance = np.where(sampler.free, np.array([0.9, 0.2, 0.5, 0.3, 0.7, 0.0]) * (0.6 if rule.follows else 1), 0)
        rule = rule._replace(largest=largest, chance=chance)
        matrix = np.zeros((n, n))
        for s in np.flatnonzero(probabilities > 0):
            z = subsets[s]
            q = np.where(z & rule.follows, active_chance(rule.active, int(z[free].sum())), rule.chance)
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


def test_blocks_are_chosen_with_the_stated_probabilities() -> None:
    sampler = compiled(DATA["plain"], InclusionPrior({"x4": 1.0}))
    rule = block_rules(sampler, np.zeros(6), 3, np.zeros(6))[0]._replace(largest=P, active=1.2)
    included = np.array([True, True, False, False, True, False])
    rng, n = np.random.default_rng(0), 4000
    entered = np.zeros(6)
    for _ in range(n):
        entered[choose_block(sampler.prior, rule, included, rng)] += 1
    expected = np.where(included & sampler.free, 0.6, rule.chance)
    assert expected[4] == expected[5] == 0.0
    assert (np.abs(entered / n - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_jumps(chain) -> None:
    sampler, beta, subsets, probabilities = chain
    n, d = subsets.shape
    differences = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 0]], dtype=bool) & sampler.free
    matrix = np.zeros((n, n))
    for s in np.flatnonzero(probabilities > 0):
        log_ratio = log_ratio_of(sampler.scoring, subsets[s])
        for flipped in differences:
            proposal = np.empty(d, bool)
            accept, _ = jump_acceptance(sampler.scoring, sampler.prior, beta, subsets[s], log_ratio, flipped, proposal)
            matrix[s, code_of(proposal)] += accept / len(differences)
        matrix[s, s] += 1.0 - matrix[s].sum()
    assert_reversible(matrix, probabilities)


def test_swaps() -> None:
    sampler = compiled(simulated(3, (14, 16), 32), UniformPrior())
    hot, cold = 0.2, 0.7
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
        batches.append(np.concatenate([np.bincount(codes(draws), minlength=32) / n, part.inclusion[:P]]))
    means, errors = np.mean(batches, axis=0), np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    assert (means[:32][expected == 0] == 0).all()
    assert (np.abs(means - [*expected, *(expected @ all_masks(P))]) < errors_allowed * errors + 2e-4).all()


EFFORTS = {
    "flips": Effort(0, 1, 1, 0, False),
    "blocks": Effort(0, 0, 2, 0, False),
    "exchange and flips": Effort(1, 1, 1, 0, False),
    "jumps and flips": Effort(0, 1, 1, 1, False),
}


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("name", DATA)
def test_the_kernel_samples_its_target(effort: str, name: str) -> None:
    sampler = compiled(DATA[name], SOFT)
    most = 2 if effort == "flips" else 4
    rules = block_rules(sampler, np.zeros(6), P, np.zeros(6))
    rules = tuple(rule._replace(largest=most, chance=0.4 * sampler.free) for rule in rules)
    (replica,) = sampler.replicas
    replica.place(np.repeat(sampler.start[None], 3, axis=0), np.repeat(sampler.start_log_ratio, 3))
    proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, JUMPS)
    parts = [sampler.sweep(replica, proposals, 300, EFFORTS[effort]) for _ in range(30)]
    assert_frequencies(parts, law(sampler, 1.0)[1], 300, 5.0)


# Any model


@pytest.mark.parametrize("width", [6, 30])
def test_the_memory_asks_once_and_all_at_a_time(width: int) -> None:
    calls = []

    def score(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        values = -rows.sum(axis=1).astype(float)
        values[values < -3] = np.nan
        return values

    memory, rng = ScoredSubsets(score, width), np.random.default_rng(0)
    rows = np.zeros((40, width), dtype=bool)
    rows[:, -5:] = rng.random((40, 5)) < 0.5
    expected = np.where(rows.sum(axis=1) > 3, -np.inf, -rows.sum(axis=1))
    for part in (slice(None), slice(None), slice(None, None, -2), slice(0)):
        np.testing.assert_array_equal(memory.values(rows[part]), expected[part])
    assert calls == [len(np.unique(rows, axis=0))]
    np.testing.assert_array_equal(np.unique(memory.without_value, axis=0), np.unique(rows[expected == -np.inf], axis=0))


def test_a_full_memory_begins_anew() -> None:
    asked: list[int] = []

    def score(rows: np.ndarray) -> np.ndarray:
        asked.extend(np.flatnonzero(rows.any(axis=0)).tolist())
        return np.flip(np.arange(len(rows), dtype=float))

    memory, single = ScoredSubsets(score, 30, most=3), np.eye(30, dtype=bool)
    for j in (0, 1, 2, 0, 3, 0, 3):
        memory.values(single[[j]])
    assert asked == [0, 1, 2, 3, 0]


def generic(target: Target, n: int = 1) -> GenericSampler:
    return sampler_of(target, n, RunOptions(rng=np.random.default_rng(1)))


@pytest.fixture(params=product(PRIORS, [(), (0, 3)], [0.0, 0.4, 1.0]), ids=str)
def chains(request: pytest.FixtureRequest):
    """One chain in every subset of positive probability; all subsets and their probabilities under π_β."""
    prior, hole, beta = request.param
    target = target_of(Toy(P, hole=hole), prior)
    subsets = all_masks(len(target.prior.free))
    log_ratios = target.model.log_ratio_many(target.masks(subsets))
    values = np.where(log_ratios > -np.inf, beta * np.maximum(log_ratios, -1e9), -np.inf)
    values = values + target.prior.log_prob(target.masks(subsets))
    probabilities = np.exp(values - logsumexp(values))
    inside = np.flatnonzero(probabilities > 0)
    every = Chains(target, generic(target).memory, subsets[inside], np.full(len(inside), beta))
    return every, inside, subsets, probabilities


def test_flips_exchanges_and_jumps_are_reversible(chains) -> None:
    every, states, subsets, probabilities = chains
    f = subsets.shape[1]
    keys = [np.tile(np.array(order) / f, (len(states), 1)) for order in permutations(range(f))]
    for proposals in (
        *([every.included ^ flip] for flip in np.eye(f, dtype=bool)),
        [exchanged(every.included, key) for key in keys],
        [every.included ^ difference for difference in (np.arange(f) < 3, np.arange(f) > 1)],
    ):
        matrix = np.zeros((len(subsets), len(subsets)))
        for proposal in proposals:
            # Uniforms of 1 are never below an acceptance: the chains stay.
            accept = acceptance(every.metropolis(proposal, np.ones(len(states))))
            np.add.at(matrix, (states, codes(proposal)), accept / len(proposals))
            matrix[states, states] += (1.0 - accept) / len(proposals)
        assert_reversible(matrix, probabilities)


@pytest.mark.parametrize("size", [1, 3])
def test_generic_blocks_are_reversible(chains, size: int) -> None:
    every, states, subsets, probabilities = chains
    for block in combinations(range(subsets.shape[1]), size):
        inside, choices = block_subsets(every.included, np.tile(block, (len(states), 1)))
        assert (inside[..., list(block)] == choices[:, None]).all()
        matrix = np.zeros((len(subsets), len(subsets)))
        for n, share in enumerate(block_shares(every.log_weights(every.scored(inside)))):
            np.add.at(matrix, (states, codes(inside[n])), share)
        assert_reversible(matrix, probabilities)


def test_generic_swaps_are_reversible() -> None:
    target = target_of(Toy(3))
    subsets, betas = all_masks(3), np.array([0.2, 0.7])
    log_ratios = target.model.log_ratio_many(subsets)
    hot, cold = (np.exp(beta * log_ratios - logsumexp(beta * log_ratios)) for beta in betas)
    pairs = np.array(list(product(range(8), repeat=2)))
    every = Chains(target, generic(target).memory, subsets[pairs.ravel()], np.tile(betas, 64))
    accept = every.swap_acceptance(2 * np.arange(64))
    matrix = np.zeros((64, 64))
    matrix[np.arange(64), 8 * pairs[:, 1] + pairs[:, 0]] += accept
    matrix[np.arange(64), np.arange(64)] += 1.0 - accept
    assert_reversible(matrix, np.outer(hot, cold).ravel())
    half = np.arange(64) % 2 == 0
    every.swap(2 * np.arange(64), np.where(half, 0.0, 1.0))
    np.testing.assert_array_equal(codes(every.included).reshape(-1, 2), np.where(half[:, None], pairs[:, ::-1], pairs))
    np.testing.assert_array_equal(every.scores[0], log_ratios[codes(every.included)])


def test_generic_chains_sample_their_target() -> None:
    """120 ladders at once"""
    target = target_of(Toy(P, strength=6.0, hole=(1, 3)), SOFT)
    sampler = generic(target, 120)
    for replica in sampler.replicas:
        replica.place(np.repeat(replica.included, 3, axis=0), np.repeat(replica.log_ratios, 3))
    rules = block_rules(sampler, np.array([0.1, 0.9, 0.2, 0.3, 0.1]), 2, np.zeros(P))
    proposals = Proposals(np.array([0.1, 0.4, 1.0]), rules, JUMPS[:, :P])
    list(sampler.rounds(proposals, 20))
    rounds = list(sampler.rounds(proposals, 200))
    for replica, part in zip(sampler.replicas, rounds, strict=True):
        draws = np.unpackbits(part.draws, axis=1, count=P).astype(bool)
        np.testing.assert_allclose(part.trace[:, -1], target.model.log_ratio_many(draws), rtol=1e-12)
        best = float(target.log_joint(replica.best.included[None])[0])
        assert replica.best.log_posterior[0] == pytest.approx(best)
        assert best > target.log_joint(draws).max() - 1e-9
    assert_frequencies(rounds, brute_force(target)[1], 200, 4.5)


def test_the_model_is_asked_once_and_only_inside_the_support_of_the_prior() -> None:
    model = Toy(9)
    sampler = generic(target_of(model, InclusionPrior({"x2": 1.0, "x5": 0.0}, max_size=5)), 2)
    model.asked.clear()
    proposals = Proposals(np.array([0.3, 1.0]), block_rules(sampler, np.zeros(7), 4, np.zeros(7)), JUMPS[:0, [0] * 7])
    sampler.anneal(proposals, 2, np.zeros(4))
    list(sampler.rounds(proposals._replace(betas=np.ones(1)), 20))
    asked = np.concatenate(model.asked)
    assert asked[:, 2].all()
    assert not asked[:, 5].any()
    assert asked.sum(axis=1).max() == 5
    assert len(np.unique(asked, axis=0)) == len(asked)


@pytest.mark.parametrize("f", [1, 64, 65, 200])
def test_number_of_flips(f: int) -> None:
    keys = np.random.default_rng(0).random((3, f))
    assert flip_order(keys, np.ones(f)).shape == (3, n_flipped(f))


@pytest.mark.parametrize(("asked", "p", "used"), [(None, 15, 4), (12, 15, 8), (3, 15, 3), (None, 2, 2)])
def test_blocks_stay_small_without_a_compiled_scorer(asked: int | None, p: int, used: int) -> None:
    assert generic(target_of(Toy(p))).block_size(asked) == used
