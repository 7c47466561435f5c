"""The linear Gaussian model on second moments: log Λ(z) from them, and from the rows where those cannot decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import Subset, as_lists, as_mask, as_masks
from ..exceptions import DataError
from ..kernels.active_set import Scoring
from ..kernels.by_size import relative_residuals, score_subsets, share_from_rows, sizes, subset_fits
from ..kernels.feature_order import walk_order
from ..kernels.group_rows import GroupRows
from ..kernels.neighbours import flip_changes
from ..kernels.plain.tree import settle
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from .base import Prediction, Weigh
from .gaussian import GaussianModel, group_weights, inverse_scales
from .gaussian_fit import LinearFit, fit_from_moments, fit_from_roots, fit_from_rows
from .gaussian_walk import GaussianWalk
from .invariance_test import Residuals
from .pieces import in_pieces
from .pivots import PIVOT_TOLERANCE
from .row_groups import always_decidable, group_rows, no_rows, unit_groups
from .screen import GaussianScreen, Limits
from .support import Unsupported, find_causes, reasons_of, too_few_rows
from .tolerance import Tolerance

_MOST_EXPLAINED = 50


class GaussianFromMoments(GaussianModel):
    """Outcome ~ Normal(intercept + coefficients · columns of z, variance), by maximum likelihood.

    On data, or on moments alone. A subset that second moments in float64 cannot decide (smallest scaled pivot under
    1e-9) is decided by the rows where these are at hand; with moments alone its log ratio is -inf.
    """

    def __init__(
        self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None, prediction: float = 0.0
    ) -> None:
        self.data = data if isinstance(data, MultiEnvironmentData) else None
        self.moments = Moments.from_data(data) if isinstance(data, MultiEnvironmentData) else data
        self.moments.check_outcome()
        self.n_jobs = n_jobs
        self.prediction = prediction

    def of(self, data: MultiEnvironmentData | Moments) -> GaussianFromMoments:
        return GaussianFromMoments(data, self.n_jobs)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._supported(masks, np.nan)

    @property
    def search_penalty(self) -> float:
        return 0.05

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """As log_ratio_many, but with moments alone a collinear subset counts as its decidable part, at a cost: for
        searching only.
        """
        return self._supported(masks, self.search_penalty)

    def _supported(self, masks: ArrayLike, penalty: float) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = self._score(chosen, penalty)
        outside = np.isnan(values) if self.has_rows else np.isnan(values) | self._too_large(chosen)
        values[outside] = -np.inf
        return values

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        chosen = as_masks(masks, self.n_features)
        # Log Λ of weights that leave the pooled fit alone, with its sign turned: kernels expect at most 0.
        pooled = np.append(np.zeros(self.moments.n_environments), 0.5 * self.moments.n_rows)
        losses = self._score(chosen, np.nan, self._scoring._replace(weights=pooled, offset=0.0))
        gain = np.where(np.isnan(losses), -np.inf, -losses)
        return Prediction(gain, self.ranks(chosen)[:, -1].astype(float) + 2.0)

    def residuals(self, masks: Mask) -> Residuals:
        shares, ranks = self._fits(masks)
        if not self.has_rows:
            shares[self._too_large(masks)] = np.nan
        y = self.moments.outcome
        return Residuals(shares * self.moments.scatter[:, y, y], ranks, self.moments.group_counts)

    def ranks(self, masks: Mask) -> Integers:
        """As of any `GaussianModel`; subsets with other dependences are fitted to the rows where these are at hand."""
        return self._fits(masks)[1] if self._scoring.rows.values.size else super().ranks(masks)

    def fit(self, subset: Subset, local: bool = True) -> LinearFit:
        mask = as_mask(subset, self.feature_names)
        if self.data is not None:
            return fit_from_rows(self.data, mask, local)
        if self.roots is not None:
            return fit_from_roots(self.moments, self.roots, mask)
        return fit_from_moments(self.moments, mask)

    @property
    def steps_per_subset(self) -> int:
        # A walk over features of m columns takes about m² times as long.
        squares = int(np.ceil(np.mean(self.features.widths.astype(float) ** 2)))
        return (self.moments.n_environments + 1) * squares

    @property
    def dense_advantage(self) -> int:
        return max(2, round(16 / float(self.features.widths.mean())))

    def subset_walk(self, free: Integers, forced: Integers) -> GaussianWalk:
        widths = self.features.widths[free]
        by_rows = self if self.has_rows else None
        return GaussianWalk.of(self._from_moments, self._columns(forced), self._columns(free), widths, by_rows)

    def screening_walk(self, free: Integers, forced: Integers, tolerance: Tolerance, weigh: Weigh) -> GaussianScreen:
        limits = Limits.of(self.moments, tolerance, self.data)
        return GaussianScreen.of(self, self.subset_walk(free, forced), free, forced, limits, weigh)

    def walk_order(self, free: Integers) -> Integers:
        return walk_order(self.features.widths[free])

    def scoring(self) -> Scoring | None:
        return None if self.features.grouped else self._scoring

    def flip_neighbours(self, mask: Mask) -> Floats:
        if self.features.grouped:
            return super().flip_neighbours(as_masks(mask, self.n_features)[0])
        chosen = as_masks(mask, self.n_features)
        change = np.empty(len(self.moments.columns))
        members = self._columns(np.flatnonzero(chosen[0]))
        arguments = (self.moments.scatter, self._from_moments.inverse_scale, self.moments.outcome)
        flip_changes(*arguments, self._from_moments.weights, PIVOT_TOLERANCE, members, change)
        now = self.log_ratio_many(chosen)[0]
        if now == -np.inf:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(chosen)}.")
        change = change[self.moments.feature_columns]
        unknown = np.flatnonzero(np.isnan(change))
        change[unknown] = self.log_ratio_many(chosen ^ np.eye(self.n_features, dtype=bool)[unknown]) - now
        return change

    def flip_steps(self, size: float) -> float:
        if self.features.grouped:
            return super().flip_steps(size)
        return (self.moments.n_environments + 1) * size**2 * self.n_features

    def alike(self, feature: int, most: int) -> NDArray[np.intp]:
        """By the largest correlation of their columns over all rows."""
        columns, pooled = self.moments.feature_columns, self.moments.scatter[-1]
        own = self._columns(np.array([feature]))
        products = np.abs(pooled[np.ix_(own, columns)]) / np.sqrt(np.diagonal(pooled)[columns])
        products /= np.sqrt(np.diagonal(pooled)[own])[:, None]
        closest = np.maximum.reduceat(products.max(axis=0), self.features.starts[:-1])
        closest[feature] = 0.0
        return np.argsort(-closest, kind="stable")[:most]

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """(S,) log Λ by orthogonalising the centred, scaled rows: decides what second moments cannot."""
        if not self.has_rows:
            return None
        chosen = self.features.expand(as_masks(masks, self.n_features))
        used = np.flatnonzero(chosen.any(axis=0))
        starts, members = as_lists(chosen[:, used])
        counts = self.moments.group_counts
        total = np.full(len(chosen), self._from_moments.offset)
        unsupported = np.zeros(len(chosen), dtype=bool)
        residual, rank = np.empty(len(chosen)), np.empty(len(chosen), np.int64)
        for g, unit in enumerate(self._unit_groups(used)):
            relative_residuals(unit, starts, members, DEPENDENT, residual, rank)
            unfit = (counts[g] < rank + 2) | (residual < DEPENDENT)
            total += self._from_moments.weights[g] * np.log(np.where(unfit, 1.0, residual))
            unsupported |= unfit
        total[unsupported] = np.nan
        settle(total, self._from_moments.weights)
        total[np.isnan(total)] = -np.inf
        return total

    def _unit_groups(self, used: Integers) -> Iterator[Floats]:
        """Columns `used` (k,) of the features and the outcome, centred and of unit length (k + 1, n), in every
        environment and the pool"""
        if self.data is None:
            assert self.roots is not None
            yield from unit_groups(
                self.moments, self.roots, np.append(self.moments.feature_columns[used], self.moments.outcome)
            )
            return
        columns = np.column_stack([self.data.X[:, used], self.data.y])
        groups = [self.data.rows(e) for e in range(self.data.n_environments)]
        for rows in [*groups, np.arange(self.data.n_rows)]:
            yield unit_rows(columns[rows])[0]

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        """Which of the subsets are outside the support, and why."""
        chosen = as_masks(masks, self.n_features)
        outside = np.isnan(self._score(chosen))
        too_large = self._too_large(chosen) & outside
        undecidable = outside & ~too_large
        causes = find_causes(chosen[undecidable], lambda mask: ~np.isnan(self._score(mask)), self._places)
        reasons = too_few_rows(self.moments, chosen[too_large]) + reasons_of(causes, self.moments, self.has_rows)
        involved = np.any([cause.features for cause in causes], axis=0) if causes else np.zeros(self.n_features, bool)
        names = tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)
        return Unsupported(too_large, undecidable, names, tuple(reasons))

    def _places(self, mask: Mask) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Groups where an undecidable subset (p,) is so, and what it leaves of the outcome there; NaN if collinear."""
        columns = self._columns(np.flatnonzero(mask))
        groups, shares = [], []
        for g in range(self.moments.n_environments + 1):
            if self.has_rows:
                share = share_from_rows(self._scoring.rows, g, columns, self.moments.outcome)
                share = 0.0 if np.isnan(share) else 1.0
            else:
                share = _outcome_share(self._gram(g, np.append(columns, self.moments.outcome)))
            if not share >= PIVOT_TOLERANCE:
                groups.append(g)
                shares.append(max(share, 0.0))
        return tuple(groups), tuple(shares)

    def nearly_outcome(self) -> Mask:
        """(p,) features that alone explain, in some group, all but 1e-9 of the outcome: unsupported, or nearly so."""
        y, scale = self.moments.outcome, self._from_moments.inverse_scale
        correlations = self.moments.scatter[:, y] * scale * scale[:, y, None]
        nearly = np.any(correlations[:, self.moments.feature_columns] ** 2 > 1.0 - PIVOT_TOLERANCE, axis=0)
        return np.logical_or.reduceat(nearly, self.features.starts[:-1])

    def dependent_features(self, masks: Mask) -> tuple[str, ...]:
        """Features that are, in some environment or in the pool, nearly a combination of others in the same subset."""
        involved = np.zeros(self.n_features, dtype=bool)
        for mask in masks[:_MOST_EXPLAINED]:
            members = np.flatnonzero(mask)
            owners = np.repeat(members, self.features.widths[members])
            for g in range(self.moments.n_environments + 1):
                involved[owners[_nearly_dependent(self._gram(g, self._columns(members)))]] = True
        return tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)

    def _columns(self, members: Integers) -> Integers:
        """Columns of the moments that features `members` (k,) stand for."""
        return self.moments.feature_columns[self.features.columns_of(members)].astype(np.int64)

    def scoring_by_moments(self) -> Scoring:
        """Without the rows."""
        return self._from_moments

    def scoring_by_rows(self) -> Scoring:
        """With the rows, which take longer to prepare, for what second moments cannot decide."""
        return self._scoring

    @property
    def _scoring(self) -> Scoring:
        return self._from_moments._replace(rows=self._rows)

    @property
    def _from_moments(self) -> Scoring:
        return self.rewarding(self._untilted_from_moments)

    @cached_property
    def _untilted_from_moments(self) -> Scoring:
        moments = self.moments
        diagonal = np.einsum("gjj->gj", moments.scatter)
        scale, weights = inverse_scales(diagonal, moments.present), group_weights(moments.group_counts)
        offset = float(weights @ np.log(diagonal[:, moments.outcome] / moments.group_counts))
        return Scoring(moments.scatter, scale, moments.outcome, weights, offset, PIVOT_TOLERANCE, no_rows(moments))

    @cached_property
    def decides_all(self) -> bool:
        """Whether second moments decide every subset."""
        return always_decidable(self.moments, self._from_moments.inverse_scale, PIVOT_TOLERANCE)

    @cached_property
    def _rows(self) -> GroupRows:
        if not self.has_rows or self.decides_all:
            return no_rows(self.moments)
        return group_rows(self.data, self.moments)

    def _gram(self, g: int, columns: Integers) -> Floats:
        scale = self._from_moments.inverse_scale[g, columns]
        return self.moments.scatter[g][np.ix_(columns, columns)] * scale[:, None] * scale

    def _too_large(self, masks: Mask) -> Mask:
        more = self.moments.varying_widths - 1
        other = np.flatnonzero(more.any(axis=0))
        ranks = sizes(masks)[:, None] + masks[:, other].astype(np.float64) @ more[:, other].T
        return np.any(ranks + 2 > self.moments.group_counts, axis=1)

    def _score(self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None) -> Floats:
        out = np.empty(len(masks))

        def score(rows: slice, starts: Integers, columns: Integers) -> None:
            score_subsets(self._scoring if scoring is None else scoring, penalty, starts, columns, out[rows])

        self._in_pieces(masks, score)
        return out

    def _fits(self, masks: Mask) -> tuple[Floats, Integers]:
        """(S, G) what the subsets leave of the outcome in each group, NaN where undecidable, and their ranks there"""
        shape = len(masks), len(self.moments.group_counts)
        shares, ranks = np.empty(shape), np.empty(shape, np.int64)

        def fit(rows: slice, starts: Integers, columns: Integers) -> None:
            subset_fits(self._scoring, starts, columns, shares[rows], ranks[rows])

        self._in_pieces(masks, fit)
        return shares, ranks

    def _in_pieces(self, masks: Mask, work: Callable[[slice, Integers, Integers], None]) -> None:
        """Have threads work on pieces of the subsets: which of them, and the columns of each."""

        def of_columns(rows: slice, starts: Integers, members: Integers) -> None:
            work(rows, starts, self.moments.feature_columns[members].astype(np.int64))

        in_pieces(self.features.expand(masks), self.n_jobs, of_columns)


def _outcome_share(gram: Floats) -> float:
    """What the other columns of `gram` leave of the last one; NaN where they are too collinear to tell."""
    reduced = gram.copy()
    for j in range(len(gram) - 1):
        if gram[j, j] == 0.0:
            continue
        if reduced[j, j] < PIVOT_TOLERANCE:
            return np.nan
        reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
    return float(reduced[-1, -1])


def _nearly_dependent(gram: Floats) -> Mask:
    """(p,) columns that take part in a near dependence among the unit-diagonal columns of `gram`."""
    involved = np.zeros(len(gram), dtype=bool)
    kept: list[int] = []
    reduced = gram.copy()
    for j in np.flatnonzero(np.diagonal(gram) > 0.0).tolist():
        if reduced[j, j] >= PIVOT_TOLERANCE:
            kept.append(j)
            reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
            continue
        involved[j] = True
        partners = np.linalg.lstsq(gram[np.ix_(kept, kept)], gram[kept, j], rcond=None)[0]
        involved[np.array(kept)[np.abs(partners) > 1e-3]] = True
    return involved
