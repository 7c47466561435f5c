"""Drawing that the studies share: matplotlib's object interface, no display and no pyplot state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.files import replacing
from .._tools.plotting import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHADES = ("#a3cbe6", "#72b0d7", "#3f8fc5", "#1c62a5", "#08306b")
_Z95 = 1.959963984540054
_DPI = 130
_DODGE = 0.01


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes (rows, columns); size in inches."""
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        tidy(ax, "both")
    return figure, axes


def shades(count: int) -> list[str]:
    """So many blues from light to dark, for values that have an order."""
    return [_SHADES[round(position)] for position in np.linspace(0, len(_SHADES) - 1, count)]


def mean_band(values: ArrayLike, low: float = 0.0, high: float = np.inf) -> tuple[float, float, float]:
    """Mean and its 95% normal interval, cut to [low, high]; without width where there is a single value."""
    numbers = np.asarray(values, dtype=float)
    mean = float(numbers.mean()) if len(numbers) else float("nan")
    half = _Z95 * float(numbers.std(ddof=1)) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return mean, max(mean - half, low), min(mean + half, high)


def banded_line(ax: Axes, x: ArrayLike, bands: Sequence[tuple[float, float, float]], color: str, label: str) -> None:
    """A line through the means with a shaded band; bands holds (mean, low, high) for each x."""
    mean, low, high = np.array(bands).T
    ax.fill_between(np.asarray(x), low, high, color=color, alpha=0.16, linewidth=0)
    ax.plot(x, mean, color=color, marker="o", markersize=4, label=label)


def whiskered_lines(
    ax: Axes, x: Sequence[float], lines: Sequence[tuple[str, str, str, Sequence[tuple[float, float, float]]]]
) -> None:
    """Lines (label, color, dashes, bands) over a logarithmic axis with whiskers; those at one x stand side by side."""
    spread = _DODGE * np.log(max(x) / min(x)) if len(x) > 1 else 0.0
    for position, (label, color, dashes, bands) in enumerate(lines):
        mean, low, high = np.array(bands).T
        ax.errorbar(
            np.asarray(x) * np.exp(spread * (position - (len(lines) - 1) / 2)),
            mean,
            yerr=[np.maximum(mean - low, 0.0), np.maximum(high - mean, 0.0)],
            color=color,
            linestyle=dashes,
            marker="o",
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=2,
            label=label,
        )


def numbered_axis(ax: Axes, values: Sequence[float], label: str) -> None:
    """A logarithmic horizontal axis with a tick at each of the values and nowhere else."""
    ax.set_xscale("log")
    ax.set_xticks(list(values), [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)
    ax.set_xlabel(label)


def shared_legend(figure: Figure, ax: Axes, columns: int, title: str | None = None) -> None:
    """The entries of one panel, below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, title=title)


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.svg, each in one step; the same figure gives the same bytes."""
    import matplotlib as mpl

    written = []
    with mpl.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            path = stem.with_name(stem.name + suffix)
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=_DPI, metadata=metadata)
            written.append(path)
    return written
