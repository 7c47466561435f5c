"""How the text of a table is written, and what separates its cells.

What can be read in two ways is refused with both of them: a guess would be a wrong number that looks right.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..exceptions import DataError
from .number_text import EXPONENT

SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WITH_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){EXPONENT}")
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


def records(lines: Iterable[str], sep: str) -> Iterator[Record]:
    """Lines that are not blank, in cells; csv.Error where they cannot be taken apart."""
    return filter(None, csv.reader(lines, delimiter=sep, skipinitialspace=True))


def recognised_separator(text: str, usual: str, file: str) -> str:
    """The sign that cuts all lines into equally many cells, at least two; `usual` where none does."""
    fitting = [sep for sep in SEPARATOR_NAMES if _equal_width(text, sep) >= 2]
    if len(fitting) > 1:
        header = text.splitlines()[0]
        names = " or ".join(SEPARATOR_NAMES[sep] for sep in fitting)
        remedies = " or ".join(f"read_table(path, sep={_typed(sep)!r})" for sep in fitting)
        raise DataError(
            f"the cells of {file} may be separated by {names} ({header[:60]!r}): say with {remedies} which."
        )
    return fitting[0] if fitting else usual


def _equal_width(text: str, sep: str) -> int:
    try:
        widths = {len(record) for record in records(io.StringIO(text, newline=""), sep)}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0


def _typed(sep: str) -> str:
    return "tab" if sep == "\t" else sep


def number_with_comma(text: str) -> bool:
    return bool(_WITH_COMMA.fullmatch(text))
