"""Encoded tables written back, kept, reordered and read in parts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_encoding import ASKED, FRAMES, TABLE, N, column, failing, from_table

from invariance import MultiEnvironmentData, spline
from invariance.data import read_chunks
from invariance.data.columns import RawTable
from invariance.exceptions import DataError, DataWarning
from invariance.moments import Moments
from patients import LEVELS


def test_back_to_a_table() -> None:
    groups = {"age": spline("age"), "both": ["drugs", "extra"]}
    table = TABLE.assign(extra=np.random.default_rng(1).normal(size=N))
    data = from_table(table, **ASKED, groups=groups)
    back = data.to_frame()
    assert back.columns.tolist() == ["sex", "age", "smoking", "region", "drugs", "extra", "pressure", "hospital"]
    pd.testing.assert_frame_equal(back.astype(dict.fromkeys(LEVELS, "str")), table[back.columns])
    again = from_table(back, **ASKED, groups=groups)
    assert again.encoding == data.encoding
    np.testing.assert_array_equal(again.X, data.X)
    narrow = data.narrowed(np.array([True, False, True, False, False])).to_frame()
    assert narrow.columns.tolist() == ["sex=m", "smoking=former", "smoking=never", "pressure", "hospital"]


def test_an_encoding_is_kept_by_pickle() -> None:
    data = from_table(TABLE, **ASKED, groups=[spline("age")])
    back = pickle.loads(pickle.dumps(data))
    assert back.encoding == data.encoding
    assert back.encoding.features.columns == data.features.columns


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(N)
    data, moved = from_table(TABLE, **ASKED), from_table(TABLE.iloc[order], **ASKED)
    assert moved.encoding == data.encoding
    np.testing.assert_array_equal(moved.X, data.X[order])


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """With missing values in the first rows, one of which alone has a level."""
    table = table.copy()
    table.loc[0, "region"] = None
    table.loc[1, ["age", "region"]] = [np.nan, "alone"]
    return table.assign(code=np.resize(["01", "1", "x", "y", "z"], len(table)))


@pytest.mark.filterwarnings("ignore:dropped 2 of 48 rows")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("category", [False, True])
def test_files_in_chunks_agree_with_the_whole(tmp_path: Path, suffix: str, size: int, category: bool) -> None:
    path = tmp_path / f"table{suffix}"
    table = gaps(TABLE)
    if category:
        table = table.astype({"smoking": pd.CategoricalDtype(LEVELS["smoking"])})
    table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    how: dict[str, Any] = {"missing": "drop", "categorical": ["code"], "groups": [spline("age", knots=3)]}
    whole = from_table(path, **ASKED, **how)
    assert [name for name in whole.features.columns if "code" in name] == [f"code={k}" for k in ("1", "x", "y", "z")]
    chunks = list(read_chunks(path, **ASKED, rows_per_chunk=size, **how))
    assert {chunk.encoding for chunk in chunks} == {whole.encoding}
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), whole.X)
    moments = Moments.from_chunks(read_chunks(path, **ASKED, rows_per_chunk=size, **how))
    assert moments.encoding == whole.encoding
    assert moments.features.groups == whole.features.groups
    if size == 1000:
        for name in ("scatter", "centre", "rest", "minimum", "maximum"):
            np.testing.assert_array_equal(getattr(moments, name), getattr(Moments.from_data(whole), name))
    else:
        np.testing.assert_allclose(moments.scatter, Moments.from_data(whole).scatter, rtol=1e-9, atol=1e-7)


def test_a_column_that_begins_with_gaps_is_still_numbers(tmp_path: Path) -> None:
    table = TABLE.assign(late=[None] * 5 + [1.5, 2.5] * ((N - 5) // 2) + [3.0])
    table.to_csv(tmp_path / "t.csv", index=False)
    how: dict[str, Any] = {**ASKED, "missing": "drop"}
    with pytest.warns(DataWarning, match="dropped 5"):
        whole = from_table(tmp_path / "t.csv", **how)
    with pytest.warns(DataWarning, match="dropped 5"):
        chunks = list(read_chunks(tmp_path / "t.csv", **how, rows_per_chunk=2))
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), whole.X)


def test_a_column_that_turns_into_text_is_named(tmp_path: Path) -> None:
    table = TABLE.assign(code=["1", "2", *["x", "y", "z", "u"] * ((N - 2) // 4), "x", "y"])
    table.to_csv(tmp_path / "t.csv", index=False)
    phrase = (
        "column 'code' holds numbers, or true and false, in the first rows of the file, and other values later on: "
        "mend these, or take its values as levels, categorical=['code']."
    )
    with failing(phrase):
        list(read_chunks(tmp_path / "t.csv", **ASKED, rows_per_chunk=2))
    whole = from_table(tmp_path / "t.csv", **ASKED)
    chunks = list(read_chunks(tmp_path / "t.csv", **ASKED, rows_per_chunk=2, categorical=["code"]))
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), whole.X)


def test_unusable_columns_of_a_file_in_chunks(tmp_path: Path) -> None:
    TABLE.assign(id=[f"p{i}" for i in range(N)], dose=np.resize(["a", "2", "3"], N)).to_csv(tmp_path / "t.csv")
    with pytest.warns(DataWarning, match="no name"), pytest.raises(DataError) as caught:
        list(read_chunks(tmp_path / "t.csv", **ASKED, rows_per_chunk=6))
    assert "column 'id' is not numeric but has 48 different values in 48 rows" in str(caught.value)
    assert "column 'dose' is not numeric: most of its different values are numbers, but not 'a'" in str(caught.value)
    dated = TABLE.assign(visit=pd.date_range("2020-01-01", periods=N), id=[f"p{i}" for i in range(N)])
    dated.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"column 'visit' .* holds dates or times; column 'id' .* 48 different values"):
        list(read_chunks(tmp_path / "t.parquet", **ASKED, rows_per_chunk=6))
    chunks = read_chunks(tmp_path / "t.parquet", **ASKED, rows_per_chunk=6, exclude=["visit", "id"])
    assert sum(chunk.n_rows for chunk in chunks) == N


def test_numeric_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    TABLE[["age", "drugs", "pressure", "hospital"]].to_csv(path, index=False)
    read = []
    whole = RawTable.of_frame
    monkeypatch.setattr(RawTable, "of_frame", lambda frame, *rest: read.append(len(frame)) or whole(frame, *rest))
    assert len(list(read_chunks(path, **ASKED, rows_per_chunk=12))) == 4
    assert sum(read) == N + 12


@FRAMES
def test_new_names_and_fewer_columns(convert: Callable[[pd.DataFrame], Any]) -> None:
    frame = convert(TABLE[["sex", "age", "drugs"]])
    names = ["gender", "years", "pills"]
    how: dict[str, Any] = {"feature_names": names, "exclude": ["years"]}
    data = MultiEnvironmentData.from_arrays(frame, TABLE["pressure"], TABLE["hospital"], **how)
    assert data.features.columns == ("gender=m", "pills")
    np.testing.assert_array_equal(column(data, "pills"), TABLE["drugs"])
    arrays = MultiEnvironmentData.from_arrays(
        TABLE[["age", "drugs"]].to_numpy(), TABLE["pressure"], TABLE["hospital"], exclude=["x0"]
    )
    assert arrays.feature_names == ("x1",)
    np.testing.assert_array_equal(arrays.X[:, 0], TABLE["drugs"])


def test_numbers_are_not_copied() -> None:
    X = np.random.default_rng(0).normal(size=(N, 3))
    data = MultiEnvironmentData.from_arrays(X, TABLE["pressure"], TABLE["hospital"])
    assert data.X is X
    assert data.encoding is None


def test_moments_of_different_encodings_do_not_merge() -> None:
    first, second = TABLE[TABLE["hospital"] < "c"], TABLE[TABLE["hospital"] > "c"]
    parts = [
        Moments.from_data(from_table(t, **ASKED, features=["age"], groups=[spline("age")])) for t in (first, second)
    ]
    with failing("cannot merge moments whose columns were made or grouped differently."):
        parts[0].merge(parts[1])
    assert parts[0].merge(parts[0]).encoding == parts[0].encoding
