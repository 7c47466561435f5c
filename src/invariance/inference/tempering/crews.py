"""The replicas of a sampler, which search for modes and sample: compiled, or for any model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from ..._tools.arrays import Floats, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from ...models.base import GuessesFlips
from ..base import RunOptions, Target
from ..modes import THRIFT, Mode, Searched, leading_modes, most_searches, search_modes
from .generic import ALL_FLIPPED, Chains, GenericTarget, Laws, Uniforms, coldest_inclusion, sweep
from .ladders import CompiledTarget, Ladder, Proposals, Replica, Round, Space, block_rules, keep_better

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
    def without_value(self) -> Mask:
        """(k, p) some of the subsets that a replica met and could not score"""
        return self.target.masks(np.zeros((0, self.target.n_columns), dtype=bool))

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
            sweep(chains, proposals, Uniforms(replicas, t))
            refused += 1.0 - chains.swap_acceptance(pairs)
            turn = slice(step % 2, None, 2)
            chains.swap(pairs[:, turn].ravel(), Uniforms(replicas, 1)(t - 1)[:, turn].ravel())
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
        self._note_best(chains, searches)

    def _search_on(self, chains: Chains, proposals: Proposals, uniforms: Uniforms) -> None:
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
