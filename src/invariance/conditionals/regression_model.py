"""A regression tied to rows: log Λ of any subset, its law, its fits and all that engines ask for."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from ..data.features import Features
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import Subset, as_mask, as_masks
from ..exceptions import DataError
from ..kernels.newton.evaluation import evaluate
from ..kernels.newton.maximise import invert
from ..kernels.newton.rows import Own, Rows, with_columns, work_for
from ..kernels.newton.walk import score_lists
from .base import BoundConditional, FlipGuess, Null, Prediction, Remarks, Weigh
from .compared import IN_MEAN
from .description import Description
from .figures import FigureMemory, Figures
from .regression import Regression
from .regression_fit import RegressionFit
from .regression_flips import FlipGuesses
from .regression_remarks import remarks_of
from .regression_screen import RegressionScreen
from .regression_walk import RegressionWalk
from .standard_errors import StandardErrors
from .support import Unsupported, without_value
from .tolerance import Tolerance

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


class RegressionModel(BoundConditional):
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
