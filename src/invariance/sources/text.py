"""Text and Excel files, read exactly as tables that fit into memory are."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..data.checks import check_unique, quoted, warn
from ..data.columns import reads_as_number
from ..data.decimal_signs import check_together
from ..data.reading import column_names, iter_columns
from ..data.table_file import PARQUET
from ..data.table_file import TEXT as TEXT_FILE
from ..exceptions import DataError, DataWarning
from .base import TASK_BYTES, RowTask, rows_per_batch
from .columns import TEXT, check_names, kind_of, labels, of_series, type_of
from .files import FilePiece, FileSource, grouped
from .folders import Part

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MOST_WORDS = 8
_SAMPLE = 1 << 22  # bytes


@dataclass(frozen=True)
class TextPiece(FilePiece):
    """A whole file; texts : columns that are text in all files, whatever a chunk of rows looks like; words : those that
    were said to be"""

    environment: str
    texts: frozenset[str]
    words: frozenset[str]
    rows: int

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        marked = self.environment if self.environment in columns else None
        texts = self.texts & {*columns}
        for frame in iter_columns(self.file, columns, self.rows, marked, texts, texts - self.words):
            arrays = [labels(frame[name]) if name == marked else self._column(frame[name], name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, values: pd.Series, name: str) -> pa.Array:
        import pyarrow as pa

        array = of_series(values, name, self.file.name)
        if name in self.texts:
            return array if kind_of(array.type) == TEXT else array.cast(pa.string())
        if kind_of(array.type) == TEXT and array.null_count < len(array):
            raise DataError(
                f"column {name!r} holds numbers, or true and false, in the first rows, and text in {self.file.name} "
                f"later on {_remedies(array, name)}."
            )
        return array


def _remedies(array: pa.Array, name: str) -> str:
    texts = array.drop_null().unique().to_pylist()
    words = [text for text in texts if not reads_as_number(text)]
    as_missing = f" count such words as missing with read_table(path, na={words[:_MOST_WORDS]!r})," if words else ""
    return f"({quoted(words or texts, 4)}): mend it,{as_missing} or take all values as levels, categorical=[{name!r}]"


class TextSource(FileSource):
    """words : columns that are text, whatever they look like"""

    def __init__(self, name: str, files: Sequence[Part], words: Sequence[str] = (), warn_unnamed: bool = True) -> None:
        super().__init__(name, files)
        self.is_text = files[0].kind != PARQUET
        self._words, self._warn_unnamed = frozenset(words), warn_unnamed

    @cached_property
    def _names(self) -> list[str]:
        """Of the columns of each file"""
        first, *others = self.files
        names = column_names(first, self._warn_unnamed)
        for file in others:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", DataWarning)
                found = column_names(file, self._warn_unnamed)
            if file.kind == TEXT_FILE and file.text != first.text:
                for warning in said:
                    warn(str(warning.message))
            check_names(found, names, file.name, first.name)
        self._check_labels(names)
        check_unique(names, self.name)
        if others and first.kind == TEXT_FILE:
            check_together({file.name: file.signs for file in self.files})
        return names

    @cached_property
    def schema(self) -> pa.Schema:
        """With types as the first rows show them."""
        import pyarrow as pa

        frame = next(iter_columns(self.files[0], self._names, self._rows, None, self._words & {*self._names}), None)
        where = self.files[0].name
        kinds = [pa.null() if frame is None else type_of(frame[name], where) for name in self._names]
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

    @property
    def _rows(self) -> int:
        return rows_per_batch(len(self._names))

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        texts = self._texts([name for name in columns if name != environment and name in self._names])
        pieces = [TextPiece(file, environment, texts, self._words, self._rows) for file in self.files]
        sizes = [file.n_bytes for file in self.files]
        return grouped(pieces, sizes, TASK_BYTES, self._names[0])

    def _texts(self, columns: Sequence[str]) -> frozenset[str]:
        """Columns whose first value is no number. They are read as text in all files, as in one."""
        texts = self._words & {*columns}
        unseen = [name for name in columns if name not in texts]
        for file in self.files:
            for frame in iter_columns(file, unseen, self._rows, None, ()) if unseen else ():
                arrays = {name: of_series(frame[name], name, file.name) for name in unseen}
                seen = {name: array for name, array in arrays.items() if array.null_count < len(array)}
                texts |= {name for name, array in seen.items() if kind_of(array.type) == TEXT}
                unseen = [name for name in unseen if name not in seen]
                if not unseen:
                    break
        return texts
