"""Tempering for any model: chains in lockstep, scored through a memory of subsets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from ..._tools.progress import ProgressBar
from ..memory import ScoredSubsets
from ..target import Target
from .crew import Crew
from .ladders import Ladder, Proposals, Round
from .lockstep import Chains, Laws, chosen_blocks
from .replicas import block_rules
from .searching import THRIFT, Searched, most_searches

# All subsets of a block are scored for each chain.
_BLOCK_SIZE, _LARGEST_BLOCK = 4, 8
# Exchanges per sweep: one for so many features.
_FEATURES_PER_EXCHANGE = 4
# Sweeps of a search at each temperature.
_SWEEPS = 10
# Up to so many features every sweep flips all of them; of more, the most interesting ones and a share of the others.
_ALL_FLIPPED, _OTHERS_FLIPPED = 64, 8
_MOST_EXCHANGES = _ALL_FLIPPED // _FEATURES_PER_EXCHANGE
# Flips of a guided search at each temperature.
_GUIDED_FLIPS = 20
# Draws of the prior that are tried when no simple subset has a value to begin with.
_BEGINNINGS = 256
# Searches are thrifty or not.
_KINDS = 2


class CachedTarget:
    """The target over its f free features, whose scores are remembered."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.memory = ScoredSubsets(lambda draws: target.model.log_ratio_many(target.masks(draws)), self.n_columns)
        self.start, self.start_log_ratio = self._first_with_a_value()

    @property
    def n_columns(self) -> int:
        return len(self.target.free)

    @property
    def n_free(self) -> int:
        return len(self.target.free)

    @property
    def n_rows(self) -> int:
        return self.target.model.n_rows

    @cached_property
    def free(self) -> Mask:
        return np.ones(self.n_columns, dtype=bool)

    def _first_with_a_value(self) -> tuple[Mask, float]:
        """Where chains begin, and its log Λ: the forced features alone, or else a subset that the model knows."""
        f, target = self.n_columns, self.target
        drawn = target.prior.sample(_BEGINNINGS, np.random.default_rng(0))[:, target.free]
        simple = np.vstack([np.zeros((1, f), dtype=bool), np.eye(f, dtype=bool), np.ones((1, f), dtype=bool)])
        draws = np.vstack([simple, drawn])
        draws = draws[target.terms.log_prior(draws) > -np.inf]
        for batch in (draws[:1], draws):
            values = self.memory.values(batch)
            if (values > -np.inf).any():
                first = int(np.argmax(values > -np.inf))
                return batch[first], float(values[first])
        raise target.nothing_scored()

    @property
    def block_sizes(self) -> tuple[int, int]:
        return _BLOCK_SIZE, _LARGEST_BLOCK

    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        return self.target.terms.log_prior(included) + log_ratios

    def masks(self, included: Mask) -> Mask:
        return self.target.masks(included)

    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        return self.target.expanded(values, of_forced, 0.0)

    def chains(self, laws: Laws, included: Mask) -> Chains:
        return Chains(self.target.terms, self.memory, laws, included)


class CachedCrew(Crew[Ladder]):
    """All chains of all replicas move together; each replica has a generator of its own."""

    def __init__(self, target: CachedTarget, rngs: list[np.random.Generator], bar: ProgressBar) -> None:
        super().__init__(target, [Ladder(target, rng) for rng in rngs], bar)
        self._cached = target

    @property
    def without_value(self) -> Mask:
        return self._cached.masks(self._cached.memory.without_value)

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        """Sweeps, each with swaps between neighbouring temperatures, of even and odd pairs in turn."""
        t, replicas = len(proposals.betas), self.replicas
        laws = Laws.tempered(np.tile(proposals.betas, len(replicas)))
        chains = self._cached.chains(laws, np.concatenate([replica.included for replica in replicas]))
        pairs = t * np.arange(len(replicas))[:, None] + np.arange(t - 1)
        draws = np.empty((n, len(replicas), self.target.n_columns), dtype=bool)
        trace, refused = np.empty((n, len(replicas), t)), np.zeros(pairs.shape)
        for step in range(n):
            sweep(chains, proposals, Uniforms(replicas, t))
            refused += 1.0 - chains.swap_acceptance(pairs)
            turn = slice(step % 2, None, 2)
            chains.swap(pairs[:, turn].ravel(), Uniforms(replicas, 1)(t - 1)[:, turn].ravel())
            draws[step], trace[step] = chains.included[t - 1 :: t], chains.scores.log_ratios.reshape(-1, t)
        interest = (chains.flips / np.maximum(chains.n_flips, 1.0)).reshape(len(replicas), t, -1).mean(axis=1)
        for r, replica in enumerate(replicas):
            own = slice(r * t, (r + 1) * t)
            replica.place(chains.included[own], chains.scores.log_ratios[own])
            self._note_best(replica, chains, own)
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
        chains = self._cached.chains(Laws.tempered(np.ones(c)), np.repeat(self.target.start[None], c, axis=0))
        uniforms = Uniforms(self.replicas, searches)
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
        for r, replica in enumerate(self.replicas):
            self._note_best(replica, chains, slice(r * searches, (r + 1) * searches))

    def _search_on(self, chains: Chains, proposals: Proposals, uniforms: Uniforms) -> None:
        """At one temperature. Where the model can guess, and features are many, only what looks good is scored."""
        target = self._cached.target
        if target.model.guesses_flips and self.target.n_columns > _ALL_FLIPPED:
            for _ in range(_GUIDED_FLIPS):
                guessed = target.model.guessed_flips(target.masks(chains.included)).log_ratio[:, target.free]
                chains.flip_guided(guessed, uniforms(), uniforms())
            return
        for _ in range(_SWEEPS):
            sweep(chains, proposals, uniforms)

    @staticmethod
    def _note_best(replica: Ladder, chains: Chains, own: slice) -> None:
        top = int(chains.best[own].argmax())
        replica.note(chains.best_included[own][top], float(chains.best[own][top]))


class Uniforms:
    """Uniform numbers for `each` chain of several replicas, from the replicas' own generators."""

    def __init__(self, replicas: list[Ladder], each: int) -> None:
        self._rngs = [replica.rng for replica in replicas]
        self._each = each

    def __call__(self, *shape: int) -> Floats:
        """(c, *shape)"""
        return np.concatenate([rng.random((self._each, *shape)) for rng in self._rngs])


def coldest_inclusion(chains: Chains, own: slice, draws: Mask) -> Floats:
    """(f,) of the last of its own chains: from conditional probabilities or, without any, from draws (n, f)"""
    total, number = chains.flips + chains.blocks, chains.n_flips + chains.n_blocks
    return np.where(number[own][-1] > 0.0, total[own][-1] / np.maximum(number[own][-1], 1.0), draws.mean(axis=0))


def n_proposed(f: int) -> int:
    """Subsets that a sweep over f features may have to score"""
    return n_flipped(f) + n_exchanged(f) + (1 << _BLOCK_SIZE)


def n_flipped(f: int) -> int:
    """Of f features, by a sweep: all, or if these are many the most interesting and some of the others."""
    leading = _ALL_FLIPPED // 2
    return f if f <= _ALL_FLIPPED else leading + -(-(f - leading) // _OTHERS_FLIPPED)


def n_exchanged(f: int) -> int:
    """Exchanges of a sweep"""
    return min(f // _FEATURES_PER_EXCHANGE, _MOST_EXCHANGES)


def flip_order(keys: Floats, interest: Floats) -> Integers:
    """(c, n_flipped) which features a sweep flips, by random keys (c, f) and how interesting they are (f,). The choice
    does not depend on the subset."""
    f = keys.shape[1]
    if f <= _ALL_FLIPPED:
        return keys.argsort(axis=1)
    leading = np.argsort(-interest, kind="stable")[: _ALL_FLIPPED // 2]
    keys[:, leading] -= 1.0
    return keys.argsort(axis=1)[:, : n_flipped(f)]


def sweep(chains: Chains, proposals: Proposals, uniforms: Uniforms) -> None:
    """Features are flipped, each at most once, in a random order; then exchanges, a block and a jump."""
    f, rule = chains.included.shape[1], proposals.rules[1]
    order, chance = flip_order(uniforms(f), rule.chance), uniforms(f)
    for i in range(order.shape[1]):
        chains.flip(order[:, i], chance[:, i])
    for _ in range(n_exchanged(f)):
        chains.exchange(uniforms(f), uniforms())
    if f:
        chains.draw_block(chosen_blocks(rule.chance, uniforms(f), min(rule.largest, f)), uniforms())
    n = len(proposals.differences)
    if n:
        chains.jump(proposals.differences[(n * uniforms()).astype(np.intp)], uniforms())
