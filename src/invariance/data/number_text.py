"""Numbers as text has them: with a point or a comma, with thousands, with a unit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

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
