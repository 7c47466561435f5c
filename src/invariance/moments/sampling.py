"""A sample of the rows of each environment, for what only rows can show."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from ..data.features import Features
from ..data.multi_environment import MultiEnvironmentData

if TYPE_CHECKING:
    from .moments import Moments

_SEED = 20_261_116
# Of so many rows quantiles are known well enough for a picture; so many numbers are kept in all.
_MOST_ROWS, _MOST_NUMBERS, _FEWEST_ROWS = 10_000, 4_000_000, 100


@dataclass(frozen=True, eq=False)
class SampledRows:
    """columns : k names; places (n,) : environments; values (n, k) : rows, those of an environment as they were read"""

    columns: tuple[str, ...]
    places: NDArray[np.intp]
    values: Floats

    def choosing(self, kept: Integers) -> SampledRows:
        """Of the environments at the places `kept`, in their order."""
        new = np.full(max(int(self.places.max(initial=0)), int(kept.max(initial=0))) + 1, -1)
        new[kept] = np.arange(len(kept))
        left = new[self.places]
        return SampledRows(self.columns, left[left >= 0], self.values[left >= 0])


def sampled_data(moments: Moments, columns: Collection[str]) -> MultiEnvironmentData | None:
    """The rows of the sample, with these columns of features; None where they were not sampled."""
    sample = None if moments.second is None else moments.second.sample
    if sample is None or not {*columns, moments.outcome_name} <= set(sample.columns):
        return None
    names = tuple(name for name in sample.columns if name in columns)
    groups = {name: tuple(c for c in members if c in columns) for name, members in moments.groups.items()}
    features = Features.of(names, {name: members for name, members in groups.items() if members})
    return MultiEnvironmentData(
        X=np.ascontiguousarray(sample.values[:, [sample.columns.index(name) for name in names]]),
        y=sample.values[:, sample.columns.index(moments.outcome_name)].copy(),
        environment_index=sample.places,
        feature_names=features.names,
        environments=moments.environments,
        outcome_name=moments.outcome_name,
        grouping=features,
        encoding=moments.encoding,
    )


def rows_to_keep(n_environments: int, k: int) -> int:
    """Of each environment"""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_NUMBERS // (n_environments * k)))


class SampleSum:
    """Collects the `most` rows of each environment to which chance gives the smallest numbers: so any task can draw on
    its own, and what several drew is the sample of them all."""

    def __init__(self, task: int, n_environments: int, k: int, most: int) -> None:
        self._rng, self._most = np.random.default_rng([_SEED, task]), most
        self._limits = np.ones(n_environments)
        self._chances, self._places, self._values = np.empty(0), np.empty(0, np.intp), np.empty((0, k))
        self._new: list[tuple[Floats, NDArray[np.intp], Floats]] = []
        self._n_new = 0

    def add(self, e: int, values: Floats, deviations: Floats) -> None:
        chances = self._rng.random(len(values))
        drawn = chances < self._limits[e]
        self._take(chances[drawn], np.full(int(drawn.sum()), e), values[drawn])

    def merge(self, other: SampleSum) -> None:
        other._shrink()
        self._take(other._chances, other._places, other._values)

    def sample(self, columns: tuple[str, ...]) -> SampledRows:
        self._shrink()
        return SampledRows(columns, self._places, self._values)

    def _take(self, chances: Floats, places: NDArray[np.intp], values: Floats) -> None:
        self._new.append((chances, places, values))
        self._n_new += len(chances)
        if self._n_new > self._most * len(self._limits):
            self._shrink()

    def _shrink(self) -> None:
        parts = [(self._chances, self._places, self._values), *self._new]
        chances, places, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._new, self._n_new = [], 0
        kept = np.zeros(len(chances), dtype=bool)
        for e in range(len(self._limits)):
            own = np.flatnonzero(places == e)
            if len(own) > self._most:
                own = own[np.argsort(chances[own], kind="stable")[: self._most]]
                self._limits[e] = chances[own[-1]]
            kept[own] = True
        self._chances, self._places, self._values = chances[kept], places[kept], values[kept]
