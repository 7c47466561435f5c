"""Sound data arrives as it is: names, labels, order, values; and what is dropped is said."""

from __future__ import annotations

import datetime
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_tables import table
from invariance.data import MultiEnvironmentData, read_table
from invariance.data.checks import largest_size
from invariance.exceptions import DataError, DataWarning

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 3))
Y = RNG.normal(size=12)
LABELS = ["b"] * 4 + ["a"] * 5 + ["c"] * 3
FRAME = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=Y, site=LABELS)

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays


def same(left: MultiEnvironmentData, right: MultiEnvironmentData) -> None:
    np.testing.assert_array_equal(left.X, right.X)
    np.testing.assert_array_equal(left.y, right.y)
    np.testing.assert_array_equal(left.environment_index, right.environment_index)
    for name in (
        "feature_names",
        "environments",
        "outcome_name",
        "environment_name",
        "dropped_rows",
    ):
        assert getattr(left, name) == getattr(right, name), name


# ---------------------------------------------------------------- good tables


def test_pandas_keeps_names_labels_and_order() -> None:
    data = from_table(FRAME, outcome="y", environment="site", features=["w", "u"])
    assert data.feature_names == ("w", "u")
    assert data.environments == ("b", "a", "c")
    assert (data.outcome_name, data.environment_name) == ("y", "site")
    assert (data.n_rows, data.n_features, data.n_environments) == (12, 2, 3)
    assert data.counts.tolist() == [4, 5, 3]
    assert data.rows(1).tolist() == [4, 5, 6, 7, 8]
    np.testing.assert_array_equal(data.X, X[:, [2, 0]])
    np.testing.assert_array_equal(data.y, Y)
    assert data.X.flags.c_contiguous
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.environment_index.dtype == np.intp
    same(pickle.loads(pickle.dumps(data)), data)
    assert repr(data) == (
        "MultiEnvironmentData(12 rows, 2 features, outcome 'y', environments 'b' (4 rows), 'a' (5 "
        "rows), 'c' (3 rows))"
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".CSV"])
def test_files_equal_the_frame(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    frame = FRAME.assign(flag=[True, False] * 6, n=np.arange(12, dtype=np.int16))[
        ["flag", "u", "site", "n", "y", "w"]
    ]
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if "tsv" in suffix else ",", index=False)
    expected = from_table(frame, "y", "site")
    assert expected.feature_names == ("flag", "u", "n", "w")
    same(from_table(str(path), "y", "site"), expected)
    same(from_table(read_table(path), "y", "site"), expected)
    np.testing.assert_array_equal(from_table(path, "y", "site", ["w", "u"]).X, X[:, [2, 0]])


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint16",
        "int64",
        "float16",
        "float32",
        "Int32",
        "UInt8",
        "Float64",
        "boolean",
        "int8[pyarrow]",
    ],
)
def test_numeric_dtypes(dtype: str) -> None:
    column = pd.Series([0, 1, 1] * 4).astype(dtype)
    data = from_table(FRAME.assign(u=column), "y", "site")
    np.testing.assert_array_equal(data.X[:, 0], [0, 1, 1] * 4)


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("values", "environments"),
    [
        (pd.Categorical(LABELS, categories=["a", "b", "c"]), ("b", "a", "c")),
        (np.repeat([3, 1, 2], 4), (3, 1, 2)),
        (pd.array(np.repeat([3, 1, 2], 4), dtype="Int64"), (3, 1, 2)),
        ([("x", 1)] * 6 + [("x", 0)] * 6, (("x", 1), ("x", 0))),
        (np.repeat([True, False], 6), (True, False)),
        (np.repeat(np.array([2.5, 1.0], np.float32), 6), (2.5, 1.0)),
        ([frozenset({1})] * 6 + ["other"] * 6, (frozenset({1}), "other")),
        (np.repeat(np.array(["2021-01-01", "2020-01-01"], "M8[ns]"), 6), None),
        (pl.Series(LABELS), ("b", "a", "c")),
        (np.array(LABELS)[:, None], ("b", "a", "c")),
    ],
)
def test_labels_of_any_hashable_type(values: Any, environments: tuple[object, ...] | None) -> None:
    data = from_arrays(X, Y, values)
    expected = environments or (datetime.datetime(2021, 1, 1), datetime.datetime(2020, 1, 1))
    assert data.environments == expected
    assert not any(isinstance(label, np.generic) for label in data.environments)


# ---------------------------------------------------------------- arrays


def test_arrays() -> None:
    data = from_arrays(X, Y[:, None], LABELS)
    same(data, from_arrays(X.tolist(), Y.tolist(), np.array(LABELS)))
    assert data.feature_names == ("x0", "x1", "x2")
    assert data.environments == ("b", "a", "c")
    assert data.y.shape == (12,)
    assert data.truth is None
    assert (
        from_arrays(X, Y, LABELS, feature_names=list("pqr"), outcome_name="z").outcome_name == "z"
    )
    assert from_arrays(np.asfortranarray(X), Y, LABELS).X.flags.c_contiguous


@pytest.mark.parametrize("frame", [FRAME, pl.from_pandas(FRAME)], ids=["pandas", "polars"])
def test_frames_as_arrays_bring_their_names(frame: Any) -> None:
    data = from_arrays(frame[["u", "v", "w"]], frame["y"], frame["site"])
    assert data.feature_names == ("u", "v", "w")
    assert data.environments == ("b", "a", "c")
    np.testing.assert_array_equal(data.X, X)
    same(from_arrays(frame[["u", "v", "w"]], frame[["y"]], frame["site"]), data)
    assert from_arrays(frame[["u", "y"]], Y, LABELS).outcome_name == "y_"


# ---------------------------------------------------------------- missing="drop"


def test_drop_reports_rows_per_environment() -> None:
    message = (
        "dropped 4 of 12 rows with missing values: 1 of environment 'b', 1 of environment 'a', "
        "2 without an environment label"
    )
    kept = [1, 2, 3, 4, 8, 9, 10, 11]
    frame = FRAME.replace({"site": {"c": "a"}})
    frame.loc[[0, 5], "u"] = np.nan
    frame.loc[6, "y"] = np.nan
    frame.loc[[5, 7], "site"] = None
    with pytest.warns(DataWarning, match=re.escape(message)):
        data = from_table(frame, "y", "site", missing="drop")
    assert data.dropped_rows == {None: 2, "b": 1, "a": 1}
    assert data.environments == ("b", "a")
    np.testing.assert_array_equal(data.X, X[kept])
    np.testing.assert_array_equal(data.y, Y[kept])


def test_drop_names_an_environment_that_vanishes_and_keeps_first_appearance() -> None:
    frame = FRAME.assign(site=["p", "q", "p", "q", "r", "r"] * 2)
    frame.loc[[0, 4, 5, 10, 11], "u"] = np.nan
    with pytest.warns(DataWarning, match=re.escape("nothing is left of environment 'r'")) as caught:
        data = from_table(frame, "y", "site", missing="drop")
    assert caught[0].filename == __file__
    assert data.environments == ("q", "p")
    assert data.environment_index.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert data.dropped_rows == {"p": 1, "r": 4}


def test_decimals_are_read_exactly(tmp_path: Path) -> None:
    values = [0.1 + 0.2, 1e-17 / 3, 12345678.123456789, 2 / 3, 1e30 / 7, -5e-5 / 3]
    (tmp_path / "a.csv").write_text(table(a=values))
    assert from_table(tmp_path / "a.csv", "y", "site").X[:, 0].tolist() == values


# ---------------------------------------------------------------- sizes, and checks on summaries


@pytest.mark.parametrize(
    ("counts", "widths", "expected"),
    [
        ([3, 50], np.ones((2, 4)), 1),
        ([6, 6], np.ones((2, 4)), 4),
        ([5, 6], np.ones((2, 4)), 3),
        ([3], [[1, 0, 0, 0]], 4),
        ([5, 100], [[4, 1, 2, 0], [4, 1, 0, 0]], 2),
        ([9, 7], [[4, 1, 2, 0], [4, 1, 0, 0]], 4),
    ],
)
def test_largest_size(counts: list[int], widths: Any, expected: int) -> None:
    assert largest_size(counts, widths) == expected


# ---------------------------------------------------------------- no column is lost to a name, no
# labels look alike

SMALL_X = np.column_stack([np.arange(6.0), [2.0, 7, 1, 8, 2, 8]])
SMALL_Y = np.array([0.5, 1, 4, 2, 3, 9])


@pytest.mark.parametrize(
    ("features", "outcome", "columns"),
    [
        (["x", "environment"], "y", ["x", "environment", "y", "environment_"]),
        (
            ["environment_", "environment"],
            "y",
            ["environment_", "environment", "y", "environment__"],
        ),
        (["x", "y"], "y", ["x", "y", "y_", "environment"]),
        (["x", "z"], "environment", ["x", "z", "environment", "environment_"]),
    ],
)
def test_a_table_keeps_every_column(features: list[str], outcome: str, columns: list[str]) -> None:
    data = from_arrays(
        SMALL_X, SMALL_Y, list("aaabbb"), feature_names=features, outcome_name=outcome
    )
    table = data.to_frame()
    assert table.columns.tolist() == columns
    np.testing.assert_array_equal(table[columns[:2]], SMALL_X)
    np.testing.assert_array_equal(table[columns[2]], SMALL_Y)
    assert table[columns[3]].tolist() == list("aaabbb")
    again = from_table(table, columns[2], columns[3])
    np.testing.assert_array_equal(again.X, SMALL_X)


ALIKE = [
    ("new york", "new  york"),
    ("a", "\N{ZERO WIDTH SPACE}a"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
    (1, "1"),
]


@pytest.mark.parametrize(("first", "second"), ALIKE)
def test_labels_that_look_alike_are_an_error(first: object, second: object) -> None:
    with pytest.raises(DataError, match="look alike") as caught:
        from_arrays(SMALL_X, SMALL_Y, [first] * 3 + [second] * 3)
    assert f"{first!a} and {second!a}" in str(caught.value)


def test_labels_that_look_different_are_different() -> None:
    labels = ["a", "A", "a b", "ab", 1, 1.5, "x2", "x²"]
    data = from_arrays(np.sin(np.arange(48.0)).reshape(24, 2), np.cos(np.arange(24.0)), labels * 3)
    assert data.environments == tuple(labels)
