"""Whatever holds rows, read as Arrow record batches: files and folders, tables in memory, queries
and streams."""

from __future__ import annotations

import glob
import gzip
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from .._tools.arrays import Fields
from .._tools.parallel import free_bytes
from ..exceptions import DataError, DataWarning, Message, SettingError, use
from .checks import NO_ROWS, check_unique, quoted
from .columns import LARGEST_WHOLE, dense
from .reading import (
    AS_PYTHON,
    PARQUET,
    PathLike,
    TableFile,
    clear_errors,
    column_names,
    iter_columns,
    named_once,
    reads_as_number,
    steps_of,
)
from .reading import TEXT as TEXT_FILE
from .settings import FileFormat
from .weights import COPIES_IN_MEMORY

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TASK_BYTES = 64 << 20  # of the rows of a task, as float64
# For each column: products of all columns are a task's result, and must not cost as much as its
# rows.
TASK_ROWS_PER_COLUMN = 32
_BATCH_CELLS = 1 << 22
_BATCH_ROWS = 1 << 16
TEXT = "text"
# What Hive, Spark and others write for a missing label.
_NO_LABEL = "__HIVE_DEFAULT_PARTITION__"
# Pages come through a buffer of this size: without one, whole column chunks are fetched, of
# millions of rows each.
_BUFFER = 1 << 16
_COUNTED_BYTES = 1 << 19  # bytes
# What makes batches of about so many rows, with these columns in any order
Reader = Callable[[Sequence[str], int], Iterable[Any]]


def rows_per_batch(n_columns: int) -> int:
    """32 MB as float64, and no more rows than pay."""
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, n_columns)))


def rows_per_task(n_columns: int) -> int:
    return max(TASK_BYTES // (8 * max(1, n_columns)), TASK_ROWS_PER_COLUMN * n_columns, 1)


@dataclass(frozen=True)
class RowTask:
    """Some of the rows of a source, read by one thread, process or worker. It can be pickled where
    its readers can."""

    readers: tuple[Reader, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns in this order."""
        rows = rows_per_batch(len(columns))
        for batch in (batch for read in self.readers for batch in read(columns, rows)):
            chosen = batch.select(list(columns))
            yield from (chosen.slice(start, rows) for start in range(0, chosen.num_rows, rows))


class RowSource(ABC):
    """name : what messages call it; schema : all columns; rereadable : whether the rows can be read
    a second time
    about_rows : how many, as far as it is known without reading them
    The tasks, in their order, have all rows. Neither they nor the order depend on who will read
    them: so results are the same, to the last bit, for any number of workers."""

    name: str
    schema: pa.Schema
    about_rows: int | None = None
    rereadable: bool = True

    @abstractmethod
    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        """Pieces of the rows, of which these columns, and that of the environments, will be asked
        for."""


def kind_of(kind: pa.DataType) -> str | None:
    """What a column holds, in words; None where it has no values. Columns of the same kind may
    differ in type."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_null(kind):
        return None
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_boolean(kind):
        return "true and false"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return TEXT if is_text else str(kind)


def agreed(known: pa.Schema, found: pa.Schema, where: str, first: str) -> pa.Schema:
    """The columns of the pieces so far, of which each piece has all, in any order and of the same
    kind; of a type that
    is not known yet, that of the next piece, `where`. first : the first piece"""
    import pyarrow as pa

    if found.equals(known):
        return known
    check_same_columns(found.names, known.names, where, first)
    fields = []
    for field in known:
        other = found.field(field.name)
        before = kind_of(field.type)
        kind = kind_of(other.type)
        if before is None:
            field = other
        elif kind not in (before, None):
            raise DataError(
                f"column {field.name!r} holds {kind} in {where}, and {before} in "
                "pieces before it: write it in the same type everywhere."
            )
        fields.append(field)
    return pa.schema(fields)


def check_same_columns(
    names: Sequence[str], first: Sequence[str], where: str, first_where: str
) -> None:
    other = sorted(set(names) ^ set(first))
    if other:
        raise DataError(
            f"{where} and {first_where} differ in the column {quoted(other)}: all pieces need the "
            "same."
        )


def label_array(column: pd.Series) -> pa.DictionaryArray:
    """Labels, each of its own type: 1, 2.5 and "a" may stand in one column."""
    import pandas as pd
    import pyarrow as pa

    codes, found = pd.factorize(column)
    values = found.tolist()
    kinds = list(dict.fromkeys(map(type, values)))
    if len(kinds) < 2:
        distinct = pa.array(values, from_pandas=True)
    else:
        children = [
            pa.array([value if type(value) is kind else None for value in values]) for kind in kinds
        ]
        places = pa.array([kinds.index(type(value)) for value in values], pa.int8())
        distinct = pa.UnionArray.from_sparse(places, children)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), distinct
    )


def of_series(column: pd.Series, name: str, where: str) -> pa.Array:
    """A column of pandas; a missing value is null. Categories keep their order, as in tables that
    are read at once."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.as_ordered()
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.astype(object).map(str, na_action="ignore")
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        present = column.dropna()
        example = next((value for value in present if isinstance(value, str)), present.iloc[0])
        raise DataError(
            (
                f"column {name!r} of {where} holds values of several or unknown types (for "
                f"example {example!r}); write them as text, or leave them out"
            ),
            use(exclude=[name]),
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def schema_of(frame: pd.DataFrame, where: str) -> pa.Schema:
    """Types as far as values show them; that of text where they are of several types."""
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {}
    for name, column in frame.items():
        kinds[str(name)] = pa.string()
        with suppress(DataError):
            array = of_series(column, str(name), where)
            kinds[str(name)] = array.type if array.null_count < len(array) else pa.null()
    return pa.schema(kinds)


def source_of(
    rows: Any,
    *,
    words: Sequence[str] = (),
    warn_unnamed: bool = True,
    form: FileFormat | None = None,
    **stated: Any,
) -> RowSource:
    """The rows of a path, pattern, folder or list of files, of a table, query, stream, or iterable
    of these.
    form : how files are written, or its fields as keywords; words : columns that are text in text
        files, whatever they
    look like; warn_unnamed : tell of columns of text files that have no name"""
    if isinstance(rows, RowSource):
        return rows
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            "reading rows in pieces needs pyarrow: pip install 'invariant-prediction[parquet]'."
        ) from error
    form = form or FileFormat(**stated)
    listed = rows if isinstance(rows, list | tuple) else [rows]
    if listed and all(isinstance(path, str | os.PathLike) for path in listed):
        files = table_files(rows, form)
        name = files[0].name
        if len(files) > 1:
            name = f"the list of {len(files)} files" if listed is rows else repr(os.fspath(rows))
        if files[0].kind == PARQUET and files[0].numbers == AS_PYTHON:
            return ParquetSource(name, files)
        return TextSource(name, files, words, warn_unnamed)
    for option in (*stated, *FileFormat.__annotations__):
        if not getattr(form, option):
            continue
        raise SettingError(
            f"{option}= is for files, and rows are of type {type(rows).__name__}: leave it out."
        )
    return _of_table(rows, "the table", iterable=True)


def _of_table(rows: Any, name: str, iterable: bool = False) -> RowSource:
    """Tables, queries and streams of Arrow, and an iterable of these where it may be one."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    rows = nw.to_native(rows, pass_through=True)
    library = type(rows).__module__.split(".")[0]
    kind = library, type(rows).__name__
    if kind == ("polars", "LazyFrame"):
        return QuerySource(name, *_lazy_frame(rows, name))
    if kind == ("duckdb", "DuckDBPyRelation"):
        return QuerySource(name, *_duckdb(rows))
    if library == "ibis" and hasattr(rows, "to_pyarrow_batches"):
        schema = rows.schema().to_pyarrow()
        return QuerySource(
            name, schema, lambda columns, n: rows.select(*columns).to_pyarrow_batches(chunk_size=n)
        )
    if hasattr(rows, "__arrow_c_array__") and not isinstance(rows, pa.Array):
        rows = pa.Table.from_batches([pa.record_batch(rows)])
    elif kind == ("polars", "DataFrame"):
        rows = rows.to_arrow()
    if isinstance(rows, pa.Table | pd.DataFrame):
        return TableSource(rows, name)
    single = isinstance(rows, Mapping | bytes) or hasattr(rows, "__array__")
    if hasattr(rows, "__arrow_c_stream__"):
        with suppress(pa.ArrowInvalid):  # a single column
            return PiecesSource(pa.RecordBatchReader.from_stream(rows), name)
    elif iterable and isinstance(rows, Iterable) and not single:
        return PiecesSource(rows, "the iterable")
    raise DataError(
        f"{name} cannot be read from the type {type(rows).__name__}: pass files, a folder, "
        "a pattern, a table, a query, or an iterable of tables."
    )


def _lazy_frame(frame: Any, name: str) -> tuple[pa.Schema, Reader]:
    import polars as pl
    import polars.selectors as cs

    if not hasattr(frame, "collect_batches"):
        raise DataError(
            f"this polars does not read {name} in batches: update it, or call .collect() on it "
            "first."
        )

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        # By name and not as text, of which "^x.*$" is a pattern.
        for piece in frame.select(cs.by_name(*columns)).collect_batches(
            chunk_size=rows, maintain_order=True
        ):
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


class QuerySource(RowSource):
    """A query, which computes only the columns that are asked for."""

    def __init__(self, name: str, schema: pa.Schema, read: Reader) -> None:
        self.name, self.schema, self._read = name, named_once(schema, name), read

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [RowTask((self._read,))]


class PiecesSource(RowSource):
    """Batches, tables or data frames to iterate over."""

    def __init__(self, pieces: Iterable[Any], name: str) -> None:
        self.name = name
        self._pieces = pieces
        self._read_before = False
        self.rereadable = iter(pieces) is not pieces

    @cached_property
    def schema(self) -> pa.Schema:
        stated = getattr(self._pieces, "schema", None)
        if stated is not None:
            return named_once(stated, self.name)
        pieces = iter(self._pieces)
        first = next(pieces, None)
        if first is None:
            raise DataError(f"{self.name} is empty: pass one piece or more, with rows.")
        if not self.rereadable:
            self._pieces = chain([first], pieces)
        return self._source(first, 1).schema

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [RowTask((self._read,))]

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        if self._read_before and not self.rereadable:
            raise DataError(
                f"{self.name} can be read only once, and has been: pass a list or a file."
            )
        self._read_before = True
        for n, piece in enumerate(self._pieces, 1):
            source = self._source(piece, n)
            schema = agreed(schema, source.schema, source.name, f"piece 1 of {self.name}")
            for task in source.tasks(columns[0], columns):
                yield from task.batches(columns)

    def _source(self, piece: Any, n: int) -> RowSource:
        return _of_table(piece, f"piece {n} of {self.name}")


def _batches_of(table: pa.Table, columns: Sequence[str], rows: int) -> list[pa.RecordBatch]:
    return table.to_batches(max_chunksize=rows)


class TableSource(RowSource):
    """A table of pandas or pyarrow"""

    def __init__(self, table: Any, name: str) -> None:
        import pandas as pd

        if isinstance(table, pd.DataFrame):
            table = dense(table, name).set_axis(list(map(str, table.columns)), axis=1)
        check_unique(list(getattr(table, "column_names", table.columns)), name)
        self.name, self._table, self.about_rows = name, table, len(table)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of a data frame of pandas with types as the first rows show them."""
        import pyarrow as pa

        if isinstance(self._table, pa.Table):
            return named_once(self._table.schema, self.name)
        return schema_of(self._table.iloc[: rows_per_batch(self._table.shape[1])], self.name)

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        import pyarrow as pa

        names = list(dict.fromkeys([*columns, environment]))
        table = self._table
        rows = rows_per_task(len(names))
        if isinstance(table, pa.Table):
            table = table.select(names)
        else:
            table = pa.table({name: of_series(table[name], name, self.name) for name in names})
        if pa.types.is_nested(table.schema.field(environment).type):
            raise DataError(
                f"environment column {environment!r} holds tuples or lists: use text or numbers "
                "as labels."
            )
        pieces = (table[start : start + rows] for start in range(0, len(table), rows))
        return [RowTask((partial(_batches_of, piece),)) for piece in pieces]


def frame_of(source: RowSource, environment: str, columns: Sequence[str]) -> pd.DataFrame:
    """These columns, and that of the environments, whose labels are as they would be of one
    file."""
    import pandas as pd

    def series(name: str, array: pa.Array) -> pd.Series[Any]:
        array = array.dictionary_decode() if hasattr(array, "dictionary") else array
        return (
            pd.Series(array.to_pylist(), dtype=object) if name == environment else array.to_pandas()
        )

    pieces = [
        pd.DataFrame(
            {
                name: series(name, array)
                for name, array in zip(batch.schema.names, batch.columns, strict=True)
            }
        )
        for task in source.tasks(environment, columns)
        for batch in task.batches([*columns, environment])
    ]
    if not pieces:
        raise DataError(NO_ROWS)
    return pd.concat(pieces, ignore_index=True)


def crowded(
    source: RowSource, environment: str, columns: Sequence[str], needed_for: str, moments_do: bool
) -> Message | None:
    """Why the rows cannot all be fitted, as far as the first ones show; None where they can.
    needed_for : what needs them; moments_do : whether a Gaussian model would do instead"""
    tasks = source.tasks(environment, columns)
    batch = next(
        (batch for task in tasks for batch in task.batches(list(columns)) if batch.num_rows), None
    )
    free = free_bytes()
    n_rows = source.about_rows or 0
    row_bytes = 0.0 if batch is None else COPIES_IN_MEMORY * batch.nbytes / batch.num_rows
    if free is None or row_bytes * n_rows <= free:
        return None
    what = (
        f"{needed_for} needs all rows in memory: about {n_rows:,} rows take "
        f"{row_bytes * n_rows / 1e9:.2g} GB, and "
        f"{free / 1e9:.2g} GB are free. About {free / row_bytes:,.0f} rows fit: draw so many from "
        "every environment, "
        "or leave out columns"
    )
    return (
        Message(what, use(" (reads any number)", family="linear_gaussian"))
        if moments_do
        else Message(f"{what}.")
    )


# ---------------------------------------------------------------- files


def table_files(paths: PathLike | Sequence[PathLike], form: FileFormat) -> list[TableFile]:
    """The files, in the order of the list, those of a folder or pattern in natural order; with
    labels that stand in their paths below the folder that they share."""
    if isinstance(paths, TableFile):
        form = paths.form
        if paths.content is not None:
            return [paths]
    found = [_files(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    base = os.path.commonpath([folder for folder, _ in found])
    files = [TableFile(path, form) for _, listed in found for path in listed]
    _check_alike(files, base)
    if len(files) > 1:
        files = [replace(file, shown=str(file.path.relative_to(base))) for file in files]
    return _with_path_labels(files, base)


def _files(path: PathLike) -> tuple[Path, list[Path]]:
    """The folder in which labels begin, and the files."""
    if "://" in os.fspath(path):
        raise DataError(
            f"{os.fspath(path)!r} is no path on this machine: pass "
            f"pyarrow.dataset.dataset({os.fspath(path)!r}).scanner().to_reader()."
        )
    place = Path(os.path.abspath(os.path.expanduser(path)))
    if place.is_dir():
        base = place
        found = [place]
    elif place.exists() or not glob.has_magic(str(place)):
        return place.parent, [place]
    else:
        base = Path(
            *place.parts[: next(n for n, step in enumerate(place.parts) if glob.has_magic(step))]
        )
        matches = map(Path, glob.iglob(str(place), recursive=True))
        found = [match for match in matches if not any(map(_hidden, match.relative_to(base).parts))]
    files = {file for match in found for file in (_walk(match) if match.is_dir() else [match])}
    if not files:
        raise DataError(
            f"{os.fspath(path)!r} holds no files. Check the path and the working directory."
        )
    return base, sorted(sorted(files), key=_natural)


def _walk(folder: Path) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        raise DataError(
            f"the folder {error.filename!r} cannot be read: {error.strerror}. Check its "
            "permissions."
        )

    for place, folders, files in os.walk(folder, onerror=complain, followlinks=True):
        folders[:] = [name for name in folders if not _hidden(name)]
        yield from (Path(place, name) for name in files if not _hidden(name))


def _hidden(name: str) -> bool:
    """Spark's _SUCCESS, .crc files and the like; not the label of a column whose name begins with
    _."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _natural(path: Path) -> list[list[str | int]]:
    """part-2 before part-10"""
    return [
        [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", step)]
        for step in path.parts
    ]


def _check_alike(files: Sequence[TableFile], base: PathLike) -> None:
    """Raise where a file is named twice, or files are of several kinds."""
    seen: dict[str, Path] = {}
    examples: dict[str | None, str] = {}
    for file in files:
        first = seen.setdefault(os.path.realpath(file.path), file.path)
        if first is not file.path:
            raise DataError(
                f"{str(file.path)!r} is among the files twice, also as {str(first)!r}: name it "
                "once."
            )
        examples.setdefault(file.suffix, os.path.relpath(file.path, base))
    if len(examples) > 1:
        suffix = Counter(file.suffix for file in files if file.suffix).most_common(1)[0][0]
        alike = str(Path(base, "**", f"*{suffix}"))
        raise DataError(
            f"the files are of several kinds: {quoted(examples.values())}. Pass files such as "
            f"{alike!r}."
        )


def _number_or_text(text: str) -> int | float | str:
    """A number whose text this is: "01" stays text."""
    for kind in (int, float):
        with suppress(ValueError):
            if repr(kind(text)) == text:
                return kind(text)
    return text


def _with_path_labels(files: Sequence[TableFile], base: PathLike) -> list[TableFile]:
    """With the labels `site=A` of the folders below the base: numbers where all of a name are, else
    text, as codes."""
    import pyarrow as pa

    written: list[dict[str, str | None]] = []
    for file in files:
        steps = [step.partition("=") for step in file.path.relative_to(base).parts[:-1]]
        pairs = [(unquote(name), unquote(value)) for name, sign, value in steps if name and sign]
        written.append(
            {name: None if value in (_NO_LABEL, *file.form.na) else value for name, value in pairs}
        )
        names = [name for name, _ in pairs]
        if sorted(names) != sorted(written[0]):
            lists = " and not ".join(quoted(each) or "none" for each in (names, written[0]))
            raise DataError(
                f"the folders of {file.name} give it the labels {lists}: all files need the "
                "same, once each."
            )
    labels_of: list[dict[str, tuple[Any, Any]]] = [{} for _ in files]
    for name in written[0]:
        texts = [found[name] for found in written]
        values: list[Any] = [None if text is None else _number_or_text(text) for text in texts]
        types = {type(value) for value in values if value is not None}
        kind = pa.int64() if types == {int} else pa.float64()
        if (
            not types
            or str in types
            or any(type(value) is int and abs(value) > LARGEST_WHOLE for value in values)
        ):
            kind = pa.dictionary(pa.int32(), pa.string())
            values = texts
        for own, value in zip(labels_of, values, strict=True):
            own[name] = value, kind
    return [replace(file, labels=own) for file, own in zip(files, labels_of, strict=True)]


class FileSource(RowSource):
    """Files with the same columns."""

    def __init__(self, name: str, files: Sequence[TableFile]) -> None:
        self.name, self.files = name, tuple(files)

    def _with_labels(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        for name, (_, kind) in self.files[0].labels.items():
            if name in schema.names:
                raise DataError(
                    f"column {name!r} is in {self.files[0].name} and in the name of its "
                    f"folder, {name}=…: rename the folders, or leave that column out of the "
                    "files."
                )
            schema = schema.append(pa.field(name, kind))
        return schema


def _tasks(
    pieces: Sequence[tuple[TableFile, Reader]],
    sizes: Sequence[int],
    most: int,
    counted: str,
    environment: str,
) -> list[RowTask]:
    """Consecutive pieces of files together, by their sizes; others as in `_read_with_labels`"""
    readers = [
        partial(_read_with_labels, file, read, counted, environment) for file, read in pieces
    ]
    return [RowTask(tuple(readers[n] for n in together)) for together in _packed(sizes, most)]


def _read_with_labels(
    file: TableFile, read: Reader, counted: str, environment: str, columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """counted : a column of the file, whose rows are counted where only labels are asked for;
    environment : the column of labels, which are text as the folders have it"""
    import pyarrow as pa

    for batch in read([name for name in columns if name not in file.labels] or [counted], rows):
        for name in (name for name in columns if name in file.labels):
            value, kind = file.labels[name]
            if name == environment and value is not None:
                value = str(value)
                kind = pa.dictionary(pa.int32(), pa.string())
            batch = batch.append_column(
                name, pa.array([value], kind).take(pa.array(np.zeros(len(batch), np.int32)))
            )
        yield batch


def _packed(sizes: Sequence[int], most: int) -> Iterator[range]:
    """Consecutive places whose sizes make at most so much together, or a single one that makes
    more."""
    start = 0
    total = 0
    for n, own in enumerate(sizes):
        if n > start and total + own > most:
            yield range(start, n)
            start = n
            total = 0
        total += own
    if start < len(sizes):
        yield range(start, len(sizes))


# ---------------------------------------------------------------- parquet


def _read_parquet(
    file: TableFile, groups: Sequence[int], coded: str | None, columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Consecutive row groups; coded : a column of text that is read as codes"""
    import pyarrow.parquet as pq

    options: Fields = {
        "pre_buffer": False,
        "buffer_size": _BUFFER,
        "read_dictionary": coded and [coded],
    }
    with clear_errors(file):
        opened = pq.ParquetFile(_place(file), **options)
    with opened:
        batches = opened.iter_batches(
            rows, row_groups=list(groups), columns=list(columns), use_threads=False
        )
        for batch in steps_of(batches, file):
            yield _with_gaps(batch, file.form.na)


class ParquetSource(FileSource):
    """n_rows_of : of each file, the rows of its row groups"""

    def __init__(self, name: str, files: Sequence[TableFile]) -> None:
        import pyarrow.parquet as pq

        super().__init__(name, files)
        self.n_rows_of: list[list[int]] = []
        schema: pa.Schema | None = None
        for file in self.files:
            with clear_errors(file), pq.ParquetFile(_place(file)) as opened:
                metadata = opened.metadata
                found = named_once(opened.schema_arrow, file.name)
            schema = (
                found if schema is None else agreed(schema, found, file.name, self.files[0].name)
            )
            self.n_rows_of.append(
                [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
            )
        self.schema = self._with_labels(schema)
        self.about_rows = sum(map(sum, self.n_rows_of))

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        most = rows_per_task(len({*columns, environment} - self.files[0].labels.keys()))
        stored = environment not in self.files[0].labels
        coded = (
            environment if stored and kind_of(self.schema.field(environment).type) == TEXT else None
        )
        pieces: list[tuple[TableFile, Reader]] = []
        sizes = []
        for file, rows in zip(self.files, self.n_rows_of, strict=True):
            for groups in _packed(rows, most):
                pieces.append((file, partial(_read_parquet, file, tuple(groups), coded)))
                sizes.append(sum(rows[group] for group in groups))
        return _tasks(pieces, sizes, most, self.schema.names[0], environment)


def _place(file: TableFile) -> Any:
    import pyarrow as pa

    return file.path if file.content is None else pa.BufferReader(file.content)


def _with_gaps(batch: pa.RecordBatch, na: Sequence[str]) -> pa.RecordBatch:
    """With no value where a word, or a number that it reads as, stands for a missing one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = [float(word) for word in na if reads_as_number(word)]
    for n, column in enumerate(batch.columns if na else ()):
        kind = kind_of(column.type)
        if kind not in (TEXT, "numbers"):
            continue
        column = column.dictionary_decode() if hasattr(column, "dictionary") else column
        if kind == TEXT:
            gone = pc.is_in(
                pc.utf8_trim_whitespace(column.cast(pa.string())), pa.array(list(na), pa.string())
            )
        else:
            gone = pc.is_in(column.cast(pa.float64(), safe=False), pa.array(numbers, pa.float64()))
        batch = batch.set_column(n, batch.schema.names[n], pc.if_else(gone, None, column))
    return batch


# ---------------------------------------------------------------- text and sheets


def _read_text(
    file: TableFile,
    environment: str,
    texts: frozenset[str],
    at_once: int,
    columns: Sequence[str],
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """A whole file, so many rows at once; texts : columns that are text, whatever some of the rows
    look like"""
    import pyarrow as pa

    marked = environment if environment in columns else None
    for frame in iter_columns(file, columns, at_once, marked, texts & {*columns}):
        arrays = {
            name: of_series(frame[name], name, file.name) for name in columns if name != marked
        }
        arrays |= {name: array.cast(pa.string()) for name, array in arrays.items() if name in texts}
        yield pa.record_batch(
            arrays if marked is None else {**arrays, marked: label_array(frame[marked])}
        )


def _about_rows(files: Sequence[TableFile]) -> int | None:
    """As far as the length of the first ones tells."""
    if files[0].kind != TEXT_FILE:
        return None
    with files[0].open() as stream:
        sample = stream.read(_COUNTED_BYTES)
        # Of a packed file, as much as was unpacked for the sample.
        taken = stream.fileobj.tell() if isinstance(stream, gzip.GzipFile) else len(sample)
    return round(sum(file.n_bytes for file in files) * sample.count(b"\n") / max(1, taken))


class TextSource(FileSource):
    """words : columns that are text, whatever they look like"""

    def __init__(
        self,
        name: str,
        files: Sequence[TableFile],
        words: Sequence[str] = (),
        warn_unnamed: bool = True,
    ) -> None:
        super().__init__(name, files)
        first, *others = self.files
        self._words, self._names = frozenset(words), column_names(first, warn_unnamed)
        self._rows, self.about_rows = rows_per_batch(len(self._names)), _about_rows(self.files)
        for file in others:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # the first file has told of the same
                check_same_columns(column_names(file), self._names, file.name, first.name)

    @cached_property
    def schema(self) -> pa.Schema:
        """With types as the first rows show them."""
        import pandas as pd

        first = self.files[0]
        words = self._words & {*self._names}
        frames = iter_columns(first, self._names, self._rows, None, words)
        frame = next(frames, pd.DataFrame(columns=self._names))
        return self._with_labels(schema_of(frame, first.name))

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        texts = self._texts(
            [name for name in columns if name != environment and name in self._names]
        )
        pieces = [
            (file, partial(_read_text, file, environment, texts, self._rows)) for file in self.files
        ]
        return _tasks(
            pieces, [file.n_bytes for file in self.files], TASK_BYTES, self._names[0], environment
        )

    def _texts(self, columns: Sequence[str]) -> frozenset[str]:
        """Columns whose first value is no number. They are read as text in all files, as in one."""
        kinds: dict[str, str | None] = dict.fromkeys(n for n in columns if n not in self._words)
        for file in self.files:
            unseen = [name for name, kind in kinds.items() if kind is None]
            for frame in iter_columns(file, unseen, self._rows) if unseen else ():
                for name in unseen:
                    array = of_series(frame[name], name, file.name)
                    kinds[name] = None if array.null_count == len(array) else kind_of(array.type)
                unseen = [name for name in unseen if kinds[name] is None]
                if not unseen:
                    break
        texts = {name for name, kind in kinds.items() if kind == TEXT}
        return frozenset(texts | (self._words & {*columns}))
