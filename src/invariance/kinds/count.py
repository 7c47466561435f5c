"""Counts, whose rate per unit of exposure is the exponential of a line."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from .._tools.arrays import Floats, Mask
from .base import CALIBRATION, OutcomeKind
from .figures import COVERAGE, UNKNOWN, Figure, Law, around, calibration_slope, explained

# The largest mean of a Poisson law by which none occur with probability 2.5%
LARGEST_MEAN_OF_NONE = -float(np.log(0.5 - 0.5 * COVERAGE))


class Count(OutcomeKind):
    """Whole numbers from 0 on; predictions are rates."""

    name = "count"
    predicts = "rate"
    ratio = "rate ratio"
    baseline_unit = "log rate"
    error_name = "Poisson deviance"
    price_figure = "deviance_explained"
    price_name = "share of the deviance that is not explained"
    figures = (*CALIBRATION, "deviance_explained")
    measure = "deviance_explained"
    measure_does = "explain a share of the deviance of"
    measure_is = "Explained: share of the deviance around the environment's own rate."
    scale = "logarithms of rates"
    group_mean = "rate"
    mean_name = "rate"
    tree_loss = "poisson"
    pseudo_data = "at the pooled fit"
    coding = "whole numbers from 0 on"

    def inverse_link(self, linear: Floats) -> Floats:
        return np.asarray(np.exp(linear))

    def error(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
    ) -> float:
        """Return the mean Poisson deviance."""
        mean = predicted if exposure is None else predicted * exposure
        terms = xlogy(observed, observed) - xlogy(observed, mean) - observed + mean
        return float(2.0 * np.mean(terms))

    def measured(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
        hazard: tuple[Floats, Floats, Floats] | None = None,
    ) -> dict[str, Figure]:
        y = observed
        exposure = np.ones(len(y)) if exposure is None else exposure
        expected = predicted * exposure
        total = exposure.sum()
        own = y.sum() / total
        intercept = slope = share = UNKNOWN
        if y.any() and (expected > 0.0).all():
            logs = np.log(predicted)
            times = y.sum() / expected.sum()
            error = float(np.sqrt(np.sum((y - times * expected) ** 2)) / y.sum())
            intercept = around(np.log(times), error)
            events = logs[y > 0.0]
            # Else a slope, however large, makes events certain where they are and impossible
            # elsewhere.
            if events.min() < events.max() or logs.min() < events[0] < logs.max():
                law: Law = (lambda eta: exposure * np.exp(eta),) * 3
                slope = calibration_slope(y, logs, law, float(np.log(own)))
            missed, scatter = (xlogy(y, y / mean) - y + mean for mean in (expected, exposure * own))
            share = explained(missed, scatter)
        return {
            "observed": Figure(own),
            "predicted": Figure(expected.sum() / total),
            "intercept": intercept,
            "slope": slope,
            "deviance_explained": share,
        }

    def price_error(self, figure: float) -> float:
        return 1.0 - figure

    def interval_of_mean(self, observed: Floats, weight: Floats) -> tuple[float, float, float]:
        mean, low, high = super().interval_of_mean(observed, weight)
        if not mean:
            return mean, 0.0, LARGEST_MEAN_OF_NONE / float(weight.sum())
        return mean, max(low, 0.0), high

    def within_range(self, predicted: Floats, least: float) -> Floats:
        return np.maximum(predicted, least)

    def unit(self, y: Floats, weights: Floats | None) -> float:
        """Return the mean rate."""
        return float(np.average(y, weights=weights))

    def ridge(self, penalty: float, y: Floats) -> Any:
        from sklearn.linear_model import PoissonRegressor

        return PoissonRegressor(alpha=penalty / y.sum(), solver="newton-cholesky")

    def link(self, mean: float) -> float:
        return float(np.log(mean))

    def variance(self, mean: Floats) -> Floats:
        return mean

    def fits(self, y: Floats) -> Mask:
        return (y >= 0.0) & (y == np.floor(y))


COUNT = Count()
