"""All subsets of some features by `log_ratio_many`: the walk of models that have none of their own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.base import BoundConditional, NDArray32, SubsetWalk

_LOW_FEATURES = 10


@dataclass(frozen=True, eq=False)
class GenericWalk:
    """free (f,), forced (k,): feature indices."""

    model: BoundConditional
    free: Integers
    forced: Integers

    @property
    def n_features(self) -> int:
        return len(self.free)

    @property
    def n_low(self) -> int:
        return min(self.n_features, _LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        codes = np.arange(1 << self.n_low)
        chosen = np.zeros((len(codes), self.n_features), dtype=bool)
        chosen[:, : self.n_low] = codes[:, None] >> np.arange(self.n_low) & 1
        chosen[:, high] = True
        return self._scored(chosen, sizes)

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        first = int(prefix[-1]) + 1 if len(prefix) else 0
        members[:, :] = -1
        chosen = np.zeros((len(members), self.n_features), dtype=bool)
        for row, more in enumerate(_extensions(range(first, self.n_features), max_size - len(prefix))):
            subset = [*prefix.tolist(), *more]
            members[row, : len(subset)] = subset
            chosen[row, subset] = True
        return self._scored(chosen, sizes)

    def _scored(self, chosen: Mask, sizes: Mask) -> Floats:
        masks = np.zeros((len(chosen), self.model.n_features), dtype=bool)
        masks[:, self.free] = chosen
        masks[:, self.forced] = True
        wanted = sizes[chosen.sum(axis=1)]
        log_ratio = np.full(len(chosen), np.nan)
        log_ratio[wanted] = self.model.log_ratio_many(masks[wanted])
        log_ratio[log_ratio == -np.inf] = np.nan
        return log_ratio


def walk_of(model: BoundConditional, free: Integers, forced: Integers) -> SubsetWalk:
    """The model's own walk, or the generic one."""
    return model.subset_walk(free, forced) or GenericWalk(model, free, forced)


def _extensions(features: range, most: int) -> list[tuple[int, ...]]:
    """All choices of at most `most` of the features."""
    return [chosen for size in range(min(most, len(features)) + 1) for chosen in combinations(features, size)]
