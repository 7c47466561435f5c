"""Invariant causal prediction (Peters, Bühlmann & Meinshausen 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import betainc, ndtri, stdtr
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Integers, Mask
from .._tools.progress import ProgressMode
from ..data.checks import warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..kernels.baseline_scores import (
    coefficient_hull,
    contrast_statistics,
    residual_moments,
    residual_moments_by_rows,
)
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from ..posterior.summary import format_subset
from .base import Baseline, check_level
from .subset_lists import Lists, Subsets, check_columns, checked_subsets, column_lists

# Second moments keep at least eight digits of a residual variance above this; below it the rows decide.
DECIDABLE = 1e-7


class ResidualTests:
    """Whether the pooled residuals of subsets are alike in every environment."""

    def __init__(self, data: MultiEnvironmentData) -> None:
        self.data = data
        moments = Moments.from_data(data)
        pooled = moments.scatter[-1]
        scale = 1.0 / np.sqrt(np.diagonal(pooled))
        self.counts = moments.counts.astype(float)
        self._scale = scale
        self._gram = pooled * scale[:, None] * scale
        self._local = moments.scatter[:-1] * scale[:, None] * scale
        self._means = moments.gaps * scale

    def test(self, lists: Lists) -> tuple[Floats, Mask]:
        """p-values (S,), and (S,) where the features leave no residual, so that nothing speaks against invariance."""
        n, n_environments = len(lists[0]) - 1, len(self.counts)
        if n_environments == 1:
            return np.ones(n), np.zeros(n, dtype=bool)
        lists = column_lists(lists, self.data.features)
        mean, scatter = residual_moments(self._gram, self._local, self._means, *lists, DECIDABLE)
        undecided = np.flatnonzero(np.isnan(scatter[:, 0]))
        if len(undecided):
            starts, members = lists
            some = [members[starts[s] : starts[s + 1]] for s in undecided]
            new_starts = np.concatenate([[0], np.cumsum([len(subset) for subset in some])]).astype(np.int64)
            by_rows = residual_moments_by_rows(*self._rows, self.counts, new_starts, np.concatenate(some), DEPENDENT)
            mean[undecided], scatter[undecided] = by_rows
        determined = np.all((scatter == 0.0) & (mean == 0.0), axis=1)
        p_values = _smallest(mean, scatter, self.counts)
        p_values = np.minimum(1.0, 2.0 * (n_environments - 1) * p_values)
        p_values[determined] = 1.0
        return p_values, determined

    def confidence_intervals(self, lists: Lists, alpha: float) -> Floats:
        """(q, 2) per column: hull over the subsets of coefficient ± normal quantile at 1 - alpha/4 × standard error."""
        features = self.data.features
        rows, _ = self._rows
        pooled = np.ascontiguousarray(np.transpose(np.linalg.qr(rows.T, mode="r")))
        quantile = ndtri(1.0 - alpha / 4.0)
        lists = column_lists(lists, features)
        lower, upper = coefficient_hull(pooled, float(self.data.n_rows), *lists, DEPENDENT, quantile)
        units = self._scale[:-1] / self._scale[-1]
        return np.column_stack([lower * units, upper * units])

    @cached_property
    def _rows(self) -> tuple[Floats, Integers]:
        """Unit columns [x, y] as (d, m), each environment's rows rotated into at most d of them and its mean."""
        unit, _, _ = unit_rows(np.column_stack([self.data.X, self.data.y]))
        parts = []
        for e in range(self.data.n_environments):
            here = unit[:, self.data.rows(e)]
            mean = here.mean(axis=1)
            triangle = np.linalg.qr((here - mean[:, None]).T, mode="r")
            parts.append(np.vstack([triangle, np.sqrt(here.shape[1]) * mean]))
        ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
        return np.ascontiguousarray(np.vstack(parts).T), ends


def _smallest(mean: Floats, scatter: Floats, counts: Floats) -> Floats:
    """(S,) smallest p-value over environments and over the tests of the mean and of the variance."""
    t, df, ratio = contrast_statistics(mean, scatter, counts)
    with np.errstate(invalid="ignore"):
        means = np.where(np.isinf(t), 0.0, 2.0 * stdtr(df, -t))
        smallest = np.minimum(means, f_test(ratio, counts - 1.0, counts.sum() - counts - 1.0))
    return smallest.min(axis=1)


def f_test(ratio: Floats, df: Floats, other_df: Floats) -> Floats:
    """Two-sided p-value of a ratio of variances; the tail that is computed is the one that can be tiny."""
    upper = ratio > 1.0
    weighted = np.where(upper, other_df / ratio, df * ratio)
    a, b = np.where(upper, other_df, df), np.where(upper, df, other_df)
    tail = betainc(0.5 * a, 0.5 * b, weighted / (weighted + b))
    return 2.0 * np.minimum(tail, 1.0 - tail)


@dataclass(frozen=True, eq=False)
class SubsetPValues:
    """p_values (n,): of subsets of the features that vary, NaN where not tested. Without a size limit the position of a
    subset is its bit pattern (bit j = feature j of feature_names); with one they are ordered by size."""

    p_values: Floats
    space: Subsets
    feature_names: tuple[str, ...]

    def accepted(self, alpha: float) -> list[tuple[str, ...]]:
        """Subsets with a p-value above alpha, by size, then by falling p-value."""
        positions = np.flatnonzero(self.p_values > alpha)
        masks = self.space.masks(positions)
        order = np.lexsort((positions, -self.p_values[positions], masks.sum(axis=1)))
        return [self.names(mask) for mask in masks[order]]

    def frame(self, top: int | None = None) -> pd.DataFrame:
        """subset, size and p_value of the `top` subsets with the largest p-values (None: of all tested)."""
        tested = np.flatnonzero(~np.isnan(self.p_values))
        order = tested[np.argsort(-self.p_values[tested], kind="stable")][:top]
        masks = self.space.masks(order)
        return pd.DataFrame(
            {
                "subset": [self.names(mask) for mask in masks],
                "size": masks.sum(axis=1),
                "p_value": self.p_values[order],
            }
        )

    def names(self, mask: Mask) -> tuple[str, ...]:
        return tuple(self.feature_names[j] for j in np.flatnonzero(mask))


class ICP(Baseline):
    """Invariant causal prediction: the features that every subset with invariant residuals has in common.

    For each subset: pooled least squares with an intercept, then per environment Welch's t-test of the mean and a
    two-sided F-test of the variance of its residuals against all others', combined by Bonferroni.

    Parameters
    ----------
    alpha : level; a subset is accepted when its p-value is larger
    max_size : most features of a tested subset; None tests all 2**p
    stop_if_empty : stop when the accepted subsets have nothing in common; p-values of features are then lower bounds
    columns : how a data frame X is read, Columns(environment="site")
    n_jobs : threads; None is one, -1 all cores
    progress : a bar: "auto", True, False; or a function of a fraction and a message, as of `BIP`

    Attributes
    ----------
    outcome_ : "selected" (the accepted subsets share features), "empty" (they share none) or "rejected" (none accepted)
    accepted_ : list of tuples of names, smallest subsets first
    p_values_ : (n_features_in_,) largest p-value of a tested subset without the feature; NaN when the model is
        rejected, 1 for a constant feature and with a single environment
    confidence_intervals_ : (len(coef_), 2) hull over the accepted subsets; NaN when the model is rejected, unbounded
        where features are collinear
    subset_p_values_ : (n,) p-value of each subset; without max_size indexed by bit pattern
    subsets_ : SubsetPValues, which tells the subset at each position
    model_rejected_, stopped_early_ : bool; support_, coef_, intercept_ : as for every selector

    Examples
    --------
    >>> from invariance.baselines import ICP
    >>> from invariance.datasets import make_example
    >>> model = ICP().fit(make_example())
    >>> ("age", "exercise", "smoking") in model.accepted_
    True
    """

    _single_environment_message = "all rows count as one environment: every subset is accepted, and nothing selected"

    def __init__(
        self,
        alpha: float = 0.05,
        max_size: int | None = None,
        stop_if_empty: bool = False,
        columns: Columns | None = None,
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.alpha = alpha
        self.max_size = max_size
        self.stop_if_empty = stop_if_empty
        self.columns = columns
        self.n_jobs = n_jobs
        self.progress = progress

    @property
    def accepted_(self) -> list[tuple[str, ...]]:
        check_is_fitted(self)
        return self.subsets_.accepted(self.alpha)

    def _select(self, data: MultiEnvironmentData) -> Mask:
        check_level(self.alpha)
        space = checked_subsets("ICP", data.n_features, self.max_size)
        check_columns("ICP", data, data.n_rows - 2, space.max_size)
        tests = ResidualTests(data)
        outside, common = np.zeros(data.n_features), np.ones(data.n_features, dtype=bool)
        self.subset_p_values_ = np.full(space.n_subsets, np.nan)
        exact = np.empty(0, dtype=np.int64)
        for block, _, (p_values, determined) in space.blocks(tests.test, "testing subsets", self.n_jobs, self.progress):
            self.subset_p_values_[block] = p_values
            masks = space.masks(np.arange(block.start, block.stop))
            outside = np.maximum(outside, np.where(masks, 0.0, p_values[:, None]).max(axis=0))
            common &= masks[p_values > self.alpha].all(axis=0)
            exact = np.append(exact, block.start + np.flatnonzero(determined)[:1])
            if self.stop_if_empty and not common.any():
                break
        self.stopped_early_ = block.stop < space.n_subsets
        self.subsets_ = SubsetPValues(self.subset_p_values_, space, data.feature_names)
        if len(exact):
            names = self.subsets_.names(space.masks(exact[:1])[0])
            warn(
                f"features {format_subset(names)} determine the outcome {data.outcome_name!r} exactly, so nothing can "
                "speak against their invariance. Is one of them a copy of the outcome? Leave it out."
            )
        accepted = np.flatnonzero(self.subset_p_values_ > self.alpha)
        self.model_rejected_ = len(accepted) == 0
        if self.model_rejected_:
            self.outcome_ = "rejected"
            self.p_values_ = self._expand(np.full(data.n_features, np.nan), np.nan)
            intervals = np.full((data.features.n_columns, 2), np.nan)
        else:
            self.outcome_ = "selected" if common.any() else "empty"
            self.p_values_ = self._expand(outside, 1.0)
            intervals = tests.confidence_intervals(space.lists(accepted), self.alpha)
        self.confidence_intervals_ = self._expand_columns(intervals, 0.0)
        return common & (not self.model_rejected_)
