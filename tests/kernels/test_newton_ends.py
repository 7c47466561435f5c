"""Where fits of counts end: within bounds, at the higher of two maxima, or nowhere, which is said."""

from __future__ import annotations

import numpy as np
import pytest

from count_twins import log_density
from invariance import MultiEnvironmentData, NegativeBinomial, Poisson
from invariance.exceptions import DataError
from invariance.kernels import newton as kernel
from invariance.models.regression import RegressionModel, Scores
from twins import all_masks

NOTHING = np.empty(0, np.int64)


def nearly_poisson(seed: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(3), 200)
    X = rng.normal(size=(600, 5)) + 0.5 * rng.normal(size=(3, 5))[environment]
    y = rng.poisson(np.exp(X[:, 0] - 0.7 * X[:, 1]) * rng.gamma(20.0, 0.05, size=600)).astype(float)
    X[:, 4] += 0.3 * (environment - 1) * np.log1p(y)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def exposed(seed: int) -> MultiEnvironmentData:
    """Counts with two maxima by the dispersion (36), or that steps beyond a bound lose (19)"""
    rng = np.random.default_rng(seed)
    n_environments, n = int(rng.choice([2, 3, 5])), int(rng.choice([50, 200, 1000]))
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), 5))
    slope = rng.choice([0.3, 1.0, 2.0])
    base, alpha = rng.choice([0.5, 5.0, 100.0, 3000.0]), rng.choice([0.0, 0.01, 0.001, 0.1])
    exposure = np.exp(rng.normal(size=len(X)) * rng.choice([0, 1]))
    mean = exposure * base * np.exp(slope * (X[:, 0] - X[:, 1]))
    y = rng.poisson(np.minimum(mean * (rng.gamma(1 / alpha, alpha, len(X)) if alpha else 1.0), 1e8)).astype(float)
    return MultiEnvironmentData.from_arrays(X, y, environment, exposure=exposure)


def walked(model: RegressionModel) -> np.ndarray:
    return model.subset_walk(np.arange(5), NOTHING).dense(NOTHING, np.ones(6, dtype=bool))


@pytest.mark.parametrize(("data", "pseudo_rows"), [(nearly_poisson(43), 1.0), (exposed(19), 0.0), (exposed(19), 1.0)])
def test_a_walk_near_no_dispersion(data: MultiEnvironmentData, pseudo_rows: float) -> None:
    model = NegativeBinomial(pseudo_rows).bind(data)
    np.testing.assert_allclose(walked(model), model.log_ratio_many(all_masks(5)), atol=2e-3)


def test_the_higher_of_two_maxima() -> None:
    data = exposed(36)
    assert data.exposure is not None
    model, poisson = NegativeBinomial(0.0).bind(data), Poisson(0.0).bind(data).fit(["x0", "x1"])
    mean = data.exposure * np.exp(poisson.intercept + data.X[:, :2] @ poisson.coefficients)
    pooled = model.figures(all_masks(5)[3]).pooled[0]
    assert pooled >= log_density(data.y, mean, 0.0).sum() - 1e-6
    assert model.fit(["x0", "x1"]).dispersion == 0.0


def test_fits_without_an_end_have_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NegativeBinomial().bind(exposed(36))
    plain = model.scores

    def scores(masks: np.ndarray, *more: float) -> Scores:
        found = plain(masks, *more)
        found.log_ratio[masks[:, 2]] = np.nan
        return found

    monkeypatch.setattr(model, "scores", scores)
    masks = all_masks(5)
    np.testing.assert_array_equal(model.log_ratio_many(masks) == -np.inf, masks[:, 2])
    assert model.outside_support(masks) == ("the model has no value for {x2}: a fit comes to no end",)
    with pytest.raises(DataError, match="comes to no end"):
        model.fit(["x2"])


def test_a_column_that_is_left_out_must_promise_nothing() -> None:
    hessian, score = np.diag([4.0, 2.0]), np.array([0.0, 1.0])
    assert kernel._left_out(np.diag([0.25, 0.5]), score, hessian, 2) == 0.0
    assert kernel._left_out(np.diag([0.25, 0.0]), score, hessian, 2) == 0.25
