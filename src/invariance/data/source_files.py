"""Rows of files, with the labels of their folders as further columns."""

from __future__ import annotations

import glob
import gzip
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from ..exceptions import DataError, DataWarning, use
from .checks import quoted
from .columns import reads_as_number
from .reading import (
    AS_PYTHON,
    PARQUET,
    PathLike,
    TableFile,
    check_together,
    clear_errors,
    column_names,
    iter_columns,
    parse_label,
)
from .reading import TEXT as TEXT_FILE
from .record_batches import (
    TASK_BYTES,
    TEXT,
    RowSource,
    RowTask,
    agreed,
    check_names,
    kind_of,
    labels,
    named_once,
    of_series,
    rows_per_batch,
    rows_per_task,
    type_of,
)
from .settings import FileFormat

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# What Hive, Spark and others write for a missing label.
_NO_LABEL = "__HIVE_DEFAULT_PARTITION__"
_LARGEST = 2**53  # what is beyond, a code of many digits, stays text
# Pages come through a buffer of this size: without one, whole column chunks are fetched, of millions of rows each.
_BUFFER = 1 << 16
_MOST_WORDS = 8
_SAMPLE = 1 << 22  # bytes


def file_source(
    paths: PathLike | Sequence[PathLike], form: FileFormat, words: Sequence[str] = (), warn_unnamed: bool = True
) -> FileSource:
    """See `sources.source_of`."""
    files = table_files(paths, form)
    name = files[0].name
    if len(files) > 1:
        name = repr(os.fspath(paths)) if isinstance(paths, str | os.PathLike) else f"the list of {len(files)} files"
    if files[0].kind == PARQUET and files[0].numbers == AS_PYTHON:
        return ParquetSource(name, files)
    return TextSource(name, files, words, warn_unnamed)


def table_files(paths: PathLike | Sequence[PathLike], form: FileFormat) -> list[TableFile]:
    """The files, in the order of the list, those of a folder or pattern in natural order; with labels that stand in
    their paths below the folder that they share."""
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
        reader = f"pyarrow.dataset.dataset({os.fspath(path)!r}).scanner().to_reader()"
        raise DataError(f"{os.fspath(path)!r} is no path on this machine: pass {reader}.")
    place = Path(os.path.abspath(os.path.expanduser(path)))
    if place.is_dir():
        base, found = place, [place]
    elif place.exists() or not glob.has_magic(str(place)):
        return place.parent, [place]
    else:
        base = Path(*place.parts[: next(n for n, step in enumerate(place.parts) if glob.has_magic(step))])
        matches = map(Path, glob.iglob(str(place), recursive=True))
        found = [match for match in matches if not any(map(_hidden, match.relative_to(base).parts))]
    files = {file for match in found for file in (_walk(match) if match.is_dir() else [match])}
    if not files:
        raise DataError(f"{os.fspath(path)!r} holds no files. Check the path and the working directory.")
    return base, sorted(sorted(files), key=_natural)


def _walk(folder: Path) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        raise DataError(f"the folder {error.filename!r} cannot be read: {error.strerror}. Check its permissions.")

    for place, folders, files in os.walk(folder, onerror=complain, followlinks=True):
        folders[:] = [name for name in folders if not _hidden(name)]
        yield from (Path(place, name) for name in files if not _hidden(name))


def _hidden(name: str) -> bool:
    """Spark's _SUCCESS, .crc files and the like; not the label of a column whose name begins with _."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _natural(path: Path) -> list[list[str | int]]:
    """part-2 before part-10"""
    return [[int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", step)] for step in path.parts]


def _check_alike(files: Sequence[TableFile], base: PathLike) -> None:
    """Raise where a file is named twice, or files are of several kinds."""
    seen: dict[str, Path] = {}
    examples: dict[str | None, str] = {}
    for file in files:
        first = seen.setdefault(os.path.realpath(file.path), file.path)
        if first is not file.path:
            raise DataError(f"{str(file.path)!r} is among the files twice, also as {str(first)!r}: name it once.")
        examples.setdefault(file.suffix, os.path.relpath(file.path, base))
    if len(examples) > 1:
        suffix = Counter(file.suffix for file in files if file.suffix).most_common(1)[0][0]
        alike = str(Path(base, "**", f"*{suffix}"))
        raise DataError(f"the files are of several kinds: {quoted(examples.values())}. Pass files such as {alike!r}.")


def _with_path_labels(files: Sequence[TableFile], base: PathLike) -> list[TableFile]:
    """With the labels `site=A` of the folders below the base: numbers where all of a name are, else text, as codes."""
    import pyarrow as pa

    written = [_path_labels(file, base) for file in files]
    for file, found in zip(files, written, strict=True):
        if found.keys() != written[0].keys():
            other = quoted(sorted(found.keys() ^ written[0].keys()))
            raise DataError(f"the paths of {files[0].name} and {file.name} differ in the label {other}: mend that.")
    kinds = {}
    for name in written[0]:
        values = [parse_label(text) for found in written if (text := found[name]) is not None]
        types = set(map(type, values))
        if not types or str in types or any(abs(value) > _LARGEST for value in values if type(value) is int):
            kinds[name] = pa.dictionary(pa.int32(), pa.string())
        else:
            kinds[name] = pa.int64() if types == {int} else pa.float64()

    def typed(text: str | None, kind: pa.DataType) -> Any:
        return text if text is None or pa.types.is_dictionary(kind) else parse_label(text)

    return [
        replace(file, labels={name: (typed(text, kinds[name]), kinds[name]) for name, text in found.items()})
        for file, found in zip(files, written, strict=True)
    ]


def _path_labels(file: TableFile, base: PathLike) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for step in file.path.relative_to(base).parts[:-1]:
        name, sign, value = map(unquote, step.partition("="))
        if not sign or not name:
            continue
        if name in found:
            raise DataError(f"the path of {file.name} has two labels {name!r}: rename one of the folders.")
        found[name] = None if value == _NO_LABEL or value in file.form.na else value
    return found


@dataclass(frozen=True)
class FilesTask(RowTask):
    """counted : a column of the files, whose rows are counted where only labels are asked for"""

    pieces: tuple[ParquetPiece | TextPiece, ...]
    counted: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for piece in self.pieces:
            found = piece.file.labels
            for batch in piece.read([name for name in columns if name not in found] or [self.counted]):
                stored = dict(zip(batch.schema.names, batch.columns, strict=True))
                first = pa.array(np.zeros(batch.num_rows, np.int32))
                constant = {name: pa.array([value], kind).take(first) for name, (value, kind) in found.items()}
                arrays = [stored.get(name, constant.get(name)) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class FileSource(RowSource):
    """Files with the same columns."""

    def __init__(self, name: str, files: Sequence[TableFile]) -> None:
        self.name, self.files = name, tuple(files)

    def _with_labels(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        for name, (_, kind) in self.files[0].labels.items():
            if name in schema.names:
                what = f"column {name!r} is in {self.files[0].name} and in the name of its folder, {name}=…"
                raise DataError(f"{what}: rename the folders, or leave that column out of the files.")
            schema = schema.append(pa.field(name, kind))
        return schema


def _packed(sizes: Sequence[int], most: int) -> Iterator[range]:
    """Consecutive places whose sizes make at most so much together, or a single one that makes more."""
    start, total = 0, 0
    for n, own in enumerate(sizes):
        if n > start and total + own > most:
            yield range(start, n)
            start, total = n, 0
        total += own
    if start < len(sizes):
        yield range(start, len(sizes))


def _tasks(pieces: Sequence[Any], sizes: Sequence[int], size: int, counted: str) -> list[FilesTask]:
    """Consecutive pieces as tasks of at most this size, or of one piece: each small file would be a task otherwise."""
    return [FilesTask(tuple(pieces[n] for n in places), counted) for places in _packed(sizes, size)]


# ---------------------------------------------------------------- parquet


@dataclass(frozen=True)
class ParquetPiece:
    """groups : consecutive row groups; environment : read as codes where it is text"""

    file: TableFile
    groups: tuple[int, ...]
    environment: str | None

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns of the file."""
        import pyarrow.parquet as pq

        coded = None if self.environment is None else [self.environment]
        options: dict[str, Any] = {"pre_buffer": False, "buffer_size": _BUFFER, "read_dictionary": coded}
        with clear_errors(self.file):
            opened = pq.ParquetFile(_place(self.file), **options)
        with opened:
            batches = opened.iter_batches(
                row_groups=list(self.groups),
                columns=list(columns),
                batch_size=rows_per_batch(len(columns)),
                use_threads=False,
            )
            while True:
                with clear_errors(self.file):  # around each step only: the caller's errors are not those of the file
                    batch = next(batches, None)
                if batch is None:
                    return
                yield _without(batch, self.file.form.na)


class ParquetSource(FileSource):
    """n_rows_of : of each file, the rows of its row groups"""

    def __init__(self, name: str, files: Sequence[TableFile]) -> None:
        import pyarrow.parquet as pq

        super().__init__(name, files)
        self.n_rows_of: list[list[int]] = []
        schema: pa.Schema | None = None
        for file in self.files:
            with clear_errors(file), pq.ParquetFile(_place(file)) as opened:
                metadata, found = opened.metadata, named_once(opened.schema_arrow, file.name)
            schema = found if schema is None else agreed(schema, found, file.name, self.files[0].name)
            self.n_rows_of.append([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
        self.schema = self._with_labels(schema)
        self.n_rows = sum(map(sum, self.n_rows_of))

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        most = rows_per_task(len({*columns, environment} - self.files[0].labels.keys()))
        stored = environment not in self.files[0].labels
        coded = environment if stored and kind_of(self.schema.field(environment).type) == TEXT else None
        pieces, sizes = [], []
        for file, rows in zip(self.files, self.n_rows_of, strict=True):
            for groups in _packed(rows, most):
                pieces.append(ParquetPiece(file, tuple(groups), coded))
                sizes.append(sum(rows[group] for group in groups))
        return _tasks(pieces, sizes, most, self.schema.names[0])


def _place(file: TableFile) -> Any:
    import pyarrow as pa

    return file.path if file.content is None else pa.BufferReader(file.content)


def _without(batch: pa.RecordBatch, na: Sequence[str]) -> pa.RecordBatch:
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
            gone = pc.is_in(pc.utf8_trim_whitespace(column.cast(pa.string())), pa.array(list(na), pa.string()))
        else:
            gone = pc.is_in(column.cast(pa.float64(), safe=False), pa.array(numbers, pa.float64()))
        batch = batch.set_column(n, batch.schema.names[n], pc.if_else(gone, None, column))
    return batch


# ---------------------------------------------------------------- text and sheets


@dataclass(frozen=True)
class TextPiece:
    """A whole file; texts : columns that are text in all files, whatever a chunk of rows looks like"""

    file: TableFile
    environment: str
    texts: frozenset[str]
    rows: int

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns of the file."""
        import pyarrow as pa

        marked = self.environment if self.environment in columns else None
        for frame in iter_columns(self.file, columns, self.rows, marked, self.texts & {*columns}):
            arrays = [labels(frame[name]) if name == marked else self._column(frame[name], name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, values: pd.Series, name: str) -> pa.Array:
        import pyarrow as pa

        array = of_series(values, name, self.file.name)
        is_text = kind_of(array.type) == TEXT
        if name in self.texts:
            return array if is_text else array.cast(pa.string())
        if is_text and array.null_count < len(array):
            texts = array.drop_null().unique().to_pylist()
            words = [text for text in texts if not reads_as_number(text)]
            where = f"in {self.file.name} later on ({quoted(words or texts, 4)})"
            what = f"column {name!r} holds numbers, or true and false, in the first rows, and text {where}"
            raise DataError(what, *([use(na=words[:_MOST_WORDS])] if words else []), use(categorical=[name]))
        return array


class TextSource(FileSource):
    """words : columns that are text, whatever they look like"""

    def __init__(
        self, name: str, files: Sequence[TableFile], words: Sequence[str] = (), warn_unnamed: bool = True
    ) -> None:
        super().__init__(name, files)
        first, *others = self.files
        self._words, self._names = frozenset(words), column_names(first, warn_unnamed)
        self._rows = rows_per_batch(len(self._names))
        for file in others:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # the first file has told of the same
                check_names(column_names(file), self._names, file.name, first.name)
        if others and first.kind == TEXT_FILE:
            check_together(self.files)

    @cached_property
    def schema(self) -> pa.Schema:
        """With types as the first rows show them."""
        import pyarrow as pa

        first, words = self.files[0], self._words & {*self._names}
        frame = next(iter_columns(first, self._names, self._rows, None, words), None)
        kinds = [pa.null() if frame is None else type_of(frame[name], first.name) for name in self._names]
        return self._with_labels(pa.schema(list(zip(self._names, kinds, strict=True))))

    @property
    def about_rows(self) -> int | None:
        first = self.files[0]
        if first.kind != TEXT_FILE:
            return None
        with first.open() as stream:
            sample = stream.read(_SAMPLE)
            # Of a packed file, as much as was unpacked for the sample.
            taken = stream.fileobj.tell() if isinstance(stream, gzip.GzipFile) else len(sample)
        return round(sum(file.n_bytes for file in self.files) * sample.count(b"\n") / max(1, taken))

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        texts = self._texts([name for name in columns if name != environment and name in self._names])
        pieces = [TextPiece(file, environment, texts, self._rows) for file in self.files]
        return _tasks(pieces, [file.n_bytes for file in self.files], TASK_BYTES, self._names[0])

    def _texts(self, columns: Sequence[str]) -> frozenset[str]:
        """Columns whose first value is no number. They are read as text in all files, as in one."""
        texts = self._words & {*columns}
        unseen = [name for name in columns if name not in texts]
        for file in self.files:
            for frame in iter_columns(file, unseen, self._rows) if unseen else ():
                arrays = {name: of_series(frame[name], name, file.name) for name in unseen}
                unseen = [name for name, array in arrays.items() if array.null_count == len(array)]
                texts |= {n for n, array in arrays.items() if kind_of(array.type) == TEXT and n not in unseen}
                if not unseen:
                    break
        return texts
