"""Exact inference: every subset in the prior's support is scored and normalised (the paper's Algorithm 1)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.text import approximate_count, duration
from ..exceptions import EngineError
from ..kernels.dispatch import exp_shifted, weighted_sum
from ..posterior.posterior import Posterior
from .base import RunOptions, Target, described, judged, rescore_leading
from .subset_blocks import ScoredBlock, SubsetBlocks, count_steps, subset_blocks, walk_of

# Subsets × groups that a core scores in a second.
_STEPS_PER_SECOND = 150_000_000
# Subsets outside the support that are looked at for the reason.
_EXAMPLES = 64


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
        space = SubsetSpace.of(target)
        blocks = space.blocks
        whole = np.empty(blocks.n_positions) if blocks.n_positions <= self.in_memory else None
        sums = _Sums(blocks.n_features, blocks.n_blocks, self.keep)

        def work(block: int) -> _BlockSums:
            scored = blocks.scored(block)
            start = blocks.start(block)
            if whole is not None:
                whole[start : start + len(scored.log_posterior)] = scored.log_posterior
            return _BlockSums.of(scored, start, self.keep, sums.threshold)

        with ProgressBar(f"scoring {target.model.subsets_scored}", blocks.n_blocks, options.progress) as bar:
            for part in ordered_map(work, range(blocks.n_blocks), options.n_jobs):
                sums.add(part)
                bar.advance()
        if sums.log_total == -np.inf:
            raise target.nothing_scored()
        return judged(target, self._posterior(target, space, sums, whole, started))

    def _refuse_hours(self, target: Target) -> None:
        steps = enumeration_steps(target)
        if self.time_limit is None or steps <= self.time_limit * _STEPS_PER_SECOND:
            return
        seconds = steps // _STEPS_PER_SECOND
        wait = f"about {duration(seconds)}" if seconds < 1e18 else "longer than anybody can wait"
        n_subsets = approximate_count(target.prior.support_size())
        raise EngineError(
            f"on one core, scoring all {n_subsets} subsets would take {wait}. Lower "
            "max_size, use fewer features, or insist with engine=Enumeration(time_limit=None)."
        )

    def _posterior(
        self,
        target: Target,
        space: SubsetSpace,
        sums: _Sums,
        whole: Floats | None,
        started: float,
    ) -> Posterior:
        free_masks = space.blocks.masks(sums.top_positions)
        masks = space.expand(free_masks)
        check = rescore_leading(target.model, masks, sums.top_log_ratio, self.rescore)
        if check.changed:
            sums.replace(free_masks, check.log_ratios)
            if whole is not None:
                whole[sums.top_positions] = sums.top_log_posterior
        if whole is not None:
            whole -= sums.log_total
        notes = [] if check.note is None else [check.note]
        if sums.n_undecidable:
            reasons = target.model.unsupported(space.expand(sums.undecidable)).reasons
            notes.append(
                f"{sums.n_undecidable:,} of {target.prior.support_size():,} subsets are outside the support: "
                f"{'; '.join(reasons)}."
            )
        pairwise = space.expand_pairs(sums.pairs)
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
                "subsets_scored": space.blocks.n_positions,
                "subsets_undecidable": sums.n_undecidable,
                "streamed": whole is None,
                "rescoring_difference": check.difference,
            },
            source=ExactSource(target, space, sums.log_total, sums.block_log_mass, whole),
        )


@dataclass(frozen=True, eq=False)
class SubsetSpace:
    """The subsets in a prior's support: blocks over the free features, and the way back to all p features."""

    blocks: SubsetBlocks
    free: NDArray[np.intp]
    forced: NDArray[np.intp]
    n_features: int

    @classmethod
    def of(cls, target: Target) -> SubsetSpace:
        order = target.model.walk_order(target.free)
        free, forced = target.free[order], target.forced
        terms = replace(target.terms, log_odds=target.terms.log_odds[order])
        blocks = subset_blocks(walk_of(target.model, free, forced), terms, target.model.dense_advantage)
        return cls(blocks, free, forced, target.n_features)

    def expand(self, masks: Mask) -> Mask:
        """(n, f) over the free features → (n, p)"""
        full = np.zeros((len(masks), self.n_features), dtype=bool)
        full[:, self.free] = masks
        full[:, self.forced] = True
        return full

    def expand_pairs(self, pairs: Floats) -> Floats:
        """(f, f) inclusion of pairs of free features → (p, p)"""
        full = np.zeros((self.n_features, self.n_features))
        full[np.ix_(self.free, self.free)] = pairs
        full[np.ix_(self.forced, self.free)] = np.diagonal(pairs)
        full[np.ix_(self.free, self.forced)] = np.diagonal(pairs)[:, None]
        full[np.ix_(self.forced, self.forced)] = 1.0
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
            examples = np.concatenate([self.undecidable, part.undecidable])
            self.undecidable = examples[np.argsort(examples.sum(axis=1), kind="stable")[:_EXAMPLES]]
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
    """Answers for any subset, long after the enumeration.

    block_log_mass (n_blocks,); log_posterior (n_positions,): the normalised log posterior where it was kept.
    """

    target: Target
    space: SubsetSpace
    log_evidence: float
    block_log_mass: Floats
    log_posterior: Floats | None

    def log_probability(self, masks: Mask) -> Floats:
        return self.target.log_joint(masks) - self.log_evidence

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        mass = np.exp(self.block_log_mass - self.block_log_mass.max())
        chosen = rng.choice(len(mass), size=n, p=mass / mass.sum())
        draws = np.empty((n, self.space.blocks.n_features), dtype=bool)
        for block in np.unique(chosen):
            rows = np.flatnonzero(chosen == block)
            scored = self.space.blocks.scored(int(block))
            weights = np.exp(scored.log_posterior - scored.log_posterior.max())
            position = rng.choice(len(weights), size=len(rows), p=weights / weights.sum())
            draws[rows] = self.space.blocks.masks(self.space.blocks.start(int(block)) + position)
        return self.space.expand(draws)

    def leading(self, mass: float) -> tuple[Mask, Floats, Floats] | None:
        if self.log_posterior is None:
            return None
        order = np.argsort(-self.log_posterior, kind="stable")
        cumulative = np.cumsum(np.exp(self.log_posterior[order]))
        order = order[: np.searchsorted(cumulative, mass) + 1]
        masks = self.space.expand(self.space.blocks.masks(order))
        log_probability = self.log_posterior[order]
        values = log_probability + self.log_evidence - self.target.prior.log_prob(masks)
        return masks, self.target.log_ratios(masks, values), log_probability


def enumeration_steps(target: Target) -> int:
    """The work of an enumeration: subsets × groups (the environments and the pool), in steps of the dense walk."""
    model, terms = target.model, target.terms
    n_subsets, steps = target.prior.support_size(), model.steps_per_subset
    return count_steps(len(target.free), terms.max_size, n_subsets, steps, model.dense_advantage)
