"""Counts that scatter more than a Poisson law has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.newton.negative_binomial import dispersion_of
from ..kernels.newton.rows import NEGATIVE_BINOMIAL, Rows
from .base import Null
from .compared import DISPERSION
from .dispersion_table import counts_of
from .figures import Figures
from .gaussian import deviance_moments
from .poisson import check_counts, exposure_of
from .predicts import Predicts
from .regression import Regression
from .regression_fit import RegressionFit
from .rows_of_environments import environment_starts, sums_by_environment


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
        known = variance > 0.0
        return Null(np.where(known, -0.5 * mean, -np.inf), 0.25 * variance, np.where(known, figures.degrees, 0.0))

    def finished(self, fit: RegressionFit, rows: Rows) -> NegativeBinomialFit:
        dispersions = dispersion_of(fit.more[:, 0], rows.counts.scale)
        local = dispersions[: len(fit.local_intercepts)]
        return NegativeBinomialFit(**vars(fit), dispersion=float(dispersions[-1]), local_dispersions=local)
