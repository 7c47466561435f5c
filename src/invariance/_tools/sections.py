"""Sections of a result for people: sentences and tables, rendered as text within 80 columns or as
HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from .text import COLUMNS, display_width, name_labels, pad, printable, wrap

if TYPE_CHECKING:
    from .arrays import Names

_LABEL_COLUMNS = 26
_LONGEST_ENVIRONMENT = 20
# Tables of environments show all of so many, else so many of them.
_ALL_SHOWN = 24
_SHOWN_OF_MANY = 12


@dataclass(frozen=True)
class Section:
    """facts : (label, text), wrapped beside labels of at least `label_width` columns; table : rows
    of texts, the head first, right-aligned but for `text_columns`; notes : follow both, after "…"
    or "-" with a hanging indent"""

    title: str
    sentences: Names = ()
    facts: tuple[tuple[str, str], ...] = ()
    table: tuple[Names, ...] = ()
    notes: Names = ()
    text_columns: tuple[int, ...] = (0,)
    label_width: int = 0


class Rendered:
    """A result that prints as text, and as HTML in notebooks."""

    @property
    def sections(self) -> Iterable[Section]:
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self.sections)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.sections)


def as_text(sections: Iterable[Section], worded: Callable[[str], str] = str) -> str:
    """worded : how a sentence that may carry remedies is written"""
    return "\n\n".join("\n".join(_text_lines(section, worded)) for section in sections)


def _text_lines(section: Section, worded: Callable[[str], str]) -> Iterator[str]:
    yield from wrap(section.title)
    for sentence in section.sentences:
        yield from wrap(worded(sentence), "  ", "  ")
    labels = list(dict.fromkeys(label for label, _ in section.facts))
    short = dict(zip(labels, name_labels(labels, _LABEL_COLUMNS), strict=True))
    column = max([section.label_width, *map(display_width, short.values())])
    for label, text in section.facts:
        yield from wrap(worded(text), f"  {pad(short[label], column)}  ", " " * (column + 4))
    if section.table and (section.sentences or section.facts):
        yield ""
    widths = [max(map(display_width, texts)) for texts in zip(*section.table, strict=True)]
    for row in section.table:
        cells = [pad(row[j], width, j in section.text_columns) for j, width in enumerate(widths)]
        yield ("  " + "  ".join(cells)).rstrip()
    for note in section.notes:
        yield from wrap(worded(note), "  ", "    " if note.startswith(("… ", "- ")) else "  ")


# Text and background are the notebook's own.
_BOX = "color:inherit;background:transparent;font-size:0.95em;line-height:1.4;max-width:52em"
_TABLE = "border-collapse:collapse;margin:0.2em 0 0.8em 0;color:inherit;background:transparent"
_TITLE = "font-weight:600;margin:0.4em 0 0.1em 0"
_CELL = (
    "padding:0.1em 0.9em 0.1em "
    "0;border:none;text-align:left;vertical-align:top;background:transparent"
)
_NUMBER = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums"
_FAINT = f"{_CELL};opacity:0.7"


def as_html(sections: Iterable[Section]) -> str:
    """No classes, no scripts, nothing from elsewhere."""
    return _tag("div", _BOX, "".join(part for section in sections for part in _fragments(section)))


def _fragments(section: Section) -> Iterator[str]:
    yield _tag("div", _TITLE, escape(section.title))
    for sentence in section.sentences:
        yield _tag("div", "", escape(printable(sentence)))
    if section.facts:
        yield _table([(_FAINT, label), (_CELL, text)] for label, text in section.facts)
    if section.table:
        styles = [
            _CELL if j in section.text_columns else _NUMBER for j in range(len(section.table[0]))
        ]
        yield _table(zip(styles, row, strict=True) for row in section.table)
    for note in section.notes:
        yield _tag("div", "", escape(printable(note)))


def _table(rows: Iterable[Iterable[tuple[str, str]]]) -> str:
    """rows : (style, text) of each cell"""
    lines = (
        "".join(_tag("td", style, escape(printable(text))) for style, text in row) for row in rows
    )
    body = "".join(_tag("tr", "background:transparent", line) for line in lines)
    return _tag("table", _TABLE, f"<tbody>{body}</tbody>")


def _tag(name: str, style: str, content: str) -> str:
    return f'<{name} style="{style}">{content}</{name}>'


def shown_first(keys: Sequence[float]) -> tuple[list[int], Names]:
    """Places of the environments that a table shows: all of a few, in their order, else those with
    the smallest keys; and a note on the others"""
    if len(keys) <= _ALL_SHOWN:
        return list(range(len(keys))), ()
    order = sorted(range(len(keys)), key=lambda e: (math.isnan(keys[e]), keys[e]))[:_SHOWN_OF_MANY]
    return order, (f"… {len(keys) - len(order):,} of {len(keys):,} environments are not shown.",)


def by_environment(head: Names, labels: Iterable[object], rows: Iterable[Names]) -> tuple:
    """A table with a first column of environments, shortened so that it fits a line."""
    figures = [head, *rows]
    taken = sum(2 + max(map(display_width, column)) for column in zip(*figures, strict=True))
    width = max(min(_LONGEST_ENVIRONMENT, COLUMNS - 2 - taken), len("environment"))
    names = "environment", *name_labels([str(label) for label in labels], width)
    return tuple((name, *row) for name, row in zip(names, figures, strict=True))
