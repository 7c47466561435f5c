"""Letters that the font of a picture lacks: fonts of this machine that have them or, where none has, one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from unicodedata import category

import numpy as np

from ..exceptions import MissingLettersWarning

if TYPE_CHECKING:
    from matplotlib.text import Text

# Comes with matplotlib and has a box for every script.
_BOXES = "Last Resort High-Efficiency"
_MOST_LETTERS = 12
_PLAIN_WEIGHTS = 400, "normal", "regular", "book", "medium"
_brought: ContextVar[bool] = ContextVar("fonts are brought by whoever looks", default=False)

P = ParamSpec("P")
Drawn = TypeVar("Drawn")


@contextmanager
def fonts_brought_by_readers() -> Iterator[None]:
    """Inside the block: text stays text, and whatever shows it has fonts of its own, as a browser does."""
    token = _brought.set(True)
    try:
        yield
    finally:
        _brought.reset(token)


def lettered(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    """A function that returns axes: all letters on them are drawn with fonts that have them, or one warning tells."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        axes = draw(*args, **kwargs)
        if not _brought.get():
            _find_fonts(axes)
        return axes

    return drawn


def _find_fonts(axes: Any) -> None:
    """The same for all text of a picture. axes : Axes, or an array of all those of a figure"""
    from matplotlib.text import Text

    holder = axes.flat[0].figure if isinstance(axes, np.ndarray) else axes
    lacking = {text: letters for text in holder.findobj(Text) if (letters := _lacking(text))}
    if not lacking:
        return
    fonts, left = _fonts_with("".join(dict.fromkeys("".join(lacking.values()))), _n_fonts())
    boxes = [_BOXES] if left and _has_boxes() else []
    for text in lacking:
        text.set_fontfamily([*text.get_fontfamily(), *fonts, *boxes])
    if left:
        warnings.warn(_told(left), MissingLettersWarning, stacklevel=4)


def _told(letters: str) -> str:
    cut = letters[:_MOST_LETTERS] + (f" … +{len(letters) - _MOST_LETTERS}" if len(letters) > _MOST_LETTERS else "")
    return (
        f"no font here that matplotlib can draw with has {cut}: boxes stand for them in the picture. Install a font "
        "that has them (Noto Sans CJK has Chinese, Japanese and Korean), or make a report, whose pictures a browser "
        "shows with fonts of its own: model.report('report.html')."
    )


def _lacking(text: Text) -> str:
    """Its letters that its fonts do not have, each once."""
    written = text.get_text()
    if written.isascii() or text.get_usetex():
        return ""
    letters = "".join(dict.fromkeys(letter for letter in written if not letter.isspace()))
    for family in text.get_fontfamily():
        letters = _left(letters, _file_of(family))
    return letters


def _file_of(family: str) -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return findfont(FontProperties(family=[family]))


def _left(letters: str, file: str) -> str:
    """Those that the font does not have, or has only as coloured bitmaps, which matplotlib does not draw."""
    from matplotlib.font_manager import get_font

    font = get_font(file)
    return "".join(letter for letter in letters if not _draws(font, letter)) if font.scalable else letters


def _draws(font: Any, letter: str) -> bool:
    if not font.get_char_index(ord(letter)):
        return False
    if category(letter) != "So":
        return True
    font.load_char(ord(letter))
    return len(font.get_path()[0]) > 0


@cache
def _fonts_with(letters: str, n_fonts: int) -> tuple[tuple[str, ...], str]:
    """Names of fonts that together have most of the letters, those with many of them first; the letters that none has.

    n_fonts : that matplotlib knows, so that one more is looked at.
    """
    chosen: list[str] = []
    left, candidates = letters, dict(_plain_fonts())
    while left:
        without = {name: _left_or_all(left, file) for name, file in candidates.items()}
        best = min(candidates, key=lambda name: (len(without[name]), "Sans" not in name, name))
        if without[best] == left:
            break
        chosen.append(best)
        left = without[best]
    return tuple(chosen), left


def _left_or_all(letters: str, file: str) -> str:
    try:
        return _left(letters, file)
    except (OSError, RuntimeError):
        return letters


def _plain_fonts() -> Iterator[tuple[str, str]]:
    """(name, file) of upright ones, that of boxes aside."""
    from matplotlib.font_manager import fontManager

    for font in fontManager.ttflist:
        if font.style == "normal" and font.weight in _PLAIN_WEIGHTS and font.name != _BOXES:
            yield font.name, font.fname


def _n_fonts() -> int:
    from matplotlib.font_manager import fontManager

    _tell_new_fonts()
    return len(fontManager.ttflist)


@cache
def _tell_new_fonts() -> None:
    """matplotlib keeps a list of fonts from its first day: those that were installed since then are told to it."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {str(font.fname) for font in fontManager.ttflist}
    for file in sorted(set(map(str, findSystemFonts())) - known):
        with suppress(OSError, RuntimeError):
            fontManager.addfont(file)


def _has_boxes() -> bool:
    from matplotlib.font_manager import fontManager

    return _BOXES in fontManager.get_font_names()
