"""The predictive posterior: model averaging over the subsets that the data do not reject as invariant.

p₂(z | D) ∝ p(z) · exp(−½ cost(z)) · [p_inv(z) ≥ level], cost(z) = −2 · gain of the pooled fit over the empty one
+ columns of z · max(log N + 2 log p, floor · N).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from ..data.features import Features, Subset, as_masks
from ..inference.base import Engine, NothingScoredError, RunOptions, ScoredSubsets, Target, described
from ..inference.enumeration import Enumeration, SubsetBlocks, subset_blocks
from ..inference.tempering.ladders import CompiledTarget, with_own_cache
from ..kernels.active_set import active_set, flip_log_shares
from ..models.base import BoundModel, Description, Fit, FlipGuess, GuessesFlips, Null, Prediction, ScreensSubsets
from ..models.gaussian_fits import group_weights
from ..models.invariance_test import Tolerance, deviance_moments
from ..models.walks import NDArray32, ScreeningWalk
from ..posterior.posterior import Judge, Posterior, SubsetSource, SubsetTable, table_order
from ..priors.base import BoundPrior

# Nats below the best compatible subset from which on subsets may be left undecided, after so many rows × subsets.
WINDOW, SOON = 40.0, 1 << 24
_FIRST_COLLECTED = 1 << 17
_DECIDED_AT_ONCE = 1 << 10


@dataclass(frozen=True, eq=False)
class CompatibleWalk:
    """values : {features that a block fixes: positions in it, their values} of the compatible subsets, NaN otherwise
    all_decided : whether no subset was left undecided because it weighs nothing"""

    screen: ScreeningWalk
    n_features: int
    n_low: int
    values: dict[tuple[int, ...], tuple[Integers, Floats]]
    all_decided: bool

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


class Candidates(NamedTuple):
    """Of k subsets, the heaviest first: block, position (k,) in a walk, weight (k,) with the prior, and draws (k, f)
    over free features."""

    block: Integers
    position: Integers
    weight: Floats
    draws: Mask

    def rows(self, chosen: slice | Integers) -> Candidates:
        return Candidates(self.block[chosen], self.position[chosen], self.weight[chosen], self.draws[chosen])

    @classmethod
    def heaviest(cls, parts: list[Candidates], most: int) -> Candidates:
        """Of parts whose blocks, and positions in them, ascend where subsets weigh the same."""
        every = cls(*map(np.concatenate, zip(*parts, strict=True)))
        return every.rows(np.argsort(-every.weight, kind="stable")[:most])


def compatible_walk(
    model: BoundModel, screen: ScreeningWalk, blocks: SubsetBlocks, free: Integers, forced: Integers, n_jobs: int | None
) -> CompatibleWalk:
    """Decides about candidates, the heaviest first, until what is left weighs nothing.

    model : its log Λ is -inf where a subset is not compatible; blocks : all subsets of the `free` features
    """
    best, n_decided, all_decided = -np.inf, 0, True
    nowhere = np.empty(0, np.int64)
    found: list[tuple[Integers, Integers, Floats]] = [(nowhere, nowhere, np.empty(0))]
    for part in _heaviest_first(blocks, n_jobs):
        if n_decided * model.n_rows >= SOON and part.weight[0] < best - WINDOW:
            all_decided = False
            break
        masks = np.zeros((len(part.block), model.n_features), dtype=bool)
        masks[:, free], masks[:, forced] = part.draws, True
        values = model.log_ratio_many(masks)
        compatible = np.flatnonzero(values > -np.inf)
        best = max(best, float(part.weight[compatible].max(initial=-np.inf)))
        n_decided += len(masks)
        found.append((part.block[compatible], part.position[compatible], values[compatible]))
    block, position, value = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(block, kind="stable")
    distinct, first = np.unique(block[order], return_index=True)
    rows = zip(distinct, np.split(order, first[1:]), strict=False)
    by_block = {tuple(blocks.fixed(int(b)).tolist()): (position[at], value[at]) for b, at in rows}
    return CompatibleWalk(screen, screen.n_features, screen.n_low, by_block, all_decided)


def _heaviest_first(blocks: SubsetBlocks, n_jobs: int | None) -> Iterator[Candidates]:
    """All subsets that the screen lets pass, in small parts of ever larger collections."""
    most, last = _FIRST_COLLECTED, (np.inf, -1, -1)
    while True:
        piece = _collected(blocks, most, last, n_jobs)
        n = len(piece.block)
        yield from (piece.rows(slice(at, at + _DECIDED_AT_ONCE)) for at in range(0, n, _DECIDED_AT_ONCE))
        if n < most:
            return
        most, last = 8 * most, (float(piece.weight[-1]), int(piece.block[-1]), int(piece.position[-1]))


def _collected(blocks: SubsetBlocks, most: int, last: tuple[float, int, int], n_jobs: int | None) -> Candidates:
    """The heaviest that come after the `last` one (its weight, block and position)."""
    weight, last_block, last_position = last
    nowhere = np.empty(0, np.int64)
    kept = Candidates(nowhere, nowhere, np.empty(0), np.empty((0, blocks.n_features), dtype=bool))
    waiting: list[Candidates] = []

    def of_block(block: int) -> Candidates:
        scored = blocks.scored(block)
        values = scored.log_posterior
        # Later blocks lose ties: only larger values can still enter. How soon a thread knows that changes no result.
        lightest = kept.weight[-1] if len(kept.block) == most else -np.inf
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
        if sum(len(part.block) for part in waiting) > most:
            kept, waiting = Candidates.heaviest([kept, *waiting], most), []
    return Candidates.heaviest([kept, *waiting], most)


# What a feature has to explain of the outcome's residual variance to be worth a risk, however many rows there are;
# chosen on the light tunnel.
FLOOR = 0.008


class PredictiveModel(BoundModel):
    """A model whose log Λ is replaced by how well a subset predicts, −inf where it is not compatible with invariance.

    prior : of the target, where it is known: a walk then leaves subsets that weigh nothing undecided (all_decided)
    """

    subsets_scored = "compatible subsets"

    def __init__(
        self,
        model: BoundModel,
        tolerance: Tolerance,
        floor: float = FLOOR,
        prior: BoundPrior | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model, self.tolerance, self.floor = model, tolerance, floor
        self.prior, self.n_jobs, self.all_decided = prior, n_jobs, True
        n, p = model.n_rows, model.n_features
        self.price = max(np.log(n) + 2.0 * np.log(p), floor * n)

    def log_weights(self, masks: ArrayLike) -> Floats:
        """(S,) −½ cost, whether compatible or not"""
        chosen = as_masks(masks, self.n_features)
        return self._weigh(self.model.prediction_many(chosen).gain, chosen @ self.model.free_columns)

    def _weigh(self, gain: Floats, columns: Integers) -> Floats:
        return gain - 0.5 * self.price * columns

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        weights = self.log_weights(chosen)
        joint = self.model.invariance_test(chosen, self.tolerance).joint
        return np.where(joint >= self.tolerance.level, weights, -np.inf)

    @property
    def features(self) -> Features:
        return self.model.features

    def describe(self) -> Description:
        return self.model.describe()

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        return self.model.prediction_many(masks)

    def null_many(self, masks: ArrayLike) -> Null:
        n = len(as_masks(masks, self.n_features))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        return self.model.fit(subset, local)

    @property
    def largest_size(self) -> int:
        return self.model.largest_size

    @property
    def steps_per_subset(self) -> int:
        return self.model.steps_per_subset

    @property
    def dense_advantage(self) -> int:
        return self.model.dense_advantage

    def walk_order(self, free: Integers) -> Integers:
        return self.model.walk_order(free)

    def subset_walk(self, free: Integers, forced: Integers) -> CompatibleWalk | None:
        if self.prior is None or not isinstance(self.model, ScreensSubsets):
            return None
        screen = self.model.screening_walk(free, forced, self.tolerance, self._weigh)
        terms = self.prior.terms
        terms = replace(terms, log_odds=terms.log_odds[np.searchsorted(self.prior.free, free)])
        blocks = subset_blocks(screen, terms, self.dense_advantage)
        walk = compatible_walk(self, screen, blocks, free, forced, self.n_jobs)
        self.all_decided = walk.all_decided
        return walk


@dataclass(frozen=True, eq=False)
class PredictiveSource:
    """The source of a predictive posterior, with log Λ of the model in its tables."""

    source: SubsetSource
    model: BoundModel

    def log_probability(self, masks: Mask) -> Floats:
        return self.source.log_probability(masks)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        return self.source.sample(n, rng)

    def leading(self, mass: float) -> SubsetTable | None:
        table = self.source.leading(mass)
        return None if table is None else (table[0], self.model.log_ratio_many(table[0]), table[2])


def predictive_posterior(
    target: Target, tolerance: Tolerance, engine: Engine, options: RunOptions, known: Mask | None = None
) -> Posterior | None:
    """Over the subsets that reach the tolerance's level or, where none does, its weak level; None where none does.

    Exact where the engine is. Other engines estimate how often a chain is where, which the gate would stop at once:
    there a search takes their place. known (k, p): subsets that are worth a look.
    """
    for accepted in dict.fromkeys((tolerance, tolerance.weak)):
        model = PredictiveModel(target.model.untilted, accepted, prior=target.prior, n_jobs=options.n_jobs)
        if isinstance(engine, Enumeration):
            found = _enumerated(target, model, engine, options)
        else:
            found = searched_posterior(target, model, options, known)
        if found is not None:
            return found
    return None


def _enumerated(target: Target, model: PredictiveModel, engine: Engine, options: RunOptions) -> Posterior | None:
    try:
        posterior = engine.run(Target(model, target.prior), options)
    except NothingScoredError:
        return None
    diagnostics: dict[str, Any] = dict(posterior.diagnostics)
    undecidable = diagnostics.pop("subsets_undecidable", None)
    if undecidable is not None:
        diagnostics["subsets_compatible"] = posterior.n_subsets - undecidable
        diagnostics["compatible_counted"] = model.all_decided
    return replace(
        posterior,
        log_ratios=model.model.log_ratio_many(posterior.masks),
        judge=Judge(model.model, model.tolerance),
        diagnostics=diagnostics,
        notes=(),
        model_reason=model.model.reason,
        kind="predictive",
        source=None if posterior.source is None else PredictiveSource(posterior.source, model.model),
    )


@dataclass(frozen=True)
class SoftGate:
    """price: of a column, as in the predictive posterior; excess: of the deviance where environments differ by as much
    as is tolerated; width: how many standard deviations are allowed above the mean; kappa: what a unit of deviance
    beyond costs, nothing at an open gate."""

    price: float
    excess: float
    width: float
    kappa: float

    def values(
        self, gain: Floats, columns: Floats | Integers, deviance: Floats, mean: Floats, variance: Floats
    ) -> Floats:
        """(S,) −½ cost and what is to be paid at the gate, from the pooled fits' gain in log likelihood, their columns,
        and the deviance with its mean and variance under invariance; -inf where one of them is not known"""
        allowed = mean + self.excess + self.width * np.sqrt(variance + 4.0 * self.excess)
        with np.errstate(invalid="ignore"):
            paid = 0.5 * self.kappa * np.maximum(deviance - allowed, 0.0)
            values = gain - 0.5 * self.price * columns - paid
        return np.where(np.isnan(values), -np.inf, values)


# (p,) soft value of a subset (p,) with each feature flipped; -inf outside the support
Neighbours = Callable[[Mask], Floats]


class CompiledNeighbours:
    """From one factorisation of the subset in each group."""

    def __init__(self, target: CompiledTarget, model: BoundModel, gate: SoftGate) -> None:
        counts = model.describe().counts
        self._gate, self._features = gate, target.features
        self._counts = np.append(counts, counts.sum()).astype(float)
        self._scoring = with_own_cache(target.scoring)
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
        deviance = -2.0 * (self._offset + self._weights @ logs)
        size = self._state.size
        mean, variance = self._law(size)
        kind = np.where(mask, self._pattern + len(self._patterns), self._pattern)
        columns = size[-1] + np.where(mask, -1.0, 1.0)
        gain = -0.5 * self._counts[-1] * logs[-1]
        return self._gate.values(gain, columns, deviance, mean[kind], variance[kind])

    def _law(self, size: Integers) -> tuple[Floats, Floats]:
        """Mean and variance of the deviance after a feature of each pattern was added, and after it was removed."""
        key = size.tobytes()
        if key not in self._laws:
            ranks = np.vstack([size + self._patterns, size - self._patterns])
            mean, variance = deviance_moments(self._counts, ranks)
            unknown = (self._counts - 1.0 - ranks <= 0.0).any(axis=1)
            self._laws[key] = np.where(unknown, np.nan, mean), np.where(unknown, np.nan, variance)
        return self._laws[key]


def plain_neighbours(model: BoundModel, gate: SoftGate) -> Neighbours:
    """By asking any model about each of them, once."""

    def values(masks: Mask) -> Floats:
        gain, null = model.prediction_many(masks).gain, model.null_many(masks)
        deviance = -2.0 * model.log_ratio_many(masks)
        mean = np.where(null.variance > 0.0, -2.0 * null.expected, 0.0)
        return gate.values(gain, masks @ model.free_columns, deviance, mean, 4.0 * null.variance)

    memory, flips = ScoredSubsets(values, model.n_features), np.eye(model.n_features, dtype=bool)
    return lambda mask: memory.values(mask ^ flips)


def guessed_neighbours(model: Any, gate: SoftGate) -> Neighbours:
    """As the model guesses them from a fit of the subset itself."""
    widths = model.free_columns

    def flipped(mask: Mask) -> Floats:
        guess = FlipGuess(*(values[0] for values in model.guessed_flips(mask)))
        columns = int(mask @ widths) + np.where(mask, -widths, widths)
        known = guess.variance > 0.0
        mean = np.where(known, -2.0 * np.where(known, guess.expected, 0.0), 0.0)
        return gate.values(guess.gain, columns, -2.0 * guess.log_ratio, mean, 4.0 * guess.variance)

    return flipped


def neighbours_of(target: Target, gate: SoftGate) -> Neighbours:
    compiled = CompiledTarget.of(target)
    if compiled is not None:
        return CompiledNeighbours(compiled, target.model, gate)
    return (guessed_neighbours if isinstance(target.model, GuessesFlips) else plain_neighbours)(target.model, gate)


# A gate that costs little lets a search see where it is going, one that costs much keeps it where it may be.
_KAPPAS, _WIDTHS = (5.0, 20.0, 80.0), (0.0, 2.0)
_STEPS = 300
# At its hottest a search gives this many nats for the whole way from the start to where the slope leads at first.
_HOTTEST = 5.0
# Subsets that are this many nats less probable than the best do not matter.
_RELEVANT = 20.0
# How many of the known subsets are tested, how many subsets around those that passed, and around how many at a time.
_MOST_KNOWN, _MOST_AROUND, _AT_A_TIME = 256, 2048, 16
_MOST_LISTED, _MOST_PAIRED = 4096, 1000


def searched_posterior(
    target: Target, model: PredictiveModel, options: RunOptions, known: Mask | None = None
) -> Posterior | None:
    """None where no compatible subset was found."""
    started = time.perf_counter()
    of_model, tolerance = Target(model.model, target.prior), model.tolerance
    excess = model.n_rows * (tolerance.delta + tolerance.tau**2 / 2.0)
    gates = [SoftGate(model.price, excess, width, kappa) for kappa, width in product(_KAPPAS, _WIDTHS)]
    runs = list(zip(gates, options.rng.spawn(len(gates)), strict=True))

    def work(run: tuple[SoftGate, np.random.Generator]) -> Mask:
        gate, rng = run
        return annealed(target, neighbours_of(of_model, gate), rng, _STEPS)

    visited, examined = [], Examined(target, model)
    with ProgressBar("searching compatible subsets", len(runs) + 1, options.progress) as bar:
        for masks in ordered_map(work, runs, options.n_jobs):
            visited.append(masks)
            bar.advance()
        examined.add(np.concatenate([*visited, target.start[None]] + ([] if known is None else [known[:_MOST_KNOWN]])))
        n_visited = len(examined.masks)
        complete = examined.completed(neighbours_of(of_model, SoftGate(model.price, excess, 0.0, 0.0)))
        bar.advance()
    if examined.best == -np.inf:
        return None
    return _posterior(examined, visited, n_visited, complete, started)


def flipped_log_prior(prior: BoundPrior, mask: Mask) -> Floats:
    """(p,) log prior, less its constant, of the subset (p,) with each feature flipped; -inf where that is not open"""
    size, weights = int(mask.sum()), np.append(prior.log_size_weight, -np.inf)
    odds = prior.log_odds[mask].sum() + np.where(mask, -prior.log_odds, prior.log_odds)
    values = odds + np.where(mask, weights[max(size - 1, 0)], weights[size + 1])
    closed = prior.forced_in | prior.forced_out
    return np.where(closed, -np.inf, values)


def annealed(target: Target, neighbours: Neighbours, rng: np.random.Generator, n_steps: int) -> Mask:
    """(m, p) the distinct subsets that a search visits, in the order of their packed flags.

    Each step flips a feature, by the root of how probable the result is, then lets a member go and draws what takes
    its place. It starts from the forced features.
    """

    def values(mask: Mask) -> Floats:
        return neighbours(mask) + flipped_log_prior(target.prior, mask)

    mask = target.start
    first = values(mask)
    slope = np.abs(first[first > -np.inf]).max(initial=_HOTTEST)
    seen: set[bytes] = set()
    for beta in np.geomspace(_HOTTEST / slope, 1.0, n_steps):
        flips = values(mask)
        if flips.max(initial=-np.inf) == -np.inf:
            mask = target.start
            continue
        mask = _flip(mask, _drawn(0.5 * beta * flips, rng))
        seen.add(np.packbits(mask).tobytes())
        members = target.free[mask[target.free]]
        if len(members):
            without = _flip(mask, int(rng.choice(members)))
            entering = np.where(without, -np.inf, values(without))
            if entering.max() > -np.inf:
                mask = _flip(without, _drawn(beta * entering, rng))
                seen.add(np.packbits(mask).tobytes())
    packed = np.frombuffer(b"".join(sorted(seen)), np.uint8).reshape(len(seen), -(-target.n_features // 8))
    return np.unpackbits(packed, axis=1, count=target.n_features).astype(bool)


def _flip(mask: Mask, feature: int) -> Mask:
    changed = mask.copy()
    changed[feature] ^= True
    return changed


def _drawn(log_weights: Floats, rng: np.random.Generator) -> int:
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


class Examined:
    """Subsets that were put to the test.

    masks (m, p): all in the prior's support; log_joint (m,): log of p(z)·exp(−½ cost), -inf where not compatible.
    """

    def __init__(self, target: Target, model: PredictiveModel) -> None:
        self.target, self.model = target, model
        self.masks, self.log_joint = np.zeros((0, target.n_features), dtype=bool), np.zeros(0)
        self._keys: set[bytes] = set()
        self._surrounded: set[int] = set()

    @property
    def best(self) -> float:
        return float(self.log_joint.max(initial=-np.inf))

    def add(self, masks: Mask) -> None:
        """Test those of masks (n, p) that are new."""
        packed = np.packbits(masks, axis=1)
        _, first = np.unique(packed, axis=0, return_index=True)
        inside = self.target.prior.log_prob(masks) > -np.inf
        fresh = [row for row in np.sort(first) if inside[row] and packed[row].tobytes() not in self._keys]
        if fresh:
            values = self.model.log_ratio_many(masks[fresh]) + self.target.prior.log_prob(masks[fresh])
            self.masks, self.log_joint = np.vstack([self.masks, masks[fresh]]), np.append(self.log_joint, values)
            self._keys.update(packed[row].tobytes() for row in fresh)

    def completed(self, open_gate: Neighbours) -> bool:
        """Test what lies one flip from relevant subsets, those included that are found so; False where that are too
        many, when the most probable ones come first."""
        left = _MOST_AROUND
        while True:
            centres = self._next_centres()
            if not len(centres):
                return True
            around, values = self._around(centres, open_gate)
            order = np.argsort(-values, kind="stable")[:left]
            self.add(around[order])
            left -= len(order)
            if left == 0:
                return False

    def _next_centres(self) -> list[int]:
        relevant = np.flatnonzero(self.log_joint > self.best - _RELEVANT)
        open_ones = [row for row in relevant.tolist() if row not in self._surrounded]
        chosen = sorted(open_ones, key=lambda row: -self.log_joint[row])[:_AT_A_TIME]
        self._surrounded.update(chosen)
        return chosen

    def _around(self, centres: list[int], open_gate: Neighbours) -> tuple[Mask, Floats]:
        """Untested subsets (n, p) one flip from the centres that would be relevant if they passed, and their values."""
        prior, found = self.target.prior, {}
        for row in centres:
            mask = self.masks[row]
            values = open_gate(mask) + flipped_log_prior(prior, mask) - prior.log_normalizer
            for feature in np.flatnonzero(values > self.best - _RELEVANT).tolist():
                flipped = _flip(mask, feature)
                key = np.packbits(flipped).tobytes()
                if key not in self._keys:
                    found[key] = flipped, float(values[feature])
        masks = np.array([mask for mask, _ in found.values()], dtype=bool).reshape(len(found), self.target.n_features)
        return masks, np.array([value for _, value in found.values()])


@dataclass(frozen=True, eq=False)
class FoundSource:
    """Answers relative to the compatible subsets that were found: masks (m, p), most probable first;
    log_probabilities (m,)."""

    target: Target
    model: PredictiveModel
    log_evidence: float
    masks: Mask
    log_probabilities: Floats

    def log_probability(self, masks: Mask) -> Floats:
        log_joint = self.model.log_ratio_many(masks) + self.target.prior.log_prob(masks)
        return np.minimum(log_joint - self.log_evidence, 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        weights = np.exp(self.log_probabilities)
        return self.masks[rng.choice(len(weights), size=n, p=weights / weights.sum())]

    def leading(self, mass: float) -> SubsetTable:
        needed = int(np.searchsorted(np.cumsum(np.exp(self.log_probabilities)), mass)) + 1
        masks = self.masks[:needed]
        return masks, self.model.model.log_ratio_many(masks), self.log_probabilities[:needed]


def _posterior(examined: Examined, visited: list[Mask], n_visited: int, complete: bool, started: float) -> Posterior:
    target, model = examined.target, examined.model
    compatible = np.flatnonzero(examined.log_joint > -np.inf)
    order = compatible[table_order(examined.masks[compatible], examined.log_joint[compatible])]
    masks, log_joint = examined.masks[order], examined.log_joint[order]
    log_evidence = float(logsumexp(log_joint))
    log_probabilities = log_joint - log_evidence
    weights = np.exp(log_probabilities)
    listed = slice(_MOST_LISTED)
    pairwise = None
    if target.n_features <= _MOST_PAIRED:
        pairwise = (masks * weights[:, None]).T @ masks.astype(float)
    n_found = sum(bool((run == masks[0]).all(axis=1).any()) for run in visited)
    around = "all that matter around those that passed" if complete else "the best around those that passed"
    notes = [
        f"probabilities are over the {len(masks):,} compatible subsets that were found, of {len(examined.masks):,} "
        f"tested: {n_visited:,} that were visited, and {around}."
    ]
    if n_found < 2:
        notes.append(f"{n_found} of {len(visited)} searches came to the best subset: a better one may be hidden.")
    return Posterior(
        **described(target) | {"judge": Judge(model.model, model.tolerance)},
        inclusion=weights @ masks,
        pairwise=pairwise,
        masks=masks[listed],
        log_ratios=model.model.log_ratio_many(masks[listed]),
        log_probabilities=log_probabilities[listed],
        kind="predictive",
        log_evidence=log_evidence,
        entropy=max(0.0, -float(weights @ log_probabilities)),
        engine=f"annealed search ({len(visited)} searches)",
        notes=tuple(notes),
        diagnostics={
            "seconds": time.perf_counter() - started,
            "subsets_visited": n_visited,
            "subsets_tested": len(examined.masks),
            "subsets_compatible": len(masks),
            "searches": len(visited),
            "searches_that_found_the_best": n_found,
            "complete": complete,
        },
        source=FoundSource(target, model, log_evidence, masks, log_probabilities),
    )
