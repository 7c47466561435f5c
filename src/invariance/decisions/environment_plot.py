"""A picture of which environments deviate, and in what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._tools.figures import Size, axes_for, has_layout, plain_ticks, save_drawing
from .._tools.fonts import lettered
from .._tools.layout import format_subset, name_labels, shorten
from .._tools.style import GUIDE, PARTS, WARN, ink, tidy
from .._tools.titles import title
from .decision import Decision
from .deviation import Deviation
from .environment_test import EnvironmentTest
from .environments import ALARM, ComparedEnvironments
from .subjects import compared_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LABEL, _LONGEST_NAME, _LONGEST_SUBSET = 32, 20, 36
_FEW, _MOST = 12, 40
_SMALLEST = 1e-300


def environments_size(diagnosis: ComparedEnvironments) -> Size:
    """How large a figure `plot_environments` wants, in inches."""
    n = min(diagnosis.n_environments, _MOST)
    return 7.0, 2.1 + n * (0.5 if n <= _FEW else 0.3)


@lettered
def plot_environments(diagnosis: ComparedEnvironments | Decision, ax: Axes | None = None) -> Axes:
    """Horizontal bars of −log₁₀ p of each environment against the others, by part, first environment on top, and a
    diamond for all parts together.

    The dashed line is for the diamonds: those beyond it raise an alarm, which their colour and that of the name tells.
    Of more than forty environments those that deviate most are shown. Without `ax` a new figure of pyplot is made that
    fits their number; it is at `ax.figure`.
    """
    diagnosis = compared_of(diagnosis, "plot_environments")
    ax = axes_for(ax, environments_size(diagnosis))
    parts, tests = diagnosis.parts, _most_deviating(diagnosis.tests)
    n = len(tests)
    height = 0.8 / len(parts)
    for k, part in enumerate(parts):
        values = [_length(None if test.deviation is None else test.deviation.parts[part].p_value) for test in tests]
        places = np.arange(n) + (k - (len(parts) - 1) / 2.0) * height
        ax.barh(places, values, height=height * 0.9, color=PARTS[k], label=part, zorder=2)
    alarms = np.array([_raises_alarm(test.deviation, diagnosis.threshold) for test in tests])
    wholes = np.array([np.nan if test.deviation is None else _length(test.deviation.p_value) for test in tests])
    for which, colour, label in ((~alarms, ink(ax), "all parts together"), (alarms, WARN, "all together: alarm")):
        if which.any():
            ax.plot(wholes[which], np.flatnonzero(which), "D", ms=6, color=colour, mec="white", label=label, zorder=4)
    for row in np.flatnonzero(np.isnan(wholes)).tolist():
        ax.text(0.02, row, "cannot be judged", transform=ax.get_yaxis_transform(), va="center", fontsize="x-small")
    beyond = f"diamonds beyond: alarm (p below {ALARM:g}/{diagnosis.n_environments})"
    ax.axvline(_length(diagnosis.threshold), color=GUIDE, linewidth=1.0, linestyle="--", label=beyond, zorder=3)
    ax.set_yticks(np.arange(n), name_labels([str(test.environment) for test in tests], _LONGEST_LABEL))
    plain_ticks(ax)
    for name, alarm in zip(ax.get_yticklabels(), alarms, strict=True):
        if alarm:
            name.set(color=WARN, fontweight="bold")
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(left=0.0)
    ax.set_ylim(n - 0.4, -0.6)
    tidy(ax)
    ax.set_xlabel("−log₁₀ p-value against all other environments")
    cut = n < diagnosis.n_environments
    ax.set_ylabel(f"environment ({n} of {diagnosis.n_environments:,})" if cut else "environment")
    outcome = shorten(diagnosis.outcome_name, _LONGEST_NAME)
    given = f"Outcome {outcome} given {format_subset(diagnosis.subset, _LONGEST_SUBSET)}"
    if has_layout(ax.figure):
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize="small")
        title(ax, given, pad=40.0)
    else:
        ax.legend(fontsize="small")
        title(ax, given)
    return ax


def _most_deviating(tests: tuple[EnvironmentTest, ...]) -> list[EnvironmentTest]:
    """In the order of the environments."""
    p_values = [np.inf if test.deviation is None else test.deviation.p_value for test in tests]
    return [tests[e] for e in np.sort(np.argsort(p_values, kind="stable")[:_MOST])]


def _raises_alarm(deviation: Deviation | None, threshold: float) -> bool:
    return deviation is not None and deviation.p_value < threshold


def _length(p_value: float | None) -> float:
    return 0.0 if p_value is None else float(-np.log10(max(p_value, _SMALLEST)))


def save_environments(diagnosis: ComparedEnvironments, path: str | Path) -> Path:
    """Write `plot_environments` to a file whose ending gives the format; returns the path that was written."""
    return save_drawing(lambda ax: plot_environments(diagnosis, ax), environments_size(diagnosis), path)
