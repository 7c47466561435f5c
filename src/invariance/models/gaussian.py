"""The linear Gaussian model: log Λ(z) from second moments, or from the rows for precision.

With the maximum likelihood variances of the pool, σ̂², and of environment e, σ̂_e²::

    log Λ(z) = −½ (N log σ̂²(z) − Σ_e n_e log σ̂_e²(z))

This is equation 7 for the conditional Normal(β'x^z + b, σ²) of the paper (Wu et al. 2025,
arXiv:2506.22675, section 2.3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import free_bytes, ordered_map
from ..data.checks import largest_size, quoted
from ..data.features import Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, Remedy, SettingError, use
from ..kernels.active_set import Scoring, active_set, flip_changes
from ..kernels.block_flips import RIDGE, TINY, block_flip_shares
from ..kernels.cholesky import score_subsets, settle, subset_fits
from ..kernels.row_residuals import (
    DEPENDENT,
    GroupRows,
    relative_residuals,
)
from ..kernels.subset_sums import sizes
from ..kernels.subset_tree import walk_order
from ..moments.least_squares import LeastSquares
from ..moments.moments import Moments, rest_moments
from . import gaussian_fits
from .base import (
    PIVOT_TOLERANCE,
    BoundModel,
    EnvironmentData,
    Fit,
    FlipGuess,
    Level,
    Memory,
    Null,
    StandardErrors,
    SubsetWalk,
    check_choice,
    check_number,
    in_parts,
    moments_of,
    rows_of,
    too_few_rows_for,
)
from .determined import check_determined
from .gaussian_fits import group_weights, inverse_scales
from .invariance_test import (
    Difference,
    InvarianceTest,
    Permuted,
    Residuals,
    Tolerance,
    compatible,
    deviance_moments,
    f_difference,
    invariance_test,
)
from .permutation import permutation_p_value, sampled_rows

_MOST_REASONS = 3
_EXAMPLES = 64
# So many features are always prepared together.
_FEW = 32
# Units in the last place of the outcome that rounding may leave.
_UNITS = 4.0
# A pivot from which on second moments have ten digits.
_WELL_CONDITIONED = 1e-4
# Share of the outcome below which a guess does not go; subsets whose guesses are remembered.
_NO_SHARE = 1e-12
_MOST_GUESSED = 1 << 12
# Multiplications in a step of the dense walk.
_PER_STEP = 10.0
# Columns from which on a subset is large, and how many subsets a thread is given at least.
_MANY_COLUMNS = 16
_FEW_LARGE = 16
_FEW_SMALL = 256


class MomentModel(BoundModel):
    """Base of the models of second moments, which ask `linear`, the linear Gaussian model of the
    same columns."""

    moments: Moments
    fits_each = True  # whether each environment has a fit of its own, which takes rows

    def __init__(self, data: EnvironmentData, n_jobs: int | None = None) -> None:
        self.moments = moments_of(data)
        self.data = rows_of(data) or self.moments.all_rows
        self.n_jobs = n_jobs
        super().__init__(self.moments)
        self.check_environments()

    def check_environments(self) -> None:
        """Raise where an environment has too few rows, or its outcome is constant."""
        self.moments.check_environments()

    @cached_property
    def linear(self) -> GaussianFromMoments:
        linear = GaussianFromMoments(self.moments, self.n_jobs)
        linear.data = self.data
        return linear

    def of(self, data: EnvironmentData) -> GaussianModel:
        """The linear Gaussian model of other data, without a reward for prediction."""
        return GaussianFromMoments(data, self.n_jobs)

    def with_moments(self, masks: Mask) -> tuple[GaussianFromMoments, Mask]:
        """A linear Gaussian model that has the second moments of the features in subsets (S, p),
        the subsets there."""
        return self.linear, masks

    @cached_property
    def pooled_scale(self) -> Floats:
        """Return 1 / root of the pooled sums of squares, (d,)."""
        return inverse_scales(np.diagonal(self.moments.scatter[-1]), self.moments.present[-1])

    def pooled_lists(self, masks: Mask) -> tuple[Integers, Integers]:
        """Columns of subsets (S, p), as lists, without those that others of their feature give over
        all rows"""
        moments = self.moments
        starts, members = as_lists(
            self.features.expand(masks) & moments.present[-1, moments.feature_columns]
        )
        return starts, moments.feature_columns[members].astype(np.int64)

    @property
    def free_columns(self) -> Integers:
        """Fewer than there are columns where a level that the others are compared with does not
        occur."""
        return self.moments.varying_widths[-1]

    @property
    def by_least_squares(self) -> GaussianModel:
        return self.linear

    @property
    def has_rows(self) -> bool:
        """Return whether the rows are available, which decide what second moments cannot."""
        return self.data is not None

    @property
    def largest_size(self) -> int:
        if self.fits_each:
            return self.moments.largest_size
        return largest_size([self.moments.n_rows], self.moments.varying_widths[-1:])

    @property
    def some_rows(self) -> MultiEnvironmentData | None:
        """The rows, or a sample of them; None where second moments alone are known"""
        return self.moments.sampled if self.data is None else self.data

    def residuals(self, masks: Mask) -> Residuals:
        """Residual sums of squares and ranks of the subsets (S, p) in every environment and in the
        pool."""
        part, chosen = self.with_moments(masks)
        return part.residuals(chosen)

    def excess_kurtosis(self, masks: Mask) -> Floats:
        """Return the excess kurtosis (S,) of residuals with common slopes and own intercepts.

        It is 0 without rows or a sample of them.
        """
        part, chosen = self.with_moments(masks)
        return part.excess_kurtosis(chosen)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """Test invariance by the F test of common coefficients and Bartlett's test of equal
        variances.

        Both are corrected for heavy tails.
        """
        chosen = as_masks(masks, self.n_features)
        each = self._each_by(chosen)
        return invariance_test(
            self.residuals(chosen), tolerance, self.excess_kurtosis(chosen), *each
        )

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        chosen = as_masks(masks, self.n_features)
        each = self._each_by(chosen)
        return compatible(
            self.residuals(chosen),
            tolerance,
            lambda rows: self.excess_kurtosis(chosen[rows]),
            *each,
        )

    def _each_by(
        self, masks: Mask
    ) -> tuple[Callable[[Integers], Residuals] | None, Permuted | None]:
        """Return what compares each environment with the rest: fits to the rest, and permutations.

        They take some of masks (S, p).
        """
        rests = (lambda rows: self.rests(masks[rows])) if self.n_environments > 2 else None
        return rests, None if self.data is None else lambda rows, least: self.permuted(
            masks[rows], least
        )

    def permuted(self, masks: Mask, smallest: Floats) -> Floats:
        """Return `permutation_p_value` (S,) of the subsets (S, p) and smallest p-values (S,)."""
        rows = self._permuted_rows
        found = np.empty(len(masks))
        for s, mask in enumerate(masks):
            model, chosen = self.compared_by(mask)
            data = model.data
            assert data is not None
            X = data.X[np.ix_(rows, model.features.expand(chosen))]
            given = X, data.y[rows], data.environment_index[rows]
            found[s] = permutation_p_value(*given, float(smallest[s]), model.extra_intercepts > 0)
        return found

    @cached_property
    def _permuted_rows(self) -> Integers:
        assert self.data is not None
        return sampled_rows(self.data.environment_index)

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask]:
        return self.by_least_squares, mask

    def signal_of(self, gain: Floats) -> Floats:
        """N·R²/(1 − R²), R² by the likelihood."""
        n = self.n_informative
        return np.asarray(n * np.expm1(2.0 * np.maximum(gain, 0.0) / n))

    def without(self, environment: Hashable) -> BoundModel:
        data = self.moments if self.data is None else self.data
        return self.of(
            data.choosing([label for label in data.environments if label != environment])
        )

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        return f_difference(self.residuals(as_masks(masks, self.n_features)), ends)

    def rests(self, masks: Mask) -> Residuals:
        """Return residuals of fits of the subsets (S, p) to the rows outside each environment."""
        part, chosen = self.with_moments(masks)
        return part.rests(chosen)

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        part, chosen = self.with_moments(as_masks(masks, self.n_features))
        fits = part.residuals(chosen)
        return gaussian_fits.random_effects_risk(
            part.moments, part.features.expand(chosen), fits.rss, fits.freedom
        )

    def separate_gains_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        return np.array(
            [gaussian_fits.separate_gains(self.moments, mask) for mask in chosen]
        ).reshape(chosen.shape)

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        """Return R² by fits to the second moments of the other environments.

        They are fits to rows if second moments cannot decide.
        """
        part, chosen = self.with_moments(as_masks(masks, self.n_features))
        columns = *part.features.chosen(held_features(chosen)).columns, part.moments.outcome_name
        moments = replace(part.moments, sample=None, encoding=None).of_columns(columns)
        y = part.moments.outcome
        missed = np.full((moments.n_environments, len(chosen)), np.nan)
        for e in range(moments.n_environments if moments.n_environments > 1 else 0):
            others = [label for place, label in enumerate(moments.environments) if place != e]
            with suppress(DataError):
                rest = self.of(moments.choosing(others))
                for s, mask in enumerate(chosen):
                    left = [
                        name
                        for name in part.features.chosen(mask).names
                        if name in rest.feature_names
                    ]
                    if rest.log_ratio(left) > -np.inf:
                        missed[e, s] = part.squared_errors(rest.fit(left, local=False), e)
                    elif part.data is not None:
                        rows = part.data.narrowed(mask).choosing(others)
                        fit = self.of(rows).fit(rows.feature_names, local=False)
                        missed[e, s] = part.squared_errors(fit, e)
        return np.asarray(1.0 - missed.sum(axis=0) / part.moments.scatter[-1, y, y])

    def nearly_outcome(self) -> Mask:
        if self.fits_each:
            return self.linear.nearly_outcome()
        return np.asarray(self.gain_many(np.eye(self.n_features, dtype=bool)) == -np.inf)

    def check_determined(self, allowed: Mask, max_size: int) -> None:
        check_determined(self, allowed, max_size)

    def determined_by(self, mask: Mask, locally: bool, spare: int = 1) -> Integers:
        """Groups in which a subset (p,) gives the outcome exactly, with `spare` rows more than a
        fit takes; locally: environments count, too"""
        part, chosen = self.with_moments(mask[None])
        return part.determined(chosen[0], locally, spare)

    def leaves_some(self, mask: Mask) -> bool:
        """Whether second moments tell that a subset (p,) leaves some of the outcome in every
        group."""
        part, chosen = self.with_moments(mask[None])
        return not np.isnan(part.shares_left(chosen[0])).any()

    def alike(self, feature: int, most: int) -> NDArray[np.intp]:
        """Return features with the largest correlation of their columns over all rows."""
        columns = self.moments.feature_columns
        pooled = self.moments.scatter[-1]
        own = columns[self.features.starts[feature] : self.features.starts[feature + 1]]
        products = np.abs(pooled[np.ix_(own, columns)]) / np.sqrt(np.diagonal(pooled)[columns])
        products /= np.sqrt(np.diagonal(pooled)[own])[:, None]
        closest = np.maximum.reduceat(products.max(axis=0), self.features.starts[:-1])
        closest[feature] = 0.0
        return np.argsort(-closest, kind="stable")[:most]

    def too_few_rows(self, masks: Mask) -> Mask:
        """Return groups (S, G) whose rows cannot fit the columns of the subsets (S, p)."""
        more = self.moments.varying_widths - 1
        other = np.flatnonzero(more.any(axis=0))
        needed = sizes(masks)[:, None] + masks[:, other].astype(np.float64) @ more[:, other].T
        few = np.asarray(needed + 2 > self.moments.group_counts)
        few[:, :-1] &= self.fits_each
        return few

    def outside_support(self, masks: ArrayLike) -> tuple[str, ...]:
        chosen = as_masks(masks, self.n_features)
        counts = self.moments.group_counts
        outside = chosen[self.log_ratio_many(chosen) == -np.inf]
        few = self.too_few_rows(outside)
        reasons = []
        if few.any():
            g = int(np.argmin(np.where(few.any(axis=0), counts, np.inf)))
            reasons.append(too_few_rows_for(self._place([g]), int(counts[g]), int(counts[g]) - 2))
        remedy = (
            "leave one out" if self.has_rows else "leave one out, or pass the data with their rows"
        )
        for cause in self._causes(outside[~few.any(axis=1)])[:_MOST_REASONS]:
            names = quoted(self.features.chosen(cause).names) or "the constant"
            what = (
                "determines the outcome exactly"
                if cause.sum() <= 1
                else "are collinear, perhaps with the outcome,"
            )
            groups = np.flatnonzero(np.isnan(self.residuals(cause[None]).rss[0]))
            reasons.append(f"{names} {what} in {self._place(groups)}: {remedy}")
        return tuple(reasons)

    def _place(self, groups: Iterable[int]) -> str:
        labels = [self.moments.environments[g] for g in groups if g < self.moments.n_environments]
        return f"environment {quoted(labels)}" if labels and self.fits_each else "all rows together"

    def _causes(self, masks: Mask) -> list[Mask]:
        """Sets of features (p,) that put subsets (S, p) outside the support, and of which no
        smaller one does."""
        causes: list[Mask] = []
        for mask in masks[np.argsort(masks.sum(axis=1), kind="stable")[:_EXAMPLES]]:
            if any((mask >= cause).all() for cause in causes):
                continue
            smallest = mask.copy()
            for j in np.flatnonzero(mask):
                smallest[j] = False
                smallest[j] = self.log_ratio(smallest) > -np.inf
            causes.append(smallest)
        return causes


def held_features(masks: Mask) -> Mask:
    """Return the features (p,) that some of the subsets (S, p) contain; the first if there are
    none."""
    held = np.asarray(masks.any(axis=0))
    held[0] |= not held.any()
    return held


class GaussianModel(MomentModel):
    """Base of the models whose log Λ is that of linear Gaussian fits; to engines it is log Λ +
    prediction · gain."""

    kind = "linear Gaussian"

    def __init__(
        self, data: EnvironmentData, n_jobs: int | None = None, prediction: float = 0.0
    ) -> None:
        super().__init__(data, n_jobs)
        self.prediction = prediction
        self._rest_models: dict[
            bytes, GaussianFromMoments
        ] = {}  # the latest, by the features it has

    @property
    def name(self) -> str:
        return (
            f"{self.kind}, prediction rewarded by {self.prediction:g}"
            if self.prediction > 0.0
            else self.kind
        )

    @property
    def by_least_squares(self) -> GaussianModel:
        return self

    @property
    def untilted(self) -> GaussianModel:
        if self.prediction == 0.0:
            return self
        plain = copy(self)
        plain.prediction = 0.0
        return plain

    def null_many(self, masks: ArrayLike) -> Null:
        """Under invariance RSS/σ² is chi-square in every group: the first two moments have no
        unknowns."""
        return null_of_ranks(
            self.moments.group_counts, self.ranks(as_masks(masks, self.n_features))
        )

    def ranks(self, masks: Mask) -> Integers:
        """Return ranks (S, E + 1) of the fits in each environment and in the pool."""
        part, chosen = self.with_moments(masks)
        return part.ranks(chosen)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        mask = as_mask(subset, self.feature_names)
        fits = self.group_fits(mask) if local else ()
        return gaussian_fits.linear_fit(self.data, self.moments, mask, local, fits)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        mask = as_mask(subset, self.feature_names)
        chosen = self.features.expand(mask)
        return gaussian_fits.linear_errors(
            self.data, self.moments, chosen, fits=self.group_fits(mask)
        )

    def group_fits(self, mask: Mask) -> list[LeastSquares]:
        """Return least squares of a subset (p,) in each environment and the pool, found once for
        the latest subset."""

        def compute(new: Mask) -> list[list[LeastSquares]]:
            chosen = self.features.expand(new[0])
            return [gaussian_fits.group_fits(self.data, self.moments, chosen)]

        return self._group_fits.of(mask[None], compute)[0]

    @cached_property
    def _group_fits(self) -> Memory:
        return Memory(1)


def null_of_ranks(counts: Floats, ranks: Integers | Floats) -> Null:
    """Law of log Λ, from counts (G,) of rows and ranks (S, G) of the fits in each environment and
    in the pool."""
    degrees = (ranks[:, :-1] + 2).sum(axis=1) - (ranks[:, -1] + 2)
    return Null.of_deviance(*deviance_moments(counts, ranks), degrees)


class HomoscedasticGaussian(GaussianModel):
    """Base of those of which the variance, too, must be the same in every environment."""

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._supported(masks, np.nan)

    def gain_many(self, masks: ArrayLike) -> Floats:
        losses = self._score(
            as_masks(masks, self.n_features), np.nan, self.losing(self.scoring_by_rows())
        )
        return np.where(np.isnan(losses), -np.inf, -losses)

    def scoring_of(self, second_moments: Floats, rows: GroupRows) -> Scoring:
        """Return the scoring of log Λ without the reward for prediction."""
        moments = self.moments
        squares = self._squares
        y = self.moments.outcome
        weights = group_weights(moments.group_counts)
        scale = inverse_scales(squares, moments.present)
        offset = float(weights @ np.log(squares[:, y] / moments.group_counts))
        return Scoring(second_moments, scale, y, weights, offset, PIVOT_TOLERANCE, rows)

    def nearly_outcome(self) -> Mask:
        """Return features (p,) that explain, in some group, all but 1e-9 of the outcome alone."""
        y = self.moments.outcome
        scale = inverse_scales(self._squares, self.moments.present)
        correlations = self._products_with_outcome() * scale * scale[:, y, None]
        nearly = np.any(
            correlations[:, self.moments.feature_columns] ** 2 > 1.0 - PIVOT_TOLERANCE, axis=0
        )
        return np.logical_or.reduceat(nearly, self.features.starts[:-1])

    @property
    def _squares(self) -> Floats:
        """Return sums of squares (G, d) of each column."""
        return np.einsum("gjj->gj", self.moments.scatter)

    def _products_with_outcome(self) -> Floats:
        """Return products of the columns with the outcome, (G, d)."""
        return self.moments.scatter[:, self.moments.outcome]

    @abstractmethod
    def scoring_by_rows(self) -> Scoring:
        """Return the scoring with the rows, which decide what second moments cannot.

        They take longer to prepare.
        """

    def rewarding(self, scoring: Scoring) -> Scoring:
        """Return the scoring with the reward for prediction in the weight of the pool."""
        if self.prediction == 0.0:
            return scoring
        weights = scoring.weights.copy()
        weights[-1] -= 0.5 * self.prediction * self.moments.n_rows
        return scoring._replace(weights=weights)

    def losing(self, scoring: Scoring) -> Scoring:
        """Return the scoring of the negative gain of pooled fits over the empty one."""
        pooled = np.append(np.zeros(self.moments.n_environments), 0.5 * self.moments.n_rows)
        return scoring._replace(weights=pooled, offset=0.0)

    def _supported(self, masks: ArrayLike, penalty: float) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = self._score(chosen, penalty)
        outside = (
            np.isnan(values)
            if self.has_rows
            else np.isnan(values) | self.too_few_rows(chosen).any(axis=1)
        )
        values[outside] = -np.inf
        return values

    def _score(
        self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None
    ) -> Floats:
        out = np.empty(len(masks))
        used = self.scoring_by_rows() if scoring is None else scoring
        self._in_parts(masks, lambda rows, *lists: score_subsets(used, penalty, *lists, out[rows]))
        return out

    def _in_parts(self, masks: Mask, work: Callable[[slice, Integers, Integers], None]) -> None:
        """Have threads work on parts of the subsets: which of them, and the columns of each."""
        chosen = self.features.expand(masks)

        def part(rows: slice) -> None:
            starts, members = as_lists(chosen[rows])
            work(rows, starts, self.moments.feature_columns[members].astype(np.int64))

        large = chosen.sum() > _MANY_COLUMNS * len(chosen)
        in_parts(len(chosen), self.n_jobs, part, _FEW_LARGE if large else _FEW_SMALL)


class GaussianFromMoments(HomoscedasticGaussian):
    """Model data, or moments alone.

    A subset that second moments in float64 cannot decide (smallest scaled pivot under 1e-9) is
    decided by the rows if they are available; with moments alone its log ratio is -inf.
    """

    # With moments alone a collinear subset counts as its decidable part, at a cost, while samplers
    # search.
    search_penalty = 0.05

    def with_moments(self, masks: Mask) -> tuple[GaussianFromMoments, Mask]:
        return self, masks

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return (Level.effects, Level.effects_noise_free) if self.n_environments > 1 else ()

    def at_level(self, level: Level) -> BoundModel:
        from .free_baselines import FreeBaselineGaussian, FreeBaselineMeanGaussian

        if level not in self.lower_levels:
            return super().at_level(level)
        return (
            FreeBaselineGaussian(self) if level is Level.effects else FreeBaselineMeanGaussian(self)
        )

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._supported(masks, self.search_penalty)

    def residuals(self, masks: Mask) -> Residuals:
        shares, ranks = self._fits(masks)
        if not self.has_rows:
            shares[self.too_few_rows(masks).any(axis=1)] = np.nan
        y = self.moments.outcome
        total = self.moments.scatter[:, y, y]
        return Residuals(shares * total, ranks, self.moments.group_counts, float(total[-1]))

    def rests(self, masks: Mask) -> Residuals:
        used = np.ones(self.n_features, bool) if self.n_features <= _FEW else held_features(masks)
        others = self._rest_models.get(used.tobytes())
        if others is None:
            others = GaussianFromMoments(self._rests_of(used), self.n_jobs)
            self._rest_models = {used.tobytes(): others}
        found = others.residuals(masks[:, used])
        return found._replace(
            rss=found.rss[:, :-1], ranks=found.ranks[:, :-1], counts=found.counts[:-1]
        )

    def _rests_of(self, used: Mask) -> EnvironmentData:
        """All rows but those of an environment, for each; of the features used (p,)"""
        if self.data is None or self.decides_all:
            return rest_moments(
                self.moments.of_columns(
                    (*self.features.chosen(used).columns, self.moments.outcome_name)
                )
            )
        rows = self.data.narrowed(used)
        places = np.arange(self.n_environments)
        e, index = np.nonzero(rows.environment_index != places[:, None])
        return replace(rows, X=rows.X[index], y=rows.y[index], environment_index=e)

    def ranks(self, masks: Mask) -> Integers:
        """Columns that vary there; those that are constant in every environment have rank E − 1 at
        most."""
        if self._rows.values.size:
            return self._fits(masks)[1]
        chosen = self.features.expand(masks)
        constant = ~self.moments.present[:, self.moments.feature_columns]
        partly = np.flatnonzero(constant.any(axis=0) & chosen.any(axis=0))
        settings = constant[:-1].all(axis=0) & ~constant[-1]
        ranks = (
            chosen.sum(axis=1)[:, None] - chosen[:, partly].astype(np.int64) @ constant[:, partly].T
        )
        ranks[:, -1] -= np.maximum(
            chosen[:, settings].sum(axis=1) - (self.moments.n_environments - 1), 0
        )
        return ranks

    def determined(self, mask: Mask, locally: bool, spare: int = 1) -> Integers:
        """Groups in which a subset (p,) leaves nothing of the outcome but rounding; locally :
        environments count"""
        moments = self.moments
        y = self.moments.outcome
        E = self.n_environments
        first = 0 if locally else E
        if not np.isnan(self.shares_left(mask)[first:]).any():
            return np.empty(0, np.intp)
        used = np.flatnonzero(self.features.expand(mask))
        lists = np.array([0, len(used)])
        own = np.arange(len(used))
        smallest = DEPENDENT if self.has_rows else PIVOT_TOLERANCE
        size = np.maximum(np.abs(moments.minimum[:, y]), np.abs(moments.maximum[:, y]))
        rounding = (
            _UNITS * np.finfo(float).eps * np.append(size, size.max())
        ) ** 2 * moments.group_counts
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.maximum(smallest, rounding / moments.scatter[:, y, y])
        groups = []
        for g, (unit, _, _) in enumerate(
            gaussian_fits.unit_groups(self.data, moments, used, first), first
        ):
            left, rank = relative_residuals(unit, lists, own, len(used), smallest)
            if left[0] < limits[g] and self._distinct_rows(mask, g) >= rank[0] + 1 + spare:
                groups.append(g)
        return np.array(groups, np.intp)

    def shares_left(self, mask: Mask) -> Floats:
        """(G,) share of the outcome that a subset (p,) leaves in each group, NaN if second moments
        do not tell"""
        columns = self.columns_of(np.flatnonzero(mask))
        shares = np.empty((1, self.n_environments + 1))
        ranks = np.empty(shares.shape, np.int64)
        with np.errstate(divide="ignore"):  # of an outcome that is constant in an environment
            scoring = self.scoring_by_moments()
        subset_fits(scoring, np.array([0, len(columns)]), columns, shares, ranks)
        return shares[0]

    def _distinct_rows(self, mask: Mask, g: int) -> int:
        """Return the distinct rows of a group, all of them for a single feature.

        In fits of several features a repeated row does not add noise.
        """
        if self.data is None or mask.sum() < 2:
            return int(self.moments.group_counts[g])
        rows = self.data.rows(g) if g < self.n_environments else slice(None)
        return len(np.unique(np.column_stack([self.data.X[rows], self.data.y[rows]]), axis=0))

    def excess_kurtosis(self, masks: Mask) -> Floats:
        chosen = self.features.expand(masks)
        moments = self.moments
        rows = self.some_rows
        if rows is None:
            return np.zeros(len(masks))
        return gaussian_fits.kurtosis_from_rows(rows, moments, chosen, self.n_jobs)

    def squared_errors(self, fit: Fit, e: int) -> float:
        """Sum over the rows of environment e of what a fit misses of the outcome."""
        if self.data is not None:
            rows = self.data.rows(e)
            columns = np.isin(self.features.columns, fit.columns)
            return float(
                np.sum((self.data.y[rows] - fit.predict(self.data.X[np.ix_(rows, columns)])) ** 2)
            )
        moments = self.moments
        used = [*map(moments.columns.index, fit.columns), moments.outcome]
        weights = np.append(-fit.coefficients, 1.0)
        within = weights @ moments.scatter[e][np.ix_(used, used)] @ weights
        return float(
            within + moments.counts[e] * (moments.means[e, used] @ weights - fit.intercept) ** 2
        )

    @property
    def steps_per_subset(self) -> int:
        # A walk over features of m columns takes about m² times as long.
        return (self.moments.n_environments + 1) * int(
            np.ceil(np.mean(self.features.widths.astype(float) ** 2))
        )

    @property
    def steps_per_listed(self) -> int:
        if not self.features.grouped:
            return self.steps_per_subset
        # Of about as many columns as half of the features have, or half of those that the rows can
        # fit.
        columns = 0.5 * float(self.features.widths.mean()) * min(self.n_features, self.largest_size)
        return max(
            self.steps_per_subset, int((self.moments.n_environments + 1) * columns**3 / _PER_STEP)
        )

    @property
    def dense_advantage(self) -> int:
        return max(2, round(16 / float(self.features.widths.mean())))

    def subset_walk(
        self, free: Integers, forced: Integers, tolerance: Tolerance | None = None
    ) -> SubsetWalk:
        return gaussian_fits.GaussianWalk(self, free, forced, tolerance)

    def walk_order(self, free: Integers) -> Integers:
        return walk_order(self.features.widths[free])

    def scoring(self) -> Scoring | None:
        return None if self.features.grouped else self.scoring_by_rows()

    def flip_neighbours(self, mask: Mask) -> Floats:
        if self.features.grouped:
            return super().flip_neighbours(mask)
        chosen = as_masks(mask, self.n_features)
        scoring = self.scoring_by_moments()
        d = len(self.moments.columns)
        included = np.zeros(d, dtype=bool)
        included[self.columns_of(np.flatnonzero(chosen[0]))] = True
        state = active_set(len(scoring.weights), d, max(1, int(included.sum())))
        change = flip_changes(scoring, state, included)
        now = self.log_ratio_many(chosen)[0]
        self.require(now > -np.inf, chosen)
        change = change[self.moments.feature_columns]
        unknown = np.flatnonzero(np.isnan(change))
        change[unknown] = (
            self.log_ratio_many(chosen ^ np.eye(self.n_features, dtype=bool)[unknown]) - now
        )
        return change

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """Return guesses by second moments with a small ridge.

        They are within rounding of log Λ unless columns are nearly dependent in some group.
        """
        chosen = as_masks(masks, self.n_features)
        n_jobs = self.n_jobs if len(chosen) > 1 else None
        parts = self._guessed.of(chosen, lambda new: list(ordered_map(self._guess, new, n_jobs)))
        return FlipGuess(*(np.array(values) for values in zip(*parts, strict=True)))

    def _guess(self, mask: Mask) -> FlipGuess:
        """Return guesses (p,) for a subset (p,)."""
        counts = self.moments.group_counts
        shares, ranks = np.empty((2, len(counts), self.n_features))
        members = np.flatnonzero(self.features.expand(mask))
        block_flip_shares(self._ridged, self.features.starts, mask, members, shares, ranks)
        logs = np.log(np.maximum(shares, _NO_SHARE))
        scoring = self.scoring_by_moments()
        null = null_of_ranks(counts, ranks.T)
        log_ratios = scoring.offset + scoring.weights @ logs
        return FlipGuess(log_ratios, -0.5 * counts[-1] * logs[-1], null.expected, null.variance)

    @cached_property
    def _guessed(self) -> Memory:
        return Memory(_MOST_GUESSED)

    @cached_property
    def _ridged(self) -> Floats:
        """Return correlations (G, q + 1, q + 1) of the columns and, last, the outcome, with a
        ridge."""
        at = np.append(self.moments.feature_columns, self.moments.outcome)
        scale = self._by_moments.inverse_scale[:, at]
        table = (
            self.moments.scatter[np.ix_(np.arange(len(scale)), at, at)]
            * scale[:, :, None]
            * scale[:, None]
        )
        diagonal = np.arange(len(at) - 1)
        table[:, diagonal, diagonal] += RIDGE
        return np.asarray(table)

    @property
    def samples_exactly(self) -> bool:
        return not self.features.grouped or not self.has_rows or self.decides_all

    def sampling_ratio_many(self, masks: ArrayLike) -> Floats:
        """Return log Λ by second moments with a small ridge instead of the rows, which take much
        longer."""
        if self.samples_exactly:
            return self.log_ratio_many(masks)
        values = self._score(as_masks(masks, self.n_features), np.nan, self._ridged_scoring)
        return np.where(np.isnan(values), -np.inf, values)

    @cached_property
    def _ridged_scoring(self) -> Scoring:
        scatter = self.moments.scatter.copy()
        diagonal = np.arange(len(self.moments.columns))
        outcome = scatter[:, self.moments.outcome, self.moments.outcome].copy()
        scatter[:, diagonal, diagonal] *= 1.0 + RIDGE
        scatter[:, self.moments.outcome, self.moments.outcome] = outcome
        return self.scoring_by_moments()._replace(scatter=scatter, tolerance=TINY)

    def flip_steps(self, size: float) -> float:
        width = float(self.features.widths.mean())
        return (self.moments.n_environments + 1) * (size * width) ** 2 * self.n_features * width

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """Return log Λ (S,) by orthogonalising the centred, scaled rows.

        It decides what second moments cannot.
        """
        if not self.has_rows:
            return None
        chosen = self.features.expand(as_masks(masks, self.n_features))
        scoring = self.scoring_by_moments()
        used = np.flatnonzero(chosen.any(axis=0))
        starts, members = as_lists(chosen[:, used])
        counts = self.moments.group_counts
        total = np.full(len(chosen), scoring.offset)
        for g, (unit, _, _) in enumerate(gaussian_fits.unit_groups(self.data, self.moments, used)):
            residual, rank = relative_residuals(unit, starts, members, len(used), DEPENDENT)
            unfit = (counts[g] < rank + 2) | (residual < DEPENDENT)
            total += scoring.weights[g] * np.log(np.where(unfit, np.nan, residual))
        settle(total, scoring.weights)
        return np.where(np.isnan(total), -np.inf, total)

    def columns_of(self, members: Integers) -> Integers:
        """Columns of the moments that features `members` (k,) stand for."""
        return self.moments.feature_columns[self.features.columns_of(members)].astype(np.int64)

    def scoring_by_moments(self) -> Scoring:
        return self.rewarding(self._by_moments)

    def scoring_by_rows(self) -> Scoring:
        return self.scoring_by_moments()._replace(rows=self._rows)

    @cached_property
    def _by_moments(self) -> Scoring:
        return self.scoring_of(self.moments.scatter, gaussian_fits.no_rows(self.moments))

    @property
    def decides_all(self) -> bool:
        """Return whether second moments decide every subset."""
        return self._smallest_pivot > 2.0 * PIVOT_TOLERANCE

    @property
    def walk_has_all_digits(self) -> bool:
        return self._smallest_pivot > _WELL_CONDITIONED

    @cached_property
    def _smallest_pivot(self) -> float:
        return gaussian_fits.smallest_pivot(self.moments, self._by_moments.inverse_scale)

    @cached_property
    def _rows(self) -> GroupRows:
        decided = not self.has_rows or self.decides_all
        return (
            gaussian_fits.no_rows(self.moments)
            if decided
            else gaussian_fits.group_rows(self.data, self.moments)
        )

    def _fits(self, masks: Mask) -> tuple[Floats, Integers]:
        """Return residuals (S, G) of the outcome in each group, NaN if undecidable, and ranks."""
        shape = (len(masks), len(self.moments.group_counts))
        scoring = self.scoring_by_rows()
        shares = np.empty(shape)
        ranks = np.empty(shape, np.int64)
        self._in_parts(
            masks, lambda rows, *lists: subset_fits(scoring, *lists, shares[rows], ranks[rows])
        )
        return shares, ranks


# Less memory than this is always free.
_ALWAYS_FREE = 1e6


def moments_bytes(data: MultiEnvironmentData) -> int:
    """Memory that the second moments of all pairs of columns take, in every environment and the
    pool."""
    return 8 * (data.n_environments + 1) * (data.features.n_columns + 1) ** 2


def check_memory(what: str, needed: float, *remedies: Remedy) -> None:
    """Raise if so many bytes are not free."""
    free = free_bytes()
    if free is not None and needed > free:
        told = f"{what} would take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        usual = "screen features first (LassoScreen), leave columns out, or use more memory"
        raise DataError(told if remedies else f"{told}: {usual}.", *remedies)


@dataclass(frozen=True)
class LinearGaussian:
    """Model a number as normal with a mean that is linear in the selected columns.

    With the maximum likelihood variances of the pooled fit and of environment e, σ̂² and σ̂_e²::

        y | x^z ~ Normal(b + β'x^z, σ²),    −2 log Λ(z) = N log σ̂²(z) − Σ_e n_e log σ̂_e²(z)

    This is the paper's model in all its studies.

    Parameters
    ----------
    invariance : {"distribution", "mean"}, default="distribution"
        What must be the same in every environment: intercept, coefficients and variance, or
        intercept and coefficients only. With "mean" each environment has its own variance, which
        also makes heavy tails harmless.
    prediction : float, default=0.0
        Reward λ for subsets that predict well. The posterior is p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2),
        with σ̂² the residual variance of the pooled fit, or for "mean" the geometric mean over rows
        of the variance in their environment. 0 is the paper's; 0.1 leads samplers through thousands
        of features. Reported log ratios, p-values and verdicts remain those of Λ.
    deviations : {"free", "random"}, default="free"
        "free" fits each environment separately, which requires more rows than columns in each;
        "random" draws the coefficients of environments of any size from one distribution.

    Raises
    ------
    SettingError
        If a value is unknown, or random deviations are combined with "mean" or a reward.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, equations 5 to 7, arXiv:2506.22675.

    Examples
    --------
    >>> from invariance import BIP, LinearGaussian
    >>> from invariance.datasets import make_example
    >>> BIP(LinearGaussian(invariance="mean")).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    invariance: Literal["distribution", "mean"] = "distribution"
    prediction: float = 0.0
    deviations: Literal["free", "random"] = "free"

    kind: ClassVar[str] = "number"
    link: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        check_choice(self, "invariance", ("distribution", "mean"))
        check_choice(self, "deviations", ("free", "random"))
        if self.deviations == "random" and (self.invariance == "mean" or self.prediction):
            raise SettingError(
                "invariance='mean' and prediction= are for free deviations", use(deviations="free")
            )
        check_number(self, "prediction", "reward")

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> GaussianModel:
        """Tie the model to data, or to moments alone."""
        rows = rows_of(data)
        if rows is not None and rows.design is not None:
            if self.invariance == "mean":
                what = f"environments {rows.design.in_words} are compared by one model"
                raise SettingError(what, use(family="linear_gaussian"))
            from .varying_coefficients import StructuredDeviations

            return StructuredDeviations(rows, n_jobs, self.prediction)
        if self.invariance == "mean":
            from .gaussian_mean import MeanGaussian

            return MeanGaussian(data, n_jobs, self.prediction)
        if self.deviations == "random":
            from .random_coefficients import GaussianRandomDeviations

            return GaussianRandomDeviations(data, n_jobs)
        if rows is not None:
            # As much again is needed while they are computed.
            needed = 2 * moments_bytes(rows)
            if needed > _ALWAYS_FREE:
                check_memory(f"second moments of {rows.n_features:,} features", needed)
        return GaussianFromMoments(data, n_jobs, self.prediction)


def linear_gaussian_mean(prediction: float = 0.0) -> LinearGaussian:
    """Return the family of the name "linear_gaussian_mean"."""
    return LinearGaussian("mean", prediction)
