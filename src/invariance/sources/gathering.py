"""All rows of a source, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..data.screening import NO_ROWS
from ..exceptions import DataError
from .base import RowSource

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def frame_of(source: RowSource, environment: str, columns: Sequence[str]) -> pd.DataFrame:
    """These columns, and that of the environments, whose labels are as they would be of one file."""
    import pandas as pd

    pieces = [
        pd.DataFrame(
            {name: _labels(values) if name == environment else values.to_pandas() for name, values in _columns(batch)}
        )
        for task in source.tasks(environment, columns)
        for batch in task.batches([*columns, environment])
    ]
    if not pieces:
        raise DataError(NO_ROWS)
    return pd.concat(pieces, ignore_index=True)


def _columns(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    import pyarrow as pa

    decoded = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) and not _mixed(column) else column
        for column in batch.columns
    ]
    return list(zip(batch.schema.names, decoded, strict=True))


def _mixed(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_union(column.type.value_type))


def _labels(values: pa.Array) -> pd.Series[Any]:
    import pandas as pd
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        return pd.Series(values.to_pylist(), dtype=object)
    found = [*values.dictionary.to_pylist(), None]
    return pd.Series([found[code] for code in values.indices.fill_null(len(found) - 1).to_pylist()], dtype=object)
