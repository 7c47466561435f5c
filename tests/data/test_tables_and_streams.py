from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.data import sources as base
from invariance.data.sources import source_of
from invariance.exceptions import DataError, SettingError
from invariance.moments.moments import Moments
from source_rows import batches_of, rows_of

COLUMNS = {
    "unused": [0, 0, 0, 0],
    "site": ["a", "b", "a", None],
    "x": [1.5, None, -2.0, 4.0],
    "n": [1, 2, 3, 2**60 + 1],
}
ROWS = [(1.5, 1, "a"), (None, 2, "b"), (-2.0, 3, "a"), (4.0, 2**60 + 1, None)]
TABLE = pa.table(COLUMNS)


class Stream:
    """What an ADBC reader and others look like."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


class Pages:
    """Read anew by each loop."""

    def __iter__(self) -> Iterator[pa.Table]:
        return iter([TABLE[:1], TABLE[1:]])


REREADABLE = {
    "pyarrow": lambda: TABLE,
    "a record batch": lambda: TABLE.to_batches()[0],
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, objects": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "pandas of arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"site": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).with_columns(
        pl.col("site").cast(pl.Categorical)
    ),
    "narwhals": lambda: nw.from_native(pl.DataFrame(COLUMNS)),
    "a lazy frame": lambda: pl.LazyFrame(COLUMNS),
    "a tuple of all sorts": lambda: (
        pl.DataFrame(COLUMNS)[:1],
        pd.DataFrame(COLUMNS)[1:3],
        TABLE[3:],
    ),
    "pages": Pages,
}
READ_ONCE = {
    "a reader": lambda: TABLE.to_reader(2),
    "a stream": lambda: Stream(TABLE.to_reader(3)),
    "batches": lambda: iter(TABLE.to_batches(max_chunksize=3)),
    "tables": lambda: (TABLE[n : n + 1] for n in range(4)),
    "streams": lambda: (Stream(TABLE[n : n + 2].to_reader()) for n in (0, 2)),
}


@pytest.fixture(params=[3, 1 << 16])
def batch_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(base, "_BATCH_ROWS", request.param)
    return request.param


@pytest.mark.parametrize("kind", REREADABLE)
def test_what_can_be_read_again(kind: str, batch_rows: int) -> None:
    source = source_of(REREADABLE[kind]())
    assert source.rereadable
    assert source.schema.names == list(COLUMNS)
    assert rows_of(source, ["x", "n"]) == rows_of(source, ["x", "n"]) == ROWS
    assert all(batch.num_rows <= batch_rows for batch in batches_of(source, ["x", "n"], "site"))


@pytest.mark.parametrize("kind", READ_ONCE)
def test_what_can_be_read_once(kind: str, batch_rows: int) -> None:
    source = source_of(READ_ONCE[kind]())
    assert not source.rereadable
    assert source.schema.names == list(COLUMNS)
    batches = batches_of(source, ["x", "n"], "site")
    assert [
        row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)
    ] == ROWS
    assert all(batch.num_rows <= batch_rows for batch in batches)
    with pytest.raises(DataError, match="only once"):
        batches_of(source, ["x", "n"], "site")


def test_a_lazy_frame_computes_only_what_is_asked_for() -> None:
    def fail(values: Any) -> Any:
        raise AssertionError(values)

    lazy = pl.LazyFrame({"^x.*$": [1.0], "x": [2.0], "*": [3.0], "site": ["a"]})
    lazy = lazy.with_columns(bad=pl.col("x").map_batches(fail, return_dtype=pl.Float64))
    assert rows_of(lazy, ["*", "^x.*$"]) == [(3.0, 1.0, "a")]


def test_an_index_is_no_column_and_names_become_text() -> None:
    frame = pd.DataFrame({1: [1.0], "site": ["a"]}, index=pd.Index([7], name="patient"))
    assert source_of(frame).schema.names == ["1", "site"]
    assert source_of(Stream(pa.RecordBatchReader.from_stream(frame))).schema.names == ["1", "site"]
    assert rows_of(frame, ["1"]) == [(1.0, "a")]


@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.to_pandas(), lambda t: t.to_reader(), lambda t: [t]]
)
def test_names_that_occur_twice(make: Any) -> None:
    twice = pa.Table.from_arrays(
        [pa.array([1.0]), pa.array([2.0]), pa.array(["a"])], names=["x", "x", "site"]
    )
    with pytest.raises(DataError, match=r"duplicate column names in .*: 'x'"):
        rows_of(make(twice), ["x"])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": [1.0]}, "piece 2 of the iterable and piece 1 .* differ in the column 'site'"),
        (
            {"x": [1.0], "site": ["a"], "z": [1]},
            "piece 2 of the iterable and piece 1 .* differ in the column 'z'",
        ),
        (
            {"x": ["1"], "site": ["a"]},
            r"'x' holds text in piece 2 of the iterable, and numbers in pieces before it",
        ),
        ({"x": [[1.0]], "site": ["a"]}, r"'x' holds list<.*> in piece 2"),
        ([1.0, 2.0], r"piece 2 of the iterable cannot be read from the type list"),
    ],
)
def test_pieces_must_agree(second: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows_of(
            [
                pa.table({"x": [1.0], "site": ["a"]}),
                second if isinstance(second, list) else pa.table(second),
            ],
            ["x"],
        )


@pytest.mark.parametrize(
    "rows",
    [
        None,
        3,
        b"a.csv",
        {"x": [1]},
        np.zeros((2, 2)),
        pd.Series([1.0]),
        pl.Series([1.0]),
        pa.array([1]),
    ],
)
def test_what_cannot_be_recognised(rows: Any) -> None:
    with pytest.raises(DataError, match="the table cannot be read from"):
        rows_of(rows, ["x"])


def test_how_files_are_written_says_nothing_of_tables() -> None:
    for form in ({"na": ["-999"]}, {"sep": ";"}, {"thousands": ","}):
        with pytest.raises(SettingError, match=rf"{next(iter(form))}= is for files"):
            source_of(TABLE, **form)


def test_values_of_several_types_name_the_column() -> None:
    frame = pd.DataFrame({"x": [1.0, "?"], "z": [1.0, 2.0], "site": ["a", "b"]})
    assert rows_of(frame, ["z"]) == [(1.0, "a"), (2.0, "b")]
    with pytest.raises(DataError, match=r"column 'x' of the table .*'\?'.*exclude=\['x'\]"):
        rows_of(frame, ["x"])


# ---------------------------------------------------------------- databases


def test_a_relation_of_duckdb(batch_rows: int) -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().from_arrow(TABLE.rename_columns(["un used", "site", 'x "1"', "n"]))
    source = source_of(relation)
    assert source.rereadable
    assert source.schema.names == ["un used", "site", 'x "1"', "n"]
    assert rows_of(source, ['x "1"', "n"]) == rows_of(source, ['x "1"', "n"]) == ROWS
    assert all(batch.num_rows <= batch_rows for batch in batches_of(source, ["n"], "site"))


def test_a_table_of_ibis(batch_rows: int) -> None:
    ibis = pytest.importorskip("ibis", reason="needs ibis-framework[polars]")
    table = ibis.polars.connect({"patients": pl.DataFrame(COLUMNS)}).table("patients")
    source = source_of(table.filter(table.unused == 0))
    assert source.rereadable
    assert source.schema.names == list(COLUMNS)
    assert rows_of(source, ["x", "n"]) == rows_of(source, ["x", "n"]) == ROWS


# ---------------------------------------------------------------- however rows are cut: the same,
# in the same order

N = 23
MANY_ROWS = [
    (n / 4 if n % 5 else None, 2**60 + n, "ab"[n % 2] if n % 3 != 1 else "01", f"s{n % 4}")
    for n in range(N)
]
NAMES = ["x", "n", "t", "site"]
MANY = pa.table({name: [row[j] for row in MANY_ROWS] for j, name in enumerate(NAMES)})


@settings(max_examples=6)
@given(
    cuts=st.lists(st.integers(0, N), max_size=5),
    group=st.integers(1, N),
    batch=st.integers(1, N),
    task=st.sampled_from([1, 300, 10**9]),
)
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_any_partition_into_files(
    ending: str, cuts: list[int], group: int, batch: int, task: int
) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.object(base, "_BATCH_ROWS", batch),
        patch.object(base, "TASK_BYTES", task),
        patch.object(base, "TASK_ROWS_PER_COLUMN", 0),
    ):
        for n, (start, stop) in enumerate(pairwise([0, *sorted(cuts), N])):
            piece = MANY[start:stop]
            path = Path(folder, f"part-{n}{ending}")
            piece.to_pandas().to_csv(path, index=False) if ending == ".csv" else pq.write_table(
                piece, path, group
            )
        assert rows_of(folder, NAMES[:-1]) == MANY_ROWS


def test_labels_of_several_types_are_told_how_to_be_written() -> None:
    table = pd.DataFrame({"x": [1.0, 2.0] * 6, "y": range(12), "site": [("a", 1), ("b", 2)] * 6})
    with pytest.raises(
        DataError, match=r"'site' .* holds values of several .*; write them as text, or leave"
    ):
        Moments.from_rows(table, "y", "site")
