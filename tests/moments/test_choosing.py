from __future__ import annotations

import warnings

import numpy as np
import pytest

from invariance import Moments, MultiEnvironmentData
from invariance.data.features import Features
from invariance.exceptions import DataError
from invariance.moments.moments import choosing


def data() -> MultiEnvironmentData:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 4)) + 1e5
    env = np.repeat(["a", "b", "c"], 30)
    X[env != "c", 2] = 7.0
    return MultiEnvironmentData.from_arrays(X, rng.normal(size=90), env)


def assert_same(found: Moments, expected: Moments) -> None:
    assert (found.columns, found.environments, found.outcome) == (
        expected.columns,
        expected.environments,
        expected.outcome,
    )
    for name in ("counts", "minimum", "maximum", "at_ends"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-9)
    np.testing.assert_allclose(found.pooled_mean, expected.pooled_mean, rtol=1e-14)


@pytest.mark.parametrize("labels", [["a", "c"], ["c", "b"], ["b"]])
def test_moments_of_some_environments_are_those_of_their_rows(labels: list[str]) -> None:
    whole = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, rows = choosing(Moments.from_data(whole), labels), whole.choosing(labels)
    kept = np.isin(np.array(whole.environments)[whole.environment_index], labels)
    np.testing.assert_array_equal(rows.y, whole.y[kept])
    assert [rows.environments[e] for e in rows.environment_index] == [
        whole.environments[e] for e in whole.environment_index[kept]
    ]
    assert_same(found, Moments.from_data(rows))
    assert dict(found.constants) == ({} if "c" in labels else {"x2": 7.0})
    assert ("x2" in rows.feature_names) == ("c" in labels)


def test_groups_lose_columns() -> None:
    whole = data()
    grouping = Features.of(["x0", "x1", "x2", "x3"], {"g": ("x1", "x2")})
    grouped = MultiEnvironmentData(
        whole.X, whole.y, whole.environment_index, grouping.names, whole.environments, grouping=grouping
    )
    rows = grouped.choosing(["a", "b"])
    assert rows.feature_names == ("x0", "g", "x3")
    assert rows.features.columns == ("x0", "x1", "x3")
    found = choosing(Moments.from_data(grouped), ["a", "b"])
    assert found.features.names == ("x0", "g", "x3")
    assert_same(found, Moments.from_data(rows))


def test_nothing_varies_any_more() -> None:
    whole = data()
    only = MultiEnvironmentData.from_arrays(whole.X[:, 2:3], whole.y, whole.environment_index)
    for choose in (only.choosing, lambda labels: choosing(Moments.from_data(only), labels)):
        with pytest.raises(DataError, match="every feature is constant in"):
            choose([0, 1])
