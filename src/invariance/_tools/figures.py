"""Figures of matplotlib's object interface: no display and no pyplot state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import MissingFileError, SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """In inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


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
    figure.savefig(path, dpi=150)
    return path


def plain_ticks(ax: Axes) -> None:
    """Names are names: no `$` in them starts a formula."""
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        tick.set_parse_math(False)
