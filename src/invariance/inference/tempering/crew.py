"""The replicas of one run, worked on together, and what they have found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from ..._tools.arrays import Floats, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from .agreement import Agreement
from .ladders import Ladder, Proposals, Round, Space
from .replicas import CompiledTarget, Replica
from .searching import Searched, leading_modes, search_modes

AnyLadder = TypeVar("AnyLadder", bound=Ladder)


class Crew(ABC, Generic[AnyLadder]):
    """The replicas, with what the progress bar tells about them. A subset is a row of d flags, see `Space`."""

    def __init__(self, target: Space, replicas: list[AnyLadder], bar: ProgressBar) -> None:
        self.target = target
        self.replicas = replicas
        self.bar = bar
        self.verdict: Agreement | None = None
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
            self.bar.advance(1, self._detail(result))
        return results

    def _detail(self, latest: Round) -> str:
        swaps = 1.0 - float(latest.rejected.mean()) if len(latest.rejected) else 1.0
        agreement = f", R̂ {self.verdict.largest_r_hat:.2f}" if self.verdict is not None else ""
        return f"best {self.best[1]:.1f}, swaps {swaps:.0%}{agreement}"

    @property
    def best(self) -> tuple[Mask, float]:
        """The best subset (d,) that any replica has met, or that a clique led to, and its log p(z)Λ(z)."""
        met = [(replica.best.included, float(replica.best.log_posterior[0])) for replica in self.replicas]
        return max(met + self.searched.stepped, key=lambda found: found[1])

    def modes(self) -> tuple[Mask, Floats]:
        """Good distinct subsets met so far (m, d), best first, and their log p(z)Λ(z) (m,)."""
        bests = [(replica.best.included.copy(), float(replica.best.log_posterior[0])) for replica in self.replicas]
        coldest = [(included[-1], values[-1:]) for included, values in self.searched.states]
        ends = [(mask, float(self.target.log_posterior(mask[None], value)[0])) for mask, value in coldest]
        return leading_modes(self.searched.ends + self.searched.stepped + ends + bests)


class CompiledCrew(Crew[Replica]):
    """Each replica moves by itself in compiled code, spread over threads."""

    def __init__(
        self, target: CompiledTarget, rngs: list[np.random.Generator], n_jobs: int | None, bar: ProgressBar
    ) -> None:
        super().__init__(target, [Replica(target, rng) for rng in rngs], bar)
        self._compiled = target
        self._n_jobs = n_jobs

    def rounds(self, proposals: Proposals, n: int) -> Iterator[Round]:
        return self._each(lambda replica: replica.advance(proposals, n))

    def search(self, betas: Floats, block_size: int, searches: int) -> Searched:
        def each(work: Callable[[Replica], Round]) -> list[Round]:
            return self.told(self._each(work))

        return search_modes(self._compiled, self.replicas, betas, block_size, each, searches, self._n_jobs)

    def _each(self, work: Callable[[Replica], Round]) -> Iterator[Round]:
        return ordered_map(work, self.replicas, self._n_jobs)
