"""Where pictures are drawn: on axes that are given, on a new figure of pyplot, or, for files, on one without pyplot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import MissingFileError, SettingError, WrongTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Width and height, in inches.
Size = tuple[float, float]


def axes_for(ax: Axes | None, size: Size) -> Axes:
    """The axes that are given or else those of a new figure of pyplot, which a notebook shows by itself."""
    return _shown_figure(size).add_subplot() if ax is None else _checked(ax)


def panels_for(ax: Axes | None, size: Size) -> Figure | SubFigure:
    """What to divide into panels: the place of the axes that are given, which go, or else a new figure of pyplot."""
    if ax is None:
        return _shown_figure(size)
    figure, place = _checked(ax).figure, ax.get_subplotspec()
    if place is None:
        left, bottom, right, top = ax.get_position().extents
        widths, heights = (left, right - left, 1.0 - right), (1.0 - top, top - bottom, bottom)
        place = figure.add_gridspec(3, 3, width_ratios=widths, height_ratios=heights)[1, 1]
    ax.remove()
    return figure.add_subfigure(place)


def _checked(ax: Axes) -> Axes:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise WrongTypeError(
            f"ax is one Axes of matplotlib, not {type(ax).__name__}: take one from an array, axes[0], or make one in a "
            f"figure, figure.add_subplot()."
        )
    return ax


def has_layout(figure: Figure | SubFigure) -> bool:
    """Whether matplotlib moves axes until what stands around them fits into the figure."""
    return figure.get_layout_engine() is not None


def _shown_figure(size: Size) -> Figure:
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def new_figure(width: float, height: float) -> Figure:
    """Without pyplot: no display, and nothing that stays open. In inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_drawing(draw: Callable[[Axes], object], size: Size, path: str | Path) -> Path:
    """Write what `draw` puts on axes; see `save_figure`."""
    figure = new_figure(*size)
    draw(figure.add_subplot())
    return save_figure(figure, path)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write to a file whose ending gives the format (png when there is none); returns the path that was written."""
    path = Path(path)
    if not path.suffix:
        path = path.with_suffix(".png")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise SettingError(f"cannot write a picture as {path.suffix!r}; use one of {', '.join(sorted(kinds))}")
    if not path.parent.is_dir():
        raise MissingFileError(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
    with missing_glyphs_allowed():
        figure.savefig(path, dpi=150)
    return path


@contextmanager
def missing_glyphs_allowed() -> Iterator[None]:
    """Inside the block: names may have characters for which no font is there, which are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from|Matplotlib currently does not support", UserWarning)
        yield


def plain_ticks(ax: Axes) -> None:
    """Names are names: no `$` in them starts a formula."""
    for tick in (*ax.xaxis.get_major_ticks(), *ax.yaxis.get_major_ticks()):
        tick.label1.set_parse_math(False)
        tick.label2.set_parse_math(False)
