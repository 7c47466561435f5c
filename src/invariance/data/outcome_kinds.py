"""What an outcome is, by its values: a time to event, one of two classes, a count, or any number."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .._tools.arrays import Floats
from .outcomes import Classes, in_words, two_values

# Each value of a count is shared by so many rows or more, on average.
ROWS_PER_VALUE = 2
# The mean of counts is below this share of the largest: that of a law with two like ends is half of it, whatever is
# drawn, and that of a few dozen rows of a Poisson law with mean 2 a third.
LOW = 0.4
# Sums of squares are as of two values where they leave this share of what such values have at most.
_ROUNDING = 1e-9
# At most so many other values, in at most this share of the rows, are taken for codes beside two values.
_MOST_CODES, _FEW = 3, 0.05
_GLANCE = 1000


class OutcomeKind(NamedTuple):
    """kind, and why: a clause that begins with the name of the outcome"""

    kind: Literal["time", "classes", "count", "number"]
    reason: str


def outcome_kind(
    y: Floats, name: str, event: str | None = None, exposure: str | None = None, classes: Classes | None = None
) -> OutcomeKind:
    """Of the values (N,) of an outcome; event, exposure: names of the columns that come with it.

    Two values are classes. A count is: whole numbers, none below 0, at least one 0, at least three different values,
    each of them in two rows or more on average, and a mean below 0.4 of the largest. Ages, years and marks from 1
    to 10 have no 0; a score from 0 to 10 is a count only where low values prevail. With an exposure, whole numbers are
    a count whatever they look like.
    """
    if event is not None:
        return OutcomeKind("time", f"{name} is a time, and {event} says which end with the event")
    if exposure is not None:
        return OutcomeKind("count", f"{name} is a count, and {exposure} its exposure")
    two = classes or two_values(y)
    if two is not None:
        return OutcomeKind("classes", f"{name} has two values: {in_words(two[0])} and {in_words(two[1])}")
    counted = y.min() >= 0.0 and not (y != np.rint(y)).any()
    n_values = len(np.unique(y)) if counted else None
    found = number_kind(name, len(y), float(y.min()), float(y.max()), float(y.mean()), n_values)
    return found._replace(reason=found.reason + _doubt_about_codes(y))


def _doubt_about_codes(y: Floats) -> str:
    """Where nearly all of the values (N,) are two and the others lie far from these, as codes such as 9 and -99 do."""
    if len(np.unique(y[:_GLANCE])) > 2 + _MOST_CODES:
        return ""
    values, counts = np.unique(y, return_counts=True)
    if not 2 < len(values) <= 2 + _MOST_CODES:
        return ""
    common = np.sort(np.argsort(counts, kind="stable")[-2:])
    low, high = values[common]
    codes = np.delete(values, common)
    apart = np.maximum(low - codes, codes - high)
    n_codes = len(y) - int(counts[common].sum())
    if n_codes > _FEW * len(y) or not (apart > high - low).all():
        return ""
    listed, one = " and ".join(f"{code:g}" for code in codes), len(codes) == 1
    return (
        f", but {len(y) - n_codes:,} of {len(y):,} rows are {low:g} or {high:g}: look whether {listed} "
        f"stand{'s' if one else ''} for missing values"
    )


def number_kind(name: str, n_rows: int, low: float, high: float, mean: float, n_values: int | None) -> OutcomeKind:
    """Of numbers that are not two values; n_values: how many different ones, None where not all of them are whole and
    none below 0"""
    if n_values is None:
        return OutcomeKind("number", f"{name} takes values that are no counts")
    if low > 0.0:
        return OutcomeKind("number", f"{name} is whole numbers without a 0, from {low:g} to {high:g}")
    if n_values * ROWS_PER_VALUE > n_rows:
        return OutcomeKind("number", f"{name} is whole numbers of which few are equal")
    found = f"{name} is whole numbers from 0 to {high:g}"
    if mean >= LOW * high:
        return OutcomeKind("number", f"{found}, whose mean, {mean:.3g}, is not low for a count")
    return OutcomeKind("count", f"{found}, many of them equal, with a low mean, {mean:.3g}")


def at_two_values(n_rows: int, low: float, high: float, mean: float, scatter: float) -> bool:
    """Whether numbers are all at the ends of their range: between these nothing varies as much; scatter: the sum of
    squared deviations from the mean"""
    return low < high and bool(np.isclose(scatter, n_rows * (mean - low) * (high - mean), rtol=_ROUNDING))
