"""The predictive posterior: model averaging over subsets whose invariance is not rejected.

With the p-value p_inv(z) of approximate invariance and N rows of p features::

    p₂(z | D) ∝ p(z) · exp(−½ cost(z)) · [p_inv(z) ≥ level]
    cost(z) = −2 · (log likelihood of the pooled fit of z − of the empty subset)
              + columns of z · max(log N + 2 log p, share · 2 · largest gain of a compatible subset)

The penalty log N of a column is that of the Bayesian information criterion (Schwarz 1978,
doi:10.1214/aos/1176344136), and 2 log p accounts for the search among p features.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Fields, Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.time_limit import out_of_time
from ..data.features import as_masks
from ..inference.base import Engine, RunOptions, ScoredSubsets, Target, common_fields
from ..inference.enumeration import Enumeration, EnumerationPass, Picked, target_blocks
from ..inference.replicas import CompiledSampler
from ..kernels.active_set import active_set, flip_log_shares
from ..models.base import BoundModel, FlipGuess, GuessesFlips
from ..models.gaussian_fits import group_weights
from ..models.invariance_test import Tolerance, deviance_moments
from ..posterior.posterior import Judge, Posterior, SubsetTable
from ..priors import BoundPrior

# What a column has to explain of what can be explained, in deviance, to be worth a risk, however
# many rows there are.
SHARE = 0.004


@dataclass(frozen=True, eq=False)
class PredictiveScore:
    """Score how well subsets predict, −inf if they are not compatible with invariance."""

    model: BoundModel
    tolerance: Tolerance
    price: float  # of a column

    @classmethod
    def with_price(
        cls, model: BoundModel, tolerance: Tolerance, gain: float = 0.0
    ) -> PredictiveScore:
        """gain: the largest of a compatible subset, 0 where none is known"""
        least = np.log(model.n_informative) + 2.0 * np.log(model.n_features)
        return cls(model, tolerance, float(max(least, SHARE * 2.0 * gain)))

    @property
    def n_features(self) -> int:
        return self.model.n_features

    def weigh(self, gain: Floats, columns: Floats | Integers) -> Floats:
        """Return −½ cost (S,) from the gain (S,) of pooled fits and their columns (S,)."""
        return gain - 0.5 * self.price * columns

    def log_weights(self, masks: ArrayLike) -> Floats:
        """Return −½ cost (S,), also of subsets that are not compatible."""
        chosen = as_masks(masks, self.n_features)
        return self.weigh(self.model.gain_many(chosen), chosen @ self.model.free_columns)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = np.full(len(chosen), -np.inf)
        compatible = self.model.compatible(chosen, self.tolerance)
        values[compatible] = self.log_weights(chosen[compatible])
        return values


@dataclass(frozen=True, eq=False)
class FoundSource:
    """Answers relative to the compatible subsets that were found: masks (m, p), most probable
    first; log_probabilities (m,)."""

    prior: BoundPrior
    score: PredictiveScore
    log_evidence: float
    masks: Mask
    log_probabilities: Floats

    def log_probability(self, masks: Mask) -> Floats:
        log_joint = self.score.log_ratio_many(masks) + self.prior.log_prob(masks)
        return np.minimum(log_joint - self.log_evidence, 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        weights = np.exp(self.log_probabilities)
        return self.masks[rng.choice(len(weights), size=n, p=weights / weights.sum())]

    def leading(self, mass: float) -> SubsetTable:
        needed = int(np.searchsorted(np.cumsum(np.exp(self.log_probabilities)), mass)) + 1
        masks = self.masks[:needed]
        return masks, self.score.model.log_ratio_many(masks), self.log_probabilities[:needed]


def predictive_posterior(
    target: Target,
    engine: Engine,
    options: RunOptions,
    known: Mask | None = None,
    candidates: Candidates | None = None,
) -> Posterior | None:
    """Over the subsets that reach the target's level or, where none does, its weak level; None
    where none does.

    Exact where the engine is. Other engines estimate how often a chain is where, which the gate
    would stop at once: there a search takes their place. known (k, p): subsets that are worth a
    look; candidates: collected by the engine
    """
    if isinstance(engine, Enumeration) and candidates is None:
        candidates = Candidates(target).walked(options)
    cheap = search_seconds(target) <= 1.0
    visited = list[Mask]()
    for accepted in dict.fromkeys((target.tolerance, target.tolerance.weak)):
        if isinstance(engine, Enumeration):
            assert candidates is not None
            found = candidates.posterior(accepted, engine.keep, options)
        else:
            score = PredictiveScore.with_price(target.model.untilted, accepted)
            # No search depends on the level: a long one is not repeated for the weak one.
            visited = [] if cheap else visited
            found = _searched(target, score, options, known, visited)
        if found is not None:
            return found
    return None


# Pairs of features are counted where these are at most so many, so many subsets at a time.
_MOST_PAIRED = 1000
_PAIRED_AT_ONCE = 1 << 16


def _posterior(
    target: Target,
    score: PredictiveScore,
    masks: Mask,
    log_joint: Floats,
    log_ratios: Floats,
    **about: Any,
) -> Posterior:
    """Over the compatible subsets masks (m, p) with their log p(z)·exp(−½ cost) (m,), most probable
    first; of the first of them, which are listed, log_ratios (k,)."""
    keep = len(log_ratios)
    log_evidence = float(np.logaddexp.reduce(log_joint))
    log_probabilities = log_joint - log_evidence
    weights = np.exp(log_probabilities)
    pairwise = None
    if target.n_features <= _MOST_PAIRED:
        pairwise = np.zeros((target.n_features, target.n_features))
        for start in range(0, len(masks), _PAIRED_AT_ONCE):
            part = masks[start : start + _PAIRED_AT_ONCE].astype(float)
            pairwise += (part * weights[start : start + _PAIRED_AT_ONCE, None]).T @ part
    return Posterior(
        **common_fields(target) | {"judge": Judge(score.model, score.tolerance)} | about,
        inclusion=weights @ masks if pairwise is None else np.diagonal(pairwise),
        pairwise=pairwise,
        masks=masks[:keep],
        log_ratios=log_ratios,
        log_probabilities=log_probabilities[:keep],
        kind="predictive",
        log_evidence=log_evidence,
        entropy=max(0.0, -float(weights @ log_probabilities)),
        source=FoundSource(target.prior, score, log_evidence, masks, log_probabilities),
    )


# ---------------------------------------------------------------- all subsets

# Share of the probability that subsets may have which are left undecided.
UNDECIDED = 1e-7
# Candidates that are decided together; that wait until the light ones are dropped, and that are
# kept then.
_FEWEST_AT_ONCE = 1 << 5
_MOST_AT_ONCE = 1 << 10
_MOST_WAITING = 1 << 16
_MOST_KEPT = 1 << 20
# So many that to begin with a good one is worth it.
_MANY = 1 << 12
# Features whose subsets are looked through for that one.
_MOST_NEEDED = 8
# More than any pooled fit gains.
_HUGE_GAIN = 1e9


class Candidates:
    """The subsets that may be compatible and may weigh something beside those that are; an
    enumeration collects them.

    least (c + 1,): smallest gain of such, by columns of the pooled fit. The price of a column,
    which depends on the largest gain of a compatible subset, is one of two prices or between them.
    """

    def __init__(self, target: Target, most_kept: int | None = None) -> None:
        model = target.model.untilted
        prior = target.prior
        self.target = target
        self.tolerance = target.tolerance.weak
        self._accepted = target.tolerance
        self._most_kept = most_kept or _MOST_KEPT
        everything = float(model.gain_many(~prior.forced_out[None])[0])
        gains = 0.0, everything if everything > -np.inf else _HUGE_GAIN
        self._prices = sorted(
            {PredictiveScore.with_price(model, self.tolerance, gain).price for gain in gains}
        )
        self._free = prior.free[model.walk_order(prior.free)]
        self._window = np.log(float(prior.support_size())) - np.log(UNDECIDED / 8.0)
        self._most_prior = _largest_log_prior(
            prior.over(self._free), model.free_columns, self._free, prior.forced
        )
        self.least = np.full(len(self._most_prior), -np.inf)
        self._parts: list[Picked] = []
        self._n_waiting = 0
        self._known = np.empty(0, np.int8)
        self._sifted = False
        self._heaviest_dropped = -np.inf
        if prior.support_size() > _MANY:
            self._begin(everything)

    def _begin(self, everything: float) -> None:
        """Drop beforehand what weighs nothing beside the best compatible subset of the features
        that the pooled fit of all should not lack, the most needed of them; everything: its gain,
        or -inf: of those that gain most alone"""
        model = self.target.model.untilted
        prior = self.target.prior
        if everything > -np.inf:
            others = ~prior.forced_out & ~np.eye(model.n_features, dtype=bool)[prior.free]
            need = everything - model.gain_many(others)
        else:
            need = model.gain_many(
                prior.forced_in | np.eye(model.n_features, dtype=bool)[prior.free]
            )
        need = need - 0.5 * self._prices[0] * model.free_columns[prior.free]
        needed = np.argsort(-need, kind="stable")[: min((need > 0.0).sum(), _MOST_NEEDED)]
        masks = np.repeat(prior.forced_in[None], 1 << len(needed), axis=0)
        masks[:, prior.free[needed]] = np.arange(len(masks))[:, None] >> np.arange(len(needed)) & 1
        log_prior = prior.log_prob(masks)
        gain = model.gain_many(masks)
        known = (log_prior > -np.inf) & (gain > -np.inf)
        if known.any():
            figures = (
                gain[known],
                masks[known] @ model.free_columns,
                log_prior[known],
                np.zeros(known.sum()),
            )
            self._parts = [Picked(*figures, masks[known][:, self._free])]
            self._sift()
            self._parts, self._known, self._sifted = (
                [],
                self._known[:0],
                bool((self.least > -np.inf).any()),
            )

    def walked(self, options: RunOptions) -> Candidates:
        """After a pass over all subsets"""
        blocks = target_blocks(
            replace(self.target, model=self.target.model.untilted), self.tolerance
        )
        run = EnumerationPass.over(blocks, 0, self.least)
        for _ in blocks.parts(run, options, self, "scoring compatible subsets"):
            pass
        return self

    def add(self, part: Picked) -> None:
        # `least` may have grown since the block was scored: so what is added does not depend on
        # threads.
        self._parts.append(
            part.of((part.gain >= self.least[part.columns]) & (part.log_prior > -np.inf))
        )
        self._n_waiting += len(self._parts[-1].gain)
        if self._n_waiting > _MOST_WAITING:
            self._sift()

    def _sift(self) -> None:
        """Look for compatible subsets among the heaviest, and drop what weighs nothing beside
        them."""
        found = self._taken()
        weights = np.array([found.weights(price) for price in self._prices])
        halves = 0.5 * np.array(self._prices)[:, None]
        columns = np.arange(len(self.least))
        dropped = np.zeros(len(found.gain), bool)
        bound = np.full(len(columns), -np.inf)
        largest = np.inf
        # Weights are linear in the price: what one compatible subset exceeds at both prices, it
        # exceeds between them.
        for best in {self._first(each) for each in weights}:
            if best is None:
                continue
            lightest = weights[:, best, None] - self._window
            dropped |= (weights < lightest).all(axis=0)
            bound = np.maximum(bound, (lightest + halves * columns - self._most_prior).min(axis=0))
        if len(self._prices) > 1:
            best = self._first(found.gain)
            largest = -np.inf if best is None else found.gain[best]
        kept = ~dropped | (found.gain >= largest)
        bound = np.minimum(bound, largest)
        np.maximum(self.least, bound, out=self.least)
        if kept.sum() > self._most_kept:
            heaviest = np.where(kept, weights[0], -np.inf)
            order = np.argsort(-heaviest, kind="stable")
            self._heaviest_dropped = max(
                self._heaviest_dropped, float(heaviest[order[self._most_kept]])
            )
            kept[order[self._most_kept :]] = False
        self._parts, self._known, self._sifted = [found.of(kept)], self._known[kept], True

    def _taken(self) -> Picked:
        """All candidates, as one part"""
        found = Picked.joined(self._parts)
        self._parts = [found]
        self._n_waiting = 0
        self._known = np.append(
            self._known, np.full(len(found.gain) - len(self._known), -1, np.int8)
        )
        return found

    def masks(self, rows: Integers) -> Mask:
        """Return the subsets (m, p) of m candidates, after they became one part."""
        return self.target.masks(self._parts[0].draws[rows], self._free)

    def _first(self, values: Floats) -> int | None:
        """The compatible candidate with the largest of values (n,), None where there is none"""
        order = np.argsort(-values, kind="stable")
        start = 0
        size = _FEWEST_AT_ONCE
        while start < len(order):
            found = self._compatible(order[start : start + size])
            if len(found):
                return int(found[0])
            start = start + size
            size = min(2 * size, _MOST_AT_ONCE)
        return None

    def _compatible(self, rows: Integers) -> Integers:
        """Those of some candidates that are compatible"""
        asked = rows[self._known[rows] < 0]
        if len(asked):
            self._known[asked] = self.target.model.untilted.compatible(
                self.masks(asked), self._accepted
            )
        return rows[self._known[rows] == 1]

    def _heaviest(self, weights: Floats) -> Integers:
        """The compatible candidates, by weights (n,), but for such as weigh nothing beside the
        others"""
        found = [np.empty(0, np.intp)]
        mass = -np.inf
        start = 0
        order = np.argsort(-weights, kind="stable")
        # Of a candidate and all that follow it
        left = np.logaddexp.accumulate(np.append(-np.inf, weights[order[::-1]]))[::-1]
        while start < len(order):
            # These need a decision even if all before them are compatible.
            most = np.logaddexp.accumulate(
                np.append(mass, weights[order[start : start + _MOST_AT_ONCE]])
            )
            needed = int((left[start : start + len(most)] >= most + np.log(UNDECIDED / 2.0)).sum())
            if not needed:
                break
            end = start + max(needed, _FEWEST_AT_ONCE)
            found.append(self._compatible(order[start:end]))
            mass = float(np.logaddexp.reduce(weights[found[-1]], initial=mass))
            start = end
        return np.concatenate(found)

    def posterior(self, accepted: Tolerance, keep: int, options: RunOptions) -> Posterior | None:
        """Over the subsets that are compatible at the accepted level, of which `keep` are listed;
        None where none is"""
        started = time.perf_counter()
        candidates = self._taken()
        model = self.target.model.untilted
        if accepted != self._accepted:
            self._accepted = accepted
            self._known[:] = -1
        gain = None if len(self._prices) == 1 else self._first(candidates.gain)
        score = PredictiveScore.with_price(
            model, accepted, 0.0 if gain is None else float(candidates.gain[gain])
        )
        weights = candidates.weights(score.price)
        found = self._heaviest(weights)
        heaviest = weights[found[0]] - self._window if len(found) else -np.inf
        if self._heaviest_dropped > heaviest:
            return (
                Candidates(self.target, 8 * self._most_kept)
                .walked(options)
                .posterior(accepted, keep, options)
            )
        if not len(found):
            return None
        masks = self.masks(found)
        seconds = time.perf_counter() - started
        counted = not self._sifted and bool((self._known >= 0).all())
        diagnostics = {
            "seconds": seconds,
            "subsets_compatible": len(found),
            "compatible_counted": counted,
        }
        log_joint = weights[found]
        log_ratios = candidates.log_ratio[found]
        if model.walk_error or model is not self.target.model:  # fewer digits, or a reward
            log_joint = score.log_weights(masks) + self.target.prior.log_prob(masks)
            order = np.argsort(-log_joint, kind="stable")
            masks = masks[order]
            log_joint = log_joint[order]
            log_ratios = model.log_ratio_many(masks[:keep])
        about: Fields = {"engine": "exact enumeration", "diagnostics": diagnostics}
        return _posterior(self.target, score, masks, log_joint, log_ratios[:keep], **about)


def _largest_log_prior(
    prior: BoundPrior, columns: Integers, free: Integers, forced: Integers
) -> Floats:
    """Return an upper bound (c + 1,) of the log prior of any subset with each number of columns.

    prior : over the free features
    """
    odds = np.sort(prior.log_odds)[::-1]
    weights = prior.log_size_weight
    n_forced = int(columns[forced].sum())
    if (columns[free] == 1).all():
        by_size = weights + np.concatenate([[0.0], np.cumsum(odds)])
        return np.concatenate([np.full(n_forced, -np.inf), by_size]) - prior.log_normalizer
    most = weights.max() + odds[odds > 0.0].sum()
    return np.full(int(columns[free].sum()) + n_forced + 1, most - prior.log_normalizer)


# ---------------------------------------------------------------- a search


@dataclass(frozen=True)
class SoftGate:
    """score: prices and tolerance; width: standard deviations of the deviance allowed above its
    mean, where environments differ by as much as is tolerated; kappa: what a unit of deviance
    beyond costs, nothing at an open gate."""

    score: PredictiveScore
    width: float
    kappa: float

    def values(self, flips: FlipGuess, columns: Floats | Integers) -> Floats:
        """Return −½ cost (S,) minus a penalty on deviance beyond the allowed one; -inf if not
        known."""
        known = flips.variance > 0.0
        mean = np.where(known, -2.0 * np.where(known, flips.expected, 0.0), 0.0)
        variance = 4.0 * flips.variance
        model = self.score.model
        tolerance = self.score.tolerance
        gain = np.where(flips.gain > -np.inf, flips.gain, 0.0)
        excess = tolerance.noncentrality(model.signal_of(gain), model.n_informative)
        excess = excess + model.n_rows * tolerance.tau**2 / 2.0
        allowed = mean + excess + self.width * np.sqrt(variance + 4.0 * excess)
        with np.errstate(invalid="ignore"):
            paid = 0.5 * self.kappa * np.maximum(-2.0 * flips.log_ratio - allowed, 0.0)
            values = self.score.weigh(flips.gain, columns) - paid
        return np.where(np.isnan(values), -np.inf, values)


# (p,) soft value of a subset (p,) with each feature flipped; -inf outside the support
Neighbours = Callable[[Mask], Floats]


class CompiledNeighbours:
    """Score the neighbours of a subset from one factorisation in each group."""

    def __init__(self, target: CompiledSampler, model: BoundModel, gate: SoftGate) -> None:
        counts = model.observed.counts
        self._gate = gate
        self._features = target.features
        self._counts = np.append(counts, counts.sum()).astype(float)
        self._extra = np.append(np.zeros(len(counts), np.int64), model.extra_intercepts)
        self._scoring = target.scoring
        n_groups, d = self._scoring.inverse_scale.shape
        self._state = active_set(n_groups, d, target.capacity + 1)
        self._logs = np.empty((n_groups, d))
        self._weights = group_weights(self._counts)
        self._offset = float(model.log_ratio_many(np.zeros((1, model.n_features), bool))[0])
        varies = (self._scoring.inverse_scale[:, self._features] > 0.0).T
        self._patterns, self._pattern = np.unique(varies, axis=0, return_inverse=True)
        self._laws: dict[bytes, tuple[Floats, Floats]] = {}

    def __call__(self, mask: Mask) -> Floats:
        included = np.zeros(self._logs.shape[1], dtype=bool)
        included[self._features] = mask
        if not flip_log_shares(self._scoring, self._state, included, self._logs):
            return np.full(len(mask), -np.inf)
        logs = self._logs[:, self._features]
        size = self._state.size
        kind = np.where(mask, self._pattern + len(self._patterns), self._pattern)
        law = (values[kind] for values in self._law(size))
        flips = FlipGuess(
            self._offset + self._weights @ logs, -0.5 * self._counts[-1] * logs[-1], *law
        )
        return self._gate.values(flips, size[-1] + np.where(mask, -1.0, 1.0))

    def _law(self, size: Integers) -> tuple[Floats, Floats]:
        """Mean and variance of log Λ after a feature of each pattern was added, and after it was
        removed."""
        key = size.tobytes()
        if key not in self._laws:
            ranks = np.vstack([size + self._patterns, size - self._patterns]) + self._extra
            mean, variance = deviance_moments(self._counts, ranks)
            unknown = (self._counts - 1.0 - ranks <= 0.0).any(axis=1)
            self._laws[key] = -0.5 * mean, np.where(unknown, np.nan, 0.25 * variance)
        return self._laws[key]


def plain_neighbours(model: BoundModel, gate: SoftGate) -> Neighbours:
    """Return neighbours that score each subset once by any model."""

    def values(masks: Mask) -> Floats:
        gain = model.gain_many(masks)
        null = model.null_many(masks)
        flips = FlipGuess(model.log_ratio_many(masks), gain, null.expected, null.variance)
        return gate.values(flips, masks @ model.free_columns)

    memory = ScoredSubsets(values, model.n_features)
    flips = np.eye(model.n_features, dtype=bool)
    return lambda mask: memory.values(mask ^ flips)


def neighbours_of(target: Target, gate: SoftGate) -> Neighbours:
    """Compiled, or as the model guesses them from a fit of the subset itself, or by asking about
    each."""
    model = target.model
    scoring = target.model.scoring()
    if scoring is not None:
        return CompiledNeighbours(CompiledSampler(target, scoring, 0, RunOptions()), model, gate)
    if not isinstance(model, GuessesFlips):
        return plain_neighbours(model, gate)
    guessed = model.guessed_flips
    widths = model.free_columns

    def values(mask: Mask) -> Floats:
        flips = FlipGuess(*(values[0] for values in guessed(mask)))
        return gate.values(flips, int(mask @ widths) + np.where(mask, -widths, widths))

    return values


# A gate that costs little lets a search see where it is going, one that costs much keeps it where
# it may be.
_KAPPAS = (5.0, 20.0, 80.0)
_WIDTHS = (0.0, 2.0)
_STEPS = 300
_FEWEST_STEPS = 20
_SEARCHING = "search for compatible subsets"  # as a limit on the time lists it
# Features of a subset in which a search is at most, typically.
_TYPICAL_SIZE = 25
_MULTIPLICATIONS_A_SECOND = 1e9
# At its hottest a search gives this many nats for the whole way from the start to where the slope
# leads at first.
_HOTTEST = 5.0
# Subsets that are this many nats less probable than the best do not matter.
_RELEVANT = 20.0
# How many of the known subsets are tested, how many subsets around those that passed, and around
# how many at a time.
_MOST_KNOWN = 256
_MOST_AROUND = 2048
_AT_A_TIME = 16
_MOST_LISTED = 4096


def search_seconds(target: Target) -> float:
    """Return about how many seconds a search for compatible subsets takes at most, by
    operations."""
    size = min(_TYPICAL_SIZE, target.prior.max_size, target.model.largest_size)
    return (
        2
        * _STEPS
        * len(_KAPPAS)
        * len(_WIDTHS)
        * target.model.flip_steps(size)
        / _MULTIPLICATIONS_A_SECOND
    )


def _searched(
    target: Target,
    score: PredictiveScore,
    options: RunOptions,
    known: Mask | None,
    visited: list[Mask],
) -> Posterior | None:
    """None where no compatible subset was found. visited : by each search; filled by searching
    where it is empty"""
    started = time.perf_counter()
    of_model = Target(score.model, target.prior)
    gates = [SoftGate(score, width, kappa) for kappa, width in product(_KAPPAS, _WIDTHS)]
    runs = list(zip(gates, options.rng.spawn(len(gates)), strict=True))

    def work(run: tuple[SoftGate, np.random.Generator]) -> Mask:
        gate, rng = run
        return annealed(target, neighbours_of(of_model, gate), rng, _STEPS)

    examined = Examined(target.prior, score)
    with ProgressBar("searching compatible subsets", len(runs) + 1, options.progress) as bar:
        for masks in ordered_map(work, [] if visited else runs, options.n_jobs):
            visited.append(masks)
            bar.advance()
        examined.add(
            np.concatenate(
                [*visited, target.start[None]] + ([] if known is None else [known[:_MOST_KNOWN]])
            )
        )
        n_visited = len(examined.masks)
        examined.price_again()
        complete = examined.add_around(neighbours_of(of_model, SoftGate(examined.score, 0.0, 0.0)))
        examined.price_again()
        bar.advance()
    compatible = examined.log_joint > -np.inf
    if not compatible.any():
        return None
    best = examined.masks[np.argmax(examined.log_joint)]
    n_compatible = int(compatible.sum())
    n_found = sum(bool((run == best).all(axis=1).any()) for run in visited)
    around = (
        "all that matter around those that passed"
        if complete
        else "the best around those that passed"
    )
    notes = [
        f"probabilities are over the {n_compatible:,} compatible subsets that were found, of "
        f"{len(examined.masks):,} "
        f"tested: {n_visited:,} that were visited, and {around}."
    ]
    if n_found < 2:
        notes.append(
            f"{n_found} of {len(runs)} searches came to the best subset: a better one may be "
            "hidden."
        )
    diagnostics = {
        "seconds": time.perf_counter() - started,
        "subsets_visited": n_visited,
        "subsets_tested": len(examined.masks),
        "subsets_compatible": n_compatible,
        "searches": len(runs),
        "searches_that_found_the_best": n_found,
        "complete": complete,
    }
    order = np.argsort(-examined.log_joint, kind="stable")[:n_compatible]
    log_ratios = examined.score.model.log_ratio_many(examined.masks[order[:_MOST_LISTED]])
    found = examined.masks[order], examined.log_joint[order], log_ratios
    engine = f"annealed search ({len(runs)} searches)"
    return _posterior(
        target, examined.score, *found, engine=engine, notes=tuple(notes), diagnostics=diagnostics
    )


def flipped_log_prior(prior: BoundPrior, mask: Mask) -> Floats:
    """Return the log prior (p,), without its constant, of the subset (p,) with each feature
    flipped.

    -inf if the flip is not open.
    """
    size = int(mask.sum())
    weights = np.append(prior.log_size_weight, -np.inf)
    odds = prior.log_odds[mask].sum() + np.where(mask, -prior.log_odds, prior.log_odds)
    values = odds + np.where(mask, weights[max(size - 1, 0)], weights[size + 1])
    return np.where(prior.forced_in | prior.forced_out, -np.inf, values)


def annealed(
    target: Target, neighbours: Neighbours, rng: np.random.Generator, n_steps: int
) -> Mask:
    """Return the distinct subsets (m, p) that an annealed search visits, ordered by their packed
    flags.

    Each step flips a feature, with the square root of the probability of the result, then removes a
    member and draws its replacement. The search starts from the forced features.
    """

    def values(mask: Mask) -> Floats:
        return neighbours(mask) + flipped_log_prior(target.prior, mask)

    mask = target.start
    first = values(mask)
    slope = np.abs(first[first > -np.inf]).max(initial=_HOTTEST)
    seen: list[Mask] = []
    for step, beta in enumerate(np.geomspace(_HOTTEST / slope, 1.0, n_steps)):
        if step >= _FEWEST_STEPS and out_of_time(_SEARCHING):
            break
        flips = values(mask)
        if flips.max(initial=-np.inf) == -np.inf:
            mask = target.start
            continue
        mask = _flip(mask, _drawn(0.5 * beta * flips, rng))
        seen.append(mask)
        members = target.prior.free[mask[target.prior.free]]
        if len(members):
            without = _flip(mask, int(rng.choice(members)))
            entering = np.where(without, -np.inf, values(without))
            if entering.max() > -np.inf:
                mask = _flip(without, _drawn(beta * entering, rng))
                seen.append(mask)
    packed = np.packbits(np.array(seen, dtype=bool).reshape(-1, target.n_features), axis=1)
    return np.unpackbits(np.unique(packed, axis=0), axis=1, count=target.n_features).astype(bool)


def _flip(mask: Mask, feature: int) -> Mask:
    changed = mask.copy()
    changed[feature] ^= True
    return changed


def _drawn(log_weights: Floats, rng: np.random.Generator) -> int:
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


class Examined:
    """Subsets that were put to the test.

    masks (m, p): all in the prior's support; log_joint (m,): log of p(z)·exp(−½ cost), -inf where
    not compatible.
    """

    def __init__(self, prior: BoundPrior, score: PredictiveScore) -> None:
        self.prior = prior
        self.score = score
        self.masks, self.log_joint = np.zeros((0, score.n_features), dtype=bool), np.zeros(0)
        self._keys: set[bytes] = set()

    def add(self, masks: Mask) -> None:
        """Test those of masks (n, p) that are new."""
        log_prior = self.prior.log_prob(masks)
        fresh = []
        for row in np.flatnonzero(log_prior > -np.inf).tolist():
            key = np.packbits(masks[row]).tobytes()
            if key not in self._keys:
                self._keys.add(key)
                fresh.append(row)
        if fresh:
            values = self.score.log_ratio_many(masks[fresh]) + log_prior[fresh]
            self.masks, self.log_joint = (
                np.vstack([self.masks, masks[fresh]]),
                np.append(self.log_joint, values),
            )

    def price_again(self) -> None:
        """Update the penalty by the largest gain of the compatible subsets that were found."""
        compatible = np.flatnonzero(self.log_joint > -np.inf)
        if len(compatible):
            gain = float(self.score.model.gain_many(self.masks[compatible]).max())
            score = PredictiveScore.with_price(self.score.model, self.score.tolerance, gain)
            columns = self.masks[compatible] @ score.model.free_columns
            self.log_joint[compatible] += 0.5 * (self.score.price - score.price) * columns
            self.score = score

    def add_around(self, open_gate: Neighbours) -> bool:
        """Test what lies one flip from relevant subsets, those included that are found so; False
        where that are too many, when the most probable ones come first."""
        left = _MOST_AROUND
        surrounded = set[int]()
        while left:
            if surrounded and out_of_time(_SEARCHING):
                return False
            least = self.log_joint.max(initial=-np.inf) - _RELEVANT
            centres = [
                row
                for row in np.flatnonzero(self.log_joint > least).tolist()
                if row not in surrounded
            ]
            centres = sorted(centres, key=lambda row: -self.log_joint[row])[:_AT_A_TIME]
            if not centres:
                return True
            surrounded.update(centres)
            found: dict[bytes, tuple[Mask, float]] = {}
            for mask in self.masks[centres]:
                values = (
                    open_gate(mask)
                    + flipped_log_prior(self.prior, mask)
                    - self.prior.log_normalizer
                )
                for feature in np.flatnonzero(values > least).tolist():
                    flipped = _flip(mask, feature)
                    key = np.packbits(flipped).tobytes()
                    if key not in self._keys:
                        found[key] = flipped, float(values[feature])
            around = [mask for mask, _ in sorted(found.values(), key=lambda pair: -pair[1])[:left]]
            self.add(np.array(around, dtype=bool).reshape(-1, self.score.n_features))
            left -= len(around)
        return False
