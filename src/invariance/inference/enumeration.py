"""Exact inference: every subset in the prior's support is scored and normalised (the paper's Algorithm 1).

Blocks of subsets are scored one at a time: `DenseBlocks` are all 2**f subsets of f features, the position of a subset
being its bit pattern; `ListedBlocks` are those up to a size limit.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.text import approximate_count, duration
from ..exceptions import EngineError, use
from ..kernels.dispatch import (
    add_dense_prior,
    add_listed_prior,
    exp_shifted,
    fold_inclusion,
    listed_inclusion,
    weighted_sum,
)
from ..models.base import BoundModel, walk_of
from ..models.walks import SubsetWalk, listed_subsets, of_all_features
from ..posterior.posterior import Posterior, SubsetTable
from ..priors.base import PriorTerms
from .base import RunOptions, Target, described, judged, rescore_leading, smallest

_LARGEST_LISTED_BLOCK = 1 << 20
# What a block of listed subsets costs for each pair of features: its sums over all pairs.
_STEPS_PER_PAIR = 2
# Subsets × groups that a core scores in a second.
_STEPS_PER_SECOND = 150_000_000
# Undecidable subsets of a block that are kept for the reason.
_EXAMPLES = 64


@dataclass(frozen=True, eq=False)
class ScoredBlock:
    """log_ratio (n,): NaN where undecidable. log_posterior (n,): plus log prior, -inf where NaN.

    undecidable: positions in the block of such subsets inside the prior's support, small subsets first
    inclusion: of weights (n,), which it may overwrite: their sum, and (f, f) sums over subsets that hold two features
    masks: (m, f) of m positions in the block
    """

    log_ratio: Floats
    log_posterior: Floats
    undecidable: Integers
    inclusion: Callable[[Floats], tuple[float, Floats]]
    masks: Callable[[Integers], Mask]


class SubsetBlocks(ABC):
    """n_positions subsets in n_blocks blocks; block b begins at position start(b)."""

    n_blocks: int
    n_positions: int

    def __init__(self, walk: SubsetWalk, prior: PriorTerms) -> None:
        self.walk = walk
        self.prior = prior
        self.n_features = walk.n_features
        self._sizes = prior.log_size_weight > -np.inf

    @abstractmethod
    def start(self, block: int) -> int: ...

    @abstractmethod
    def fixed(self, block: int) -> Integers:
        """The features that all subsets of the block hold, by which a walk knows it."""

    @abstractmethod
    def scored(self, block: int) -> ScoredBlock: ...

    @abstractmethod
    def masks(self, positions: Integers) -> Mask:
        """(len(positions), f)"""

    def _undecidable(self, unknown: Integers, sizes: Integers) -> Integers:
        """Of unscored positions (n,) with subsets of `sizes` (n,) those inside the prior's support, small ones first"""
        inside = self._sizes[sizes]
        return unknown[inside][np.argsort(sizes[inside], kind="stable")]


class DenseBlocks(SubsetBlocks):
    """All 2**f subsets; block = choice of the features beyond the first `n_low`."""

    def __init__(self, walk: SubsetWalk, prior: PriorTerms) -> None:
        super().__init__(walk, prior)
        self.n_low = walk.n_low
        self.n_blocks = 1 << (self.n_features - self.n_low)
        self.n_positions = 1 << self.n_features
        self._low_sizes = np.bitwise_count(np.arange(1 << self.n_low, dtype=np.uint64)).astype(np.int64)
        self._low_log_odds = np.zeros(1 << self.n_low)
        for j in np.flatnonzero(prior.log_odds[: self.n_low]):
            self._low_log_odds.reshape(-1, 2, 1 << j)[:, 1] += prior.log_odds[j]

    def start(self, block: int) -> int:
        return block << self.n_low

    def fixed(self, block: int) -> Integers:
        return self.n_low + np.flatnonzero(block >> np.arange(self.n_features - self.n_low) & 1)

    def scored(self, block: int) -> ScoredBlock:
        prior, high = self.prior, self.fixed(block)
        log_ratio = self.walk.dense(high, self._sizes)
        constant = prior.constant + float(prior.log_odds[high].sum())
        by_size = prior.log_size_weight[len(high) :]
        log_posterior = np.empty_like(log_ratio)
        add_dense_prior(self._low_log_odds, self._low_sizes, constant, by_size, log_ratio, log_posterior)
        unknown = np.flatnonzero(np.isnan(log_ratio))

        def inclusion(weights: Floats) -> tuple[float, Floats]:
            pairs, low = np.zeros((self.n_features, self.n_features)), np.arange(self.n_low)
            total = float(fold_inclusion(weights, self.n_low, pairs))
            singles = np.diagonal(pairs)[: self.n_low]
            pairs[np.ix_(high, low)] = singles
            pairs[np.ix_(low, high)] = singles[:, None]
            pairs[np.ix_(high, high)] = total
            return total, pairs

        undecidable = self._undecidable(unknown, len(high) + self._low_sizes[unknown])
        return ScoredBlock(
            log_ratio,
            log_posterior,
            undecidable,
            inclusion,
            lambda positions: self.masks(self.start(block) + positions),
        )

    def masks(self, positions: Integers) -> Mask:
        return (positions[:, None] >> np.arange(self.n_features) & 1).astype(bool)


class ListedBlocks(SubsetBlocks):
    """All subsets of at most `prior.max_size` features; block = choice of the first few included ones."""

    def __init__(self, walk: SubsetWalk, prior: PriorTerms) -> None:
        super().__init__(walk, prior)
        f, depth = self.n_features, _prefix_length(self.n_features, prior.max_size)
        longest = list(combinations(range(f), depth)) if depth else []
        self._prefixes: list[tuple[int, ...]] = [(), *longest]
        self._limits = [depth - 1 if depth else prior.max_size, *[prior.max_size] * len(longest)]
        sizes = [
            count_subsets(f - (prefix[-1] + 1 if prefix else 0), limit - len(prefix))
            for prefix, limit in zip(self._prefixes, self._limits, strict=True)
        ]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_blocks = len(sizes)
        self.n_positions = int(self._starts[-1])

    def start(self, block: int) -> int:
        return int(self._starts[block])

    def fixed(self, block: int) -> Integers:
        return np.array(self._prefixes[block], dtype=np.int64)

    def scored(self, block: int) -> ScoredBlock:
        prior, f = self.prior, self.n_features
        n = self.start(block + 1) - self.start(block)
        members = np.empty((n, max(prior.max_size, 1)), np.int32)
        log_ratio = self.walk.listed(self.fixed(block), self._limits[block], self._sizes, members)
        log_posterior = np.empty(n)
        add_listed_prior(prior.log_odds, prior.constant, prior.log_size_weight, members, log_ratio, log_posterior)
        unknown = np.flatnonzero(np.isnan(log_ratio))

        def inclusion(weights: Floats) -> tuple[float, Floats]:
            upper = np.zeros((f, f))
            total = float(listed_inclusion(weights, members, upper))
            return total, upper + np.triu(upper, 1).T

        undecidable = self._undecidable(unknown, (members[unknown] >= 0).sum(axis=1))
        return ScoredBlock(log_ratio, log_posterior, undecidable, inclusion, lambda at: listed_subsets(members[at], f))

    def masks(self, positions: Integers) -> Mask:
        masks = np.zeros((len(positions), self.n_features), dtype=bool)
        block = np.searchsorted(self._starts, positions, side="right") - 1
        for b in np.unique(block):
            rows = np.flatnonzero(block == b)
            masks[rows] = self.scored(int(b)).masks(positions[rows] - self.start(int(b)))
        return masks


def count_subsets(n_features: int, max_size: int) -> int:
    """Number of subsets of at most max_size of n_features."""
    return sum(comb(n_features, k) for k in range(min(max_size, n_features) + 1))


def _prefix_length(n_features: int, max_size: int) -> int:
    """How many features a prefix must fix for the subsets that extend it to make a block of bounded size."""
    depth = 0
    while depth < max_size and count_subsets(n_features - depth, max_size - depth) > _LARGEST_LISTED_BLOCK:
        depth += 1
    return depth


def subset_blocks(walk: SubsetWalk, prior: PriorTerms, dense_advantage: int) -> DenseBlocks | ListedBlocks:
    """The cheaper of the two walks over all subsets that the prior allows."""
    f = walk.n_features
    dense = 1 << f <= dense_advantage * count_subsets(f, prior.max_size)
    return DenseBlocks(walk, prior) if dense else ListedBlocks(walk, prior)


def all_log_ratios(model: BoundModel, max_size: int | None = None) -> Floats:
    """log Λ of every subset of at most max_size features (default: as many as every environment can fit); -inf outside
    the support. In the order of `subset_blocks`: that of their bit patterns (bit j = feature j) where these are all."""
    limit = model.largest_size if max_size is None else min(max_size, model.n_features)
    model.check_max_size(limit)
    walk = walk_of(model, np.arange(model.n_features), np.empty(0, np.int64))
    blocks = subset_blocks(walk, PriorTerms.flat(model.n_features, limit), model.dense_advantage)
    return np.concatenate([blocks.scored(b).log_posterior for b in range(blocks.n_blocks)])


def enumeration_steps(target: Target) -> int:
    """The work of an enumeration: subsets × groups (the environments and the pool), in steps of the dense walk."""
    model, f = target.model, len(target.free)
    n_subsets = target.prior.support_size()
    return count_steps(f, target.terms.max_size, n_subsets, model.steps_per_subset, model.dense_advantage)


def count_steps(n_features: int, max_size: int, n_subsets: int, per_subset: int, dense_advantage: int) -> int:
    """Work of scoring the n_subsets subsets of at most max_size features, each `per_subset` steps of a dense walk."""
    listed = dense_advantage * n_subsets
    if 1 << n_features <= listed:
        return per_subset << n_features
    if n_subsets > 1 << 64:  # no need to count the blocks
        return per_subset * listed
    depth = _prefix_length(n_features, max_size)
    n_blocks = comb(n_features, depth) + (depth > 0)
    return per_subset * listed + _STEPS_PER_PAIR * n_blocks * n_features**2


@dataclass(frozen=True)
class Enumeration:
    """Exact posterior by enumeration.

    keep : how many leading subsets the result lists
    rescore : how many of them are scored again from the rows
    in_memory : up to this many subsets the whole log posterior is kept
    time_limit : refuse work that would take one core longer than this many seconds (None: never refuse). Work is
        counted, not timed, so that the answer is the same on every machine, under any load.
    """

    keep: int = 4096
    rescore: int = 20
    in_memory: int = 1 << 24
    time_limit: float | None = 3600.0

    def run(self, target: Target, options: RunOptions) -> Posterior:
        started = time.perf_counter()
        self._refuse_hours(target)
        order = target.model.walk_order(target.free)
        free = target.free[order]
        terms = replace(target.terms, log_odds=target.terms.log_odds[order])
        blocks = subset_blocks(walk_of(target.model, free, target.forced), terms, target.model.dense_advantage)
        whole = np.empty(blocks.n_positions) if blocks.n_positions <= self.in_memory else None
        sums = _Sums(blocks.n_features, blocks.n_blocks, self.keep)

        def work(block: int) -> _BlockSums:
            scored, start = blocks.scored(block), blocks.start(block)
            if whole is not None:
                whole[start : start + len(scored.log_posterior)] = scored.log_posterior
            return _BlockSums.of(scored, start, self.keep, sums.threshold)

        with ProgressBar("scoring subsets", blocks.n_blocks, options.progress) as bar:
            for part in ordered_map(work, range(blocks.n_blocks), options.n_jobs):
                sums.add(part)
                bar.advance()
        if sums.log_total == -np.inf:
            raise target.nothing_scored()
        return judged(target, self._posterior(target, blocks, free, sums, whole, started))

    def _refuse_hours(self, target: Target) -> None:
        steps = enumeration_steps(target)
        if self.time_limit is None or steps <= self.time_limit * _STEPS_PER_SECOND:
            return
        seconds = steps // _STEPS_PER_SECOND
        wait = f"about {duration(seconds)}" if seconds < 1e18 else "longer than anybody can wait"
        n_subsets = approximate_count(target.prior.support_size())
        raise EngineError(
            f"on one core, scoring all {n_subsets} subsets would take {wait}; lower max_size, leave features out, or "
            "choose another engine",
            use(engine="tempering"),
            use(engine="exact(time_limit=None)"),
        )

    def _posterior(
        self, target: Target, blocks: SubsetBlocks, free: Integers, sums: _Sums, whole: Floats | None, started: float
    ) -> Posterior:
        free_masks = blocks.masks(sums.top_positions)
        masks = of_all_features(free_masks, free, target.forced, target.n_features)
        check = rescore_leading(target.model, masks, sums.top_log_ratio, self.rescore)
        if check.changed:
            sums.replace(free_masks, check.log_ratios)
            if whole is not None:
                whole[sums.top_positions] = sums.top_log_posterior
        if whole is not None:
            whole -= sums.log_total
        notes = list(check.notes)
        if sums.n_undecidable:
            examples = of_all_features(sums.undecidable, free, target.forced, target.n_features)
            reasons = target.model.outside_support(examples)
            notes.append(
                f"{sums.n_undecidable:,} of {target.prior.support_size():,} subsets are outside the support: "
                f"{'; '.join(reasons)}."
            )
        pairwise = _pairs_of_all(sums.pairs, free, target)
        return Posterior(
            **described(target),
            inclusion=np.diagonal(pairwise).copy(),
            pairwise=pairwise,
            masks=masks,
            log_ratios=check.log_ratios,
            log_probabilities=sums.top_log_posterior - sums.log_total,
            log_evidence=sums.log_total,
            entropy=max(0.0, sums.log_total - sums.mean_log_posterior),
            engine="exact enumeration",
            notes=tuple(notes),
            diagnostics={
                "seconds": time.perf_counter() - started,
                "subsets_scored": blocks.n_positions,
                "subsets_undecidable": sums.n_undecidable,
                "streamed": whole is None,
                "rescoring_difference": check.difference,
            },
            source=ExactSource(target, blocks, free, sums.log_total, sums.block_log_mass, whole),
        )


def _pairs_of_all(pairs: Floats, free: Integers, target: Target) -> Floats:
    """(p, p) inclusion of pairs of features from those (f, f) of the `free` ones"""
    full, forced = np.zeros((target.n_features, target.n_features)), target.forced
    full[np.ix_(free, free)] = pairs
    full[np.ix_(forced, free)] = np.diagonal(pairs)
    full[np.ix_(free, forced)] = np.diagonal(pairs)[:, None]
    full[np.ix_(forced, forced)] = 1.0
    return full


@dataclass(frozen=True, eq=False)
class _BlockSums:
    """What is kept of one block. pairs (f, f) and weighted are relative to exp(log_maximum).

    n_undecidable: subsets inside the prior's support that cannot be scored; undecidable (m, f): the smallest of them.
    """

    log_maximum: float
    total: float
    pairs: Floats
    weighted: float
    n_undecidable: int
    undecidable: Mask
    positions: Integers
    log_posterior: Floats
    log_ratio: Floats

    @classmethod
    def of(cls, scored: ScoredBlock, start: int, keep: int, threshold: float) -> _BlockSums:
        log_posterior = scored.log_posterior
        log_maximum = float(log_posterior.max())
        weights = np.empty_like(log_posterior)
        exp_shifted(log_posterior, max(log_maximum, -1e300), weights)
        weighted = float(weighted_sum(weights, log_posterior))
        best = np.flatnonzero(log_posterior > threshold)
        if len(best) > keep:
            best = best[np.lexsort((best, -log_posterior[best]))[:keep]]
        top, top_ratio = log_posterior[best], scored.log_ratio[best]
        n_undecidable, examples = len(scored.undecidable), scored.masks(scored.undecidable[:_EXAMPLES])
        total, pairs = scored.inclusion(weights)
        return cls(log_maximum, total, pairs, weighted, n_undecidable, examples, start + best, top, top_ratio)


class _Sums:
    """Running totals over blocks, added in the order of the blocks whatever thread scored them."""

    def __init__(self, n_features: int, n_blocks: int, keep: int) -> None:
        self.keep = keep
        self.threshold = -np.inf
        self.n_undecidable = 0
        self.undecidable = np.zeros((0, n_features), dtype=bool)
        self.block_log_mass = np.full(n_blocks, -np.inf)
        self._n_added = 0
        self._scale = -np.inf
        self._total = 0.0
        self._weighted = 0.0
        self._pairs = np.zeros((n_features, n_features))
        self.top_positions = np.empty(0, np.int64)
        self.top_log_posterior = np.empty(0)
        self.top_log_ratio = np.empty(0)

    def add(self, part: _BlockSums) -> None:
        self.n_undecidable += part.n_undecidable
        if len(part.undecidable):
            self.undecidable = smallest(np.concatenate([self.undecidable, part.undecidable]))
        if part.total > 0.0:
            self.block_log_mass[self._n_added] = part.log_maximum + np.log(part.total)
            scale = max(self._scale, part.log_maximum)
            old, new = np.exp(self._scale - scale), np.exp(part.log_maximum - scale)
            self._total = old * self._total + new * part.total
            self._weighted = old * self._weighted + new * part.weighted
            self._pairs = old * self._pairs + new * part.pairs
            self._scale = scale
        self._n_added += 1
        if len(part.positions):
            self._merge_top(part)

    def _merge_top(self, part: _BlockSums) -> None:
        positions = np.concatenate([self.top_positions, part.positions])
        log_posterior = np.concatenate([self.top_log_posterior, part.log_posterior])
        log_ratio = np.concatenate([self.top_log_ratio, part.log_ratio])
        order = np.lexsort((positions, -log_posterior))[: self.keep]
        self.top_positions, self.top_log_posterior = positions[order], log_posterior[order]
        self.top_log_ratio = log_ratio[order]
        # Later blocks hold later positions, which lose ties: only a larger value can still enter.
        self.threshold = self.top_log_posterior[-1] if len(order) == self.keep else -np.inf

    def replace(self, masks: Mask, log_ratio: Floats) -> None:
        """Give the leading subsets (masks (k, f)) corrected log ratios, in the table and in all sums."""
        old = self.top_log_posterior
        new = old + (log_ratio - self.top_log_ratio)
        scale = max(self._scale, float(new.max()))
        shrink = np.exp(self._scale - scale)
        old_weight, new_weight = np.exp(old - scale), np.exp(new - scale)
        change = new_weight - old_weight
        self._total = shrink * self._total + change.sum()
        self._weighted = shrink * self._weighted + weighted_sum(new_weight, new) - weighted_sum(old_weight, old)
        self._pairs = shrink * self._pairs + (masks * change[:, None]).T @ masks.astype(float)
        self._scale = scale
        self.top_log_posterior, self.top_log_ratio = new, log_ratio

    @property
    def log_total(self) -> float:
        return float(self._scale + np.log(self._total)) if self._total > 0.0 else -np.inf

    @property
    def mean_log_posterior(self) -> float:
        return self._weighted / self._total

    @property
    def pairs(self) -> Floats:
        return self._pairs / self._total


@dataclass(frozen=True, eq=False)
class ExactSource:
    """Answers for any subset. free (f,): the features of `blocks`

    block_log_mass (n_blocks,); log_posterior (n_positions,): the normalised log posterior where it was kept.
    """

    target: Target
    blocks: SubsetBlocks
    free: Integers
    log_evidence: float
    block_log_mass: Floats
    log_posterior: Floats | None

    def log_probability(self, masks: Mask) -> Floats:
        return self.target.log_joint(masks) - self.log_evidence

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        blocks, mass = self.blocks, np.exp(self.block_log_mass - self.block_log_mass.max())
        chosen = rng.choice(len(mass), size=n, p=mass / mass.sum())
        draws = np.empty((n, blocks.n_features), dtype=bool)
        for block in np.unique(chosen):
            rows = np.flatnonzero(chosen == block)
            scored = blocks.scored(int(block))
            weights = np.exp(scored.log_posterior - scored.log_posterior.max())
            position = rng.choice(len(weights), size=len(rows), p=weights / weights.sum())
            draws[rows] = blocks.masks(blocks.start(int(block)) + position)
        return of_all_features(draws, self.free, self.target.forced, self.target.n_features)

    def leading(self, mass: float) -> SubsetTable | None:
        if self.log_posterior is None:
            return None
        order = np.argsort(-self.log_posterior, kind="stable")
        cumulative = np.cumsum(np.exp(self.log_posterior[order]))
        order = order[: np.searchsorted(cumulative, mass) + 1]
        masks = of_all_features(self.blocks.masks(order), self.free, self.target.forced, self.target.n_features)
        log_probability = self.log_posterior[order]
        values = log_probability + self.log_evidence - self.target.prior.log_prob(masks)
        return masks, self.target.log_ratios(masks, values), log_probability
