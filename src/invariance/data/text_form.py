"""How the text of a table is written: what separates its cells, and what begins decimals.

What can be read in two ways is refused with both of them: a guess would be a wrong number that looks right.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..exceptions import DataError

SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_WHOLE = re.compile(rf"[+-]?\d+{_EXPONENT}")
_WITH_POINT = re.compile(rf"[+-]?(?:\d+\.\d*|\.\d+){_EXPONENT}")
_WITH_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")
# Thousands by their look. One group alone may be decimals too; a leading 0 is no thousand.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "n/a", "<NA>", "#N/A"})

Record = list[str]


class TextForm(NamedTuple):
    sep: str
    decimal: str
    encoding: str


def records(text: str, sep: str) -> list[Record]:
    """The lines of a text that are not blank, in cells; none where it cannot be taken apart."""
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True)
        return [line for line in lines if line]
    except csv.Error:
        return []


def recognised_separator(text: str, usual: str, file: str) -> str:
    """The sign that cuts all lines into equally many cells, at least two; `usual` where none does."""
    fitting = [sep for sep in SEPARATOR_NAMES if _equal_width(records(text, sep)) >= 2]
    if len(fitting) > 1:
        header = text.splitlines()[0]
        names = " or ".join(SEPARATOR_NAMES[sep] for sep in fitting)
        remedies = " or ".join(f"read_table(path, sep={_typed(sep)!r})" for sep in fitting)
        raise DataError(
            f"the cells of {file} may be separated by {names} ({header[:60]!r}): say with {remedies} which."
        )
    return fitting[0] if fitting else usual


def _equal_width(lines: Sequence[Record]) -> int:
    widths = {len(line) for line in lines}
    return widths.pop() if len(widths) == 1 else 0


def _typed(sep: str) -> str:
    return "tab" if sep == "\t" else sep


def recognised_decimal(lines: Sequence[Record], file: str, na: Sequence[str] = ()) -> tuple[str, str] | None:
    """(column, cell) of a number that is written with a decimal comma, where all decimals are; else None."""
    commas, points = _decimals(lines, _MISSING.union(na))
    cells = [(column, cell) for column, found in commas.items() for cell in found]
    if not cells:
        return None
    if points:
        (comma, a), (point, b) = cells[0], next((column, found[0]) for column, found in points.items())
        raise DataError(
            f"{file} holds numbers with a comma, {a!r} in {comma!r}, and numbers with a point, {b!r} in {point!r}: say "
            "which sign begins decimals, read_table(path, decimal=',') or read_table(path, decimal='.'); columns with "
            "the other one are text then."
        )
    clear = [found for found in cells if not _GROUPED.fullmatch(found[1])]
    if clear:
        return clear[0]
    column, cell = cells[0]
    decimals, thousands = cell.replace(",", ".", 1), cell.replace(",", "")
    raise DataError(
        f"{cell!r} in column {column!r} of {file} may be {decimals} or {thousands}: if it is {decimals}, say so with "
        f"read_table(path, decimal=','); if it is {thousands}, write such numbers without commas."
    )


def _decimals(lines: Sequence[Record], missing: frozenset[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """{column: its cells with a comma}, and the same with a point, of columns that hold nothing but numbers."""
    commas: dict[str, list[str]] = {}
    points: dict[str, list[str]] = {}
    if not lines:
        return commas, points
    header, *body = lines
    for j, name in enumerate(header):
        cells = [text for line in body if j < len(line) and (text := line[j].strip()) not in missing]
        found = [cell for cell in cells if _WITH_COMMA.fullmatch(cell) or _GROUPED.fullmatch(cell)]
        others = [cell for cell in cells if _WITH_POINT.fullmatch(cell)]
        if len(found) + len(others) + sum(1 for cell in cells if _WHOLE.fullmatch(cell)) == len(cells):
            commas |= {name: found} if found else {}
            points |= {name: others} if others else {}
    return commas, points


def number_with_comma(text: str) -> bool:
    return bool(_WITH_COMMA.fullmatch(text) or _GROUPED.fullmatch(text))
