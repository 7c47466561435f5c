"""Fits end at the highest likelihood where second derivatives vanish on the way, and where there
are two maxima."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from count_twins import log_density, log_ratio
from invariance import MultiEnvironmentData, NegativeBinomial, PiecewiseExponential, Poisson
from invariance.exceptions import DataError
from invariance.kernels.likelihoods import place_pseudo_data, work_for
from invariance.kernels.newton import maximise
from invariance.models.regression import RegressionModel, Scores
from twins import all_masks

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")

NONE = np.empty(0, np.int64)


def far_apart(seed: int) -> RegressionModel:
    """Times that two rare features change by a factor of e**8."""
    rng = np.random.default_rng(seed)
    environment = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 4))
    X[:, ::2] = X[:, ::2] > 1.5
    times = rng.exponential(size=120) * np.exp(-8.0 * (X[:, 0] - X[:, 2]))
    return timed(X, times, environment, rng.random(120) < 0.7)


def few_events(seed: int) -> RegressionModel:
    """Rare features and heavy tails in six environments with an event or two each."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(6), 30)
    X = rng.standard_t(1.5, size=(180, 5))
    X[:, ::2] = X[:, ::2] > 1.5
    times = rng.exponential(size=180) * np.exp(-X[:, 0])
    return timed(X, times, environment, rng.random(180) < 0.06)


def timed(
    X: np.ndarray, times: np.ndarray, environment: np.ndarray, event: np.ndarray
) -> RegressionModel:
    return PiecewiseExponential().bind(
        MultiEnvironmentData.from_arrays(X, times, environment, event=event)
    )


def heavy_tails(
    seed: int, n_environments: int = 4, n: int = 15, tails: float = 2.0, even: float = 1.0
) -> RegressionModel:
    """Few counts; the larger `even`, the less they vary. Without pseudo-data where an environment
    has 15."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(n_environments), n)
    X = rng.standard_t(tails, size=(len(environment), 3))
    rates = np.exp(np.clip(X[:, 0], -5.0, 4.0)) * rng.gamma(even, 1.0 / even, size=len(X))
    data = MultiEnvironmentData.from_arrays(X, rng.poisson(rates), environment)
    return NegativeBinomial(pseudo_rows=float(n > 15)).bind(data)


def zeros_only() -> RegressionModel:
    """Rows with the rare feature have no counts in one environment."""
    rng = np.random.default_rng(32)
    environment = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 2))
    X[:, 0] = rng.random(120) < 0.06
    y = rng.poisson(np.exp(X[:, 1]) * rng.gamma(0.3, 3.0, size=120))
    y[(X[:, 0] == 1) & (environment == 0)] = 0
    return NegativeBinomial().bind(MultiEnvironmentData.from_arrays(X, y, environment))


def nearly_poisson(seed: int) -> RegressionModel:
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(3), 200)
    X = rng.normal(size=(600, 5)) + 0.5 * rng.normal(size=(3, 5))[environment]
    y = rng.poisson(np.exp(X[:, 0] - 0.7 * X[:, 1]) * rng.gamma(20.0, 0.05, size=600)).astype(float)
    X[:, 4] += 0.3 * (environment - 1) * np.log1p(y)
    return NegativeBinomial().bind(MultiEnvironmentData.from_arrays(X, y, environment))


def exposed(seed: int, pseudo_rows: float = 1.0) -> RegressionModel:
    """Counts with two maxima by the dispersion (36), or that steps beyond a bound lose (19)"""
    rng = np.random.default_rng(seed)
    n_environments = int(rng.choice([2, 3, 5]))
    n = int(rng.choice([50, 200, 1000]))
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), 5))
    slope = rng.choice([0.3, 1.0, 2.0])
    base = rng.choice([0.5, 5.0, 100.0, 3000.0])
    alpha = rng.choice([0.0, 0.01, 0.001, 0.1])
    exposure = np.exp(rng.normal(size=len(X)) * rng.choice([0, 1]))
    mean = exposure * base * np.exp(slope * (X[:, 0] - X[:, 1]))
    y = rng.poisson(
        np.minimum(mean * (rng.gamma(1 / alpha, alpha, len(X)) if alpha else 1.0), 1e8)
    ).astype(float)
    return NegativeBinomial(pseudo_rows).bind(
        MultiEnvironmentData.from_arrays(X, y, environment, exposure=exposure)
    )


def reported_and_walked(model: RegressionModel) -> tuple[np.ndarray, np.ndarray]:
    f = model.n_features
    walk = model.subset_walk(np.arange(f), NONE)
    return model.log_ratio_many(all_masks(f)), walk.dense(
        NONE, np.ones(f + 1, dtype=bool)
    ).log_ratio


def test_a_step_too_far_is_not_the_end() -> None:
    """The value is that of Newton's method in plain NumPy, from 0 with steps that are halved."""
    scores = far_apart(13).scores(np.array([[True, False, False, True]]))
    assert scores.log_ratio[0] == pytest.approx(-14.5334, abs=1e-4)
    assert (scores.ranks == 2).all()


@pytest.mark.parametrize(
    "made",
    [
        *(partial(far_apart, seed) for seed in (4, 6, 13, 18)),
        *(partial(few_events, seed) for seed in (11, 14, 17)),
        *(partial(exposed, 19, pseudo_rows) for pseudo_rows in (0.0, 1.0)),
        partial(nearly_poisson, 43),
    ],
)
def test_walks_end_where_single_fits_do(made: Callable[[], RegressionModel]) -> None:
    reported, walked = reported_and_walked(made())
    np.testing.assert_allclose(walked, reported, atol=2e-3)


def test_no_dispersion_where_that_is_the_higher_maximum() -> None:
    model = exposed(36, 0.0)
    data = model.data
    poisson = Poisson(0.0).bind(model.data).fit(["x0", "x1"])
    mean = data.exposure * np.exp(poisson.intercept + data.X[:, :2] @ poisson.coefficients)
    assert model.figures(np.arange(5) < 2).pooled[0] >= log_density(data.y, mean, 0.0).sum() - 1e-6
    assert model.scores((np.arange(5) < 2)[None]).thetas[0, -1, 3] == 0.0


def test_fits_without_an_end_have_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    model = exposed(36)
    scores = model.scores
    masks = all_masks(5)

    def endless(masks: np.ndarray, *more: float) -> Scores:
        found = scores(masks, *more)
        found.log_ratio[masks[:, 2]] = np.nan
        return found

    monkeypatch.setattr(model, "scores", endless)
    np.testing.assert_array_equal(model.log_ratio_many(masks) == -np.inf, masks[:, 2])
    assert len(model.outside_support(masks)) == 1
    with pytest.raises(DataError):
        model.fit(["x2"])


@pytest.mark.parametrize("start", [-1e3, -30.0, 30.0, 1e3])
def test_a_start_without_curvature_has_no_value_or_the_right_one(start: float) -> None:
    rows = far_apart(13).problem

    def climbed(theta: float) -> float:
        slope = np.array([theta])
        inverse = np.empty((1, 1))
        work = work_for(rows, 1)
        return maximise(rows, 0, 2, np.array([0]), 1, slope, 1, inverse, False, 1e-6, work)[0]

    value = climbed(start)
    assert np.isnan(value) or value == pytest.approx(climbed(0.0), abs=1e-4)


def best_of_many_starts(model: RegressionModel, mask: np.ndarray) -> float:
    """log Λ, each fit the highest of climbs from many dispersions."""
    rows = model.problem
    pool = model.data.n_environments
    members = np.append(0, 1 + np.flatnonzero(mask))
    k = len(members)
    work = work_for(rows, len(members) + 1)
    value = 0.0
    inverse = np.empty((k + 1, k + 1))
    # The pool first, which pseudo-data go by.
    for g in range(pool, -1, -1):
        groups = (g, g + 1) if g < pool else (0, pool)
        ends = []
        thetas = []
        for phi in np.append(model.beginning[g, -1], np.linspace(0.0, 0.6, 9) * rows.counts.limit):
            theta = np.zeros(k + 1)
            theta[[0, k]] = model.beginning[g, 0], phi
            ends.append(
                maximise(rows, *groups, members, k, theta, k + 1, inverse, False, 1e-10, work)[0]
            )
            thetas.append(theta)
        value += np.nanmax(ends) if g == pool else -np.nanmax(ends)
        if g == pool:
            value += place_pseudo_data(rows, members, k, thetas[np.nanargmax(ends)], work)
    return value


@pytest.mark.parametrize(
    "made",
    [
        *(partial(heavy_tails, seed) for seed in (4, 7, 17, 21, 37)),
        partial(heavy_tails, 5, n_environments=3, n=30),
        partial(heavy_tails, 36, n=25, tails=3.0, even=3.0),
    ],
)
def test_of_two_dispersions_the_likelier_is_taken(made: Callable[[], RegressionModel]) -> None:
    model = made()
    right = np.array([best_of_many_starts(model, mask) for mask in all_masks(3)])
    reported, walked = reported_and_walked(model)
    np.testing.assert_allclose(reported, right, atol=1e-5)
    np.testing.assert_allclose(walked, right, atol=1e-3)


def test_a_feature_with_counts_of_zero_alone_has_a_value() -> None:
    model = zeros_only()
    right = log_ratio(model.data, np.array([True, True]), 1.0)
    reported, walked = reported_and_walked(model)
    assert reported[3] == pytest.approx(right, abs=1e-3)
    assert walked[3] == pytest.approx(right, abs=2e-3)
