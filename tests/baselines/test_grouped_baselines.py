"""Features of several columns in the comparison methods: each is checked against least squares on
the columns."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from invariance import MultiEnvironmentData, compare
from invariance.baselines import (
    EILLS,
    ICP,
    HiddenICP,
    LassoScreen,
    LassoSelection,
    MarginalSelection,
    Oracle,
    PooledRegression,
    Screened,
)
from invariance.data.features import Features
from invariance.exceptions import DataWarning

COLUMNS = ("x", "a", "b", "c", "u", "v", "w")
GROUPS = {"g": ("a", "b", "c"), "h": ("u", "v")}
NAMES = ("x", "g", "h", "w")
WIDTHS = (1, 3, 2, 1)


def rows(n: int = 60, E: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x and g cause the outcome, w is an effect that the environments disturb, h is neither."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    X = rng.normal(size=(n * E, 7)) * (1.0 + 0.7 * env[:, None]) + env[:, None] * np.array(
        [2.0, -3, 1, 2, 0, 1, 0]
    )
    y = X[:, 0] - X[:, 2] + 0.6 * X[:, 3] + rng.normal(size=n * E)
    X[:, 6] = 0.3 * (1.0 - env) * y + rng.normal(size=n * E) * (1.0 + env)
    return X, y, env


def data_of(
    X: np.ndarray, y: np.ndarray, env: np.ndarray, grouped: bool = True, **more: object
) -> Any:
    features = Features.of(COLUMNS, GROUPS) if grouped else Features.single(COLUMNS)
    labels = tuple(np.unique(env).tolist())
    return MultiEnvironmentData(
        X, y, env, features.names, labels, grouping=features if grouped else None, **more
    )


def columns_of(subset: tuple[int, ...]) -> list[int]:
    first = np.cumsum([0, *WIDTHS])
    return [k for j in subset for k in range(first[j], first[j + 1])]


SUBSETS = [subset for size in range(5) for subset in combinations(range(4), size)]


def pattern(members: tuple[int, ...] | list[int]) -> int:
    return sum(1 << j for j in members)


def residuals(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals, slopes and (X'X)⁻¹ of the slopes, with an intercept."""
    design = np.column_stack([np.ones(len(y)), X])
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    return y - design @ beta, beta[1:], np.linalg.inv(design.T @ design)[1:, 1:]


def f_test_of(X: np.ndarray, y: np.ndarray, tested: list[int]) -> float:
    full = float(np.sum(residuals(X, y)[0] ** 2))
    less = float(np.sum(residuals(np.delete(X, tested, axis=1), y)[0] ** 2))
    df = len(y) - X.shape[1] - 1
    return float(stats.f.sf((less - full) / len(tested) / (full / df), len(tested), df))


def test_icp_tests_the_subsets_of_features_as_those_of_their_columns() -> None:
    X, y, env = rows()
    model = ICP(alpha=0.01).fit(data_of(X, y, env))
    by_columns = ICP(alpha=0.01).fit(data_of(X, y, env, grouped=False)).subset_p_values_
    assert model.subset_p_values_.shape == (16,)
    expected = np.array([by_columns[pattern(columns_of(subset))] for subset in SUBSETS])
    found = np.array([model.subset_p_values_[pattern(subset)] for subset in SUBSETS])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for j in range(4):
        outside = max(p for p, subset in zip(expected, SUBSETS, strict=True) if j not in subset)
        np.testing.assert_allclose(model.p_values_[j], outside, rtol=1e-9)
    accepted = [s for s, p in zip(SUBSETS, expected, strict=True) if p > 0.01]
    assert set(model.accepted_) == {tuple(NAMES[j] for j in s) for s in accepted}
    assert np.flatnonzero(model.support_).tolist() == sorted(set.intersection(*map(set, accepted)))
    assert model.support_[1]
    lower = np.full(7, np.inf)
    upper = np.full(7, -np.inf)
    for columns in map(columns_of, accepted):
        left, beta, inverse = residuals(X[:, columns], y)
        deviation = np.sqrt(left @ left / (len(y) - len(columns) - 1) * np.diagonal(inverse))
        half = np.zeros(7)
        center = np.zeros(7)
        half[columns] = stats.norm.ppf(1 - 0.01 / 4) * deviation
        center[columns] = beta
        lower = np.minimum(lower, center - half)
        upper = np.maximum(upper, center + half)
    np.testing.assert_allclose(
        model.confidence_intervals_, np.column_stack([lower, upper]), rtol=1e-8
    )
    small = ICP(max_size=1).fit(data_of(X, y, env))
    np.testing.assert_array_equal(small.subset_p_values_, model.subset_p_values_[[0, 1, 2, 4, 8]])
    assert small.subsets_["p_value"][0] == small.subset_p_values_.max()


@pytest.mark.parametrize("intercept", [False, True])
def test_hidden_icp_corrects_the_smallest_p_value_of_a_group(intercept: bool) -> None:
    X, y, env = rows(n=300, seed=5)
    alone = HiddenICP(intercept=intercept).fit(data_of(X, y, env, grouped=False))
    together = HiddenICP(alpha=0.2, intercept=intercept).fit(data_of(X, y, env))
    expected = [
        min(1.0, width * min(alone.p_values_[columns_of((j,))])) for j, width in enumerate(WIDTHS)
    ]
    np.testing.assert_allclose(together.p_values_, expected, rtol=1e-12)
    assert together.p_values_[1] > alone.p_values_[1:4].min()
    np.testing.assert_array_equal(together.support_, together.p_values_ <= 0.2)
    np.testing.assert_array_equal(together.effects_, alone.effects_)
    np.testing.assert_array_equal(together.confidence_intervals_.shape, (7, 2))


def test_eills_minimises_over_features() -> None:
    X, y, env = rows()
    model = EILLS().fit(data_of(X, y, env))
    by_columns = EILLS().fit(data_of(X, y, env, grouped=False)).losses_
    patterns = {pattern(subset): pattern(columns_of(subset)) for subset in SUBSETS}
    expected = by_columns[[patterns[code] for code in range(16)]]
    np.testing.assert_allclose(model.losses_, expected, rtol=1e-6)
    assert pattern(np.flatnonzero(model.support_).tolist()) == np.argmin(expected)
    chosen = columns_of(tuple(np.flatnonzero(model.support_)))
    assert len(chosen) > model.support_.sum()
    assert np.flatnonzero(model.coef_).tolist() == chosen


def test_regression_tests_a_group_by_f_also_where_columns_depend_on_each_other() -> None:
    X, y, env = rows()
    model = PooledRegression().fit(data_of(X, y, env))
    expected = [f_test_of(X, y, columns_of((j,))) for j in range(4)]
    np.testing.assert_allclose(model.p_values_, expected, rtol=1e-8)
    np.testing.assert_array_equal(model.support_, np.array(expected) < 0.05)
    X[:, 3] = X[:, 1] - X[:, 2]
    X[:, 4], X[:, 5] = X[:, 0] + X[:, 2], 2.0 * X[:, 1]
    with pytest.warns(DataWarning, match="'h'"):
        model = PooledRegression().fit(data_of(X, y, env))
    left = X[:, [0, 1, 2, 6]]
    expected = [
        f_test_of(left, y, [0]),
        f_test_of(left, y, [1, 2]),
        np.nan,
        f_test_of(left, y, [3]),
    ]
    np.testing.assert_allclose(model.p_values_, expected, rtol=1e-7)
    marginal = MarginalSelection().fit(data_of(X, y, env))
    np.testing.assert_allclose(marginal.p_values_[1], f_test_of(X[:, [1, 2]], y, [0, 1]), rtol=1e-8)


def test_lasso_keeps_a_group_for_any_of_its_columns() -> None:
    X, y, env = rows()
    model = LassoSelection().fit(data_of(X, y, env))
    alone = LassoSelection().fit(data_of(X, y, env, grouped=False))
    np.testing.assert_array_equal(model.lasso_coef_, alone.lasso_coef_)
    np.testing.assert_array_equal(
        model.support_, [alone.support_[columns_of((j,))].any() for j in range(4)]
    )
    y = X[:, 0] + 0.3 * X[:, 3]
    assert LassoSelection().fit(data_of(X, y, env)).support_.tolist() == [True, True, False, False]


def test_marginal_is_the_multiple_correlation() -> None:
    X, y, env = rows()
    model = MarginalSelection().fit(data_of(X, y, env))
    total = np.sum((y - y.mean()) ** 2)
    for j in range(4):
        left = residuals(X[:, columns_of((j,))], y)[0]
        np.testing.assert_allclose(
            model.correlations_[j] ** 2, 1.0 - left @ left / total, rtol=1e-9
        )
        np.testing.assert_allclose(
            model.p_values_[j], f_test_of(X[:, columns_of((j,))], y, list(range(WIDTHS[j])))
        )
    alone = MarginalSelection().fit(data_of(X, y, env, grouped=False))
    np.testing.assert_array_equal(model.correlations_[[0, 3]], alone.correlations_[[0, 6]])
    few = MarginalSelection().fit(data_of(X[58:62], y[58:62], env[58:62]))
    assert np.isnan(few.p_values_[1])
    assert not few.support_[1]


@pytest.mark.parametrize(
    "support", [["x", "h"], [0, 2], np.array([True, False, True, False]), None]
)
def test_oracle_is_told_of_features(support: object) -> None:
    X, y, env = rows()
    truth = np.array([True, False, True, False])
    model = Oracle(support=support).fit(data_of(X, y, env, truth=truth))
    known = X[:, columns_of((0, 2))]
    expected = [f_test_of(known, y, [0]), np.nan, f_test_of(known, y, [1, 2]), np.nan]
    np.testing.assert_allclose(model.p_values_, expected, rtol=1e-8)


def test_a_screened_method_unfolds_features_and_columns() -> None:
    """The screen ranks features by the largest of their columns' coefficients."""
    data = data_of(*rows())
    model = Screened(PooledRegression(), LassoScreen(k=2)).fit(data)
    size = np.abs(LassoScreen(k=2).screen(data).coefficients)
    largest = [size[columns_of((j,))].max() for j in range(4)]
    assert (
        np.flatnonzero(model.screened_).tolist()
        == sorted(np.argsort(largest)[-2:].tolist())
        == [0, 1]
    )
    by_one_column = data_of(data.X, data.X[:, 0] + 3.0 * data.X[:, 3], data.environment_index)
    assert LassoScreen(k=1).screen(by_one_column).kept.tolist() == [False, True, False, False]
    inner = PooledRegression().fit(data.narrowed(model.screened_))
    np.testing.assert_array_equal(model.p_values_, [*inner.p_values_, np.nan, np.nan])
    np.testing.assert_array_equal(model.coef_, [*inner.coef_, 0.0, 0.0, 0.0])


METHODS = [
    "BIP",
    "ICP",
    "Hidden-ICP",
    "EILLS",
    "Regression",
    "Lasso",
    "Marginal",
    "Oracle",
    "ICP-screen(k=2)",
]


def test_a_comparison_has_one_row_per_feature() -> None:
    data = data_of(*rows(), truth=np.array([True, True, False, False]))
    result = compare(data, METHODS)
    assert "failed" not in result["outcome"].tolist()
    coefficients = result.spread("coefficients")
    assert coefficients.columns.tolist() == list(NAMES)
    assert coefficients.isna().to_numpy().tolist() == [[False, True, True, False]] * len(METHODS)
    oracle = Oracle().fit(data)
    found = result.loc["Oracle"]
    assert found.column_coefficients == dict(zip(COLUMNS, oracle.coef_.tolist(), strict=True))
    assert found.coefficients[[0, 3]].tolist() == oracle.coef_[[0, 6]].tolist()
    assert (result["status"].iloc[-1] != "screened out").sum() == 2
    stored = json.loads(result.to_json())
    assert stored["groups"] == {name: list(columns) for name, columns in GROUPS.items()}
    assert all(m["coefficients"][1:3] == [None, None] for m in stored["methods"])
    assert [tick.get_text() for tick in result.plot().get_xticklabels()] == list(NAMES)
