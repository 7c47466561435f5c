"""The rows of a source as plain Python values, with what every source must keep to checked on the
way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from invariance.data.sources import RowSource, source_of


def batches_of(source: RowSource, columns: Sequence[str], environment: str) -> list[pa.RecordBatch]:
    asked = [*columns, environment]
    found = [batch for task in source.tasks(environment, columns) for batch in task.batches(asked)]
    assert all(batch.schema.names == asked for batch in found)
    assert set(asked) <= set(source.schema.names)
    return found


def rows_of(
    rows: Any, columns: Sequence[str], environment: str = "site", **form: Any
) -> list[tuple[Any, ...]]:
    source = rows if isinstance(rows, RowSource) else source_of(rows, **form)
    batches = batches_of(source, columns, environment)
    return [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
