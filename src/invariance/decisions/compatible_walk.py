"""All subsets that are compatible with invariance, found best first among those that a screen lets pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from ..conditionals.base import BoundConditional, NDArray32, ScreeningWalk
from ..inference.subset_blocks import SubsetBlocks

# Subsets that weigh less than the best by so many nats are left undecided, unless all can be decided soon.
WINDOW = 40.0
# Rows × subsets that are soon decided.
SOON = 1 << 24
_FIRST_COLLECTED = 1 << 17
_DECIDED_AT_ONCE = 1 << 10


@dataclass(frozen=True, eq=False)
class CompatibleWalk:
    """values: {features that a block fixes: positions in it, their values} of the compatible subsets, NaN otherwise;
    all_decided: whether no subset was left undecided because it weighs nothing."""

    screen: ScreeningWalk
    values: dict[tuple[int, ...], tuple[Integers, Floats]]
    all_decided: bool

    @property
    def n_features(self) -> int:
        return self.screen.n_features

    @property
    def n_low(self) -> int:
        return self.screen.n_low

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        return self._filled(1 << self.n_low, high)

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        self.screen.list_members(prefix, max_size, members)
        return self._filled(len(members), prefix)

    def _filled(self, n: int, fixed: Integers) -> Floats:
        filled = np.full(n, np.nan)
        positions, values = self.values.get(tuple(fixed.tolist()), ((), ()))
        filled[np.asarray(positions, np.int64)] = values
        return filled


@dataclass(frozen=True, eq=False)
class Candidates:
    """Of k subsets, the heaviest first.

    block, position, weight (k,): where they are, and what they weigh with the prior; draws (k, f): over free features.
    """

    block: Integers
    position: Integers
    weight: Floats
    draws: Mask

    def __len__(self) -> int:
        return len(self.block)

    def __getitem__(self, rows: slice | Integers) -> Candidates:
        return Candidates(self.block[rows], self.position[rows], self.weight[rows], self.draws[rows])

    @classmethod
    def heaviest(cls, parts: list[Candidates], most: int) -> Candidates:
        """Of parts whose blocks, and positions in them, ascend where subsets weigh the same."""
        every = cls(
            np.concatenate([part.block for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.draws for part in parts]),
        )
        return every[np.argsort(-every.weight, kind="stable")[:most]]

    @classmethod
    def none(cls, n_features: int) -> Candidates:
        nowhere = np.empty(0, np.int64)
        return cls(nowhere, nowhere, np.empty(0), np.empty((0, n_features), dtype=bool))


def compatible_walk(
    model: BoundConditional,
    screen: ScreeningWalk,
    blocks: SubsetBlocks,
    free: Integers,
    forced: Integers,
    n_jobs: int | None,
) -> CompatibleWalk:
    """model: its log Λ is -inf where a subset is not compatible; blocks: all subsets of the `free` features, as the
    screen sees them."""
    search = _Search(model, free, forced)
    all_decided = all(search.decide(piece) for piece in heaviest_first(blocks, n_jobs))
    return CompatibleWalk(screen, search.by_block(blocks), all_decided)


class _Search:
    """Decides about candidates, given the heaviest first, until what is left weighs nothing."""

    def __init__(self, model: BoundConditional, free: Integers, forced: Integers) -> None:
        self.model, self.free, self.forced = model, free, forced
        self.best, self.n_decided = -np.inf, 0
        nowhere = np.empty(0, np.int64)
        self.found: list[tuple[Integers, Integers, Floats]] = [(nowhere, nowhere, np.empty(0))]

    def decide(self, piece: Candidates) -> bool:
        """Whether all of the piece were decided."""
        for start in range(0, len(piece), _DECIDED_AT_ONCE):
            part = piece[start : start + _DECIDED_AT_ONCE]
            enough = self.n_decided * self.model.n_rows >= SOON
            if enough and part.weight[0] < self.best - WINDOW:
                return False
            masks = np.zeros((len(part), self.model.n_features), dtype=bool)
            masks[:, self.free], masks[:, self.forced] = part.draws, True
            values = self.model.log_ratio_many(masks)
            compatible = np.flatnonzero(values > -np.inf)
            self.best = max(self.best, float(part.weight[compatible].max(initial=-np.inf)))
            self.n_decided += len(part)
            self.found.append((part.block[compatible], part.position[compatible], values[compatible]))
        return True

    def by_block(self, blocks: SubsetBlocks) -> dict[tuple[int, ...], tuple[Integers, Floats]]:
        """As `CompatibleWalk.values`."""
        block, position, value = map(np.concatenate, zip(*self.found, strict=True))
        order = np.argsort(block, kind="stable")
        distinct, first = np.unique(block[order], return_index=True)
        parts = np.split(order, first[1:])
        return {blocks.fixed(int(b)): (position[rows], value[rows]) for b, rows in zip(distinct, parts, strict=False)}


def heaviest_first(blocks: SubsetBlocks, n_jobs: int | None) -> Iterator[Candidates]:
    """All subsets that the screen lets pass, in ever larger pieces."""
    most, last = _FIRST_COLLECTED, (np.inf, -1, -1)
    while True:
        piece = _collected(blocks, most, last, n_jobs)
        yield piece
        if len(piece) < most:
            return
        most, last = 8 * most, (float(piece.weight[-1]), int(piece.block[-1]), int(piece.position[-1]))


def _collected(blocks: SubsetBlocks, most: int, last: tuple[float, int, int], n_jobs: int | None) -> Candidates:
    """The heaviest that come after the `last` one (its weight, block and position)."""
    weight, last_block, last_position = last
    kept, waiting = Candidates.none(blocks.n_features), list[Candidates]()

    def of_block(block: int) -> Candidates:
        scored = blocks.scored(block)
        values = scored.log_posterior
        # Later blocks lose ties: only larger values can still enter. How soon a thread knows that changes no result.
        lightest = kept.weight[-1] if len(kept) == most else -np.inf
        after = values < weight
        if block >= last_block:
            ties = np.flatnonzero(values == weight)
            after[ties if block > last_block else ties[ties > last_position]] = True
        positions = np.flatnonzero(after & (values > lightest))
        if len(positions) > most:
            positions = positions[np.argsort(-values[positions], kind="stable")[:most]]
        return Candidates(np.full(len(positions), block), positions, values[positions], scored.masks(positions))

    for part in ordered_map(of_block, range(blocks.n_blocks), n_jobs):
        waiting.append(part)
        if sum(map(len, waiting)) > most:
            kept, waiting = Candidates.heaviest([kept, *waiting], most), []
    return Candidates.heaviest([kept, *waiting], most)
