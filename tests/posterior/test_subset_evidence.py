"""What the data say about single subsets, against plain computations from the rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decision_twins import all_masks, risk_in_a_new_environment
from decision_twins import evidence as plain_evidence
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Posterior, Tolerance
from invariance.exceptions import SettingError
from invariance.posterior.posterior import Judge
from twins import simulated

EXAMPLE = simulated(p=4)
MASKS = all_masks(4)


def left_out_r2(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    errors = 0.0
    for e in range(data.n_environments):
        own, rest = data.environment_index == e, data.environment_index != e
        design = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
        beta = np.linalg.lstsq(design[rest], data.y[rest], rcond=None)[0]
        errors += ((data.y[own] - design[own] @ beta) ** 2).sum()
    return 1.0 - errors / ((data.y - data.y.mean()) ** 2).sum()


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(0.1, 0.3), Tolerance.strict()], ids=str)
def test_evidence_of_all_subsets(tolerance: Tolerance) -> None:
    found = Judge(LinearGaussian().bind(EXAMPLE), tolerance).evidence(MASKS)
    plain = plain_evidence(EXAMPLE)
    np.testing.assert_allclose(found.deviance, plain.deviance, rtol=1e-9)
    np.testing.assert_allclose(found.expected_deviance, plain.expected_deviance, rtol=1e-10)
    np.testing.assert_allclose(found.deviance_sd**2, plain.variance_of_deviance, rtol=1e-9)
    np.testing.assert_allclose(found.p_value, plain.p_value, rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(found.p_mean, plain.p_mean(tolerance.delta), rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(found.p_spread, plain.p_variance(tolerance.tau), rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(
        found.p_invariant, plain.p_invariant(tolerance.delta, tolerance.tau), rtol=1e-6, atol=1e-11
    )
    total = ((EXAMPLE.y - EXAMPLE.y.mean()) ** 2).sum()
    np.testing.assert_allclose(found.r2, 1.0 - plain.pooled / total, atol=1e-10)
    np.testing.assert_allclose(found.r2_new, [left_out_r2(EXAMPLE, mask) for mask in MASKS], atol=1e-9)


def test_without_rows_tails_count_as_normal() -> None:
    moments, rows = (LinearGaussian().bind(given) for given in (Moments.from_data(EXAMPLE), EXAMPLE))
    plain = plain_evidence(EXAMPLE)
    np.testing.assert_allclose(rows.excess_kurtosis(MASKS), plain.kurtosis, atol=1e-9)
    plain.kurtosis[:] = 0.0
    found = Judge(moments, Tolerance()).evidence(MASKS)
    np.testing.assert_allclose(found.p_invariant, plain.p_invariant(), rtol=1e-6, atol=1e-11)
    np.testing.assert_allclose(found.r2_new, Judge(rows, Tolerance()).evidence(MASKS).r2_new, atol=1e-10)


def test_a_column_that_is_constant_in_an_environment_has_local_ranks() -> None:
    X = EXAMPLE.X.copy()
    X[EXAMPLE.rows(1), 2] = 5.0
    data = MultiEnvironmentData.from_arrays(X, EXAMPLE.y, EXAMPLE.environment_index)
    found, plain = Judge(LinearGaussian().bind(data)).evidence(MASKS), plain_evidence(data)
    np.testing.assert_allclose(found.expected_deviance, plain.expected_deviance, rtol=1e-10)
    np.testing.assert_allclose(found.p_invariant, plain.p_invariant(), rtol=1e-6, atol=1e-11)
    np.testing.assert_allclose(found.r2_new, [left_out_r2(data, mask) for mask in MASKS], atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
def test_units_and_order_do_not_matter(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(EXAMPLE.n_rows), rng.permutation(4)
    X = EXAMPLE.X[rows][:, columns] * np.array([scale, 1.0, -2.0, 1.0]) + np.array([0.0, shift, 0.0, 0.0])
    labels = rng.permutation(EXAMPLE.n_environments)[EXAMPLE.environment_index[rows]]
    changed = MultiEnvironmentData.from_arrays(X, 3.0 * EXAMPLE.y[rows] - 1.0, labels)
    one = Judge(LinearGaussian().bind(EXAMPLE)).evidence(MASKS).columns()
    other = Judge(LinearGaussian().bind(changed)).evidence(MASKS[:, columns]).columns()
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, rtol=1e-5, atol=1e-8, err_msg=name)
    risks = LinearGaussian().bind(EXAMPLE).random_effects_risk_many(MASKS)
    np.testing.assert_allclose(
        LinearGaussian().bind(changed).random_effects_risk_many(MASKS[:, columns]), 9.0 * risks, rtol=1e-6
    )


def test_the_risk_in_a_new_environment() -> None:
    found = LinearGaussian().bind(EXAMPLE).random_effects_risk_many(MASKS)
    plain = [risk_in_a_new_environment(EXAMPLE, mask) for mask in MASKS]
    np.testing.assert_allclose(found, plain, rtol=1e-8)
    on_demand = LinearGaussian(second_moments="on demand").bind(EXAMPLE).random_effects_risk_many(MASKS)
    np.testing.assert_allclose(on_demand, plain, rtol=1e-8)


def test_where_no_environment_tells_a_coefficient_the_risk_is_infinite() -> None:
    X = EXAMPLE.X.copy()
    X[:, 0] = EXAMPLE.environment_index
    data = MultiEnvironmentData.from_arrays(X, EXAMPLE.y, EXAMPLE.environment_index)
    risks = LinearGaussian().bind(data).random_effects_risk_many(MASKS)
    assert np.isinf(risks[MASKS[:, 0]]).all()
    assert np.isfinite(risks[~MASKS[:, 0]]).all()


def test_one_environment_says_nothing() -> None:
    data = MultiEnvironmentData.from_arrays(EXAMPLE.X, EXAMPLE.y)
    found = Judge(LinearGaussian().bind(data)).evidence(MASKS)
    assert (found.p_invariant == 1.0).all()
    assert np.isnan(found.r2_new).all()
    assert np.isnan(found.expected_deviance).all()


def test_subsets_outside_the_support_are_not_compatible() -> None:
    X = np.column_stack([EXAMPLE.X, EXAMPLE.X[:, 0] + EXAMPLE.X[:, 1]])
    moments = Moments.from_data(MultiEnvironmentData.from_arrays(X, EXAMPLE.y, EXAMPLE.environment_index))
    judge = Judge(LinearGaussian().bind(moments))
    mask = np.array([[True, True, False, False, True]])
    found = judge.evidence(mask).one()
    assert found.deviance == np.inf
    assert np.isnan([found.p_value, found.p_mean, found.p_spread, found.p_invariant, found.r2]).all()
    assert not judge.compatible(mask)[0]
    assert judge.rejected(mask)[0]
    assert np.isfinite(judge.evidence(MASKS[:, [0, 1, 2, 3, 0]] & [1, 1, 1, 1, 0]).p_invariant).all()


def test_evidence_of_a_posterior_by_names_and_after_saving() -> None:
    posterior = BIP().fit(EXAMPLE).posterior_
    names = posterior.feature_names
    table = posterior.subsets(5)
    first = posterior.evidence(table["subset"][0])
    assert first.p_invariant == table["p_invariant"][0]
    assert posterior.evidence([names[2]]).deviance == pytest.approx(-2 * posterior.judge.model.log_ratio([names[2]]))
    for copy in (Posterior.from_json(posterior.to_json()), pickle.loads(pickle.dumps(posterior))):
        again = copy.subsets(5)
        np.testing.assert_allclose(again.drop(columns="subset"), table.drop(columns="subset"), rtol=1e-14)
        assert copy.evidence(table["subset"][3]).p_value == pytest.approx(table["p_value"][3], rel=1e-12)


def test_evidence_that_was_not_saved_is_not_invented() -> None:
    posterior = BIP().fit(simulated(p=8)).posterior_
    saved = Posterior.from_json(posterior.to_json())
    table = saved.subsets(None)
    assert table["p_invariant"][:100].notna().all()
    assert table["p_invariant"][100:].isna().all()
    with pytest.raises(SettingError, match="100 subsets"):
        saved.evidence(table["subset"][150])


@pytest.mark.parametrize(
    "given", [{"delta": -0.1}, {"tau": float("nan")}, {"level": 0.0}, {"weak_level": 1}, {"level": "low"}], ids=str
)
def test_impossible_tolerances(given: dict) -> None:
    with pytest.raises(SettingError, match=next(iter(given))):
        Tolerance(**given)


def test_levels_of_a_tolerance() -> None:
    assert Tolerance().weak.level == 0.02
    assert Tolerance(level=0.01).weak.level == 0.01
    assert Tolerance.strict(0.05).weak == Tolerance.strict(0.05)
    assert Tolerance.strict().in_words("invariance", "delta") == "exact invariance at level 0.05"
