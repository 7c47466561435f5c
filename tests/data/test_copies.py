"""Columns that are equal to another one, or equal in other units, are named with what leaves one
out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.exceptions import DataWarning


def table(**more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    a = rng.normal(40.0, 9.0, 90)
    b = rng.integers(0, 2, 90)
    return pd.DataFrame(
        {"a": a, "b": b, "y": a + rng.normal(size=90), "site": list("uvw") * 30} | more
    )


READERS = [MultiEnvironmentData.from_table, Moments.from_rows]


@pytest.mark.parametrize("read", READERS)
def test_copies_are_named(read: Callable[..., Any]) -> None:
    plain = table()
    copies = {
        "a2": plain["a"],
        "fahrenheit": 1.8 * plain["a"] + 32,
        "not_b": 1 - plain["b"],
        "a3": plain["a"],
    }
    with pytest.warns(DataWarning, match="equal") as told:
        data = read(plain.assign(**copies), "y", "site", exclude=[])
    (message,) = [warning.message.args[0] for warning in told]
    assert [dict(remedy.settings) for remedy in message.remedies] == [
        {"exclude": ["a2", "fahrenheit", "a3", "not_b"]}
    ]
    for pair in (
        "'a' and 'a2' are equal,",
        "'a' and 'fahrenheit' are equal in other units",
        "'b' and 'not_b' are",
    ):
        assert pair in message
    assert data.feature_names == ("a", "b", "a2", "fahrenheit", "not_b", "a3")
    left = read(plain.assign(**copies), "y", "site", exclude=["a2", "a3", "fahrenheit", "not_b"])
    assert left.feature_names == ("a", "b")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("read", READERS)
def test_others_are_not(read: Callable[..., Any]) -> None:
    plain = table()
    rng = np.random.default_rng(0)
    near = plain["a"] + 1e-5 * rng.normal(size=90)
    level = np.where(plain["b"] == 1, "x", "z")
    read(
        plain.assign(near=near, square=plain["a"] ** 2, level=level, same=plain["y"]),
        "y",
        "site",
        exclude=["same"],
    )


def test_fit_warns_once() -> None:
    plain = table()
    X = np.column_stack([plain["a"], plain["b"], plain["a"]])
    with pytest.warns(DataWarning, match="'x0' and 'x2' are equal") as told:
        BIP().fit(X, plain["y"].to_numpy(), environments=plain["site"].to_numpy())
    assert len([warning for warning in told if warning.category is DataWarning]) == 1
