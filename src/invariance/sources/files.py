"""Rows of several files, with the labels of their folders as further columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..exceptions import DataError
from .base import RowSource, RowTask
from .columns import constant
from .folders import Part

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FilePiece(ABC):
    """Some rows of one file"""

    file: Part

    @abstractmethod
    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns of the file in any order."""


@dataclass(frozen=True)
class FilesTask(RowTask):
    """counted : a column of the files, whose rows are counted where only labels are asked for"""

    pieces: tuple[FilePiece, ...]
    counted: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for piece in self.pieces:
            labels = piece.file.labels
            for batch in piece.read([name for name in columns if name not in labels] or [self.counted]):
                if batch.schema.names == list(columns):
                    yield batch
                    continue
                stored = dict(zip(batch.schema.names, batch.columns, strict=True))
                arrays = [
                    constant(*labels[name], batch.num_rows) if name in labels else stored[name] for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class FileSource(RowSource):
    """Files with the same columns."""

    def __init__(self, name: str, files: Sequence[Part]) -> None:
        self.name, self.files = name, tuple(files)

    @property
    def n_bytes(self) -> int | None:
        return sum(file.n_bytes for file in self.files)

    def _check_labels(self, names: Sequence[str]) -> None:
        """Raise where one of the columns of the files is a label of their folders too."""
        for name in self.files[0].labels:
            if name in names:
                raise DataError(
                    f"column {name!r} is in {self.files[0].name}, and the folder's name, {name}=…, makes a column "
                    f"{name!r} too: rename the folders, or leave that column out of the files."
                )

    def _with_labels(self, schema: pa.Schema) -> pa.Schema:
        self._check_labels(schema.names)
        for name, (_, kind) in self.files[0].labels.items():
            schema = schema.append(_field(name, kind))
        return schema


def _field(name: str, kind: pa.DataType) -> pa.Field:
    import pyarrow as pa

    return pa.field(name, kind)


def grouped(pieces: Sequence[FilePiece], sizes: Sequence[int], size: int, counted: str) -> list[FilesTask]:
    """Consecutive pieces as tasks of at most this size, or of one piece: each small file would be a task otherwise."""
    tasks: list[list[FilePiece]] = []
    room = -1
    for piece, own in zip(pieces, sizes, strict=True):
        if not tasks or own > room:
            tasks.append([])
            room = size
        tasks[-1].append(piece)
        room -= own
    return [FilesTask(tuple(each), counted) for each in tasks]
