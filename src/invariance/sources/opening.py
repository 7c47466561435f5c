"""Whatever holds rows, recognised."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from ..data.number_text import NumberForm
from ..data.table_file import PARQUET
from ..exceptions import DataError, SettingError
from .base import RowSource
from .folders import parts_of
from .lazy_frames import LazySource
from .parquet import ParquetSource
from .streams import DuckDBSource, IbisSource, PiecesSource
from .tables import table_source
from .text import TextSource

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
