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
from .number_text import EXPONENT

SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WHOLE = re.compile(rf"[+-]?\d+{EXPONENT}")
_WITH_POINT = re.compile(rf"[+-]?(?:\d+\.\d*|\.\d+){EXPONENT}")
_WITH_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){EXPONENT}")
# Thousands by their look, which may be decimals too; a leading 0 is no thousand.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
_HUNDREDS = re.compile(r"[+-]?[1-9]\d{2,}")
_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "n/a", "<NA>", "#N/A"})
# The line that some programs put before the header.
_SEP_LINE = re.compile(r"\ufeff?\"?sep=(?P<sep>[^\r\n])\"?\r?\n", re.IGNORECASE)

Record = list[str]


class TextForm(NamedTuple):
    """As pandas.read_csv takes it."""

    sep: str
    decimal: str
    encoding: str
    skiprows: int = 0


def stated_separator(text: str) -> tuple[str | None, str]:
    """The sign that a first line `sep=;` names, None without such a line; and the text after it."""
    line = _SEP_LINE.match(text)
    return (None, text) if line is None else (line["sep"], text[line.end() :])


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


def recognised_decimal(
    lines: Sequence[Record], file: str, na: Sequence[str] = (), sep: str = ","
) -> tuple[str, str] | None:
    """(column, cell) of a number that is written with a decimal comma, where all decimals are; else None."""
    commas, points, hundreds = _decimals(lines, _MISSING.union(na))
    clear_commas, clear_points = _clear(commas), _clear(points)
    if commas and points:
        if clear_commas and not clear_points:
            raise _may_be_thousands(points[0], file, f"beside decimal commas, such as {clear_commas[0][1]!r}")
        if clear_points and not clear_commas:
            raise _may_be_thousands(commas[0], file, f"beside decimal points, such as {clear_points[0][1]!r}")
        (comma, a), (point, b) = commas[0], points[0]
        raise DataError(
            f"{file} holds numbers with a comma, {a!r} in {comma!r}, and numbers with a point, {b!r} in {point!r}: say "
            "which sign begins decimals, read_table(path, decimal=',') or read_table(path, decimal='.'); columns with "
            "the other one are text then."
        )
    if clear_commas:
        return clear_commas[0]
    if commas:
        raise _decimals_or_thousands(commas[0], file)
    doubted = [found for found in points if sep == ";" or found[0] in hundreds]
    if doubted and not clear_points:
        raise _decimals_or_thousands(doubted[0], file)
    return None


Cell = tuple[str, str]  # the name of its column, and the text


def _clear(cells: Sequence[Cell]) -> list[Cell]:
    """Those that cannot be thousands."""
    return [found for found in cells if not _GROUPED.fullmatch(found[1])]


def _decimals_or_thousands(found: Cell, file: str) -> DataError:
    column, cell = found
    sign = "," if "," in cell else "."
    decimals, thousands = cell.replace(sign, "."), cell.replace(sign, "")
    return DataError(
        f"{cell!r} in column {column!r} of {file} may be {decimals} or {thousands}: if it is {decimals}, say so with "
        f"read_table(path, decimal={sign!r}); if it is {thousands}, with read_table(path, thousands={sign!r}) instead."
    )


def _may_be_thousands(found: Cell, file: str, beside: str) -> DataError:
    column, cell = found
    sign = "," if "," in cell else "."
    return DataError(
        f"{cell!r} in column {column!r} of {file} stands {beside}: if it is {cell.replace(sign, '')}, say so with "
        f"read_table(path, thousands={sign!r}); if not, write all decimals with the same sign."
    )


def _decimals(lines: Sequence[Record], missing: frozenset[str]) -> tuple[list[Cell], list[Cell], set[str]]:
    """The cells with a comma and those with a point, of columns that hold nothing but numbers; and the columns that
    hold whole numbers from 100 on."""
    commas: list[Cell] = []
    points: list[Cell] = []
    hundreds: set[str] = set()
    if not lines:
        return commas, points, hundreds
    header, *body = lines
    for j, name in enumerate(header):
        cells = [text for line in body if j < len(line) and (text := line[j].strip()) not in missing]
        found = [cell for cell in cells if _WITH_COMMA.fullmatch(cell)]
        others = [cell for cell in cells if _WITH_POINT.fullmatch(cell)]
        if len(found) + len(others) + sum(1 for cell in cells if _WHOLE.fullmatch(cell)) == len(cells):
            commas += [(name, cell) for cell in found]
            points += [(name, cell) for cell in others]
            hundreds |= {name} if any(map(_HUNDREDS.fullmatch, cells)) else set()
    return commas, points, hundreds


def number_with_comma(text: str) -> bool:
    return bool(_WITH_COMMA.fullmatch(text))
