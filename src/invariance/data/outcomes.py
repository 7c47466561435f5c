"""The outcome as people have it: numbers, or two classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError
from .checks import quoted
from .columns import array_values, as_frame, as_series, frame_names, present_values, reads_as_number, series_values
from .levels import in_natural_order

Classes = tuple[Hashable, Hashable]


@dataclass(frozen=True, eq=False)
class Outcome:
    """values (N,): numbers, NaN where missing; classes: what 0 and 1 stand for, where the values were no numbers;
    beside: {role: (name, values (N,))} of what comes with them."""

    name: str
    values: Floats
    classes: Classes | None = None
    beside: Mapping[str, tuple[str, Floats]] = field(default_factory=dict)

    def with_beside(self, beside: Mapping[str, tuple[str, Floats]]) -> Outcome:
        return replace(self, beside=beside)


def read_outcome(series: Any, name: str, in_table: bool = True) -> Outcome:
    """Of a narwhals series, a column of a table or what was given as y. Text, categories and truth values count 0 and
    1, in their order, where they are two."""
    import narwhals as nw

    present = [] if series.dtype.is_numeric() or series.dtype.is_temporal() else present_values(series)
    if not present or not all(isinstance(value, Hashable) for value in present):
        return Outcome(name, series_values(series, name, "outcome"))
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return Outcome(name, series_values(series, name, "outcome"), (False, True))
    declared = series.dtype in (nw.Categorical, nw.Enum)
    found = in_order(set(present), series)
    numbers = [reads_as_number(value) for value in found]
    no_numbers = not any(numbers) or (all(numbers) and not any(isinstance(value, Real) for value in found))
    if len(found) == 2 and (declared or no_numbers):
        return Outcome(name, _positions(series, found), (found[0], found[1]))
    if len(found) > 2 and not any(numbers):
        raise DataError(
            f"outcome {name!r} has {len(found)} classes, {quoted(found, 4)}, and a model tells two apart. Compare one "
            f"of them with the rest: {comparison(series, name if in_table else None, 'y', found[0])}"
        )
    return Outcome(name, series_values(series, name, "outcome"))


def outcome_of(y: Any, name: str = "y") -> Outcome:
    """Of an array, a list, a series or a data frame of one column; name: what the outcome is called."""
    series, called = one_series(y, "y")
    if series is None and not has_classes(y):
        return Outcome(name, one_column(array_values(y, "y"), "y", "outcome"))
    found = read_outcome(as_one_series(y, "y", "outcome") if series is None else series, called, in_table=False)
    return replace(found, name=name)


def has_classes(y: Any) -> bool:
    """Whether an outcome is text, categories or truth values, and not numbers."""
    import narwhals as nw

    series, _ = one_series(y, "y")
    if series is not None:
        return bool(series.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean))
    try:
        array = np.asarray(y)
    except (ValueError, TypeError):
        return False
    words = array.dtype.kind == "O" and array.ndim > 0 and any(isinstance(v, (str, bool)) for v in array.ravel()[:1])
    return array.dtype.kind in "bU" or words


def two_values(y: Floats) -> tuple[float, float] | None:
    """The lower and the higher one, where numbers (N,) have just two; else None."""
    low, high = float(y.min()), float(y.max())
    return (low, high) if low < high and ((y == low) | (y == high)).all() else None


def class_note(classes: Classes | None, outcome: str) -> tuple[str, ...]:
    """A sentence about what 1 and 0 stand for."""
    return () if classes is None else (f"outcome {outcome}: {in_words(classes[1])} against {in_words(classes[0])}.",)


def in_words(value: Hashable) -> str:
    """A class as it is said: text in quotes, numbers without a needless 0."""
    is_number = isinstance(value, float)
    return f"{value:g}" if is_number else repr(value)


def in_order(values: Iterable[Any], series: Any) -> list[Any]:
    """In the order that the type of a column gives them, else by value or by letters."""
    import narwhals as nw

    distinct = set(values)
    if series.dtype == nw.Enum:
        return [value for value in series.dtype.categories if value in distinct]
    categories = getattr(getattr(series.to_native(), "cat", None), "categories", None)
    if categories is not None:
        return [value for value in categories.tolist() if value in distinct]
    if all(isinstance(value, str) for value in distinct):
        return in_natural_order(distinct)
    return sorted(distinct) if all(isinstance(value, Real) for value in distinct) else sorted(distinct, key=str)


def comparison(series: Any, column: str | None, argument: str, value: Any) -> str:
    """A line that makes True and False of a column of a table, as it is typed for its library, or of an argument."""
    if column is None:
        return f"{argument} = np.asarray({argument}) == {value!r}"
    equal = f"table[{column!r}] == {value!r}"
    in_pandas = hasattr(series.to_native(), "astype")
    return f"table[{column!r}] = {equal}" if in_pandas else f"table = table.with_columns({equal})"


def one_series(values: Any, name: str) -> tuple[Any | None, str]:
    """A narwhals series, or the only column of a data frame, and its name; None for anything else."""
    series = as_series(values)
    if series is not None:
        return series, str(series.name or name)
    names = None if isinstance(values, np.ndarray) else frame_names(values)
    if names is None or len(names) != 1:
        return None, name
    return as_frame(values, name)[names[0]], names[0]


def as_one_series(values: Any, name: str, what: str) -> Any:
    """A narwhals series of an array or a list."""
    import narwhals as nw

    return nw.new_series(name, one_column(np.asarray(values), name, what).tolist(), backend="pandas")


def one_column(values: Any, name: str, what: str) -> Any:
    """(N,) of an array (N,) or (N, 1)"""
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{name} has shape {values.shape}, but one {what} per row is needed: pass a single column.")
    return values


def _positions(series: Any, found: list[Any]) -> Floats:
    """(N,) where each value is among those found, NaN where it is missing"""
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return np.array([np.nan if gone else float(value == found[1]) for value, gone in pairs])
