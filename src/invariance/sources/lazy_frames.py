"""Lazy frames of polars, collected a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..exceptions import DataError
from .columns import named_once
from .streams import StreamSource

if TYPE_CHECKING:
    import pyarrow as pa


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
