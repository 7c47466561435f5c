"""Rows that come piece by piece: queries of databases, readers of record batches, and anything to iterate over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..exceptions import DataError
from .base import RowSource, RowTask, rows_per_batch
from .columns import Agreement, in_pieces, named_once

if TYPE_CHECKING:
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
