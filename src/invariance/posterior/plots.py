"""Plots of a posterior: inclusion probabilities and the trace of variational inference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Fields
from .._tools.names import PlotKind
from .._tools.plotting import (
    FALSE,
    GUIDE,
    PARTS,
    PLAIN,
    TRUE,
    Size,
    axes_for,
    plain_ticks,
    save_drawing,
    tidy,
    title,
)
from .._tools.text import name_labels, shorten
from ..data.features import as_mask
from ..exceptions import SettingError, WrongTypeError, use
from .posterior import Posterior, check_at_least_one
from .summary import format_probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT_KINDS = get_args(PlotKind)
_NAME_WIDTH_IN_PLOTS = 32
MOST_BARS = 30
TRACE_SIZE = (7.0, 4.0)


def check_kind(kind: str) -> str:
    if kind not in PLOT_KINDS:
        raise SettingError(f"there is no plot {kind!r}", *(use(kind=known) for known in PLOT_KINDS))
    return kind


def inclusion_size(posterior: Posterior, top: int = MOST_BARS) -> Size:
    """Return the size that `plot_inclusion` needs, in inches."""
    return 7.0, 1.5 + 0.26 * min(top, posterior.n_features)


def plot_inclusion(
    posterior: Posterior,
    ax: Axes | None = None,
    top: int = MOST_BARS,
    truth: Iterable[str] | ArrayLike | None = None,
) -> Axes:
    """Horizontal bars of the `top` largest inclusion probabilities of a posterior or fitted model,
    largest on top.

    truth : names or a boolean mask (p,) of the truly invariant features, which get a colour of
        their own
    """
    given = posterior
    posterior = getattr(posterior, "posterior_", posterior)
    if not isinstance(posterior, Posterior):
        raise WrongTypeError(
            f"plot_inclusion draws a Posterior or a fitted model, not {type(given).__name__}."
        )
    check_at_least_one("top", top)
    shown = np.argsort(-posterior.inclusion, kind="stable")[:top]
    ax = axes_for(ax, inclusion_size(posterior, top))
    positions = np.arange(len(shown))
    values = posterior.inclusion[shown]
    inside = (
        np.zeros(len(shown), dtype=bool)
        if truth is None
        else as_mask(truth, posterior.feature_names)[shown]
    )
    groups = (
        ("truly invariant", TRUE, inside),
        ("not in the true subset", PLAIN if truth is None else FALSE, ~inside),
    )
    for label, color, members in groups:
        if members.any():
            ax.barh(
                positions[members], values[members], height=0.72, color=color, label=label, zorder=2
            )
    ax.axvline(0.5, color=GUIDE, linewidth=1.0, linestyle="--", zorder=3)
    at_right: Fields = {
        "transform": ax.get_yaxis_transform(),
        "va": "center",
        "fontsize": "small",
    }
    for position, value in enumerate(values):
        ax.text(1.01, position, format_probability(float(value)), **at_right)
    ax.set_yticks(
        positions, name_labels([posterior.feature_names[j] for j in shown], _NAME_WIDTH_IN_PLOTS)
    )
    plain_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    tidy(ax)
    ax.set_xlabel("posterior inclusion probability")
    cut = len(shown) < posterior.n_features
    ax.set_ylabel(f"feature ({len(shown)} of {posterior.n_features:,})" if cut else "feature")
    title(ax, _title(posterior), pad=6.0 if truth is None else 24.0)
    if truth is not None:
        look: Fields = {"frameon": False, "fontsize": "small", "borderpad": 0.2}
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, **look)
    return ax


def check_not_cut(kind: str, top: int | None) -> None:
    if top is not None:
        raise SettingError(f"the picture {kind!r} is not cut to a number: leave out top={top}.")


def plot_trace(posterior: Posterior, ax: Axes | None = None, top: int | None = None) -> Axes:
    """Draw the ELBO of each start by the draws of every iteration.

    The dot is the ELBO of the selected iterate, evaluated with fresh draws.
    """
    check_not_cut("trace", top)
    said = posterior.diagnostics
    if "trace" not in said:
        raise SettingError("only variational inference has an ELBO to draw", use(engine="vi"))
    ax = axes_for(ax, TRACE_SIZE)
    for color, (start, trace) in zip(PARTS, said["trace"].items(), strict=False):
        label = f"{start}: {said['elbo_by_start'][start]:.2f}"
        ax.plot(
            np.arange(len(trace["elbo"])),
            trace["elbo"],
            color=color,
            linewidth=0.7,
            label=label,
            zorder=2,
        )
    ax.plot(
        said["chosen_iteration"],
        said["elbo"],
        "o",
        color=GUIDE,
        label=f"chosen ({said['start']})",
        zorder=3,
    )
    ax.set_yscale("symlog", linthresh=10.0)
    tidy(ax, "both")
    ax.set_xlabel("iteration")
    ax.set_ylabel("ELBO (nats)")
    ax.legend(frameon=False, fontsize="small")
    title(ax, _title(posterior))
    return ax


def _title(posterior: Posterior) -> str:
    n = posterior.n_environments
    outcome = shorten(posterior.outcome_name, _NAME_WIDTH_IN_PLOTS)
    what = f"Outcome {outcome}, {n} environment{'' if n == 1 else 's'}"
    return (
        f"One environment cannot show invariance: these are the prior's probabilities\n{what}"
        if n == 1
        else what
    )


def save_inclusion(
    posterior: Posterior, path: str | Path, truth: Iterable[str] | ArrayLike | None = None
) -> Path:
    """Write `plot_inclusion` to a file whose ending gives the format (png when there is none);
    returns its path."""
    return save_drawing(
        lambda ax: plot_inclusion(posterior, ax, truth=truth), inclusion_size(posterior), path
    )
