"""Random-effects meta-analysis beside matrices, published results, and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, t
from statsmodels.stats.oneway import anova_oneway

from invariance.decisions.heterogeneity import heterogeneity
from meta_analysis_twins import meta_analysis, prediction_interval, restricted_slope

# Trials of the BCG vaccine: vaccinated with and without tuberculosis, others with and without
# (Colditz et al. 1994).
TRIALS = np.array(
    [
        (4, 119, 11, 128),
        (6, 300, 29, 274),
        (3, 228, 11, 209),
        (62, 13536, 248, 12619),
        (33, 5036, 47, 5761),
        (180, 1361, 372, 1079),
        (8, 2537, 10, 619),
        (505, 87886, 499, 87892),
        (29, 7470, 45, 7232),
        (17, 1699, 65, 1600),
        (186, 50448, 141, 27197),
        (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ],
    dtype=float,
)


def test_the_trials_of_the_bcg_vaccine_have_the_published_results() -> None:
    """As the documentation of metafor's `rma` prints them."""
    ill, well, ill_without, well_without = TRIALS.T
    ratios = np.log(ill / (ill + well) / (ill_without / (ill_without + well_without)))
    errors = np.sqrt(
        1 / ill - 1 / (ill + well) + 1 / ill_without - 1 / (ill_without + well_without)
    )
    found = heterogeneity(ratios, errors)
    assert found.tau[0] ** 2 == pytest.approx(0.3132, abs=5e-5)
    assert found.i2[0] == pytest.approx(0.9222, abs=5e-5)
    assert found.q[0] == pytest.approx(152.2330, abs=5e-5)
    assert (found.mean[0], found.standard_error[0]) == pytest.approx((-0.7145, 0.1798), abs=5e-5)
    assert found.p_value[0] == pytest.approx(chi2.sf(152.23300808, 12), rel=1e-6)


def test_equal_errors_are_an_exercise() -> None:
    """τ² is then the variance of the estimates less that of sampling."""
    found = heterogeneity([0.0, 2.0, 4.0, 6.0], np.ones(4))
    assert found.tau[0] ** 2 == pytest.approx(20 / 3 - 1, rel=1e-12)
    assert found.i2[0] == pytest.approx(17 / 20, rel=1e-12)
    assert (found.q[0], found.mean[0]) == pytest.approx((20.0, 3.0))
    assert found.standard_error[0] == pytest.approx(np.sqrt(20 / 12))
    assert found.hartung_knapp[0] == pytest.approx(np.sqrt(20 / 12))
    low, high = found.prediction_interval(0.9)
    margin = t.ppf(0.95, 2) * np.sqrt(17 / 3 + 20 / 12)
    assert (low[0], high[0]) == pytest.approx((3 - margin, 3 + margin))
    none = heterogeneity([1.0, 2.0, 3.0, 2.5], np.ones(4))
    assert (none.tau[0], none.i2[0]) == (0.0, 0.0)


@pytest.mark.parametrize("n", [2, 3, 8, 40])
def test_the_restricted_likelihood_is_level_at_its_maximum(n: int) -> None:
    """To nine digits, also if standard errors differ by orders of magnitude."""
    rng = np.random.default_rng(n)
    errors = np.exp(rng.normal(size=(n, 60)) * rng.uniform(0.0, 3.0, 60))
    values = rng.normal(size=(n, 60)) * errors + rng.normal(size=(n, 60)) * rng.choice(
        [0.0, 0.5, 5.0], 60
    )
    found = heterogeneity(values, errors).tau ** 2
    assert 0 < np.count_nonzero(found) < 60
    for tau2, own, error in zip(found, values.T, errors.T, strict=True):
        if tau2 > 0.0:
            assert restricted_slope(tau2 * (1.0 - 1e-9), own, error) > 0.0
        assert restricted_slope(tau2 * (1.0 + 1e-9), own, error) < 0.0


def test_restricted_maximum_likelihood_is_that_of_matrices() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 20):
        errors = rng.uniform(0.05, 1.0, (n, 12))
        values = errors * rng.normal(size=(n, 12)) + np.linspace(0.0, 1.5, 12) * rng.normal(
            size=(n, 12)
        )
        found = heterogeneity(values, errors)
        low, high = found.prediction_interval()
        for j in range(12):
            twin = meta_analysis(values[:, j], errors[:, j])
            assert found.tau[j] ** 2 == pytest.approx(twin.tau2, abs=1e-6)
            figures = (
                found.i2[j],
                found.q[j],
                found.mean[j],
                found.standard_error[j],
                found.hartung_knapp[j],
            )
            assert figures == pytest.approx(twin[1:], abs=1e-6)
            if n >= 4:
                assert (low[j], high[j]) == pytest.approx(prediction_interval(twin, n), abs=1e-5)
        assert (np.isnan(low) == (n < 4)).all()
        assert 0 < np.count_nonzero(found.tau) < 12


def test_p_values_of_estimated_errors_are_those_of_welch() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.normal(0.3 * k, 1.0 + k, 5 + 3 * k) for k in range(4)]
    sizes = np.array([len(group) for group in groups])
    means = [group.mean() for group in groups]
    errors = [group.std(ddof=1) / np.sqrt(len(group)) for group in groups]
    expected = anova_oneway(groups, use_var="unequal").pvalue
    assert heterogeneity(means, errors, sizes - 1.0).p_value[0] == pytest.approx(expected, rel=1e-9)
    many = heterogeneity(means, errors, np.full(4, 1e9)).p_value[0]
    assert many == pytest.approx(heterogeneity(means, errors).p_value[0], rel=1e-6)


def test_welch_keeps_its_size_in_small_environments() -> None:
    """Chi-square rejects equal means of six rows each in a third of all cases."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(6, 10, 2000))
    means = values.mean(axis=0)
    errors = values.std(axis=0, ddof=1) / np.sqrt(6)
    assert 0.03 < np.mean(heterogeneity(means, errors, np.full(10, 5.0)).p_value < 0.05) < 0.1
    assert np.mean(heterogeneity(means, errors).p_value < 0.05) > 0.25


def test_what_is_unknown_does_not_count() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(7, 3))
    errors = rng.uniform(0.1, 1.0, (7, 3))
    freedom = np.arange(5.0, 12.0)
    some = values.copy(), errors.copy()
    some[0][2, 0] = np.nan
    some[1][4, 0] = np.nan
    some[1][5, 0] = 0.0
    some[1][1:, 1] = np.nan
    found = heterogeneity(*some, freedom)
    kept = [0, 1, 3, 6]
    alone = heterogeneity(values[kept, 0], errors[kept, 0], freedom[kept])
    whole = heterogeneity(values, errors, freedom)
    assert found.n_environments.tolist() == [4, 1, 7]
    for part, of_some, of_all in zip(found, alone, whole, strict=True):
        assert part[0] == pytest.approx(of_some[0], rel=1e-9)
        assert part[2] == pytest.approx(of_all[2], rel=1e-12)
    assert np.isnan([part[1] for part in found[1:]]).all()


def test_units_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=9)
    errors = rng.uniform(0.1, 1.0, 9)
    one = heterogeneity(values, errors)
    other = heterogeneity(1e9 * values + 1e3, 1e9 * errors)
    assert other.tau[0] == pytest.approx(1e9 * one.tau[0], rel=1e-9)
    assert (other.i2[0], other.p_value[0]) == pytest.approx((one.i2[0], one.p_value[0]), rel=1e-6)
