"""Tests of invariant residuals for many subsets: the numbers behind ICP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri, stdtr

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.residual_tests import coefficient_hull, contrast_statistics, residual_moments, residual_moments_by_rows
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from .subset_lists import Lists, column_lists

# Second moments keep at least eight digits of a residual variance above this; below it the rows decide.
DECIDABLE = 1e-7


@dataclass(frozen=True, eq=False)
class TestedSubsets:
    """p_values (S,); determined (S,): the features leave no residual, so that nothing speaks against invariance."""

    p_values: Floats
    determined: Mask


class ResidualTests:
    """Are the pooled residuals of a subset alike in every environment? Answers for lists of subsets of the features."""

    def __init__(self, data: MultiEnvironmentData, moments: Moments | None = None) -> None:
        self.data = data
        moments = Moments.from_data(data) if moments is None else moments
        pooled = moments.scatter[-1]
        scale = 1.0 / np.sqrt(np.diagonal(pooled))
        self.counts = moments.counts.astype(float)
        self._scale = scale
        self._gram = pooled * scale[:, None] * scale
        self._local = moments.scatter[:-1] * scale[:, None] * scale
        self._means = moments.gaps * scale

    def test(self, lists: Lists) -> TestedSubsets:
        n, n_environments = len(lists[0]) - 1, len(self.counts)
        if n_environments == 1:
            return TestedSubsets(np.ones(n), np.zeros(n, dtype=bool))
        lists = column_lists(lists, self.data.features)
        mean, scatter = np.empty((n, n_environments)), np.empty((n, n_environments))
        residual_moments(self._gram, self._local, self._means, *lists, DECIDABLE, mean, scatter)
        undecided = np.flatnonzero(np.isnan(scatter[:, 0]))
        if len(undecided):
            mean[undecided], scatter[undecided] = self._by_rows(_sublists(lists, undecided), len(undecided))
        determined = np.all((scatter == 0.0) & (mean == 0.0), axis=1)
        p_values = _smallest(mean, scatter, self.counts)
        p_values = np.minimum(1.0, 2.0 * (n_environments - 1) * p_values)
        p_values[determined] = 1.0
        return TestedSubsets(p_values, determined)

    def confidence_intervals(self, lists: Lists, alpha: float) -> Floats:
        """(q, 2) per column: hull over the subsets of coefficient ± normal quantile at 1 - alpha/4 × standard error."""
        features = self.data.features
        lower, upper = np.full(features.n_columns, np.inf), np.full(features.n_columns, -np.inf)
        rows, _ = self._rows
        pooled = np.ascontiguousarray(np.transpose(np.linalg.qr(rows.T, mode="r")))
        quantile = ndtri(1.0 - alpha / 4.0)
        lists = column_lists(lists, features)
        coefficient_hull(pooled, float(self.data.n_rows), *lists, DEPENDENT, quantile, lower, upper)
        units = self._scale[:-1] / self._scale[-1]
        return np.column_stack([lower * units, upper * units])

    def _by_rows(self, lists: Lists, n: int) -> tuple[Floats, Floats]:
        rows, ends = self._rows
        mean, scatter = np.empty((n, len(self.counts))), np.empty((n, len(self.counts)))
        residual_moments_by_rows(rows, ends, self.counts, *lists, DEPENDENT, mean, scatter)
        return mean, scatter

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
    t, df, ratio = (np.empty_like(mean) for _ in range(3))
    contrast_statistics(mean, scatter, counts, t, df, ratio)
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


def _sublists(lists: Lists, chosen: NDArray[np.intp]) -> Lists:
    starts, members = lists
    pieces = [members[starts[s] : starts[s + 1]] for s in chosen.tolist()]
    new_starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    return new_starts, np.concatenate(pieces)
