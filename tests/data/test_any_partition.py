"""However rows are cut into files, row groups, pieces, batches and tasks: the same rows, in the same order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.data import record_batches as base
from invariance.data import source_files as text
from source_rows import rows_of

Cuts = list[int]
N = 23
ROWS = [(n / 4 if n % 5 else None, 2**60 + n, "ab"[n % 2] if n % 3 != 1 else "01", f"s{n % 4}") for n in range(N)]
NAMES = ["x", "n", "t", "site"]
TABLE = pa.table({name: [row[j] for row in ROWS] for j, name in enumerate(NAMES)})


def pieces(cuts: Cuts) -> list[pa.Table]:
    edges = [0, *sorted(cuts), N]
    return [TABLE[start:stop] for start, stop in pairwise(edges)]


def parquet_files(folder: Path, cuts: Cuts, group: int) -> Any:
    for n, piece in enumerate(pieces(cuts)):
        pq.write_table(piece, folder / f"part-{n}.parquet", row_group_size=group)
    return folder


def text_files(folder: Path, cuts: Cuts, group: int) -> Any:
    for n, piece in enumerate(pieces(cuts)):
        piece.to_pandas().to_csv(folder / f"part-{n}.csv", index=False)
    return folder


def tables(folder: Path, cuts: Cuts, group: int) -> Any:
    return iter(pieces(cuts))


def chunked(folder: Path, cuts: Cuts, group: int) -> Any:
    return pa.concat_tables(pieces(cuts))


def reader(folder: Path, cuts: Cuts, group: int) -> Any:
    return chunked(folder, cuts, group).to_reader(group)


def lazy(folder: Path, cuts: Cuts, group: int) -> Any:
    return pl.scan_parquet(f"{parquet_files(folder, cuts, group)}/*")


@settings(max_examples=8, deadline=None)
@given(
    cuts=st.lists(st.integers(0, N), max_size=5),
    group=st.integers(1, N),
    batch=st.integers(1, N),
    task=st.sampled_from([1, 300, 10**9]),
)
@pytest.mark.parametrize("make", [parquet_files, text_files, tables, chunked, reader, lazy])
def test_any_partition(make: Any, cuts: Cuts, group: int, batch: int, task: int) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.object(base, "_BATCH_ROWS", batch),
        patch.object(base, "TASK_BYTES", task),
        patch.object(base, "TASK_ROWS_PER_COLUMN", 0),
        patch.object(text, "TASK_BYTES", task),
    ):
        assert rows_of(make(Path(folder), cuts, group), NAMES[:-1]) == ROWS
