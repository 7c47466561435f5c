"""Encodings and labels of environments as strict JSON, without loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..exceptions import DataError
from .encoding import Encoding
from .terms import Dummies, Numbers, SplineBasis, Term


def encoding_to_plain(encoding: Encoding | None) -> dict[str, Any] | None:
    if encoding is None:
        return None
    return {
        "columns": list(encoding.columns),
        "members": [[name, [_term(term) for term in terms]] for name, terms in encoding.members],
        "read_as_numbers": sorted(encoding.read_as_numbers),
    }


def encoding_from_plain(content: dict[str, Any] | None) -> Encoding | None:
    if content is None:
        return None
    members = tuple((name, tuple(map(_as_term, terms))) for name, terms in content["members"])
    return Encoding(tuple(content["columns"]), members, frozenset(content["read_as_numbers"]))


def _term(term: Term) -> dict[str, Any]:
    match term:
        case Numbers(column):
            return {"column": column}
        case Dummies(column, levels, absent):
            return {"column": column, "levels": list(levels), "absent": sorted(absent)}
        case SplineBasis(column, knots):
            return {"column": column, "knots": list(knots)}


def _as_term(content: dict[str, Any]) -> Term:
    if "levels" in content:
        return Dummies(content["column"], tuple(content["levels"]), frozenset(content["absent"]))
    if "knots" in content:
        return SplineBasis(content["column"], tuple(map(float, content["knots"])))
    return Numbers(content["column"])


class _Tagged(NamedTuple):
    """A type that JSON has no words for"""

    type: type
    written: Callable[[Any], Any]
    read: Callable[[Any], Hashable]


_TAGGED = {
    "number": _Tagged(float, str, float),  # one that is not finite
    "decimal": _Tagged(Decimal, str, Decimal),
    "date": _Tagged(date, date.isoformat, date.fromisoformat),
    "datetime": _Tagged(datetime, datetime.isoformat, datetime.fromisoformat),
    "timestamp": _Tagged(pd.Timestamp, pd.Timestamp.isoformat, pd.Timestamp),
    "time": _Tagged(time, time.isoformat, time.fromisoformat),
    "microseconds": _Tagged(timedelta, lambda span: span // timedelta(microseconds=1), lambda n: timedelta(0, 0, n)),
    "tuple": _Tagged(tuple, lambda labels: [label_to_plain(label) for label in labels], lambda plain: _tuple(plain)),
}


def label_to_plain(label: Hashable) -> Any:
    """Text, numbers and truth values as they are; of other types {type: text}"""
    label = label.item() if isinstance(label, np.generic) else label
    kind = type(label)
    if label is None or kind in (str, int, bool) or (isinstance(label, float) and math.isfinite(label)):
        return label
    for tag, tagged in _TAGGED.items():
        if tagged.type is kind:
            return {tag: tagged.written(label)}
    raise DataError(
        f"the label {label!r} of an environment is of the type {kind.__name__}, which cannot be stored: use text, "
        "numbers, dates, or tuples of these as labels."
    )


def label_from_plain(plain: Any) -> Hashable:
    """KeyError, TypeError or ValueError where it is no label."""
    if isinstance(plain, list):
        raise TypeError("a label is a list")
    if not isinstance(plain, dict):
        return plain
    (tag, content), *more = plain.items()
    if more:
        raise ValueError(f"a label of the types {list(plain)}")
    return _TAGGED[tag].read(content)


def _tuple(plain: list[Any]) -> Hashable:
    return tuple(map(label_from_plain, plain))
