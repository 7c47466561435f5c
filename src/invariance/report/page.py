"""The page: sections in a template, one file without anything from elsewhere."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from .._tools.arrays import Floats, Integers
from .._tools.files import check_writable, write_text
from .._tools.text import printable
from ..exceptions import FileError
from ..posterior.summary import format_p_value, format_probability, format_share

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
    """svg : in base64; alt : for those who cannot see it"""

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
    """tone : "good", "open" or "bad"; label : the same in words"""

    kind: ClassVar[str] = "callout"
    tone: str
    label: str
    text: str


@dataclass(frozen=True)
class Facts:
    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    kind: ClassVar[str] = "code"
    label: str
    text: str


@dataclass(frozen=True)
class Heading:
    kind: ClassVar[str] = "heading"
    text: str


Part = Table | Picture | Prose | Callout | Facts | Code | Heading


@dataclass(frozen=True)
class Section:
    """anchor : by which the list of contents finds it"""

    anchor: str
    title: str
    parts: tuple[Part, ...]


def prose(sentences: Iterable[str], points: bool = False) -> tuple[Prose, ...]:
    """Nothing where there is nothing to say."""
    said = tuple(filter(None, sentences))
    return (Prose(said, points),) if said else ()


def table(
    caption: str, columns: Iterable[Column], rows: Iterable[Sequence[Cell]], more: str = "", titled: bool = False
) -> Table:
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), more, titled)


def write_page(title: str, lead: str, sections: Sequence[Section], path: str | os.PathLike[str]) -> Path:
    """Write the page in one step; the same contents give the same text. Returns the path that was written."""
    file = checked_path(path)
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__ or "", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    text = environment.get_template("page.html.j2").render(title=title, lead=lead, sections=sections)
    try:
        write_text(file, text)
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return file


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of a page; raises where it cannot be written, or nothing is there to write it with."""
    if find_spec("jinja2") is None:
        raise FileError("a report needs jinja2: pip install 'invariance[report]'.")
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".html", ".htm"):
        raise FileError(f"cannot write a report as {file.name!r}: use a name that ends in .html")
    check_writable(file)
    return file


def count(n: int) -> Cell:
    return Cell(f"{n:,}", n)


def numbers(values: Iterable[float]) -> list[Cell]:
    """Four digits each; "–" where one is not known."""
    return [row_of_numbers([value])[0] for value in values]


def row_of_numbers(values: Iterable[float]) -> list[Cell]:
    """Numbers that are read together, such as an estimate and its interval: the largest has four digits, and all have
    as many decimals."""
    given = [float(value) for value in values]
    largest = max((abs(value) for value in given if math.isfinite(value)), default=0.0)
    plain = largest == 0.0 or 1e-4 <= largest < 1e7
    decimals = max(0, 3 - math.floor(math.log10(largest))) if plain and largest else 0
    return [formatted(value, lambda known: f"{known:z,.{decimals}f}" if plain else f"{known:.4g}") for value in given]


def formatted(value: float, written: Callable[[float], str]) -> Cell:
    """A number as a function writes it; "–" where it is not known."""
    value = float(value)
    return Cell(written(value), value) if math.isfinite(value) else Cell("–")


def probability(value: float) -> Cell:
    return formatted(value, format_probability)


def p_value(value: float) -> Cell:
    return formatted(value, format_p_value)


def share(value: float) -> Cell:
    return formatted(value, format_share)


def sample_sd(squares: Floats, counts: Integers) -> Floats:
    """Standard deviations (E,) of so many numbers whose squares around their mean sum to this; 0 of one number."""
    return np.asarray(np.sqrt(squares / np.maximum(counts - 1, 1)))


def without_rounding(value: float, scale: float) -> float:
    """0 where a value, computed from numbers as large as `scale`, is their rounding only."""
    return 0.0 if abs(value) < 1e-12 * scale else value
