"""Outcomes that depend on nothing but their values: not on rows that are left out, wrappers, or the luck of a draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP, BIPClassifier, MultiEnvironmentData
from invariance.data.outcomes import outcome_kind
from invariance.exceptions import DataError

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays
N = 90
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
SITE = np.repeat(["a", "b", "c"], N // 3)
YES = X[:, 0] + RNG.normal(size=N) > 0.0
WORDS = np.where(YES, "yes", "no")
CATEGORIES = pd.Categorical(WORDS, categories=["yes", "no"])


@pytest.mark.parametrize(
    "y",
    [
        CATEGORIES,
        pd.Series(CATEGORIES),
        pd.Series(CATEGORIES.as_ordered()),
        pl.Series("y", WORDS).cast(pl.Enum(["yes", "no"])),
        WORDS,
        WORDS.tolist(),
    ],
    ids=["categorical", "series", "ordered", "enum", "array", "list"],
)
def test_classes_are_sorted_whatever_holds_them(y: Any) -> None:
    data = from_arrays(X, y, SITE)
    assert data.classes == ("no", "yes")
    np.testing.assert_array_equal(data.y, YES)
    fitted = BIPClassifier(progress=False).fit(X, y, environments=SITE)
    given = BIPClassifier(progress=False).fit(data)
    assert fitted.classes_.tolist() == given.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(fitted.coef_, given.coef_)
    np.testing.assert_allclose(BIP(progress=False).fit(X, y, environments=SITE).coef_, given.coef_)


@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize("values", [WORDS, YES], ids=["words", "truths"])
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_a_missing_class_may_be_the_first(place: int, values: Any, nothing: Any) -> None:
    y = values.astype(object)
    y[place] = nothing
    data = from_arrays(X, y, SITE, missing="drop")
    assert data.n_rows == N - 1
    np.testing.assert_array_equal(data.y, np.delete(YES, place))


def test_objects_that_are_numbers_are_still_told_of() -> None:
    with pytest.raises(DataError, match="dtype object"):
        from_arrays(X, RNG.normal(size=N).astype(object), SITE)
    with pytest.raises(DataError, match="'oops'"):
        from_arrays(X, np.array([1.5, 2.5, "oops"] * (N // 3), dtype=object), SITE)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_classes_are_those_of_the_rows_that_are_left() -> None:
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": SITE, "y": WORDS})
    table.loc[:3, "y"] = "maybe"
    with pytest.raises(DataError, match="has 3 classes, 'maybe', 'no', 'yes'"):
        from_table(table, "y", "site")
    missing = table.assign(a=table["a"].where(table.index > 3))
    small = table.assign(site=table["site"].where(table.index > 3, "tiny"))
    for data in (
        from_table(missing, "y", "site", missing="drop"),
        from_table(small, "y", "site", min_rows=10),
        from_arrays(missing[["a", "b"]], table["y"], SITE, missing="drop"),
    ):
        assert data.classes == ("no", "yes")
        np.testing.assert_array_equal(data.y, YES[4:])


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
@pytest.mark.parametrize(("only", "said"), [("no", "'no'"), (True, "True")])
def test_one_class_is_constant(only: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"outcome 'y' is constant: every row is {said}. Choose an outcome"):
        from_arrays(X, np.full(N, only), SITE)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": SITE, "y": np.full(N, only)})
    with pytest.raises(DataError, match="is constant"):
        from_table(table, "y", "site")
    table["y"] = table["y"].where(table.index > 3, False if only is True else "yes")
    table.loc[:3, "a"] = np.nan
    with pytest.raises(DataError, match="is constant"):
        from_table(table, "y", "site", missing="drop")


def test_kinds_are_no_toss_of_a_coin() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        score = outcome_kind(rng.integers(0, 101, 600).astype(float), "y")
        assert score.kind == "number"
        visits = rng.poisson(2.0, 600).astype(float)
        assert outcome_kind(visits, "y") == (
            "count",
            f"y is whole numbers from 0 to {visits.max():g}, many of them equal, with a low mean, {visits.mean():.3g}",
        )
