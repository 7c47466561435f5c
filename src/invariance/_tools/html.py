"""Small HTML fragments for notebooks: no classes, no scripts, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .text import printable

# Colours that keep their contrast on white and on near-black; text takes the notebook's own colour.
_BOX = "color:inherit;background:transparent;font-size:0.95em;line-height:1.4;max-width:52em"
_TABLE = "border-collapse:collapse;margin:0.2em 0 0.8em 0;color:inherit;background:transparent"
_TITLE = "font-weight:600;margin:0.4em 0 0.1em 0"
CELL = "padding:0.1em 0.9em 0.1em 0;border:none;text-align:left;vertical-align:top;background:transparent"
NUMBER = f"{CELL};text-align:right;font-variant-numeric:tabular-nums"
FAINT = f"{CELL};opacity:0.7"


def box(parts: Iterable[str]) -> str:
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def title(text: str) -> str:
    return f'<div style="{_TITLE}">{escape(text)}</div>'


def paragraph(text: str) -> str:
    return f"<div>{escape(printable(text))}</div>"


def table(rows: Iterable[str]) -> str:
    """Of rows, each the cells of one."""
    body = "".join(f'<tr style="background:transparent">{row}</tr>' for row in rows)
    return f'<table style="{_TABLE}"><tbody>{body}</tbody></table>'


def cell(text: str, style: str = CELL) -> str:
    return f'<td style="{style}">{escape(printable(text))}</td>'
