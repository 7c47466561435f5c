"""What a source of rows is, wherever they lie, and columns as Arrow arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..exceptions import DataError, use
from .checks import check_unique, quoted

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TASK_BYTES = 64 << 20  # of the rows of a task, as float64
# For each column: products of all columns are a task's result, and must not cost as much as its rows.
TASK_ROWS_PER_COLUMN = 32
_BATCH_CELLS = 1 << 22
_BATCH_ROWS = 1 << 16
TEXT = "text"


def rows_per_batch(n_columns: int) -> int:
    """32 MB as float64, and no more rows than pay."""
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, n_columns)))


def rows_per_task(n_columns: int) -> int:
    return max(TASK_BYTES // (8 * max(1, n_columns)), TASK_ROWS_PER_COLUMN * n_columns, 1)


class RowTask(ABC):
    """Some of the rows of a source, read by one thread, process or worker. It can be pickled."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns in this order."""


class RowSource(ABC):
    """name : what messages call it; schema : all columns; n_rows : where it is known without reading them
    rereadable : whether the rows can be read a second time

    The tasks, in their order, have all rows. Neither they nor the order depend on who will read them: so results are
    the same, to the last bit, for any number of workers.
    """

    name: str
    schema: pa.Schema
    n_rows: int | None = None
    rereadable: bool = True

    @abstractmethod
    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        """Pieces of the rows, of which these columns, and that of the environments, will be asked for."""

    @property
    def about_rows(self) -> int | None:
        """As far as the length of the first ones tells."""
        return self.n_rows


def kind_of(kind: pa.DataType) -> str | None:
    """What a column holds, in words; None where it has no values. Columns of the same kind may differ in type."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_null(kind):
        return None
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_boolean(kind):
        return "true and false"
    return TEXT if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) else str(kind)


def named_once(schema: pa.Schema, where: str) -> pa.Schema:
    """Without the row index that pandas may have stored along; raise where a name occurs twice."""
    import pyarrow as pa

    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    check_unique(names, where)
    return pa.schema([schema.field(name) for name in names])


def agreed(known: pa.Schema, found: pa.Schema, where: str, first: str) -> pa.Schema:
    """The columns of the pieces so far, of which each piece has all, in any order and of the same kind; of a type that
    is not known yet, that of the next piece, `where`. first : the first piece"""
    import pyarrow as pa

    check_names(found.names, known.names, where, first)
    fields = []
    for field in known:
        other = found.field(field.name)
        kinds = kind_of(field.type), kind_of(other.type)
        if None not in kinds and kinds[0] != kinds[1]:
            what = f"column {field.name!r} holds {kinds[1]} in {where}, and {kinds[0]} in pieces before it"
            raise DataError(f"{what}: write it in the same type everywhere.")
        fields.append(other if kinds[0] is None else field)
    return pa.schema(fields)


def check_names(names: Sequence[str], first: Sequence[str], where: str, first_where: str) -> None:
    lacking = [name for name in first if name not in set(names)]
    others = [name for name in names if name not in set(first)]
    if lacking or others:
        found = f"has no column {quoted(lacking)}" if lacking else f"has a column {quoted(others)}"
        raise DataError(f"{where} {found}, unlike {first_where}: all pieces need the same columns.")


def labels(column: pd.Series) -> pa.DictionaryArray:
    """Labels, each of its own type: 1, 2.5 and "a" may stand in one column."""
    import pandas as pd
    import pyarrow as pa

    codes, found = pd.factorize(column)
    values = [value.item() if isinstance(value, np.generic) else value for value in found]
    members: dict[type, list[Any]] = {}
    for value in values:
        members.setdefault(type(value), []).append(value)
    if len(members) <= 1:
        distinct = pa.array(values, from_pandas=True)
    else:
        places = pa.array([list(members).index(type(value)) for value in values], pa.int8())
        offsets = pa.array([members[type(value)].index(value) for value in values], pa.int32())
        distinct = pa.UnionArray.from_dense(places, offsets, list(map(pa.array, members.values())))
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), distinct)


def of_series(column: pd.Series, name: str, where: str) -> pa.Array:
    """A column of pandas; a missing value is null. Categories keep their order, as in tables that are read at once."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.as_ordered()
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        example = next((value for value in column.dropna() if isinstance(value, str)), column.dropna().iloc[0])
        found = f"column {name!r} of {where} holds values of several or unknown types (for example {example!r})"
        raise DataError(found, use(exclude=[name])) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def type_of(column: pd.Series, where: str) -> pa.DataType:
    """As far as its values show it; that of text where they are of several types."""
    import pyarrow as pa

    try:
        array = of_series(column, str(column.name), where)
    except DataError:
        return pa.string()
    return array.type if array.null_count < len(array) else pa.null()
