"""Parquet files: decoded a few rows at a time, however large their row groups are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..data.columns import reads_as_number
from ..data.reading import clear_errors
from .base import RowTask, rows_per_batch, rows_per_task
from .columns import TEXT, Agreement, kind_of, named_once
from .files import FilePiece, FileSource, grouped
from .folders import Part

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Pages come through a buffer of this size: without one, whole column chunks are fetched, of millions of rows each.
_BUFFER = 1 << 16
_KEPT_FOOTERS = 4 << 20  # bytes; in memory they take a multiple of that


class _Footer(NamedTuple):
    """rows : of each row group
    metadata : None where it is read again when the rows are
    """

    rows: tuple[int, ...]
    metadata: pq.FileMetaData | None


@dataclass(frozen=True)
class ParquetPiece(FilePiece):
    """groups : consecutive row groups; environment : read as codes where it is text"""

    groups: tuple[int, ...]
    environment: str | None
    metadata: pq.FileMetaData | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without the footer of the whole file, which would travel with every piece of it."""
        return {**self.__dict__, "metadata": None}

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {
            "row_groups": list(self.groups),
            "columns": list(columns),
            "batch_size": rows_per_batch(len(columns)),
            "use_threads": False,
        }
        with clear_errors(self.file):
            opened = self._open()
        with opened:
            batches = opened.iter_batches(**options)
            while True:
                with clear_errors(self.file):  # around each step only: the caller's errors are not those of the file
                    batch = next(batches, None)
                if batch is None:
                    return
                yield _without(batch, self.file.na)

    def _open(self) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        coded = None if self.environment is None else [self.environment]
        return pq.ParquetFile(
            _place(self.file), metadata=self.metadata, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=coded
        )


class ParquetSource(FileSource):
    @cached_property
    def _read(self) -> tuple[pa.Schema, list[_Footer]]:
        """The columns of all files, and their footers, each of which is read once."""
        agreement: Agreement | None = None
        footers = []
        room = _KEPT_FOOTERS
        for file in self.files:
            metadata, stored = _read_footer(file)
            schema = named_once(stored, file.name)
            if agreement is None:
                agreement = Agreement(schema, file.name)
            agreement.check(schema, file.name)
            room -= metadata.serialized_size
            rows = tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))
            footers.append(_Footer(rows, metadata if room >= 0 else None))
        assert agreement is not None
        return self._with_labels(agreement.schema), footers

    @property
    def schema(self) -> pa.Schema:
        return self._read[0]

    @property
    def n_rows(self) -> int | None:
        return sum(sum(footer.rows) for footer in self._read[1])

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        most = rows_per_task(len({*columns, environment} - self.files[0].labels.keys()))
        stored = environment not in self.files[0].labels
        coded = environment if stored and kind_of(self.schema.field(environment).type) == TEXT else None
        pieces, sizes = [], []
        for file, footer in zip(self.files, self._read[1], strict=True):
            for groups, rows in _runs(footer.rows, most):
                pieces.append(ParquetPiece(file, groups, coded, footer.metadata))
                sizes.append(rows)
        return grouped(pieces, sizes, most, self.schema.names[0])


def _read_footer(file: Part) -> tuple[pq.FileMetaData, pa.Schema]:
    import pyarrow.parquet as pq

    with clear_errors(file), pq.ParquetFile(_place(file)) as opened:
        return opened.metadata, opened.schema_arrow


def _place(file: Part) -> Any:
    import pyarrow as pa

    return file.path if file.content is None else pa.BufferReader(file.content)


def _runs(rows: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Row groups in a row that together have no more than `most` rows, or one that has; and how many they have."""
    start, total = 0, 0
    for n, own in enumerate(rows):
        if n > start and total + own > most:
            yield tuple(range(start, n)), total
            start, total = n, 0
        total += own
    if start < len(rows):
        yield tuple(range(start, len(rows))), total


def _without(batch: pa.RecordBatch, na: Sequence[str]) -> pa.RecordBatch:
    """With no value where a word, or a number that it reads as, stands for a missing one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    gone: dict[str | None, list[Any]] = {
        TEXT: list(na),
        "numbers": [float(word) for word in na if reads_as_number(word)],
    }
    for n, column in enumerate(batch.columns if na else ()):
        values = gone.get(kind_of(column.type), [])
        if not values:
            continue
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        of_words = isinstance(values[0], str)
        compared = (
            pc.utf8_trim_whitespace(column.cast(pa.string())) if of_words else column.cast(pa.float64(), safe=False)
        )
        stands_for_none = pc.is_in(compared, pa.array(values, compared.type))
        batch = batch.set_column(n, batch.schema.names[n], pc.if_else(stands_for_none, None, column))
    return batch
