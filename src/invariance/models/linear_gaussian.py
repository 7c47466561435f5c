"""The linear Gaussian conditional: the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import free_bytes
from ..data.checks import check_max_size, largest_size, warn
from ..data.features import Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..kernels.active_set import Scoring
from ..kernels.cholesky import score_subsets
from ..kernels.dispatch import centred_rows
from ..kernels.row_residuals import GramRows, GroupRows, gram_rows
from ..moments.least_squares import two_sum
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, Prediction
from .gaussian import GaussianFromMoments
from .gaussian_fit import LinearFit, Unsupported, fit_from_rows
from .gaussian_mean import MeanGaussian
from .gaussian_shared import GaussianModel, group_weights, inverse_scales
from .invariance_test import Residuals

_CACHE_BYTES = 2.5e8
_FEWEST_KEPT = 64


def moments_bytes(data: MultiEnvironmentData) -> int:
    """Memory that the second moments of all pairs of columns take, in every environment and the pool."""
    return 8 * (data.n_environments + 1) * (data.features.n_columns + 1) ** 2


def fits_in_memory(data: MultiEnvironmentData) -> bool:
    """Whether second moments, and as much again while they are computed, take at most the memory that is free."""
    free = free_bytes()
    return free is None or 2 * moments_bytes(data) <= free


class GaussianOnDemand(GaussianModel):
    """As `GaussianFromMoments`, for many features: rows of the second moments are computed from the data when a move
    asks for them, and the latest are kept. Memory is that of the data twice, plus 0.25 GB for each replica.

    `moments` describes columns and environments; its `scatter` is empty.
    """

    data: MultiEnvironmentData

    def __init__(self, data: MultiEnvironmentData, n_jobs: int | None = None, prediction: float = 0.0) -> None:
        self.data = data
        self.n_jobs = n_jobs
        self.prediction = prediction
        p, n_environments = data.features.n_columns, data.n_environments
        centre, rest, minimum, maximum = (np.empty((n_environments, p + 1)) for _ in range(4))
        self._centred = np.empty((p + 1, data.n_rows))
        self._bounds = np.concatenate([[0], np.cumsum(data.counts)]).astype(np.int64)
        for e in range(n_environments):
            part = centred_rows(data.X, data.y, data.rows(e), centre[e], rest[e], minimum[e], maximum[e])
            self._centred[:, self._bounds[e] : self._bounds[e + 1]] = part.T
        columns = (*data.features.columns, data.outcome_name)
        counts = np.asarray(data.counts, dtype=np.int64)
        nothing = np.empty((n_environments + 1, 0, 0))
        spread = *two_sum(centre, rest), minimum, maximum, nothing
        groups = data.features.groups
        self.moments = Moments(columns, p, data.environments, counts, *spread, groups=groups)
        self.moments.check_outcome()
        self._gaps = np.sqrt(counts)[:, None] * self.moments.gaps

    def of(self, data: MultiEnvironmentData | Moments) -> GaussianFromMoments:
        return GaussianFromMoments(data, self.n_jobs)

    @cached_property
    def _diagonal(self) -> Floats:
        """(G, d) sums of squares of each column"""
        starts = self._bounds[:-1]
        local = np.add.reduceat(self._centred**2, starts, axis=1).T
        return np.vstack([local, local.sum(axis=0) + (self._gaps**2).sum(axis=0)])

    def gram(self) -> GramRows:
        """Second moments on demand, with a cache of its own: threads do not share one."""
        kept = max(_FEWEST_KEPT, int(_CACHE_BYTES / (8 * len(self._bounds) * len(self._centred))))
        return gram_rows(self._centred, self._bounds, self._gaps, kept)

    def _scored_with(self) -> Scoring:
        """With a cache of its own."""
        y, counts, diagonal = self.moments.outcome, self.moments.group_counts, self._diagonal
        weights = group_weights(counts)
        offset = float(weights @ np.log(diagonal[:, y] / counts))
        starts, stops = np.append(self._bounds[:-1], 0), np.append(self._bounds[1:], self._bounds[-1])
        rows = GroupRows(self._centred, starts, stops, counts, self._gaps)
        scale = inverse_scales(diagonal, self.moments.varies)
        return self.rewarding(Scoring(self.gram(), scale, y, weights, offset, PIVOT_TOLERANCE, rows))

    def scoring(self) -> Scoring | None:
        return None if self.features.grouped else self._scored_with()

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        values = self._each(masks, self._scored_with())
        values[np.isnan(values)] = -np.inf
        return values

    def _each(self, masks: ArrayLike, scoring: Scoring) -> Floats:
        chosen = self.features.expand(as_masks(masks, self.n_features))
        values = np.empty(len(chosen))
        score_subsets(scoring, np.nan, *as_lists(chosen), values)
        return values

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        pooled = np.append(np.zeros(self.moments.n_environments), 0.5 * self.moments.n_rows)
        losses = self._each(masks, self._scored_with()._replace(weights=pooled, offset=0.0))
        gain = np.where(np.isnan(losses), -np.inf, -losses)
        return Prediction(gain, self.ranks(as_masks(masks, self.n_features))[:, -1].astype(float) + 2.0)

    def fit(self, subset: Subset, local: bool = True) -> LinearFit:
        return fit_from_rows(self.data, as_mask(subset, self.feature_names), local)

    def nearly_outcome(self) -> Mask:
        """As `GaussianFromMoments.nearly_outcome`."""
        y, diagonal = self.moments.outcome, self._diagonal
        starts, stops = self._bounds[:-1], self._bounds[1:]
        local = [self._centred[:, a:b] @ self._centred[y, a:b] for a, b in zip(starts, stops, strict=True)]
        products = np.vstack([local, np.sum(local, axis=0) + self._gaps[:, y] @ self._gaps])
        nearly = products**2 > (1.0 - PIVOT_TOLERANCE) * diagonal * diagonal[:, y, None]
        columns = np.any((nearly & self.moments.varies)[:, self.moments.feature_columns], axis=0)
        return np.logical_or.reduceat(columns, self.features.starts[:-1])

    @property
    def largest_size(self) -> int:
        return largest_size(self.moments.counts, self._widths)

    def check_max_size(self, max_size: int) -> None:
        check_max_size(max_size, self.moments.counts, self._widths, self.moments.environments)

    @cached_property
    def _widths(self) -> Integers:
        """(E, p) how many columns of each feature are present in each environment"""
        widths = self.moments.varying_widths[:-1].copy()
        for j in np.flatnonzero(self.features.widths > 1):
            alone, _ = self._narrowed(np.eye(self.n_features, dtype=bool)[j : j + 1])
            widths[:, j] = alone.moments.varying_widths[:-1, 0]
        return widths

    def residuals(self, masks: Mask) -> Residuals:
        part, used = self._narrowed(masks)
        return part.residuals(masks[:, used])

    def excess_kurtosis(self, masks: Mask) -> Floats:
        part, used = self._narrowed(masks)
        return part.excess_kurtosis(masks[:, used])

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        part, used = self._narrowed(chosen)
        return part.left_out_r2_many(chosen[:, used])

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats | None:
        chosen = as_masks(masks, self.n_features)
        part, used = self._narrowed(chosen)
        return part.random_effects_risk_many(chosen[:, used])

    def ranks(self, masks: Mask) -> Integers:
        part, used = self._narrowed(masks)
        return part.ranks(masks[:, used])

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        """Which of the subsets are outside the support, and why."""
        chosen = as_masks(masks, self.n_features)
        part, used = self._narrowed(chosen)
        return part.unsupported(chosen[:, used])

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """(S,) log Λ by orthogonalising the centred, scaled rows, from the features that the subsets hold."""
        chosen = as_masks(masks, self.n_features)
        part, used = self._narrowed(chosen)
        return part.rescore(chosen[:, used])

    def _narrowed(self, chosen: Mask) -> tuple[GaussianFromMoments, NDArray[np.intp]]:
        """A model of the features that the subsets hold (one, if they hold none), and which these are."""
        used = np.flatnonzero(chosen.any(axis=0))
        if not len(used):
            used = np.array([0])
        narrowed = self.data.narrowed(np.isin(np.arange(self.n_features), used))
        return GaussianFromMoments(narrowed, prediction=self.prediction), used


_INVARIANCE = ("distribution", "mean")
_SECOND_MOMENTS = ("auto", "all", "on demand")


@dataclass(frozen=True)
class LinearGaussian:
    """Outcome ~ Normal(intercept + coefficients · columns of z, variance), by maximum likelihood.

    invariance : what must be the same in every environment; "distribution" is all of it: the intercept, the
        coefficients and the variance; "mean" is the intercept and the coefficients, and each environment has a variance
        of its own, which also makes heavy tails harmless
    second_moments : "all" pairs of columns at once, "on demand", which takes the memory of the data twice and is
        slower, or "auto": all where these fit into the memory that is free; "mean" needs all
    prediction : reward λ for subsets that predict well: the posterior is p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2), σ̂² the
        variance that the pooled fit leaves, or of "mean" the geometric mean of those of all rows' environments. 0 is
        the paper's; 0.1 leads samplers through thousands of features. Log ratios, p-values and verdicts that are
        reported remain those of Λ
    """

    invariance: Literal["distribution", "mean"] = "distribution"
    second_moments: Literal["auto", "all", "on demand"] = "auto"
    prediction: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.invariance, MultiEnvironmentData | Moments):
            raise SettingError("LinearGaussian holds settings only: tie it to data with LinearGaussian().bind(data).")
        for name, known in (("invariance", _INVARIANCE), ("second_moments", _SECOND_MOMENTS)):
            if getattr(self, name) not in known:
                options = " or ".join(map(repr, known))
                raise SettingError(f"{name}={getattr(self, name)!r} is not known: use {options}.")
        if self.invariance == "mean" and self.second_moments == "on demand":
            raise SettingError("invariance='mean' needs all second moments: use second_moments='all'.")
        reward = self.prediction
        if not isinstance(reward, Real) or isinstance(reward, bool) or not 0.0 <= reward < float("inf"):
            raise SettingError(f"prediction={reward!r} is no reward: use a number from 0 on.")

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> GaussianModel:
        """Tie the model to data, or to moments alone."""
        if self.invariance == "mean":
            return MeanGaussian(data, n_jobs, self.prediction)
        if isinstance(data, Moments) or self.second_moments == "all":
            return GaussianFromMoments(data, n_jobs, self.prediction)
        if self.second_moments == "auto":
            if fits_in_memory(data):
                return GaussianFromMoments(data, n_jobs, self.prediction)
            warn(
                f"second moments of {data.n_features:,} features take {moments_bytes(data) / 1e9:.1f} GB, more than is "
                "free, and are computed on demand, which is slower"
            )
        return GaussianOnDemand(data, n_jobs, self.prediction)


def linear_gaussian_mean() -> LinearGaussian:
    """What the name "linear_gaussian_mean" stands for."""
    return LinearGaussian(invariance="mean")
