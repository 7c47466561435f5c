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
    """Of k subsets in blocks, the heaviest first: block, position in it, weight with the prior (k,) each; draws (k, f)."""

    block: Integers
    position: Integers
    weight: Floats
    draws: Mask

    def __len__(self) -> int:
        return len(self.block)

    def __getitem__(self, rows: slice | Integers) -> Candidates:
        return Candidates(self.block[rows], self.position[rows], self.weight[rows], self.draws[rows])

    @staticmethod
    def heaviest(parts: list[Candidates], most: int) -> Candidates:
        """Of parts whose blocks, and positions in them, ascend where subsets weigh the same."""
        all_parts = Candidates(
            np.concatenate([part.block for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.draws for part in parts]),
        )
        return all_parts[np.argsort(-all_parts.weight, kind="stable")[:most]]


def heaviest_first(blocks: SubsetBlocks, n_jobs: int | None) -> Iterator[Candidates]:
    """All subsets that the screen of the blocks lets pass, in ever larger pieces."""
    most, below = _FIRST_COLLECTED, (np.inf, -1, -1)
    while True:
        piece = _collected(blocks, most, below, n_jobs)
        if len(piece):
            yield piece
        if len(piece) < most:
            return
        most, below = 8 * most, (float(piece.weight[-1]), int(piece.block[-1]), int(piece.position[-1]))


def _collected(blocks: SubsetBlocks, most: int, below: tuple[float, int, int], n_jobs: int | None) -> Candidates:
    """The heaviest that come after `below` (weight, block, position)."""
    weight, last_block, last_position = below
    kept = Candidates(*np.empty((2, 0), np.int64), np.empty(0), np.empty((0, blocks.n_features), dtype=bool))
    waiting: list[Candidates] = []

    def of_block(block: int) -> Candidates:
        scored = blocks.scored(block)
        values = scored.log_posterior
        # Later blocks lose ties: only larger values can still enter. How many threads know that changes no result.
        lightest = kept.weight[-1] if len(kept) == most else -np.inf
        after = (values < weight) & (values > lightest)
        if block >= last_block:
            ties = np.flatnonzero((values == weight) & (values > lightest))
            after[ties if block > last_block else ties[ties > last_position]] = True
        positions = np.flatnonzero(after)
        if len(positions) > most:
            positions = positions[np.argsort(-values[positions], kind="stable")[:most]]
        return Candidates(np.full(len(positions), block), positions, values[positions], scored.masks(positions))

    for part in ordered_map(of_block, range(blocks.n_blocks), n_jobs):
        waiting.append(part)
        if sum(map(len, waiting)) > most:
            kept, waiting = Candidates.heaviest([kept, *waiting], most), []
    return Candidates.heaviest([kept, *waiting], most)


def compatible_walk(
    model: BoundConditional,
    screen: ScreeningWalk,
    blocks: SubsetBlocks,
    free: Integers,
    forced: Integers,
    n_jobs: int | None,
) -> CompatibleWalk:
    """model: one whose log Λ is -inf where a subset is not compatible; blocks: of the screen."""
    found: dict[tuple[int, ...], list[tuple[Integers, Floats]]] = {}
    best, n_decided, all_decided = -np.inf, 0, True
    soon = SOON // model.n_rows

    def undecided_beyond(weight: float) -> bool:
        return weight < best - WINDOW and n_decided >= soon

    for piece in heaviest_first(blocks, n_jobs):
        for start in range(0, len(piece), _DECIDED_AT_ONCE):
            part = piece[start : start + _DECIDED_AT_ONCE]
            if undecided_beyond(part.weight[0]):
                all_decided = False
                break
            masks = np.zeros((len(part), model.n_features), dtype=bool)
            masks[:, free], masks[:, forced] = part.draws, True
            values = model.log_ratio_many(masks)
            n_decided += len(part)
            compatible = values > -np.inf
            best = max(best, float(part.weight[compatible].max(initial=-np.inf)))
            for block in np.unique(part.block[compatible]):
                rows = compatible & (part.block == block)
                found.setdefault(blocks.fixed(int(block)), []).append((part.position[rows], values[rows]))
        if not all_decided:
            break
    values = {fixed: _joined(parts) for fixed, parts in found.items()}
    return CompatibleWalk(screen, values, all_decided)


def _joined(parts: list[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
