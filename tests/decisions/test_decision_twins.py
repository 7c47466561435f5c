"""The plain decision rule that other tests compare with: against sampling, textbook tests and a known choice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from decision_twins import choice, evidence, fits, risk_in_a_new_environment
from invariance.data import MultiEnvironmentData
from invariance.simulation import flat
from twins import log_ratio, simulated


def invariant_data(
    rng: np.random.Generator, counts: tuple[int, ...] = (15, 22, 30), p: int = 2, noise: float = 1.0
) -> MultiEnvironmentData:
    environment = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(environment), p)) + rng.normal(size=(len(counts), p))[environment]
    return MultiEnvironmentData.from_arrays(X, X.sum(axis=1) + noise * rng.normal(size=len(X)), environment)


def test_the_deviance_is_twice_the_negative_log_ratio() -> None:
    data = simulated()
    found = evidence(data)
    ratios = [log_ratio(data, mask) for mask in found.masks]
    np.testing.assert_allclose(found.deviance, -2 * np.array(ratios), rtol=1e-8)


def test_mean_and_variance_of_the_deviance_under_invariance() -> None:
    rng = np.random.default_rng(0)
    everything = np.ones((1, 2), bool)
    found = [evidence(invariant_data(rng), everything) for _ in range(1200)]
    deviances = np.array([one.deviance[0] for one in found])
    expected, variance = found[0].expected_deviance[0], found[0].variance_of_deviance[0]
    assert deviances.mean() == pytest.approx(expected, abs=4 * np.sqrt(variance / 1200))
    assert deviances.var() == pytest.approx(variance, rel=0.2)
    assert stats.kstest([one.p_value[0] for one in found], "uniform").pvalue > 1e-3


def test_a_column_that_is_constant_in_an_environment_counts_locally_only() -> None:
    data = invariant_data(np.random.default_rng(1))
    X = data.X.copy()
    X[data.rows(0), 1] = 3.0
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    found = evidence(data, np.ones((1, 2), bool))
    assert found.ranks[:, 0].tolist() == [1, 2, 2]
    assert found.pooled_rank[0] == 2
    rows = data.rows(0)
    without = fits(X[rows] - X[rows].mean(axis=0), data.y[rows] - data.y[rows].mean(), np.array([[True, False]]))[0]
    assert found.local[0, 0] == pytest.approx(without[0])


def test_without_tolerance_the_parts_are_chows_and_bartletts_tests() -> None:
    rng = np.random.default_rng(2)
    data = invariant_data(rng, p=1)
    nothing = evidence(data, np.zeros((1, 1), bool))
    groups = [data.y[data.rows(e)] for e in range(3)]
    assert nothing.p_mean(0.0)[0] == pytest.approx(stats.f_oneway(*groups).pvalue)
    nothing.kurtosis[:] = 0.0
    assert nothing.p_variance(0.0)[0] == pytest.approx(stats.bartlett(*groups).pvalue)
    combined = stats.combine_pvalues([nothing.p_mean(0.0)[0], nothing.p_variance(0.0)[0]]).pvalue
    assert nothing.p_invariant(0.0, 0.0)[0] == pytest.approx(combined)


def test_tolerance_is_the_noncentral_law() -> None:
    data = invariant_data(np.random.default_rng(3))
    found = evidence(data)
    nu = found.freedom[1].sum(axis=0)
    d = found.freedom[0] - nu
    f = (found.pooled - found.local.sum(axis=0)) / d / (found.local.sum(axis=0) / nu)
    np.testing.assert_allclose(found.p_mean(0.02), stats.ncf.sf(f, d, nu, found.n * 0.02), rtol=1e-6)
    assert (found.p_mean(0.02) > found.p_mean(0.0)).all()
    assert (found.p_variance(0.1) > found.p_variance(0.0)).all()


def test_heavy_tails_widen_the_variance_test() -> None:
    found = evidence(invariant_data(np.random.default_rng(4)))
    found.kurtosis[:] = 0.0
    before = found.p_variance(0.0)
    found.kurtosis[:] = 3.0
    assert (found.p_variance(0.0) > before).all()
    found.kurtosis[:] = -1.0
    np.testing.assert_array_equal(found.p_variance(0.0), before)


def test_the_predictive_posterior_weighs_compatible_subsets_by_their_cost() -> None:
    found = evidence(invariant_data(np.random.default_rng(5)))
    compatible = np.array([True, False, True, True])
    weights = np.exp(found.log_predictive(compatible))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[1] == 0.0
    gained = found.n * np.log(found.pooled[2] / found.pooled[3])
    penalty = np.log(found.n) + 2 * np.log(2)
    assert np.log(weights[3] / weights[2]) == pytest.approx(0.5 * (gained - penalty))
    many = np.exp(found.log_predictive(compatible, floor=0.5))
    assert np.log(many[3] / many[2]) == pytest.approx(0.5 * (gained - 0.5 * found.n))


def test_the_choice_is_the_best_compatible_predictor() -> None:
    hits = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        data = flat(10, rng).sample(100, rng)
        mask, compatible = choice(data)
        assert compatible
        hits += np.array_equal(mask, data.truth)
    assert hits >= 6


def test_where_nothing_is_compatible_scattered_coefficients_are_avoided() -> None:
    rng = np.random.default_rng(0)
    environment = np.repeat(np.arange(6), 100)
    X = rng.normal(size=(600, 2)) + 1.0
    slope = np.array([2.0, -2.0, 2.0, -2.0, 2.0, -2.0])[environment]
    noise = np.array([0.2, 2.0, 0.2, 2.0, 0.2, 2.0])[environment]
    y = X[:, 0] + slope * X[:, 1] + noise * rng.normal(size=600)
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    mask, compatible = choice(data)
    assert not compatible
    assert mask.tolist() == [True, False]
    steady = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=600), environment)
    assert risk_in_a_new_environment(steady, mask) == pytest.approx(1.0, abs=0.2)
