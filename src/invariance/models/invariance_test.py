"""Tolerated differences between environments, and tests of approximate invariance.

The paper's posterior (equation 7, Wu et al. 2025, arXiv:2506.22675) compares subsets by
Λ(z) = Π g(y | x^z) / p_e(y | x^z), whose logarithm is half the negative deviance of the hypothesis
that z is invariant. The tests here allow small differences: their statistics are noncentral.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import (
    chdtrc,
    chdtri,
    chndtr,
    digamma,
    fdtrc,
    fdtri,
    gammainc,
    gammaincc,
    gammainccinv,
    ncfdtr,
    ndtr,
    polygamma,
)

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import SettingError

# However strong the signal, coefficients that differ may explain at most this share of the residual
# variance.
CAP = 0.02
# The p-value of the environment that deviates most from the rest must reach this share of the
# level.
EACH = 0.05
# Excess kurtosis of residuals, in standard errors of that of normal noise, above which tails count
# as heavy.
HEAVY = 2.0


@dataclass(frozen=True)
class Tolerance:
    """Set which differences between environments are compatible with invariance.

    A subset is compatible if its p-value for approximate invariance is at least `level`. The
    defaults keep an invariant subset with heavy-tailed noise.

    Parameters
    ----------
    rho : float, default=0.1
        Tolerated difference of coefficients between environments, relative to their size, from 0 to
        1.
    tau : float, default=0.1
        Tolerated relative spread of the standard deviation of the noise, from 0 to 1.
    level : float, default=0.2
        Smallest p-value of a compatible subset, between 0 and 1.
    weak_level : float, default=0.02
        The same if no subset reaches `level`: to conclude that none is invariant requires more
        evidence than to prefer one subset to another.

    Raises
    ------
    SettingError
        If a value is outside its range.

    Examples
    --------
    >>> from invariance import Tolerance
    >>> Tolerance.strict()
    Tolerance(rho=0.0, tau=0.0, level=0.05, weak_level=0.05)
    """

    rho: float = 0.1
    tau: float = 0.1
    level: float = 0.2
    weak_level: float = 0.02

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, Real) and not isinstance(value, bool)
            if name in ("rho", "tau") and not (number and 0.0 <= value <= 1.0):
                raise SettingError(
                    f"{name}={value!r} is no tolerance: use a number from 0 to 1, such as 0.1."
                )
            if name in ("level", "weak_level") and not (number and 0.0 < value < 1.0):
                raise SettingError(f"{name}={value!r} is no level: use a number between 0 and 1.")

    @classmethod
    def strict(cls, level: float = 0.05) -> Self:
        """Return a tolerance of exact invariance.

        Parameters
        ----------
        level : float, default=0.05
            Level of the test.

        Returns
        -------
        Self
            The tolerance, with rho and tau 0.
        """
        return cls(0.0, 0.0, level, level)

    @property
    def lowest_level(self) -> float:
        """Return the level below which a subset is rejected, whatever the others are like."""
        return min(self.level, self.weak_level)

    @property
    def weak(self) -> Self:
        """Return the same tolerance at the level that is used if no subset reaches `level`.

        Returns
        -------
        Self
            The tolerance with the smaller of the two levels.
        """
        return replace(self, level=self.lowest_level)

    def noncentrality(self, signal: Floats, n_rows: float) -> Floats:
        """Return the tolerated noncentrality (S,) in tests of common coefficients.

        The subsets have this signal-to-noise ratio (S,), in rows.
        """
        return np.minimum(CAP * n_rows, self.rho**2 * signal)

    def in_words(self, what: str, *allowed: str) -> str:
        """Describe the tolerance in words.

        Parameters
        ----------
        what : str
            The hypothesis, such as "invariance".
        *allowed : str
            Which of "rho" and "tau" the model tolerates.

        Returns
        -------
        str
            Hypothesis, tolerances and level.
        """
        if not any(getattr(self, name) for name in allowed):
            return f"exact {what} at level {self.level:g}"
        sizes = ", ".join(f"{name} {getattr(self, name):g}" for name in allowed)
        return f"{what} up to {sizes} at level {self.level:g}"


# How far a statistic must be above its limit for rounding to be no reason.
MARGIN = 1.0 + 1e-6
# No decision depends on a smaller tail, and the series for F' takes ever more terms there.
_FAR_OUT = 1e-16
# A tail of which the difference from 1 has too few digits.
_SMALL = 1e-6
# A skewness at which a gamma law is normal to six digits of the tails.
_NO_SKEW = 1e-6
# A noncentrality from which on a scaled central law has seven digits of the tails.
_HUGE = 1e7


class Residuals(NamedTuple):
    """rss (S, G): residual sums of squares in each environment and, last, in the pool, NaN where
    undecidable; ranks (S, G): what the fits take of the degrees of freedom; counts (G,): rows;
    total: sum of squares of the outcome; extra_intercepts: of the pooled fit beyond one, if
    environments have their own"""

    rss: Floats
    ranks: Integers | Floats
    counts: Floats
    total: float
    extra_intercepts: int = 0

    @property
    def freedom(self) -> Floats:
        """Return the residual degrees of freedom of the fits, (S, G)."""
        freedom = self.counts - 1.0 - self.ranks
        freedom[:, -1] -= self.extra_intercepts
        return freedom

    @property
    def signal(self) -> Floats:
        """Return N·R²/(1 − R²) of the pooled fit, (S,)."""
        return self.counts[-1] * np.maximum(self.total / self.rss[:, -1] - 1.0, 0.0)

    def of(self, rows: Integers) -> Residuals:
        """Return the residuals of the subsets `rows`."""
        return self._replace(rss=self.rss[rows], ranks=self.ranks[rows])

    def f_test(self) -> tuple[Floats, Floats, Floats]:
        """Return F statistics (S,) of common coefficients, 0 if none may differ, and degrees of
        freedom."""
        local = self.rss[:, :-1].sum(axis=1)
        left = self.freedom[:, :-1].sum(axis=1)
        between = self.freedom[:, -1] - left
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = np.maximum(self.rss[:, -1] - local, 0.0) / between / (local / left)
        return np.where(between > 0.0, statistics, 0.0), between, left


class InvarianceTest(NamedTuple):
    """p-values (S,) of approximate invariance: of coefficients and intercepts (mean) and of
    variances (spread), NaN where a model has no such parts; of the environment that deviates most
    from the rest, corrected for their number (each), NaN where that was not asked; and of all
    (joint), 0 outside the support"""

    mean: Floats
    spread: Floats
    each: Floats
    joint: Floats


def joint_p_value(mean: Floats, spread: Floats) -> Floats:
    """Return the p-value of two independent p-values by Fisher's rule."""
    with np.errstate(divide="ignore"):
        statistic = -2.0 * (np.log(mean) + np.log(spread))
    return np.asarray(chdtrc(4.0, statistic))


def without_spread(p_values: Floats, tolerance: Tolerance) -> Floats:
    """Return joint p-values (S,) in a model without a test of the spread.

    If some spread is tolerated, the p-value of such a test is taken as 1, so that the levels have
    the same meaning as in a model that has one.
    """
    return joint_p_value(p_values, np.ones(len(p_values))) if tolerance.tau else p_values


def mean_p_values(residuals: Residuals, allowed: Floats) -> Floats:
    """Return p-values (S,) of the F test of common coefficients, with this noncentrality (S,)."""
    statistics, between, left = residuals.f_test()
    p_values = np.where(np.isnan(residuals.rss).any(axis=1), 0.0, 1.0)
    # Settings that tell all environments apart leave nothing that could differ.
    tested = (between > 0.0) & (left > 0.0) & (p_values > 0.0)
    p_values[tested] = _noncentral_tails(
        statistics[tested], between[tested], left[tested], allowed[tested]
    )
    return p_values


def each_p_values(residuals: Residuals, rests: Residuals, allowed: Floats) -> Floats:
    """Return the smallest p-value (S,) of an environment against the rest, by Šidák's rule.

    rests : of the rows outside each environment; allowed (S,) : noncentrality, shared by rows. It
        is 1 if fits to
    the rest are undecidable.
    """
    statistics, degrees, left = _each_f_test(residuals, rests)
    p_values = np.ones(degrees.shape)
    tested = (degrees > 0.0) & (left[:, None] > 0.0) & ~np.isnan(statistics)
    shares = allowed[:, None] * residuals.counts[:-1] / residuals.counts[-1]
    given = (
        np.broadcast_to(values, degrees.shape)[tested]
        for values in (statistics, degrees, left[:, None], shares)
    )
    p_values[tested] = _noncentral_tails(*given)
    return sidak(p_values)


def _each_f_test(residuals: Residuals, rests: Residuals) -> tuple[Floats, Floats, Floats]:
    """F statistics (S, E) of each environment against the rest, and their degrees of freedom (S, E)
    and (S,)"""
    local = residuals.rss[:, :-1]
    freedom = residuals.freedom
    left = freedom[:, :-1].sum(axis=1)
    degrees = freedom[:, -1:] - rests.freedom - freedom[:, :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = np.maximum(residuals.rss[:, -1:] - rests.rss - local, 0.0)
        return saved / degrees / (local.sum(axis=1) / left)[:, None], degrees, left


# How often permuted residuals of some of the subsets (n,) give an environment as small a p-value as
# those (n,).
Permuted = Callable[[Integers, Floats], Floats]


def with_tails(
    each: Floats,
    below: float,
    residuals: Residuals,
    kurtosis: Callable[[Integers], Floats],
    permuted: Permuted | None,
) -> Floats:
    """Return p-values (S,) `each` of the environment that deviates most, corrected for heavy tails.

    If residuals have heavy tails, which F tests do not account for, p-values below `below` are at
    least the share of permutations that deviate as much. kurtosis : of some of the subsets;
    permuted : None without the rows
    """
    asked = np.flatnonzero(each < below)
    if permuted is None or not len(asked):
        return each
    asked = asked[kurtosis(asked) > HEAVY * np.sqrt(24.0 / residuals.counts[-1])]
    alone = -np.expm1(np.log1p(-each[asked]) / (len(residuals.counts) - 1))
    checked = each.copy()
    checked[asked] = np.maximum(each[asked], permuted(asked, alone))
    return checked


def sidak(p_values: Floats) -> Floats:
    """Return the p-value (S,) of the smallest of E independent p-values (S, E)."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(p_values.shape[1] * np.log1p(-p_values.min(axis=1))))


def with_each(joint: Floats, each: Floats) -> Floats:
    """Return p-values (S,) that reach a level if `joint` does and `each` its share of the level.

    A NaN of `each` does not count.
    """
    return np.fmin(joint, each / EACH)


def _noncentral_tails(statistic: Floats, d: Floats, v: Floats, noncentrality: Floats) -> Floats:
    """P(F' ≥ statistic) with (d, v) degrees of freedom. Its series does not converge far out, where
    it is as good as 0, and with a huge noncentrality, where Patnaik's central F is as good."""
    tails = fdtrc(
        (d + noncentrality) ** 2 / (d + 2.0 * noncentrality),
        v,
        statistic / (1.0 + noncentrality / d),
    )
    near = (tails > _FAR_OUT) & (noncentrality > 0.0) & (noncentrality < _HUGE)
    tails[near] = 1.0 - ncfdtr(d[near], v[near], noncentrality[near], statistic[near])
    small = near & (tails < _SMALL)
    if small.any():
        from scipy.stats import ncf

        tails[small] = ncf.sf(statistic[small], d[small], v[small], noncentrality[small])
    return np.asarray(tails)


def spread_statistics(residuals: Residuals) -> Floats:
    """Return Bartlett's M/C of equal variances, (S,); NaN if undecidable.

    It is chi-squared with E − 1 degrees of freedom for normal noise.
    """
    rss = residuals.rss[:, :-1]
    freedom = np.maximum(residuals.freedom[:, :-1], 1.0)
    total = freedom.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = total * np.log(rss.sum(axis=1) / total) - (freedom * np.log(rss / freedom)).sum(
            axis=1
        )
    correction = ((1.0 / freedom).sum(axis=1) - 1.0 / total) / (3.0 * max(freedom.shape[1] - 1, 1))
    return np.maximum(statistic, 0.0) / (1.0 + correction)


def spread_p_values(residuals: Residuals, tau: float, excess_kurtosis: ArrayLike) -> Floats:
    """Return p-values (S,) of Bartlett's test, noncentral by N·tau²/2.

    Both are divided by the effect of heavy tails, excess_kurtosis (S,).
    """
    statistic = spread_statistics(residuals)
    n_environments = residuals.rss.shape[1] - 1
    if n_environments < 2:
        return np.where(np.isnan(statistic), 0.0, 1.0)
    inflation = 1.0 + np.maximum(excess_kurtosis, 0.0) / 2.0
    degrees = n_environments - 1.0
    scaled = statistic / inflation
    noncentrality = residuals.counts[-1] * tau**2 / (2.0 * inflation)
    return np.where(
        np.isnan(statistic), 0.0, _noncentral_chi_square_tails(scaled, degrees, noncentrality)
    )


def invariance_test(
    residuals: Residuals,
    tolerance: Tolerance,
    excess_kurtosis: ArrayLike = 0.0,
    rests: Callable[[Integers], Residuals] | None = None,
    permuted: Permuted | None = None,
) -> InvarianceTest:
    """rests: of the rows outside each environment, for some of the subsets; None: environments are
    not tested. permuted: as in `with_tails`"""
    allowed = tolerance.noncentrality(residuals.signal, residuals.counts[-1])
    mean = mean_p_values(residuals, allowed)
    spread = spread_p_values(residuals, tolerance.tau, excess_kurtosis)
    decided = ~np.isnan(residuals.rss).any(axis=1)
    joint = np.where(decided, joint_p_value(mean, spread), 0.0)
    each = np.full(len(mean), np.nan)
    open_yet = np.flatnonzero(joint >= tolerance.lowest_level)
    if rests is not None and len(open_yet):
        part = residuals.of(open_yet)
        tails = np.broadcast_to(excess_kurtosis, len(mean))[open_yet]
        tested = each_p_values(part, rests(open_yet), allowed[open_yet])
        chances = None if permuted is None else lambda rows, least: permuted(open_yet[rows], least)
        each[open_yet] = with_tails(tested, EACH, part, lambda rows: tails[rows], chances)
    return InvarianceTest(mean, spread, each, with_each(joint, each))


def compatible(
    residuals: Residuals,
    tolerance: Tolerance,
    excess_kurtosis: Callable[[Integers], Floats],
    rests: Callable[[Integers], Residuals] | None,
    permuted: Permuted | None,
) -> Mask:
    """Return whether the joint p-value of `invariance_test` is at least the level, (S,).

    Bounds decide most subsets. Without heavy tails Bartlett's statistic has smaller p-values if it
    exceeds the noncentrality; below that its p-value is at least ½, since the noncentral mean is
    outside the ball of such statistics. Central distributions have smaller tails. excess_kurtosis,
    rests, permuted : of some of the subsets
    """
    decided = ~np.isnan(residuals.rss).any(axis=1)
    allowed = tolerance.noncentrality(residuals.signal, residuals.counts[-1])
    mean = mean_p_values(residuals, allowed)
    spread = np.full(len(residuals.rss), 0.5)
    apart = np.flatnonzero(
        ~(spread_statistics(residuals) <= residuals.counts[-1] * tolerance.tau**2 / 2.0)
    )
    spread[apart] = spread_p_values(residuals.of(apart), tolerance.tau, 0.0)
    passed = decided & (joint_p_value(mean, spread) >= tolerance.level)
    asked = np.flatnonzero(decided & ~passed & (mean >= smallest_p_value(tolerance)))
    if len(asked):
        passed[asked] = (
            invariance_test(residuals.of(asked), tolerance, excess_kurtosis(asked)).joint
            >= tolerance.level
        )
    open_yet = np.flatnonzero(passed)
    if rests is None or not len(open_yet):
        return passed
    part = residuals.of(open_yet)
    others = rests(open_yet)
    enough = EACH * tolerance.level
    statistics, degrees, left = _each_f_test(part, others)
    alone = -np.expm1(np.log1p(-enough) / statistics.shape[1])
    asked = np.flatnonzero((statistics > _central_quantiles(degrees, left, alone)).any(axis=1))
    if len(asked):
        places = open_yet[asked]
        each = each_p_values(part.of(asked), others.of(asked), allowed[places])
        chances = None if permuted is None else lambda rows, least: permuted(places[rows], least)
        each = with_tails(each, enough, part, lambda rows: excess_kurtosis(places[rows]), chances)
        passed[places] = each >= enough
    return passed


def _central_quantiles(d: Floats, v: Floats, tail: float) -> Floats:
    """Return quantiles (S, E) of F with degrees of freedom d (S, E), v (S,) and this upper tail.

    They are inf if one is not positive.
    """
    pairs, place = np.unique(d + 1j * v[:, None], return_inverse=True)
    tested = (pairs.real > 0.0) & (pairs.imag > 0.0)
    return np.where(tested, fdtri(pairs.real, pairs.imag, 1.0 - tail), np.inf)[place].reshape(
        d.shape
    )


def smallest_p_value(tolerance: Tolerance) -> float:
    """Return a lower bound of both p-values of a compatible subset, and of their product, by
    Fisher's rule."""
    return float(np.exp(-0.5 * chdtri(4.0, tolerance.level)))


_Tails = Callable[[Floats], Floats]


class Difference(NamedTuple):
    """ρ (S,), the share of themselves by which coefficients differ between these environments, and
    the ends of its 90% interval, NaN where they were not asked for; NaN of subsets without a signal
    and outside the support. They say nothing of other environments. Where these are more alike than
    chance makes five in six, the upper end is as if they were not: luck is no evidence of
    likeness."""

    estimate: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(
        cls, noncentrality: Floats, low: _Tails, high: _Tails, signal: Floats, ends: bool
    ) -> Difference:
        """Return the difference from an estimate (S,) of the noncentrality and its tail probability
        (S,).

        The latter is a function of the noncentrality, as it counts for the lower end and for the
        upper one.
        """
        unknown = np.full(len(signal), np.nan)
        each = ((low, _TAIL), (high, 1.0 - _TAIL))
        found = (
            _noncentrality_at(tails, tail, signal) if ends else unknown for tails, tail in each
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = (np.sqrt(np.maximum(value, 0.0) / signal) for value in (noncentrality, *found))
            return cls(*(np.where(signal > _NO_SIGNAL, share, np.nan) for share in shares))


_TAIL = 0.05
LUCKY = 1.0 / 6.0
_LITTLE_SKEW = 1e-3
# A deviance that is no more than rounding.
_NO_SIGNAL = 1e-6
_LARGEST_SHARE = 1e3
_HALVINGS = 36


def _noncentrality_at(tails: _Tails, tail: float, signal: Floats) -> Floats:
    """Return the noncentrality (S,) with this tail probability, by bisection.

    It is 0 if the tail probability is larger without any.
    """
    low = np.zeros(len(signal))
    high = np.full(len(signal), _LARGEST_SHARE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = tails(middle**2 * np.maximum(signal, 0.0)) < tail
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return low**2 * np.maximum(signal, 0.0)


def f_difference(residuals: Residuals, ends: bool) -> Difference:
    """Return the difference by the noncentral F distribution of common coefficients.

    The signal is relative to the noise within environments: in the noise of the pooled fit the
    differences count as noise.
    """
    statistics, between, left = residuals.f_test()
    decided = ~np.isnan(residuals.rss).any(axis=1) & (between > 0.0) & (left > 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = residuals.rss[:, :-1].sum(axis=1) / left
        signal = np.where(
            decided, np.maximum(residuals.total - residuals.rss[:, -1], 0.0) / noise, 0.0
        )
    f, d, v = (np.where(decided, values, 1.0) for values in (statistics, between, left))
    estimate = d * (f * (v - 2.0) / v - 1.0)
    least = np.maximum(f, fdtri(d, v, LUCKY))
    low, high = (partial(_noncentral_tails, value, d, v) for value in (f, least))
    return Difference.of(estimate, low, high, signal, ends)


def deviance_difference(
    deviance: Floats, expected: Floats, degrees: Floats, signal: Floats, ends: bool
) -> Difference:
    """Return the difference by the noncentral chi-squared distribution of −2 log Λ.

    It is scaled to its degrees of freedom; NaN if these are 0.
    """
    tested = degrees > 0.0
    found, mean, d = (np.where(tested, values, 1.0) for values in (deviance, expected, degrees))
    signal = np.where(tested, signal, 0.0)
    least = np.maximum(found, chdtri(d, 1.0 - LUCKY) * mean / d)
    low, high = (partial(deviance_test, value, mean, d) for value in (found, least))
    return Difference.of(found * d / mean - d, low, high, signal, ends)


def deviance_test(deviance: Floats, expected: Floats, degrees: Floats, allowed: Floats) -> Floats:
    """Return p-values (S,) of −2 log Λ, scaled to its degrees of freedom, with noncentrality
    (S,)."""
    return _noncentral_chi_square_tails(deviance * degrees / expected, degrees, allowed)


def deviance_tails(
    deviance: Floats, mean: Floats, variance: Floats, noncentrality: Floats
) -> Floats:
    """Return P(T ≥ deviance) (S,) of a scaled chi-squared distribution with this mean and variance
    (S,).

    noncentrality : of the distribution
    """
    unit = 2.0 * mean / variance
    return _noncentral_chi_square_tails(deviance * unit, mean * unit, noncentrality * unit)


def pearson_tails(z: Floats, skew: Floats) -> Floats:
    """P(Z ≥ z) of a standardised gamma law with this skewness (Pearson III), mirrored where that is
    negative."""
    shape = 4.0 / np.maximum(np.abs(skew), _NO_SKEW) ** 2
    above, below = (np.maximum(shape + side * np.sqrt(shape) * z, 0.0) for side in (1.0, -1.0))
    tails = np.where(np.asarray(skew) > 0.0, gammaincc(shape, above), gammainc(shape, below))
    return np.asarray(np.where(np.abs(skew) > _NO_SKEW, tails, ndtr(-np.asarray(z))))


def standardised(
    statistic: Floats, freedom: Floats | float, t1: Floats, t2: Floats, t3: Floats
) -> tuple[Floats, Floats]:
    """A ratio of quadratic forms x'Cx/x'x in `freedom` normal variables, in units of its standard
    deviation above its mean, and its skewness, from the traces of C, C² and C³; where it cannot
    vary, -inf: nothing differs"""
    variance = 2.0 * (freedom * t2 - t1**2) / (freedom**2 * (freedom + 2.0))
    third = 8.0 * (freedom**2 * t3 - 3.0 * freedom * t1 * t2 + 2.0 * t1**3)
    third /= freedom**3 * (freedom + 2.0) * (freedom + 4.0)
    varies = variance > 1e-14 * (t1 / freedom) ** 2
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    score = np.where(
        varies,
        (statistic - t1 / freedom) / deviation,
        np.where(np.isnan(variance), np.nan, -np.inf),
    )
    return score, np.where(varies, third / deviation**3, 0.0)


# The score statistic of random deviations, standardised, and its skewness (S,), where these explain
# a share (S,) of the noise.
Score = Callable[[Floats], tuple[Floats, Floats]]


def score_p_values(score: Score, share: Floats) -> Floats:
    """Return p-values (S,) that deviations explain no more than this share (S,).

    They are at least those of no deviations, which have another statistic.
    """
    shares = (share, np.zeros_like(share)) if np.any(share) else (share,)
    return np.asarray(np.max([pearson_tails(*score(each)) for each in shares], axis=0))


def score_difference(
    score: Score, share: Floats, n_rows: float, signal: Floats, ends: bool
) -> Difference:
    """Return the shares that the score test does not reject; share (S,) : the likeliest."""
    z, skew = score(np.zeros(len(share)))
    # Above the end of the law of positive skewness
    ends_at = 2.0 / np.maximum(np.nan_to_num(skew), _LITTLE_SKEW)
    least = gammainccinv(ends_at**2, 1.0 - LUCKY) / ends_at / np.maximum(z + ends_at, _LITTLE_SKEW)

    def tails(noncentrality: Floats, times: Floats | float) -> Floats:
        z, skew = score(noncentrality / n_rows)
        ends_at = 2.0 / np.maximum(np.nan_to_num(skew), _LITTLE_SKEW)
        return pearson_tails(np.maximum(z + ends_at, 0.0) * times - ends_at, skew)

    high = partial(tails, times=np.maximum(least, 1.0))
    return Difference.of(n_rows * share, partial(tails, times=1.0), high, signal, ends)


def deviance_moments(counts: Floats, ranks: Integers | Floats) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets of a linear Gaussian model, from
    counts (G,) of rows and ranks (S, G) of the fits; 0 with one environment, and where some fit has
    no degree of freedom left."""
    freedom = counts - 1.0 - ranks
    estimable = (freedom > 0.0).all(axis=1) & (len(counts) > 2)
    halves = freedom[estimable] / 2.0
    signs = np.append(-np.ones(len(counts) - 1), 1.0)
    mean, variance = np.zeros((2, len(ranks)))
    mean[estimable] = (digamma(halves) + np.log(2.0 / counts)) @ (signs * counts)
    variance[estimable] = polygamma(1, halves) @ (-signs * counts**2)
    return mean, variance


def _noncentral_chi_square_tails(
    statistic: Floats, degrees: Floats | float, noncentrality: Floats
) -> Floats:
    scale = (degrees + 2.0 * noncentrality) / (degrees + noncentrality)
    tails = np.asarray(chdtrc((degrees + noncentrality) / scale, statistic / scale))
    near = (noncentrality > 0.0) & (noncentrality < _HUGE)
    if not near.any():
        return tails
    excess = np.where(near, noncentrality, 1.0)
    tails = np.where(near, 1.0 - chndtr(statistic, degrees, excess), tails)
    small = near & (tails < _SMALL)
    if small.any():
        from scipy.stats import ncx2

        tails = np.where(small, ncx2.sf(statistic, degrees, excess), tails)
    return tails
