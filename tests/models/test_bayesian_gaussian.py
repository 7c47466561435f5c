"""The Bayesian linear Gaussian model against marginal densities computed from the rows, and what
must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from invariance import BayesianLinearGaussian, Moments, MultiEnvironmentData
from invariance.exceptions import DataError
from invariance.kernels.cholesky import subset_volumes
from twins import all_masks, datasets, simulated

prior_rows = pytest.mark.parametrize("rows", [0.2, 1.0, 7.0])


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]


def log_marginal(X: np.ndarray, y: np.ndarray, which: np.ndarray, rows: float = 1.0) -> float:
    """Log density of some of the outcomes, as one draw of a multivariate t, under the prior of all
    of them."""
    line = least_squares(X, y)
    fitted = line[0] + X @ line[1:]
    design = np.column_stack([np.ones(len(y)), X - X.mean(axis=0)])
    spread = np.linalg.inv(rows / len(y) * design.T @ design)
    shape = np.eye(len(which)) + design[which] @ spread @ design[which].T
    return float(
        multivariate_t(fitted[which], np.mean((y - fitted) ** 2) * shape, df=rows).logpdf(y[which])
    )


def log_bayes_factor(data: MultiEnvironmentData, columns: np.ndarray, rows: float = 1.0) -> float:
    X = data.X[:, columns]
    groups = [data.rows(e) for e in range(data.n_environments)]
    local = sum(log_marginal(X, data.y, group, rows) for group in groups)
    return log_marginal(X, data.y, np.arange(data.n_rows), rows) - local


def one_environment() -> MultiEnvironmentData:
    data = simulated(4, (12, 15, 20))
    return MultiEnvironmentData.from_arrays(data.X, data.y)


def setting_and_knockout() -> MultiEnvironmentData:
    """x0 is constant in every environment, x1 in one; x2 = x3 in another, which has fewer rows than
    columns."""
    rng = np.random.default_rng(3)
    site = np.repeat([0, 1, 2], [12, 4, 20])
    X = rng.normal(size=(36, 6))
    X[:, 0] = np.array([0.0, 2.0, -1.0])[site]
    X[site == 0, 1] = 0.0
    X[site == 1, 2] = X[site == 1, 3]
    return MultiEnvironmentData.from_arrays(X, X[:, :2].sum(axis=1) + rng.normal(size=36), site)


@prior_rows
@pytest.mark.parametrize("make", [setting_and_knockout, one_environment])
def test_the_log_bayes_factor_is_that_of_the_marginal_densities(make, rows: float) -> None:
    data = make()
    masks = all_masks(data.n_features)
    expected = [log_bayes_factor(data, mask, rows) for mask in masks]
    model = BayesianLinearGaussian(rows).bind(data)
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, rtol=1e-9, atol=1e-9)


@given(datasets(), st.floats(0.1, 20.0))
@settings(max_examples=12)
def test_any_data(data: MultiEnvironmentData, rows: float) -> None:
    """Also that moments are enough, and that no value is above its ceiling."""
    masks = all_masks(data.n_features)
    model, alone = (
        BayesianLinearGaussian(rows).bind(given) for given in (data, Moments.from_data(data))
    )
    values = model.log_ratio_many(masks)
    np.testing.assert_allclose(
        values, [log_bayes_factor(data, m, rows) for m in masks], rtol=1e-9, atol=1e-8
    )
    np.testing.assert_array_equal(alone.log_ratio_many(masks), values)
    assert (values <= model.null_many(masks).ceiling + 1e-9).all()


def test_pivots_that_rounding_takes_too_low_are_raised_to_their_bound() -> None:
    pool = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]])
    local = 1e-3 * pool - np.diag([0.0, 1.0, 1.0])
    volumes, left = np.empty((2, 1, 2))
    subset_volumes(
        np.stack([local, pool]), 1e-3, 2, 1e-9, np.array([0, 2]), np.array([0, 1]), volumes, left
    )
    assert volumes[0] == pytest.approx([np.log(1e-3) + np.log(1e-3 * 0.75), np.log(0.75)])
    assert left[0] == pytest.approx([1e-3 * 0.96, 0.96])


@prior_rows
def test_fits_are_least_squares_with_rows_of_the_pool(rows: float) -> None:
    data = setting_and_knockout()
    chosen = [1, 2, 4]
    fit = BayesianLinearGaussian(rows).bind(data).fit(["x1", "x2", "x4"])
    assert fit.columns == ("x1", "x2", "x4")
    design = np.column_stack([np.ones(36), data.X[:, chosen]])
    expected = least_squares(data.X[:, chosen], data.y)
    np.testing.assert_allclose([fit.intercept, *fit.coefficients], expected, rtol=1e-8)
    for e in range(3):
        weights = rows / 36 + (np.arange(36)[:, None] == data.rows(e)).any(axis=1)
        beta = np.linalg.solve(
            design.T @ (weights[:, None] * design), design.T @ (weights * data.y)
        )
        known = [1, 2] if e == 0 else [0, 1, 2]
        np.testing.assert_allclose(fit.local_coefficients[e, known], beta[1:][known], rtol=1e-7)
        assert fit.local_intercepts[e] == pytest.approx(beta[0], rel=1e-7)
    np.testing.assert_array_equal(
        np.isnan(fit.local_coefficients), [[True, False, False], [False] * 3, [False] * 3]
    )
    pooled = BayesianLinearGaussian(rows).bind(data).fit(["x1", "x2", "x4"], local=False)
    assert pooled.local_coefficients.shape == (0, 3)
    np.testing.assert_array_equal(pooled.coefficients, fit.coefficients)


def test_small_environments_limit_nothing_but_all_rows_together_do() -> None:
    assert BayesianLinearGaussian().bind(setting_and_knockout()).largest_size == 6
    X = np.random.default_rng(0).normal(size=(6, 9))
    wide = BayesianLinearGaussian().bind(
        MultiEnvironmentData.from_arrays(X, np.arange(6.0) ** 2, [0, 0, 0, 1, 1, 1])
    )
    assert wide.largest_size == 4
    assert np.isfinite(wide.log_ratio_many(np.arange(9)[None] < 4)).all()
    (reason,) = wide.outside_support(np.arange(9)[None] < 5)
    assert "6 rows of all rows together are too few to fit more than 4 columns" in reason


@pytest.mark.parametrize("moments_only", [True, False])
def test_dependence_over_all_rows_is_outside_the_support(moments_only: bool) -> None:
    data = simulated(4, (20, 20), seed=1)
    whole = MultiEnvironmentData.from_arrays(
        np.column_stack([data.X, data.X[:, 0] - data.X[:, 1]]), data.y, np.repeat([0, 1], 20)
    )
    model = BayesianLinearGaussian().bind(Moments.from_data(whole) if moments_only else whole)
    masks = all_masks(5)
    outside = masks[:, [0, 1, 4]].all(axis=1)
    np.testing.assert_array_equal(model.log_ratio_many(masks) == -np.inf, outside)
    assert (model.null_many(masks).expected[outside] == -np.inf).all()
    assert "'x0', 'x1', 'x4'" in model.outside_support(masks)[0]
    with pytest.raises(DataError, match=r"cannot be fitted: .*'x0'"):
        model.fit(["x0", "x1", "x4"])
