"""Text around pictures that stays inside them: how wide it is, and where its lines break."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .figures import has_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# In inches: what stands beside the labels of ticks, the label of the axis above all.
_BESIDE_TICKS = 0.45


def text_width(text: str, size: str = "medium") -> float:
    """In inches, of one line; characters that the font lacks are as wide as they are high."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    wanted = FontProperties(size=size)
    font = get_font(findfont(wanted))
    font.set_size(100.0, 72.0)
    ems = 0.0
    for character in map(ord, text):
        known = font.get_char_index(character) > 0
        ems += font.load_char(character).linearHoriAdvance / 65536.0 / 100.0 if known else 1.0
    return ems * wanted.get_size_in_points() / 72.0


def widest(texts: Iterable[str], size: str = "medium") -> float:
    """In inches."""
    return max((text_width(text, size) for text in texts), default=0.0)


def wrapped(text: str, width: float) -> str:
    """Lines of at most `width` inches, as far as there are spaces to break them at."""
    return "\n".join(line for paragraph in text.split("\n") for line in _lines(paragraph, width))


def _lines(paragraph: str, width: float) -> Iterator[str]:
    first, *words = paragraph.split(" ")
    line = first
    for word in words:
        longer = f"{line} {word}"
        if text_width(longer) > width:
            yield line
            line = word
        else:
            line = longer
    yield line


def headline(figure: Figure | SubFigure, text: str) -> None:
    """Over all panels, not wider than they are."""
    width = figure.bbox.width / figure.dpi
    figure.suptitle(wrapped(text, 0.97 * width), x=0.01, ha="left", fontsize="medium", parse_math=False)


def title(ax: Axes, text: str, pad: float | None = None) -> None:
    """Over the axes, from their left; to be called when the ticks have their labels."""
    ax.set_title(wrapped(text, _room(ax)), loc="left", fontsize="medium", parse_math=False, pad=pad)


def _room(ax: Axes) -> float:
    """In inches, from the left of the axes to where their place ends."""
    figure, place = ax.figure, ax.get_subplotspec()
    if place is None or not has_layout(figure):
        return float(ax.get_window_extent().width / figure.dpi)
    share = len(place.colspan) / place.get_gridspec().ncols
    beside = widest(tick.get_text() for tick in ax.get_yticklabels()) + _BESIDE_TICKS
    return max(float(figure.bbox.width / figure.dpi * share) - beside, 1.5)
