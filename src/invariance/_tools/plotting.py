"""Where pictures are drawn: on axes that are given, on a new figure of pyplot, or, for files, on
one without pyplot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..exceptions import FileError, SettingError, WrongTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Width and height, in inches.
Size = tuple[float, float]


def axes_for(ax: Axes | None, size: Size) -> Axes:
    """The axes that are given or else those of a new figure of pyplot, which a notebook shows by
    itself."""
    return _shown_figure(size).add_subplot() if ax is None else _checked_axes(ax)


def panels_for(ax: Axes | None, size: Size) -> Figure | SubFigure:
    """Return the figure to divide into panels.

    It is the place of the given axes, which are removed, or a new figure of pyplot.
    """
    if ax is None:
        return _shown_figure(size)
    figure = _checked_axes(ax).figure
    place = ax.get_subplotspec()
    if place is None:
        raise SettingError(
            "panels take the place of axes in a grid: make them by subplots() or add_subplot()."
        )
    ax.remove()
    return figure.add_subfigure(place)


def _checked_axes(ax: Axes) -> Axes:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise WrongTypeError(
            f"ax is one Axes of matplotlib, not {type(ax).__name__}: use figure.add_subplot()."
        )
    return ax


def has_layout(figure: Figure | SubFigure) -> bool:
    """Return whether matplotlib moves axes until their labels fit into the figure."""
    return figure.get_layout_engine() is not None


def _shown_figure(size: Size) -> Figure:
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def new_figure(width: float, height: float) -> Figure:
    """Without pyplot: no display, and nothing that stays open. In inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(figsize=(width, height), layout="constrained")).figure


def save_drawing(draw: Callable[[Axes], object], size: Size, path: str | Path) -> Path:
    """Write what `draw` puts on axes to a file whose ending gives the format (png when there is
    none); returns the path that was written."""
    figure = new_figure(*size)
    draw(figure.add_subplot())
    path = Path(path)
    if not path.suffix:
        path = path.with_suffix(".png")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise SettingError(
            f"cannot write a picture as {path.suffix!r}; use one of {', '.join(sorted(kinds))}"
        )
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
    with missing_glyphs_allowed():
        figure.savefig(path, dpi=150)
    return path


@contextmanager
def missing_glyphs_allowed() -> Iterator[None]:
    """Inside the block: names may have characters for which no font is there, which are drawn as
    boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing from|Matplotlib currently does not support", UserWarning
        )
        yield


def plain_ticks(ax: Axes) -> None:
    """Names are names: no `$` in them starts a formula."""
    for tick in (*ax.xaxis.get_major_ticks(), *ax.yaxis.get_major_ticks()):
        tick.label1.set_parse_math(False)
        tick.label2.set_parse_math(False)


BLACK = "#000000"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREEN = "#009e73"
YELLOW = "#c9b300"
BLUE = "#0072b2"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"

PLAIN = BLUE
CHOSEN = ORANGE
WARN = VERMILION
TRUE = GREEN
FALSE = "#9aa3ad"
INK = "#33404d"
FAINT = "#9aa3ad"
EMPTY = "#e3e7eb"
GUIDE = "0.35"
GRID = "0.92"
DARK_GRID = "0.2"
PARTS = BLUE, ORANGE, GREEN


def tidy(
    ax: Axes, grid: Literal["x", "y", "both"] = "x", without: tuple[str, ...] = ("top", "right")
) -> None:
    """Draw a faint grid behind the data, and no frame on the sides `without`."""
    ax.grid(axis=grid, color=DARK_GRID if _is_dark(ax) else GRID)
    ax.set_axisbelow(True)
    ax.spines[list(without)].set_visible(False)


def ink(ax: Axes) -> str:
    """A colour that stands out from the face of the axes."""
    return EMPTY if _is_dark(ax) else INK


def empty(ax: Axes) -> str:
    """A colour close to the face of the axes."""
    return INK if _is_dark(ax) else EMPTY


def _is_dark(ax: Axes) -> bool:
    from matplotlib.colors import to_rgb

    return sum(to_rgb(ax.get_facecolor())) < 1.5


def text_width(text: str) -> float:
    """Return the width of one line in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with missing_glyphs_allowed():
        width, _, _ = text_to_path.get_text_width_height_descent(
            text, FontProperties(size="medium"), ismath=False
        )
    return float(width) / 72.0


def widest(texts: Iterable[str]) -> float:
    """Return the largest width in inches."""
    return max(map(text_width, texts), default=0.0)


def wrapped(text: str, width: float) -> str:
    """Lines of at most `width` inches, as far as there are spaces to break them at."""
    lines = []
    for paragraph in text.split("\n"):
        line, *words = paragraph.split(" ")
        for word in words:
            if text_width(f"{line} {word}") > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}"
        lines.append(line)
    return "\n".join(lines)


def headline(figure: Figure | SubFigure, text: str) -> None:
    """Over all panels, not wider than they are."""
    width = figure.bbox.width / figure.dpi
    figure.suptitle(
        wrapped(text, 0.97 * width), x=0.01, ha="left", fontsize="medium", parse_math=False
    )


def title(ax: Axes, text: str, pad: float | None = None) -> None:
    """Over the axes, from their left; to be called when the ticks have their labels."""
    figure = ax.figure
    place = ax.get_subplotspec()
    room = float(ax.get_window_extent().width / figure.dpi)  # in inches
    if place is not None and has_layout(figure):
        share = len(place.colspan) / place.get_gridspec().ncols
        ticks = (
            widest(tick.get_text() for tick in ax.get_yticklabels()) + 0.45
        )  # for the label of the axis
        room = max(float(figure.bbox.width / figure.dpi * share) - ticks, 1.5)
    ax.set_title(wrapped(text, room), loc="left", fontsize="medium", parse_math=False, pad=pad)
