"""A picture of which environments deviate, and in what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._tools.layout import format_subset, name_labels, shorten
from .deviation import Deviation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diagnosis import Diagnosis

_COLOURS = "#3f8fd2", "#2a9d5c", "#d9822b"
_LONGEST_LABEL, _LONGEST_NAME = 32, 32
_SMALLEST = 1e-300


def plot_environments(diagnosis: Diagnosis, ax: Axes | None = None) -> Axes:
    """Horizontal bars of −log₁₀ p of each environment against the others, by part, first environment on top.

    The dashed line is where the p-value of an environment raises an alarm. Without `ax` a new figure is made that fits
    the number of environments; it is at `ax.figure`.
    """
    n = len(diagnosis.tests)
    if ax is None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 1.8 + 0.5 * n), layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.add_subplot()
    parts = diagnosis.parts
    height = 0.8 / len(parts)
    for k, part in enumerate(parts):
        values = [_height(test.deviation, part) for test in diagnosis.tests]
        places = np.arange(n) + (k - (len(parts) - 1) / 2.0) * height
        ax.barh(places, values, height=height * 0.9, color=_COLOURS[k], label=part, zorder=2)
    ax.axvline(-np.log10(diagnosis.threshold), color="0.35", linewidth=1.0, linestyle="--", zorder=3)
    ax.set_yticks(np.arange(n), name_labels([str(test.environment) for test in diagnosis.tests], _LONGEST_LABEL))
    for tick in ax.get_yticklabels():
        tick.set_parse_math(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(left=0.0)
    ax.set_ylim(n - 0.4, -0.6)
    ax.grid(axis="x", color="0.9", zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("−log₁₀ p-value against all other environments")
    ax.set_ylabel("environment")
    outcome = shorten(diagnosis.outcome_name, _LONGEST_NAME)
    title = f"Outcome {outcome} given {format_subset(diagnosis.subset, 60)}"
    ax.set_title(title, loc="left", fontsize="medium", parse_math=False, pad=24.0)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(parts), frameon=False, fontsize="small")
    return ax


def _height(deviation: Deviation | None, part: str) -> float:
    p_value = None if deviation is None else deviation.parts[part].p_value
    return 0.0 if p_value is None else float(-np.log10(max(p_value, _SMALLEST)))


def save_environments(diagnosis: Diagnosis, path: str | Path) -> None:
    from matplotlib.figure import Figure

    figure = plot_environments(diagnosis).figure
    assert isinstance(figure, Figure)
    figure.savefig(path, dpi=150)
