"""Regressions by maximum likelihood in compiled code: the base, and logistic regression.

The conditionals p_e and g of equations 5 and 6 of the paper (Wu et al. 2025, arXiv:2506.22675) are
generalised linear models, fitted by Newton's method, once to each environment and once to the pool.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.text import format_subset, in_quotes
from ..data.checks import listing, with_counts
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, Message, use
from ..kernels.likelihoods import LOGISTIC, Own, Rows, Work, aligned, with_columns, work_for
from ..kernels.newton import CURVATURES, FLIPS, LIST, RESTS, WALK, regress
from .base import (
    IN_MEAN,
    NO_GAIN,
    EnvironmentData,
    Estimates,
    Fit,
    FlipGuess,
    Level,
    Memory,
    NDArray32,
    Null,
    Remarks,
    StandardErrors,
    SubsetWalk,
    Walked,
    check_number,
    in_parts,
    of_interest,
    rows_for,
)
from .gaussian import held_features
from .gaussian_fits import row_groups
from .invariance_test import MARGIN, Tolerance, deviance_test, without_spread
from .likelihood import Figures, LikelihoodRatioModel
from .separation import Pulls, infinite_coefficients

# Promised gains, in nats, below which fits count as done: those that are reported, and those of a
# walk over all.
REPORTED = 1e-10
IN_BULK = 1e-4
# The same where coefficients are read, whose error is about the root of it, and where guesses start
# from them.
READ = 1e-15
_ROUGHLY = 1e-2
# Largest error of log Λ that a walk may have: what each of its fits may leave is less by more than
# their number, and by more still without pseudo-data, since steps promise too little where rows are
# separated.
_WALK_ERROR = 1e-3
_SHARE = 0.25
_SHARE_IF_SEPARATED = 0.02
_MOST_AT_ONCE = 64
_PARTS = 8
# Blocks of a walk, which threads share, have the subsets of so many features at least; where there
# are more, 2 to this power of blocks are enough.
_FEWEST_LOW = 6
_MANY_BLOCKS = 6
_MOST_FLIPS_REMEMBERED = 2000
_MOST_RESTS_REMEMBERED = 100_000
_MOST_SUBSETS_REMEMBERED = 1 << 21
# What guessing all flips of a subset costs, about.
_FITS_PER_GUESS = 10
# Steps of the linear Gaussian's dense walk in the time that a subset takes, about: for each row,
# and for each column of each fit.
_STEPS_PER_ROW = 4.5
_STEPS_PER_COLUMN = 25
# Change of a linear predictor over the range of a column in standard errors' units: fits that come
# to no end leave far more open, and only where so much is open is it looked whether features
# separate the outcome.
_UNCERTAIN = 30.0
# A fit that explains less of the log-likelihood than this does not come near to separating the
# rows.
_NEARLY_ALL = 0.5
_MOST_REMEDIES = 3
_R2 = (
    "R² is by the likelihood: 1 − exp(−2·gain/N), of the gain over the fit without features "
    "(Cox and Snell)."
)


class RegressionWalk(SubsetWalk):
    """Walk over subsets by fits of lower precision, which the model remembers."""

    model: RegressionModel

    def __init__(
        self,
        model: RegressionModel,
        free: Integers,
        forced: Integers,
        tolerance: Tolerance | None = None,
    ) -> None:
        super().__init__(model, free, forced, tolerance)
        if self.n_low < len(free):
            self.n_low = min(self.n_low, max(_FEWEST_LOW, len(free) - _MANY_BLOCKS))
        first = model.n_always
        own = model.beginning
        widths = model.features.widths
        # Columns that are always in come first.
        n_always = first + int(widths[forced].sum())
        columns = model.features.columns_of(np.concatenate([forced, free]).astype(np.int64))
        self._rows = with_columns(
            model.problem, np.concatenate([np.arange(first), first + columns])
        )
        self._starts = n_always + np.concatenate([[0], np.cumsum(widths[free])]).astype(np.int64)
        self._beginning = np.insert(own, [first] * (n_always - first), 0.0, axis=1)
        share = _SHARE if model.specification.pseudo_rows > 0.0 else _SHARE_IF_SEPARATED
        self._tolerance = min(IN_BULK, _WALK_ERROR * share / len(own))

    def dense(self, high: Integers, sizes: Mask, least: Floats | None = None) -> Walked:
        draws = self.dense_draws(high)
        return self._known((high.tobytes(),), draws, least, lambda masks: self._walked(high, masks))

    def listed(
        self,
        prefix: Integers,
        max_size: int,
        sizes: Mask,
        members: NDArray32,
        least: Floats | None = None,
    ) -> Walked:
        draws = self.listed_draws(prefix, max_size, members)
        key = (prefix.tobytes(), max_size)
        return self._known(
            (*key, sizes.tobytes()), draws, least, lambda masks: self._one_by_one(masks, sizes)
        )

    def _known(
        self,
        block: tuple[Hashable, ...],
        draws: Mask,
        least: Floats | None,
        walk: Callable[[Mask], Figures],
    ) -> Walked:
        masks = self.of_all_features(draws)
        walked = self.model.walked
        key = self.free.tobytes(), self.forced.tobytes(), *block
        known = walked.get(key)
        if known is None:
            known = walk(masks)
            if (
                sum(len(figures.pooled) for figures in list(walked.values())) + len(masks)
                <= _MOST_SUBSETS_REMEMBERED
            ):
                walked[key] = known
        gain = (
            NO_GAIN
            if least is None
            else self._screened(known, masks @ self.model.features.widths, least)
        )
        return Walked(known.log_ratio, gain)

    def _screened(self, figures: Figures, columns: Integers, least: Floats) -> Floats:
        """Return gains (S,), NaN if the deviance is too large for compatible subsets of these
        columns (S,)."""
        model = self.model
        tolerance = self.tolerance
        assert tolerance is not None
        gain = np.where(np.isnan(figures.log_ratio), np.nan, figures.pooled - model.empty)
        gain = of_interest(gain, columns, least)
        asked = np.flatnonzero(~np.isnan(gain))
        null = model.null_of(Figures(*(values[asked] for values in figures)))
        tested = null.variance > 0.0
        asked = asked[null.variance > 0.0]
        deviance = np.maximum(-2.0 * (figures.log_ratio[asked] + model.walk_error), 0.0)
        allowed = model.tolerated(gain[asked] + model.walk_error, tolerance)
        p_values = deviance_test(
            deviance, -2.0 * null.expected[tested], null.degrees[tested], allowed
        )
        gain[asked[MARGIN * without_spread(p_values, tolerance) < tolerance.level]] = np.nan
        return gain

    def _walked(self, high: Integers, masks: Mask) -> Figures:
        most = len(self._rows.columns) + self._beginning.shape[1]
        log_ratio, pooled, ranks, _ = self.model.empty_scores(len(masks), 0)
        layout = (
            self._starts,
            np.arange(self._starts[0]),
            self._beginning,
            self._tolerance,
            work_for(self._rows, most),
        )
        found = {"log_ratio": log_ratio, "pooled": pooled, "ranks": ranks}
        regress(WALK, self._rows, masks[:0], *layout, high.astype(np.int64), self.n_low, **found)
        log_ratio[~self.model.supported(masks)] = np.nan
        return self.model.figures_of(log_ratio, pooled, ranks)

    def _one_by_one(self, masks: Mask, sizes: Mask) -> Figures:
        wanted = sizes[masks[:, self.free].sum(axis=1)] & self.model.supported(masks)
        every = np.full((len(Figures._fields), len(masks)), np.nan)
        every[:, wanted] = self.model.computed(masks[wanted], self._tolerance)
        return Figures(*every)


class Scores(NamedTuple):
    """log Λ and the pooled log-likelihood (S,); ranks (S, E + 1); thetas (S, E + 1, K): of scaled
    columns"""

    log_ratio: Floats
    pooled: Floats
    ranks: Integers
    thetas: Floats


class RegressionModel(LikelihoodRatioModel):
    """A regression tied to rows."""

    specification: Regression
    walk_error = _WALK_ERROR
    dense_advantage = 3
    judged = ("invariance", "rho")

    def __init__(
        self,
        specification: Regression,
        data: MultiEnvironmentData,
        n_jobs: int | None = None,
        level: Level = Level.full,
    ) -> None:
        super().__init__(specification, data, n_jobs, level)
        self.compares = self.compared((*IN_MEAN, *specification.about_mean))
        self.n_always = int(specification.intercept)  # columns that are in every fit
        self._order = specification.order(data, self.free)
        groups = [data.X[rows] for rows in row_groups(data)]
        # (E + 1, q) of each environment and of all rows
        self._centre = np.array([rows.mean(axis=0) for rows in groups])
        self._varies = np.array([np.ptp(rows, axis=0) > 0.0 for rows in groups])
        self._scale = np.array([rows.std(axis=0) for rows in groups])
        if self.free:
            self._scale[-1] = np.sqrt(data.counts @ self._scale[:-1] ** 2 / data.n_rows)
        self._scale[~(self._varies & (self._scale > 0.0))] = 1.0
        self.walked: dict[tuple[Hashable, ...], Figures] = {}
        self._guessed, self._rests = Memory(_MOST_FLIPS_REMEMBERED), Memory(_MOST_RESTS_REMEMBERED)

    def __getstate__(self) -> dict[str, object]:
        """Without what is remembered."""
        return vars(self) | {"walked": {}}

    def against_the_rest(self, masks: Mask) -> Iterator[tuple[Floats, Null]]:
        """Yield comparisons as the environments' own fits have them, with the pseudo-data of each.

        With free baselines each of the others has its own.
        """
        found = np.array(self._rests.of(masks, self._compared))
        others = np.array([0, self.n_environments - 2]) if self.free else 0
        for e, n in enumerate(self.data.counts):
            log_ratio, degrees, parameters = found[:, :, e].T
            figures = Figures(log_ratio, np.full(len(masks), np.nan), degrees, parameters)
            yield log_ratio, self.null_of(figures, np.array([n, self.data.n_rows - n]), others)

    def _compared(self, masks: Mask) -> Floats:
        """Return log Λ, its degrees of freedom and the parameters of the pooled fit, (S, 3, E)."""
        problem = self.problem
        beginning = self.beginning
        E = self.data.n_environments
        most = beginning.shape[1] + int(self.features.expand(masks).sum(axis=1).max())
        found = np.empty((len(masks), 3, E))
        sizes = ((E, float), (E + 1, np.int64), (E, np.int64))

        def one(part: slice) -> None:
            log_ratio, ranks, rests = (np.empty((len(masks[part]), n), kind) for n, kind in sizes)
            given = *self._layout, beginning, IN_BULK, work_for(problem, most)
            regress(
                RESTS, problem, masks[part], *given, against=log_ratio, ranks=ranks, rests=rests
            )
            parameters = ranks + self.profiled
            others = rests + self.profiled_rests
            pooled = np.broadcast_to(parameters[:, -1:], log_ratio.shape)
            found[part] = np.stack(
                [log_ratio, parameters[:, :-1] + others - pooled, pooled], axis=1
            )

        in_parts(len(masks), self.n_jobs, one, 1)
        return found

    @cached_property
    def problem(self) -> Rows:
        """The rows as kernels take them: after the intercept, if there is one, the columns in their
        order. With free baselines, which take up any shift, they are centred within
        environments."""
        data = self.data
        order = self._order
        first = self.n_always
        columns = np.ones((2, first + data.features.n_columns, data.n_rows))
        e = data.environment_index
        within = np.where(self._varies[e], data.X - self._centre[e], 0.0)
        common = within if self.free else data.X - self._centre[-1]
        columns[0, first:] = (common / self._scale[-1])[order].T
        columns[1, first:] = (within / self._scale[e])[order].T
        shift = np.zeros((data.n_environments, columns.shape[1]))
        ratio = np.ones_like(shift)
        if not self.free:
            shift[:, first:] = (self._centre[:-1] - self._centre[-1]) / self._scale[-1]
        ratio[:, first:] = self._scale[:-1] / self._scale[-1]
        own = Own(aligned(columns[1]), shift, ratio)
        rows = self.specification.arrange(data, aligned(columns[0]), order, self.free)
        return rows._replace(own=own, free=self.free)

    @cached_property
    def beginning(self) -> Floats:
        return self.specification.beginning(self.problem)

    def remarks(self, masks: ArrayLike) -> Remarks:
        data = self.data
        specification = self.specification
        alarms = []
        leading = as_masks(masks, self.n_features)
        events = np.bincount(
            data.environment_index, specification.events(data), data.n_environments
        ).astype(float)
        rarer = np.minimum(events, data.counts - events) if specification.two_values else events
        each = listing(
            f"{in_quotes(data.environments[e])} {events[e]:,.0f} in {data.counts[e]:,}"
            for e in np.argsort(rarer, kind="stable")
        )
        either = " events or rows without one" if specification.two_values else ""
        counted = (
            f"{events.sum():,.0f} events in {data.n_rows:,} rows, the fewest{either} first: {each}."
        )
        alike = (events == 0.0) | (specification.two_values & (events == data.counts))
        if alike.any():
            labels = with_counts(data.environments, np.where(alike, data.counts, 0))
            what = f"in environment {labels} no row, or every one, is an event"
            alarms.append(f"{what}: merge it with a similar one, or leave it out.")
        separating = next(
            (mask for mask in leading if specification.two_values and separates(self, mask)), None
        )
        if separating is not None:
            names = self.features.chosen(_fewest_separating(self, separating)).names
            what = (
                f"{format_subset(names)} separates the two values of {data.outcome_name!r} in "
                "all rows"
            )
            what = (
                f"{what}, and its log ratio says nothing about invariance. Add rows, or leave "
                "out what is a copy or"
            )
            exclude = (use(exclude=[name]) for name in names[:_MOST_REMEDIES])
            alarms.append(Message(f"{what} consequence of the outcome", *exclude))
        return Remarks((counted, _R2, *specification.remarks(self, leading)), tuple(alarms))

    @property
    def _layout(self) -> tuple[Integers, Integers]:
        """Return the first column of each feature, and the columns that are always included."""
        return self.n_always + self.features.starts, np.arange(self.n_always)

    def empty_scores(self, n: int, most: int) -> Scores:
        """Return empty scores of n subsets with at most a number of parameters."""
        n_groups = len(self.problem.starts)
        ranks = np.empty((n, n_groups), np.int64)
        thetas = np.empty((n, n_groups, max(most, 1)))
        return Scores(np.empty(n), np.empty(n), ranks, thetas)

    def scores(self, masks: Mask, tolerance: float = REPORTED) -> Scores:
        """Return the scores of the subsets in masks (S, p), whatever their size."""
        n = len(masks)
        beginning = self.beginning
        most = beginning.shape[1] + int(self.features.expand(masks).sum(axis=1).max(initial=0))
        at_once = min(max(-(-n // _PARTS), 1), _MOST_AT_ONCE)
        scores = self.empty_scores(n, most)

        def one(first: int) -> None:
            part = slice(first, first + at_once)
            work = work_for(self.problem, most)
            found = {name: values[part] for name, values in scores._asdict().items()}
            regress(
                LIST, self.problem, masks[part], *self._layout, beginning, tolerance, work, **found
            )

        for _ in ordered_map(one, range(0, n, at_once), self.n_jobs):
            pass
        return scores

    def computed(self, masks: Mask, tolerance: float = REPORTED) -> Figures:
        scores = self.scores(masks, tolerance)
        log_ratio = np.where(self.supported(masks), scores.log_ratio, np.nan)
        return self.figures_of(log_ratio, scores.pooled, scores.ranks)

    def figures_of(self, log_ratio: Floats, pooled: Floats, ranks: Integers) -> Figures:
        """Return the figures; with free baselines log Λ is exactly 0 if nothing else could
        differ."""
        figures = Figures.of(log_ratio, pooled, ranks, self.profiled)
        same = self.free & (figures.degrees == 0.0) & ~np.isnan(log_ratio)
        return figures._replace(log_ratio=np.where(same, 0.0, log_ratio))

    def null_of(
        self, figures: Figures, counts: Integers | None = None, others: Integers | int = 0
    ) -> Null:
        """Return the distribution of log Λ under invariance.

        With free baselines small environments inflate −2 log Λ, and their pseudo-data shrink it: of
        k slopes beside b baselines in n rows with m more of pseudo-data each fit explains k·(1 + (k
        + b)/n)/(1 + mb/n), but for counts k/(1 + mb/n); with many rows it is k.
        """
        null = super().null_of(figures, counts, others)
        if not self.free:
            return null
        own = self.data.counts if counts is None else counts
        n = np.append(own, self.data.n_rows).astype(float)
        b = np.append(1.0 + np.broadcast_to(others, len(own)), self.n_environments)
        k = figures.parameters - self.n_environments
        # The slopes that an environment identifies, on average
        slopes = np.column_stack(
            [np.tile(((figures.degrees + k) / len(own))[:, None], len(own)), k]
        )
        inflated = n + self.specification.inflation * (slopes + b)
        explained = slopes * inflated / (n + self.specification.pseudo_rows * b)
        unit = np.divide(
            explained[:, :-1].sum(axis=1) - explained[:, -1],
            null.degrees,
            np.ones(len(k)),
            where=null.degrees > 0.0,
        )
        return null._replace(expected=null.expected * unit, variance=null.variance * unit**2)

    @property
    def least_unit(self) -> float:  # type: ignore[override]
        shrunk = 2.0 * self.specification.pseudo_rows / float(self.data.counts.min())
        return max(1.0 - shrunk, 0.0) if self.free else 1.0

    @cached_property
    def profiled(self) -> Integers:
        """Return the parameters (E + 1,) of the fits that are maximised out, beside a level.

        They are of each environment and of the pool.
        """
        return np.append(np.zeros(self.n_environments, np.int64), max(self.n_baselines - 1, 0))

    @cached_property
    def profiled_rests(self) -> Integers:
        """Return the same (E,) of fits to all rows outside an environment."""
        return np.full(self.n_environments, max(self.n_baselines - 2, 0))

    @property
    def always(self) -> Integers:
        return np.asarray(self.beginning.shape[1] + self.profiled[:-1])

    def in_support(self, masks: Mask) -> Mask:
        """Return which subsets are in the support, by the rows alone if pseudo-data keep fits
        finite."""
        return (
            self.supported(masks) if self.specification.pseudo_rows else super().in_support(masks)
        )

    def rescore(self, masks: ArrayLike) -> Floats:
        return self.log_ratio_many(masks)

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """Return guesses to second order around the fits of each subset: score tests and Wald
        tests."""
        chosen = as_masks(masks, self.n_features)
        parts = self._guessed.of(chosen, lambda new: ordered_map(self._guess, new, self.n_jobs))
        return FlipGuess(*(np.array(values) for values in zip(*parts, strict=True)))

    def _guess(self, mask: Mask) -> FlipGuess:
        """Return guesses (p,) for a subset (p,)."""
        problem = self.problem
        beginning = self.beginning
        widths = self.features.widths
        most = len(problem.columns) + beginning.shape[1]
        groups = len(problem.starts)
        work = work_for(problem, most)
        scores = self.empty_scores(1, most)
        gains = np.empty((groups, self.n_features))
        given = problem, mask[None], *self._layout, beginning, _ROUGHLY, work
        regress(LIST, *given, **scores._asdict())
        regress(FLIPS, *given, thetas=scores.thetas, gains=gains)
        own = self.figures_of(*scores[:3])
        change = np.where(mask, -widths, widths)
        log_ratios = np.minimum(own.log_ratio + gains[-1] - gains[:-1].sum(axis=0), 0.0)
        # NaN: the fit of the subset itself comes to no end.
        known = self.supported(mask ^ np.eye(self.n_features, dtype=bool)) & ~np.isnan(log_ratios)
        log_ratios = np.where(known, log_ratios, -np.inf)
        degrees = own.degrees + (groups - 2.0) * change
        pooled = own.pooled + gains[-1]
        null = self.null_of(Figures(log_ratios, pooled, degrees, own.parameters + change))
        return FlipGuess(log_ratios, pooled - self.empty, null.expected, null.variance)

    def flip_neighbours(self, mask: Mask) -> Floats:
        """Return guessed changes, which are not used for tests."""
        chosen = as_masks(mask, self.n_features)
        now = self.log_ratio_many(chosen)[0]
        self.require(now > -np.inf, chosen)
        return self.guessed_flips(chosen).log_ratio[0] - now

    def flip_steps(self, size: float) -> float:
        return float(_FITS_PER_GUESS * self.steps_per_subset)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """One subset; with free baselines the slopes of the stratified fit, and as intercept the
        mean baseline: the environments' own intercepts weighted by rows (times to an event: see
        `baselines`)."""
        mask = as_mask(subset, self.feature_names)
        self.require(self.supported(mask[None])[0], mask)
        chosen = self.features.expand(mask)
        first = self.n_always
        scores = self.scores(mask[None], READ)
        self.require(not np.isnan(scores.log_ratio[0]), mask)
        theta = scores.thetas[0]
        inverses, work = self._curvatures(chosen, theta)
        if self.free and first:
            theta[-1, 0] = np.average(work.levels, weights=self.data.counts)
        slopes = self.slopes(chosen, theta)
        intercepts = -(slopes * self._centre[:, chosen]).sum(axis=1) + (
            theta[:, 0] if first else 0.0
        )
        slopes[:-1][np.isnan(self._errors(chosen, inverses)[:-1])] = np.nan
        columns = self.features.chosen(mask).columns
        n_local = len(slopes) - 1 if local else 0
        own = slopes[:n_local], intercepts[:n_local]
        return Fit(columns, slopes[-1], float(intercepts[-1]), *own, self.specification)

    def slopes(self, chosen: Mask, thetas: Floats) -> Floats:
        """(E + 1, k) per unit of columns (q,) at thetas (E + 1, K)"""
        first = self.n_always
        return np.asarray(thetas[:, first : first + int(chosen.sum())] / self._scale[:, chosen])

    def _curvatures(self, chosen: Mask, thetas: Floats) -> tuple[Floats, Work]:
        """Return inverses (m, n, n) of minus the second derivatives, and the pool's last
        evaluation.

        They are at thetas (m, K) of columns (q,), in the last m of the environments and the pool.
        """
        problem = self.problem
        first = self.n_always
        n = int(chosen.sum()) + self.beginning.shape[1]
        members = np.concatenate([np.arange(first), first + np.flatnonzero(chosen)])
        inverses = np.empty((len(thetas), n, n))
        work = work_for(problem, n)
        given = members[None, :0] > 0, members, members, thetas[:, :n].copy(), 0.0, work
        regress(CURVATURES, problem, *given, inverses=inverses)
        return inverses, work

    def _errors(self, chosen: Mask, inverses: Floats) -> Floats:
        """Return standard errors (E + 1, k) of the slopes of columns (q,); NaN if constant or
        dependent."""
        slopes = slice(self.n_always, self.n_always + int(chosen.sum()))
        variances = np.diagonal(inverses, axis1=1, axis2=2)[:, slopes]
        return np.asarray(
            np.sqrt(np.where(variances > 0.0, variances, np.nan)) / self._scale[:, chosen]
        )

    def standard_errors(self, subset: Subset) -> StandardErrors:
        mask = as_mask(subset, self.feature_names)
        chosen = self.features.expand(mask)
        scores = self.scores(mask[None])
        rows = np.append(self.data.counts, self.data.n_rows)
        rows[-1] -= self.n_always * max(self.n_baselines - 1, 0)
        values = self._errors(chosen, self._curvatures(chosen, scores.thetas[0])[0])
        return StandardErrors(values, (rows - scores.ranks[0]).astype(float))

    def spread_of_slopes(self, mask: Mask) -> tuple[float, float, float]:
        """Return Q = Σ(b_e − b)'V_e⁻¹(b_e − b) of the slopes b_e of a subset (p,) in each
        environment, with covariances V_e and mean b by their inverses, its mean if they are the
        same, and its degrees of freedom: of k slopes in n rows the mean is n/(n − k − 3) times
        these, as with a scatter that is estimated in each environment."""
        chosen = self.features.expand(mask)
        k = int(chosen.sum())
        thetas = self.scores(mask[None], READ).thetas[0]
        own = slice(self.n_always, self.n_always + k)
        covariances = self._curvatures(chosen, thetas)[0][:-1, own, own]
        # Per unit of scaled columns, which are the same in all environments
        ratio = self._scale[-1, chosen] / self._scale[:-1, chosen]
        precisions = np.linalg.pinv(
            covariances * ratio[:, :, None] * ratio[:, None], hermitian=True
        )
        slopes = thetas[:-1, own] * ratio
        weighted = np.einsum("eab,eb->ea", precisions, slopes)
        total = precisions.sum(axis=0)
        around = slopes - np.linalg.pinv(total, hermitian=True) @ weighted.sum(axis=0)
        ranks = np.linalg.matrix_rank(np.concatenate([precisions, total[None]]), hermitian=True)
        q = float(np.einsum("ea,eab,eb->", around, precisions, around))
        degrees = float(ranks[:-1].sum() - ranks[-1])
        left = np.maximum(self.data.counts - ranks[:-1] - 3.0, 1.0)
        return q, degrees * float(np.mean(self.data.counts / left)), degrees

    def estimates(self, subset: Subset) -> Estimates:
        """Without pseudo-data, unless features separate the outcome of an environment, or of all
        rows."""
        mask = as_mask(subset, self.feature_names)
        penalised = super().estimates(mask)
        events = np.bincount(
            self.data.environment_index, self.specification.events(self.data), self.n_environments
        )
        alike = (events == 0.0) | (self.specification.two_values & (events == self.data.counts))
        values, errors, infinite = self._without_pseudo_data(mask)._plain()
        known = np.isfinite(penalised.values) & np.isfinite(penalised.errors)
        infinite = known & (infinite | ~np.isfinite(values) | ~np.isfinite(errors))
        # Without pseudo-data of its own the model has no other estimate.
        instead = (
            (penalised.values, penalised.errors)
            if self.specification.pseudo_rows
            else (np.nan, np.nan)
        )
        values = np.where(known, np.where(infinite, instead[0], values), penalised.values)
        errors = np.where(known, np.where(infinite, instead[1], errors), penalised.errors)
        return Estimates(values, errors, penalised.freedom, infinite, np.append(alike, False))

    def plain_maximum(self, mask: Mask) -> float:
        """Return the pooled log-likelihood of a subset (p,) without pseudo-data; NaN if the fit
        comes to no end."""
        held = held_features(mask[None])
        return float(self._without_pseudo_data(held).scores(mask[None][:, held]).pooled[0])

    def _without_pseudo_data(self, mask: Mask) -> RegressionModel:
        """Return the model of the columns of a subset (p,) alone, at the same level, whose fits may
        have no maximum."""
        plain = replace(self.specification, pseudo_rows=0.0)
        bare = self.specification.model(plain, self.data.narrowed(mask), self.n_jobs).at_level(
            self.level
        )
        assert isinstance(bare, RegressionModel)
        return bare

    def _plain(self) -> tuple[Floats, Floats, Mask]:
        """Return slopes of all columns, their errors, and which of them are infinite, (E + 1, k)
        each."""
        every = np.ones(self.features.n_columns, dtype=bool)
        thetas = self.scores(np.ones((1, self.n_features), dtype=bool), READ).thetas[0]
        slopes = self.slopes(every, thetas)
        errors = self._errors(every, self._curvatures(every, thetas)[0])
        ranges = np.array([np.ptp(self.data.X[rows], axis=0) for rows in row_groups(self.data)])
        uncertain = ~(errors * ranges < _UNCERTAIN).all(axis=1)
        infinite = np.zeros(slopes.shape, dtype=bool)
        for group in np.flatnonzero(uncertain):
            infinite[group] = self._infinite(int(group))
        return slopes, errors, infinite

    def _infinite(self, group: int) -> Mask:
        """Return which of all columns (k,) have no finite slope in an environment or, of the last
        group, the pool."""
        data = self.data
        pooled = group == self.n_environments
        rows, direction, baseline = self.specification.pulls(data, pooled)
        place = data.environment_index[rows]
        if pooled and self.level is not Level.full:
            baseline = baseline * self.n_environments + place
        inside = np.full(len(rows), pooled) | (place == group)
        return infinite_coefficients(data.X[rows[inside]], direction[inside], baseline[inside])

    def baselines(self, subset: Subset) -> tuple[Floats, Floats]:
        """Return the baseline of each environment on the scale of the link, and its standard error.

        By the stratified fit, of a row with the mean of each column over all rows. The intercept of
        `fit(subset)` is their mean, weighted by rows, less the coefficients at these means.

        Returns
        -------
        values, errors : ndarray of shape (n_environments,)
        """
        mask = as_mask(subset, self.feature_names)
        self.require_free_baselines()
        chosen = self.features.expand(mask)
        theta = self.scores(mask[None], READ).thetas[0, -1]
        (inverse,), work = self._curvatures(chosen, theta[None])
        # From the means of an environment to those of all rows
        away = (self._centre[-1, chosen] - self._centre[:-1, chosen]) / self._scale[-1, chosen]
        values = work.levels + away @ theta[1 : 1 + away.shape[1]]
        slopes = -work.cross[:, 1:]
        slopes[:, : away.shape[1]] += away
        variances = 1.0 / work.cross[:, 0] + np.einsum(
            "ea,ab,eb->e", slopes, inverse[1:, 1:], slopes
        )
        return values, np.sqrt(variances)

    def subset_walk(
        self, free: Integers, forced: Integers, tolerance: Tolerance | None = None
    ) -> RegressionWalk:
        return RegressionWalk(self, free, forced, tolerance)

    @property
    def steps_per_subset(self) -> int:
        n_groups = self.data.n_environments + 1
        n_columns = self.features.n_columns
        return int(_STEPS_PER_ROW * self.data.n_rows + _STEPS_PER_COLUMN * n_groups * n_columns)


def separates(model: RegressionModel, mask: Mask) -> bool:
    """Return whether the columns of a subset (p,) separate the values of the outcome.

    A plane is then between all rows with one value and all with the other, so that the subset looks
    invariant whatever the environments are. With free baselines each environment may have a plane
    parallel to it.
    """
    data = model.data
    fit = model.fit(mask, local=False)
    event = model.specification.events(data) > 0.0
    X = data.X[:, data.features.expand(mask)]
    strata = data.environment_index if model.free else np.zeros(data.n_rows, np.intp)
    lowest = np.full(strata.max() + 1, np.inf)
    highest = np.full(strata.max() + 1, -np.inf)
    predictor = X @ fit.coefficients + fit.intercept
    np.minimum.at(lowest, strata[event], predictor[event])
    np.maximum.at(highest, strata[~event], predictor[~event])
    if (lowest > highest).all():
        return True
    if model.gain_many(mask)[0] <= -_NEARLY_ALL * model.empty:
        return False
    from scipy.optimize import linprog

    scale = X.std(axis=0)
    levels = (strata[:, None] == np.arange(len(lowest))).astype(float)
    columns = np.column_stack([levels, (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)])
    signed = np.where(event, -1.0, 1.0)[:, None] * columns
    found = linprog(
        np.zeros(columns.shape[1]), signed, -np.ones(len(X)), bounds=(None, None), method="highs"
    )
    return bool(found.status == 0)


def _fewest_separating(model: RegressionModel, mask: Mask) -> Mask:
    """A part of a subset (p,) that separates the rows too, and without any of its features does
    not"""
    for j in np.flatnonzero(mask):
        fewer = mask & (np.arange(len(mask)) != j)
        if fewer.any() and separates(model, fewer):
            mask = fewer
    return mask


@dataclass(frozen=True)
class Regression(ABC):
    """Base of specifications: the outcome's law given intercept + coefficients · columns of z, by
    maximum likelihood; `mean` gives the expected outcome (n,) there, unless a fit of its own does.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is the
        pooled mean, or what the pooled fit expects; 0: none
    """

    pseudo_rows: float = 1.0

    name: ClassVar[str]
    model: ClassVar[type[RegressionModel]] = RegressionModel  #: :meta private:
    intercept: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ()  # what the model uses of that which comes with an outcome
    about_mean: ClassVar[
        tuple[str, ...]
    ] = ()  # what each environment has of its own beside intercept and slopes
    two_values: ClassVar[bool] = False  # whether features may separate the outcome
    inflation: ClassVar[float] = (
        1.0  # by small environments of −2 log Λ with free baselines, in parameters per row
    )

    def __post_init__(self) -> None:
        check_number(self, "pseudo_rows", "number of rows")

    @abstractmethod
    def check(self, data: MultiEnvironmentData) -> None:
        """Raise DataError where the outcome is not of the kind that this model is for."""

    @abstractmethod
    def arrange(
        self, data: MultiEnvironmentData, columns: Floats, order: Integers, free: bool = False
    ) -> Rows:
        """The rows `order` (N,) of the data as kernels take them; columns (q, N): in this order
        already. free: whether pseudo-data go by the mean of each environment, not by that of all
        rows"""

    @abstractmethod
    def beginning(self, rows: Rows) -> Floats:
        """Return rough parameters (E + 1, r) of the empty subset: any intercept, then those without
        a column."""

    def events(self, data: MultiEnvironmentData) -> Floats:
        """Return how many events each row is, (N,); every environment must have some."""
        return data.y

    def working_outcome(self, data: MultiEnvironmentData) -> Floats:
        """Return numbers (N,) whose least squares show how coefficients differ between
        environments."""
        return self.events(data)

    @abstractmethod
    def pulls(self, data: MultiEnvironmentData, pooled: bool) -> Pulls:
        """Return where the likelihood rises without end; pooled : of the fit to all rows, not of
        one environment."""

    def remarks(self, model: RegressionModel, masks: Mask) -> tuple[str, ...]:
        """Sentences on the leading subsets, masks (S, p), beside those of all regressions."""
        return ()

    def order(self, data: MultiEnvironmentData, free: bool = False) -> Integers:
        """Return rows (N,) by environment, and within each as the kernel needs them.

        free : whether baselines are
        """
        return np.argsort(data.environment_index, kind="stable").astype(np.int64)

    def shares(self, data: MultiEnvironmentData) -> Floats:
        """Return λ_e (E,): by how much more than once each row of an environment counts."""
        return self.pseudo_rows / data.counts

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> RegressionModel:
        """Tie the model to data."""
        rows = rows_for(self.name, data)
        self.check(rows)
        return self.model(self, rows, n_jobs)


@dataclass(frozen=True)
class Logistic(Regression):
    """Model two classes by logistic regression on the selected columns.

    The log odds of the larger of the two values are linear in the columns of z, fitted by maximum
    likelihood in the pool and in each environment::

        y | x^z ~ Bernoulli(sigmoid(b + β'x^z))

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Weight, in rows, of the pseudo-data of each environment, whose outcome is the pooled mean.
        They keep fits finite if features separate the classes or an environment has one class only.
        0 is without pseudo-data.

    References
    ----------
    Albert, A. and Anderson, J. A. (1984), On the existence of maximum likelihood estimates in
    logistic regression models, Biometrika 71, 1-10, doi:10.1093/biomet/71.1.1.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance import BIP, Logistic
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> high = (data.y > np.median(data.y)).astype(float)
    >>> model = BIP(Logistic()).fit(data.X, high, environments=data.environment_index)
    >>> model.get_support(indices=True).tolist()
    [0, 2, 3]
    """

    name: ClassVar[str] = "logistic"
    kind: ClassVar[str] = "class"
    link: ClassVar[str] = "logit"
    two_values: ClassVar[bool] = True

    def check(self, data: MultiEnvironmentData) -> None:
        values = np.unique(data.y)
        if len(values) != 2:
            what = (
                "the logistic model is for outcomes with two values, and "
                f"{data.outcome_name!r} has {len(values):,}"
            )
            raise DataError(f"{what}, such as {values[0]:g}", use(family="auto"))

    def events(self, data: MultiEnvironmentData) -> Floats:
        return (data.y == data.y.max()).astype(float)

    def pulls(self, data: MultiEnvironmentData, pooled: bool) -> Pulls:
        """An event pulls up, every other row down."""
        direction = np.where(self.events(data) > 0.0, 1.0, -1.0)
        return Pulls(np.arange(data.n_rows), direction, np.zeros(data.n_rows, dtype=np.intp))

    def arrange(
        self, data: MultiEnvironmentData, columns: Floats, order: Integers, free: bool = False
    ) -> Rows:
        y = self.events(data)
        extra = self.shares(data)[data.environment_index]
        mean = (
            y.mean()
            * baseline_ratios(data, y, np.full(len(y), y.mean()), free)[data.environment_index]
        )
        return Rows(
            LOGISTIC,
            columns,
            environment_starts(data),
            (y + extra * mean)[order],
            (1.0 + extra)[order],
        )

    def beginning(self, rows: Rows) -> Floats:
        share = (sums_of_groups(rows.outcome, rows.starts) + 0.5) / (
            sums_of_groups(rows.weight, rows.starts) + 1.0
        )
        return np.asarray(logit(share))[:, None]

    def mean(self, predictor: Floats) -> Floats:
        return np.asarray(expit(predictor))


def baseline_ratios(
    data: MultiEnvironmentData, events: Floats, expected: Floats, free: bool
) -> Floats:
    """Return events (N,) of each environment divided by those that all rows expect (N,), (E,).

    Another row with as many events is added, so that none is 0. All are 1 if baselines are not
    free.
    """
    if not free:
        return np.ones(data.n_environments)
    observed, usual = (np.bincount(data.environment_index, values) for values in (events, expected))
    return np.asarray((data.counts * observed / usual + 1.0) / (data.counts + 1.0))


def environment_starts(data: MultiEnvironmentData) -> Integers:
    """Return the first row of each environment when rows are sorted by environment, (E + 1,)."""
    return np.concatenate([[0], np.cumsum(data.counts)]).astype(np.int64)


def sums_of_groups(values: Floats, starts: Integers) -> Floats:
    """Return sums (E + 1,) of values (N,) in that order, in each environment and in all."""
    own = np.add.reduceat(values, starts[:-1])
    return np.append(own, own.sum())
