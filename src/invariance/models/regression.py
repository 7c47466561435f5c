"""Regressions by maximum likelihood in compiled code: what their families share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.text import format_subset
from ..data.checks import listing
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, use
from ..kernels.likelihoods import Own, Rows, Work, evaluate, with_columns, work_for
from ..kernels.newton import guess_flips, invert, score_dense, score_lists
from .base import (
    IN_MEAN,
    EnvironmentData,
    FlipGuess,
    NDArray32,
    Null,
    Remarks,
    StandardErrors,
    Unsupported,
    Weigh,
    check_number,
    chosen_names,
    low_subsets,
    rows_for,
)
from .gaussian_fits import too_few_in
from .invariance_test import Tolerance, largest_deviance
from .likelihood import Figures, LikelihoodFit, LikelihoodRatioModel


@dataclass(frozen=True, eq=False)
class RegressionFit(LikelihoodFit):
    """more (E + 1, r): parameters without a column, of each environment and, last, of the pool"""

    more: Floats


# A fit that explains less of the log-likelihood than this does not come near to separating the rows.
_NEARLY_ALL = 0.5
_R2 = "R² is by the likelihood: 1 − exp(−2·gain/N), of the gain over the fit without features (Cox and Snell)."


def remarks_of(model: RegressionModel, masks: Mask) -> Remarks:
    """On the rows, and on the subsets in masks (S, p), those first that matter most."""
    data, specification = model.data, model.specification
    events = np.bincount(data.environment_index, specification.events(data), data.n_environments).astype(float)
    each = listing(
        f"{data.environments[e]!r} {events[e]:,.0f} in {data.counts[e]:,}" for e in np.argsort(events, kind="stable")
    )
    counted = f"{events.sum():,.0f} events in {data.n_rows:,} rows, the fewest first: {each}."
    alarms = (_without_events(model, events), _separating(model, masks))
    notes = (counted, _R2, *specification.remarks(model, masks))
    return Remarks(notes, tuple(sentence for sentence in alarms if sentence))


def _without_events(model: RegressionModel, events: Floats) -> str:
    data, specification = model.data, model.specification
    empty = np.flatnonzero(events == 0.0)
    full = np.flatnonzero(events == data.counts) if specification.two_values else empty[:0]
    found = [
        f"{what} in environment {listing(f'{data.environments[e]!r} ({data.counts[e]:,} rows)' for e in places)}"
        for what, places in (("there are no events", empty), ("every row is an event", full))
        if len(places)
    ]
    if not found:
        return ""
    rest = "rest on the pseudo-data there" if specification.pseudo_rows else "have no finite maximum there"
    return f"{'; '.join(found)}: its own fits {rest}. Merge it with a similar environment, or leave it out."


def _separating(model: RegressionModel, masks: Mask) -> str:
    """That a subset separates the two values in all rows: then it looks invariant whatever the environments do."""
    found = [mask for mask in masks if separates(model, mask)] if model.specification.two_values else []
    if not found:
        return ""
    more = f" (and {len(found) - 1} more of the {len(masks)} leading subsets)" if len(found) > 1 else ""
    return (
        f"{format_subset(list(chosen_names(model.feature_names, found[0])))}{more} separates the two values of "
        f"{model.data.outcome_name!r} in all rows: its log ratio says nothing about invariance. Remove copies or "
        "consequences of the outcome, or add rows."
    )


def separates(model: RegressionModel, mask: Mask) -> bool:
    """Whether some combination of the columns of a subset (p,) is higher in all rows with one value of the outcome than
    in all with the other."""
    data = model.data
    event = model.specification.events(data) > 0.0
    share = float(event.mean())
    fit = model.fit(mask, local=False)
    X = data.X[:, data.features.expand(mask)]
    predictor = X @ fit.coefficients + fit.intercept
    if predictor[event].min() > predictor[~event].max():
        return True
    log_likelihood = -float(np.logaddexp(0.0, np.where(event, -predictor, predictor)).sum())
    without = data.n_rows * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    return bool(log_likelihood > (1.0 - _NEARLY_ALL) * without and _plane_between(X, event))


def _plane_between(X: Floats, event: Mask) -> bool:
    """By a linear programme: whether sign·(b₀ + Xb) ≥ 1 has a solution."""
    from scipy.optimize import linprog

    scale = X.std(axis=0)
    columns = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)])
    signed = np.where(event, -1.0, 1.0)[:, None] * columns
    return (
        linprog(np.zeros(columns.shape[1]), signed, -np.ones(len(X)), bounds=(None, None), method="highs").status == 0
    )


@dataclass(frozen=True)
class Regression(ABC):
    """Base of specifications: the outcome's law given intercept + coefficients · columns of z, by maximum likelihood.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is the pooled mean; 0: none
    """

    pseudo_rows: float = 1.0

    name: ClassVar[str]
    intercept: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ()  # what the model uses of that which comes with an outcome
    about_mean: ClassVar[tuple[str, ...]] = ()  # what each environment has of its own beside intercept and slopes
    two_values: ClassVar[bool] = False  # whether features may separate the outcome

    def __post_init__(self) -> None:
        check_number(self, "pseudo_rows", "number of rows")

    @abstractmethod
    def check(self, data: MultiEnvironmentData) -> None:
        """Raise DataError where the outcome is not of the kind that this model is for."""

    @abstractmethod
    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        """The rows `order` (N,) of the data as kernels take them; columns (q, N): in this order already."""

    @abstractmethod
    def beginning(self, rows: Rows) -> Floats:
        """(E + 1, r) parameters of the empty subset in each environment and the pool, roughly: the intercept, if there
        is one, and after it those that no column belongs to."""

    @abstractmethod
    def mean(self, predictor: Floats) -> Floats:
        """The expected outcome (n,) at intercept + coefficients · columns (n,)."""

    def events(self, data: MultiEnvironmentData) -> Floats:
        """(N,) how many events each row is: what there must be some of in every environment."""
        return data.y

    def remarks(self, model: RegressionModel, masks: Mask) -> tuple[str, ...]:
        """Sentences on the leading subsets, masks (S, p), beside those of all regressions."""
        return ()

    def order(self, data: MultiEnvironmentData) -> Integers:
        """(N,) rows by environment, and within each as the kernel wants them."""
        return np.argsort(data.environment_index, kind="stable").astype(np.int64)

    def profiled(self, rows: Rows) -> Integers:
        """(E + 1,) how many parameters the fit of each environment and the pooled one have that are maximised out and
        stand in no array."""
        return np.zeros(len(rows.starts), np.int64)

    def null(self, counts: Integers, figures: Figures) -> Null:
        """The law of log Λ of invariant subsets, from the rows (E,) of each environment."""
        return figures.null(len(counts))

    def finished(self, fit: RegressionFit, rows: Rows) -> RegressionFit:
        """The fit with names for what else the model has."""
        return fit

    def shares(self, data: MultiEnvironmentData) -> Floats:
        """(E,) λ_e: by how much more than once each row of an environment counts."""
        return self.pseudo_rows / data.counts

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> RegressionModel:
        """Tie the model to data."""
        rows = rows_for(self.name, data)
        self.check(rows)
        return self.tied(rows, n_jobs)

    def tied(self, data: MultiEnvironmentData, n_jobs: int | None) -> RegressionModel:
        return RegressionModel(self, data, n_jobs)


# Promised gains below which fits that guesses start from count as done.
_ROUGHLY = 1e-2
_MOST_FLIPS_REMEMBERED = 2000
_LOW_FEATURES = 10
_MOST_SUBSETS_REMEMBERED = 1 << 21


@dataclass(frozen=True, eq=False)
class RegressionWalk:
    """rows: their columns are those that are always in, n_always of them, and those of f features: feature j has the
    columns starts[j]:starts[j + 1] (f + 1,). beginning (E + 1, n_always + r): where fits without features start;
    tolerance: see `kernels.newton.maximise`; needed (f, E): columns of a feature that vary in an environment;
    room (E,): how many of them its rows can fit; profiled: see `Figures`.

    What was walked is remembered, while it is not too much: who decides after an enumeration need not walk again.
    """

    rows: Rows
    starts: Integers
    n_always: int
    beginning: Floats
    tolerance: float
    needed: Integers
    room: Integers
    profiled: Integers | int = 0
    remembered: dict[Any, Figures] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"remembered": {}}

    @property
    def n_features(self) -> int:
        return len(self.starts) - 1

    @property
    def n_low(self) -> int:
        return min(self.n_features, _LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        return self.dense_figures(high).log_ratio

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        return self.listed_figures(prefix, max_size, sizes, members).log_ratio

    def dense_figures(self, high: Integers) -> Figures:
        """(2**n_low,) each; log Λ is NaN where a subset has too many columns."""
        return self._once(tuple(high.tolist()), lambda: self._walked(high))

    def listed_figures(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Figures:
        """(n,) each, and `members` filled as in `listed`; NaN also where a size does not count."""
        masks = self.list_members(prefix, max_size, members)
        wanted = sizes[masks.sum(axis=1)] & self._fits(masks.astype(np.int64) @ self.needed)
        key = tuple(prefix.tolist()), max_size, sizes.tobytes()
        return self._once(key, lambda: self._one_by_one(masks, wanted))

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> Mask:
        """Only fill `members`, as `listed` does; (n, f) the same subsets"""
        first = int(prefix[-1]) + 1 if len(prefix) else 0
        members[:, :] = -1
        masks = np.zeros((len(members), self.n_features), dtype=bool)
        later = range(first, self.n_features)
        more = chain.from_iterable(combinations(later, k) for k in range(max_size - len(prefix) + 1))
        for row, extension in enumerate(more):
            subset = [*prefix.tolist(), *extension]
            members[row, : len(subset)] = subset
            masks[row, subset] = True
        return masks

    def _once(self, key: Any, walk: Callable[[], Figures]) -> Figures:
        known = self.remembered.get(key)
        if known is None:
            known = walk()
            held = sum(len(figures.pooled) for figures in list(self.remembered.values()))
            if held + len(known.pooled) <= _MOST_SUBSETS_REMEMBERED:
                self.remembered[key] = known
        return known

    def _walked(self, high: Integers) -> Figures:
        n = 1 << self.n_low
        low = low_subsets(self.n_low)
        fits = self._fits(self.needed[high].sum(axis=0) + low @ self.needed[: self.n_low])
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, len(self.rows.starts)), np.int64)
        layout = self.starts, np.arange(self.n_always), self.beginning, self.tolerance, self._work
        score_dense(self.rows, high.astype(np.int64), self.n_low, *layout, log_ratio, pooled, ranks)
        return Figures.of(np.where(fits, log_ratio, np.nan), pooled, ranks, self.profiled)

    def _fits(self, needed: Integers) -> Mask:
        """(S,) whether every environment has rows enough for so many columns (S, E)"""
        return np.asarray((needed <= self.room).all(axis=1))

    def _one_by_one(self, masks: Mask, wanted: Mask) -> Figures:
        n, groups, most = int(wanted.sum()), len(self.rows.starts), len(self.rows.columns) + self.beginning.shape[1]
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, groups), np.int64)
        layout = self.starts, np.arange(self.n_always), self.beginning, self.tolerance, self._work
        score_lists(self.rows, masks[wanted], *layout, log_ratio, pooled, ranks, np.empty((n, groups, most)))
        every = np.full((len(Figures._fields), len(masks)), np.nan)
        every[:, wanted] = Figures.of(log_ratio, pooled, ranks, self.profiled)
        return Figures(*every)

    @property
    def _work(self) -> Work:
        return work_for(self.rows, len(self.rows.columns) + self.beginning.shape[1])


# How far a statistic must be above its limit for rounding to be no reason.
_MARGIN = 1.0 + 1e-6


@dataclass(frozen=True, eq=False)
class RegressionScreen:
    """A walk whose values are the weights of subsets; NaN where they cannot be compatible with invariance.

    n_forced: columns that are always in; weigh: gain (S,) of the pooled fit and its number of columns (S,) → weights.
    """

    model: RegressionModel
    walk: RegressionWalk
    tolerance: Tolerance
    n_forced: int
    weigh: Weigh

    @property
    def n_features(self) -> int:
        return self.walk.n_features

    @property
    def n_low(self) -> int:
        return self.walk.n_low

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        widths = np.diff(self.walk.starts)
        columns = widths[high].sum() + low_subsets(self.n_low) @ widths[: self.n_low]
        return self._weights(self.walk.dense_figures(high), columns)

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        figures = self.walk.listed_figures(prefix, max_size, sizes, members)
        widths = np.append(np.diff(self.walk.starts), 0)
        return self._weights(figures, widths[members].sum(axis=1))

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        self.walk.list_members(prefix, max_size, members)

    def _weights(self, figures: Figures, columns: Integers) -> Floats:
        """(S,) of subsets with so many free columns (S,)"""
        model, possible = self.model, ~np.isnan(figures.log_ratio)
        null = model.null_of(figures)
        tested = possible & (null.variance > 0.0)
        degrees = null.degrees[tested]
        deviance = -2.0 * (figures.log_ratio[tested] + model.walk_error)
        scaled = deviance * degrees / (-2.0 * null.expected[tested])
        distinct, group = np.unique(degrees, return_inverse=True)
        limits = largest_deviance(distinct, model.tolerated(self.tolerance), self.tolerance.level)
        possible[tested] = scaled <= _MARGIN * limits[group]
        weights = np.full(len(possible), np.nan)
        weights[possible] = self.weigh(figures.pooled[possible] - model.empty, self.n_forced + columns[possible])
        return weights


# Promised gains, in nats, below which fits count as done: those that are reported, and those of a walk over all.
REPORTED = 1e-10
IN_BULK = 1e-4
# The same where coefficients are read, whose error is about the root of it.
READ = 1e-15
# Largest error of log Λ that a walk may have: what each of its fits may leave is less by more than their number, and by
# more still without pseudo-data, since steps promise too little where rows are separated.
_WALK_ERROR = 1e-3
_SHARE, _SHARE_IF_SEPARATED = 0.25, 0.02
_MOST_AT_ONCE, _PARTS = 64, 8
# What guessing all flips of a subset costs, about.
_FITS_PER_GUESS = 10
# Steps of the linear Gaussian's dense walk in the time that a subset takes, about: for each row, and for each column of
# each fit.
_STEPS_PER_ROW, _STEPS_PER_COLUMN = 4.5, 25


class Scores(NamedTuple):
    """log_ratio, pooled (S,): log Λ and the pooled log-likelihood; ranks (S, E + 1): parameters that can be told apart;
    thetas (S, E + 1, K): of centred and scaled columns."""

    log_ratio: Floats
    pooled: Floats
    ranks: Integers
    thetas: Floats


class RegressionModel(LikelihoodRatioModel):
    """A regression tied to rows."""

    specification: Regression
    walk_error = _WALK_ERROR
    guesses_flips = True
    dense_advantage = 3

    def __init__(self, specification: Regression, data: MultiEnvironmentData, n_jobs: int | None = None) -> None:
        super().__init__(specification, data, n_jobs)
        self._order = specification.order(data)
        groups = [*(data.X[data.rows(e)] for e in range(data.n_environments)), data.X]
        # (E + 1, q) of each environment and of all rows
        self._centre = np.array([rows.mean(axis=0) for rows in groups])
        self._varies = np.array([np.ptp(rows, axis=0) > 0.0 for rows in groups])
        self._scale = np.array([rows.std(axis=0) for rows in groups])
        self._scale[~(self._varies & (self._scale > 0.0))] = 1.0
        self._walk: tuple[bytes, RegressionWalk] | None = None
        self._guessed: dict[bytes, FlipGuess] = {}

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_guessed": {}}

    @cached_property
    def problem(self) -> Rows:
        """The rows as kernels take them: after the intercept, if there is one, the columns in their order."""
        data, order, first = self.data, self._order, self.n_always
        columns = np.ones((2, first + data.features.n_columns, data.n_rows))
        columns[0, first:] = ((data.X - self._centre[-1]) / self._scale[-1])[order].T
        e = data.environment_index
        columns[1, first:] = (np.where(self._varies[e], data.X - self._centre[e], 0.0) / self._scale[e])[order].T
        shift = np.zeros((data.n_environments, columns.shape[1]))
        ratio = np.ones_like(shift)
        shift[:, first:] = (self._centre[:-1] - self._centre[-1]) / self._scale[-1]
        ratio[:, first:] = self._scale[:-1] / self._scale[-1]
        return self.specification.arrange(data, columns[0], order)._replace(own=Own(columns[1], shift, ratio))

    @cached_property
    def beginning(self) -> Floats:
        return self.specification.beginning(self.problem)

    @property
    def n_always(self) -> int:
        """Columns that are in every fit."""
        return int(self.specification.intercept)

    @property
    def compares(self) -> tuple[str, ...]:
        return *IN_MEAN, *self.specification.about_mean

    def tolerated(self, tolerance: Tolerance) -> float:
        """Half of what it is for a linear Gaussian model: of its outcome a row says about as much as half a row does
        there (with log odds, curvature of at most ¼ for noise of variance π²/3)."""
        return 0.5 * self.n_rows * tolerance.delta

    def judged_by(self, tolerance: Tolerance) -> str:
        return tolerance.told_without_tau("invariance")

    def remarks(self, masks: ArrayLike) -> Remarks:
        return remarks_of(self, as_masks(masks, self.n_features))

    @cached_property
    def largest_size(self) -> int:
        """As many features as leave every environment a row more than it has parameters."""
        each = (np.cumsum(np.sort(needed)) <= room for needed, room in zip(self._needed.T, self._room, strict=True))
        return min(int(enough.sum()) for enough in each)

    def check_max_size(self, max_size: int) -> None:
        if max_size > self.largest_size:
            e = int(np.argmin(self.data.counts))
            raise DataError(
                f"environment {self.data.environments[e]!r} has {self.data.counts[e]} rows, too few for subsets of "
                f"{max_size} features",
                use(" at most", max_size=self.largest_size),
            )

    # ---------------------------------------------------------------- scores

    def scores(self, masks: Mask, tolerance: float = REPORTED) -> Scores:
        """Of the subsets in masks (S, p), whatever their size."""
        problem, beginning = self.problem, self.beginning
        starts = self.n_always + self.features.starts
        always = np.arange(self.n_always)
        most = beginning.shape[1] + (int(self.features.expand(masks).sum(axis=1).max()) if len(masks) else 0)
        n_groups = len(problem.starts)

        at_once = min(max(-(-len(masks) // _PARTS), 1), _MOST_AT_ONCE)

        def part(first: int) -> Scores:
            chosen = np.ascontiguousarray(masks[first : first + at_once])
            n = len(chosen)
            out = Scores(
                np.empty(n), np.empty(n), np.empty((n, n_groups), np.int64), np.empty((n, n_groups, max(most, 1)))
            )
            score_lists(problem, chosen, starts, always, beginning, tolerance, work_for(problem, most), *out)
            return out

        parts = list(ordered_map(part, range(0, len(masks), at_once), self.n_jobs)) or [part(0)]
        return Scores(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _computed(self, masks: Mask) -> Figures:
        scores = self.scores(masks)
        log_ratio = np.where(self.supported(masks), scores.log_ratio, np.nan)
        return Figures.of(log_ratio, scores.pooled, scores.ranks, self.profiled)

    @cached_property
    def profiled(self) -> Integers:
        """(E + 1,) parameters of the fits in each environment and in the pool that stand in no array"""
        return self.specification.profiled(self.problem)

    def supported(self, masks: Mask) -> Mask:
        """(S,) whether every environment has rows enough for the subsets in masks (S, p)"""
        return np.asarray((masks.astype(np.int64) @ self._needed <= self._room).all(axis=1))

    @cached_property
    def _needed(self) -> Integers:
        """(p, E) columns of each feature that vary in an environment"""
        return np.add.reduceat(self._varies[:-1].astype(np.int64), self.features.starts[:-1], axis=1).T

    @cached_property
    def _room(self) -> Integers:
        """(E,) most columns of a subset that vary in an environment"""
        return np.asarray(self.data.counts - self.beginning.shape[1] - self.profiled[:-1] - 1)

    def rescore(self, masks: ArrayLike) -> Floats:
        return self.log_ratio_many(masks)

    def null_of(self, figures: Figures) -> Null:
        return self.specification.null(self.data.counts, figures)

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        chosen = as_masks(masks, self.n_features)
        outside = self.figures(chosen).log_ratio == -np.inf
        large = ~self.supported(chosen)
        found = Unsupported.without_value(chosen, outside, self.feature_names)
        endless = Unsupported.without_value(chosen, outside & ~large, self.feature_names)
        reasons = tuple(f"{reason}: a fit comes to no end" for reason in endless.reasons)
        if large.any():
            e = int(np.argmin(self._room))
            label, n_rows = self.data.environments[e], int(self.data.counts[e])
            reasons = (too_few_in(label, n_rows, int(self._room[e]), "columns"), *reasons)
        return Unsupported(large, endless.undecidable, found.features, reasons)

    # ---------------------------------------------------------------- neighbours

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """To second order around the fits of each subset: by score tests and Wald tests."""
        parts = list(ordered_map(self._guess, as_masks(masks, self.n_features), self.n_jobs))
        return FlipGuess(*(np.array(values) for values in zip(*parts, strict=True)))

    def _guess(self, mask: Mask) -> FlipGuess:
        """(p,) each, of a subset (p,)"""
        key = np.packbits(mask).tobytes()
        if key not in self._guessed:
            if len(self._guessed) >= _MOST_FLIPS_REMEMBERED:
                self._guessed = {}
            self._guessed[key] = self._guessed_of(mask)
        return self._guessed[key]

    def _guessed_of(self, mask: Mask) -> FlipGuess:
        problem, n_features, widths = self.problem, self.n_features, self.features.widths
        groups = len(problem.starts)
        log_ratio, pooled, ranks = np.empty(1), np.empty(1), np.empty((1, groups), np.int64)
        gains = np.empty((1, groups, n_features))
        work = work_for(problem, len(problem.columns) + self.beginning.shape[1])
        layout = mask[None], self.n_always + self.features.starts, np.arange(self.n_always), self.beginning
        guess_flips(problem, *layout, _ROUGHLY, work, log_ratio, pooled, ranks, gains)
        own, change = Figures.of(log_ratio, pooled, ranks, self.profiled), np.where(mask, -widths, widths)
        log_ratios = np.minimum(log_ratio + gains[0, -1] - gains[0, :-1].sum(axis=0), 0.0)
        # NaN: the fit of the subset itself comes to no end.
        known = self.supported(mask ^ np.eye(n_features, dtype=bool)) & ~np.isnan(log_ratios)
        figures = Figures(
            np.where(known, log_ratios, -np.inf),
            pooled + gains[0, -1],
            own.degrees + (groups - 2.0) * change,
            own.parameters + change,
        )
        null = self.null_of(figures)
        return FlipGuess(figures.log_ratio, figures.pooled - self.empty, null.expected, null.variance)

    def flip_neighbours(self, mask: Mask) -> Floats:
        """As they are guessed: no judgement rests on them."""
        chosen = as_masks(mask, self.n_features)
        now = self.log_ratio_many(chosen)[0]
        self.require_start(now, chosen)
        return self.guessed_flips(chosen).log_ratio[0] - now

    def flip_steps(self, size: float) -> float:
        return float(_FITS_PER_GUESS * self.steps_per_subset)

    # ---------------------------------------------------------------- one subset

    def fit(self, subset: Subset, local: bool = True) -> RegressionFit:
        mask = as_mask(subset, self.feature_names)
        self.require_fit(self.supported(mask[None])[0], mask)
        chosen = self.features.expand(mask)
        k, first = int(chosen.sum()), self.n_always
        scores = self.scores(mask[None], READ)
        self.require_fit(not np.isnan(scores.log_ratio[0]), mask)
        theta = scores.thetas[0]
        slopes = theta[:, first : first + k] / self._scale[:, chosen]
        intercepts = -(slopes * self._centre[:, chosen]).sum(axis=1) + (theta[:, 0] if first else 0.0)
        slopes[:-1][np.isnan(self._errors(chosen, theta)[:-1])] = np.nan
        columns, n_local = chosen_names(self.features.columns, chosen), len(slopes) - 1 if local else 0
        pooled, own = (slopes[-1], float(intercepts[-1])), (slopes[:n_local], intercepts[:n_local])
        fit = RegressionFit(columns, *pooled, *own, self.specification, theta[:, first + k :])
        return self.specification.finished(fit, self.problem)

    def _errors(self, chosen: Mask, thetas: Floats) -> Floats:
        """(E + 1, k) standard errors of the slopes of chosen columns (q,) at thetas (E + 1, K), from the second
        derivatives of the log-likelihood; NaN where a column does not vary, or is a combination of earlier ones."""
        k, first, problem = int(chosen.sum()), self.n_always, self.problem
        members = np.concatenate([np.arange(first), first + np.flatnonzero(chosen)])
        n, pool = k + self.beginning.shape[1], len(problem.starts) - 1
        work, inverse = work_for(problem, n), np.empty((n, n))
        values = np.full((pool + 1, k), np.nan)
        # The pool first: what is evaluated of an environment may go by it.
        for g in range(pool, -1, -1):
            groups = (g, g + 1) if g < pool else (0, pool)
            evaluate(problem, *groups, members, first + k, thetas[g], n, True, work)
            invert(work.hessian, first + k, n, inverse)
            variances = np.diagonal(inverse)[first : first + k]
            values[g] = np.sqrt(np.where(variances > 0.0, variances, np.nan)) / self._scale[g, chosen]
        return values

    def standard_errors(self, subset: Subset) -> StandardErrors:
        mask = as_mask(subset, self.feature_names)
        scores = self.scores(mask[None])
        rows = np.append(self.data.counts, self.data.n_rows)
        values = self._errors(self.features.expand(mask), scores.thetas[0])
        return StandardErrors(values, (rows - scores.ranks[0]).astype(float))

    # ---------------------------------------------------------------- all subsets

    def subset_walk(self, free: Integers, forced: Integers) -> RegressionWalk:
        asked = np.asarray(free, np.int64).tobytes() + b"|" + np.asarray(forced, np.int64).tobytes()
        if self._walk is None or self._walk[0] != asked:
            self._walk = asked, self._walk_over(free, forced)
        return self._walk[1]

    def _walk_over(self, free: Integers, forced: Integers) -> RegressionWalk:
        columns = self.features.columns_of(np.concatenate([forced, free]).astype(np.int64))
        kept = np.concatenate([np.arange(self.n_always), self.n_always + columns])
        n_always = self.n_always + int(self.features.widths[forced].sum())
        starts = n_always + np.concatenate([[0], np.cumsum(self.features.widths[free])]).astype(np.int64)
        rows = with_columns(self.problem, kept)
        beginning = np.zeros((len(rows.starts), n_always + self.beginning.shape[1] - self.n_always))
        beginning[:, : self.n_always] = self.beginning[:, : self.n_always]
        beginning[:, n_always:] = self.beginning[:, self.n_always :]
        room = self._room - self._needed[forced].sum(axis=0)
        share = _SHARE if self.specification.pseudo_rows > 0.0 else _SHARE_IF_SEPARATED
        tolerance = min(IN_BULK, _WALK_ERROR * share / len(rows.starts))
        return RegressionWalk(rows, starts, n_always, beginning, tolerance, self._needed[free], room, self.profiled)

    def screening_walk(self, free: Integers, forced: Integers, tolerance: Tolerance, weigh: Weigh) -> RegressionScreen:
        n_forced = int(self.features.widths[forced].sum())
        return RegressionScreen(self, self.subset_walk(free, forced), tolerance, n_forced, weigh)

    @property
    def steps_per_subset(self) -> int:
        n_groups, n_columns = self.data.n_environments + 1, self.features.n_columns
        return int(_STEPS_PER_ROW * self.data.n_rows + _STEPS_PER_COLUMN * n_groups * n_columns)


def environment_starts(data: MultiEnvironmentData) -> Integers:
    """(E + 1,) where the rows of each environment begin when they are sorted by environment"""
    return np.concatenate([[0], np.cumsum(data.counts)]).astype(np.int64)


def sums_by_environment(values: Floats, starts: Integers) -> Floats:
    """(E,) of values (N,) in that order"""
    return np.add.reduceat(values, starts[:-1])
