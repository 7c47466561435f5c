"""ICP against other software, against a plain implementation, and where others fall over."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from invariance.baselines import ICP
from invariance.baselines.icp import f_test
from invariance.exceptions import DataWarning
from reference_data import load_reference, needs_reference, reference_files
from twins import icp_p_value


def simulated(
    n: int = 60, E: int = 3, p: int = 4, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Feature 0 causes y alike everywhere; the last one follows from y in another way in each
    environment."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    X = rng.normal(size=(n * E, p)) * (1 + env[:, None]) + env[:, None]
    y = 2.0 * X[:, 0] + rng.normal(size=n * E)
    X[:, -1] = y * (1 + env) + rng.normal(size=n * E)
    return X, y, env


@needs_reference
@pytest.mark.parametrize("name", reference_files())
def test_everything_agrees_with_two_other_implementations(name: str) -> None:
    reference = load_reference(name)
    python = reference.results["causalicp"]
    r = reference.results["R"]["ICP"]
    model = ICP().fit(*reference.fit_arguments)
    np.testing.assert_allclose(
        model.subset_p_values_, reference.arrays["icp_pvalue_python"], atol=1e-8, rtol=0
    )
    np.testing.assert_allclose(
        model.subset_p_values_, reference.arrays["icp_pvalue_r"], atol=1e-8, rtol=0
    )
    as_names = {tuple(f"x{j}" for j in sorted(subset)) for subset in python["accepted"]}
    assert set(model.accepted_) == as_names
    assert len(model.accepted_) == len(r["acceptedSets"])
    assert np.flatnonzero(model.support_).tolist() == sorted(python["estimate"])
    np.testing.assert_allclose(model.confidence_intervals_[:, 1], r["ConfInt"][0], atol=1e-9)
    np.testing.assert_allclose(model.confidence_intervals_[:, 0], r["ConfInt"][1], atol=1e-9)
    np.testing.assert_allclose(
        model.confidence_intervals_[:, 0], python["conf_intervals"][0][:10], atol=1e-9
    )
    np.testing.assert_allclose(model.p_values_, r["pvalues"], atol=1e-8)
    assert model.model_rejected_ == r["modelReject"]


def constant_inside(n: int, E: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, env = simulated(n, E)
    X[env == 1, 1] = 5.0
    return X, y, env


def huge_and_tiny(n: int, E: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    env = np.repeat(["huge", "tiny"], [n, E])
    X = rng.normal(size=(n + E, 2)) * np.where(env == "huge", 1e6, 1e-3)[:, None]
    return X, X[:, 0] + rng.normal(size=n + E), env


@pytest.mark.parametrize(
    ("make", "n", "E"),
    [
        (simulated, 60, 3),
        (simulated, 8, 5),
        (simulated, 300, 2),
        (constant_inside, 60, 3),
        (huge_and_tiny, 4000, 3),
    ],
)
def test_every_subset_equals_the_definition(make: Any, n: int, E: int) -> None:
    X, y, env = make(n, E)
    model = ICP().fit(X, y, env)
    for code, p_value in enumerate(model.subset_p_values_):
        chosen = [j for j in range(X.shape[1]) if code >> j & 1]
        assert p_value == pytest.approx(icp_p_value(X[:, chosen], y, env), rel=1e-6, abs=1e-12)


def test_size_limit_tests_every_small_subset_once() -> None:
    X, y, env = simulated(p=6)
    full = ICP().fit(X, y, env)
    limited = ICP(max_size=3).fit(X, y, env)
    names = tuple(f"x{j}" for j in range(6))
    found, every = (model.subsets_.set_index("subset")["p_value"] for model in (limited, full))
    assert sorted(found.index) == sorted(
        z for k in range(4) for z in itertools.combinations(names, k)
    )
    np.testing.assert_array_equal(found, every[found.index])


def test_three_outcomes() -> None:
    X, y, env = simulated()
    selected = ICP().fit(X, y, env)
    assert (selected.outcome_, np.flatnonzero(selected.support_).tolist()) == ("selected", [0])
    rng = np.random.default_rng(1)
    noise = rng.normal(size=len(y))
    empty = ICP().fit(X, noise, env)
    assert (empty.outcome_, empty.support_.any(), () in empty.accepted_) == ("empty", False, True)
    rejected = ICP().fit(X[:, 1:3], noise * (1 + 9 * env), env)
    assert (rejected.outcome_, rejected.model_rejected_, rejected.accepted_) == (
        "rejected",
        True,
        [],
    )
    assert not rejected.support_.any()
    assert np.isnan(rejected.confidence_intervals_).all()
    assert np.isnan(rejected.p_values_).all()
    assert (rejected.subset_p_values_ <= 0.05).all()


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 14))
    env = np.repeat([0, 1, 2], 30)
    y = rng.normal(size=90)
    one, two = (ICP(n_jobs=n).fit(X, y + X[:, 0], env) for n in (1, 2))
    np.testing.assert_array_equal(one.subset_p_values_, two.subset_p_values_)
    np.testing.assert_array_equal(one.confidence_intervals_, two.confidence_intervals_)


def test_duplicate_column_changes_no_p_value_and_unbounds_the_interval() -> None:
    X, y, env = simulated()
    plain = ICP().fit(X, y, env)
    doubled = ICP().fit(np.column_stack([X, X[:, 0]]), y, env)
    np.testing.assert_allclose(doubled.subset_p_values_[:16], plain.subset_p_values_, rtol=1e-12)
    with_both = doubled.subset_p_values_[[code | 16 for code in range(16) if code & 1]]
    np.testing.assert_allclose(
        with_both, plain.subset_p_values_[[code for code in range(16) if code & 1]], rtol=1e-7
    )
    assert not doubled.support_[[0, 4]].any()
    np.testing.assert_array_equal(doubled.confidence_intervals_[[0, 4]], [[-np.inf, np.inf]] * 2)


def test_copy_of_the_outcome_is_named() -> None:
    X, y, env = simulated()
    with pytest.warns(DataWarning, match=r"\{x4\}"):
        model = ICP().fit(np.column_stack([X, 3 * y + 1]), y, env)
    assert model.subset_p_values_[0b10000] == 1.0


def test_f_test_keeps_relative_accuracy_in_both_tails() -> None:
    ratio = np.array([[1e-3, 0.2, 0.9, 1.0, 1.1, 7.0, 1e3]])
    found = f_test(ratio, np.full(7, 49.0), np.full(7, 199.0))
    wanted = 2 * np.minimum(stats.f.cdf(ratio, 49, 199), stats.f.sf(ratio, 49, 199))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
