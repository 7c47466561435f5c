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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.subsets import as_lists
from ..kernels.block_gibbs import block_log_ratios
from ..kernels.combinations import score_extensions
from ..kernels.reductions import add_dense_prior, add_listed_prior, fold_inclusion, listed_inclusion
from ..kernels.subset_cholesky import score_subsets
from ..kernels.subset_tree import score_block

_LOW_FEATURES = 14
_LARGEST_LISTED_BLOCK = 1 << 20
# Walking all 2**f subsets is so much cheaper per subset that it wins unless the size limit leaves few of them.
_DENSE_ADVANTAGE = 16
# What a block of listed subsets costs beside them, for each pair of features: its sums over all pairs.
_STEPS_PER_PAIR = 2


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores from the rows what second moments cannot decide.

    conditional: a model with `scoring`; forced (k,): columns that are always in; free (f,): those of the features.
    """

    conditional: Any
    forced: Integers
    free: Integers

    def dense(self, n_low: int, high: Integers) -> Floats:
        """(2**n_low,) log Λ of the features `high` joined by all subsets of the first n_low."""
        log_ratio = np.empty(1 << n_low)
        fixed = np.sort(np.concatenate([self.forced, self.free[high]]))
        block_log_ratios(self.conditional.scoring, fixed, self.free[:n_low], log_ratio)
        return log_ratio

    def listed(self, masks: Mask) -> Floats:
        """(n,) log Λ of masks (n, f)"""
        columns = np.concatenate([self.forced, self.free])
        starts, members = as_lists(np.column_stack([np.ones((len(masks), len(self.forced)), bool), masks]))
        log_ratio = np.empty(len(masks))
        score_subsets(self.conditional.scoring, np.nan, starts, columns[members], log_ratio)
        return log_ratio


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """Scaled second moments of f features and the outcome (last) in E environments and the pool.

    grams (G, f+1, f+1); absent (G, f+1): constant in that group; log Λ = offset + Σ_g weights[g]·log pivot_g.
    rows: what decides below the tolerance, if there is anything.
    """

    grams: Floats
    absent: Mask
    weights: Floats
    offset: float
    tolerance: float
    rows: RowScores | None = None

    @property
    def n_features(self) -> int:
        return self.grams.shape[1] - 1


@dataclass(frozen=True, eq=False)
class PriorTerms:
    """log p(z) over f free features: constant + Σ log_odds_j z_j + log_size_weight[|z|], |z| <= max_size."""

    log_odds: Floats
    log_size_weight: Floats
    max_size: int
    constant: float

    @classmethod
    def flat(cls, n_features: int, max_size: int) -> PriorTerms:
        """Weight 1 for every subset of at most max_size features."""
        sizes = np.where(np.arange(n_features + 1) <= max_size, 0.0, -np.inf)
        return cls(np.zeros(n_features), sizes, max_size, 0.0)


class ScoredBlock(Protocol):
    """log_ratio (n,): NaN where undecidable. log_posterior (n,): plus log prior, -inf where NaN.

    undecidable: positions in the block of such subsets inside the prior's support, small subsets first.
    """

    log_ratio: Floats
    log_posterior: Floats
    undecidable: Integers

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

    def scored(self, block: int) -> ScoredBlock: ...

    def masks(self, positions: Integers) -> Mask:
        """(len(positions), f)"""
        ...


class DenseBlocks:
    """All 2**f subsets; position = bit pattern, block = choice of the features beyond the first `n_low`."""

    def __init__(self, moments: GroupMoments, prior: PriorTerms) -> None:
        self.moments = moments
        self.prior = prior
        self.n_features = moments.n_features
        self.n_low = min(self.n_features, _LOW_FEATURES)
        self.n_blocks = 1 << (self.n_features - self.n_low)
        self.n_positions = 1 << self.n_features

    def start(self, block: int) -> int:
        return block << self.n_low

    def scored(self, block: int) -> DenseBlock:
        m, prior = self.moments, self.prior
        log_ratio = np.empty(1 << self.n_low)
        score_block(m.grams, m.absent, m.weights, m.offset, m.tolerance, block, self.n_low, log_ratio)
        high = self.high_features(block)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[prior.log_size_weight[len(high) + self._low_sizes[unknown]] > -np.inf]
        if len(unknown) and m.rows is not None:
            log_ratio[unknown] = m.rows.dense(self.n_low, high)[unknown]
            unknown = unknown[np.isnan(log_ratio[unknown])]
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

    def __init__(self, moments: GroupMoments, prior: PriorTerms) -> None:
        self.moments = moments
        self.prior = prior
        self.n_features = moments.n_features
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

    def scored(self, block: int) -> ListedBlock:
        m, prior = self.moments, self.prior
        n = self.start(block + 1) - self.start(block)
        members = np.empty((n, max(prior.max_size, 1)), np.int32)
        log_ratio = np.empty(n)
        prefix = np.array(self._prefixes[block], dtype=np.int64)
        limit = self._limits[block]
        score_extensions(m.grams, m.absent, m.weights, m.offset, m.tolerance, prefix, limit, members, log_ratio)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[prior.log_size_weight[_sizes(members[unknown])] > -np.inf]
        if len(unknown) and m.rows is not None:
            log_ratio[unknown] = m.rows.listed(_as_masks(members[unknown], self.n_features))
            unknown = unknown[np.isnan(log_ratio[unknown])]
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


def subset_blocks(moments: GroupMoments, prior: PriorTerms) -> DenseBlocks | ListedBlocks:
    """The cheaper of the two ways through all subsets that the prior allows."""
    f = moments.n_features
    if 1 << f <= _DENSE_ADVANTAGE * count_subsets(f, prior.max_size):
        return DenseBlocks(moments, prior)
    return ListedBlocks(moments, prior)


def count_steps(n_features: int, max_size: int, n_subsets: int, n_groups: int) -> int:
    """Work of scoring the n_subsets subsets of at most max_size features, in subsets × groups of the dense walk."""
    listed = _DENSE_ADVANTAGE * n_subsets
    if 1 << n_features <= listed:
        return n_groups << n_features
    if n_subsets > 1 << 64:  # nobody will wait for these: there is no need to know the number of blocks
        return n_groups * listed
    depth = _prefix_length(n_features, max_size)
    n_blocks = comb(n_features, depth) + (depth > 0)
    return n_groups * listed + _STEPS_PER_PAIR * n_blocks * n_features**2


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
