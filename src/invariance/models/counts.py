"""Regressions of counts: Poisson and negative binomial.

Both have the mean μ = exposure · exp(b + β'x^z) and are fitted by maximum likelihood, once to the
pool and once to each environment (equations 5 and 6 of the paper, Wu et al. 2025,
arXiv:2506.22675); the variance is μ or μ + αμ².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, Message, use
from ..kernels.likelihoods import NEGATIVE_BINOMIAL, POISSON, Counts, Rows
from .base import DISPERSION, Level, Null
from .likelihood import Figures
from .regression import (
    Regression,
    RegressionModel,
    baseline_ratios,
    environment_starts,
    sums_of_groups,
)
from .separation import Pulls

# How often each row counts with the pooled rate as its outcome: pooled fits then come to an end
# where a feature has counts of zero alone, and others hardly move.
_GUARD = 1e-6
# Here chi-square laws for Poisson counts reject what is invariant about twice as often as they
# state.
LARGEST_HARMLESS = 1.2


def exposure_of(data: MultiEnvironmentData) -> Floats:
    """Return the exposures (N,), 1 if none are given."""
    return np.ones(data.n_rows) if data.exposure is None else data.exposure


class CountRegression(Regression):
    """Outcome with mean exposure · exp(intercept + coefficients · columns of z)."""

    kind: ClassVar[str] = "count"
    link: ClassVar[str] = "log"
    inflation: ClassVar[float] = 0.0
    takes: ClassVar[tuple[str, ...]] = ("exposure",)

    def check(self, data: MultiEnvironmentData) -> None:
        wrong = (data.y < 0.0) | (data.y != np.floor(data.y))
        if wrong.any():
            what = (
                f"the {self.name} model is for counts, and {data.outcome_name!r} is no whole "
                "number from 0 on in"
            )
            example = f"{int(wrong.sum()):,} rows, for example {data.y[wrong][0]:g}"
            raise DataError(f"{what} {example}", use(family="auto"))
        if not data.y.any():
            raise DataError(
                f"the {self.name} model needs events, and {data.outcome_name!r} is 0 in all rows."
            )

    def mean(self, predictor: Floats) -> Floats:
        return np.asarray(np.exp(predictor))

    def working_outcome(self, data: MultiEnvironmentData) -> Floats:
        """Logarithms of counts over those that the pooled rate expects, half an event added to
        each."""
        y, expected, _ = self.guarded(data, np.arange(data.n_rows))
        return np.asarray(np.log((y + 0.5) / (expected + 0.5)))

    def pulls(self, data: MultiEnvironmentData, pooled: bool) -> Pulls:
        """A count of 0 pulls down."""
        direction = np.where(data.y > 0.0, 0.0, -1.0)
        return Pulls(np.arange(data.n_rows), direction, np.zeros(data.n_rows, dtype=np.intp))

    @property
    def guard(self) -> float:
        return _GUARD if self.pseudo_rows else 0.0

    @staticmethod
    def guarded(
        data: MultiEnvironmentData, order: Integers, free: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Return counts, expected counts and exposures (N,) in this order.

        Expected counts are from the pooled rate, or from the environment's if baselines are free.
        """
        exposure = exposure_of(data)
        expected = exposure * (data.y.sum() / exposure.sum())
        expected *= baseline_ratios(data, data.y, expected, free)[data.environment_index]
        return data.y[order], expected[order], exposure[order]


@dataclass(frozen=True)
class Poisson(CountRegression):
    """Model a count by Poisson regression on the selected columns.

    The mean is exposure · exp(b + β'x^z), fitted by maximum likelihood. Most counts vary more than
    this model allows, and invariant subsets are then rejected: `NegativeBinomial` allows for it.

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Weight, in rows, of the pseudo-data of each environment, whose outcome is the expectation of
        the pooled fit. They keep fits finite if an environment has no events. 0 is without
        pseudo-data.

    See Also
    --------
    NegativeBinomial : Allow for overdispersion.

    Examples
    --------
    >>> from invariance import BIP, Poisson
    >>> BIP(Poisson(pseudo_rows=0.5)).family
    Poisson(pseudo_rows=0.5)
    """

    name: ClassVar[str] = "Poisson"

    def remarks(self, model: RegressionModel, masks: Mask) -> tuple[str, ...]:
        ratio = overdispersion(model, masks[0]) if len(masks) else np.nan
        if not ratio > LARGEST_HARMLESS:
            return ()
        what = f"The counts vary {ratio:.1f} times as much as a Poisson law has it"
        return (Message(what, use(family="negative_binomial")),)

    def arrange(
        self, data: MultiEnvironmentData, columns: Floats, order: Integers, free: bool = False
    ) -> Rows:
        y, expected, exposure = self.guarded(data, order, free)
        outcome = y + self.guard * expected
        weight = (1.0 + self.guard) * exposure
        return Rows(
            POISSON, columns, environment_starts(data), outcome, weight, shares=self.shares(data)
        )

    def beginning(self, rows: Rows) -> Floats:
        rate = (sums_of_groups(rows.outcome, rows.starts) + 0.5) / sums_of_groups(
            rows.weight, rows.starts
        )
        return np.asarray(np.log(rate))[:, None]


def overdispersion(model: RegressionModel, mask: Mask) -> float:
    """Pearson's χ² over its degrees of freedom, of the Poisson fit to a subset (p,) with common
    slopes and an intercept for each environment: about 1 where counts are Poisson; NaN without
    degrees of freedom, or where the fit has no end.
    """
    data = model.data
    stratified = model.at_level(Level.effects)
    assert isinstance(stratified, RegressionModel)
    scores = stratified.scores(mask[None])
    rank = scores.ranks[0, -1] + stratified.profiled[-1]
    if np.isnan(scores.pooled[0]) or rank >= data.n_rows:
        return np.nan
    columns = data.X[:, data.features.expand(mask)]
    slopes = stratified.slopes(data.features.expand(mask), scores.thetas[0])[-1]
    mean = exposure_of(data) * np.exp((columns - columns.mean(axis=0)) @ slopes)
    # At the likeliest intercepts as many events are expected of an environment as it has.
    events, expected = (np.bincount(data.environment_index, values) for values in (data.y, mean))
    mean *= (events / expected)[data.environment_index]
    squares = np.divide((data.y - mean) ** 2, mean, np.zeros(data.n_rows), where=mean > 0.0)
    return float(squares.sum() / (data.n_rows - rank))


_LARGEST_DISPERSION = 1e6
_SMALLEST_SCALE = 10.0
_PIECE = 0.5
_DEGREE = 9
# From here on Stirling's series has all digits.
_STIRLING = 30.0
_VALUES_AT_ONCE = 4_000


def counts_of(
    y: Floats, expected: Floats, exposure: Floats, share: float, starts: Integers
) -> Counts:
    """Return the distinct counts of rows sorted by environment.

    They have counts y (N,), and pseudo-data with counts `expected` and weight `share`.
    """
    scale = float(max(y.max(), expected.max(), _SMALLEST_SCALE))
    centre = float(y.mean())
    n_pieces = int(np.ceil(np.log1p(_LARGEST_DISPERSION * scale) / _PIECE))
    nodes = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    phi = (_PIECE * (np.arange(n_pieces)[:, None] + 0.5 + 0.5 * nodes)).ravel()
    alpha = np.expm1(phi) / scale
    to_powers = np.linalg.inv(np.vander(nodes))
    pieces = np.empty((len(starts) - 1, n_pieces, _DEGREE + 1))
    for e in range(len(pieces)):
        own = slice(starts[e], starts[e + 1])
        values = np.zeros(len(alpha))
        for counts, weight in ((y[own], 1.0), (expected[own], share)):
            if weight > 0.0:
                values += weight * (
                    _at_centre(counts, alpha, centre) + counts @ np.log(exposure[own])
                )
        pieces[e] = values.reshape(n_pieces, -1) @ to_powers.T
    return Counts(np.ascontiguousarray(exposure), centre, scale, _PIECE * n_pieces, pieces)


def _at_centre(y: Floats, alpha: Floats, centre: float) -> Floats:
    """Return the log-likelihood (A,) of counts y (n,), which may be fractions, with mean `centre`,
    by α (A,)."""
    values, times = np.unique(y, return_counts=True)
    total = np.zeros(len(alpha))
    for first in range(0, len(values), _VALUES_AT_ONCE):
        some = values[first : first + _VALUES_AT_ONCE]
        weight = times[first : first + _VALUES_AT_ONCE]
        constant = some * np.log(centre) - gammaln(some + 1.0)
        total += (log_rising(some, alpha) + constant) @ weight
    return total - (y.sum() + len(y) / alpha) * np.log1p(alpha * centre)


def log_rising(y: Floats, alpha: Floats) -> Floats:
    """Return log Γ(y + 1/α) − log Γ(1/α) + y·log α (A, n) of y (n,) and α (A,).

    It is Σ log(1 + αj) over j < y for whole y.
    """
    s = 1.0 / alpha[:, None]
    near = s[:, 0] >= _STIRLING
    values = np.empty((len(alpha), len(y)))
    values[~near] = gammaln(y + s[~near]) - gammaln(s[~near]) - y * np.log(s[~near])
    s = s[near]
    values[near] = (s + y - 0.5) * np.log1p(y / s) - y + _remainder(s + y) - _remainder(s)
    return values


def _remainder(s: Floats) -> Floats:
    """Return the error of Stirling's formula for log Γ(s)."""
    z = 1.0 / s**2
    return np.asarray((1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / s)


class NegativeBinomialModel(RegressionModel):
    def null_of(
        self, figures: Figures, counts: Integers | None = None, others: Integers | int = 0
    ) -> Null:
        return self.scattered_null(figures, counts, others)


@dataclass(frozen=True)
class NegativeBinomial(CountRegression):
    """Model a count by negative binomial regression on the selected columns.

    The mean is μ = exposure · exp(b + β'x^z) and the variance μ + αμ². The dispersion α ≥ 0 is a
    parameter of every fit, by maximum likelihood.

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Weight, in rows, of the pseudo-data of each environment, whose outcome is the expectation of
        the pooled fit. They keep slopes finite if an environment has no events, and do not affect
        its dispersion. 0 is without pseudo-data.

    See Also
    --------
    Poisson : Assume that the variance is the mean.

    References
    ----------
    Lawless, J. F. (1987), Negative binomial and mixed Poisson regression, Canadian Journal of
    Statistics 15, 209-225, doi:10.2307/3314912.

    Examples
    --------
    >>> from invariance import BIP, NegativeBinomial
    >>> BIP(NegativeBinomial(pseudo_rows=0.5)).family
    NegativeBinomial(pseudo_rows=0.5)
    """

    name: ClassVar[str] = "negative binomial"
    model: ClassVar[type[RegressionModel]] = NegativeBinomialModel  #: :meta private:
    about_mean: ClassVar[tuple[str, ...]] = (DISPERSION,)

    def arrange(
        self, data: MultiEnvironmentData, columns: Floats, order: Integers, free: bool = False
    ) -> Rows:
        (y, expected, exposure), starts, guard = (
            self.guarded(data, order, free),
            environment_starts(data),
            self.guard,
        )
        counts = counts_of(y, expected, exposure, guard, starts)
        weight = np.full(len(y), 1.0 + guard)
        outcome = y + guard * expected
        shares = self.shares(data)
        return Rows(NEGATIVE_BINOMIAL, columns, starts, outcome, weight, counts, shares=shares)

    def beginning(self, rows: Rows) -> Floats:
        """The intercept of a Poisson law, and the dispersion that fits the variance around it."""
        exposure = rows.counts.exposure
        weight = rows.weight
        sums = partial(sums_of_groups, starts=rows.starts)
        y = rows.outcome / weight
        rate = (sums(rows.outcome) + 0.5) / sums(weight * exposure)
        squares = sums(weight * exposure**2)
        excess = (
            sums(weight * y**2)
            - 2.0 * rate * sums(weight * y * exposure)
            + rate**2 * squares
            - sums(weight * y)
        )
        alpha = np.maximum(excess, 0.0) / (rate**2 * squares)
        phi = np.minimum(np.log1p(alpha * rows.counts.scale), rows.counts.limit)
        return np.column_stack([np.log(rate), phi])
