"""Rows whose environments were merged: the same ones, under new labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .base import RowSource, RowTask

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RegroupedTask(RowTask):
    task: RowTask
    environment: str
    new: Mapping[str, str]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        place = list(columns).index(self.environment)
        for batch in self.task.batches(columns):
            yield batch.set_column(place, self.environment, _renamed(batch.column(place), self.new))


class Regrouped(RowSource):
    """new : {label as text: new label}; labels come as text"""

    def __init__(self, source: RowSource, environment: str, new: Mapping[str, str]) -> None:
        self.name, self.is_text, self.rereadable = source.name, source.is_text, source.rereadable
        self._source, self._environment, self._new = source, environment, dict(new)

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        return [RegroupedTask(t, self._environment, self._new) for t in self._source.tasks(environment, columns)]


def _renamed(labels: pa.Array, new: Mapping[str, str]) -> pa.Array:
    import pyarrow as pa

    coded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    texts = [None if label is None else str(label) for label in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, [None if t is None else new.get(t, t) for t in texts])
