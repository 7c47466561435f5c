"""How the text of a table is written, and what separates its cells.

What can be read in two ways is refused with both of them: a guess would be a wrong number that looks right.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TextIO

from ..exceptions import DataError

MISSING = frozenset(
    {
        *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan", "-NaN"),
        *("-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)

EXPONENT = r"(?:[eE][+-]?\d+)?"
# {sign between thousands: what counts as it}
THOUSANDS = {",": ",", ".": r"\.", "'": "['\u2019]", " ": "[ \u00a0\u2009\u202f]"}
_NUMBER = r"[+-]?\d+(?:[.,' ]\d+)*"
_UNIT = re.compile(
    rf"(?P<before>[$€£¥]) ?{_NUMBER}|{_NUMBER}[ \u00a0\u202f]?(?P<after>(?:[%‰°$€£¥]|[^\W\d_])\S{{0,11}})"
)
_SAME_UNIT = 0.5  # share of the different values


class NumberForm(NamedTuple):
    """thousands : the sign between groups of three digits, which need not be there; None: there are no groups"""

    decimal: str
    thousands: str | None = None

    def plain(self, text: str) -> str | None:
        """A number as Python writes it; None where the text is none in this form."""
        stripped = text.strip()
        if not _pattern(*self).fullmatch(stripped):
            return None
        whole = stripped if self.thousands is None else re.sub(THOUSANDS[self.thousands], "", stripped)
        return whole.replace(self.decimal, ".")

    def number(self, value: object) -> object:
        """Text that is a number as that number; anything else as it is."""
        plain = self.plain(value) if isinstance(value, str) else None
        return value if plain is None else float(plain)


@lru_cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point = re.escape(decimal)
    # A leading 0 is no thousand.
    groups = "" if thousands is None else rf"|[1-9]\d{{0,2}}(?:{THOUSANDS[thousands]}\d{{3}})+"
    return re.compile(rf"[+-]?(?:(?:\d+{groups})(?:{point}\d*)?|{point}\d+){EXPONENT}", re.ASCII)


def decimal_beside(thousands: str | None) -> str | None:
    """What begins decimals where this sign is between thousands; None where either may."""
    return {".": ",", ",": "."}.get(thousands or "")


class Grouped(NamedTuple):
    """certain : whether its sign cannot begin decimals"""

    thousands: str
    example: str
    certain: bool

    @property
    def value(self) -> str:
        return re.sub(THOUSANDS[self.thousands], "", self.example).replace(",", ".")


class Points(NamedTuple):
    """grouped : with points that may be between thousands; decimal : with a point that cannot be, if there is one"""

    grouped: str
    decimal: str | None


def grouped_in(texts: Collection[str]) -> Grouped | None:
    """How thousands are written in texts that are all numbers, some of them with groups of three digits."""
    for sign in THOUSANDS:
        for decimal in ".,":
            form = NumberForm(decimal, sign)
            if decimal == sign or any(form.plain(text) is None for text in texts):
                continue
            example = next((text for text in texts if NumberForm(decimal).plain(text) is None), None)
            if example is not None:
                either = sign in ".," and all(NumberForm(sign).plain(text) is not None for text in texts)
                return Grouped(sign, example, not either)
    return None


def points_among(texts: Collection[str], form: NumberForm, as_text: bool = False) -> Points | None:
    """Numbers with a point where decimals have a comma, in texts that are all numbers; None where none of them may be
    thousands that are not read as such, or decimals beside thousands with points. as_text : whether nothing is read"""
    points, groups = NumberForm("."), NumberForm(",", ".")
    strange = [text for text in texts if form.plain(text) is None]
    if form.decimal != "," or not all(points.plain(text) or groups.plain(text) for text in strange):
        return None
    grouped = next((text for text in texts if groups.plain(text) and not NumberForm(",").plain(text)), None)
    decimal = next((text for text in strange if groups.plain(text) is None), None)
    if strange and form.thousands == ".":
        return Points(grouped or strange[0], decimal)
    return Points(grouped, decimal) if grouped and (strange or as_text) else None


def unit_in(texts: Iterable[str]) -> tuple[str, str] | None:
    """(unit, example) where at least half of the texts, and two of them, are numbers with the same unit."""
    listed = list(texts)
    found = {text: match["before"] or match["after"] for text in listed if (match := _UNIT.fullmatch(text.strip()))}
    units = Counter(found.values()).most_common(1)
    if not units or units[0][1] < max(2.0, _SAME_UNIT * len(listed)):
        return None
    unit = units[0][0]
    return unit, next(text for text, its in found.items() if its == unit)


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


_DECIMAL = re.compile(rf"[+-]?(?:\d+(?:(?P<sign>[.,])\d*)?|(?P<first>[.,])\d+){EXPONENT}")
# Thousands by their look, which may be decimals too; a leading 0 is no thousand.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
_HUNDREDS = re.compile(r"[+-]?[1-9]\d{2,}")
_QUOTED_COMMA = re.compile(rf'"[ \t]*[+-]?(?:\d+,\d*|,\d+){EXPONENT}[ \t]*"')
_BLOCK = 1 << 16  # characters

Tells = Callable[[str], bool]


class Cell(NamedTuple):
    """line : of the file, counted from 1"""

    column: str
    text: str
    line: int

    @property
    def clear(self) -> bool:
        """Whether it cannot be thousands."""
        return not _GROUPED.fullmatch(self.text)

    def where(self, file: str) -> str:
        return f"{self.text!r} in column {self.column!r} of {file}, line {self.line},"


@dataclass
class _Column:
    """first : {(sign, clear): the first such cell}; hundreds : whether it has a whole number from 100 on; numbers :
    whether it has nothing else, so far"""

    name: str
    first: dict[tuple[str, bool], Cell] = field(default_factory=dict)
    hundreds: bool = False
    numbers: bool = True

    def look(self, text: str, line: int) -> bool:
        """Whether it shows something new."""
        clear = _GROUPED.fullmatch(text) is None
        number = _DECIMAL.fullmatch(text) if clear else None
        if clear and number is None:
            self.numbers = False
            return True
        sign = ("," if "," in text else ".") if number is None else number["sign"] or number["first"]
        if sign is None:
            self.hundreds = self.hundreds or bool(_HUNDREDS.fullmatch(text))
        elif (sign, clear) not in self.first:
            self.first[sign, clear] = Cell(self.name, text, line)
            return True
        return False


class DecimalSigns:
    """Of the columns that hold nothing but numbers; missing : words that are no values"""

    def __init__(self, header: Sequence[str], missing: Collection[str]) -> None:
        self._columns = [_Column(name) for name in header]
        self._missing = missing

    def look(self, line: int, record: Sequence[str]) -> bool:
        """Whether some cell shows something new."""
        new = False
        for column, written in zip(self._columns, record, strict=False):
            if column.numbers and (text := written.strip()) not in self._missing:
                new |= column.look(text, line)
        return new

    @property
    def are_clear(self) -> bool:
        return any(cell.clear for sign in ",." for cell in self._cells(sign))

    @property
    def are_doubtful(self) -> bool:
        return not self.are_clear and any(True for sign in ",." for _ in self._cells(sign))

    @property
    def shown(self) -> Shown:
        comma = next(iter(_clear(list(self._cells(",")))), None)
        points = list(self._cells("."))
        if _clear(points):
            return Shown(comma, True, (), frozenset())
        return Shown(comma, False, tuple(points), self._with_hundreds)

    def comma(self, file: str, sep: str) -> Cell | None:
        """A number that is written with a decimal comma, where all decimals are; else None."""
        commas, points = list(self._cells(",")), list(self._cells("."))
        clear_commas, clear_points = _clear(commas), _clear(points)
        if commas and points:
            if clear_commas and not clear_points:
                raise _may_be_thousands(points[0], file, f"beside decimal commas, such as {clear_commas[0].text!r}")
            if clear_points and not clear_commas:
                raise _may_be_thousands(commas[0], file, f"beside decimal points, such as {clear_points[0].text!r}")
            comma, point = commas[0], points[0]
            raise DataError(
                f"{file} holds numbers with a comma, {comma.text!r} in {comma.column!r}, and numbers with a point, "
                f"{point.text!r} in {point.column!r}: say which sign begins decimals, read_table(path, decimal=',') or "
                "read_table(path, decimal='.'); columns with the other one are text then."
            )
        if clear_commas:
            return clear_commas[0]
        if commas:
            raise _decimals_or_thousands(commas[0], file)
        doubted = [cell for cell in points if sep == ";" or cell.column in self._with_hundreds]
        if doubted and not clear_points:
            raise _decimals_or_thousands(doubted[0], file)
        return None

    @property
    def _with_hundreds(self) -> frozenset[str]:
        return frozenset(column.name for column in self._columns if column.numbers and column.hundreds)

    def _cells(self, sign: str) -> Iterator[Cell]:
        for column in self._columns:
            if column.numbers:
                found = (column.first.get((sign, clear)) for clear in (True, False))
                yield from sorted((cell for cell in found if cell is not None), key=lambda cell: cell.line)


class Shown(NamedTuple):
    """What one of several files shows of the signs in all of them.

    comma : a decimal that cannot be thousands; clear_points : whether there are such with a point, and if there are
    none, points : cells with one, and hundreds : the columns with whole numbers from 100 on
    """

    comma: Cell | None
    clear_points: bool
    points: tuple[Cell, ...]
    hundreds: frozenset[str]


def check_together(files: Mapping[str, Shown]) -> None:
    """Raise where a number with a point, clear in its own file, may be thousands beside those of other files."""
    comma = next(((file, shown.comma) for file, shown in files.items() if shown.comma is not None), None)
    hundreds = frozenset[str]().union(*(shown.hundreds for shown in files.values()))
    all_unclear = not any(shown.clear_points for shown in files.values())
    for file, shown in files.items():
        if comma is not None and shown.points:
            other, cell = comma
            raise _may_be_thousands(shown.points[0], file, f"beside decimal commas of {other}, such as {cell.text!r}")
        doubted = [cell for cell in shown.points if cell.column in hundreds]
        if doubted and all_unclear:
            raise _decimals_or_thousands(doubted[0], file)


class TellingLines:
    """The lines of a text; after the first `whole` characters only those in blocks that `telling` finds.

    number : of the last line that was given, counted from 1; all_given : whether none was left out so far
    """

    def __init__(self, text: TextIO, whole: float, telling: Tells) -> None:
        self._text, self._whole, self._telling = text, whole, telling
        self._seen, self.number = 0, 0
        self.all_given = True

    def __iter__(self) -> Iterator[str]:
        while block := self._text.read(_BLOCK) + self._text.readline():
            if self.is_past and self._tells_nothing(block):
                self.number += max(block.count("\n"), block.count("\r"))
                self.all_given = False
                continue
            for line in io.StringIO(block, newline=""):
                self.number += 1
                self._seen += len(line)
                yield line

    def _tells_nothing(self, block: str) -> bool:
        """And after which it stands as before whether a quote is open."""
        return block.count('"') % 2 == 0 and not self._telling(block)

    @property
    def is_past(self) -> bool:
        return self._seen > self._whole


def decimals_in(sep: str) -> Tells:
    """Whether a block of lines has cells that are numbers with a sign of decimals. A comma between cells is none, but
    one in quotes is."""
    signs = "." if sep == "," else ".,"
    pattern = re.compile(_cell(sep, rf"[+-]?(?:\d+[{signs}]\d*|[{signs}]\d+){EXPONENT}"))

    def found(block: str) -> bool:
        has_signs = any(sign in block for sign in signs)
        return (has_signs and bool(pattern.search(block))) or (sep == "," and bool(_QUOTED_COMMA.search(block)))

    return found


def numbers_in(sep: str) -> Tells:
    """Whether it has such cells, or whole numbers from 100 on."""
    decimals, hundreds = decimals_in(sep), re.compile(_cell(sep, _HUNDREDS.pattern))
    return lambda block: bool(hundreds.search(block)) or decimals(block)


def _cell(sep: str, pattern: str) -> str:
    edge = re.escape(sep)
    return rf'(?<![^{edge}"\r\n])[ \t]*{pattern}[ \t]*(?![^{edge}"\r\n])'


def _clear(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.clear]


def _decimals_or_thousands(cell: Cell, file: str) -> DataError:
    sign = "," if "," in cell.text else "."
    decimals, thousands = cell.text.replace(sign, "."), cell.text.replace(sign, "")
    return DataError(
        f"{cell.where(file)} may be {decimals} or {thousands}: if it is {decimals}, say so with "
        f"read_table(path, decimal={sign!r}); if it is {thousands}, with read_table(path, thousands={sign!r}) instead."
    )


def _may_be_thousands(cell: Cell, file: str, context: str) -> DataError:
    sign = "," if "," in cell.text else "."
    return DataError(
        f"{cell.where(file)} stands {context}: if it is {cell.text.replace(sign, '')}, say so with "
        f"read_table(path, thousands={sign!r}); if not, write all decimals with the same sign."
    )
