"""All subsets of some features, cut into blocks that are scored one at a time.

`DenseBlocks` walks all 2**f subsets; the position of a subset is its bit pattern. `ListedBlocks` walks only the
subsets up to a size limit. An engine sees the same face of both: a number of blocks, and of each scored block its
log ratios, its log priors, the sums of given weights and the masks at chosen positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..kernels.dispatch import add_dense_prior, add_listed_prior, fold_inclusion, listed_inclusion
from ..models.base import BoundModel, NDArray32, SubsetWalk
from ..priors.base import PriorTerms

_LOW_FEATURES = 10


@dataclass(frozen=True, eq=False)
class GenericWalk:
    """free (f,), forced (k,): feature indices."""

    model: BoundModel
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


def walk_of(model: BoundModel, free: Integers, forced: Integers) -> SubsetWalk:
    """The model's own walk, or the generic one."""
    return model.subset_walk(free, forced) or GenericWalk(model, free, forced)


def _extensions(features: range, most: int) -> list[tuple[int, ...]]:
    """All choices of at most `most` of the features."""
    return [chosen for size in range(min(most, len(features)) + 1) for chosen in combinations(features, size)]


_LARGEST_LISTED_BLOCK = 1 << 20
# What a block of listed subsets costs beside them, for each pair of features: its sums over all pairs.
_STEPS_PER_PAIR = 2


class ScoredBlock(Protocol):
    """log_ratio (n,): NaN where undecidable. log_posterior (n,): plus log prior, -inf where NaN.

    undecidable: positions in the block of such subsets inside the prior's support, small subsets first.
    """

    @property
    def log_ratio(self) -> Floats: ...

    @property
    def log_posterior(self) -> Floats: ...

    @property
    def undecidable(self) -> Integers: ...

    def inclusion(self, weights: Floats) -> tuple[float, Floats]:
        """Sum of weights (n,), and (f, f) sums over the subsets that hold features i and j. May overwrite weights."""
        ...

    def masks(self, positions: Integers) -> Mask:
        """(len(positions), f), positions in the block"""
        ...


class SubsetBlocks(Protocol):
    """n_positions positions in n_blocks blocks; block b begins at position start(b)."""

    n_features: int
    n_blocks: int
    n_positions: int

    def start(self, block: int) -> int: ...

    def fixed(self, block: int) -> tuple[int, ...]:
        """The features by which a walk is told the block."""
        ...

    def scored(self, block: int) -> ScoredBlock: ...

    def masks(self, positions: Integers) -> Mask:
        """(len(positions), f)"""
        ...


class DenseBlocks:
    """All 2**f subsets; position = bit pattern, block = choice of the features beyond the first `n_low`."""

    def __init__(self, walk: SubsetWalk, prior: PriorTerms) -> None:
        self.walk = walk
        self.prior = prior
        self.n_features = walk.n_features
        self.n_low = walk.n_low
        self.n_blocks = 1 << (self.n_features - self.n_low)
        self.n_positions = 1 << self.n_features

    def start(self, block: int) -> int:
        return block << self.n_low

    def fixed(self, block: int) -> tuple[int, ...]:
        return tuple(self.high_features(block).tolist())

    def scored(self, block: int) -> DenseBlock:
        prior, high = self.prior, self.high_features(block)
        sizes = prior.log_size_weight > -np.inf
        log_ratio = self.walk.dense(high, sizes)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[sizes[len(high) + self._low_sizes[unknown]]]
        constant = prior.constant + float(prior.log_odds[high].sum())
        log_posterior = np.empty_like(log_ratio)
        add_dense_prior(
            self._low_log_odds,
            self._low_sizes,
            constant,
            prior.log_size_weight[len(high) :],
            log_ratio,
            log_posterior,
        )
        undecidable = unknown[np.argsort(self._low_sizes[unknown], kind="stable")]
        return DenseBlock(self, block, log_ratio, log_posterior, undecidable)

    def masks(self, positions: Integers) -> Mask:
        return (positions[:, None] >> np.arange(self.n_features) & 1).astype(bool)

    def high_features(self, block: int) -> Integers:
        bits = block >> np.arange(self.n_features - self.n_low) & 1
        return self.n_low + np.flatnonzero(bits)

    @cached_property
    def _low_sizes(self) -> Integers:
        return np.bitwise_count(np.arange(1 << self.n_low, dtype=np.uint64)).astype(np.int64)

    @cached_property
    def _low_log_odds(self) -> Floats:
        sums = np.zeros(1 << self.n_low)
        for j in np.flatnonzero(self.prior.log_odds[: self.n_low]):
            sums.reshape(-1, 2, 1 << j)[:, 1] += self.prior.log_odds[j]
        return sums


@dataclass(frozen=True, eq=False)
class DenseBlock:
    parent: DenseBlocks
    block: int
    log_ratio: Floats
    log_posterior: Floats
    undecidable: Integers

    def inclusion(self, weights: Floats) -> tuple[float, Floats]:
        f, n_low = self.parent.n_features, self.parent.n_low
        pairs = np.zeros((f, f))
        low, high = np.arange(n_low), self.parent.high_features(self.block)
        total = float(fold_inclusion(weights, n_low, pairs))
        singles = np.diagonal(pairs)[:n_low]
        pairs[np.ix_(high, low)] = singles
        pairs[np.ix_(low, high)] = singles[:, None]
        pairs[np.ix_(high, high)] = total
        return total, pairs

    def masks(self, positions: Integers) -> Mask:
        return self.parent.masks(self.parent.start(self.block) + positions)


class ListedBlocks:
    """All subsets of at most `prior.max_size` features; block = choice of the first few included ones."""

    def __init__(self, walk: SubsetWalk, prior: PriorTerms) -> None:
        self.walk = walk
        self.prior = prior
        self.n_features = walk.n_features
        self._prefixes, self._limits = _partition(self.n_features, prior.max_size)
        sizes = [
            count_subsets(self.n_features - (prefix[-1] + 1 if prefix else 0), limit - len(prefix))
            for prefix, limit in zip(self._prefixes, self._limits, strict=True)
        ]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_blocks = len(sizes)
        self.n_positions = int(self._starts[-1])

    def start(self, block: int) -> int:
        return int(self._starts[block])

    def fixed(self, block: int) -> tuple[int, ...]:
        return self._prefixes[block]

    def scored(self, block: int) -> ListedBlock:
        prior = self.prior
        n = self.start(block + 1) - self.start(block)
        members = np.empty((n, max(prior.max_size, 1)), np.int32)
        prefix = np.array(self._prefixes[block], dtype=np.int64)
        sizes = prior.log_size_weight > -np.inf
        log_ratio = self.walk.listed(prefix, self._limits[block], sizes, members)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[sizes[_sizes(members[unknown])]]
        log_posterior = np.empty(n)
        add_listed_prior(prior.log_odds, prior.constant, prior.log_size_weight, members, log_ratio, log_posterior)
        undecidable = unknown[np.argsort(_sizes(members[unknown]), kind="stable")]
        return ListedBlock(members, log_ratio, log_posterior, undecidable, self.n_features)

    def masks(self, positions: Integers) -> Mask:
        masks = np.zeros((len(positions), self.n_features), dtype=bool)
        block = np.searchsorted(self._starts, positions, side="right") - 1
        for b in np.unique(block):
            rows = np.flatnonzero(block == b)
            masks[rows] = self.scored(int(b)).masks(positions[rows] - self.start(int(b)))
        return masks


@dataclass(frozen=True, eq=False)
class ListedBlock:
    members: NDArray[np.int32]
    log_ratio: Floats
    log_posterior: Floats
    undecidable: Integers
    n_features: int

    def inclusion(self, weights: Floats) -> tuple[float, Floats]:
        upper = np.zeros((self.n_features, self.n_features))
        total = float(listed_inclusion(weights, self.members, upper))
        return total, upper + np.triu(upper, 1).T

    def masks(self, positions: Integers) -> Mask:
        return _as_masks(self.members[positions], self.n_features)


def _sizes(members: NDArray[np.int32]) -> Integers:
    return (members >= 0).sum(axis=1)


def _as_masks(members: NDArray[np.int32], n_features: int) -> Mask:
    """(n, f) of the members (n, k), -1 beyond the last: it lands in an extra last column that is cut off."""
    masks = np.zeros((len(members), n_features + 1), dtype=bool)
    masks[np.arange(len(members))[:, None], members] = True
    return masks[:, :-1]


def count_subsets(n_features: int, max_size: int) -> int:
    """Number of subsets of at most max_size of n_features."""
    return sum(comb(n_features, k) for k in range(min(max_size, n_features) + 1))


def subset_blocks(walk: SubsetWalk, prior: PriorTerms, dense_advantage: int) -> DenseBlocks | ListedBlocks:
    """The cheaper of the two ways through all subsets that the prior allows."""
    f = walk.n_features
    if 1 << f <= dense_advantage * count_subsets(f, prior.max_size):
        return DenseBlocks(walk, prior)
    return ListedBlocks(walk, prior)


def all_log_ratios(model: BoundModel, max_size: int | None = None) -> Floats:
    """log Λ of every subset of at most max_size features (default: as many as every environment can fit); -inf outside
    the support. In the order of `subset_blocks`: that of their bit patterns (bit j = feature j) where these are all.
    """
    limit = model.largest_size if max_size is None else min(max_size, model.n_features)
    model.check_max_size(limit)
    everything, nothing = np.arange(model.n_features), np.empty(0, np.int64)
    blocks = subset_blocks(
        walk_of(model, everything, nothing), PriorTerms.flat(model.n_features, limit), model.dense_advantage
    )
    return np.concatenate([blocks.scored(b).log_posterior for b in range(blocks.n_blocks)])


def count_steps(n_features: int, max_size: int, n_subsets: int, per_subset: int, dense_advantage: int) -> int:
    """Work of scoring the n_subsets subsets of at most max_size features, each `per_subset` steps of a dense walk."""
    listed = dense_advantage * n_subsets
    if 1 << n_features <= listed:
        return per_subset << n_features
    if n_subsets > 1 << 64:  # nobody will wait for these: there is no need to know the number of blocks
        return per_subset * listed
    depth = _prefix_length(n_features, max_size)
    n_blocks = comb(n_features, depth) + (depth > 0)
    return per_subset * listed + _STEPS_PER_PAIR * n_blocks * n_features**2


def _prefix_length(n_features: int, max_size: int) -> int:
    """How many features a prefix must fix for the subsets that extend it to make a block of bounded size."""
    depth = 0
    while depth < max_size and count_subsets(n_features - depth, max_size - depth) > _LARGEST_LISTED_BLOCK:
        depth += 1
    return depth


def _partition(n_features: int, max_size: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """Prefixes, and the size limit under each, that together reach every subset once in blocks of bounded size."""
    depth = _prefix_length(n_features, max_size)
    if depth == 0:
        return [()], [max_size]
    prefixes = list(combinations(range(n_features), depth))
    return [(), *prefixes], [depth - 1, *[max_size] * len(prefixes)]
