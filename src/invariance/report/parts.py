"""What a page is made of: sections of sentences, facts, tables, pictures and lines of code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from .._tools.layout import printable

# Text of so many characters is broken into lines, within words where it must be.
LONG = 28
_MOST_ON_PAPER = 12


@dataclass(frozen=True)
class Cell:
    """text : what is read; value : what it is sorted by, if not the text; mark : "strong" where it stands out"""

    text: str
    value: float | None = None
    mark: str = ""

    @property
    def classes(self) -> list[str]:
        return [self.mark] * bool(self.mark) + ["long"] * (len(self.text) > LONG)

    @property
    def key(self) -> str | None:
        """The value as a script reads it; None where the text sorts, or nothing is known."""
        return None if self.value is None or not math.isfinite(self.value) else f"{self.value:.6g}"


def name(text: object) -> Cell:
    """A name of a column or an environment, in full."""
    return Cell(printable(str(text)))


@dataclass(frozen=True)
class Column:
    """number : whether its cells are numbers, on the right and sorted as such; hint : what it holds, in a sentence"""

    title: str
    number: bool = True
    hint: str = ""

    @property
    def classes(self) -> str:
        return " ".join(["n"] * self.number + ["long"] * (len(self.title) > LONG))


@dataclass(frozen=True)
class Table:
    """The first cell of a row names it. caption: what it shows; titled: whether a heading above says the same; more:
    what it leaves out, if anything."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: str = ""
    titled: bool = False

    @property
    def wide(self) -> bool:
        """Whether it has more columns than a sheet of paper holds in common letters."""
        return len(self.columns) > _MOST_ON_PAPER

    @property
    def hints(self) -> list[Column]:
        return [column for column in self.columns if column.hint]


@dataclass(frozen=True)
class Picture:
    """svg : an inline element; alt : for those who cannot see it; caption : for all"""

    kind: ClassVar[str] = "picture"
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Prose:
    """Paragraphs or, as a list, points."""

    kind: ClassVar[str] = "prose"
    sentences: tuple[str, ...]
    points: bool = False


@dataclass(frozen=True)
class Callout:
    """The sentence that comes before all others. tone: "good", "open" or "bad"; label: the same in words"""

    kind: ClassVar[str] = "callout"
    tone: str
    label: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Pairs of a label and what is said of it."""

    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    kind: ClassVar[str] = "code"
    label: str
    text: str


@dataclass(frozen=True)
class Heading:
    """Of a part of a section."""

    kind: ClassVar[str] = "heading"
    text: str


Part = Table | Picture | Prose | Callout | Facts | Code | Heading


@dataclass(frozen=True)
class Section:
    """anchor : by which the list of contents finds it"""

    anchor: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Contents:
    title: str
    lead: str
    sections: tuple[Section, ...]


def prose(sentences: Iterable[str], points: bool = False) -> tuple[Prose, ...]:
    """Nothing where there is nothing to say."""
    said = tuple(filter(None, sentences))
    return (Prose(said, points),) if said else ()


def table(
    caption: str, columns: Iterable[Column], rows: Iterable[Sequence[Cell]], more: str = "", titled: bool = False
) -> Table:
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), more, titled)
