"""Coefficients without a finite maximum likelihood estimate, and the estimates that are printed in
their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import expit

from invariance import (
    Logistic,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
)
from invariance.models.regression import Regression
from invariance.models.separation import infinite_coefficients
from regression_cases import regression_data

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
N = 60


def small_table(family: Regression, seed: int) -> MultiEnvironmentData:
    """Two environments with few values of each column, in which separation of all kinds is
    common."""
    rng = np.random.default_rng(seed)
    where = np.repeat([0, 1], N // 2)
    X = np.column_stack(
        [rng.integers(0, 2, N), rng.integers(0, 3, N), rng.normal(size=N).round(1)]
    ).astype(float)
    predictor = rng.normal(size=3) @ X.T * 2.0 - 1.5
    if isinstance(family, PiecewiseExponential):
        times = rng.exponential(np.exp(-predictor))
        end = np.quantile(times, 0.15)
        event = (times <= end).astype(float)
        event[[0, N // 2]] = 1.0
        data = regression_data(X, np.minimum(times, end) + 1e-3, where)
        return replace(data, event=event, event_name="died")
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-predictor))
    if not isinstance(family, Logistic):
        y = rng.poisson(np.exp(np.minimum(predictor - 1.0, 1.0)))
    return regression_data(X, np.maximum(y, np.eye(N)[0]), where)


def glm_of(family: Regression, data: MultiEnvironmentData, group: int) -> tuple[np.ndarray, ...]:
    """Columns, outcome and logarithms of exposures of one environment, or of all rows, as a GLM has
    them: times are split at the ends of intervals, each with an intercept."""
    rows = (
        data.environment_index == group
        if group < data.n_environments
        else np.ones(data.n_rows, dtype=bool)
    )
    if not isinstance(family, PiecewiseExponential):
        return sm.add_constant(data.X[rows], prepend=False), data.y[rows], np.zeros(rows.sum())
    cuts = family.cuts(data) if group < data.n_environments else family.rates(data).cuts
    parts = []
    for k, (start, end) in enumerate(zip((0.0, *cuts), (*cuts, np.inf), strict=True)):
        inside = rows & (data.y > start)
        one = np.eye(len(cuts) + 1)[np.full(inside.sum(), k)]
        event = data.event[inside] * (data.y[inside] <= end)
        if event.any():
            exposure = np.log(np.minimum(data.y[inside], end) - start)
            parts.append((np.column_stack([data.X[inside], one]), event, exposure))
    columns, event, exposure = (np.concatenate(part) for part in zip(*parts, strict=True))
    return columns[:, columns.any(axis=0) | (np.arange(columns.shape[1]) < 3)], event, exposure


def largest(
    logistic: bool, glm: tuple[np.ndarray, ...], j: int, value: float | None
) -> tuple[float, float]:
    """The log-likelihood, all but without penalty, at one value of coefficient j, or at the best,
    and that."""
    columns, y, exposure = glm
    free = np.ones(columns.shape[1], dtype=bool)
    free[j] = value is None
    offset = exposure + (0.0 if value is None else value * columns[:, j])
    design = columns[:, free]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = np.clip(offset + design @ theta, -700.0, 700.0)
        mean, total = (
            (expit(eta), np.logaddexp(0.0, eta)) if logistic else (np.exp(eta), np.exp(eta))
        )
        return total.sum() - y @ eta + 1e-9 * theta @ theta, design.T @ (mean - y) + 2e-9 * theta

    best = minimize(
        loss,
        np.zeros(free.sum()),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14},
    )
    return -best.fun, float(best.x[min(j, len(best.x) - 1)])


@pytest.mark.parametrize("family", [Logistic(), Poisson(), PiecewiseExponential()])
def test_infinite_coefficients_may_be_as_large_as_one_likes(family: Regression) -> None:
    """With the others at their best, the likelihood is as high far from the estimate as
    anywhere."""
    infinite = []
    for seed in range(12):
        data = small_table(family, seed)
        found = family.bind(data).estimates(np.ones(3, dtype=bool))
        expected = np.zeros((3, 3), dtype=bool)
        for group, j in np.ndindex(3, 3):
            glm = glm_of(family, data, group)
            highest, middle = largest(isinstance(family, Logistic), glm, j, None)
            far = [
                largest(isinstance(family, Logistic), glm, j, middle + side)[0]
                for side in (-40.0, 40.0)
            ]
            expected[group, j] = max(far) > highest - 0.01
        known = np.isfinite(found.errors)
        np.testing.assert_array_equal(found.infinite[known], expected[known])
        infinite.append(found.infinite)
    assert 0.03 < np.mean(infinite) < 0.97
    assert any(0 < np.count_nonzero(rows) < 3 for table in infinite for rows in table)


def test_a_dispersion_changes_nothing() -> None:
    for seed in range(12):
        data = small_table(Poisson(), seed)
        every = np.ones(3, dtype=bool)
        infinite = NegativeBinomial().bind(data).estimates(every).infinite
        np.testing.assert_array_equal(infinite, Poisson().bind(data).estimates(every).infinite)


def test_directions_of_several_columns_are_found() -> None:
    """x0 + x1 tells the classes apart, but for rows at the border; x2 does not matter."""
    rng = np.random.default_rng(0)
    x0 = rng.normal(size=80)
    x1 = rng.normal(size=80)
    border = np.arange(80) < 30
    x1[border] = -x0[border]
    up = np.where(border, rng.random(80) < 0.5, x0 + x1 > 0.0)
    X = np.column_stack([x0, x1, rng.normal(size=80)])
    direction = np.where(up, 1.0, -1.0)
    one = np.zeros(80, int)
    assert infinite_coefficients(X, direction, one).tolist() == [True, True, False]
    assert infinite_coefficients(X[border], direction[border], one[border]).tolist() == [
        False,
        False,
        False,
    ]
    assert infinite_coefficients(X, direction, np.arange(80) % 2).tolist() == [True, True, False]
    # With a baseline of its own, where all rows are of one class these tell nothing.
    where = np.repeat([0, 1], 40)
    only = np.where(where == 1, 1.0, np.where(rng.random(80) < 0.5, 1.0, -1.0))
    assert not infinite_coefficients(X, only, where).any()
    assert infinite_coefficients(X[:0], only[:0], where[:0]).all()


def quasi_separated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """In environment 1 no row with d = 1 is an event; environment 2 has no events."""
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(4), 100)
    X = np.column_stack([rng.normal(size=(400, 2)), rng.random(400) < 0.15]).astype(float)
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(0.5 - X @ [0.8, -0.5, 0.5]))).astype(float)
    y[(where == 1) & (X[:, 2] == 1.0) | (where == 2)] = 0.0
    return X, y, where


FITS: dict[str, tuple[Regression, Callable[..., Any]]] = {
    "logistic": (Logistic(), sm.Logit),
    "poisson": (Poisson(), lambda y, X: sm.GLM(y, X, family=sm.families.Poisson())),
}


@pytest.mark.parametrize("name", FITS)
def test_estimates_are_plain_where_they_are_finite(name: str) -> None:
    """Beside statsmodels; where d separates, of the other rows."""
    (family, fitted), (X, y, where) = FITS[name], quasi_separated()
    model = family.bind(regression_data(X, y, where))
    found = model.estimates(np.ones(3, dtype=bool))
    penalised = model.fit(np.ones(3, dtype=bool))
    options = {"disp": 0} if name == "logistic" else {}
    for e in (0, 1, 3, 4):
        rows = (where == e) | (e == 4)
        used = [0, 1, 2]
        if e == 1:
            rows = rows & (X[:, 2] == 0.0)
            used = [0, 1]
        fit = fitted(y[rows], sm.add_constant(X[rows][:, used])).fit(
            tol=1e-14, maxiter=200, **options
        )
        np.testing.assert_allclose(found.values[e, used], fit.params[1:], atol=1e-6)
        np.testing.assert_allclose(found.errors[e, used], fit.bse[1:], rtol=1e-5)
    assert np.argwhere(found.infinite).tolist() == [[1, 2], [2, 0], [2, 1], [2, 2]]
    assert found.one_value.tolist() == [False, False, True, False, False]
    np.testing.assert_array_equal(
        found.values[found.infinite], penalised.local_coefficients[found.infinite[:-1]]
    )
    assert np.isfinite(found.errors).all()


def test_without_pseudo_data_there_is_no_other_estimate() -> None:
    X, y, where = quasi_separated()
    rows = where != 2
    model = Logistic(pseudo_rows=0.0).bind(regression_data(X[rows], y[rows], where[rows]))
    found = model.estimates(np.ones(3, dtype=bool))
    assert np.argwhere(found.infinite).tolist() == [[1, 2]]
    assert (
        np.argwhere(np.isnan(found.values)).tolist()
        == np.argwhere(np.isnan(found.errors)).tolist()
        == [[1, 2]]
    )


def test_columns_that_are_given_by_others_are_not_infinite() -> None:
    X, y, where = quasi_separated()
    X = np.column_stack([X, X[:, 2]])
    X[where == 3, 0] = 1.0
    found = Logistic().bind(regression_data(X, y, where)).estimates(np.ones(4, dtype=bool))
    assert not found.infinite[:, 3].any()
    assert np.isnan(found.errors[:, 3]).all()
    assert np.isnan(found.errors[3, 0])
    assert found.infinite[1, 2]
