"""One look for all pictures: Okabe and Ito's colours, which most people tell apart, and what they stand for here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILION, PURPLE = "#c9b300", "#0072b2", "#d55e00", "#cc79a7"

PLAIN, CHOSEN, WARN = BLUE, ORANGE, VERMILION
TRUE, FALSE = GREEN, "#9aa3ad"
INK, FAINT, EMPTY = "#33404d", "#9aa3ad", "#e3e7eb"
GUIDE, GRID, DARK_GRID = "0.35", "0.92", "0.2"
PARTS = BLUE, ORANGE, GREEN


def tidy(ax: Axes, grid: Literal["x", "y", "both"] = "x", without: tuple[str, ...] = ("top", "right")) -> None:
    """A faint grid behind what is drawn, and no frame on the sides `without`."""
    ax.grid(axis=grid, color=DARK_GRID if _is_dark(ax) else GRID)
    ax.set_axisbelow(True)
    ax.spines[list(without)].set_visible(False)


def ink(ax: Axes) -> str:
    """What stands out from the face of the axes."""
    return EMPTY if _is_dark(ax) else INK


def empty(ax: Axes) -> str:
    """What hardly does."""
    return INK if _is_dark(ax) else EMPTY


def _is_dark(ax: Axes) -> bool:
    from matplotlib.colors import to_rgb

    return sum(to_rgb(ax.get_facecolor())) < 1.5
