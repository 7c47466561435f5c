"""Mean-field approximations of the posterior, and the stochastic gradient ascent that fits one.

q_φ(z) = Π_j Bernoulli(z_j | sigmoid(φ_j)) is restricted to the prior's support. Algorithm 2 of the
paper (Wu et al. 2025, arXiv:2506.22675) ascends the ELBO of equation 8 by the U2G gradients of
Algorithm 3 (Yin, Ho, Yan, Qian and Zhou 2020, arXiv:2006.06448)::

    ½ sigmoid(|φ|) (f(z₁) − f(z₂)) (z₁ − z₂),    z₁ = 1[u > sigmoid(−φ)],  z₂ = 1[u < sigmoid(φ)]
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import entr, expit, logsumexp

from .._tools.arrays import Floats, Mask, Rng, subsets_at
from ..kernels.active_set import Scoring
from ..kernels.cholesky import LARGE, subset_work
from ..kernels.mean_field import (
    CompiledScorer,
    Objective,
    Trace,
    ascend,
    draw_pairs,
    make_step,
    score_draws,
)
from ..kernels.row_residuals import PairedMoments
from ..kernels.subset_sums import sizes
from ..models.gaussian import GaussianFromMoments
from ..priors import BoundPrior, UniformPrior
from .base import Report, ScoredSubsets, Target
from .enumeration import DenseBlocks

if TYPE_CHECKING:
    from .variational import Variational

_UNIFORMS_AT_A_TIME = 1 << 18  # so many stay in a processor's cache until they are compared
_LOOK_UP = 16  # up to this many free features all subsets are scored once and looked up
STRETCH = 50  # iterations between two looks at the leaders
# Bytes of second moments that are copied for faster access: beyond what caches hold, and of what
# memory is to spare.
_OUTGROWS_CACHES = 1 << 24
_MOST_COPIED = 1 << 30


@dataclass(frozen=True, eq=False)
class MeanField:
    """q(z) ∝ Π_j σ(logits_j)^z_j (1 − σ(logits_j))^(1−z_j) over subsets of at most max_size of p
    features. logits (p,): ±inf for features that are forced in or out. Everything below is of the
    restricted law."""

    logits: Floats
    max_size: int

    @cached_property
    def _law(self) -> BoundPrior:
        """Return it as a prior, which can sum over subsets of limited size."""
        p = len(self.logits)
        log_odds = np.where(np.isfinite(self.logits), self.logits, 0.0)
        names = tuple(map(str, range(p)))
        by_size = np.where(np.arange(p + 1) <= self.max_size, 0.0, -np.inf)
        forced = self.logits == np.inf, self.logits == -np.inf
        return BoundPrior(names, self.max_size, log_odds, by_size, *forced, name="mean field")

    @cached_property
    def inclusion(self) -> Floats:
        """Return the inclusion probability of each feature, (p,)."""
        return self._law.inclusion_probabilities()

    @cached_property
    def entropy(self) -> float:
        free = self._law.free
        logits = self.logits[free]
        inside = self.inclusion[free]
        surprise = inside * np.logaddexp(0.0, -logits) + (1.0 - inside) * np.logaddexp(0.0, logits)
        return max(0.0, float(surprise.sum()) + self.log_support_mass)

    @cached_property
    def mode(self) -> Mask:
        """Return the most probable subset, (p,).

        It has the features above ½ before the restriction, without the smallest if they are too
        many.
        """
        return self.leading(1)[0]

    @cached_property
    def log_support_mass(self) -> float:
        """log of the probability that a draw from the unrestricted product has at most max_size
        features"""
        law = self._law
        return min(0.0, law.log_normalizer - float(np.logaddexp(0.0, law.log_odds[law.free]).sum()))

    def log_prob(self, masks: Mask) -> Floats:
        """Return log q (S,) of masks (S, p); -inf outside the support."""
        return self._law.log_prob(masks)

    def sample(self, n: int, rng: Rng) -> Mask:
        """Return draws (n, p) like `sample_from`, with uniforms for a few rows at a time."""
        p = len(self.logits)
        chances = expit(self.logits)
        step = max(1, _UNIFORMS_AT_A_TIME // max(p, 1))
        parts = [rng.random((min(step, n - start), p)) < chances for start in range(0, n, step)]
        return self._inside(np.concatenate(parts), rng)

    def sample_from(self, uniforms: Floats, rng: Rng) -> Mask:
        """Return draws (n, p) from the product, by uniforms (n, p).

        Draws that are too large are replaced by draws from the restricted distribution.
        """
        return self._inside(uniforms < expit(self.logits), rng)

    def _inside(self, draws: Mask, rng: Rng) -> Mask:
        too_large = np.flatnonzero(sizes(draws) > self.max_size)
        if len(too_large):
            draws[too_large] = self._law.sample(len(too_large), rng)
        return draws

    def leading(self, n: int) -> Mask:
        """Return the most probable subsets in the support, at most n, most probable first."""
        law = self._law
        order = law.free[np.argsort(-self.logits[law.free], kind="stable")]
        room = self.max_size - int(law.forced_in.sum())
        chosen = list(islice(_largest_sums(self.logits[order], room), n))
        masks = np.tile(law.forced_in, (len(chosen), 1))
        for mask, positions in zip(masks, chosen, strict=True):
            mask[order[list(positions)]] = True
        return masks


def _largest_sums(values: Floats, room: int) -> Iterator[tuple[int, ...]]:
    """All choices of at most `room` positions in descending `values`, from the largest sum down.
    Changes that do not raise the sum reach all: one position more or less while they are the first
    ones, and one position moved to the next."""
    first = min(int((values > 0.0).sum()), room)
    waiting = [(-float(values[:first].sum()), tuple(range(first)))]
    seen = {waiting[0][1]}
    while waiting:
        cost, chosen = heapq.heappop(waiting)
        yield chosen
        size = len(chosen)
        changes = []
        if chosen == tuple(range(size)):
            if 0 < size <= first:
                changes.append((cost + values[size - 1], chosen[:-1]))
            if first <= size < min(room, len(values)):
                changes.append((cost - values[size], (*chosen, size)))
        for i, position in enumerate(chosen):
            moved = (*chosen[:i], position + 1, *chosen[i + 1 :])
            if position + 1 < len(values) and len(set(moved)) == size:
                changes.append((cost + values[position] - values[position + 1], moved))
        for change in changes:
            if change[1] not in seen:
                seen.add(change[1])
                heapq.heappush(waiting, change)


@dataclass(frozen=True, eq=False)
class Mixture:
    """q(z) = Σ_c weights_c · q_c(z), each component restricted to the support, weights above 0"""

    components: tuple[MeanField, ...]
    weights: Floats

    def log_prob(self, masks: Mask) -> Floats:
        """Return the log probability (S,) of masks."""
        terms = (
            np.array([q.log_prob(masks) for q in self.components]) + np.log(self.weights)[:, None]
        )
        return logsumexp(terms, axis=0)

    def sample(self, n: int, rng: Rng) -> Mask:
        """Return draws (n, p)."""
        counts = rng.multinomial(n, self.weights)
        draws = [
            q.sample(int(count), rng)
            for q, count in zip(self.components, counts, strict=True)
            if count
        ]
        return rng.permutation(np.concatenate(draws))


Scorer = (
    Floats | CompiledScorer | ScoredSubsets
)  # a table of all draws, or what computes and remembers their log Λ


@dataclass(frozen=True)
class Cyclical:
    """Up from `base` to `maximum` in `steps_up` iterations and down again in as many (Smith 2017).

    halve : "triangular2": every cycle rises half as high above `base` as the one before; False is
        "triangular".
    """

    base: float = 1.0
    maximum: float = 10.0
    steps_up: int = 500
    halve: bool = False

    def rates(self, n_iterations: int) -> Floats:
        """Return the learning rate of each step, (n_iterations,)."""
        cycle, within = np.divmod(np.arange(n_iterations), 2 * self.steps_up)
        height = 1.0 - np.abs(within / self.steps_up - 1.0)
        return self.base + (self.maximum - self.base) * height * (0.5**cycle if self.halve else 1.0)


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """Hold the draws of a target over its f free features.

    Up to 16 features, tables have all 2**f; beyond they are empty.
    """

    target: Target
    _memories: dict[bool, ScoredSubsets] = field(default_factory=dict, init=False)

    @property
    def max_size(self) -> int:
        return self.target.prior.over_free.max_size

    @cached_property
    def table(self) -> Floats:
        """Return log Λ of all draws; NaN if undecidable. It is not defined for draws that are too
        large."""
        prior = self.target.prior
        if len(prior.free) > _LOOK_UP:
            return np.empty(0)
        walk = self.target.model.subset_walk(prior.free, prior.forced)
        dense = DenseBlocks(walk, UniformPrior(self.max_size).bind(len(prior.free)))
        return np.concatenate([dense.scored(b).log_ratio for b in range(dense.n_blocks)])

    @cached_property
    def table_draws(self) -> Mask:
        return subsets_at(np.arange(len(self.table)), len(self.target.prior.free))

    @cached_property
    def table_log_joint(self) -> Floats:
        """Return log p(z)Λ(z) of all draws; -inf outside the support and if undecidable."""
        value = self.table + self.target.prior.over_free.log_prob(self.table_draws)
        return np.where(np.isnan(value), -np.inf, value)

    def table_outside(self) -> Mask:
        """Return undecidable subsets (m, p)."""
        return self.target.masks(self.table_draws[self._undecidable])

    @cached_property
    def _search_table(self) -> Floats:
        table = self.table.copy()
        table[self._undecidable] = self.target.model.search_ratio_many(self.table_outside())
        return table

    @property
    def _undecidable(self) -> Mask:
        """Draws that are small enough, and undecidable"""
        return np.isnan(self.table) & (self.table_draws.sum(axis=1) <= self.max_size)

    def table_modes(self, most: int = 8, relevant: float = 15.0) -> Mask:
        """Return the subsets (m, p) that single flips do not improve, within `relevant` nats of the
        best.

        The best comes first.
        """
        codes = np.arange(len(self.table))
        value = self.table_log_joint
        flipped = [value[codes ^ (1 << j)] for j in range(self.table_draws.shape[1])]
        best_neighbour = np.max(flipped, axis=0, initial=-np.inf)
        peaks = np.flatnonzero((value >= best_neighbour) & (value > value.max() - relevant))
        leading = peaks[np.argsort(-value[peaks], kind="stable")[:most]]
        return self.target.masks(self.table_draws[leading])

    def scorer(self, memory: int, searching: bool) -> Scorer:
        """Return a scorer that remembers a number of draws, in its own memory if compiled.

        Collinear draws have a value when searching.
        """
        model = self.target.model
        if self.table.size:
            return self._search_table if searching else self.table
        if self._scoring is not None:
            return self._compiled(
                self._scoring, memory, model.search_penalty if searching else np.nan
            )
        score = model.search_ratio_many if searching else model.log_ratio_many
        f = len(self.target.prior.free)
        new = ScoredSubsets(lambda draws: score(self.target.masks(draws)), f, memory)
        return self._memories.setdefault(searching, new)

    @property
    def shares_a_memory(self) -> bool:
        return not self.table.size and self._scoring is None

    @cached_property
    def _scoring(self) -> Scoring | None:
        """Return the scoring of the model.

        Large subsets of many columns get a copy of the second moments, one for all starts.
        """
        model = self.target.model
        scoring = model.scoring()
        if scoring is None or not isinstance(model, GaussianFromMoments) or self.max_size < LARGE:
            return scoring
        moments = model.moments
        if not _OUTGROWS_CACHES <= moments.scatter.nbytes <= _MOST_COPIED:
            return scoring
        side_by_side = np.ascontiguousarray(moments.scatter[:-1].transpose(1, 2, 0))
        return scoring._replace(
            scatter=PairedMoments(side_by_side, np.sqrt(moments.counts)[:, None] * moments.gaps)
        )

    def _compiled(self, scoring: Scoring, memory: int, penalty: float) -> CompiledScorer:
        free = self.target.prior.free
        forced = self.target.prior.forced
        features = np.delete(np.arange(scoring.inverse_scale.shape[1]), scoring.outcome).astype(
            np.int64
        )
        size = 1 << (max(memory, 2) - 1).bit_length()
        room = len(forced) + self.max_size
        members = np.zeros(room, np.int64)
        members[: len(forced)] = features[forced]
        words = np.random.default_rng(0).integers(
            0, 1 << 63, (len(free), 2), dtype=np.uint64, endpoint=True
        )
        remembered = words, np.zeros((size, 2), np.uint64), np.empty(size)
        work = subset_work(len(scoring.weights), room)
        return CompiledScorer(
            scoring, penalty, features[free], *remembered, members, len(forced), work
        )

    def log_ratios(self, draws: Mask, scorer: Scorer) -> Floats:
        """Return log Λ (S,) of draws (S, f).

        NaN for draws that are too large, not finite for others outside the support.
        """
        values = np.full(len(draws), np.nan)
        if isinstance(scorer, ScoredSubsets):
            inside = sizes(draws) <= self.max_size
            values[inside] = scorer.values(draws[inside])
        else:
            score_draws(draws, self.max_size, scorer, values)
        return values


class Iterate(NamedTuple):
    """One that may be the best: promise, its ELBO by a noisy estimate less two standard errors;
    logits (f,)."""

    promise: float
    iteration: int
    logits: Floats


class Climb(NamedTuple):
    """Hold the result of one start before it is evaluated: leading iterates, the last one, traces
    (T,)."""

    leaders: list[Iterate]
    elbo: Floats
    error: Floats
    feasible: Floats


def climb(
    space: FreeSpace,
    logits: Floats,
    rng: Rng,
    settings: Variational,
    report: Report = lambda *_: None,
) -> Climb:
    """Ascend from `logits` (f,)."""
    prior = space.target.prior.over_free
    iterations = settings.iterations
    f = len(logits)
    scorer = space.scorer(settings.memory, searching=True)
    n_rows = float(space.target.model.n_rows)
    objective = Objective(
        prior.log_odds, prior.log_size_weight, prior.max_size, n_rows, settings.infeasible_value
    )
    rates = settings.schedule.rates(iterations)
    elbo, error, feasible = np.empty((3, iterations))
    leaders: list[Iterate] = []
    logits = logits.copy()
    lowest = np.zeros(1)
    inclusion = np.empty(f)
    gradient = np.empty(f)
    draws = np.empty((2 * settings.pairs, f), dtype=bool)
    done = 0
    while done < iterations:
        steps = min(STRETCH, iterations - done)
        part = slice(done, done + steps)
        trace = Trace(elbo[part], error[part], feasible[part], np.empty((steps, f)))
        uniforms = rng.random((steps, settings.pairs, f))
        analytic = rng.random(steps) < settings.kl_analytic_probability
        if isinstance(scorer, ScoredSubsets):
            # As the kernel `ascend`: the same draws and steps, with one question about the draws of
            # an iteration.
            for t in range(steps):
                trace.logits[t] = logits
                draw_pairs(logits, uniforms[t], inclusion, draws)
                trace.elbo[t], trace.error[t], trace.feasible[t] = make_step(
                    logits,
                    inclusion,
                    draws,
                    space.log_ratios(draws, scorer),
                    rates[done + t],
                    analytic[t],
                    objective,
                    lowest,
                    gradient,
                )
        else:
            ascend(logits, uniforms, rates[part], analytic, objective, lowest, scorer, trace)
        q = expit(trace.logits)
        entropy = (entr(q) + entr(1 - q)).sum(axis=1)
        elbo[part] += q @ prior.log_odds - prior.log_normalizer + entropy
        promise = elbo[part] - 2.0 * error[part]
        for t in np.argsort(-promise, kind="stable")[: settings.leading]:
            leaders.append(Iterate(float(promise[t]), done + int(t), trace.logits[t].copy()))
        leaders = sorted(leaders, key=lambda one: (-one.promise, one.iteration))[: settings.leading]
        done += steps
        report(steps, f"ELBO {elbo[done - 1]:.1f}")
    last = Iterate(-np.inf, done - 1, trace.logits[-1].copy())
    return Climb([*leaders, last], elbo, error, feasible)


class Ascent(NamedTuple):
    """Hold the result of one start.

    logits (f,), iteration : of the selected iterate; elbo, elbo_error : by fresh draws, in nats;
    feasible : share of the product's draws inside the support; trace : along the way
    """

    logits: Floats
    iteration: int
    elbo: float
    elbo_error: float
    feasible: float
    trace: Climb


def measured(space: FreeSpace, climbed: Climb, rng: Rng, fresh: int, scorer: Scorer) -> Ascent:
    """Return the leader with the best ELBO on fresh draws, or exactly if all subsets are known."""
    exact = space.table.size > 0
    # The same random numbers for every leader, so that they differ by more than luck.
    common = np.random.default_rng(int(rng.integers(1 << 63)))
    uniforms = np.empty((0, 0)) if exact else common.random((fresh, len(climbed.leaders[0].logits)))
    results = []
    for _, iteration, logits in climbed.leaders:
        q = MeanField(logits, space.max_size)
        draws = space.table_draws if exact else q.sample_from(uniforms, copy.deepcopy(common))
        log_q = q.log_prob(draws)
        weights = np.exp(log_q) if exact else np.full(fresh, 1.0 / fresh)
        values = (
            space.target.prior.over_free.log_prob(draws) + space.log_ratios(draws, scorer) - log_q
        )
        elbo, error, share = _restricted_elbo(values, weights, exact)
        feasible = share * float(np.exp(q.log_support_mass))
        results.append(Ascent(logits, iteration, elbo, error, feasible, climbed))
    return max(results, key=lambda result: (result.elbo, -result.iteration))


def _restricted_elbo(values: Floats, weights: Floats, exact: bool) -> tuple[float, float, float]:
    """Return the ELBO of q restricted to subsets that can be scored, its standard error, and their
    share.

    It is a bound on the log evidence. values (S,) : log p(z)Λ(z) − log q(z), not finite if
    undecidable; weights (S,) : of each draw, summing to 1.
    """
    inside = np.isfinite(values) & (weights > 0.0)
    share = min(float(weights[inside].sum()), 1.0)
    if share == 0.0:
        return -np.inf, 0.0, 0.0
    normal = weights[inside] / weights[inside].sum()
    mean = float(normal @ values[inside])
    variance = float(normal @ (values[inside] - mean) ** 2)
    # The log of the share varies too, by 1/n_inside − 1/n.
    n = len(values)
    n_inside = int(inside.sum())
    error = 0.0 if exact else float(np.sqrt((variance + (1.0 - n_inside / n)) / n_inside))
    return mean + float(np.log(share)), error, share
