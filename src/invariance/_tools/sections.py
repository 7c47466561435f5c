"""Sections of a result for people: sentences and tables, rendered as text within 80 columns or as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .html import CELL, FAINT, NUMBER, box, cell, paragraph, title
from .html import table as html_table
from .text import COLUMNS, display_width, name_labels, wrap

_LONGEST_LABEL = 26
_LONGEST_ENVIRONMENT = 20


@dataclass(frozen=True)
class Section:
    """facts : (label, text), wrapped beside labels of at least `label_width` columns; table : rows of texts, the head
    first, right-aligned but for `text_columns`; notes : follow both, after "…" or "-" with a hanging indent"""

    title: str
    sentences: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    text_columns: tuple[int, ...] = (0,)
    label_width: int = 0


class Rendered:
    """A result that prints as text and that notebooks show as HTML, by its `sections`."""

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
    return "\n\n".join("\n".join(_lines(section, worded)) for section in sections)


def _lines(section: Section, worded: Callable[[str], str]) -> Iterator[str]:
    yield from wrap(section.title)
    for sentence in section.sentences:
        yield from wrap(worded(sentence), "  ", "  ")
    labels = list(dict.fromkeys(label for label, _ in section.facts))
    short = dict(zip(labels, name_labels(labels, _LONGEST_LABEL), strict=True))
    column = max([section.label_width, *map(display_width, short.values())])
    for label, text in section.facts:
        yield from wrap(worded(text), f"  {_padded(short[label], column, True)}  ", " " * (column + 4))
    if section.table and (section.sentences or section.facts):
        yield ""
    widths = [max(map(display_width, texts)) for texts in zip(*section.table, strict=True)]
    for row in section.table:
        cells = [_padded(row[j], width, j in section.text_columns) for j, width in enumerate(widths)]
        yield ("  " + "  ".join(cells)).rstrip()
    for note in section.notes:
        yield from wrap(worded(note), "  ", "    " if note.startswith(("… ", "- ")) else "  ")


def _padded(text: str, width: int, left: bool) -> str:
    blanks = " " * (width - display_width(text))
    return text + blanks if left else blanks + text


def as_html(sections: Iterable[Section]) -> str:
    return box(part for section in sections for part in _fragments(section))


def _fragments(section: Section) -> Iterator[str]:
    yield title(section.title)
    yield from map(paragraph, section.sentences)
    if section.facts:
        yield html_table(cell(label, FAINT) + cell(text) for label, text in section.facts)
    if section.table:
        yield html_table(
            "".join(cell(text, CELL if j in section.text_columns else NUMBER) for j, text in enumerate(row))
            for row in section.table
        )
    yield from map(paragraph, section.notes)


def by_environment(head: tuple[str, ...], labels: Iterable[object], rows: Iterable[tuple[str, ...]]) -> tuple:
    """A table with a first column of environments, shortened so that it fits a line."""
    figures = [head, *rows]
    taken = sum(2 + max(map(display_width, column)) for column in zip(*figures, strict=True))
    width = max(min(_LONGEST_ENVIRONMENT, COLUMNS - 2 - taken), len("environment"))
    names = "environment", *name_labels([str(label) for label in labels], width)
    return tuple((name, *row) for name, row in zip(names, figures, strict=True))
