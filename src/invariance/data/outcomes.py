"""The outcome as people have it: numbers, or two classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError
from .checks import quoted
from .columns import array_values, as_frame, as_series, frame_names, present_values, reads_as_number, series_values

Classes = tuple[Hashable, Hashable]


@dataclass(frozen=True, eq=False)
class Outcome:
    """values (N,): numbers, NaN where missing; classes: what 0, 1, … stand for, sorted, where the values were no
    numbers; compare: a line that makes True and False of them, by one class; beside: {role: (name, values (N,))} of
    what comes with them."""

    name: str
    values: Floats
    classes: tuple[Hashable, ...] | None = None
    compare: Callable[[Hashable], str] = str
    beside: Mapping[str, tuple[str, Floats]] = field(default_factory=dict)

    def with_beside(self, beside: Mapping[str, tuple[str, Floats]]) -> Outcome:
        return replace(self, beside=beside)

    def two_of(self, y: Floats) -> tuple[Floats, Classes | None]:
        """Of the values y (n,) that are left of these: 0 and 1, and the two classes that are among them; numbers are
        as they were."""
        if self.classes is None:
            return y, None
        found = [self.classes[int(k)] for k in np.unique(y)]
        self._refuse_other_spellings(found)
        if len(found) > 2:
            raise DataError(
                f"outcome {self.name!r} has {len(found)} classes, {quoted(found, 4)}, and a model tells two apart. "
                f"Compare one of them with the rest: {self.compare(found[0])}"
            )
        if len(found) < 2:
            raise DataError(
                f"outcome {self.name!r} is constant: every row is {quoted(found)}. Choose an outcome that varies."
            )
        return (y == y.max()).astype(np.float64), (found[0], found[1])

    def _refuse_other_spellings(self, found: Sequence[Hashable]) -> None:
        """Raise where two classes differ in capitals or blanks only."""
        seen: dict[str, Hashable] = {}
        for value in found:
            other = seen.setdefault(" ".join(str(value).casefold().split()), value)
            if other is not value:
                raise DataError(
                    f"outcome {self.name!r}: {other!r} and {value!r} count as two classes but differ in capitals or "
                    "blanks only. Write them in the same way if they are one class; if not, compare one of them with "
                    f"the rest: {self.compare(other)}"
                )


def read_outcome(series: Any, name: str, in_table: bool = True) -> Outcome:
    """Of a narwhals series, a column of a table or what was given as y. Text, categories and truth values count 0, 1,
    and so on, sorted as scikit-learn does, whatever order their type gives them."""
    import narwhals as nw

    present = [] if series.dtype.is_numeric() or series.dtype.is_temporal() else present_values(series)
    if not present or not all(isinstance(value, Hashable) for value in present):
        return Outcome(name, series_values(series, name, "outcome"))
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return Outcome(name, series_values(series, name, "outcome"), (False, True))
    declared = series.dtype in (nw.Categorical, nw.Enum)
    found = in_order(present)
    numbers = [reads_as_number(value) for value in found]
    two = len(found) == 2 and (declared or (all(numbers) and not any(isinstance(value, Real) for value in found)))
    if two or not any(numbers):
        compare = partial(comparison, series, name if in_table else None, "y")
        return Outcome(name, _positions(series, found), tuple(found), compare)
    return Outcome(name, series_values(series, name, "outcome"))


def outcome_of(y: Any, name: str = "y") -> Outcome:
    """Of an array, a list, a series or a data frame of one column; name: what the outcome is called."""
    series, called = one_series(y, "y")
    if series is None and not has_classes(y):
        return Outcome(name, one_column(array_values(y, "y"), "y", "outcome"))
    found = read_outcome(as_one_series(y, "y", "outcome") if series is None else series, called, in_table=False)
    return replace(found, name=name)


def named_like(given: Any, values: Any) -> Any:
    """Values (N,) as a series with the name of what was given, if that has one."""
    import pandas as pd

    series, name = one_series(given, "y")
    return values if series is None or not isinstance(values, np.ndarray) else pd.Series(values, name=name)


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
    words = array.dtype.kind == "O" and any(isinstance(value, (str, bool, np.bool_)) for value in array.ravel())
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


def in_order(values: Iterable[Any]) -> list[Any]:
    """Each once, by value or by letters."""
    distinct = set(values)
    alike = any(all(isinstance(value, kind) for value in distinct) for kind in (str, Real))
    return sorted(distinct) if alike else sorted(distinct, key=str)


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
        return series, name if series.name in (None, "") else str(series.name)
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
    """(N,) the place of each value among those found, NaN where it is missing"""
    places = {value: float(k) for k, value in enumerate(found)}
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return np.array([np.nan if gone else places[value] for value, gone in pairs])
