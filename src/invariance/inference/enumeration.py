"""Exact inference: score and normalise every subset in the support of the prior.

The posterior of each subset is p(z) Λ(z) / Σ_z' p(z') Λ(z') (equation 7 and Algorithm 1 of the
paper, Wu et al. 2025, arXiv:2506.22675).

Blocks of subsets are scored one at a time: `DenseBlocks` are all 2**f subsets of f features, the
position of a subset being its bit pattern; `ListedBlocks` are those up to a size limit.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import NamedTuple, Protocol

import numpy as np

from .._tools.arrays import Floats, Integers, Mask, Rng, subsets_at
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.text import duration, format_count
from ..exceptions import EngineError, use
from ..kernels.all_subsets import Sums, space_for, sums_for
from ..kernels.elementary import exp_shifted
from ..kernels.subset_sums import add_listed_prior, fold_inclusion, listed_inclusion, weighted_sum
from ..models.base import NO_GAIN, SubsetWalk, listed_subsets, sums_over_subsets
from ..models.gaussian_fits import GaussianWalk
from ..models.invariance_test import Tolerance
from ..posterior.posterior import Posterior, SubsetTable
from ..priors import BoundPrior
from .base import (
    EXAMPLES,
    RESCORED,
    RunOptions,
    Target,
    common_fields,
    drawn,
    rescore_leading,
    smallest,
    with_remarks,
)

_LARGEST_LISTED_BLOCK = 1 << 20
# Of blocks that are scored, weighed and summed in one compiled call: fewest calls, and most subsets
# of a call.
_FEWEST_TASKS = 128
_MOST_IN_A_TASK = 1 << 19
_STEPS_PER_PAIR = (
    2  # what a block of listed subsets costs for each pair of features: its sums over all pairs
)
_STEPS_PER_SECOND = 150_000_000  # subsets × groups that a core scores


@dataclass(frozen=True, eq=False)
class ScoredBlock:
    """Hold the scores of one block of n subsets.

    start : position of the first subset; log_ratio (n,) : NaN if undecidable; log_posterior (n,) :
        -inf
    there; undecidable : positions in the block of such subsets inside the support, small subsets
    first; gain (n,) : as in a `SubsetWalk`, or without rows; inclusion : sum of weights (n,), which
    it may overwrite, and sums (f, f) over subsets with two features; masks : (m, f) of m positions
    in the block; columns : (m,) their columns in the pooled fit
    """

    start: int
    log_ratio: Floats
    log_posterior: Floats
    gain: Floats
    undecidable: Integers
    inclusion: Callable[[Floats], tuple[float, Floats]]
    masks: Callable[[Integers], Mask]
    columns: Callable[[Integers], Integers]


class Picked(NamedTuple):
    """Hold n subsets that may be compatible.

    Gain, columns of the pooled fit, log prior and log Λ (n,); draws (n, f).
    """

    gain: Floats
    columns: Integers
    log_prior: Floats
    log_ratio: Floats
    draws: Mask

    def weights(self, price: float) -> Floats:
        """Return log p(z) − ½ cost(z) (n,) at this penalty of a column."""
        return self.gain + self.log_prior - 0.5 * price * self.columns

    def of(self, rows: Integers | Mask) -> Picked:
        return Picked._make([values[rows] for values in self])

    @classmethod
    def joined(cls, parts: Iterable[Picked]) -> Picked:
        return cls._make([np.concatenate(values) for values in zip(*parts, strict=True)])


class Visitor(Protocol):
    """Takes subsets that may be compatible with invariance while all are scored, in their order.
    least (c + 1,): smallest gain of interest, by columns of the pooled fit, raised in place"""

    tolerance: Tolerance
    least: Floats

    def add(self, part: Picked) -> None: ...


class EnumerationPass(NamedTuple):
    """What a pass over all subsets notes. keep: how many leading subsets; lowest (1,): what these
    exceed; least (c + 1,): of a `Visitor`, or none; log_masses (n_blocks,): filled; whole
    (n_positions,), or none: filled with log p(z)Λ(z)"""

    keep: int
    lowest: Floats
    least: Floats
    log_masses: Floats
    whole: Floats

    @classmethod
    def over(
        cls, blocks: SubsetBlocks, keep: int, least: Floats = NO_GAIN, whole: bool = False
    ) -> EnumerationPass:
        masses = np.full(blocks.n_blocks, -np.inf)
        return cls(
            keep, np.array([-np.inf]), least, masses, np.empty(blocks.n_positions if whole else 0)
        )


class _Blocks(ABC):
    """Split the subsets of f features that a prior allows into blocks of n_positions in all.

    The prior forces none of them.
    """

    n_blocks: int
    n_positions: int
    at_once = 1  # blocks that are a task

    def __init__(self, walk: SubsetWalk, prior: BoundPrior) -> None:
        self.walk = walk
        self.prior = prior
        self.n_features = walk.n_features
        columns = walk.model.free_columns
        self._columns = columns[walk.free].astype(np.int64)
        self._forced_columns = int(columns[walk.forced].sum())
        self._sizes = prior.log_size_weight > -np.inf

    @property
    def n_tasks(self) -> int:
        return -(-self.n_blocks // self.at_once)

    @abstractmethod
    def scored(self, block: int, least: Floats | None = None) -> ScoredBlock:
        """Return the subsets of a block with their log posterior; least: as in `Visitor`, if
        gains are asked for."""

    def part(self, task: int, run: EnumerationPass) -> tuple[_Sums, Picked | None]:
        """Return the sums of the blocks of a task and, if there is a `least`, subsets that may be
        compatible."""
        scored = self.scored(task, run.least if run.least.size else None)
        if run.whole.size:
            stop = scored.start + len(scored.log_posterior)
            run.whole[scored.start : stop] = scored.log_posterior
        sums = _Sums.of(scored, run.keep, run.lowest[0])
        run.log_masses[task] = sums.log_total
        if not run.least.size:
            return sums, None
        places = np.flatnonzero(~np.isnan(scored.gain))
        log_ratio = scored.log_ratio[places]
        log_prior = scored.log_posterior[places] - log_ratio
        columns = scored.columns(places)
        return sums, Picked(
            scored.gain[places], columns, log_prior, log_ratio, scored.masks(places)
        )

    def parts(
        self, run: EnumerationPass, options: RunOptions, visitor: Visitor | None, text: str
    ) -> Iterator[_Sums]:
        """Yield the sums of each task in the order of the blocks, whatever thread scored them,
        after what it picked has gone to the visitor."""
        with ProgressBar(text, self.n_tasks, options.progress) as bar:
            for sums, picked in ordered_map(
                lambda task: self.part(task, run), range(self.n_tasks), options.n_jobs
            ):
                if visitor is not None and picked is not None:
                    visitor.add(picked)
                yield sums
                bar.advance()

    def _undecidable(self, unknown: Integers, sizes: Integers) -> Integers:
        """Return those of unscored positions (n,) that are inside the support, small subsets
        first."""
        inside = self._sizes[sizes]
        return unknown[inside][np.argsort(sizes[inside], kind="stable")]


class DenseBlocks(_Blocks):
    """All 2**f subsets; block = choice of the features beyond the first `n_low`."""

    def __init__(self, walk: SubsetWalk, prior: BoundPrior) -> None:
        super().__init__(walk, prior)
        self.n_low = walk.n_low
        self.n_blocks = 1 << (self.n_features - self.n_low)
        self.n_positions = 1 << self.n_features
        self._low_sizes = np.bitwise_count(np.arange(1 << self.n_low, dtype=np.uint64)).astype(
            np.int64
        )
        log_odds = np.zeros(1 << self.n_low)
        for j in np.flatnonzero(prior.log_odds[: self.n_low]):
            log_odds.reshape(-1, 2, 1 << j)[:, 1] += prior.log_odds[j]
        # (2**n_low,) log prior less that of the high features, by how many of these there are
        n_high = range(self.n_features - self.n_low + 1)
        self._low_log_prior = np.array(
            [log_odds + prior.log_size_weight[k + self._low_sizes] for k in n_high]
        )
        self._low_columns = sums_over_subsets(self._columns[: self.n_low])
        self._compiled: Callable[..., int] | None = None
        if isinstance(walk, GaussianWalk):
            self._compiled = walk.compiled(
                prior.log_odds, self._low_log_prior, prior.log_normalizer, self._sizes
            )
            self.at_once = max(
                1, min(self.n_blocks // _FEWEST_TASKS, _MOST_IN_A_TASK >> self.n_low)
            )

    def part(self, task: int, run: EnumerationPass) -> tuple[_Sums, Picked | None]:
        if self._compiled is None:
            return super().part(task, run)
        size = len(self._low_sizes)
        block = task * self.at_once
        stop = min((task + 1) * self.at_once, self.n_blocks)
        sums = sums_for(
            self.n_features, run.keep, EXAMPLES, 2 * size if run.least.size else 0, run.log_masses
        )
        space = space_for(size)
        picked = []
        while block < stop:
            block = self._compiled(block, stop, run.least, run.lowest, run.whole, space, sums)
            if run.least.size:
                picked.append(self._picked(sums))
                sums.number[2] = 0
        return self._summed(sums), Picked.joined(picked) if picked else None

    def _picked(self, sums: Sums) -> Picked:
        n = int(sums.number[2])
        draws = self.masks(sums.places[:n])
        gain, log_posterior, log_ratio = sums.picks[:n].T.copy()
        columns = (
            self._forced_columns + self._low_columns[sums.places[:n] & len(self._low_columns) - 1]
        )
        columns += draws[:, self.n_low :] @ self._columns[self.n_low :]
        return Picked(gain, columns, log_posterior - log_ratio, log_ratio, draws)

    def _summed(self, sums: Sums) -> _Sums:
        n_undecidable, n, _ = sums.number.tolist()
        examples = self.masks(sums.undecidable[sums.undecidable >= 0][:EXAMPLES])
        order = np.lexsort((sums.positions[:n], -sums.values[:n]))
        leading = sums.positions[order], sums.values[order], sums.ratios[order]
        log_scale, total, weighted = sums.total.tolist()
        pairs = sums.pairs + np.tril(sums.pairs, -1).T
        return _Sums(log_scale, total, pairs, weighted, n_undecidable, examples, *leading)

    def scored(self, block: int, least: Floats | None = None) -> ScoredBlock:
        prior = self.prior
        start = block << self.n_low
        high = self.n_low + np.flatnonzero(block >> np.arange(self.n_features - self.n_low) & 1)
        log_ratio, gain = self.walk.dense(high, self._sizes, least)
        log_posterior = log_ratio + self._low_log_prior[len(high)]
        log_posterior += float(prior.log_odds[high].sum()) - prior.log_normalizer
        np.fmax(log_posterior, -np.inf, out=log_posterior)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        undecidable = self._undecidable(unknown, len(high) + self._low_sizes[unknown])

        def inclusion(weights: Floats) -> tuple[float, Floats]:
            pairs = np.zeros((self.n_features, self.n_features))
            total = float(fold_inclusion(weights, self.n_low, pairs))
            singles = np.diagonal(pairs)[: self.n_low]
            pairs[high, : self.n_low] = singles
            pairs[: self.n_low, high] = singles[:, None]
            pairs[high[:, None], high] = total
            return total, pairs

        n_columns = self._forced_columns + int(self._columns[high].sum())
        members = lambda at: self.masks(start + at), lambda at: n_columns + self._low_columns[at]
        return ScoredBlock(start, log_ratio, log_posterior, gain, undecidable, inclusion, *members)

    def masks(self, positions: Integers) -> Mask:
        """Return the subsets (m, f) at m positions."""
        return subsets_at(positions, self.n_features)


class ListedBlocks(_Blocks):
    """All subsets of at most `prior.max_size` features; block = choice of the first few included
    ones."""

    def __init__(self, walk: SubsetWalk, prior: BoundPrior) -> None:
        super().__init__(walk, prior)
        f = self.n_features
        most = prior.max_size
        depth = _prefix_length(f, most)
        longest = list(combinations(range(f), depth)) if depth else []
        self._prefixes: list[tuple[int, ...]] = [(), *longest]
        self._limits = [depth - 1 if depth else most, *[most] * len(longest)]
        sizes = [
            count_subsets(f - (prefix[-1] + 1 if prefix else 0), limit - len(prefix))
            for prefix, limit in zip(self._prefixes, self._limits, strict=True)
        ]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_blocks = len(sizes)
        self.n_positions = int(self._starts[-1])

    def scored(self, block: int, least: Floats | None = None) -> ScoredBlock:
        prior = self.prior
        f = self.n_features
        start, end = self._starts[block : block + 2].tolist()
        members = np.empty((end - start, max(prior.max_size, 1)), np.int32)
        prefix = np.array(self._prefixes[block], dtype=np.int64)
        log_ratio, gain = self.walk.listed(prefix, self._limits[block], self._sizes, members, least)
        log_posterior = np.empty(end - start)
        constant = -prior.log_normalizer
        add_listed_prior(
            prior.log_odds, constant, prior.log_size_weight, members, log_ratio, log_posterior
        )
        unknown = np.flatnonzero(np.isnan(log_ratio))
        undecidable = self._undecidable(unknown, (members[unknown] >= 0).sum(axis=1))

        def inclusion(weights: Floats) -> tuple[float, Floats]:
            upper = np.zeros((f, f))
            total = float(listed_inclusion(weights, members, upper))
            return total, upper + np.triu(upper, 1).T

        def masks(at: Integers) -> Mask:
            return listed_subsets(members[at], f)

        def columns(at: Integers) -> Integers:
            return np.asarray(
                self._forced_columns + np.append(self._columns, 0)[members[at]].sum(axis=1)
            )

        return ScoredBlock(
            start, log_ratio, log_posterior, gain, undecidable, inclusion, masks, columns
        )

    def masks(self, positions: Integers) -> Mask:
        """Return the subsets (m, f) at m positions."""
        masks = np.zeros((len(positions), self.n_features), dtype=bool)
        block = np.searchsorted(self._starts, positions, side="right") - 1
        for b in np.unique(block).tolist():
            rows = np.flatnonzero(block == b)
            masks[rows] = self.scored(b).masks(positions[rows] - self._starts[b])
        return masks


SubsetBlocks = DenseBlocks | ListedBlocks


def count_subsets(n_features: int, max_size: int) -> int:
    """Number of subsets of at most max_size of n_features."""
    return sum(comb(n_features, k) for k in range(min(max_size, n_features) + 1))


def _prefix_length(n_features: int, max_size: int) -> int:
    """Return how many features a prefix fixes so that its extensions are a block of bounded
    size."""
    depth = 0
    while (
        depth < max_size
        and count_subsets(n_features - depth, max_size - depth) > _LARGEST_LISTED_BLOCK
    ):
        depth += 1
    return depth


def subset_blocks(walk: SubsetWalk, prior: BoundPrior) -> SubsetBlocks:
    """Return the cheaper of the two walks over all subsets that the prior allows."""
    f = walk.n_features
    dense = 1 << f <= walk.model.dense_advantage * count_subsets(f, prior.max_size)
    return DenseBlocks(walk, prior) if dense else ListedBlocks(walk, prior)


def target_blocks(target: Target, tolerance: Tolerance | None = None) -> SubsetBlocks:
    """Return the blocks of a target; tolerance : if gains are requested."""
    model = target.model
    prior = target.prior
    free = prior.free[model.walk_order(prior.free)]
    return subset_blocks(model.subset_walk(free, prior.forced, tolerance), prior.over(free))


def enumeration_steps(target: Target) -> int:
    """Return the work of an enumeration in steps of the dense walk.

    It is the number of subsets × groups (the environments and the pool).
    """
    model = target.model
    f = len(target.prior.free)
    n_subsets = target.prior.support_size()
    listed = model.dense_advantage * n_subsets
    if 1 << f <= listed:
        return model.steps_per_subset << f
    if n_subsets > 1 << 64:  # no need to count the blocks
        return model.steps_per_subset * listed
    depth = _prefix_length(f, target.prior.over_free.max_size)
    n_blocks = comb(f, depth) + (depth > 0)
    return model.steps_per_subset * listed + _STEPS_PER_PAIR * n_blocks * f**2


@dataclass(frozen=True)
class Enumeration:
    """Compute the exact posterior by enumeration of all subsets.

    This is Algorithm 1 of the paper.

    Parameters
    ----------
    keep : int, default=4096
        Number of leading subsets in the table of the result.
    rescore : int, default=20
        Number of them that are scored again from the rows.
    in_memory : int, default=16777216
        Largest number of subsets whose log posterior is kept in memory.
    time_limit : float, default=3600.0
        Refuse work of more seconds than this on one core, by the number of operations. None never
        refuses.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, Algorithm 1, arXiv:2506.22675.

    Examples
    --------
    >>> from invariance import BIP, Enumeration
    >>> from invariance.datasets import make_example
    >>> BIP(engine=Enumeration(keep=100)).fit(make_example()).posterior_.n_subsets
    256
    """

    keep: int = 4096
    rescore: int = RESCORED
    in_memory: int = 1 << 24
    time_limit: float | None = 3600.0

    def run(self, target: Target, options: RunOptions, visitor: Visitor | None = None) -> Posterior:
        """Score all subsets; a visitor takes those that may be compatible on the way."""
        started = time.perf_counter()
        self._refuse_hours(target)
        model = target.model
        prior = target.prior
        blocks = target_blocks(target, None if visitor is None else visitor.tolerance)
        free = blocks.walk.free
        least = NO_GAIN if visitor is None else visitor.least
        run = EnumerationPass.over(blocks, self.keep, least, blocks.n_positions <= self.in_memory)
        sums = None
        for part in blocks.parts(run, options, visitor, "scoring subsets"):
            sums = part if sums is None else sums.joined(part, self.keep)
            run.lowest[0] = sums.lowest(self.keep)
        if sums is None or sums.total == 0.0:
            raise target.nothing_scored()
        draws = blocks.masks(sums.positions)
        masks = target.masks(draws, free)
        check = rescore_leading(model, masks, sums.log_ratio, self.rescore)
        if check.changed:
            sums = sums.corrected(draws, check.log_ratios)
            if run.whole.size:
                run.whole[sums.positions] = sums.log_posterior
        notes = check.notes
        if sums.n_undecidable:
            reasons = "; ".join(model.outside_support(target.masks(sums.undecidable, free)))
            n_subsets = f"{sums.n_undecidable:,} of {prior.support_size():,} subsets"
            notes = (*notes, f"{n_subsets} are outside the support: {reasons}.")
        # Rounding must not make a probability exceed one.
        pairs = np.minimum(sums.pairs / sums.total, 1.0)
        inclusion = prior.forced_in.astype(float)
        inclusion[free] = np.diagonal(pairs)
        pairwise = np.outer(inclusion, inclusion)
        pairwise[np.ix_(free, free)] = pairs
        posterior = Posterior(
            **common_fields(target),
            inclusion=inclusion,
            pairwise=pairwise,
            masks=masks,
            log_ratios=check.log_ratios,
            log_probabilities=sums.log_posterior - sums.log_total,
            log_evidence=sums.log_total,
            entropy=max(0.0, sums.log_total - sums.weighted / sums.total),
            engine="exact enumeration",
            notes=notes,
            diagnostics={
                "seconds": time.perf_counter() - started,
                "subsets_scored": blocks.n_positions,
                "subsets_undecidable": sums.n_undecidable,
                "streamed": not run.whole.size,
                "rescoring_difference": check.difference,
            },
            source=ExactSource(target, blocks, free, sums.log_total, run.log_masses, run.whole),
        )
        return with_remarks(target, posterior)

    def _refuse_hours(self, target: Target) -> None:
        steps = enumeration_steps(target)
        if self.time_limit is None or steps <= self.time_limit * _STEPS_PER_SECOND:
            return
        seconds = steps // _STEPS_PER_SECOND
        wait = f"about {duration(seconds)}" if seconds < 1e18 else "longer than anybody can wait"
        what = (
            f"on one core, scoring all {format_count(target.prior.support_size())} subsets "
            f"would take {wait}"
        )
        advice = "lower max_size, leave features out, or choose another engine"
        raise EngineError(
            f"{what}; {advice}", use(engine="tempering"), use(engine="exact(time_limit=None)")
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Hold the sums of a block, or of several in their order.

    total, weighted and pairs (f, f) are in units of exp(log_scale). n_undecidable : subsets inside
    the support that cannot be scored; undecidable (m, f) : the smallest of them; positions,
    log_posterior, log_ratio (k,) : of the leading subsets, best first
    """

    log_scale: float
    total: float
    pairs: Floats
    weighted: float
    n_undecidable: int
    undecidable: Mask
    positions: Integers
    log_posterior: Floats
    log_ratio: Floats

    @classmethod
    def of(cls, scored: ScoredBlock, keep: int, threshold: float) -> _Sums:
        """Leading are at most `keep` that are above the threshold."""
        log_posterior = scored.log_posterior
        log_maximum = float(log_posterior.max())
        weights = np.empty_like(log_posterior)
        exp_shifted(log_posterior, max(log_maximum, -1e300), weights)
        weighted = float(weighted_sum(weights, log_posterior))
        total, pairs = scored.inclusion(weights)
        best = np.flatnonzero(log_posterior > threshold)
        best = best[np.argsort(-log_posterior[best], kind="stable")[:keep]]
        return cls(
            log_maximum,
            total,
            pairs,
            weighted,
            len(scored.undecidable),
            scored.masks(scored.undecidable[:EXAMPLES]),
            scored.start + best,
            log_posterior[best],
            scored.log_ratio[best],
        )

    def lowest(self, keep: int) -> float:
        """Later blocks hold later positions, which lose ties: only a larger value can still enter
        the leading ones."""
        return float(self.log_posterior[-1]) if len(self.positions) == keep else -np.inf

    def joined(self, part: _Sums, keep: int) -> _Sums:
        scale = max(self.log_scale, part.log_scale, -1e300)
        old = np.exp(self.log_scale - scale)
        new = np.exp(part.log_scale - scale)
        positions = self.positions
        log_posterior = self.log_posterior
        log_ratio = self.log_ratio
        undecidable = self.undecidable
        if len(part.positions):
            log_posterior = np.append(log_posterior, part.log_posterior)
            # Of equal ones the earlier position comes first.
            order = np.argsort(-log_posterior, kind="stable")[:keep]
            positions = np.append(positions, part.positions)[order]
            log_posterior = log_posterior[order]
            log_ratio = np.append(log_ratio, part.log_ratio)[order]
        if part.n_undecidable:
            undecidable = smallest(np.concatenate([undecidable, part.undecidable]))
        return _Sums(
            scale,
            old * self.total + new * part.total,
            old * self.pairs + new * part.pairs,
            old * self.weighted + new * part.weighted,
            self.n_undecidable + part.n_undecidable,
            undecidable,
            positions,
            log_posterior,
            log_ratio,
        )

    def corrected(self, draws: Mask, log_ratio: Floats) -> _Sums:
        """Return the sums with other log ratios of the leading subsets, draws (k, f)."""
        old = self.log_posterior
        new = self.log_posterior + (log_ratio - self.log_ratio)
        scale = max(self.log_scale, float(new.max()))
        shrink = np.exp(self.log_scale - scale)
        old_weight = np.exp(old - scale)
        new_weight = np.exp(new - scale)
        change = new_weight - old_weight
        return replace(
            self,
            log_scale=scale,
            total=shrink * self.total + change.sum(),
            weighted=shrink * self.weighted
            + weighted_sum(new_weight, new)
            - weighted_sum(old_weight, old),
            pairs=shrink * self.pairs + (draws * change[:, None]).T @ draws.astype(float),
            log_posterior=new,
            log_ratio=log_ratio,
        )

    @property
    def log_total(self) -> float:
        return float(self.log_scale + np.log(self.total)) if self.total > 0.0 else -np.inf


@dataclass(frozen=True, eq=False)
class ExactSource:
    """Compute the posterior probability of any subset.

    free (f,) : features of `blocks`; block_log_mass (n_blocks,); log_posterior (n_positions,) : up
    to `log_evidence`, if it was kept
    """

    target: Target
    blocks: SubsetBlocks
    free: Integers
    log_evidence: float
    block_log_mass: Floats
    log_posterior: Floats

    def log_probability(self, masks: Mask) -> Floats:
        return self.target.log_joint(masks) - self.log_evidence

    def sample(self, n: int, rng: Rng) -> Mask:
        blocks = self.blocks
        chosen = drawn(self.block_log_mass, rng, n)
        draws = np.empty((n, blocks.n_features), dtype=bool)
        for block in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == block)
            scored = blocks.scored(block)
            draws[rows] = scored.masks(drawn(scored.log_posterior, rng, len(rows)))
        return self.target.masks(draws, self.free)

    def leading(self, mass: float) -> SubsetTable | None:
        if not self.log_posterior.size:
            return None
        order = np.argsort(-self.log_posterior, kind="stable")
        cumulative = np.cumsum(np.exp(self.log_posterior[order] - self.log_evidence))
        order = order[: np.searchsorted(cumulative, mass) + 1]
        masks = self.target.masks(self.blocks.masks(order), self.free)
        log_probability = self.log_posterior[order] - self.log_evidence
        values = log_probability + self.log_evidence - self.target.prior.log_prob(masks)
        return masks, self.target.log_ratios(masks, values), log_probability
