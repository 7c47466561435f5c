"""Times to an event in one environment, whose own fit is the pooled one."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import MultiEnvironmentData, PiecewiseExponential
from survival_twins import survived


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
@pytest.mark.parametrize(("intervals", "steps"), [("auto", 16), (3, 1), (1, 6)])
def test_the_own_baseline_is_the_pooled_one(intervals: str | int, steps: int) -> None:
    several = survived()
    data = MultiEnvironmentData.from_arrays(several.X, several.y, event=several.event)
    model = PiecewiseExponential(intervals=intervals, steps=steps).bind(data)
    fit = model.fit(np.array([True, False, True, False, False]))
    (own,) = fit.local_baselines
    np.testing.assert_array_equal(own.cuts, fit.baseline.cuts)
    np.testing.assert_allclose(own.hazards, fit.baseline.hazards, rtol=1e-12)
    np.testing.assert_allclose(fit.local_coefficients[0], fit.coefficients, rtol=1e-8)
    np.testing.assert_allclose(fit.local_intercepts[0], fit.intercept, rtol=1e-8)
    assert model.fit(np.zeros(5, dtype=bool), local=False).local_baselines == ()
