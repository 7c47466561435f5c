"""How far environments are from one common fit, and in what: intercepts, slopes or what is about the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc
from scipy.stats import chi2, f

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.compared import INTERCEPT, SLOPES, VARIANCE
from ..conditionals.gaussian import deviance_moments
from ..conditionals.invariance_test import Residuals, spread_p_values
from ..conditionals.pivots import PIVOT_TOLERANCE
from ..moments.least_squares import least_squares, least_squares_of_root
from ..moments.moments import Moments
from ..moments.roots import root_of


class SquareSum(NamedTuple):
    """Residual sum of squares of a fit, NaN where it cannot be decided, and the rank of its columns."""

    rss: float
    rank: int


class NestedFits(NamedTuple):
    """own: in each of G groups; within: common slopes and own intercepts; pooled: everything in common; counts (G,)."""

    own: tuple[SquareSum, ...]
    within: SquareSum
    pooled: SquareSum
    counts: Integers

    @property
    def decided(self) -> bool:
        fits = (*self.own, self.within, self.pooled)
        enough = all(n >= fit.rank + 2 for n, fit in zip(self.counts, self.own, strict=True))
        return enough and not any(np.isnan(fit.rss) for fit in fits)


def fits_of_moments(moments: Moments) -> NestedFits:
    """All features of the moments, in their environments."""
    order = np.append(moments.feature_columns, moments.outcome)
    scatter, present = moments.scatter[:, order[:, None], order], moments.present[:, moments.feature_columns]
    own = tuple(_square_sum(products, used) for products, used in zip(scatter[:-1], present[:-1], strict=True))
    within = _square_sum(scatter[:-1].sum(axis=0), np.logical_or.reduce(present[:-1]))
    return NestedFits(own, within, _square_sum(scatter[-1], present[-1]), moments.counts)


def fits_of_rows(X: Floats, y: Floats, groups: Sequence[NDArray[np.intp]]) -> NestedFits:
    """The columns of X (N, k) in groups of its rows."""
    own = tuple(_by_rows(X[rows], y[rows]) for rows in groups)
    centred = [(X[rows] - X[rows].mean(axis=0), y[rows] - y[rows].mean()) for rows in groups]
    for deviations, rows in zip(centred, groups, strict=True):
        deviations[0][:, np.ptp(X[rows], axis=0) == 0.0] = 0.0
    within = _by_rows(np.vstack([x for x, _ in centred]), np.concatenate([values for _, values in centred]))
    rows = np.concatenate(groups)
    return NestedFits(own, within, _by_rows(X[rows], y[rows]), np.array([len(group) for group in groups]))


def fits_of_roots(moments: Moments, roots: Floats, groups: Sequence[NDArray[np.intp]]) -> NestedFits:
    """All features of the moments, from factors (E, m, d) of the rows, in groups of environments."""
    columns = np.append(moments.feature_columns, moments.outcome)
    found = [root_of(moments, roots, group, columns) for group in groups]
    own = tuple(map(_by_root, found))
    pooled = _by_root(root_of(moments, roots, np.concatenate(groups), columns))
    counts = np.array([moments.counts[group].sum() for group in groups])
    return NestedFits(own, _by_root(np.vstack(found)), pooled, counts)


def _by_root(root: Floats) -> SquareSum:
    fit = least_squares_of_root(root, np.zeros(root.shape[1]))
    return SquareSum(fit.rss, fit.rank)


def _by_rows(X: Floats, y: Floats) -> SquareSum:
    fit = least_squares(X, y)
    return SquareSum(fit.rss, fit.rank)


def _square_sum(scatter: Floats, used: Mask) -> SquareSum:
    """Of the last column on the `used` others (k,), from centred products (k + 1, k + 1)."""
    columns = np.append(np.flatnonzero(used), len(used))
    scale = np.sqrt(np.diagonal(scatter)[columns])
    left = scatter[np.ix_(columns, columns)] / np.outer(scale, scale)
    for j in range(len(columns) - 1):
        if not left[j, j] >= PIVOT_TOLERANCE:
            return SquareSum(np.nan, len(columns) - 1)
        left[j + 1 :, j + 1 :] -= np.outer(left[j + 1 :, j], left[j, j + 1 :]) / left[j, j]
    share = left[-1, -1]
    return SquareSum(share * scale[-1] ** 2 if share >= PIVOT_TOLERANCE else np.nan, len(columns) - 1)


@dataclass(frozen=True)
class Part:
    """A share of T, and the p-value that it is so large under invariance; None where nothing there can differ."""

    deviance: float
    p_value: float | None


@dataclass(frozen=True)
class Deviation:
    """deviance: T = −2 log Λ of the groups; expected_deviance, deviance_sd: its mean and standard deviation under
    invariance; p_gaussian: that it is then as large, for Gaussian noise.

    parts : {"intercept", "slopes", "variance"}, whose deviances add up to T. Their p-values are independent under
        invariance; that of the variance allows for heavy tails where the rows are at hand.
    p_value : of the parts together, by Fisher's rule: what is decided by

    Of models that are not linear Gaussian: p_gaussian is by the law of −2 log Λ for many rows; in the place of the
    variance there is "dispersion", "baseline" or nothing, as the model has it.
    """

    deviance: float
    expected_deviance: float
    deviance_sd: float
    p_gaussian: float
    p_value: float
    parts: Mapping[str, Part]

    @property
    def worst_part(self) -> str:
        """The part with the smallest p-value."""
        tested = {name: part.p_value for name, part in self.parts.items() if part.p_value is not None}
        return min(tested, key=lambda name: tested[name], default=INTERCEPT)


def deviation(fits: NestedFits, excess_kurtosis: float) -> Deviation | None:
    """None where the fits cannot be decided."""
    if not fits.decided:
        return None
    n, groups = int(fits.counts.sum()), len(fits.counts)
    own, counts = np.array([fit.rss for fit in fits.own]), fits.counts.astype(float)
    ranks = np.array([[*(fit.rank for fit in fits.own), fits.pooled.rank]])
    residuals = Residuals(np.append(own, fits.pooled.rss)[None], ranks, np.append(counts, n))
    left = float(n - groups - ranks[0, :-1].sum()), float(n - groups - fits.within.rank), float(n - 1 - ranks[0, -1])
    parts = {
        INTERCEPT: _common(n, fits.pooled.rss, fits.within.rss, left[2] - left[1], left[1]),
        SLOPES: _common(n, fits.within.rss, own.sum(), left[1] - left[0], left[0]),
        VARIANCE: Part(
            float(n * np.log(own.sum() / n) - counts @ np.log(own / counts)),
            float(spread_p_values(residuals, 0.0, excess_kurtosis)[0]),
        ),
    }
    total = float(sum(part.deviance for part in parts.values()))
    mean, variance = (float(value[0]) for value in deviance_moments(residuals.counts, ranks))
    exact = float(gammaincc(mean**2 / variance, max(total, 0.0) * mean / variance))
    return Deviation(total, mean, float(np.sqrt(variance)), exact, joint_of_parts(parts), parts)


def joint_of_parts(parts: Mapping[str, Part]) -> float:
    """The p-value of all parts that were tested, by Fisher's rule."""
    known = [part.p_value for part in parts.values() if part.p_value is not None]
    with np.errstate(divide="ignore"):
        return float(chi2.sf(-2.0 * np.log(known).sum(), 2 * len(known)))


def _common(n: int, joint: float, separate: float, degrees: float, left: float) -> Part:
    """What own parameters save, by the F test of so many of them."""
    if degrees <= 0.0:
        return Part(0.0, None)
    saved = max(joint - separate, 0.0)
    return Part(float(n * np.log1p(saved / separate)), float(f.sf(saved / degrees / (separate / left), degrees, left)))
