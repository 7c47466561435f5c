"""Negative binomial regressions beside statsmodels and scipy, and where counts are odd."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaincc, polygamma

from count_twins import counted, log_ratio
from invariance import MultiEnvironmentData, NegativeBinomial, Poisson
from invariance.kernels.likelihoods import dispersion_of
from invariance.models.regression import READ, RegressionModel
from regression_cases import regression_data
from twins import all_masks

MASKS = all_masks(4)


def by_statsmodels(data: MultiEnvironmentData, mask: np.ndarray) -> tuple[float, np.ndarray]:
    """log Λ, and the parameters (E + 1, k + 2) of local and pooled fits, the dispersion last"""
    values = []
    parameters = []
    for own in [*map(data.rows, range(data.n_environments)), np.arange(data.n_rows)]:
        design = sm.add_constant(data.X[np.ix_(own, mask)], has_constant="add")
        exposure = None if data.exposure is None else data.exposure[own]
        model = sm.NegativeBinomial(data.y[own], design, exposure=exposure)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            near = model.fit(disp=False, method="bfgs", maxiter=1000, gtol=1e-7)
            fit = model.fit(near.params, disp=False, method="newton", maxiter=100, tol=1e-12)
        values.append(fit.llf)
        parameters.append(fit.params)
    return values[-1] - sum(values[:-1]), np.array(parameters)


def dispersions(model: RegressionModel, mask: np.ndarray) -> np.ndarray:
    """(E + 1,) of local and pooled fits"""
    thetas = model.scores(mask[None], READ).thetas[0]
    return dispersion_of(thetas[:, mask.sum() + 1], model.problem.counts.scale)


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("subset", [[], ["x1", "x2", "x3"]])
def test_agrees_with_statsmodels(subset: list[str], exposed: bool) -> None:
    data = counted(exposed=exposed, mean=2.0)
    model = NegativeBinomial(pseudo_rows=0.0).bind(data)
    mask = np.isin(data.feature_names, subset)
    expected, parameters = by_statsmodels(data, mask)
    assert model.log_ratio(subset) == pytest.approx(expected, abs=1e-8)
    fit = model.fit(subset)
    np.testing.assert_allclose(
        np.append(fit.local_intercepts, fit.intercept), parameters[:, 0], atol=1e-5
    )
    np.testing.assert_allclose(
        np.vstack([fit.local_coefficients, fit.coefficients]), parameters[:, 1:-1], atol=1e-5
    )
    np.testing.assert_allclose(dispersions(model, mask), parameters[:, -1], atol=1e-5)
    np.testing.assert_allclose(
        fit.predict(data.X[:, mask]), np.exp(fit.intercept + data.X[:, mask] @ fit.coefficients)
    )


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("pseudo_rows", [1.0, 4.0])
def test_pseudo_rows_are_those_of_a_plain_optimisation(pseudo_rows: float, exposed: bool) -> None:
    data = counted(exposed=exposed, seed=4)
    model = NegativeBinomial(pseudo_rows).bind(data)
    for mask in MASKS[[0, 3, 14]]:
        assert model.log_ratio_many(mask)[0] == pytest.approx(
            log_ratio(data, mask, pseudo_rows), abs=1e-8
        )


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 2.0])
def test_walk_is_within_its_error(alpha: float) -> None:
    """Also where the dispersion of some fits is 0, and of others not"""
    data = counted(alpha=alpha, seed=2, p=6)
    model = NegativeBinomial().bind(data)
    walk = model.subset_walk(np.arange(6), np.empty(0, np.int64))
    found = walk.dense(np.empty(0, np.int64), np.ones(7, dtype=bool)).log_ratio
    expected = model.log_ratio_many(all_masks(6))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert expected.max() <= 0.0
    held = np.array([dispersions(model, mask)[:-1] for mask in all_masks(6)[::7]]) == 0.0
    assert held.any() == (alpha < 2.0)
    assert not held.all()


def test_poisson_is_the_limit() -> None:
    """Where counts scatter less than a Poisson law has it."""
    data = counted(alpha=0.0)
    data.y[:] = np.round(3.0 * np.exp(0.5 * data.X[:, 0] - 0.4 * data.X[:, 1]))
    subset = ["x0", "x1"]
    model = NegativeBinomial().bind(data)
    limit = Poisson().bind(data)
    fit = model.fit(subset)
    expected = limit.fit(subset)
    np.testing.assert_array_equal(dispersions(model, MASKS[3]), 0.0)
    np.testing.assert_allclose(fit.coefficients, expected.coefficients, atol=1e-6)
    assert model.log_ratio(subset) == pytest.approx(limit.log_ratio(subset), abs=1e-8)


def test_law_of_invariant_subsets() -> None:
    """That of a linear Gaussian model, with the parameters of local fits, where a column may be
    constant."""
    data = counted()
    data.X[data.rows(1), 2] = 1.0
    model = NegativeBinomial().bind(data)
    null = model.null_many(MASKS)
    size = MASKS.sum(axis=1)
    lacking = MASKS[:, 2]
    counts = np.append(data.counts, data.n_rows).astype(float)
    free = counts - 1.0 - np.column_stack([*[size - lacking / 3.0] * 3, size])
    weights = counts * [-1.0, -1.0, -1.0, 1.0]
    mean = (digamma(free / 2) - np.log(counts)) @ weights
    variance = polygamma(1, free / 2) @ (-weights * counts)
    np.testing.assert_allclose(null.expected, -0.5 * mean, rtol=1e-9)
    np.testing.assert_allclose(null.variance, 0.25 * variance, rtol=1e-9)
    np.testing.assert_array_equal(null.degrees, 2 * (size + 2) - lacking)
    shape = mean**2 / variance
    tails = model.invariance_tails(MASKS, np.full(16, -6.0))
    np.testing.assert_allclose(tails, gammaincc(shape, 12.0 * shape / mean), rtol=1e-9)


ODD = {
    "one huge count": lambda data, rng: np.where(
        np.arange(data.n_rows) == data.rows(1)[0], 1e6, 0.0
    ),
    "huge counts": lambda data, rng: np.round(
        1e6 * np.exp(0.1 * data.X[:, 0]) * rng.gamma(2.0, 0.5, data.n_rows)
    ),
    "equal counts": lambda data, rng: np.full(data.n_rows, 7.0),
    "underdispersed": lambda data, rng: np.round(5.0 * np.exp(0.3 * data.X[:, 0])),
    "zero or one": lambda data, rng: np.minimum(data.y, 1.0),
    "as they are": lambda data, rng: data.y,
}


@pytest.mark.parametrize("case", ODD)
@settings(max_examples=4)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(14, 40),
    alpha=st.sampled_from([0.0, 0.5, 3.0]),
    mean=st.sampled_from([0.3, 2.0, 30.0]),
    pseudo_rows=st.sampled_from([0.0, 1.0]),
)
def test_odd_counts(
    case: str, seed: int, rows: int, alpha: float, mean: float, pseudo_rows: float
) -> None:
    data = counted(seed, (rows, rows + 3, 2 * rows), 4, alpha, mean)
    rng = np.random.default_rng(seed)
    if not data.y.any():
        return
    model = NegativeBinomial(pseudo_rows).bind(
        regression_data(data.X, ODD[case](data, rng), data.environment_index)
    )
    found = model.log_ratio_many(MASKS)
    assert not np.isnan(found).any()
    assert found.max() <= 0.0
    # Without pseudo-data a fit may come to no end, and then has no value.
    assert found.min() > -np.inf or pseudo_rows == 0.0
    if found[-1] > -np.inf:
        assert 0.0 <= dispersions(model, MASKS[-1])[-1] < np.inf
