"""Rows of a table in memory as a source that is read in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from invariance.data.record_batches import RowSource, RowTask


@dataclass(frozen=True)
class _Part(RowTask):
    table: pa.Table
    asked: list[tuple[str, ...]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.asked.append(tuple(columns))
        yield from self.table.select(list(columns)).to_batches(max_chunksize=1_000)


class TableSource(RowSource):
    """asked: the columns of each reading of a task"""

    name = "the table"

    def __init__(self, frame: pd.DataFrame, rows_of_a_task: int = 2_500) -> None:
        self.table, self.size = pa.Table.from_pandas(frame, preserve_index=False), rows_of_a_task
        self.asked: list[tuple[str, ...]] = []

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def tasks(self, environment: str, columns: Sequence[str]) -> list[RowTask]:
        starts = range(0, self.table.num_rows, self.size)
        return [_Part(self.table.slice(start, self.size), self.asked) for start in starts]

    @property
    def n_readings(self) -> int:
        return len(self.asked) // len(self.tasks("", ()))
