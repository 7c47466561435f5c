"""The picture of a comparison: methods × features."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.figures import Size, axes_for, plain_ticks, save_drawing
from .._tools.fonts import lettered
from .._tools.layout import name_labels, shorten
from .._tools.style import PLAIN, TRUE
from .._tools.titles import title, widest
from ..data.subsets import as_mask
from .text import leading_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .comparison import Comparison

_EDGE = "0.8"
# Face and hatch: told apart without colour too.
_LOOKS = {
    "selected": (PLAIN, None),
    "not selected": ("white", None),
    "screened out": ("0.88", None),
    "rejected": ("#f9ddc7", "xxx"),
    "failed": ("white", "////"),
}
_LABELS = {"screened out": "screened out,\nnot looked at", "rejected": "model rejected"}
_LONGEST_NAME = 24
_MOST_FEATURES = 40


def comparison_size(comparison: Comparison, top: int = _MOST_FEATURES) -> Size:
    """How large a figure `plot_comparison` wants, in inches."""
    n, k = len(comparison.methods), len(leading_features(comparison, top))
    names = widest(_feature_labels(comparison, leading_features(comparison, top)))
    # Names of features stand at 60 degrees: the first reaches to the left, where the methods' names are.
    left = max(widest(name_labels([method.name for method in comparison.methods], _LONGEST_NAME)), 0.5 * names)
    return 3.6 + max(left, 1.0) + 0.32 * max(k, 6), 1.3 + max(0.87 * names, 0.5) + 0.32 * max(n, 4)


def _feature_labels(comparison: Comparison, shown: ArrayLike) -> list[str]:
    return name_labels([comparison.feature_names[j] for j in np.asarray(shown)], _LONGEST_NAME)


@lettered
def plot_comparison(
    comparison: Comparison,
    ax: Axes | None = None,
    top: int = _MOST_FEATURES,
    truth: Iterable[str] | ArrayLike | None = None,
) -> Axes:
    """One row per method, one column per feature: a square for what the method said of it, which the legend explains.

    Shows up to `top` features, those that `leading_features` finds. `truth` (names or a mask (p,)) marks the features
    that are truly invariant. Without `ax` a new figure of pyplot is made; it is at `ax.figure`.
    """
    true = None if truth is None else as_mask(truth, comparison.feature_names)
    shown = leading_features(comparison, top)
    n, k = len(comparison.methods), len(shown)
    ax = axes_for(ax, comparison_size(comparison, top))
    from matplotlib.patches import Patch, Rectangle

    statuses = [[str(status) for status in method.status[shown]] for method in comparison.methods]
    looks: dict[str, dict[str, Any]] = {
        status: {"facecolor": face, "edgecolor": _EDGE if hatch is None else "0.55", "hatch": hatch}
        for status, (face, hatch) in _LOOKS.items()
    }
    for row, named in enumerate(statuses):
        for column, status in enumerate(named):
            ax.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, **looks[status]))
    occurring = [status for status in _LOOKS if any(status in named for named in statuses)]
    if occurring:
        handles = [Patch(**looks[status], label=_LABELS.get(status, status)) for status in occurring]
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize="small")
    else:
        ax.text(0.5, 0.5, "no method selected a feature", transform=ax.transAxes, ha="center", va="center")
    ax.set_xlim(-0.6, max(k, 1) - 0.4)
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_aspect("equal")
    ax.set_xticks(np.arange(k), _feature_labels(comparison, shown), rotation=60, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(n), name_labels([m.name for m in comparison.methods], _LONGEST_NAME))
    plain_ticks(ax)
    if true is not None:
        for tick, j in zip(ax.get_xticklabels(), shown, strict=True):
            if true[j]:
                tick.set_color(TRUE)
                tick.set_fontweight("bold")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    cut = k < len(comparison.feature_names)
    ax.set_xlabel(f"feature ({k} of {len(comparison.feature_names):,})" if cut else "feature")
    ax.set_ylabel("method")
    what = f"Selected for {shorten(comparison.outcome_name, _LONGEST_NAME)}"
    what += "; true features in green" if true is not None else ""
    doubts = [f"{m.name}: even the most probable subset is far from invariant" for m in comparison.methods if m.verdict]
    title(ax, "\n".join([*doubts, what]))
    return ax


def save_comparison(comparison: Comparison, path: str | Path, truth: Iterable[str] | ArrayLike | None = None) -> Path:
    """Write `plot_comparison` to a file whose ending gives the format (png when there is none)."""
    return save_drawing(lambda ax: plot_comparison(comparison, ax, truth=truth), comparison_size(comparison), path)
