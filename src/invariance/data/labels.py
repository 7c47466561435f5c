"""Labels of environments and levels of categories: one reading of what tables say, whichever way
they come in."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from .._tools.arrays import Labels, Names, Places
from ..exceptions import DataError
from .checks import alike, listing, warn


def label_of(value: Any) -> Hashable:
    """Text without the blanks around it; numbers and dates as plain ones of Python; periods of
    pandas as text; None where missing or empty."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.astype(f"{value.dtype.kind}8[us]")
    label: Hashable = value.item() if isinstance(value, np.generic) else value
    if type(label).__name__ == "Period":
        return str(label)
    missing = label is None or type(label).__name__ in ("NAType", "NaTType")
    return None if missing or label != label else label  # NaN is not equal to itself


_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+", re.ASCII)


def level_of(value: Any) -> str:
    """A level as text: whole numbers without a fraction, so that 3 and 3.0 are one, as numbers and
    as text."""
    label = label_of(value)
    if isinstance(label, str):
        return _WHOLE_NUMBER.sub(r"\1", label) if _WHOLE_NUMBER.fullmatch(label) else label
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def encode_labels(values: Sequence[Hashable]) -> tuple[Places, Labels]:
    """Codes (N,) into the labels, -1 where missing; and the labels in order of first appearance"""
    try:
        index = {value: place for place, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        row = next(row for row, value in enumerate(values) if not isinstance(value, Hashable))
        raise DataError(
            f"label in row {row} is not hashable ({type(values[row]).__name__} "
            f"{values[row]!r}). Use strings, numbers or tuples."
        ) from None
    raw = [index[value] for value in values]
    places: dict[Hashable, int] = {}
    recode = [
        -1 if label is None else places.setdefault(label, len(places))
        for label in map(label_of, index)
    ]
    return np.array(recode, np.intp)[np.array(raw, np.intp)], tuple(places)


def in_natural_order(texts: Iterable[str]) -> list[str]:
    """By value where all are numbers, else by letters."""
    listed = list(texts)
    try:
        return sorted(listed, key=lambda text: (float(text), text))
    except ValueError:
        return sorted(listed)


def written_values(values: Iterable[Any]) -> frozenset[Hashable]:
    """What labels or levels are made of, without missing values"""
    return frozenset(value for value in set(values) if label_of(value) is not None)


def tell_alike(values: Iterable[Hashable], column: str | None, what: str = "environment") -> Names:
    """Warn of different values in a column that are one label or level; the sentence, if there is
    one"""
    groups = alike(
        list(written_values(values)),
        level_of if what == "level" else lambda value: str(label_of(value)),
    )
    if not groups:
        return ()
    told = sorted(
        " and ".join(sorted(map(ascii, group), key=lambda text: (len(text), text)))
        for group in groups
    )
    sentence = (
        f"{'environments' if column is None else f'column {column!r}'}: {listing(told)} "
        f"are one {what}."
    )
    warn(sentence)
    return (sentence,)


def label_to_plain(label: Hashable) -> Any:
    """Text, numbers and truth values as they are; dates and tuples as {type: content}"""
    label = label.item() if isinstance(label, np.generic) else label
    kind = type(label).__name__.casefold()
    if (
        label is None
        or kind in ("str", "int", "bool")
        or (isinstance(label, float) and math.isfinite(label))
    ):
        return label
    if isinstance(label, date):  # also a datetime, and a Timestamp of pandas
        return {kind: label.isoformat()}
    if kind == "tuple" and isinstance(label, tuple):
        return {kind: list(map(label_to_plain, label))}
    raise DataError(
        f"the label {label!r} of type {kind} cannot be stored: use text, numbers or dates."
    )


def label_from_plain(plain: Any) -> Hashable:
    """KeyError, TypeError or ValueError where it is no label."""
    if isinstance(plain, list):
        raise TypeError("a label is a list")
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "timestamp":
        import pandas as pd

        return pd.Timestamp(content)
    if kind == "tuple":
        return tuple(map(label_from_plain, content))
    return {"date": date, "datetime": datetime}[kind].fromisoformat(content)
