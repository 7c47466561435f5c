"""What a source of rows is, wherever they lie, and columns as Arrow arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

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
    """name : what messages call it
    rereadable : whether the rows can be read a second time

    The tasks, in their order, have all rows. Neither they nor the order depend on who will read them: so results are
    the same, to the last bit, for any number of workers.
    """

    name: str
    rereadable: bool = True

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns"""

    @abstractmethod
    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        """Pieces of the rows, of which these columns, and that of the environments, will be asked for."""

    @property
    def n_rows(self) -> int | None:
        """How many there are, where that is known without reading them."""
        return None

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


class Agreement:
    """What the pieces of a source must agree on: the names of their columns, in any order, and the kind of each."""

    def __init__(self, schema: pa.Schema, where: str) -> None:
        self._where = where
        self._fields = {field.name: (field, where) for field in schema}

    @property
    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([field for field, _ in self._fields.values()])

    def check(self, schema: pa.Schema, where: str) -> None:
        check_names(schema.names, list(self._fields), where, self._where)
        for field in schema:
            first, seen_in = self._fields[field.name]
            known, kind = kind_of(first.type), kind_of(field.type)
            if known is None:
                self._fields[field.name] = field, where
            elif kind not in (None, known):
                found = f"column {field.name!r} holds {kind} in {where}, and {known} in {seen_in}"
                raise DataError(f"{found}: write it in the same type everywhere.")


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
    kinds = list(dict.fromkeys(map(type, values)))
    if len(kinds) <= 1:
        distinct = pa.array(values, from_pandas=True)
    else:
        places = [kinds.index(type(value)) for value in values]
        counters = [count() for _ in kinds]
        offsets = [next(counters[place]) for place in places]
        members = [pa.array([value for value in values if type(value) is kind]) for kind in kinds]
        distinct = pa.UnionArray.from_dense(pa.array(places, pa.int8()), pa.array(offsets, pa.int32()), members)
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
