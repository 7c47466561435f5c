"""Arrow columns as a model needs them: numbers, or positions in a list of levels; and what cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats
from ..data.columns import beyond_double, reads_as_number
from ..data.levels import Levels, as_text, in_natural_order
from ..data.raw import Refusal, refuse
from ..exceptions import DataError, WrongTypeError

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS, LEVELS, TEXT_AS_NUMBERS, NOTHING = "numbers", "levels", "text as numbers", "nothing"


def kind_of(array: pa.Array, name: str, categorical: bool, numeric: bool) -> str | Refusal:
    """How a column is read, or why it cannot be; NOTHING where all of its values are missing."""
    from pyarrow import types

    kind = _stored(array).type
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if len(array) == array.null_count:
        return NOTHING
    if numeric:
        return TEXT_AS_NUMBERS
    if categorical and _hashable(plain):
        return LEVELS
    if types.is_dictionary(kind) or _is_text(kind):
        return LEVELS
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMBERS
    example = f"dtype {kind}, for example {_first(array)!r}"
    if types.is_temporal(kind):
        return Refusal(f"is not numeric ({example}) but holds dates or times", categorical=True)
    return Refusal(f"is not numeric ({example})", categorical=_hashable(plain))


def as_batches(rows: Any) -> list[pa.RecordBatch]:
    """A record batch, or whatever gives such: tables of pyarrow, pandas, polars and others."""
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if not isinstance(rows, pa.Table) and not hasattr(rows, "__arrow_c_stream__"):
        raise WrongTypeError(
            f"rows come as record batches or tables, not as {type(rows).__name__}: pass a pyarrow.RecordBatch or a "
            "data frame."
        )
    return list((rows if isinstance(rows, pa.Table) else pa.table(rows)).to_batches())


def is_plain(array: pa.Array) -> bool:
    """Whether a column is float64 without a missing value, as most are."""
    from pyarrow import lib

    return bool(array.type.id == lib.Type_DOUBLE and array.null_count == 0)


def as_numbers(array: pa.Array, name: str) -> Floats:
    """(n,) with NaN where a value is missing; whole numbers that float64 cannot tell apart raise."""
    import pyarrow as pa
    from pyarrow import types

    array = _stored(array)
    if types.is_null(array.type):
        return np.full(len(array), np.nan)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if not types.is_float64(array.type):
        try:
            array = array.cast(pa.float64())
        except pa.ArrowInvalid:
            raise DataError(beyond_double(name, _largest(array))) from None
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def as_codes(array: pa.Array) -> tuple[NDArray[np.intp], list[Any]]:
    """Positions (n,), -1 where missing, in a list of the different values that occur."""
    import pyarrow as pa
    from pyarrow import types

    array = _stored(array)
    if not types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(array.dictionary) + 1)[1:])
    values = array.dictionary.take(pa.array(used)).to_pylist()
    present = [value is not None and value == value for value in values]  # NaN is no value
    lookup = np.full(len(array.dictionary) + 1, -1, np.intp)
    lookup[used[present]] = np.arange(sum(present))
    return lookup[codes], [value for value, there in zip(values, present, strict=True) if there]


def numbers_of_text(array: pa.Array, name: str) -> Floats:
    """(n,) of a column that may hold numbers as text."""
    from pyarrow import types

    if not types.is_dictionary(_stored(array).type) and not _is_text(_stored(array).type):
        return as_numbers(array, name)
    codes, values = as_codes(array)
    wrong = next((value for value in values if not reads_as_number(value)), None)
    if wrong is not None:
        refuse({name: Refusal(f"is in numeric=, but {wrong!r} is not a number", claimed=True)}, in_table=True)
    return np.array([*map(float, values), np.nan])[codes]


def levels_of(array: pa.Array, values: list[Any]) -> Levels:
    """The levels that a piece of a column has; its different values are given."""
    from pyarrow import types

    texts: dict[str, frozenset[str]] = {}
    for value in values:
        text = as_text(value)
        texts[text] = texts.get(text, frozenset()) | ({value} if isinstance(value, str) else frozenset())
    array = _stored(array)
    declared = types.is_dictionary(array.type)
    written = {text: ways for text, ways in texts.items() if ways}
    if declared and array.type.ordered:
        listed = dict.fromkeys(as_text(value) for value in array.dictionary.to_pylist() if value is not None)
        return Levels(tuple(listed), True, declared, written)
    return Levels(tuple(in_natural_order(texts)), False, declared, written)


def _stored(array: pa.Array) -> pa.Array:
    """Of a type that a library defines, what it is made of."""
    return getattr(array, "storage", array)


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _hashable(kind: pa.DataType) -> bool:
    from pyarrow import types

    return not types.is_nested(kind)


def _first(array: pa.Array) -> Any:
    return next(value.as_py() for value in array if value.is_valid)


def _largest(array: pa.Array) -> Any:
    import pyarrow.compute as pc

    ends = pc.min_max(array).as_py()
    return max(ends.values(), key=abs)
