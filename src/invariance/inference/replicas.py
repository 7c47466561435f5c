"""Replicas of a tempered sampler, each a ladder of chains with targets p(z) Λ(z)^β.

They are compiled, or for any model score subsets through a memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .._tools.arrays import Floats, Integers, Mask, subsets_at
from .._tools.parallel import ordered_map
from ..exceptions import EngineError
from ..kernels.active_set import Scoring, active_set
from ..kernels.cholesky import score_subsets
from ..kernels.mcmc import Best, BlockRule, Effort, SubsetPrior, sweeps
from ..kernels.row_residuals import without_values
from ..models.base import GuessesFlips
from .base import Report, RunOptions, ScoredSubsets, Target

_SEARCH = Effort(exchanges=1, flips=2, blocks=1, jumps=0, searching=True)
_SAMPLE = Effort(exchanges=1, flips=1, blocks=2, jumps=1, searching=False, rounds=6)
_MOST_FACTOR_BYTES = 4e9
_BLOCK_WEIGHT = 10.0  # of a conditional over a whole block, against one over the feature alone
_BY_ROWS = (
    3  # last temperatures at which a search scores from the rows what second moments cannot decide
)
# half the gain of an impossible flip: finite, so that there is one to choose where none is possible
_LOWEST_HALF_GAIN = -1e6
# Without a compiled scorer: features for each exchange of a sweep; up to so many features every
# sweep flips all; of more, the most interesting ones and one in so many of the others.
_GENERIC_BLOCK = 4
_FEATURES_PER_EXCHANGE = 4
ALL_FLIPPED = 64
_OTHERS_FLIPPED = 8
# of a generic search at each temperature; flips where the model guesses good ones
_SWEEPS_OF_A_GENERIC_SEARCH = 10
_GUIDED_FLIPS = 20

SampledLaw = tuple[
    Scoring, SubsetPrior, Best
]  # what is sampled, and where the best subset is noted


class Proposals(NamedTuple):
    """Hold what the moves draw from.

    betas (t,) : inverse temperatures, ascending to 1; rules : two recipes for blocks; differences
    (n, d) : between pairs of known modes
    """

    betas: Floats
    rules: tuple[BlockRule, BlockRule]
    differences: Mask


class Round(NamedTuple):
    """Sweeps of one replica. draws (n, ⌈d/8⌉): packed subsets of the coldest chain; trace (n, t):
    log Λ of all chains, the coldest last; inclusion (d,): Rao-Blackwellised mean; interest (d,):
    the same averaged over all temperatures; rejected (t-1,): mean probability of refusing a swap"""

    draws: NDArray[np.uint8]
    trace: Floats
    inclusion: Floats
    interest: Floats
    rejected: Floats


class Replica:
    """Hold a ladder of chains.

    included (t, d), log_ratios (t,) : the present subset of each; best : the best subset so far
    """

    def __init__(self, sampler: Sampler, rng: np.random.Generator) -> None:
        self.rng = rng
        self.best = nothing_yet(sampler.start)
        self.place(sampler.start[None], np.array([sampler.start_log_ratio]))

    def place(self, included: Mask, log_ratios: Floats) -> None:
        self.included = included.copy()
        self.log_ratios = log_ratios.copy()


def nothing_yet(start: Mask) -> Best:
    return Best(start.copy(), np.array([-np.inf]))


def keep_better(record: Best, included: Mask, log_posterior: float) -> None:
    if log_posterior > record.log_posterior[0]:
        record.included[:] = included
        record.log_posterior[0] = log_posterior


class Sampler(ABC):
    """Move replicas over a target.

    A subset is a row of d flags, one for each column of a compiled scorer, or one for each free
    feature if scores come from a memory. start (d,) : the subset of forced features,
    start_log_ratio : its log Λ; columns (f,), free (d,) : of the free features; largest_block :
    largest number of columns of a block; report(steps, text) : shows the progress
    """

    largest_block: int
    replicas: Sequence[Replica]

    def __init__(
        self,
        target: Target,
        start: Mask,
        log_ratio: float,
        columns: Integers,
        options: RunOptions,
        report: Report,
    ) -> None:
        if not log_ratio > -np.inf:
            raise target.nothing_scored()
        self.target = target
        self.start = start
        self.start_log_ratio = log_ratio
        self.columns = columns
        self.n_rows = target.model.n_rows
        self.n_columns = start.size
        self.n_free = len(columns)
        self.free = np.isin(np.arange(start.size), columns)
        self.n_jobs = options.n_jobs
        self.report = report

    @property
    def block_size(self) -> int:
        return max(1, min(self.largest_block, self.n_free))

    def masks(self, included: Mask) -> Mask:
        """Return the features (n, p) of rows of `included` (n, d)."""
        return self.target.masks(included[:, self.columns])

    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        """Return values (p,) by feature from values (d,) of the columns; 0 for excluded
        features."""
        return self.target.expanded(values[self.columns], of_forced, 0.0)

    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        """Return log p(z)Λ(z) (n,) of rows of `included` (n, d), not normalised by the evidence."""
        return self.target.log_joint(self.masks(included), log_ratios)

    @abstractmethod
    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        """n sweeps of every replica, in their order."""

    def advance(self, proposals: Proposals, n: int) -> list[Round]:
        """Run `rounds` and report the progress."""
        results = []
        for result in self.rounds(proposals, n):
            results.append(result)
            self.report(1, f"best {max(value for _, value in self.bests()):.1f}")
        return results

    def bests(self) -> list[tuple[Mask, float]]:
        """Return the best subset (d,) that each replica met, and its log p(z)Λ(z)."""
        return [
            (replica.best.included.copy(), float(replica.best.log_posterior[0]))
            for replica in self.replicas
        ]


class CompiledReplica(Replica):
    """Hold a replica with its scorer and work space."""

    def __init__(self, sampler: CompiledSampler, rng: np.random.Generator) -> None:
        super().__init__(sampler, rng)
        self.scoring = sampler.scoring
        self.work = active_set(len(self.scoring.weights), sampler.n_columns, sampler.capacity + 1)


def _log_ratio_of(scoring: Scoring, included: Mask) -> float:
    """Return log Λ of one subset of columns (d,)."""
    members = np.flatnonzero(included)
    value = np.empty(1)
    score_subsets(scoring, np.nan, np.array([0, len(members)]), members, value)
    return float(value[0])


class CompiledSampler(Sampler):
    """Over d columns (features and outcome), as the kernels want it; replicas are spread over
    threads. features (p,): columns of the features; capacity: largest subset"""

    replicas: list[CompiledReplica]

    def __init__(
        self,
        target: Target,
        scoring: Scoring,
        n_replicas: int,
        options: RunOptions,
        report: Report = lambda *_: None,
    ) -> None:
        prior = target.prior
        d = scoring.inverse_scale.shape[1]
        self.scoring = scoring
        self.features = np.delete(np.arange(d), scoring.outcome)
        self.largest_block = 12 if len(scoring.weights) <= 21 else 10
        log_odds = np.zeros(d)
        start = np.zeros(d, bool)
        log_odds[self.features] = prior.log_odds
        start[self.features] = prior.forced_in
        super().__init__(
            target, start, _log_ratio_of(scoring, start), self.features[prior.free], options, report
        )
        self.prior = SubsetPrior(
            log_odds, np.array(prior.log_size_weight), self.free, -prior.log_normalizer
        )
        self.capacity = max(1, min(prior.max_size, self.n_free + int(start.sum())))
        size = 8.0 * self.capacity * d * len(scoring.weights)
        if size > _MOST_FACTOR_BYTES:
            needed = f"{size / 1e9:.1f} GB for each chain: set a smaller max_size, such as 200."
            raise EngineError(
                f"subsets of up to {self.capacity:,} of {d - 1:,} features take {needed}"
            )
        self.replicas = [CompiledReplica(self, rng) for rng in options.rng.spawn(n_replicas)]

    def value_of(self, included: Mask, scoring: Scoring | None = None) -> float:
        """Return log p(z)Λ(z) of one subset (d,); -inf if it is undecidable."""
        log_ratio = _log_ratio_of(self.scoring if scoring is None else scoring, included)
        return (
            -np.inf
            if np.isnan(log_ratio)
            else float(self.log_posterior(included[None], np.array([log_ratio]))[0])
        )

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        return ordered_map(
            lambda replica: self.sweep(replica, proposals, n), self.replicas, self.n_jobs
        )

    def search(
        self,
        replica: CompiledReplica,
        proposals: Proposals,
        n: int,
        thrift: float = 0.0,
        free: Mask | None = None,
    ) -> tuple[Best, Floats]:
        """Anneal one chain from the hottest to the coldest temperature, n sweeps at each.

        Returns the best subset that it met, and the mean interest (d,); the ladder keeps the end of
        each temperature. The prior is tempered as well, because it could keep hot chains from
        larger subsets. `thrift` favours small subsets while the chain is hot, because crowded
        subsets would hide the path; only `free` (d,) columns enter.
        """
        prior = self.prior
        betas = proposals.betas
        replica.place(self.start[None], np.array([self.start_log_ratio]))
        found = nothing_yet(self.start)
        visited = []
        values = []
        interest = np.zeros(self.n_columns)
        hot = replica.scoring._replace(rows=without_values(replica.scoring.rows))
        for i, beta in enumerate(betas):
            best = nothing_yet(self.start)
            by_size = beta * prior.by_size - (1.0 - beta) * thrift * np.arange(prior.by_size.size)
            open_ones = prior.free if free is None else prior.free & free
            tempered = prior._replace(
                log_odds=beta * prior.log_odds, by_size=by_size, free=open_ones
            )
            scoring = replica.scoring if i >= len(betas) - _BY_ROWS else hot
            stage = proposals._replace(betas=betas[i : i + 1])
            interest += self.sweep(
                replica, stage, n, _SEARCH, (scoring, tempered, best)
            ).interest / len(betas)
            value = self.value_of(best.included, replica.scoring)
            for record in (replica.best, found):
                keep_better(record, best.included, value)
            visited.append(replica.included[0].copy())
            values.append(replica.log_ratios[0])
        replica.place(np.array(visited), np.array(values))
        return found, interest

    def sweep(
        self,
        replica: CompiledReplica,
        proposals: Proposals,
        n: int,
        effort: Effort = _SAMPLE,
        law: SampledLaw | None = None,
    ) -> Round:
        """n sweeps, by default such that samples may be kept."""
        scoring, prior, best = law or (replica.scoring, self.prior, replica.best)
        t = len(proposals.betas)
        d = self.n_columns
        sums = np.zeros((t, 3, d))
        rejected = np.zeros(t - 1)
        draws = np.empty((n, d), bool)
        trace = np.empty((n, t))
        moves = proposals.rules, proposals.differences, effort
        chains = proposals.betas, replica.included, replica.log_ratios, replica.work
        sweeps(scoring, prior, *moves, *chains, sums, rejected, best, draws, trace, replica.rng)
        n_flips = n * (effort.flips + 1)
        flips, blocks, n_blocks = sums[-1]
        inclusion = (flips + _BLOCK_WEIGHT * blocks) / (
            effort.rounds * n_flips + _BLOCK_WEIGHT * n_blocks
        )
        interest = sums[:, 0].mean(axis=0) / n_flips
        return Round(np.packbits(draws, axis=1), trace, inclusion, interest, rejected / n)


def block_rules(
    sampler: Sampler, interest: Floats, block_size: int, doubt: Floats
) -> tuple[BlockRule, BlockRule]:
    """Two recipes: mostly members of the subset, or whatever is open, member or not; every column
    keeps a chance. interest (d,): how often each column was worth including, at any temperature;
    doubt (d,): how undecided each is at the coldest. Where all free columns fit into one block, the
    second takes them all: an exact draw from π_β."""
    free = sampler.free
    even = free / max(sampler.n_free, 1)

    def share(values: Floats) -> Floats:
        weights = np.where(free, values, 0.0)
        return weights / weights.sum() if weights.sum() > 0 else even

    following = np.minimum(0.9, 0.25 * block_size * (0.5 * even + 0.5 * share(interest)))
    open_ones = 0.2 * even + 0.3 * share(interest) + 0.5 * share(doubt)
    fixed = (
        free.astype(float)
        if sampler.n_free <= block_size
        else _filled(open_ones, 0.75 * block_size)
    )
    few = 0.55 * block_size
    many = 0.3 * block_size
    return BlockRule(following, few, block_size, True), BlockRule(fixed, many, block_size, False)


def _filled(shares: Floats, expected: float) -> Floats:
    """Chances in proportion to shares (d,), none above 0.9, that sum to `expected`."""
    low = expected
    high = 1e6 * expected
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (
            (middle, high) if np.minimum(0.9, middle * shares).sum() < expected else (low, middle)
        )
    return np.minimum(0.9, low * shares)


# ---------------------------------------------------------------- any model


class Chains:
    """c chains over f free features: each samples exp(β·log Λ(z) + power·log p(z) − thrift·|z|), up
    to a constant.

    law (3, c): β, power and thrift; included (c, f), scores (3, c): the present subsets, their log
    Λ, log p and size best_included (c, f), best (c,): the best subset that each has met and its log
    p(z)Λ(z) flips, blocks (c, f): sums of P(z_j = 1 | others) over flips and over blocks; n_flips,
    n_blocks (c, f): how many
    """

    def __init__(
        self, target: Target, memory: ScoredSubsets, included: Mask, betas: Floats
    ) -> None:
        self._prior = target.prior.over_free
        self._memory = memory
        self._every = np.arange(len(included))
        self.included = included.copy()
        self.scores = self.scored(included)
        self.best_included = included.copy()
        self.best = self.scores[0] + self.scores[1]
        self.flips, self.n_flips, self.blocks, self.n_blocks = np.zeros((4, *included.shape))
        self.obey(betas, np.ones_like(betas), np.zeros_like(betas))

    def obey(self, betas: Floats, powers: Floats, thrifts: Floats) -> None:
        """Sample these laws from now on."""
        self.law = np.array([betas, powers, thrifts])
        self._log_weights = self.log_weights(self.scores)

    def log_weights(self, scores: Floats) -> Floats:
        """Return log weights (..., c) of scores (3, ..., c), some for each chain."""
        beta, power, thrift = self.law
        decided = scores[0] > -np.inf
        values = beta * np.where(decided, scores[0], 0.0) + (power * scores[1] - thrift * scores[2])
        return np.where(decided, values, -np.inf)

    def scored(self, subsets: Mask) -> Floats:
        """Return scores (3, ...) of subsets (..., f); those outside the prior's support are not
        computed."""
        *shape, f = subsets.shape
        log_priors = self._prior.log_prob(subsets.reshape(prod(shape), f)).reshape(shape)
        log_ratios = np.full(shape, -np.inf)
        inside = log_priors > -np.inf
        log_ratios[inside] = self._memory.values(subsets[inside])
        return np.array([log_ratios, log_priors, subsets.sum(axis=-1)])

    def metropolis(self, proposals: Mask, uniforms: Floats) -> Floats:
        """Take proposals (c, f), of a symmetric law, or stay; returns the gains (c,) in log
        weight."""
        scores = self.scored(proposals)
        log_weights = self.log_weights(scores)
        gains = log_weights - self._log_weights
        self._move(np.flatnonzero(uniforms < acceptance(gains)), proposals, scores, log_weights)
        return gains

    def flip(self, features: Integers, uniforms: Floats) -> None:
        """Flip features (c,)."""
        at = self._every, features
        proposals = self.included.copy()
        proposals[at] ^= True
        gains = self.metropolis(proposals, uniforms)
        self.flips[at] += expit(np.where(proposals[at], gains, -gains))
        self.n_flips[at] += 1.0

    def flip_guided(self, guessed: Floats, choice: Floats, uniforms: Floats) -> None:
        """Flip a feature by the root of its probability if log Λ is as guessed (c, f): a search,
        not a draw."""
        subsets = self.included ^ np.eye(self.included.shape[1], dtype=bool)[:, None]
        log_priors = np.stack([self._prior.log_prob(flipped) for flipped in subsets])
        gains = (
            self.log_weights(np.array([guessed.T, log_priors, subsets.sum(axis=-1)]))
            - self._log_weights
        )
        self.flips += expit(np.where(self.included, -gains.T, gains.T))
        self.n_flips += 1.0
        _, features = draw_shares(np.maximum(0.5 * gains, _LOWEST_HALF_GAIN), choice)
        proposals = self.included.copy()
        proposals[self._every, features] ^= True
        self.metropolis(proposals, uniforms)

    def draw_block(self, features: Integers, uniforms: Floats) -> None:
        """Draw features (c, b) jointly, given the others; their choice may not depend on z."""
        subsets, choices = block_subsets(self.included, features)
        scores = self.scored(subsets)
        log_weights = self.log_weights(scores)
        shares, number = draw_shares(log_weights, uniforms)
        drawn = number, self._every
        self._move(self._every, subsets[drawn], scores[:, *drawn], log_weights[drawn])
        at = self._every[:, None], features
        self.blocks[at] += shares.T @ choices
        self.n_blocks[at] += 1.0

    def swap_acceptance(self, first: Integers) -> Floats:
        """Return the acceptance probability of swapping chains `first` (...) with the chains after
        them."""
        betas = self.law[0]
        log_ratios = self.scores[0]
        return acceptance(
            (betas[first] - betas[first + 1]) * (log_ratios[first + 1] - log_ratios[first])
        )

    def swap(self, first: Integers, uniforms: Floats) -> None:
        """Exchange the subsets of chains `first` (m,), which are not neighbours, with the chains
        after them."""
        accepted = first[uniforms < self.swap_acceptance(first)]
        here = np.concatenate([accepted, accepted + 1])
        there = np.concatenate([accepted + 1, accepted])
        self.included[here] = self.included[there]
        self.scores[:, here] = self.scores[:, there]
        self._log_weights = self.log_weights(self.scores)

    def climb(self) -> None:
        """Steepest ascent of log p(z)Λ(z) by flips, from the best subset of each chain: a search,
        not a draw."""
        flips = np.eye(self.included.shape[1], dtype=bool)[:, None]
        climbing = self._every if len(flips) else self._every[:0]
        while len(climbing):
            subsets = self.best_included[climbing] ^ flips
            log_ratios, log_priors, _ = self.scored(subsets)
            values = log_ratios + log_priors
            better = np.flatnonzero(values.max(axis=0) > self.best[climbing])
            top = values.argmax(axis=0)[better], better
            climbing = climbing[better]
            self.best_included[climbing] = subsets[top]
            self.best[climbing] = values[top]

    def sweep(self, proposals: Proposals, uniforms: Callable[..., Floats]) -> None:
        """Features are flipped, each at most once, in a random order; then exchanges, a block and a
        jump."""
        f = self.included.shape[1]
        rule = proposals.rules[1]
        order = flip_order(uniforms(f), rule.chance)
        chance = uniforms(f)
        for i in range(order.shape[1]):
            self.flip(order[:, i], chance[:, i])
        for _ in range(n_exchanged(f)):
            self.metropolis(exchanged(self.included, uniforms(f)), uniforms())
        if f:
            self.draw_block(
                chosen_blocks(rule.chance, uniforms(f), min(rule.largest, f)), uniforms()
            )
        if n := len(proposals.differences):
            difference = proposals.differences[(n * uniforms()).astype(np.intp)]
            self.metropolis(self.included ^ difference, uniforms())

    def _move(self, moving: Integers, included: Mask, scores: Floats, log_weights: Floats) -> None:
        """Let the chains `moving` (m,) have these subsets, given for all chains."""
        self.included[moving] = included[moving]
        self._log_weights[moving] = log_weights[moving]
        self.scores[:, moving] = scores[:, moving]
        values = scores[0, moving] + scores[1, moving]
        better = values > self.best[moving]
        risen = moving[better]
        self.best_included[risen] = included[risen]
        self.best[risen] = values[better]


def acceptance(gains: Floats) -> Floats:
    """Metropolis: the probability of a move whose target has exp(gains) times the weight."""
    return np.exp(np.minimum(gains, 0.0))


def exchanged(included: Mask, keys: Floats) -> Mask:
    """Return subsets (c, f) with a member and another feature exchanged, those of largest keys (c,
    f).

    They are unchanged if there is no such pair.
    """
    flipped = np.zeros_like(included)
    every = np.arange(len(included))
    for group in (included, ~included):
        flipped[every, np.where(group, keys, -1.0).argmax(axis=1)] = True
    mixed = included.any(axis=1, keepdims=True) & ~included.all(axis=1, keepdims=True)
    return included ^ (flipped & mixed)


def chosen_blocks(chances: Floats, uniforms: Floats, size: int) -> Integers:
    """Return distinct features (c, size), drawn in proportion to chances (f,) by uniforms (c,
    f)."""
    # Of independent exponential times with these rates, the first ones are such draws.
    times = -np.log1p(-uniforms) / chances
    return np.argpartition(times, size - 1, axis=1)[:, :size]


def block_subsets(included: Mask, features: Integers) -> tuple[Mask, Mask]:
    """Return subsets (2**b, c, f) equal to included (c, f) outside features (c, b), and choices
    (2**b, b)."""
    c, b = features.shape
    choices = subsets_at(np.arange(1 << b), b)
    subsets = np.repeat(included[None], len(choices), axis=0)
    subsets[:, np.arange(c)[:, None], features] = choices[:, None]
    return subsets, choices


def draw_shares(log_weights: Floats, uniforms: Floats) -> tuple[Floats, Integers]:
    """Probabilities (n, c) of n subsets for each chain, and the number (c,) that uniforms (c,) draw
    from each."""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    shares = weights / weights.sum(axis=0)
    last = len(shares) - 1 - (shares[::-1] > 0.0).argmax(axis=0)
    return shares, np.minimum((shares.cumsum(axis=0) <= uniforms).sum(axis=0), last)


def n_flipped(f: int) -> int:
    """Return the number of f features that a generic sweep flips.

    It is all, or if these are many the most interesting ones and some of the others.
    """
    leading = ALL_FLIPPED // 2
    return f if f <= ALL_FLIPPED else leading + -(-(f - leading) // _OTHERS_FLIPPED)


def n_exchanged(f: int) -> int:
    return min(f, ALL_FLIPPED) // _FEATURES_PER_EXCHANGE


def n_proposed(f: int) -> int:
    """Subsets that a generic sweep over f features may have to score"""
    return n_flipped(f) + n_exchanged(f) + (1 << _GENERIC_BLOCK)


def flip_order(keys: Floats, interest: Floats) -> Integers:
    """Return the features (c, n_flipped) that a sweep flips, by random keys (c, f) and interest
    (f,).

    They do not depend on the subset.
    """
    f = keys.shape[1]
    if f > ALL_FLIPPED:
        keys[:, np.argsort(-interest, kind="stable")[: ALL_FLIPPED // 2]] -= 1.0
    return keys.argsort(axis=1)[:, : n_flipped(f)]


class GenericSampler(Sampler):
    """All chains of all replicas move together over the free features; each replica has a generator
    of its own."""

    largest_block = _GENERIC_BLOCK

    def __init__(
        self, target: Target, n_replicas: int, options: RunOptions, report: Report
    ) -> None:
        f = len(target.prior.free)
        self.memory = ScoredSubsets(
            lambda draws: target.model.sampling_ratio_many(target.masks(draws)), f
        )
        start = np.zeros(f, dtype=bool)
        super().__init__(
            target, start, float(self.memory.values(start[None])[0]), np.arange(f), options, report
        )
        self.replicas = [Replica(self, rng) for rng in options.rng.spawn(n_replicas)]

    def _uniforms(self, each: int) -> Callable[..., Floats]:
        """Uniform numbers (c, *shape) for `each` chain of the replicas, from the replicas' own
        generators."""
        return lambda *shape: np.concatenate(
            [replica.rng.random((each, *shape)) for replica in self.replicas]
        )

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        """Sweeps, each with swaps between neighbouring temperatures, of even and odd pairs in
        turn."""
        t = len(proposals.betas)
        r = len(self.replicas)
        included = np.concatenate([replica.included for replica in self.replicas])
        chains = Chains(self.target, self.memory, included, np.tile(proposals.betas, r))
        pairs = t * np.arange(r)[:, None] + np.arange(t - 1)
        draws = np.empty((n, r, self.n_columns), dtype=bool)
        trace = np.empty((n, r, t))
        refused = np.zeros(pairs.shape)
        for step in range(n):
            chains.sweep(proposals, self._uniforms(t))
            refused += 1.0 - chains.swap_acceptance(pairs)
            turn = slice(step % 2, None, 2)
            chains.swap(pairs[:, turn].ravel(), self._uniforms(1)(t - 1)[:, turn].ravel())
            draws[step] = chains.included[t - 1 :: t]
            trace[step] = chains.scores[0].reshape(r, t)
        interest = (chains.flips / np.maximum(chains.n_flips, 1.0)).reshape(r, t, -1).mean(axis=1)
        # Of the coldest chains: from conditional probabilities or, without any, from the draws.
        total = (chains.flips + chains.blocks)[t - 1 :: t]
        number = (chains.n_flips + chains.n_blocks)[t - 1 :: t]
        inclusion = np.where(number > 0.0, total / np.maximum(number, 1.0), draws.mean(axis=0))
        self._note_best(chains, t)
        for i, replica in enumerate(self.replicas):
            own = slice(i * t, (i + 1) * t)
            replica.place(chains.included[own], chains.scores[0, own])
            yield Round(
                np.packbits(draws[:, i], axis=1),
                trace[:, i],
                inclusion[i],
                interest[i],
                refused[i] / n,
            )

    def anneal(
        self, proposals: Proposals, each: int, thrifts: Floats
    ) -> tuple[Chains, Mask, Floats]:
        """Anneal `each` chain of every replica, then climb from the best subset that it met.

        Returns the chains, and their subsets at every temperature (c, t, f) with log Λ (c, t). The
        prior is tempered as well. thrifts (c,) : cost of a member while the chain is hot.
        """
        c = len(thrifts)
        chains = Chains(
            self.target, self.memory, np.repeat(self.start[None], c, axis=0), np.ones(c)
        )
        left = []
        values = []
        for beta in proposals.betas:
            chains.obey(np.full(c, beta), np.full(c, beta), (1.0 - beta) * thrifts)
            self._search_on(chains, proposals, self._uniforms(each))
            left.append(chains.included.copy())
            values.append(chains.scores[0].copy())
        chains.climb()
        self._note_best(chains, each)
        return chains, np.stack(left, axis=1), np.stack(values, axis=1)

    def _search_on(
        self, chains: Chains, proposals: Proposals, uniforms: Callable[..., Floats]
    ) -> None:
        """Search at one temperature.

        If the model can guess and features are many, only promising subsets are scored.
        """
        model = self.target.model
        if not isinstance(model, GuessesFlips) or self.n_columns <= ALL_FLIPPED:
            for _ in range(_SWEEPS_OF_A_GENERIC_SEARCH):
                chains.sweep(proposals, uniforms)
            return
        for _ in range(_GUIDED_FLIPS):
            guessed = model.guessed_flips(self.masks(chains.included)).log_ratio[
                :, self.target.prior.free
            ]
            chains.flip_guided(guessed, uniforms(), uniforms())

    def _note_best(self, chains: Chains, each: int) -> None:
        """Record the best subset of `each` chain of every replica."""
        for r, replica in enumerate(self.replicas):
            top = r * each + int(chains.best[r * each : (r + 1) * each].argmax())
            keep_better(replica.best, chains.best_included[top], float(chains.best[top]))


AnySampler = CompiledSampler | GenericSampler


def sampler_of(
    target: Target, n_replicas: int, options: RunOptions, report: Report = lambda *_: None
) -> AnySampler:
    """Return a compiled sampler if the model has a compiled scorer, else a generic one."""
    scoring = target.model.scoring()
    if scoring is None:
        return GenericSampler(target, n_replicas, options, report)
    return CompiledSampler(target, scoring, n_replicas, options, report)
