"""A random intercept from second moments: against dense algebra, and a mixed model fitted
elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from invariance.data.multi_environment import MultiEnvironmentData
from invariance.moments.moments import Moments
from invariance.moments.random_intercept import random_intercept


def drawn(
    seed: int, between: float, n_environments: int = 7, constant: bool = False
) -> MultiEnvironmentData:
    """Features whose means differ between environments; the last one is constant inside each of
    them if `constant`."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_environments), rng.integers(20, 60, n_environments))
    X = rng.normal(size=(len(labels), 3)) + rng.normal(size=(n_environments, 3))[labels]
    if constant:
        X[:, 2] = rng.normal(size=n_environments)[labels]
    effects = between * rng.normal(size=n_environments)
    y = X @ [1.0, -0.5, 0.3] + 2.0 + effects[labels] + rng.normal(size=len(labels))
    table = pd.DataFrame(X, columns=list("abc")).assign(y=y, site=labels)
    return MultiEnvironmentData.from_table(table, "y", "site")


def dense(data: MultiEnvironmentData, ratio: float) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Coefficients with the intercept last, −2 log restricted likelihood, noise and effects, from N
    × N matrices."""
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    member = np.eye(data.n_environments)[data.environment_index]
    V = np.eye(data.n_rows) + ratio * member @ member.T
    weighted = np.linalg.solve(V, X)
    b = np.linalg.solve(X.T @ weighted, weighted.T @ data.y)
    left = np.linalg.solve(V, data.y - X @ b)
    rss = float((data.y - X @ b) @ left)
    freedom = data.n_rows - X.shape[1]
    volumes = np.linalg.slogdet(V)[1] + np.linalg.slogdet(X.T @ weighted)[1]
    return b, freedom * np.log(rss) + volumes, rss / freedom, ratio * member.T @ left


@pytest.mark.parametrize(
    ("seed", "between", "constant"),
    [(0, 0.8, False), (1, 0.0, False), (2, 30.0, False), (3, 0.5, True)],
)
def test_it_is_the_restricted_maximum_likelihood_of_dense_algebra(
    seed: int, between: float, constant: bool
) -> None:
    data = drawn(seed, between, constant=constant)
    moments = Moments.from_data(data)
    fit = random_intercept(moments, moments.feature_columns)
    found = minimize_scalar(
        lambda log: dense(data, np.exp(log))[1],
        (-12.0, 12.0),
        method="bounded",
        bounds=(-12, 12),
        options={"xatol": 1e-9},
    )
    least = float(np.exp(found.x)) if found.fun < dense(data, 0.0)[1] else 0.0
    assert fit.ratio == pytest.approx(least, rel=1e-5)
    b, _, noise, effects = dense(data, fit.ratio)
    np.testing.assert_allclose(np.append(fit.coefficients, fit.intercept), b, rtol=1e-8)
    assert fit.noise == pytest.approx(noise, rel=1e-8)
    np.testing.assert_allclose(fit.effects, effects, atol=1e-8)


def test_without_an_effect_it_is_least_squares_and_one_environment_has_none() -> None:
    data = drawn(4, 1.0)
    moments = Moments.from_data(data)
    fit = random_intercept(moments, moments.feature_columns, ratio=0.0)
    wanted = np.linalg.lstsq(np.column_stack([data.X, np.ones(data.n_rows)]), data.y, rcond=None)[0]
    np.testing.assert_allclose(np.append(fit.coefficients, fit.intercept), wanted, rtol=1e-10)
    alone = moments.choosing(moments.environments[:1])
    assert random_intercept(alone, alone.feature_columns).ratio == 0.0


def test_copies_of_a_column_share_its_coefficient() -> None:
    data = drawn(5, 0.8)
    table = data.to_frame().assign(copy=lambda frame: frame["a"])
    moments = Moments.from_data(data)
    doubled = Moments.from_rows(table, "y", "site")
    one, two = (random_intercept(each, each.feature_columns) for each in (moments, doubled))
    assert two.coefficients[[0, 3]] == pytest.approx([one.coefficients[0] / 2.0] * 2)
    assert two.intercept == pytest.approx(one.intercept)
