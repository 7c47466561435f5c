"""Environments whose columns lie elsewhere, or are measured in other units: fits of their own do not care."""

import numpy as np
import pytest

from invariance import Logistic, MultiEnvironmentData, NegativeBinomial, PiecewiseExponential, Poisson
from invariance.models.regression import Regression

ENVIRONMENT = np.repeat([0, 1, 2], 120)
rng = np.random.default_rng(5)
X = rng.normal(size=(360, 3))
PREDICTOR = 0.8 * X[:, 0] - 0.5 * X[:, 1]
OUTCOMES = {
    "logistic": (Logistic, (rng.random(360) < 1.0 / (1.0 + np.exp(-PREDICTOR))).astype(float), None),
    "poisson": (Poisson, rng.poisson(np.exp(0.5 * PREDICTOR)).astype(float), None),
    "negative binomial": (NegativeBinomial, rng.negative_binomial(1.5, 0.5, 360).astype(float), None),
    "times": (PiecewiseExponential, rng.exponential(np.exp(-PREDICTOR)), (rng.random(360) < 0.8).astype(float)),
}
ALL = np.ones((1, 3), dtype=bool)


def figures(specification: type[Regression], columns: np.ndarray, y: np.ndarray, event: np.ndarray | None):
    data = MultiEnvironmentData.from_arrays(columns, y, ENVIRONMENT, event=event)
    return specification().bind(data)


@pytest.mark.parametrize("name", ["logistic", "poisson", "negative binomial"])
@pytest.mark.parametrize(("factor", "offset"), [(1e5, 0.0), (1e-5, 0.0), (1.0, 1e6)])
def test_own_fits_do_not_depend_on_units(name: str, factor: float, offset: float) -> None:
    moved = X.copy()
    moved[ENVIRONMENT == 1, 0] = factor * moved[ENVIRONMENT == 1, 0] + offset
    before, after = (figures(OUTCOMES[name][0], columns, *OUTCOMES[name][1:]) for columns in (X, moved))
    plain, other = before.figures(ALL), after.figures(ALL)
    assert other.degrees[0] == plain.degrees[0]
    own = plain.pooled[0] - plain.log_ratio[0]
    assert other.pooled[0] - other.log_ratio[0] == pytest.approx(own, abs=1e-7)
    slopes = after.fit(["x0", "x1", "x2"]).local_coefficients
    expected = before.fit(["x0", "x1", "x2"]).local_coefficients
    expected[1, 0] /= factor
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)


@pytest.mark.parametrize("apart", [1e-3, 1e-5])
@pytest.mark.parametrize("name", OUTCOMES)
def test_columns_that_are_nearly_combinations(name: str, apart: float) -> None:
    near = np.column_stack([X[:, 0], X[:, 0] + apart * X[:, 1]])
    far, close = (figures(OUTCOMES[name][0], columns, *OUTCOMES[name][1:]) for columns in (X[:, :2], near))
    both = np.ones((1, 2), dtype=bool)
    np.testing.assert_allclose(close.figures(both), far.figures(both), rtol=1e-6)
