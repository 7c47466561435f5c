"""Whatever holds rows, recognised: files, tables in memory, queries and streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._tools.parallel import free_bytes
from ..exceptions import DataError, Message, SettingError, use
from .checks import NO_ROWS, check_unique
from .record_batches import RowSource, RowTask, agreed, named_once, of_series, rows_per_batch, rows_per_task, type_of
from .settings import FileFormat
from .source_files import file_source

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# What makes batches of about so many rows, with these columns in any order
Reader = Callable[[Sequence[str], int], Iterable[Any]]

_CAN_BE_PASSED = (
    "pass files, a folder or a pattern such as 'data/*.parquet'; a table of pandas, polars or pyarrow; a query of "
    "polars, DuckDB or ibis; or an iterable of record batches or tables."
)
_CLUSTERS = {"dask": "Dask", "pyspark": "Spark"}


def source_of(
    rows: Any, *, words: Sequence[str] = (), warn_unnamed: bool = True, form: FileFormat | None = None, **stated: Any
) -> RowSource:
    """The rows of a path, pattern, folder or list of files, of a table, query, stream, or iterable of these.

    form : how files are written, or its fields as keywords; words : columns that are text in text files, whatever they
    look like; warn_unnamed : tell of columns of text files that have no name
    """
    if isinstance(rows, RowSource):
        return rows
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError("reading rows in pieces needs pyarrow: pip install 'invariance[parquet]'.") from error
    form = form or FileFormat(**stated)
    listed = rows if isinstance(rows, list | tuple) else [rows]
    if listed and all(isinstance(path, str | os.PathLike) for path in listed):
        return file_source(rows, form, words, warn_unnamed)
    option = next((name for name in (*stated, *FileFormat.__annotations__) if getattr(form, name)), None)
    if option is not None:
        raise SettingError(f"{option}= is for files, and rows are of type {type(rows).__name__}: leave it out.")
    source = _of_table(rows, "the table")
    if source is None and isinstance(rows, Iterable) and not isinstance(rows, bytes) and not hasattr(rows, "__array__"):
        return PiecesSource(rows, "the iterable")
    if source is None:
        raise _no_rows(rows, "the table")
    return source


def _of_table(rows: Any, name: str) -> RowSource | None:
    """Tables, queries and streams of Arrow; None for anything else."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    rows = nw.to_native(rows, pass_through=True)
    library, kind = type(rows).__module__.split(".")[0], type(rows).__name__
    if library in _CLUSTERS and kind == "DataFrame":
        what = f"the rows of a {_CLUSTERS[library]} data frame cannot be read again here"
        raise DataError(f"{what}: pass the files that it comes from, such as rows='data/*.parquet'.")
    if (library, kind) == ("polars", "LazyFrame"):
        return QuerySource(name, *_lazy_frame(rows, name))
    if (library, kind) == ("duckdb", "DuckDBPyRelation"):
        return QuerySource(name, *_duckdb(rows))
    if library == "ibis" and hasattr(rows, "to_pyarrow_batches"):
        schema = rows.schema().to_pyarrow()
        return QuerySource(name, schema, lambda columns, n: rows.select(*columns).to_pyarrow_batches(chunk_size=n))
    if isinstance(rows, Mapping):
        try:
            rows = pa.table({str(key): values for key, values in rows.items()})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{name} is a mapping that is no table: {' '.join(str(error).split())}.") from None
    elif hasattr(rows, "__arrow_c_array__") and not isinstance(rows, pa.Array):
        rows = pa.Table.from_batches([pa.record_batch(rows)])
    elif (library, kind) == ("polars", "DataFrame"):
        rows = rows.to_arrow()
    if isinstance(rows, pa.Table | pd.DataFrame):
        return TableSource(rows, name)
    if not hasattr(rows, "__arrow_c_stream__"):
        return None
    try:
        return PiecesSource(pa.RecordBatchReader.from_stream(rows), name)
    except pa.ArrowInvalid:  # a single column
        raise _no_rows(rows, name) from None


def _lazy_frame(frame: Any, name: str) -> tuple[pa.Schema, Reader]:
    import polars as pl
    import polars.selectors as cs

    if not hasattr(frame, "collect_batches"):
        raise DataError(f"this polars does not read {name} in batches: update it, or call .collect() on it first.")

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        # By name and not as text, of which "^x.*$" is a pattern.
        chosen = frame.select(cs.by_name(*columns))
        for piece in chosen.collect_batches(chunk_size=rows, maintain_order=True):
            yield from piece.to_arrow().to_batches()

    return pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema, read


def _duckdb(relation: Any) -> tuple[pa.Schema, Reader]:
    import duckdb
    import pyarrow as pa

    def read(columns: Sequence[str], rows: int) -> Iterable[pa.RecordBatch]:
        chosen = relation.select(*map(duckdb.ColumnExpression, columns))
        read_in = "to_arrow_reader" if hasattr(chosen, "to_arrow_reader") else "fetch_record_batch"
        return getattr(chosen, read_in)(rows)

    return pa.RecordBatchReader.from_stream(relation.limit(0)).schema, read


def _no_rows(rows: Any, name: str) -> DataError:
    return DataError(f"{name} cannot be read from the type {type(rows).__name__}: {_CAN_BE_PASSED}")


@dataclass(frozen=True)
class ReaderTask(RowTask):
    """All rows that are read. It can be pickled only where what reads them can be."""

    read: Reader

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = rows_per_batch(len(columns))
        for batch in self.read(columns, rows):
            chosen = batch.select(list(columns))
            yield from (chosen.slice(start, rows) for start in range(0, chosen.num_rows, rows))


class QuerySource(RowSource):
    """A query, which computes only the columns that are asked for."""

    def __init__(self, name: str, schema: pa.Schema, read: Reader) -> None:
        self.name, self.schema, self._read = name, named_once(schema, name), read

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [ReaderTask(self._read)]


class PiecesSource(RowSource):
    """Batches, tables or data frames to iterate over."""

    def __init__(self, pieces: Iterable[Any], name: str) -> None:
        self.name, self._pieces = name, pieces
        self._waiting: Iterator[Any] | None = iter(pieces)
        self.rereadable = self._waiting is not pieces

    @cached_property
    def schema(self) -> pa.Schema:
        stated = getattr(self._pieces, "schema", None)
        if stated is not None:
            return named_once(stated, self.name)
        pieces = self._start()
        first = next(pieces, None)
        if first is None:
            raise DataError(f"{self.name} is empty: pass one piece or more, with rows.")
        self._waiting = chain([first], pieces)
        return self._source(first, 1).schema

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [ReaderTask(self._read)]

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for n, piece in enumerate(self._start(), 1):
            source = self._source(piece, n)
            schema = agreed(schema, source.schema, source.name, f"piece 1 of {self.name}")
            for task in source.tasks(columns[0], columns):
                yield from task.batches(columns)

    def _source(self, piece: Any, n: int) -> RowSource:
        name = f"piece {n} of {self.name}"
        source = _of_table(piece, name)
        if source is None:
            raise _no_rows(piece, name)
        return source

    def _start(self) -> Iterator[Any]:
        if self._waiting is None and not self.rereadable:
            raise DataError(f"{self.name} can be read only once, and has been: pass a list or a file.")
        pieces, self._waiting = self._waiting or iter(self._pieces), None
        return pieces


class TableSource(RowSource):
    """A table of pandas or pyarrow"""

    def __init__(self, table: Any, name: str) -> None:
        import pandas as pd

        if isinstance(table, pd.DataFrame):
            table = table.set_axis(list(map(str, table.columns)), axis=1)
        check_unique(list(getattr(table, "column_names", table.columns)), name)
        self.name, self._table, self.n_rows = name, table, len(table)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of a data frame of pandas with types as the first rows show them."""
        import pyarrow as pa

        if isinstance(self._table, pa.Table):
            return named_once(self._table.schema, self.name)
        first = self._table.iloc[: rows_per_batch(self._table.shape[1])]
        return pa.schema([(name, type_of(first[name], self.name)) for name in first.columns])

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        names = list(dict.fromkeys([*columns, environment]))
        table, rows = self._arrow(names), rows_per_task(len(names))
        pieces = (table[start : start + rows] for start in range(0, self.n_rows, rows))
        return [ReaderTask(lambda columns, n, piece=piece: piece.to_batches(max_chunksize=n)) for piece in pieces]

    def _arrow(self, names: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        if isinstance(self._table, pa.Table):
            return self._table.select(names)
        return pa.table({name: of_series(self._table[name], name, self.name) for name in names})


def frame_of(source: RowSource, environment: str, columns: Sequence[str]) -> pd.DataFrame:
    """These columns, and that of the environments, whose labels are as they would be of one file."""
    import pandas as pd

    def series(name: str, array: pa.Array) -> pd.Series[Any]:
        array = array.dictionary_decode() if hasattr(array, "dictionary") else array
        return pd.Series(array.to_pylist(), dtype=object) if name == environment else array.to_pandas()

    pieces = [
        pd.DataFrame({name: series(name, array) for name, array in zip(batch.schema.names, batch.columns, strict=True)})
        for task in source.tasks(environment, columns)
        for batch in task.batches([*columns, environment])
    ]
    if not pieces:
        raise DataError(NO_ROWS)
    return pd.concat(pieces, ignore_index=True)


# ---------------------------------------------------------------- memory

# What is read is there once more as it is fitted, and twice while it is.
_COPIES = 3


def crowded(
    source: RowSource, environment: str, columns: Sequence[str], needed_for: str, moments_do: bool
) -> Message | None:
    """Why the rows cannot all be fitted, as far as the first ones show, with what to do about it; None where they can.

    environment : the column of labels; needed_for : what needs them, for the sentence; moments_do : whether a Gaussian
    model would do instead
    """
    tasks = source.tasks(environment, columns)
    batch = next((batch for task in tasks for batch in task.batches(list(columns)) if batch.num_rows), None)
    free, n_rows = free_bytes(), source.about_rows or 0
    row_bytes = 0.0 if batch is None else _COPIES * batch.nbytes / batch.num_rows
    if free is None or row_bytes * n_rows <= free:
        return None
    what = (
        f"{needed_for} needs all rows in memory: about {n_rows:,} rows take {row_bytes * n_rows / 1e9:.2g} GB, and "
        f"{free / 1e9:.2g} GB are free. About {free / row_bytes:,.0f} rows fit: draw so many from every environment, "
        "or leave out columns"
    )
    return Message(what, use(" (reads any number)", family="linear_gaussian")) if moments_do else Message(f"{what}.")
