"""Pictures of a posterior, drawn with matplotlib's object interface: no display and no pyplot state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Mask
from .._tools.figures import new_figure, plain_ticks, save_figure
from .._tools.layout import name_labels, shorten
from ..data.subsets import as_mask
from ..exceptions import SettingError
from .posterior import Posterior
from .summary import format_probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLAIN, _TRUE, _FALSE = "#3f8fd2", "#2a9d5c", "#9aa3ad"
_LONGEST_NAME = 32


def plot_inclusion(
    posterior: Posterior,
    ax: Axes | None = None,
    top: int = 30,
    truth: Iterable[str] | ArrayLike | None = None,
) -> Axes:
    """Horizontal bars of the `top` largest inclusion probabilities, largest on top.

    `truth` (names or a boolean mask (p,)) colours the bars by whether the feature is truly invariant.
    Without `ax` a new figure is made that fits the number of bars; it is at `ax.figure`.
    """
    if top < 1:
        raise SettingError(f"top must be at least 1, not {top}")
    true_mask = None if truth is None else as_mask(truth, posterior.feature_names)
    shown = np.argsort(-posterior.inclusion, kind="stable")[:top]
    if ax is None:
        ax = new_figure(7.0, 1.5 + 0.26 * len(shown)).add_subplot()

    positions = np.arange(len(shown))
    values = posterior.inclusion[shown]
    groups: list[tuple[str | None, str, Mask]] = [(None, _PLAIN, np.ones(len(shown), dtype=bool))]
    if true_mask is not None:
        inside = true_mask[shown]
        groups = [("truly invariant", _TRUE, inside), ("not in the true subset", _FALSE, ~inside)]
    for label, color, members in groups:
        if members.any():
            ax.barh(positions[members], values[members], height=0.72, color=color, label=label, zorder=2)
    ax.axvline(0.5, color="0.35", linewidth=1.0, linestyle="--", zorder=3)
    for position, value in enumerate(values):
        ax.text(
            1.01,
            position,
            format_probability(float(value)),
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize="small",
        )

    ax.set_yticks(positions, name_labels([posterior.feature_names[j] for j in shown], _LONGEST_NAME))
    plain_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.grid(axis="x", color="0.9", zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("posterior inclusion probability")
    cut = len(shown) < posterior.n_features
    ax.set_ylabel(f"feature ({len(shown)} of {posterior.n_features:,})" if cut else "feature")
    ax.set_title(
        _title(posterior),
        loc="left",
        fontsize="medium",
        parse_math=False,
        pad=6.0 if true_mask is None else 24.0,
    )
    if true_mask is not None:
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=2,
            frameon=False,
            fontsize="small",
            borderpad=0.2,
        )
    return ax


def _title(posterior: Posterior) -> str:
    n, verdict = posterior.n_environments, posterior.verdict
    outcome = shorten(posterior.outcome_name, _LONGEST_NAME)
    title = f"Outcome {outcome}, {n} environment{'' if n == 1 else 's'}"
    return title if verdict is None else f"{verdict.headline[0].upper()}{verdict.headline[1:]}\n{title}"


def save_inclusion(
    posterior: Posterior,
    path: str | Path,
    truth: Iterable[str] | ArrayLike | None = None,
    top: int = 30,
) -> Path:
    """Write `plot_inclusion` to a file whose ending gives the format (png when there is none).

    Returns the path that was written.
    """
    from matplotlib.figure import Figure

    figure = plot_inclusion(posterior, top=top, truth=truth).figure
    assert isinstance(figure, Figure)
    return save_figure(figure, path)
