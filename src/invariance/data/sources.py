"""Whatever holds rows, recognised."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._tools.parallel import free_bytes
from ..exceptions import DataError, SettingError
from .checks import check_unique
from .columns import MOST_LEVELS
from .missing import NO_ROWS
from .reading import PARQUET, NumberForm
from .record_batches import (
    TEXT,
    Agreement,
    RowSource,
    RowTask,
    in_pieces,
    kind_of,
    named_once,
    of_series,
    rows_per_batch,
    rows_per_task,
    type_of,
)
from .source_files import ParquetSource, TextSource, parts_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class StreamTask(RowTask):
    """All rows. It can be pickled only where what is read can be."""

    source: StreamSource

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = rows_per_batch(len(columns))
        for batch in self.source.read(columns, rows):
            yield from in_pieces(batch.select(list(columns)), rows)


class StreamSource(RowSource):
    """One reader from the first row to the last."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Batches with these columns, in any order; `rows` is the size that is wished for."""

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [StreamTask(self)]


class DuckDBSource(StreamSource):
    """A relation of DuckDB, which computes only the columns that are asked for."""

    def __init__(self, relation: Any, name: str) -> None:
        self.name, self._relation = name, relation

    @cached_property
    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return named_once(pa.RecordBatchReader.from_stream(self._relation.limit(0)).schema, self.name)

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import duckdb

        chosen = self._relation.select(*map(duckdb.ColumnExpression, columns))
        older_name = "fetch_record_batch"
        read = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else getattr(chosen, older_name)
        yield from read(rows)


class IbisSource(StreamSource):
    """A table expression of ibis"""

    def __init__(self, expression: Any, name: str) -> None:
        self.name, self._expression = name, expression

    @cached_property
    def schema(self) -> pa.Schema:
        return named_once(self._expression.schema().to_pyarrow(), self.name)

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self._expression.select(*columns).to_pyarrow_batches(chunk_size=rows)


class PiecesSource(StreamSource):
    """Batches, tables or data frames to iterate over.

    recognise : what makes a source of a piece, and says what is wrong where it cannot
    """

    reuses_memory = True

    def __init__(self, pieces: Iterable[Any], name: str, recognise: Callable[[Any, str], RowSource]) -> None:
        self.name, self._pieces, self._recognise = name, pieces, recognise
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

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        agreement = Agreement(self.schema, self._called(1))
        for n, piece in enumerate(self._start(), 1):
            source = self._source(piece, n)
            agreement.check(source.schema, self._called(n))
            for task in source.tasks(columns[0], columns):
                yield from task.batches(columns)

    def _source(self, piece: Any, n: int) -> RowSource:
        return self._recognise(piece, self._called(n))

    def _called(self, n: int) -> str:
        return f"piece {n} of {self.name}"

    def _start(self) -> Iterator[Any]:
        if self._waiting is None and not self.rereadable:
            raise DataError(
                f"{self.name} has been read, and can be read only once: make it again, or pass a list or a file, which "
                "can be read twice."
            )
        pieces, self._waiting = self._waiting or iter(self._pieces), None
        return pieces


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


class LazySource(StreamSource):
    def __init__(self, frame: Any, name: str) -> None:
        if not hasattr(frame, "collect_batches"):
            raise DataError(f"this polars does not read {name} in batches: update it, or call .collect() on it first.")
        self.name, self._frame = name, frame

    @cached_property
    def schema(self) -> pa.Schema:
        import polars as pl

        return named_once(pl.DataFrame(schema=self._frame.collect_schema()).to_arrow().schema, self.name)

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import polars.selectors as cs

        # By name and not as text, of which "^x.*$" is a pattern.
        chosen = self._frame.select(cs.by_name(*columns))
        for piece in chosen.collect_batches(chunk_size=rows, maintain_order=True):
            yield from piece.to_arrow().to_batches()


_CAN_BE_PASSED = (
    "pass a path, a pattern such as 'data/*.parquet', a folder or a list of files; a pandas, polars or pyarrow table, "
    "a polars LazyFrame, a DuckDB relation or an ibis table; or a reader of record batches, or any iterable of "
    "batches or data frames."
)

_CLUSTERS = {"dask": "Dask", "pyspark": "Spark"}


def source_of(
    rows: Any,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Sequence[str] = (),
    thousands: str | None = None,
    words: Sequence[str] = (),
    warn_unnamed: bool = True,
) -> RowSource:
    """The rows of a path, pattern, folder or list of files, of a table, query, stream, or iterable of these.

    ``sep`` to ``thousands`` say how files are written, as in ``read_table``. ``words`` names columns that are text in
    text files, whatever they look like. ``warn_unnamed``: tell of columns of text files that have no name.
    """
    if isinstance(rows, RowSource):
        return rows
    _check_pyarrow()
    form = {"sep": sep, "decimal": decimal, "encoding": encoding, "sheet": sheet, "na": tuple(na)}
    form["thousands"] = thousands
    listed = list(rows) if isinstance(rows, list | tuple) else [rows]
    if listed and all(isinstance(path, str | os.PathLike) for path in listed):
        return _of_files(rows, form, words, warn_unnamed)
    for option, value in form.items():
        if value:
            raise SettingError(f"{option}={value!r} is for files, which {_article(rows)} is not: leave it out.")
    _refuse_cluster_frame(rows)
    source = _of_table(rows, "the table")
    if source is not None:
        return source
    if hasattr(rows, "__arrow_c_stream__"):
        return PiecesSource(_reader(rows), "the stream", _of_piece)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes) and not hasattr(rows, "__array__"):
        return PiecesSource(rows, "the iterable", _of_piece)
    raise _no_rows(rows)


def _check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            "rows that stay where they are need pyarrow: install it with pip install 'invariance[parquet]'."
        ) from error


def _refuse_cluster_frame(rows: Any) -> None:
    """What `Moments.from_rows` lets a cluster read is read here by nobody."""
    import narwhals as nw

    kind = type(nw.to_native(rows, pass_through=True))
    library = _CLUSTERS.get(kind.__module__.split(".")[0])
    if library is not None and kind.__name__ == "DataFrame":
        raise DataError(
            f"the rows of a {library} data frame cannot be read again here: pass the files that it comes from, such as "
            "rows='data/*.parquet', or leave rows= out."
        )


def _of_files(paths: Any, form: dict[str, Any], words: Sequence[str], warn_unnamed: bool) -> RowSource:
    files = parts_of(paths, **form)
    first, name = files[0], files[0].name
    if len(files) > 1:
        name = repr(os.fspath(paths)) if isinstance(paths, str | os.PathLike) else f"the list of {len(files)} files"
    if first.kind == PARQUET and first.numbers == NumberForm("."):
        return ParquetSource(name, files)
    return TextSource(name, files, words, warn_unnamed)


def _of_table(rows: Any, name: str) -> RowSource | None:
    """What can be read again and again, and is no file."""
    import narwhals as nw

    rows = nw.to_native(rows, pass_through=True)
    library, kind = type(rows).__module__.split(".")[0], type(rows).__name__
    if library == "polars" and kind == "LazyFrame":
        return LazySource(rows, name)
    if library == "duckdb" and kind == "DuckDBPyRelation":
        return DuckDBSource(rows, name)
    if library == "ibis" and hasattr(rows, "to_pyarrow_batches"):
        return IbisSource(rows, name)
    return table_source(rows, name)


def _of_piece(piece: Any, name: str) -> RowSource:
    source = _of_table(piece, name)
    if source is None and hasattr(piece, "__arrow_c_stream__"):
        return PiecesSource(_reader(piece), name, _of_piece)
    if source is None:
        raise DataError(f"{name} is {_article(piece)}, not a record batch, table or data frame: {_CAN_BE_PASSED}")
    return source


def _reader(stream: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(stream)
    except pa.ArrowInvalid:  # a single column
        raise _no_rows(stream) from None


def _no_rows(rows: Any) -> DataError:
    return DataError(f"rows cannot be read from {_article(rows)}: {_CAN_BE_PASSED}")


def _article(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def frame_of(source: RowSource, environment: str, columns: Sequence[str]) -> pd.DataFrame:
    """These columns, and that of the environments, whose labels are as they would be of one file."""
    import pandas as pd

    pieces = [
        pd.DataFrame(
            {name: _labels(values) if name == environment else values.to_pandas() for name, values in _columns(batch)}
        )
        for task in source.tasks(environment, columns)
        for batch in task.batches([*columns, environment])
    ]
    if not pieces:
        raise DataError(NO_ROWS)
    return pd.concat(pieces, ignore_index=True)


def _columns(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    import pyarrow as pa

    decoded = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) and not _mixed(column) else column
        for column in batch.columns
    ]
    return list(zip(batch.schema.names, decoded, strict=True))


def _mixed(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_union(column.type.value_type))


def _labels(values: pa.Array) -> pd.Series[Any]:
    import pandas as pd
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        return pd.Series(values.to_pylist(), dtype=object)
    found = [*values.dictionary.to_pylist(), None]
    return pd.Series([found[code] for code in values.indices.fill_null(len(found) - 1).to_pylist()], dtype=object)


_NUMBER = 8  # bytes
# Numbers of a row are there as they are fitted, and once more while they are.
_COPIES = 2
_GIGABYTE, _MEGABYTE = 1e9, 1e6
_FEW = 0.1


@dataclass(frozen=True)
class RowSize:
    """Of a table: n_columns as they are read, n_fitted with one for each level instead of words; text : bytes of the
    words of a row"""

    n_columns: int
    n_fitted: int
    text: float = 0.0

    @classmethod
    def of_numbers(cls, n_columns: int) -> RowSize:
        return cls(n_columns, n_columns)

    @property
    def n_bytes(self) -> float:
        """What a row takes while it is read and fitted"""
        return _NUMBER * (self.n_columns + _COPIES * self.n_fitted) + self.text

    def __str__(self) -> str:
        made = "" if self.n_fitted == self.n_columns else f", which levels make {self.n_fitted:,},"
        return f"{self.n_columns:,} columns{made}"


def rows_that_fit(
    n_rows: int,
    size: RowSize,
    needed_for: str = "this model",
    free: int | None = None,
    moments_do: bool = True,
    counted: bool = True,
) -> str | None:
    """Why so many rows cannot all be fitted, with what to do about it; None where they can, or memory is not known.

    needed_for : what needs them, for the sentence; free : bytes, by default what can be had now; moments_do : whether
    a Gaussian model would do instead; counted : whether n_rows is exact
    """
    free = free_bytes() if free is None else free
    needed = size.n_bytes * n_rows
    if free is None or needed <= free:
        return None
    fitting = _rounded_down(int(free / size.n_bytes))
    rows = f"{n_rows:,}" if counted else f"about {_rounded_down(n_rows):,}"
    instead = " A linear Gaussian model needs no rows in memory: family='linear_gaussian' reads any number of them."
    return (
        f"{needed_for} needs all rows in memory: {rows} rows of {size} take {_in_words(needed, 'about ')}, and "
        f"{_in_words(free)} are free. About {fitting:,} rows fit: draw so many by chance from every environment, leave "
        f"out columns, or use a computer with more memory.{instead * moments_do}"
    )


def _in_words(n_bytes: float, about: str = "") -> str:
    if n_bytes < _FEW * _MEGABYTE:
        return f"less than {_FEW} MB"
    unit, name = (_GIGABYTE, "GB") if n_bytes >= _FEW * _GIGABYTE else (_MEGABYTE, "MB")
    return f"{about}{n_bytes / unit:.1f} {name}"


def _rounded_down(count: int) -> int:
    """To two digits, so that nobody takes it for exact."""
    unit = 10 ** max(len(str(count)) - 2, 0)
    return count // unit * unit


def row_size(source: RowSource, environment: str, columns: Sequence[str], with_levels: bool = True) -> RowSize:
    """Of these columns; with_levels : each level of words but one is a column. environment : the column of labels"""
    tasks = source.tasks(environment, columns)
    batch = next((batch for task in tasks for batch in task.batches(list(columns)) if batch.num_rows), None)
    if batch is None:
        return RowSize.of_numbers(len(columns))
    words = [array for array in batch.columns if kind_of(array.type) == TEXT]
    made = sum(map(_n_made, words)) if with_levels else len(words)
    text = sum(array.nbytes for array in words) / batch.num_rows
    return RowSize(len(columns), len(columns) - len(words) + made, text)


def _n_made(words: pa.Array) -> int:
    """Columns that stand for levels; one where these are too many to be a feature"""
    levels = len(words.unique().drop_null())
    return 1 if levels > MOST_LEVELS * len(words) else max(levels - 1, 1)
