"""How different environments may be where a subset still counts as invariant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, digamma, fdtrc, polygamma

from .._tools.arrays import Floats, Integers
from ..exceptions import SettingError


@dataclass(frozen=True)
class Tolerance:
    """A subset is compatible with invariance when its p-value for *approximate* invariance is at least `level`.

    delta : share of the residual variance that coefficients which differ between environments may explain
    tau : relative spread that the noise's standard deviation may have between environments
    level : smallest p-value of a compatible subset
    weak_level : the same where no subset reaches `level`: to say that none is invariant takes more evidence than to
        prefer one subset to another

    The defaults keep an invariant subset whose noise has heavy tails. `Tolerance.strict()` tests exact invariance.
    """

    delta: float = 0.02
    tau: float = 0.1
    level: float = 0.2
    weak_level: float = 0.02

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, Real) and not isinstance(value, bool)
            if name in ("delta", "tau") and not (number and 0.0 <= value < float("inf")):
                raise SettingError(f"{name}={value!r} is no tolerance: use a number from 0 on.")
            if name in ("level", "weak_level") and not (number and 0.0 < value < 1.0):
                raise SettingError(f"{name}={value!r} is no level: use a number between 0 and 1.")

    @classmethod
    def strict(cls, level: float = 0.05) -> Self:
        """Exact invariance, rejected at this level."""
        return cls(0.0, 0.0, level, level)

    @property
    def lowest_level(self) -> float:
        """Below it a subset counts as rejected, whatever the others are like."""
        return min(self.level, self.weak_level)

    @property
    def weak(self) -> Self:
        """With the level that counts where no subset reaches the usual one."""
        return replace(self, level=self.lowest_level)

    def in_words(self, what: str, *allowed: str) -> str:
        """allowed : which of delta and tau the model tolerates"""
        if not any(getattr(self, name) for name in allowed):
            return f"exact {what} at level {self.level:g}"
        sizes = ", ".join(f"{name} {getattr(self, name):g}" for name in allowed)
        return f"{what} up to {sizes} at level {self.level:g}"


# How far a statistic must be above its limit for rounding to be no reason.
MARGIN = 1.0 + 1e-6
# No decision depends on a smaller tail, and the series for F' takes ever more terms there.
_FAR_OUT = 1e-30


class Residuals(NamedTuple):
    """rss (S, G): residual sums of squares in each environment and, last, in the pool, NaN where undecidable; ranks
    (S, G): what the fits take of the degrees of freedom; counts (G,): rows"""

    rss: Floats
    ranks: Integers | Floats
    counts: Floats

    @property
    def freedom(self) -> Floats:
        """(S, G) degrees of freedom that the fits leave"""
        return self.counts - 1.0 - self.ranks

    def f_test(self) -> tuple[Floats, Floats, Floats]:
        """(S,) F statistics of common coefficients, 0 where none may differ, and their degrees of freedom"""
        local, left = self.rss[:, :-1].sum(axis=1), self.freedom[:, :-1].sum(axis=1)
        between = self.freedom[:, -1] - left
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = np.maximum(self.rss[:, -1] - local, 0.0) / between / (local / left)
        return np.where(between > 0.0, statistics, 0.0), between, left


class InvarianceTest(NamedTuple):
    """p-values (S,) of approximate invariance: of coefficients and intercepts (mean) and of variances (spread), NaN
    where a model has no such parts, and of both (joint), 0 outside the support"""

    mean: Floats
    spread: Floats
    joint: Floats


def joint_p_value(mean: Floats, spread: Floats) -> Floats:
    """Of two independent p-values, by Fisher's rule."""
    with np.errstate(divide="ignore"):
        statistic = -2.0 * (np.log(mean) + np.log(spread))
    return np.asarray(chdtrc(4.0, statistic))


def mean_p_values(residuals: Residuals, delta: float) -> Floats:
    """(S,) F test of common coefficients, noncentral by N·delta."""
    statistics, between, left = residuals.f_test()
    p_values = np.where(np.isnan(residuals.rss).any(axis=1), 0.0, 1.0)
    # Settings that tell all environments apart leave nothing that could differ.
    tested = (between > 0.0) & (left > 0.0) & (p_values > 0.0)
    allowed = residuals.counts[-1] * delta
    p_values[tested] = _noncentral_tails(statistics[tested], between[tested], left[tested], allowed)
    return p_values


def _noncentral_tails(statistic: Floats, d: Floats, v: Floats, noncentrality: float) -> Floats:
    """P(F' ≥ statistic) with (d, v) degrees of freedom. Far out its series does not converge, it is as good as 0,
    and Patnaik's central F stands in."""
    if noncentrality == 0.0:
        return np.asarray(fdtrc(d, v, statistic))
    from scipy.stats import ncf

    tails = fdtrc((d + noncentrality) ** 2 / (d + 2.0 * noncentrality), v, statistic / (1.0 + noncentrality / d))
    near = tails > _FAR_OUT
    tails[near] = ncf.sf(statistic[near], d[near], v[near], noncentrality)
    return np.asarray(tails)


def spread_statistics(residuals: Residuals) -> Floats:
    """(S,) Bartlett's M/C of equal variances, chi-square with E − 1 degrees for normal noise; NaN if undecidable."""
    rss, freedom = residuals.rss[:, :-1], np.maximum(residuals.freedom[:, :-1], 1.0)
    total = freedom.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = total * np.log(rss.sum(axis=1) / total) - (freedom * np.log(rss / freedom)).sum(axis=1)
        correction = 1.0 + ((1.0 / freedom).sum(axis=1) - 1.0 / total) / (3.0 * max(rss.shape[1] - 1, 1))
    return np.maximum(statistic, 0.0) / correction


def spread_p_values(residuals: Residuals, tau: float, excess_kurtosis: ArrayLike) -> Floats:
    """(S,) Bartlett's test, noncentral by N·tau²/2, both divided by what heavy tails, excess_kurtosis (S,), do."""
    statistic = spread_statistics(residuals)
    n_environments = residuals.rss.shape[1] - 1
    if n_environments < 2:
        return np.where(np.isnan(statistic), 0.0, 1.0)
    inflation = 1.0 + np.maximum(excess_kurtosis, 0.0) / 2.0
    degrees, scaled = n_environments - 1.0, statistic / inflation
    noncentrality = residuals.counts[-1] * tau**2 / (2.0 * inflation)
    return np.where(np.isnan(statistic), 0.0, _noncentral_chi_square_tails(scaled, degrees, noncentrality))


def invariance_test(residuals: Residuals, tolerance: Tolerance, excess_kurtosis: ArrayLike = 0.0) -> InvarianceTest:
    mean = mean_p_values(residuals, tolerance.delta)
    spread = spread_p_values(residuals, tolerance.tau, excess_kurtosis)
    decided = ~np.isnan(residuals.rss).any(axis=1)
    return InvarianceTest(mean, spread, np.where(decided, joint_p_value(mean, spread), 0.0))


def deviance_test(deviance: Floats, expected: Floats, degrees: Floats, tolerated: float) -> Floats:
    """(S,) p-value of −2 log Λ, scaled to its degrees of freedom, with this tolerated noncentrality."""
    scaled = deviance * degrees / expected
    return _noncentral_chi_square_tails(scaled, degrees, np.full_like(scaled, tolerated))


def largest_deviance(degrees: Floats, tolerated: float, level: float) -> Floats:
    """(S,) −2 log Λ, scaled to its degrees of freedom, with which `deviance_test` just reaches the level."""
    from scipy.stats import chi2, ncx2

    found = ncx2.isf(level, degrees, tolerated) if tolerated > 0.0 else chi2.isf(level, degrees)
    return np.where(np.isnan(found), np.inf, found)


def deviance_tails(deviance: Floats, mean: Floats, variance: Floats, noncentrality: float) -> Floats:
    """(S,) P(T ≥ deviance) of a gamma law with this mean and variance (S,), a scaled chi-square, and noncentrality."""
    unit = 2.0 * mean / variance
    return _noncentral_chi_square_tails(deviance * unit, mean * unit, noncentrality * unit)


def deviance_moments(counts: Floats, ranks: Integers | Floats) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets of a linear Gaussian model, from counts (G,) of rows and
    ranks (S, G) of the fits; 0 with one environment, and where some fit has no degree of freedom left."""
    freedom = counts - 1.0 - ranks
    estimable = (freedom > 0.0).all(axis=1) & (len(counts) > 2)
    halves = freedom[estimable] / 2.0
    signs = np.append(-np.ones(len(counts) - 1), 1.0)
    mean, variance = np.zeros((2, len(ranks)))
    mean[estimable] = (digamma(halves) + np.log(2.0 / counts)) @ (signs * counts)
    variance[estimable] = polygamma(1, halves) @ (-signs * counts**2)
    return mean, variance


def _noncentral_chi_square_tails(statistic: Floats, degrees: Floats | float, noncentrality: Floats) -> Floats:
    if not noncentrality.any():
        return np.asarray(chdtrc(degrees, statistic))
    from scipy.stats import ncx2

    return np.asarray(ncx2.sf(statistic, degrees, noncentrality))
