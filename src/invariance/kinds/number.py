"""Numbers, whose mean is linear in the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tools.arrays import Floats
from .base import CALIBRATION, OutcomeKind
from .figures import UNKNOWN, Figure, around, explained, ratio


class Number(OutcomeKind):
    """Any number; errors are squared."""

    name = "number"
    predicts = "number"
    ratio = "ratio of means"
    error_name = "RMSE"
    price_figure = "rmse"
    price_name = "RMSE"
    choice_error = "RMSE"
    choice_margin = 0.2
    figures = (*CALIBRATION, "rmse", "r2")
    measure = "rmse"
    measure_does = "are off by an RMSE of"
    measure_is = "RMSE: root of the mean squared error, in units of the outcome."
    scale = "predictions"
    group_mean = "mean"
    mean_name = "mean"
    figure_format = "z.4g"
    by_least_squares = True

    def inverse_link(self, linear: Floats) -> Floats:
        return np.asarray(linear)

    def error(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
    ) -> float:
        """Return the root mean squared error."""
        return float(np.sqrt(np.mean((observed - predicted) ** 2)))

    def measured(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
        hazard: tuple[Floats, Floats, Floats] | None = None,
    ) -> dict[str, Figure]:
        y = observed
        n = len(y)
        errors = y - predicted
        missed = float(np.mean(errors**2))
        about = predicted - predicted.mean()
        scatter = float(about @ about)
        intercept = UNKNOWN
        if n > 1:
            intercept = around(errors.mean(), float(errors.std(ddof=1)) / np.sqrt(n), n - 1.0)
        slope = UNKNOWN
        if scatter > (1e-12 * float(np.abs(predicted).max())) ** 2 * n:
            value = float(about @ y) / scatter
            residuals = y - y.mean() - value * about
            sandwich = float(np.sqrt((about**2) @ residuals**2 * n / max(n - 2, 1)))
            slope = around(value, sandwich / scatter, n - 2.0)
        relative = np.nan
        if missed and n > 2:
            relative = float(np.std(errors**2, ddof=1)) / (2.0 * missed * np.sqrt(n))
        return {
            "observed": Figure(y.mean()),
            "predicted": Figure(predicted.mean()),
            "intercept": intercept,
            "slope": slope,
            "rmse": ratio(float(np.sqrt(missed)), relative, n - 1.0),
            "r2": explained(errors**2, (y - y.mean()) ** 2),
        }

    def ridge(self, penalty: float, y: Floats) -> Any:
        from sklearn.linear_model import Ridge

        return Ridge(penalty)


NUMBER = Number()
