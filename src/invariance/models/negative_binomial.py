"""Counts that scatter more than a Poisson law has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.likelihoods import NEGATIVE_BINOMIAL, Counts, Rows, dispersion_of
from .base import DISPERSION, Null, Predicts
from .invariance_test import deviance_moments
from .likelihood import Figures
from .poisson import check_counts, exposure_of
from .regression import Regression, RegressionFit, environment_starts, sums_by_environment

_LARGEST_DISPERSION = 1e6
_SMALLEST_SCALE = 10.0
_PIECE = 0.5
_DEGREE = 9
# From here on Stirling's series has all digits.
_STIRLING = 30.0
_VALUES_AT_ONCE = 4_000


def counts_of(y: Floats, expected: Floats, exposure: Floats, shares: Floats, starts: Integers) -> Counts:
    """Of rows sorted by environment, each with a count y, and pseudo-data of the weight shares[e] (E,) whose count is
    `expected` (N,)."""
    scale = float(max(y.max(), expected.max(), _SMALLEST_SCALE))
    centre = float(y.mean())
    n_pieces = int(np.ceil(np.log1p(_LARGEST_DISPERSION * scale) / _PIECE))
    nodes = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    phi = (_PIECE * (np.arange(n_pieces)[:, None] + 0.5 + 0.5 * nodes)).ravel()
    alpha = dispersion_of(phi, scale)
    to_powers = np.linalg.inv(np.vander(nodes))
    pieces = np.empty((len(starts) - 1, n_pieces, _DEGREE + 1))
    for e, share in enumerate(shares):
        own = slice(starts[e], starts[e + 1])
        values = _at_centre(y[own], alpha, centre) + y[own] @ np.log(exposure[own])
        if share > 0.0:
            pseudo = _at_centre(expected[own], alpha, centre) + expected[own] @ np.log(exposure[own])
            values = values + share * pseudo
        pieces[e] = values.reshape(n_pieces, -1) @ to_powers.T
    return Counts(np.ascontiguousarray(exposure), centre, scale, _PIECE * n_pieces, pieces)


def _at_centre(y: Floats, alpha: Floats, centre: float) -> Floats:
    """(A,) log-likelihood of all counts y (n,), which may be fractions, if each has the mean `centre`, by α (A,)"""
    values, times = np.unique(y, return_counts=True)
    total = np.zeros(len(alpha))
    for first in range(0, len(values), _VALUES_AT_ONCE):
        some, weight = values[first : first + _VALUES_AT_ONCE], times[first : first + _VALUES_AT_ONCE]
        constant = some * np.log(centre) - gammaln(some + 1.0)
        total += (log_rising(some, alpha) + constant) @ weight
    return total - (y.sum() + len(y) / alpha) * np.log1p(alpha * centre)


def log_rising(y: Floats, alpha: Floats) -> Floats:
    """(A, n) log Γ(y + 1/α) − log Γ(1/α) + y·log α of y (n,) and α (A,): Σ log(1 + αj) over j < y for whole y"""
    s = 1.0 / alpha[:, None]
    near = s[:, 0] >= _STIRLING
    values = np.empty((len(alpha), len(y)))
    values[~near] = gammaln(y + s[~near]) - gammaln(s[~near]) - y * np.log(s[~near])
    s = s[near]
    values[near] = (s + y - 0.5) * np.log1p(y / s) - y + _remainder(s + y) - _remainder(s)
    return values


def _remainder(s: Floats) -> Floats:
    """What Stirling's formula for log Γ(s) lacks"""
    z = 1.0 / s**2
    return np.asarray((1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / s)


@dataclass(frozen=True, eq=False)
class NegativeBinomialFit(RegressionFit):
    """dispersion: α of the pooled fit, 0 where its counts scatter no more than a Poisson law has it;
    local_dispersions (E,): of each environment's own."""

    dispersion: float
    local_dispersions: Floats


@dataclass(frozen=True)
class NegativeBinomial(Regression):
    """Outcome ~ negative binomial with mean μ = exposure · exp(intercept + coefficients · columns of z) and variance
    μ + αμ², by maximum likelihood; the dispersion α ≥ 0 is a parameter of every fit.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is what the pooled rate makes
        of their exposure; 0: none. They keep fits finite where an environment has no events
    """

    name: ClassVar[str] = "negative binomial"
    predicts: ClassVar[Predicts] = Predicts.rate
    takes: ClassVar[tuple[str, ...]] = ("exposure",)
    about_mean: ClassVar[tuple[str, ...]] = (DISPERSION,)

    def check(self, data: MultiEnvironmentData) -> None:
        check_counts(data, self.name)

    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        y, exposure, starts = data.y[order], exposure_of(data)[order], environment_starts(data)
        expected = exposure * (y.sum() / exposure.sum())
        shares = self.shares(data)
        extra = np.repeat(shares, data.counts)
        counts = counts_of(y, expected, exposure, shares, starts)
        return Rows(NEGATIVE_BINOMIAL, columns, starts, y + extra * expected, 1.0 + extra, counts)

    def beginning(self, rows: Rows) -> Floats:
        """The intercept of a Poisson law, and the dispersion that fits the variance around it."""

        def sums(values: Floats) -> Floats:
            own = sums_by_environment(values, rows.starts)
            return np.append(own, own.sum())

        exposure, weight = rows.counts.exposure, rows.weight
        y = rows.outcome / weight
        rate = (sums(rows.outcome) + 0.5) / sums(weight * exposure)
        squares = sums(weight * exposure**2)
        excess = sums(weight * y**2) - 2.0 * rate * sums(weight * y * exposure) + rate**2 * squares - sums(weight * y)
        alpha = np.maximum(excess, 0.0) / (rate**2 * squares)
        phi = np.minimum(np.log1p(alpha * rows.counts.scale), rows.counts.limit)
        return np.column_stack([np.log(rate), phi])

    def mean(self, predictor: Floats) -> Floats:
        return np.asarray(np.exp(predictor))

    def null(self, counts: Integers, figures: Figures) -> Null:
        """That of a linear Gaussian model: its fits too have coefficients and one parameter for the scatter, and in few
        rows −2 log Λ grows in the same way beyond its chi-square law."""
        local = (figures.degrees + figures.parameters) / len(counts)
        parameters = np.column_stack([*[local] * len(counts), figures.parameters])
        mean, variance = deviance_moments(np.append(counts, counts.sum()).astype(float), parameters - 2.0)
        return Null.of_deviance(mean, variance, figures.degrees)

    def finished(self, fit: RegressionFit, rows: Rows) -> NegativeBinomialFit:
        dispersions = dispersion_of(fit.more[:, 0], rows.counts.scale)
        local = dispersions[: len(fit.local_intercepts)]
        return NegativeBinomialFit(**vars(fit), dispersion=float(dispersions[-1]), local_dispersions=local)
