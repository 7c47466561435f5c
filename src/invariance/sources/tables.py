"""Tables that are in memory already: of pandas, polars or pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..data.checks import check_unique
from ..exceptions import DataError
from .base import RowSource, RowTask, rows_per_batch, rows_per_task
from .columns import named_once, of_series, type_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class ArrowTask(RowTask):
    table: Any  # of polars or pyarrow

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = self.table[list(columns)] if hasattr(self.table, "to_arrow") else self.table.select(list(columns))
        table = table.to_arrow() if hasattr(table, "to_arrow") else table
        yield from table.to_batches(max_chunksize=rows_per_batch(len(columns)))


@dataclass(frozen=True)
class PandasTask(RowTask):
    frame: pd.DataFrame
    name: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = rows_per_batch(len(columns))
        for start in range(0, len(self.frame), rows):
            piece = self.frame.iloc[start : start + rows]
            arrays = [of_series(piece[name], name, self.name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class ArrowSource(RowSource):
    def __init__(self, table: Any, name: str) -> None:
        self.name, self._table = name, table
        empty = table.slice(0, 0)
        self._schema = named_once((empty.to_arrow() if hasattr(empty, "to_arrow") else empty).schema, name)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def n_rows(self) -> int:
        return len(self._table)

    @property
    def n_bytes(self) -> int:
        table = self._table
        return int(table.estimated_size() if hasattr(table, "estimated_size") else table.nbytes)

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        rows = rows_per_task(len({*columns, environment}))
        return [ArrowTask(self._table.slice(start, rows)) for start in range(0, len(self._table), rows)]


class PandasSource(RowSource):
    def __init__(self, frame: pd.DataFrame, name: str) -> None:
        self.name, self._frame = name, frame.set_axis(list(map(str, frame.columns)), axis=1)
        check_unique(list(self._frame.columns), name)

    @cached_property
    def schema(self) -> pa.Schema:
        """With types as the first rows show them."""
        import pyarrow as pa

        first = self._frame.iloc[: rows_per_batch(self._frame.shape[1])]
        return pa.schema([(name, type_of(first[name], self.name)) for name in first.columns])

    @property
    def n_rows(self) -> int:
        return len(self._frame)

    @property
    def n_bytes(self) -> int:
        return int(self._frame.memory_usage(index=False).sum())

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        rows = rows_per_task(len({*columns, environment}))
        starts = range(0, len(self._frame), rows)
        return [PandasTask(self._frame.iloc[start : start + rows], self.name) for start in starts]


def table_source(table: Any, name: str) -> RowSource | None:
    """None where it is no table in memory."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(table, pd.DataFrame):
        return PandasSource(table, name)
    if isinstance(table, Mapping):
        return ArrowSource(_of_mapping(table, name), name)
    if hasattr(table, "__arrow_c_array__") and not isinstance(table, pa.Array):
        return ArrowSource(pa.Table.from_batches([pa.record_batch(table)]), name)
    library, kind = type(table).__module__.split(".")[0], type(table).__name__
    return ArrowSource(table, name) if (library, kind) in (("polars", "DataFrame"), ("pyarrow", "Table")) else None


def _of_mapping(columns: Mapping[Any, Any], name: str) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.table({str(key): values for key, values in columns.items()})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"{name} is a mapping that is no table: {' '.join(str(error).split())}. Give each column a list of values "
            "of one type, all of the same length."
        ) from None
