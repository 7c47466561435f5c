"""Ladders of chains, one at each temperature, and the compiled ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..._tools.arrays import Floats, Mask
from ...exceptions import EngineError
from ...kernels.active_set import Scoring, active_set
from ...kernels.moves import Best, BlockRule, Effort, SubsetPrior, log_ratio_of, sweeps
from ...kernels.row_residuals import GramRows, gram_rows, without_values
from ...models.base import scoring_of
from ..base import Target

_SEARCH = Effort(exchanges=1, flips=2, blocks=1, jumps=0, searching=True)
_SAMPLE = Effort(exchanges=1, flips=1, blocks=2, jumps=1, searching=False)
_MOST_FACTOR_BYTES = 4e9
# A conditional over a whole block says this much more about a feature than one over the feature alone.
_BLOCK_WEIGHT = 10.0
# A search scores from the rows what second moments cannot decide only at its last temperatures: hot chains meet much of
# that, and little of it matters.
_BY_ROWS = 3


class Space(ABC):
    """Where chains move: a subset is a row of d flags, one for each column of a compiled scorer, or one for each free
    feature where scores come from a memory.

    start (d,): the subset of forced features; free (d,): columns that may change; block_sizes: columns of a block by
    default, and at most
    """

    start: Mask
    start_log_ratio: float
    free: Mask
    block_sizes: tuple[int, int]
    n_rows: int

    @abstractmethod
    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        """(n,) log p(z)Λ(z), unnormalised by the evidence, of rows of `included` (n, d)"""

    @abstractmethod
    def masks(self, included: Mask) -> Mask:
        """(n, p) the features of rows of `included` (n, d)"""

    @abstractmethod
    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        """(p,) values (d,) of the columns by feature; features that no column stands for have of_forced, or 0"""

    @property
    def n_columns(self) -> int:
        return self.start.size

    @property
    def n_free(self) -> int:
        return int(self.free.sum())


@dataclass(frozen=True, eq=False)
class Proposals:
    """What the moves draw from: fixed while samples are kept.

    betas (t,): inverse temperatures, ascending to 1; rules: two recipes for blocks;
    differences (n, d): between pairs of known modes.
    """

    betas: Floats
    rules: tuple[BlockRule, BlockRule]
    differences: Mask


@dataclass(frozen=True, eq=False)
class Round:
    """n sweeps of one replica.

    draws (n, ⌈d/8⌉): packed subsets of the coldest chain; trace (n, t): log Λ of all chains, the coldest last;
    inclusion (d,): Rao-Blackwellised mean; interest (d,): the same averaged over all temperatures;
    rejected (t-1,): mean probability of refusing a swap.
    """

    draws: NDArray[np.uint8]
    trace: Floats
    inclusion: Floats
    interest: Floats
    rejected: Floats


class Ladder:
    """The chains of one replica. included (t, d), log_ratios (t,): the present subset of each; best: met so far."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.rng = rng
        self.best = nothing_yet(space)
        self.place(space.start[None], np.array([space.start_log_ratio]))

    def place(self, included: Mask, log_ratios: Floats) -> None:
        self.included, self.log_ratios = included.copy(), log_ratios.copy()


def nothing_yet(space: Space) -> Best:
    return Best(space.start.copy(), np.array([-np.inf]))


def keep_better(record: Best, included: Mask, log_posterior: float) -> None:
    if log_posterior > record.log_posterior[0]:
        record.included[:] = included
        record.log_posterior[0] = log_posterior


class CompiledTarget(Space):
    """The target over d columns (features and outcome), as the kernels want it.

    features (p,): columns of the features; capacity: largest subset
    on_demand: whether second moments are computed when asked for: they have one cache, which threads cannot share
    """

    def __init__(self, target: Target, scoring: Scoring) -> None:
        prior, d = target.prior, scoring.inverse_scale.shape[1]
        self.scoring = scoring
        self.on_demand = isinstance(scoring.scatter, GramRows)
        self.features = np.delete(np.arange(d), scoring.outcome)
        self.n_rows = target.model.n_rows
        self.block_sizes = 12 if len(scoring.weights) <= 21 else 10, 20
        log_odds, self.free, self.start = np.zeros(d), np.zeros(d, bool), np.zeros(d, bool)
        log_odds[self.features] = prior.log_odds
        self.free[self.features[prior.free]] = True
        self.start[self.features[prior.forced_in]] = True
        self.prior = SubsetPrior(log_odds, np.array(prior.log_size_weight), self.free, -prior.log_normalizer)
        self.start_log_ratio = float(log_ratio_of(scoring, self.start))
        if np.isnan(self.start_log_ratio):
            raise target.nothing_scored()
        self.capacity = max(1, min(prior.max_size, int(self.free.sum() + self.start.sum())))
        size = 8.0 * self.capacity * d * len(scoring.weights)
        if size > _MOST_FACTOR_BYTES:
            raise EngineError(
                f"following subsets of up to {self.capacity:,} of {d - 1:,} features takes {size / 1e9:.1f} GB for "
                "each chain. Set a smaller max_size, such as 200."
            )

    @classmethod
    def of(cls, target: Target) -> Self | None:
        """None where the model has no compiled scorer."""
        scoring = scoring_of(target.model)
        return None if scoring is None else cls(target, scoring)

    def search_prior(self, beta: float, thrift: float, free: Mask | None) -> SubsetPrior:
        """The prior to the power beta, less exp(thrift) for each member while beta is small, over the `free` alone."""
        prior = self.prior
        by_size = beta * prior.by_size - (1.0 - beta) * thrift * np.arange(prior.by_size.size)
        allowed = prior.free if free is None else prior.free & free
        return prior._replace(log_odds=beta * prior.log_odds, by_size=by_size, free=allowed)

    def masks(self, included: Mask) -> Mask:
        return included[:, self.features]

    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        return values[self.features]

    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        sizes = included.sum(axis=1)
        return included @ self.prior.log_odds + self.prior.by_size[sizes] + self.prior.constant + log_ratios

    def value_of(self, included: Mask, scoring: Scoring | None = None) -> float:
        """log p(z)Λ(z) of one subset (d,); -inf where it is undecidable."""
        log_ratio = log_ratio_of(self.scoring if scoring is None else scoring, included)
        return -np.inf if np.isnan(log_ratio) else float(self.log_posterior(included[None], np.array([log_ratio]))[0])


def block_rules(space: Space, interest: Floats, block_size: int, doubt: Floats) -> tuple[BlockRule, BlockRule]:
    """Two recipes: mostly members of the subset, or whatever is open, member or not.

    interest (d,): how often each column was worth including, at any temperature; doubt (d,): how undecided each is at
    the coldest. Part of every chance is equal for all, so that every column keeps its turn. When all free columns fit
    into one block, the second recipe takes them all: then every such move is an exact draw from π_β.
    """
    free = space.free
    even = free / max(space.n_free, 1)

    def share(values: Floats) -> Floats:
        weights = np.where(free, values, 0.0)
        return weights / weights.sum() if weights.sum() > 0 else even

    following = np.minimum(0.9, 0.25 * block_size * (0.5 * even + 0.5 * share(interest)))
    open_ones = 0.2 * even + 0.3 * share(interest) + 0.5 * share(doubt)
    fixed = free.astype(float) if space.n_free <= block_size else _filled(open_ones, 0.75 * block_size)
    return (
        BlockRule(following, 0.55 * block_size, block_size, True),
        BlockRule(fixed, 0.3 * block_size, block_size, False),
    )


def _filled(shares: Floats, expected: float) -> Floats:
    """Chances in proportion to shares (d,), none above 0.9, that sum to `expected`."""
    low, high = expected, 1e6 * expected
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if np.minimum(0.9, middle * shares).sum() < expected else (low, middle)
    return np.minimum(0.9, low * shares)


def with_own_cache(scoring: Scoring) -> Scoring:
    """The same, except that second moments on demand get a cache that no other thread writes to."""
    gram = scoring.scatter
    if not isinstance(gram, GramRows):
        return scoring
    return scoring._replace(scatter=gram_rows(gram.centred, gram.bounds, gram.gaps, len(gram.cache)))


class Replica(Ladder):
    """A compiled ladder. found: the best subset of the latest search."""

    def __init__(self, target: CompiledTarget, rng: np.random.Generator) -> None:
        super().__init__(target, rng)
        self.target = target
        self._scoring = with_own_cache(target.scoring)
        self.found = nothing_yet(target)
        self._work = active_set(len(target.scoring.weights), target.n_columns, target.capacity + 1)

    def search(self, proposals: Proposals, n: int, thrift: float = 0.0, free: Mask | None = None) -> Round:
        """Anneal a single chain from the hottest to the coldest temperature, n sweeps at each, from the start.

        The prior is tempered too: one that favours small subsets would keep the hot chains from larger ones. `thrift`
        favours small ones while it is hot, where crowded subsets would hide the way. With `free` (d,) only those
        columns enter. Leaves in every chain of the ladder the subset with which its temperature ended.
        """
        self.place(self.target.start[None], np.array([self.target.start_log_ratio]))
        self.found = nothing_yet(self.target)
        visited, values, interest = [], [], np.zeros(self.target.n_columns)
        hot = self._scoring._replace(rows=without_values(self._scoring.rows))
        for i, beta in enumerate(proposals.betas):
            stage = Proposals(np.array([beta]), proposals.rules, proposals.differences)
            best = nothing_yet(self.target)
            scoring = self._scoring if i >= len(proposals.betas) - _BY_ROWS else hot
            result = self.advance(stage, n, _SEARCH, self.target.search_prior(beta, thrift, free), best, scoring)
            value = self.target.value_of(best.included, self._scoring)
            for record in (self.best, self.found):
                keep_better(record, best.included, value)
            visited.append(self.included[0].copy())
            values.append(self.log_ratios[0])
            interest += result.interest / len(proposals.betas)
        self.included, self.log_ratios = np.array(visited), np.array(values)
        return Round(result.draws, result.trace, result.inclusion, interest, result.rejected)

    def advance(
        self,
        proposals: Proposals,
        n: int,
        effort: Effort = _SAMPLE,
        prior: SubsetPrior | None = None,
        best: Best | None = None,
        scoring: Scoring | None = None,
    ) -> Round:
        t, d = len(proposals.betas), self.target.n_columns
        sums, rejected = np.zeros((t, 3, d)), np.zeros(t - 1)
        draws, trace = np.empty((n, d), bool), np.empty((n, t))
        sweeps(
            self._scoring if scoring is None else scoring,
            self.target.prior if prior is None else prior,
            proposals.rules,
            proposals.differences,
            effort,
            proposals.betas,
            self.included,
            self.log_ratios,
            self._work,
            sums,
            rejected,
            self.best if best is None else best,
            draws,
            trace,
            self.rng,
        )
        n_flips = n * (effort.flips + 1)
        flips, blocks, n_blocks = sums[-1]
        inclusion = (flips + _BLOCK_WEIGHT * blocks) / (n_flips + _BLOCK_WEIGHT * n_blocks)
        interest = sums[:, 0].mean(axis=0) / n_flips
        return Round(np.packbits(draws, axis=1), trace, inclusion, interest, rejected / n)
