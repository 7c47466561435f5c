"""The replicas of a sampler, which search for modes and sample: compiled ones, or all chains of any model at once,
scored through a memory of subsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from scipy.special import expit

from ..._tools.arrays import Floats, Integers, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from ...models.base import GuessesFlips
from ...priors.base import PriorTerms
from ..base import RunOptions, ScoredSubsets, Target
from ..modes import THRIFT, Mode, Searched, leading_modes, most_searches, search_modes, undecidable_subsets
from .ladders import CompiledTarget, Ladder, Proposals, Replica, Round, Space, block_rules, keep_better

# Half the gain of a flip that is not possible at all: finite, so that there is one to choose where none is.
_FARTHEST = -1e6


class Scores(NamedTuple):
    """log Λ(z), log p(z) and |z| of subsets, (..., c) each: some for each of c chains."""

    log_ratios: Floats
    log_priors: Floats
    sizes: Integers


@dataclass(frozen=True, eq=False)
class Laws:
    """What each of c chains samples: the exponential of β·log Λ(z) + power·log p(z) − thrift·|z|, up to a constant.

    betas, powers, thrifts: (c,).
    """

    betas: Floats
    powers: Floats
    thrifts: Floats

    @classmethod
    def tempered(cls, betas: Floats) -> Self:
        """π_β(z) ∝ p(z)·Λ(z)^β"""
        return cls(betas, np.ones_like(betas), np.zeros_like(betas))

    def log_weights(self, scores: Scores) -> Floats:
        """(..., c)"""
        decided = scores.log_ratios > -np.inf
        values = self.betas * np.where(decided, scores.log_ratios, 0.0)
        values += self.powers * scores.log_priors - self.thrifts * scores.sizes
        return np.where(decided, values, -np.inf)


class Chains:
    """c chains over f free features. included (c, f), scores (c,): the present subsets.

    best_included (c, f), best (c,): the best subset that each has met and its log p(z)Λ(z).
    flips, blocks (c, f): sums of P(z_j = 1 | others) over flips and over blocks; n_flips, n_blocks (c, f): how many.
    """

    def __init__(self, terms: PriorTerms, memory: ScoredSubsets, laws: Laws, included: Mask) -> None:
        self._terms = terms
        self._memory = memory
        self._every = np.arange(len(included))
        self.included = included.copy()
        self.scores = self.scored(included)
        self.best_included = included.copy()
        self.best = self.scores.log_priors + self.scores.log_ratios
        self.flips, self.n_flips, self.blocks, self.n_blocks = np.zeros((4, *included.shape))
        self.obey(laws)

    def obey(self, laws: Laws) -> None:
        """Sample these laws from now on."""
        self.laws = laws
        self._log_weights = laws.log_weights(self.scores)

    def scored(self, subsets: Mask) -> Scores:
        """Of subsets (..., f); the model is not asked about those outside the prior's support."""
        *shape, f = subsets.shape
        log_priors = self._terms.log_prior(subsets.reshape(prod(shape), f)).reshape(shape)
        log_ratios = np.full(shape, -np.inf)
        inside = log_priors > -np.inf
        log_ratios[inside] = self._memory.values(subsets[inside])
        return Scores(log_ratios, log_priors, subsets.sum(axis=-1))

    def metropolis(self, proposals: Mask, uniforms: Floats) -> Floats:
        """Take proposals (c, f), as probable one way as the other, or stay. Returns the log of how many times more
        weight they have (c,)."""
        scores = self.scored(proposals)
        log_weights = self.laws.log_weights(scores)
        gains = log_weights - self._log_weights
        self._move(np.flatnonzero(uniforms < acceptance(gains)), proposals, scores, log_weights)
        return gains

    def flip(self, features: Integers, uniforms: Floats) -> None:
        """Flip features (c,)."""
        proposals = self.included.copy()
        proposals[self._every, features] ^= True
        gains = self.metropolis(proposals, uniforms)
        entering = proposals[self._every, features]
        self.flips[self._every, features] += expit(np.where(entering, gains, -gains))
        self.n_flips[self._every, features] += 1.0

    def flip_guided(self, guessed: Floats, choice: Floats, uniforms: Floats) -> None:
        """Flip a feature, by the root of how probable the result is if log Λ is as guessed (c, f) after each flip: a
        search, not a draw."""
        subsets = self.included ^ np.eye(self.included.shape[1], dtype=bool)[:, None]
        log_priors = np.stack([self._terms.log_prior(flipped) for flipped in subsets])
        gains = self.laws.log_weights(Scores(guessed.T, log_priors, subsets.sum(axis=-1))) - self._log_weights
        self.flips += expit(np.where(self.included, -gains.T, gains.T))
        self.n_flips += 1.0
        features = drawn_from(block_shares(np.maximum(0.5 * gains, _FARTHEST)), choice)
        proposals = self.included.copy()
        proposals[self._every, features] ^= True
        self.metropolis(proposals, uniforms)

    def draw_block(self, features: Integers, uniforms: Floats) -> None:
        """Draw features (c, b) jointly, given the others; their choice may not depend on z."""
        subsets, choices = block_subsets(self.included, features)
        scores = self.scored(subsets)
        log_weights = self.laws.log_weights(scores)
        shares = block_shares(log_weights)
        drawn = drawn_from(shares, uniforms), self._every
        taken = Scores(scores.log_ratios[drawn], scores.log_priors[drawn], scores.sizes[drawn])
        self._move(self._every, subsets[drawn], taken, log_weights[drawn])
        rows = self._every[:, None]
        self.blocks[rows, features] += shares.T @ choices
        self.n_blocks[rows, features] += 1.0

    def swap_acceptance(self, first: Integers) -> Floats:
        """Of exchanging the subsets of chains `first` (...) with those of the chains after them."""
        betas, log_ratios = self.laws.betas, self.scores.log_ratios
        return acceptance((betas[first] - betas[first + 1]) * (log_ratios[first + 1] - log_ratios[first]))

    def swap(self, first: Integers, uniforms: Floats) -> None:
        """Exchange the subsets of chains `first` (m,), no two of them neighbours, with those of the chains after."""
        accepted = first[uniforms < self.swap_acceptance(first)]
        here, there = np.concatenate([accepted, accepted + 1]), np.concatenate([accepted + 1, accepted])
        for array in (self.included, *self.scores):
            array[here] = array[there]
        self.obey(self.laws)

    def climb(self) -> None:
        """Steepest ascent of log p(z)Λ(z) by flips, from the best subset of each chain: a search, not a draw."""
        flips = np.eye(self.included.shape[1], dtype=bool)[:, None]
        climbing = self._every if len(flips) else self._every[:0]
        while len(climbing):
            subsets = self.best_included[climbing] ^ flips
            scores = self.scored(subsets)
            values = scores.log_ratios + scores.log_priors
            better = np.flatnonzero(values.max(axis=0) > self.best[climbing])
            top = values.argmax(axis=0)[better], better
            climbing = climbing[better]
            self.best_included[climbing], self.best[climbing] = subsets[top], values[top]

    def _move(self, moving: Integers, included: Mask, scores: Scores, log_weights: Floats) -> None:
        """Let the chains `moving` (m,) have these subsets, given for all chains."""
        self.included[moving] = included[moving]
        self._log_weights[moving] = log_weights[moving]
        for mine, new in zip(self.scores, scores, strict=True):
            mine[moving] = new[moving]
        values = scores.log_ratios[moving] + scores.log_priors[moving]
        better = values > self.best[moving]
        risen = moving[better]
        self.best_included[risen], self.best[risen] = included[risen], values[better]


def acceptance(gains: Floats) -> Floats:
    """Metropolis: the probability of a move whose target has exp(gains) times the weight."""
    return np.exp(np.minimum(gains, 0.0))


def exchanged(included: Mask, keys: Floats) -> Mask:
    """(c, f) included with the member and the other feature that have the largest keys (c, f) changed; the same where
    it has only members, or none."""
    flipped, every = np.zeros_like(included), np.arange(len(included))
    for group in (included, ~included):
        flipped[every, np.where(group, keys, -1.0).argmax(axis=1)] = True
    mixed = included.any(axis=1, keepdims=True) & ~included.all(axis=1, keepdims=True)
    return included ^ (flipped & mixed)


def chosen_blocks(chances: Floats, uniforms: Floats, size: int) -> Integers:
    """(c, size) distinct features, drawn one after another in proportion to chances (f,), by uniforms (c, f)."""
    # Of independent exponential times with these rates, the first ones are such draws.
    times = -np.log1p(-uniforms) / chances
    return np.argpartition(times, size - 1, axis=1)[:, :size]


def block_subsets(included: Mask, features: Integers) -> tuple[Mask, Mask]:
    """(2**b, c, f) all subsets that agree with included (c, f) outside features (c, b), and which of these features
    each holds (2**b, b)."""
    (c, b), n = features.shape, 1 << features.shape[1]
    choices = (np.arange(n)[:, None] >> np.arange(b) & 1).astype(bool)
    subsets = np.repeat(included[None], n, axis=0)
    subsets[np.arange(n)[:, None, None], np.arange(c)[:, None], features] = choices[:, None]
    return subsets, choices


def block_shares(log_weights: Floats) -> Floats:
    """(n, c) probabilities of n subsets for each chain, in proportion to their weights"""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def drawn_from(shares: Floats, uniforms: Floats) -> Integers:
    """(c,) a number drawn from the probabilities (n, c) of each chain, by uniforms (c,)"""
    last = len(shares) - 1 - (shares[::-1] > 0.0).argmax(axis=0)
    return np.minimum((shares.cumsum(axis=0) <= uniforms).sum(axis=0), last)


# All subsets of a block are scored for each chain.
_BLOCK_SIZE, _LARGEST_BLOCK = 4, 8
# Exchanges per sweep: one for so many features.
_FEATURES_PER_EXCHANGE = 4
# Up to so many features every sweep flips all of them; of more, the most interesting ones and a share of the others.
ALL_FLIPPED, _OTHERS_FLIPPED = 64, 8
_MOST_EXCHANGES = ALL_FLIPPED // _FEATURES_PER_EXCHANGE


class GenericTarget(Space):
    """The target over its f free features, whose scores are remembered."""

    block_sizes = _BLOCK_SIZE, _LARGEST_BLOCK

    def __init__(self, target: Target) -> None:
        self.target = target
        self.n_rows = target.model.n_rows
        self.free = np.ones(len(target.free), dtype=bool)
        self.memory = ScoredSubsets(lambda draws: target.model.log_ratio_many(target.masks(draws)), len(target.free))
        self.start = np.zeros(len(target.free), dtype=bool)
        self.start_log_ratio = float(self.memory.values(self.start[None])[0])
        if self.start_log_ratio == -np.inf:
            raise target.nothing_scored()

    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        return self.target.terms.log_prior(included) + log_ratios

    def masks(self, included: Mask) -> Mask:
        return self.target.masks(included)

    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        return self.target.expanded(values, of_forced, 0.0)

    def chains(self, laws: Laws, included: Mask) -> Chains:
        return Chains(self.target.terms, self.memory, laws, included)


def uniforms_of(replicas: Sequence[Ladder], each: int) -> Callable[..., Floats]:
    """Uniform numbers (c, *shape) for `each` chain of several replicas, from the replicas' own generators."""
    return lambda *shape: np.concatenate([replica.rng.random((each, *shape)) for replica in replicas])


def coldest_inclusion(chains: Chains, own: slice, draws: Mask) -> Floats:
    """(f,) of the last of its own chains: from conditional probabilities or, without any, from draws (n, f)"""
    total, number = chains.flips + chains.blocks, chains.n_flips + chains.n_blocks
    return np.where(number[own][-1] > 0.0, total[own][-1] / np.maximum(number[own][-1], 1.0), draws.mean(axis=0))


def n_proposed(f: int) -> int:
    """Subsets that a sweep over f features may have to score"""
    return n_flipped(f) + n_exchanged(f) + (1 << _BLOCK_SIZE)


def n_flipped(f: int) -> int:
    """Of f features, by a sweep: all, or if these are many the most interesting and some of the others."""
    leading = ALL_FLIPPED // 2
    return f if f <= ALL_FLIPPED else leading + -(-(f - leading) // _OTHERS_FLIPPED)


def n_exchanged(f: int) -> int:
    """Exchanges of a sweep"""
    return min(f // _FEATURES_PER_EXCHANGE, _MOST_EXCHANGES)


def flip_order(keys: Floats, interest: Floats) -> Integers:
    """(c, n_flipped) which features a sweep flips, by random keys (c, f) and how interesting they are (f,). The choice
    does not depend on the subset."""
    f = keys.shape[1]
    if f <= ALL_FLIPPED:
        return keys.argsort(axis=1)
    leading = np.argsort(-interest, kind="stable")[: ALL_FLIPPED // 2]
    keys[:, leading] -= 1.0
    return keys.argsort(axis=1)[:, : n_flipped(f)]


def sweep(chains: Chains, proposals: Proposals, uniforms: Callable[..., Floats]) -> None:
    """Features are flipped, each at most once, in a random order; then exchanges, a block and a jump."""
    f, rule = chains.included.shape[1], proposals.rules[1]
    order, chance = flip_order(uniforms(f), rule.chance), uniforms(f)
    for i in range(order.shape[1]):
        chains.flip(order[:, i], chance[:, i])
    for _ in range(n_exchanged(f)):
        chains.metropolis(exchanged(chains.included, uniforms(f)), uniforms())
    if f:
        chains.draw_block(chosen_blocks(rule.chance, uniforms(f), min(rule.largest, f)), uniforms())
    n = len(proposals.differences)
    if n:
        difference = proposals.differences[(n * uniforms()).astype(np.intp)]
        chains.metropolis(chains.included ^ difference, uniforms())


# Sweeps of a generic search at each temperature, or flips where the model guesses which look good.
_SWEEPS, _GUIDED_FLIPS = 10, 20
# Generic searches are thrifty or not.
_KINDS = 2
AnySpace = TypeVar("AnySpace", bound=Space)
AnyLadder = TypeVar("AnyLadder", bound=Ladder)


class Crew(ABC, Generic[AnySpace, AnyLadder]):
    """Replicas and their progress bar. A subset is a row of d flags, see `Space`."""

    def __init__(self, target: AnySpace, replicas: list[AnyLadder], bar: ProgressBar) -> None:
        self.target = target
        self.replicas = replicas
        self.bar = bar
        self.largest_r_hat: float | None = None
        self.searched = Searched(np.zeros(target.n_columns))

    @abstractmethod
    def rounds(self, proposals: Proposals, n: int) -> Iterable[Round]:
        """n sweeps of every replica, in their order."""

    @abstractmethod
    def search(self, betas: Floats, block_size: int, searches: int) -> Searched:
        """Annealed searches from the hottest to the coldest temperature, at least so many by each replica."""

    @property
    @abstractmethod
    def without_value(self) -> Mask:
        """(k, p) some of the subsets that a replica met and could not score"""

    def advance(self, proposals: Proposals, n: int) -> list[Round]:
        return self.told(self.rounds(proposals, n))

    def told(self, rounds: Iterable[Round]) -> list[Round]:
        """The same, one step of the progress bar for each."""
        results = []
        for result in rounds:
            results.append(result)
            swaps = 1.0 - float(result.rejected.mean()) if len(result.rejected) else 1.0
            agreement = "" if self.largest_r_hat is None else f", R̂ {self.largest_r_hat:.2f}"
            self.bar.advance(1, f"best {self.best[1]:.1f}, swaps {swaps:.0%}{agreement}")
        return results

    @property
    def best(self) -> Mode:
        """The best subset that any replica has met, or that synergies led to."""
        met = [(replica.best.included, float(replica.best.log_posterior[0])) for replica in self.replicas]
        return max(met + self.searched.stepped, key=lambda found: found[1])

    def modes(self) -> tuple[Mask, Floats]:
        """Good distinct subsets met so far (m, d), best first, and their log p(z)Λ(z) (m,)."""
        bests = [(replica.best.included.copy(), float(replica.best.log_posterior[0])) for replica in self.replicas]
        coldest = [(included[-1], values[-1:]) for included, values in self.searched.states]
        ends = [(mask, float(self.target.log_posterior(mask[None], value)[0])) for mask, value in coldest]
        return leading_modes(self.searched.ends + self.searched.stepped + ends + bests)


class CompiledCrew(Crew[CompiledTarget, Replica]):
    """Each replica moves by itself in compiled code, spread over threads."""

    def __init__(
        self, target: CompiledTarget, rngs: list[np.random.Generator], n_jobs: int | None, bar: ProgressBar
    ) -> None:
        super().__init__(target, [Replica(target, rng) for rng in rngs], bar)
        self._n_jobs = n_jobs

    @property
    def without_value(self) -> Mask:
        assert self.searched.synergies is not None
        return undecidable_subsets(self.target, self.searched.synergies)

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        return ordered_map(lambda replica: replica.advance(proposals, n), self.replicas, self._n_jobs)

    def search(self, betas: Floats, block_size: int, searches: int) -> Searched:
        return search_modes(self.target, self.replicas, betas, block_size, searches, self.told, self._n_jobs)


class GenericCrew(Crew[GenericTarget, Ladder]):
    """All chains of all replicas move together; each replica has a generator of its own."""

    def __init__(self, target: GenericTarget, rngs: list[np.random.Generator], bar: ProgressBar) -> None:
        super().__init__(target, [Ladder(target, rng) for rng in rngs], bar)

    @property
    def without_value(self) -> Mask:
        return self.target.masks(self.target.memory.without_value)

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        """Sweeps, each with swaps between neighbouring temperatures, of even and odd pairs in turn."""
        t, replicas = len(proposals.betas), self.replicas
        laws = Laws.tempered(np.tile(proposals.betas, len(replicas)))
        chains = self.target.chains(laws, np.concatenate([replica.included for replica in replicas]))
        pairs = t * np.arange(len(replicas))[:, None] + np.arange(t - 1)
        draws = np.empty((n, len(replicas), self.target.n_columns), dtype=bool)
        trace, refused = np.empty((n, len(replicas), t)), np.zeros(pairs.shape)
        for step in range(n):
            sweep(chains, proposals, uniforms_of(replicas, t))
            refused += 1.0 - chains.swap_acceptance(pairs)
            turn = slice(step % 2, None, 2)
            chains.swap(pairs[:, turn].ravel(), uniforms_of(replicas, 1)(t - 1)[:, turn].ravel())
            draws[step], trace[step] = chains.included[t - 1 :: t], chains.scores.log_ratios.reshape(-1, t)
        interest = (chains.flips / np.maximum(chains.n_flips, 1.0)).reshape(len(replicas), t, -1).mean(axis=1)
        self._note_best(chains, t)
        for r, replica in enumerate(replicas):
            own = slice(r * t, (r + 1) * t)
            replica.place(chains.included[own], chains.scores.log_ratios[own])
            packed = np.packbits(draws[:, r], axis=1)
            yield Round(packed, trace[:, r], coldest_inclusion(chains, own, draws[:, r]), interest[r], refused[r] / n)

    def search(self, betas: Floats, block_size: int, searches: int) -> Searched:
        """Every replica anneals `searches` chains at a time, half of them thriftily, until enough have come near the
        best subset; steepest ascent goes on from the best that each has met."""
        result = Searched(np.zeros(self.target.n_columns))
        for _ in range(most_searches(searches) // searches):
            rules = block_rules(self.target, result.interest, block_size, result.interest)
            self._anneal(result, Proposals(betas, rules, np.zeros((0, self.target.n_columns), dtype=bool)), searches)
            self.bar.advance(searches * len(self.replicas), f"best {result.best[1]:.1f}")
            if result.settled(_KINDS):
                break
        result.interest /= len(result.ends)
        return result

    def _anneal(self, result: Searched, proposals: Proposals, searches: int) -> None:
        """The prior is tempered too, as in the compiled searches."""
        c = searches * len(self.replicas)
        thrifts = THRIFT * ((np.arange(c) + len(result.ends)) % _KINDS)
        chains = self.target.chains(Laws.tempered(np.ones(c)), np.repeat(self.target.start[None], c, axis=0))
        uniforms = uniforms_of(self.replicas, searches)
        left, values = [], []
        for beta in proposals.betas:
            chains.obey(Laws(np.full(c, beta), np.full(c, beta), (1.0 - beta) * thrifts))
            self._search_on(chains, proposals, uniforms)
            left.append(chains.included.copy())
            values.append(chains.scores.log_ratios.copy())
        chains.climb()
        result.states += zip(np.stack(left, axis=1), np.stack(values, axis=1), strict=True)
        result.ends += zip(chains.best_included, chains.best.tolist(), strict=True)
        result.interest += (chains.flips / np.maximum(chains.n_flips, 1.0)).sum(axis=0)
        self._note_best(chains, searches)

    def _search_on(self, chains: Chains, proposals: Proposals, uniforms: Callable[..., Floats]) -> None:
        """At one temperature. Where the model can guess, and features are many, only what looks good is scored."""
        target, model = self.target.target, self.target.target.model
        if isinstance(model, GuessesFlips) and self.target.n_columns > ALL_FLIPPED:
            for _ in range(_GUIDED_FLIPS):
                guessed = model.guessed_flips(target.masks(chains.included)).log_ratio[:, target.free]
                chains.flip_guided(guessed, uniforms(), uniforms())
            return
        for _ in range(_SWEEPS):
            sweep(chains, proposals, uniforms)

    def _note_best(self, chains: Chains, each: int) -> None:
        """Of `each` chains of every replica"""
        for r, replica in enumerate(self.replicas):
            top = r * each + int(chains.best[r * each : (r + 1) * each].argmax())
            keep_better(replica.best, chains.best_included[top], float(chains.best[top]))


AnyCrew = CompiledCrew | GenericCrew


def crew_of(target: Target, chains: int, options: RunOptions, bar: ProgressBar) -> AnyCrew:
    """So many replicas, compiled where the model has a compiled scorer."""
    compiled, rngs = CompiledTarget.of(target), options.rng.spawn(chains)
    if compiled is None:
        return GenericCrew(GenericTarget(target), rngs, bar)
    return CompiledCrew(compiled, rngs, options.n_jobs, bar)
