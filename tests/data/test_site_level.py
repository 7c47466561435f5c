"""Features that are constant within every environment are named once, with what leaves them out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Columns, Moments, MultiEnvironmentData
from invariance.exceptions import DataWarning

READERS = [MultiEnvironmentData.from_table, Moments.from_rows]
pytestmark = pytest.mark.filterwarnings("error::invariance.exceptions.DataWarning")


def table(**more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(5), 20)
    columns = {
        "a": rng.normal(size=100),
        "b": rng.integers(0, 2, 100),
        "y": rng.normal(size=100),
        "site": site,
    }
    return pd.DataFrame(columns | {name: np.asarray(values)[site] for name, values in more.items()})


def remedies(read: Callable[[], Any]) -> list[list[str]]:
    """Of all warnings: which columns they propose to exclude"""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    told = [each.message.args[0] for each in caught if each.category is DataWarning]
    return [dict(remedy.settings)["exclude"] for message in told for remedy in message.remedies]


@pytest.mark.parametrize("read", READERS)
def test_settings_and_recodings_are_named_once(read: Callable[..., Any]) -> None:
    settings = {"size": [3.0, 1.0, 4.0, 1.0, 5.0], "site4": [0, 0, 0, 0, 1], "kind": list("uvuvv")}
    with pytest.warns(
        DataWarning, match="'size', 'site4', 'kind' are constant within each of 5 environments"
    ) as told:
        read(table(**settings), "y", "site")
    assert len(told) == 1
    assert remedies(lambda: read(table(**settings), "y", "site")) == [["size", "site4", "kind"]]
    read(table(**settings), "y", "site", exclude=["size", "site4", "kind"])


@pytest.mark.parametrize("read", READERS)
def test_what_varies_in_one_environment_is_not_named(read: Callable[..., Any]) -> None:
    nearly = table(size=[3.0, 1.0, 4.0, 1.0, 5.0])
    nearly.loc[7, "size"] = 2.0
    read(nearly, "y", "site")


def test_what_is_excluded_already_is_repeated() -> None:
    given = table(size=[3.0, 1.0, 4.0, 1.0, 5.0], code=[1, 2, 3, 4, 5])
    read = lambda: MultiEnvironmentData.from_table(given, "y", "site", exclude=["code"])  # noqa: E731
    assert remedies(read) == [["code", "size"]]


@pytest.mark.parametrize("read", READERS)
def test_a_category_that_tells_environments_apart_is_named_once(read: Callable[..., Any]) -> None:
    assert remedies(lambda: read(table(town=list("pqrst")), "y", "site")) == [["town"]]


@pytest.mark.parametrize("read", READERS)
def test_of_a_group_all_columns_must_be_constant(read: Callable[..., Any]) -> None:
    given = table(beds=[3.0, 1.0, 4.0, 1.0, 5.0], staff=[2.0, 2.0, 7.0, 1.0, 8.0])
    together = remedies(lambda: read(given, "y", "site", groups={"size": ["beds", "staff"]}))
    assert together == [["beds", "staff"]]
    read(given, "y", "site", groups={"size": ["beds", "staff", "a"]})


def test_the_fit_of_a_table_warns_once_and_predictions_do_not() -> None:
    given = table(size=[3.0, 1.0, 4.0, 1.0, 5.0])
    model = BIP(columns=Columns(environment="site"))
    assert remedies(lambda: model.fit(given.drop(columns="y"), given["y"])) == [["size"]]
    assert remedies(lambda: model.predict(given.drop(columns=["y", "site"]))) == []


@pytest.mark.parametrize("read", [lambda data: data, Moments.from_data])
def test_values_by_environment(read: Callable[[MultiEnvironmentData], Any]) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1, 2], 10)
    X = rng.normal(size=(30, 4))
    X[:, 1], X[:, 3] = np.array([2.0, 2.0, 5.0])[site], np.array([7.0, 8.0, 9.0])[site]
    X[site == 1, 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = MultiEnvironmentData.from_arrays(X, rng.normal(size=30), site)
    found = read(data).site_level
    assert found.columns.tolist() == [False, True, False, True]
    assert found.values.tolist() == [[2.0, 7.0], [2.0, 8.0], [5.0, 9.0]]
    assert found.values_of(np.array([True, False, True, True])).tolist() == [[7.0], [8.0], [9.0]]
