"""The plain decision rule that other tests compare with: against sampling, textbook tests and a known choice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from decision_twins import evidence
from invariance.data import MultiEnvironmentData


def invariant_data(
    rng: np.random.Generator, counts: tuple[int, ...] = (15, 22, 30), p: int = 2, noise: float = 1.0
) -> MultiEnvironmentData:
    environment = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(environment), p)) + rng.normal(size=(len(counts), p))[environment]
    return MultiEnvironmentData.from_arrays(X, X.sum(axis=1) + noise * rng.normal(size=len(X)), environment)


def test_mean_and_variance_of_the_deviance_under_invariance() -> None:
    rng = np.random.default_rng(0)
    everything = np.ones((1, 2), bool)
    found = [evidence(invariant_data(rng), everything) for _ in range(300)]
    deviances = np.array([one.deviance[0] for one in found])
    expected, variance = found[0].expected_deviance[0], found[0].variance_of_deviance[0]
    assert deviances.mean() == pytest.approx(expected, abs=4 * np.sqrt(variance / 300))
    assert deviances.var() == pytest.approx(variance, rel=0.35)
    assert stats.kstest([one.p_value[0] for one in found], "uniform").pvalue > 1e-3


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
