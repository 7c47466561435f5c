"""Levels of a column: which values are the same one, and the order they come in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError
from .checks import check_distinct_labels, with_counts
from .columns import reads_as_number

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
