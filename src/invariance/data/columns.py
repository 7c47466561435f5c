"""Columns of data frames and arrays as float64, with NaN where a value is missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError
from .checks import check_distinct_labels, check_unique, with_counts

ADVICE = {
    "feature": "it held numbers when the model was fitted, and needs numbers here",
    "outcome": "the outcome must be numeric, so encode it as numbers or choose another column",
}


# Whole numbers up to this have a float64 of their own.
LARGEST_WHOLE = 2**53
_BREAK = re.compile(r"\s*[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def one_line(name: str) -> str:
    """A name as it can be typed: a blank for each line break or tab, with the blanks around it."""
    return _BREAK.sub(" ", name.strip())


def frame_names(table: Any) -> list[str] | None:
    """Column names of a data frame as text, or None for anything that is not a data frame."""
    names = getattr(table, "column_names", None)  # pyarrow, whose .columns are the values
    if names is None:
        names = getattr(table, "columns", None)
    return None if names is None or callable(names) else [str(name) for name in names]


def as_frame(table: Any, what: str = "table") -> Any:
    """A narwhals DataFrame with unique text column names from any eager data frame."""
    import narwhals as nw

    if hasattr(table, "collect") and hasattr(table, "collect_schema") and not hasattr(table, "to_numpy"):
        raise DataError(f"{what} is a lazy frame: call .collect() on it first.")
    names = frame_names(table)
    if names is None:
        raise DataError(
            f"{what} must be a pandas or polars DataFrame or the path of a file, got {type(table).__name__}: "
            "for arrays use MultiEnvironmentData.from_arrays(X, y, environments)."
        )
    check_unique(names, f"the {what}")
    if hasattr(table, "set_axis"):
        table = table.set_axis(names, axis=1)
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        raise DataError(
            f"{what} of type {type(table).__name__} is not supported: convert it to a pandas or polars DataFrame."
        ) from None


def as_series(values: Any) -> Any | None:
    """A narwhals Series, or None for anything that is not a series."""
    if isinstance(values, (np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def series_values(series: Any, name: str, role: str = "feature") -> Floats:
    """A narwhals Series as float64 (N,); booleans count 0 and 1."""
    import narwhals as nw

    _refuse_beyond_double(series, name)
    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(native, dtype=np.float64)
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if series.null_count() == len(series):
        return np.full(len(series), np.nan)
    values = series.to_list()
    missing = series.is_null().to_list()
    present = present_values(series)
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return np.array([np.nan if gone else float(v) for v, gone in zip(values, missing, strict=True)])
    dtype_name = str(dtype if dtype is not None else series.dtype)
    if any(isinstance(value, (complex, np.complexfloating)) for value in present):
        raise DataError(
            f"column {name!r} holds complex numbers (dtype {dtype_name}). Complex data not supported: "
            "use its real and imaginary parts as two columns."
        )
    example = next((value for value in present if not reads_as_number(value)), None)
    if example is None:
        raise DataError(
            f"column {name!r} holds numbers stored as dtype {dtype_name} (for example {present[0]!r}): "
            f"convert it with {'.astype' if hasattr(native, 'astype') else '.cast'}(float)."
        )
    raise DataError(f"column {name!r} is not numeric (dtype {dtype_name}, for example {example!r}): {ADVICE[role]}.")


def _refuse_beyond_double(series: Any, name: str) -> None:
    ends = [series.min(), series.max()] if series.dtype.is_integer() else []
    largest = max((int(end) for end in ends if end is not None and end == end), key=abs, default=0)
    if abs(largest) > LARGEST_WHOLE:
        raise DataError(beyond_double(name, largest))


def refuse_beyond_double(values: Any, what: str) -> None:
    """Raise where a frame, a series or an array has whole numbers that double precision cannot tell apart."""
    if frame_names(values) is not None:
        frame = as_frame(values, what)
        for name in frame.columns:
            _refuse_beyond_double(frame[name], name)
    elif (series := as_series(values)) is not None:
        _refuse_beyond_double(series, what)
    elif isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.size:
        largest = max(int(values.min()), int(values.max()), key=abs)
        if abs(largest) > LARGEST_WHOLE:
            raise DataError(beyond_double(what, largest))


def beyond_double(name: str, example: object) -> str:
    return (
        f"column {name!r} holds whole numbers beyond 2**53 = {LARGEST_WHOLE} (for example {example}), which double "
        "precision cannot tell apart: leave it out, or subtract a number from it where it is stored."
    )


def holds_numbers(frame: Any) -> bool:
    """Whether all columns of a narwhals frame are numbers or booleans, whatever their type."""
    import narwhals as nw

    def numbers(series: Any) -> bool:
        if series.dtype.is_numeric() or series.dtype == nw.Boolean:
            return True
        unclear = series.dtype in (nw.Object, nw.Unknown)
        return unclear and all(isinstance(value, Real) for value in present_values(series))

    return all(numbers(frame[name]) for name in frame.columns)


def present_values(series: Any) -> list[Any]:
    """Those that are not missing."""
    return [value for value, gone in zip(series.to_list(), series.is_null().to_list(), strict=True) if not gone]


def reads_as_number(value: Any) -> bool:
    if isinstance(value, (str, Real)) or type(value).__name__ == "Decimal":
        try:
            float(value)
        except ValueError:
            return False
        return True
    return False


def frame_values(frame: Any, names: Sequence[str], role: str = "feature") -> Floats:
    """Columns of a narwhals DataFrame as float64 (N, p) in C order."""
    values = np.empty((len(frame), len(names)), dtype=np.float64)
    for position, name in enumerate(names):
        values[:, position] = series_values(frame[name], name, role)
    return values


def array_values(values: Any, what: str) -> Floats:
    """An array, or nested lists of numbers, as float64 of the same shape."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise DataError(f"{what} is a sparse matrix: pass a dense array, for example {what}.toarray().")
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "biuf":
            return np.ma.filled(values.astype(np.float64), np.nan)
        values = values.data
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise DataError(f"{what} is not rectangular: give every row the same number of values.") from None
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "c":
        raise DataError(
            f"{what} holds complex numbers. Complex data not supported: use the real and imaginary parts as "
            "separate columns."
        )
    first = array.item(0) if array.size else None
    if array.dtype.kind == "O":
        raise DataError(
            f"{what} is an object array (for example {first!r}): convert it with .astype(float), after "
            "encoding anything in it that is not a number."
        )
    raise DataError(f"{what} is not numeric (dtype {array.dtype}, for example {first!r}): encode it as numbers.")


def label_list(labels: Any, role: str = "environments") -> list[Hashable]:
    """Labels, of environments unless another role is named, as a list with one entry per row."""
    if isinstance(labels, (str, bytes)):
        raise DataError(f"{role}={labels!r} is a single string: pass one label per row, for example table[{labels!r}].")
    shape = getattr(labels, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:
        if len(shape) != 2 or shape[1] != 1:
            raise DataError(f"{role} has shape {shape}: pass one label per row, shape (N,).")
        labels = np.asarray(labels).ravel()
    if isinstance(labels, np.ndarray):
        return list(labels) if labels.dtype.kind in "mM" else labels.tolist()
    series = as_series(labels)
    if series is not None:
        return series.to_list()
    try:
        return list(labels)
    except TypeError:
        raise DataError(f"{role} of type {type(labels).__name__} is not a sequence: pass one label per row.") from None


def free_name(default: str, taken: Sequence[str]) -> str:
    """A default name gives way to columns that have it."""
    while default in taken:
        default += "_"
    return default


def checked_names(feature_names: Sequence[str], p: int) -> list[str]:
    """Names for the p columns of an array, checked."""
    if isinstance(feature_names, str):
        raise DataError(f"feature_names={feature_names!r} is a single string: pass a list of {p} names.")
    names = [str(name) for name in feature_names]
    if len(names) != p:
        raise DataError(f"feature_names has {len(names)} names but X has {p} columns: pass one per column.")
    check_unique(names, "feature_names")
    return names


# Not 01 or +1: such text is a code, which a number would lose.
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_TRUTH = {"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"}


class Levels(NamedTuple):
    """texts: the levels as text; in_order: whether the column's type orders them, and lists some that may not occur;
    declared: whether the column's type, not its text alone, makes it a category; written: {level: how text had it}."""

    texts: tuple[str, ...]
    in_order: bool = False
    declared: bool = False
    written: Mapping[str, frozenset[str]] = {}


def as_text(level: object) -> str:
    """A level as text. Text that is a number is the level of that number, so that a file, of which text is read, and a
    table, which holds numbers, agree: 3, 3.0, "3" and "3.00" are one level, as are True and "TRUE"."""
    text = str(level)
    if isinstance(level, float) or (_DECIMAL.fullmatch(text) and not text.removeprefix("-").isdigit()):
        number = float(text)
        return str(int(number)) if number.is_integer() else str(number)
    return _TRUTH.get(text, text)


def in_natural_order(texts: Iterable[str]) -> list[str]:
    """By value where all are numbers, else by letters."""
    listed = list(texts)
    return sorted(listed, key=lambda text: (float(text), text)) if all(map(reads_as_number, listed)) else sorted(listed)


def occurring(codes: Floats, levels: Levels) -> list[str]:
    """The levels that some of the codes (N,) stand for, in their order."""
    return [levels.texts[int(k)] for k in np.unique(codes[~np.isnan(codes)])]


def check_levels(name: str, levels: Levels) -> None:
    """Raise when two levels of a column would look alike in print, or text that differs would be one level."""
    check_distinct_labels(levels.texts, f"column {name!r}", "levels")
    for text in levels.texts:
        ways = sorted(levels.written.get(text, ()))
        if len(ways) > 1:
            raise DataError(
                f"column {name!r}: {ways[0]!r} and {ways[1]!r} are the same number or truth value. Write them in the "
                "same way if they are one level, and give them names that are no numbers if they are two."
            )


def joined(first: Levels | None, second: Levels) -> Levels:
    """Levels of two pieces of a column: in the order of their type, else in the natural one."""
    if first is None:
        return second
    texts = dict.fromkeys(first.texts + second.texts)
    in_order = first.in_order and second.in_order
    written = {
        text: first.written.get(text, frozenset()) | second.written.get(text, frozenset())
        for text in {**first.written, **second.written}
    }
    ordered = tuple(texts if in_order else in_natural_order(texts))
    return Levels(ordered, in_order, first.declared or second.declared, written)


def recoded(
    codes: Floats, texts: tuple[str, ...], wanted: tuple[str, ...], absent: Collection[str] = ()
) -> tuple[Floats, str]:
    """Positions in the wanted levels from positions in others, 0 for unknown or absent ones; which these are, in how
    many rows. A missing value stays one."""
    if texts == wanted and not absent:
        return codes, ""
    position = {text: float(k) for k, text in enumerate(wanted) if text not in absent}
    lookup = np.array([*(position.get(text, 0.0) for text in texts), np.nan])
    present = ~np.isnan(codes)
    places = np.where(present, codes, len(texts)).astype(np.intp)
    counts = np.bincount(places[present], minlength=len(texts))
    strange = [0 if text in position else count for text, count in zip(texts, counts, strict=True)]
    return lookup[places], with_counts(texts, strange)
