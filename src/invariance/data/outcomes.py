"""The outcome as people have it: numbers, or two classes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from scipy.special import betainc, gammainc

from .._tools.arrays import Fields, Floats, Labels
from ..exceptions import DataError, Message, SettingError, use
from .checks import listing
from .columns import (
    are_truths,
    as_frame,
    as_series,
    frame_names,
    is_number,
    mapped,
    present_values,
    series_values,
)
from .reading import number_formats, reads_as_number

Classes = tuple[Hashable, Hashable]


@dataclass(frozen=True, eq=False)
class Outcome:
    """values (N,): numbers, NaN where missing; classes: what 0, 1, … stand for, sorted, where they
    were no numbers"""

    name: str
    values: Floats
    classes: Labels | None = None

    def two_of(self, y: Floats) -> tuple[Floats, Classes | None]:
        """Of the values y (n,) that are left of these: 0 and 1, and the two classes that are among
        them; numbers are as they were."""
        if self.classes is None:
            return y, None
        found = [self.classes[int(k)] for k in np.unique(y)]
        told = listing(map(repr, found), 4)
        if len({" ".join(str(value).casefold().split()) for value in found}) < len(found):
            raise DataError(
                f"outcome {self.name!r} has classes that differ in capitals or blanks only, "
                f"{told}: write them in the same way."
            )
        if len(found) != 2:
            _refuse_numbers_as_text(found, self.name)
            raise DataError(
                f"outcome {self.name!r} has {len(found)} classes, {told}, and a model needs "
                f"two. Compare one with the rest: make a column of {self.name} == "
                f"{found[0]!r} the outcome."
            )
        return (y == y.max()).astype(np.float64), (found[0], found[1])


def read_outcome(series: Any, name: str) -> Outcome:
    """Of a narwhals series, a column of a table or what was given as y. Text, categories and truth
    values count 0, 1, and so on, sorted as scikit-learn does, whatever order their type gives
    them."""
    present = (
        [] if series.dtype.is_numeric() or series.dtype.is_temporal() else present_values(series)
    )
    if not present or any(
        isinstance(value, complex) or not isinstance(value, Hashable) for value in present
    ):
        return Outcome(name, series_values(series, name, "outcome"))
    if are_truths(present):
        return Outcome(name, series_values(series, name, "outcome"), (False, True))
    declared = series.dtype in (nw.Categorical, nw.Enum)
    found = in_order(present)
    numbers = [reads_as_number(value) for value in found]
    two = len(found) == 2 and (
        declared or (all(numbers) and not any(isinstance(value, Real) for value in found))
    )
    if two or not any(numbers):
        places = {value: float(k) for k, value in enumerate(found)}
        return Outcome(name, mapped(series, places.__getitem__), tuple(found))
    _refuse_numbers_as_text(found, name)
    return Outcome(name, series_values(series, name, "outcome"))


def _refuse_numbers_as_text(found: Sequence[Hashable], name: str) -> None:
    """Raise where different values are numbers in a form that can be stated."""
    texts = [value for value in found if isinstance(value, str)]
    formats = number_formats(texts) if len(texts) == len(found) else []
    if formats:
        example = next(text for text in texts if not reads_as_number(text))
        raise DataError(
            f"outcome {name!r} holds numbers stored as text (for example {example!r})", *formats
        )


def outcome_of(y: Any, name: str = "y") -> Outcome:
    """Of what `as_column` takes; name: what the outcome is called."""
    plain = type(y) is np.ndarray and y.ndim == 1 and y.dtype == np.float64  # no masked array
    return Outcome(name, y) if plain else read_outcome(as_column(y, "y")[0], name)


def named_like(given: Any, values: Any) -> Any:
    """Values (N,) as a series with the name of what was given, if that has one."""
    import pandas as pd

    series, name = one_series(given, "y")
    index = getattr(given, "index", None) if isinstance(given, pd.Series | pd.DataFrame) else None
    return (
        values
        if series is None or not isinstance(values, np.ndarray)
        else pd.Series(values, index, name=name)
    )


def has_classes(y: Any) -> bool:
    """Whether an outcome is text, categories or truth values, and not numbers."""
    if type(y) is np.ndarray and y.dtype.kind in "iuf":
        return False
    with suppress(TypeError, ValueError):
        series, _ = as_column(y, "y")
        mixed = series.to_list() if series.dtype in (nw.Object, nw.Unknown) else ()
        words = any(isinstance(value, (str, bool, np.bool_)) for value in mixed)
        return words or series.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean)
    return False


def two_values(y: Floats) -> tuple[float, float] | None:
    """The lower and the higher one, where numbers (N,) have just two; else None."""
    low = float(y.min())
    high = float(y.max())
    return (low, high) if low < high and ((y == low) | (y == high)).all() else None


def class_in_words(value: Hashable) -> str:
    """A class as it is said: text in quotes, numbers without a needless 0."""
    return f"{value:g}" if isinstance(value, float) else repr(value)


def in_order(values: Iterable[Any]) -> list[Any]:
    """Each once, by value or by letters."""
    distinct = set(values)
    alike = any(all(isinstance(value, kind) for value in distinct) for kind in (str, Real))
    return sorted(distinct) if alike else sorted(distinct, key=str)


def one_series(values: Any, name: str) -> tuple[Any | None, str]:
    """A narwhals series, or the only column of a data frame, and its name; None for anything
    else."""
    series = as_series(values)
    if series is not None:
        return series, name if series.name in (None, "") else str(series.name)
    names = None if isinstance(values, np.ndarray) else frame_names(values)
    if names is None or len(names) != 1:
        return None, name
    return as_frame(values, name)[names[0]], names[0]


def as_column(values: Any, role: str) -> tuple[Any, str]:
    """A narwhals series and its name, of a series, a data frame of one column, an array (N,) or (N,
    1), or a list"""
    if isinstance(values, (str, bytes)):
        raise DataError(
            f"{role}={values!r} is a single string: pass one value per row, as "
            f"{role}=table[{values!r}]."
        )
    series, name = one_series(values, role)
    if series is None:
        try:
            array = values if isinstance(values, np.ndarray) else np.asarray(values)
        except ValueError:
            raise DataError(
                f"{role} is not rectangular: give every row the same number of values."
            ) from None
        array = array[:, 0] if array.shape[1:] == (1,) else array
        if array.ndim != 1:
            raise DataError(
                f"{role} has shape {array.shape}, but one value per row is needed: pass a single "
                "column."
            )
        series = nw.new_series(role, array, backend="pandas")
    return series, name


def stated(event: Any, exposure: Any) -> Fields:
    """{role: what was given for it}; raises where both are."""
    if event is not None and exposure is not None:
        raise SettingError(
            "event is for times and exposure for counts, and both were given: leave one of them "
            "out."
        )
    return {
        role: given
        for role, given in (("event", event), ("exposure", exposure))
        if given is not None
    }


def read_outcome_column(series: Any, name: str, role: str) -> Floats:
    """(N,) of a narwhals series: events as 0 and 1, or exposures; NaN where missing"""
    present = present_values(series)
    if is_number(series.dtype) or are_truths(present):
        values = series_values(series, name)
        if role == "exposure" or np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
            return values
    if role == "exposure":
        raise DataError(
            f"exposure {name!r} holds {present[0]!r}: it must be numbers, how much was watched."
        )
    found = in_order(present)
    raise DataError(
        f"event {name!r} must be 1 or True where the event occurred, else 0 or False, but "
        f"holds {listing(map(repr, found), 4)}. Say which of them is the event, as {name} "
        f"== {found[-1]!r} does."
    )


def outcome_column(values: Any, role: str) -> tuple[str, Floats]:
    """The name of a series, or the role, and (N,) as `read_outcome_column`, of an array, a list or
    a series"""
    series, name = as_column(values, role)
    return name, read_outcome_column(series, name, role)


# Each value of a count is shared by so many rows or more, on average.
ROWS_PER_VALUE = 2
# The mean of counts is below this share of the largest: that of a law with two like ends is half of
# it, whatever is drawn, and that of a few dozen rows of a Poisson law with mean 2 a third.
LOW = 0.4
# Sums of squares are as of two values where they leave this share of what such values have at most.
_SQUARES_ROUNDING = 1e-9


# Grades have at most this many values: a score from 0 to 10.
MAX_GRADES = 11
# Values are grades, not a count, if this many rows of such a count would be above all of them: 1 in
# 200 simulated counts is doubted.
EXPECTED_ABOVE = 5.0
_GRADES = re.compile(
    r"(?i)(^|[\W_])(grades?|stages?|scores?|scale|severity|class|level|category|nyha|asa|ecog|mrs)$"
)


class OutcomeKind(NamedTuple):
    """kind, and why: a clause that begins with the name of the outcome; doubt : a question about
    it, or None"""

    kind: Literal["time", "classes", "count", "number"]
    reason: str
    doubt: Message | None = None


def outcome_kind(
    y: Floats,
    name: str,
    event: str | None = None,
    exposure: str | None = None,
    classes: Classes | None = None,
) -> OutcomeKind:
    """Of the values (N,) of an outcome; event, exposure: names of the columns that come with it.
    Two values are classes. A count is: whole numbers from 0 on, each in two rows or more on
    average, with a mean below 0.4 of the largest. Ages and marks from 1 to 10 have no 0; a score
    from 0 to 10 is one where low values prevail."""
    if event is not None:
        return OutcomeKind("time", f"{name} is a time, and {event} says which end with the event")
    if exposure is not None:
        return OutcomeKind("count", f"{name} is a count, and {exposure} its exposure")
    two = classes or two_values(y)
    if two is not None:
        return OutcomeKind(
            "classes",
            f"{name} has two values: {class_in_words(two[0])} and {class_in_words(two[1])}",
        )
    n_values = len(np.unique(y)) if y.min() >= 0.0 and not (y != np.rint(y)).any() else None
    ends = float(y.min()), float(y.max())
    return number_kind(name, len(y), *ends, float(y.mean()), float(y.var()), n_values)


def rows_above(n_rows: int, mean: float, variance: float, high: float) -> float:
    """Return how many rows are expected above the largest value if values are a count with this
    mean and variance: negative binomial, or Poisson if the variance is not larger."""
    more = variance - mean
    beyond = high + 1.0
    if more <= 0.0:
        return n_rows * float(gammainc(beyond, mean))
    return n_rows * float(betainc(beyond, mean**2 / more, more / (more + mean)))


def number_kind(
    name: str,
    n_rows: int,
    low: float,
    high: float,
    mean: float,
    variance: float,
    n_values: int | None,
) -> OutcomeKind:
    """Of numbers that are not two values; n_values: how many different ones, None where not all of
    them are whole and none below 0"""
    if n_values is None or low > 0.0:
        return OutcomeKind(
            "number", f"{name} takes values from {low:g} to {high:g} that are no counts from 0 on"
        )
    found = f"{name} is whole numbers from 0 to {high:g} with mean {mean:.3g}"
    if n_values * ROWS_PER_VALUE > n_rows or mean >= LOW * high:
        return OutcomeKind("number", f"{found}, too few of them low and equal for a count")
    kind = OutcomeKind("count", f"{found}, many of them equal")
    if n_values > MAX_GRADES:
        return kind
    like_a_count = rows_above(n_rows, mean, variance, high) < EXPECTED_ABOVE
    if like_a_count and not _GRADES.search(name):
        return kind
    doubt = Message(
        f"{name!r} takes only the values 0 to {high:g}, as grades do: make a column of {name} > 0 "
        "the outcome in its place, unless it is a count",
        use(family="negative_binomial"),
    )
    return kind._replace(doubt=doubt)


def at_two_values(n_rows: int, low: float, high: float, mean: float, scatter: float) -> bool:
    """Whether numbers are all at the ends of their range: between these nothing varies as much;
    scatter: the sum of squared deviations from the mean"""
    return low < high and bool(
        np.isclose(scatter, n_rows * (mean - low) * (high - mean), rtol=_SQUARES_ROUNDING, atol=0.0)
    )
