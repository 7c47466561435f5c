"""A regression tied to rows: log Λ of any subset, its law, its fits and all that engines ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.text import format_subset
from ..data.checks import listing
from ..data.features import Features, Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, SettingError
from ..kernels.likelihoods import Own, Rows, Work, evaluate, with_columns, work_for
from ..kernels.newton import guess_flips, invert, score_dense, score_lists
from ..moments.moments import Moments
from .base import IN_MEAN, BoundModel, Description, FlipGuess, NDArray32, Null, Prediction, Remarks, Weigh
from .gaussian_fit import StandardErrors, Unsupported, without_value
from .invariance_test import Tolerance, largest_deviance


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """As `Fit`: the pooled maximum and those of each environment, NaN for columns that are left out there.

    more (E + 1, r): parameters without a column, of each environment and, last, of the pool
    """

    specification: Regression
    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats
    more: Floats

    def mean(self, predictor: Floats) -> Floats:
        return self.specification.mean(predictor)

    def predict(self, X: Floats) -> Floats:
        return self.mean(X @ self.coefficients + self.intercept)


# A fit that explains less of the log-likelihood than this does not come near to separating the rows.
_NEARLY_ALL = 0.5
_R2 = "R² is by the likelihood: 1 − exp(−2·gain/N), of the gain over the fit without features (Cox and Snell)."


def remarks_of(model: RegressionModel, masks: Mask) -> Remarks:
    """On the rows, and on the subsets in masks (S, p), those first that matter most."""
    notes = (_events(model), _R2, *model.specification.remarks(model, masks))
    return Remarks(
        notes, tuple(sentence for sentence in (_without_events(model), _separating(model, masks)) if sentence)
    )


def _events(model: RegressionModel) -> str:
    data = model.data
    events = np.bincount(data.environment_index, model.specification.events(data), data.n_environments)
    fewest = np.argsort(events, kind="stable")
    each = listing(f"{data.environments[e]!r} {events[e]:,.0f} in {data.counts[e]:,}" for e in fewest)
    return f"{events.sum():,.0f} events in {data.n_rows:,} rows, the fewest first: {each}."


def _without_events(model: RegressionModel) -> str:
    data, specification = model.data, model.specification
    events = np.bincount(data.environment_index, specification.events(data), data.n_environments)
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
    return (
        f"{'; '.join(found)}: fits of its own {rest}. Merge it with a similar one, or leave it "
        "out, if that is not what you want to compare."
    )


def _separating(model: RegressionModel, masks: Mask) -> str:
    """That a subset tells the two values apart in all rows: then it looks invariant whatever the environments do."""
    if not model.specification.two_values:
        return ""
    found = [mask for mask in masks if separates(model, mask)]
    if not found:
        return ""
    names = format_subset([name for name, flag in zip(model.feature_names, found[0], strict=True) if flag])
    more = f" (and {len(found) - 1} more of the {len(masks)} leading subsets)" if len(found) > 1 else ""
    return (
        f"{names}{more} separates the two values of {model.data.outcome_name!r} in all rows: its log ratio then says "
        "nothing about invariance. Remove features that are copies or consequences of the outcome, or add rows."
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


_MOST_FITS_REMEMBERED = 500_000


class Figures(NamedTuple):
    """Of S subsets, (S,) each: log Λ, the pooled log-likelihood, the degrees of freedom of −2 log Λ, and the parameters
    of the pooled fit."""

    log_ratio: Floats
    pooled: Floats
    degrees: Floats
    parameters: Floats

    @classmethod
    def of(cls, log_ratio: Floats, pooled: Floats, ranks: Integers, profiled: Integers | int) -> Figures:
        """ranks (S, E + 1): parameters that can be told apart, of each environment and, last, of the pool; profiled:
        those of the fits, (E + 1,) or of each, that are not counted there."""
        parameters = (ranks + profiled).astype(float)
        degrees = parameters[:, :-1].sum(axis=1) - parameters[:, -1]
        return cls(log_ratio, pooled, degrees, parameters[:, -1])


class FigureMemory:
    """The figures that `compute` gives to subsets, masks (S, p), each asked for once.

    At most so many are remembered; with more, all are forgotten, and so they are in a copy by pickle.
    """

    def __init__(self, compute: Callable[[Mask], Figures], most: int = _MOST_FITS_REMEMBERED) -> None:
        self._compute, self._most = compute, most
        self._known: dict[bytes, tuple[float, ...]] = {}

    def figures(self, masks: Mask) -> Figures:
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            if len(known) + len(new) > self._most:
                known = self._known = {key: known[key] for key in keys if key in known}
            computed = self._compute(masks[list(new.values())])
            known.update(zip(new, zip(*(values.tolist() for values in computed), strict=True), strict=True))
        rows = np.array([known[key] for key in keys]).reshape(len(keys), len(Figures._fields))
        return Figures(*rows.T)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_known": {}}


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
        given = self.pseudo_rows
        if not isinstance(given, Real) or isinstance(given, bool) or not 0.0 <= given < np.inf:
            raise SettingError(f"pseudo_rows={given!r} is no weight: use a number of rows from 0 on.")

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
        """The law of log Λ of invariant subsets, from the rows (E,) of each environment. For many of them −2 log Λ is
        chi-square, with a degree of freedom for each parameter that may differ."""
        degrees = figures.degrees if len(counts) > 1 else np.zeros_like(figures.degrees)
        return Null(np.where(degrees > 0.0, -0.5 * degrees, -np.inf), 0.5 * degrees, degrees)

    def finished(self, fit: RegressionFit, rows: Rows) -> RegressionFit:
        """The fit with names for what else the model has."""
        return fit

    def shares(self, data: MultiEnvironmentData) -> Floats:
        """(E,) λ_e: by how much more than once each row of an environment counts."""
        return self.pseudo_rows / data.counts

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> RegressionModel:
        """Tie the model to data."""
        if isinstance(data, Moments):
            raise DataError(f"the {self.name} model needs the rows, and only moments are at hand: pass the data.")
        self.check(data)
        return self.tied(data, n_jobs)

    def tied(self, data: MultiEnvironmentData, n_jobs: int | None) -> RegressionModel:
        pass

        return RegressionModel(self, data, n_jobs)


# Promised gains below which fits that guesses start from count as done.
_ROUGHLY = 1e-2
_MOST_FLIPS_REMEMBERED = 2000


class FlipGuesses:
    """Those of a model, of which some are remembered."""

    def __init__(self, model: RegressionModel) -> None:
        self._model = model
        self._known: dict[bytes, FlipGuess] = {}

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_known": {}}

    def of(self, mask: Mask) -> FlipGuess:
        """(p,) each, of a subset (p,)"""
        key = np.packbits(mask).tobytes()
        known = self._known.get(key)
        if known is None:
            known = self._computed(mask)
            if len(self._known) >= _MOST_FLIPS_REMEMBERED:
                self._known = {}
            self._known[key] = known
        return known

    def _computed(self, mask: Mask) -> FlipGuess:
        model, problem = self._model, self._model.problem
        groups, n_features, widths = len(problem.starts), model.n_features, model.features.widths
        log_ratio, pooled, ranks = np.empty(1), np.empty(1), np.empty((1, groups), np.int64)
        gains = np.empty((1, groups, n_features))
        work = work_for(problem, len(problem.columns) + model.beginning.shape[1])
        layout = mask[None], model.n_always + model.features.starts, np.arange(model.n_always), model.beginning
        guess_flips(problem, *layout, _ROUGHLY, work, log_ratio, pooled, ranks, gains)
        own, change = Figures.of(log_ratio, pooled, ranks, model.profiled), np.where(mask, -widths, widths)
        log_ratios = np.minimum(log_ratio + gains[0, -1] - gains[0, :-1].sum(axis=0), 0.0)
        # NaN: the fit of the subset itself comes to no end.
        known = model.supported(mask ^ np.eye(n_features, dtype=bool)) & ~np.isnan(log_ratios)
        figures = Figures(
            np.where(known, log_ratios, -np.inf),
            pooled + gains[0, -1],
            own.degrees + (groups - 2.0) * change,
            own.parameters + change,
        )
        null = model.null_of(figures)
        return FlipGuess(figures.log_ratio, figures.pooled - model.empty, null.expected, null.variance)


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
        low = np.arange(n)[:, None] >> np.arange(self.n_low) & 1
        fits = self._fits(self.needed[high].sum(axis=0) + low @ self.needed[: self.n_low])
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, len(self.rows.starts)), np.int64)
        score_dense(
            self.rows,
            high.astype(np.int64),
            self.n_low,
            self.starts,
            np.arange(self.n_always),
            self.beginning,
            self.tolerance,
            self._work,
            log_ratio,
            pooled,
            ranks,
        )
        return Figures.of(np.where(fits, log_ratio, np.nan), pooled, ranks, self.profiled)

    def _fits(self, needed: Integers) -> Mask:
        """(S,) whether every environment has rows enough for so many columns (S, E)"""
        return np.asarray((needed <= self.room).all(axis=1))

    def _one_by_one(self, masks: Mask, wanted: Mask) -> Figures:
        n, groups, most = int(wanted.sum()), len(self.rows.starts), len(self.rows.columns) + self.beginning.shape[1]
        log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, groups), np.int64)
        score_lists(
            self.rows,
            masks[wanted],
            self.starts,
            np.arange(self.n_always),
            self.beginning,
            self.tolerance,
            self._work,
            log_ratio,
            pooled,
            ranks,
            np.empty((n, groups, most)),
        )
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
    """A walk whose values are what subsets weigh; NaN where they cannot be compatible with invariance.

    null: figures → the law of log Λ; error: by how much log Λ of the walk may be off; tolerated: noncentrality
    of −2 log Λ that is no reason against a subset at this level; empty: pooled log-likelihood
    without features; n_forced: columns that are always in; weigh: gain (S,) of the pooled fit and its number of columns
    (S,) → weights (S,).
    """

    walk: RegressionWalk
    null: Callable[[Figures], Null]
    error: float
    tolerated: float
    level: float
    empty: float
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
        low = np.arange(1 << self.n_low)[:, None] >> np.arange(self.n_low) & 1
        return self._weights(self.walk.dense_figures(high), widths[high].sum() + low @ widths[: self.n_low])

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        figures = self.walk.listed_figures(prefix, max_size, sizes, members)
        widths = np.append(np.diff(self.walk.starts), 0)
        return self._weights(figures, widths[members].sum(axis=1))

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        self.walk.list_members(prefix, max_size, members)

    def _weights(self, figures: Figures, columns: Integers) -> Floats:
        """(S,) of subsets with so many free columns (S,)"""
        possible = ~np.isnan(figures.log_ratio)
        null = self.null(figures)
        tested = possible & (null.variance > 0.0)
        degrees = null.degrees[tested]
        deviance = -2.0 * (figures.log_ratio[tested] + self.error)
        scaled = deviance * degrees / (-2.0 * null.expected[tested])
        distinct, group = np.unique(degrees, return_inverse=True)
        possible[tested] = scaled <= _MARGIN * largest_deviance(distinct, self.tolerated, self.level)[group]
        gain = figures.pooled[possible] - self.empty
        weights = np.full(len(possible), np.nan)
        weights[possible] = self.weigh(gain, self.n_forced + columns[possible])
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


class RegressionModel(BoundModel):
    """A regression tied to rows."""

    def __init__(self, specification: Regression, data: MultiEnvironmentData, n_jobs: int | None = None) -> None:
        self.specification = specification
        self.data = data
        self.n_jobs = n_jobs
        self._order = specification.order(data)
        groups = [*(data.X[data.rows(e)] for e in range(data.n_environments)), data.X]
        # (E + 1, q) of each environment and of all rows
        self._centre = np.array([rows.mean(axis=0) for rows in groups])
        self._varies = np.array([np.ptp(rows, axis=0) > 0.0 for rows in groups])
        self._scale = np.array([rows.std(axis=0) for rows in groups])
        self._scale[~(self._varies & (self._scale > 0.0))] = 1.0
        self._memory = FigureMemory(self._computed)
        self._walk: tuple[bytes, RegressionWalk] | None = None
        self._guesses = FlipGuesses(self)

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
    def features(self) -> Features:
        return self.data.features

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.data

    def describe(self) -> Description:
        data = self.data
        return Description(self.specification.name, data.outcome_name, data.environments, data.counts)

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
                f"{max_size} features: use max_size={self.largest_size} at most, or leave that environment out."
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
        return Figures.of(scores.log_ratio, scores.pooled, scores.ranks, self.profiled)

    def figures(self, masks: ArrayLike) -> Figures:
        """Of the subsets in masks (S, p), each fitted once; log Λ is -inf outside the support, and where a fit comes to
        no end."""
        chosen = as_masks(masks, self.n_features)
        figures = self._memory.figures(chosen)
        known = self.supported(chosen) & ~np.isnan(figures.log_ratio)
        return figures._replace(log_ratio=np.where(known, figures.log_ratio, -np.inf))

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

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self.figures(masks).log_ratio

    def rescore(self, masks: ArrayLike) -> Floats:
        return self.log_ratio_many(masks)

    @property
    def walk_error(self) -> float:
        return _WALK_ERROR

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        figures = self.figures(masks)
        gain = np.where(figures.log_ratio > -np.inf, figures.pooled - self.empty, -np.inf)
        return Prediction(gain, figures.parameters)

    @cached_property
    def empty(self) -> float:
        """Pooled log-likelihood of the empty subset"""
        return float(self._memory.figures(np.zeros((1, self.n_features), dtype=bool)).pooled[0])

    def null_many(self, masks: ArrayLike) -> Null:
        return self.null_of(self.figures(masks))

    def null_of(self, figures: Figures) -> Null:
        return self.specification.null(self.data.counts, figures)

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        chosen = as_masks(masks, self.n_features)
        outside = self.figures(chosen).log_ratio == -np.inf
        large = ~self.supported(chosen)
        found = without_value(chosen, outside, self.feature_names)
        endless = without_value(chosen, outside & ~large, self.feature_names)
        reasons = tuple(f"{reason}: a fit comes to no end" for reason in endless.reasons)
        if large.any():
            e = int(np.argmin(self._room))
            too_few = (
                f"environment {self.data.environments[e]!r} has {self.data.counts[e]} rows, too few to fit more than "
                f"{max(self._room[e], 0)} columns that vary there"
            )
            reasons = (too_few, *reasons)
        return Unsupported(large, endless.undecidable, found.features, reasons)

    # ---------------------------------------------------------------- neighbours

    @property
    def guesses_flips(self) -> bool:
        return True

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """To second order around the fits of each subset: by score tests and Wald tests."""
        parts = list(ordered_map(self._guesses.of, as_masks(masks, self.n_features), self.n_jobs))
        return FlipGuess(*(np.array(values) for values in zip(*parts, strict=True)))

    def flip_neighbours(self, mask: Mask) -> Floats:
        """As they are guessed: no judgement rests on them."""
        chosen = as_masks(mask, self.n_features)
        now = self.log_ratio_many(chosen)[0]
        if now == -np.inf:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(chosen)}.")
        return self.guessed_flips(chosen).log_ratio[0] - now

    def flip_steps(self, size: float) -> float:
        return float(_FITS_PER_GUESS * self.steps_per_subset)

    # ---------------------------------------------------------------- one subset

    def fit(self, subset: Subset, local: bool = True) -> RegressionFit:
        mask = as_mask(subset, self.feature_names)
        if not self.supported(mask[None])[0]:
            raise DataError(f"this subset cannot be fitted: {self.unsupported(mask)}.")
        chosen = self.features.expand(mask)
        k, first = int(chosen.sum()), self.n_always
        scores = self.scores(mask[None], READ)
        if np.isnan(scores.log_ratio[0]):
            raise DataError(f"this subset cannot be fitted: {self.unsupported(mask)}.")
        theta = scores.thetas[0]
        slopes = theta[:, first : first + k] / self._scale[:, chosen]
        intercepts = -(slopes * self._centre[:, chosen]).sum(axis=1) + (theta[:, 0] if first else 0.0)
        slopes[:-1][np.isnan(self._errors(chosen, theta)[:-1])] = np.nan
        fit = RegressionFit(
            self.specification,
            self.features.chosen(mask).columns,
            slopes[-1],
            float(intercepts[-1]),
            slopes[:-1] if local else slopes[:0],
            intercepts[:-1] if local else intercepts[:0],
            theta[:, first + k :],
        )
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
        walk, n_forced = self.subset_walk(free, forced), int(self.features.widths[forced].sum())
        law = self.null_of, _WALK_ERROR, self.tolerated(tolerance), tolerance.level
        return RegressionScreen(walk, *law, self.empty, n_forced, weigh)

    @property
    def steps_per_subset(self) -> int:
        n_groups, n_columns = self.data.n_environments + 1, self.features.n_columns
        return int(_STEPS_PER_ROW * self.data.n_rows + _STEPS_PER_COLUMN * n_groups * n_columns)

    @property
    def dense_advantage(self) -> int:
        return 3


def environment_starts(data: MultiEnvironmentData) -> Integers:
    """(E + 1,) where the rows of each environment begin when they are sorted by environment"""
    return np.concatenate([[0], np.cumsum(data.counts)]).astype(np.int64)


def sums_by_environment(values: Floats, starts: Integers) -> Floats:
    """(E,) of values (N,) in that order"""
    return np.add.reduceat(values, starts[:-1])
