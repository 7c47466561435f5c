"""The picture of a comparison: methods × features, drawn without pyplot."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .comparison_text import leading_features
from .subsets import as_mask
from .summary import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .comparison import Comparison

_SELECTED, _TRUE, _EDGE = "#3f8fd2", "#2a9d5c", "0.8"
_LONGEST_NAME = 24


def plot_comparison(
    comparison: Comparison,
    ax: Axes | None = None,
    top: int = 40,
    truth: Iterable[str] | ArrayLike | None = None,
) -> Axes:
    """One row per method, one column per feature: a filled square where the method selected it.

    Shows up to `top` features, those selected most often. `truth` (names or a mask (p,)) marks the features that are
    truly invariant. Methods that failed have a hatched row.
    """
    true = None if truth is None else as_mask(truth, comparison.feature_names)
    shown = leading_features(comparison, top)
    n, k = len(comparison.methods), len(shown)
    if ax is None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.5 + 0.32 * max(k, 6), 1.8 + 0.32 * n), layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.add_subplot()
    from matplotlib.patches import Rectangle

    for row, method in enumerate(comparison.methods):
        failed = method.outcome == "failed"
        for column, j in enumerate(shown):
            color = _SELECTED if method.selected[j] else "white"
            ax.add_patch(
                Rectangle(
                    (column - 0.45, row - 0.45),
                    0.9,
                    0.9,
                    facecolor=color,
                    edgecolor=_EDGE,
                    hatch="////" if failed else None,
                )
            )
    ax.set_xlim(-0.6, max(k, 1) - 0.4)
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_aspect("equal")
    labels = [shorten(comparison.feature_names[j], _LONGEST_NAME) for j in shown]
    ax.set_xticks(np.arange(k), labels, rotation=60, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(n), [shorten(m.name, _LONGEST_NAME) for m in comparison.methods])
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        tick.set_parse_math(False)
    if true is not None:
        for tick, j in zip(ax.get_xticklabels(), shown, strict=True):
            if true[j]:
                tick.set_color(_TRUE)
                tick.set_fontweight("bold")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    cut = k < len(comparison.feature_names)
    ax.set_xlabel(f"feature ({k} of {len(comparison.feature_names):,})" if cut else "feature")
    ax.set_ylabel("method")
    title = f"Selected for {shorten(comparison.outcome_name, _LONGEST_NAME)}"
    ax.set_title(title + ("; true features in green" if true is not None else ""), fontsize="medium", parse_math=False)
    return ax


def save_comparison(comparison: Comparison, path: str | Path, truth: Iterable[str] | ArrayLike | None = None) -> Path:
    """Write `plot_comparison` to a file whose ending gives the format (png when there is none)."""
    from matplotlib.figure import Figure

    path = Path(path)
    path = path if path.suffix else path.with_suffix(".png")
    figure = plot_comparison(comparison, truth=truth).figure
    assert isinstance(figure, Figure)
    figure.savefig(path, dpi=150)
    return path
