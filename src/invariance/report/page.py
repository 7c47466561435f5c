"""The page: blocks in a template, one file that does not load anything else."""

from __future__ import annotations

import math
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._tools.files import check_writable, write_text
from .._tools.plotting import (
    BLUE,
    EMPTY,
    GREEN,
    INK,
    ORANGE,
    VERMILION,
    Size,
    missing_glyphs_allowed,
    new_figure,
)
from .._tools.text import UNKNOWN, printable, with_equal_decimals
from ..exceptions import FileError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Any = {
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",
    "svg.hashsalt": "invariance",
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


class Cell(NamedTuple):
    """Describe a cell.

    text : its text; key : the number that it is sorted by, if not the text; strong : whether it
        stands out
    """

    text: str
    key: float | None = None
    strong: bool = False


class Column(NamedTuple):
    """Describe a column.

    number : whether cells are numbers, aligned on the right and sorted as such; hint : their
        meaning, in a
    sentence
    """

    title: str
    cells: tuple[Cell, ...]
    number: bool = True
    hint: str = ""


def texts(title: str, values: Iterable[object]) -> Column:
    """Return a column of words."""
    return Column(
        printable(title), tuple(Cell(printable(str(value))) for value in values), number=False
    )


def numbers(
    title: str,
    values: Iterable[float],
    written: Callable[[float], str] | None = None,
    hint: str = "",
) -> Column:
    """Return a column of numbers as a function writes them, by default with four digits.

    "–" is an unknown number.
    """
    written = written or (lambda value: with_equal_decimals([value])[0])
    given = [float(value) for value in values]
    cells = (
        Cell(written(value), value) if math.isfinite(value) else Cell(UNKNOWN) for value in given
    )
    return Column(printable(title), tuple(cells), hint=hint)


def counts(title: str, values: Iterable[float]) -> Column:
    return numbers(title, values, lambda value: f"{value:,.0f}")


class Table(NamedTuple):
    """Describe a table, whose first column has the names of the rows.

    caption : its content; more : what it omits, if anything
    """

    caption: str
    columns: Sequence[Column]
    more: str = ""

    @property
    def rows(self) -> Iterable[tuple[Cell, ...]]:
        return zip(*(column.cells for column in self.columns), strict=True)

    @property
    def note(self) -> str:
        hints = [f"{column.title}: {column.hint}." for column in self.columns if column.hint]
        return " ".join(filter(None, [*hints, self.more]))


class Picture(NamedTuple):
    """svg, dark : in base64, for a light and a dark page; caption : also for those who cannot see
    it"""

    svg: str
    dark: str
    caption: str


# {colour of a picture: what stands for it on a dark page}
_DARK = {
    "#000000": "#e7ebef",
    BLUE: "#5db4ef",
    ORANGE: "#ffb733",
    VERMILION: "#ff8f4d",
    GREEN: "#3fcf9f",
    INK: "#dfe5ea",
    EMPTY: "#35404a",
    "#ffffff": "#14191e",
    "#595959": "#b4bcc4",  # guides
    "#999999": "#8a949e",
    "#ebebeb": "#2a333b",  # grids
}
_COLOUR = re.compile("#[0-9a-f]{6}")


def picture(draw: Callable[[Axes], object], size: Size, caption: str) -> Picture:
    """Return what `draw` draws on axes, in matplotlib's own style, deterministically."""
    import matplotlib as mpl
    from matplotlib import style

    written = BytesIO()
    with style.context("default"), mpl.rc_context(_STYLE):
        figure = new_figure(*size)
        draw(figure.add_subplot())
        with missing_glyphs_allowed():
            figure.savefig(written, format="svg", metadata=_NO_METADATA, transparent=True)
    svg = written.getvalue().decode("utf-8")
    # Matplotlib makes the names of clip paths from their unrounded corners.
    for number, clip in enumerate(dict.fromkeys(re.findall(r'<clipPath id="(\w+)"', svg))):
        svg = svg.replace(clip, f"clip{number}")
    # Text without a colour of its own is black.
    dark = _COLOUR.sub(lambda colour: _DARK.get(colour[0], colour[0]), svg).replace(
        "<svg ", '<svg fill="#e7ebef" ', 1
    )
    light, other = (b64encode(text.encode("utf-8")).decode("ascii") for text in (svg, dark))
    return Picture(light, other, caption)


class Block(NamedTuple):
    """Describe a part of a section, whose pieces have this order.

    callout : tone ("good", "partly", "open" or "bad"), the same in words, and paragraphs; code :
        (label,
    lines)
    """

    title: str = ""
    callout: tuple[str, str, Sequence[str]] | None = None
    sentences: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    picture: Picture | None = None
    table: Table | None = None
    points: Sequence[str] = ()
    code: Sequence[tuple[str, str]] = ()


def write_page(
    title: str, lead: str, sections: Sequence[tuple[str, str, Sequence[Block], bool]], path: Path
) -> Path:
    """Write the page in one step; the same contents give the same text. sections : (anchor, title,
    blocks, folded), those that are folded last"""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__ or "", "")
    tight = {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **tight)
    write_text(
        path,
        environment.get_template("page.html.j2").render(title=title, lead=lead, sections=sections),
    )
    return path


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page; raise if it or the page cannot be written."""
    if find_spec("jinja2") is None:
        raise FileError("a report needs jinja2: pip install 'invariant-prediction[report]'.")
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".html", ".htm"):
        raise FileError(f"cannot write a report as {file.name!r}: use a name that ends in .html")
    check_writable(file)
    return file
