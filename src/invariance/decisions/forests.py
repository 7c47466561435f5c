"""Forest plots: estimates of environments, the pooled one, and the interval for a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Fields, Floats, Mask
from .._tools.plotting import CHOSEN, GUIDE, PLAIN, WARN, ink, plain_ticks, tidy
from .._tools.text import name_labels
from ..posterior.summary import format_p_value
from .effects import ONE_VALUE, PENALISED, SEPARATION, i2_text, tau_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_ENVIRONMENTS = 40
_LONGEST_NAME = 20
# By how much intervals may go beyond the estimates: shares of the range of these, or of the median
# width of intervals.
_ROOM = 1.5
_USUAL_WIDTHS = 2.0
_DIAMOND = 0.32
_BETWEEN = ["prediction_lower", "prediction_upper", "tau", "i2", "p_interaction"]


def forests(
    panels: Sequence[Axes],
    found: pd.DataFrame,
    heads: Mapping[str, str],
    nothing: Mapping[str, float],
    ratio: bool = False,
    most: int = MOST_ENVIRONMENTS,
) -> dict[str, Axes]:
    """Draw a panel for each of {column: title}, with up to so many environments.

    found : column, environment, estimate, lower, upper and note, the pool first; with the columns
        of `Decision.effects`
    on differences between environments a summary stands at the foot; nothing : {column: value of no
    effect}
    """
    drawn = found.set_index("column")
    summary = "tau" in found
    values = np.array(
        [drawn.loc[[name], ["estimate", "lower", "upper"]].to_numpy(dtype=float) for name in heads]
    )
    places = _farthest(np.log(values) if ratio else values, most)
    for panel, each, (name, head) in zip(panels, values, heads.items(), strict=True):
        rows = drawn.loc[[name]]
        own = rows.iloc[1:].iloc[places]
        local = each[1:][places]
        infinite = own["note"].str.startswith((SEPARATION, ONE_VALUE)).to_numpy(dtype=bool)
        new = rows[_BETWEEN[:2]].iloc[0].to_numpy(dtype=float) if summary else np.full(2, np.nan)
        _scale(panel, np.vstack([each[:1], local[~infinite]]), new, nothing.get(name), ratio)
        if not summary:
            _pooled_band(panel, each[0])
        _environments(panel, local, infinite, own["note"].tolist(), ratio)
        if summary:
            _summary(panel, len(own), each[0], new, rows.iloc[0])
        if name in nothing:
            panel.axvline(nothing[name], color=GUIDE, lw=1.0, ls="--", zorder=1.5)
        panel.set_title(head, fontsize="small", parse_math=False)
    labels = [*own["environment"].tolist(), *(["all together", "a new one"] if summary else [])]
    environment_axis(panels[0], labels, _LONGEST_NAME)
    for panel in panels:
        plain_ticks(panel)
    return dict(zip(heads, panels, strict=True))


def environment_axis(ax: Axes, labels: Sequence[object], longest: int) -> None:
    """Write names of environments from the top down."""
    ax.set_yticks(np.arange(len(labels)), name_labels([str(label) for label in labels], longest))
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    plain_ticks(ax)


def _farthest(values: Floats, most: int) -> NDArray[np.intp]:
    """Return the positions of the environments farthest from the pool, at most `most`, in order.

    values : (k, 1 + E, 3)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(values[:, 1:, 0] - values[:, :1, 0]) / (values[:, 1:, 2] - values[:, 1:, 0])
    return np.sort(np.argsort(-np.nan_to_num(gaps).max(axis=0), kind="stable")[:most])


def _scale(ax: Axes, known: Floats, new: Floats, nothing: float | None, ratio: bool) -> None:
    """Set the axis of estimates (n, 3) and of the interval for a new environment (2,): ends that
    are far beyond the estimates are cut."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    known = known[np.isfinite(known[:, 0])]
    estimates = np.append(known[:, 0], [] if nothing is None else nothing)
    bounds = np.vstack([known[:, 1:], new])
    if ratio:
        ax.set_xscale("log")
        with np.errstate(divide="ignore"):
            estimates = np.log10(estimates)
            bounds = np.log10(bounds)
    estimates = estimates[np.isfinite(estimates)]
    bounds = bounds[np.isfinite(bounds).all(axis=1)]
    if not len(estimates):
        return
    low = float(estimates.min())
    high = float(estimates.max())
    if len(bounds):
        usual = _USUAL_WIDTHS * float(np.median(np.diff(bounds)))
        room = max(_ROOM * (high - low), usual)
        low = min(low, max(bounds.min(), low - room))
        high = max(high, min(bounds.max(), high + room))
    margin = 0.06 * (high - low or 1.0)
    low = low - margin
    high = high + margin
    if not ratio:
        ax.set_xlim(low, high)
        ax.locator_params(axis="x", nbins=4)
        return
    ax.set_xlim(10.0**low, 10.0**high)
    steps = np.array([1.0, 2.0, 5.0]) if high - low < 2.0 else np.array([1.0])
    ticks = np.unique(np.outer(10.0 ** np.arange(np.floor(low), np.ceil(high) + 1.0), steps))
    ticks = ticks[(ticks >= 10.0**low) & (ticks <= 10.0**high)]
    apart = max(1, int(np.ceil(len(ticks) / 4)))
    middle = int(np.argmin(np.abs(np.log(ticks)))) if len(ticks) else 0
    ax.set_xticks(ticks[middle % apart :: apart])
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()


def _pooled_band(ax: Axes, pooled: Floats) -> None:
    """Draw estimate, lower and upper end (3,) of all rows together behind the environments."""
    if np.isfinite(pooled[1:]).all():
        ax.axvspan(pooled[1], pooled[2], color=CHOSEN, alpha=0.25, lw=0)
    if np.isfinite(pooled[0]):
        ax.axvline(pooled[0], color=CHOSEN, lw=1.2)


def _environments(
    ax: Axes, local: Floats, infinite: Mask, notes: Sequence[str], ratio: bool
) -> None:
    """Draw estimates, lower and upper ends (E, 3). One that is infinite by separation is an arrow
    at the end of the axis; one that is missing is its note, as is one of an environment without
    events, of which no sign is known."""
    known = np.isfinite(local[:, 0]) & ~np.array(
        [note.startswith(ONE_VALUE) for note in notes], dtype=bool
    )
    rows = np.flatnonzero(known & ~infinite)
    margins = np.abs(local[rows][:, [1, 2]].T - local[rows, 0])
    ax.errorbar(local[rows, 0], rows, xerr=margins, fmt="o", ms=3.5, lw=1.1, color=PLAIN)
    for row in rows.tolist():
        _cut_ends(ax, row, local[row, 1], local[row, 2], PLAIN)
    for row in np.flatnonzero(known & infinite).tolist():
        rises = local[row, 0] > (1.0 if ratio else 0.0)
        place: Fields = {
            "transform": ax.get_yaxis_transform(),
            "clip_on": False,
            "zorder": 4,
        }
        ax.plot(
            0.98 if rises else 0.02,
            row,
            ">" if rises else "<",
            ms=7,
            mfc="none",
            color=WARN,
            **place,
        )
    for row in np.flatnonzero(~known).tolist():
        note = notes[row].removesuffix(PENALISED)
        clear = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.0}
        place = {
            "transform": ax.get_yaxis_transform(),
            "ha": "center",
            "va": "center",
            "bbox": clear,
        }
        ax.text(0.5, row, note, fontsize="x-small", **place)
    ax.tick_params(axis="y", length=0)
    tidy(ax, without=("top", "right", "left"))


def _cut_ends(ax: Axes, row: float, low: float, high: float, colour: str) -> None:
    """Draw arrows where an interval goes on beyond the axis."""
    for end, beyond, marker in (
        (0.0, low < ax.get_xlim()[0], "<"),
        (1.0, high > ax.get_xlim()[1], ">"),
    ):
        if beyond:
            ax.plot(
                end,
                row,
                marker,
                ms=4,
                color=colour,
                transform=ax.get_yaxis_transform(),
                clip_on=False,
            )


def _summary(ax: Axes, n: int, pooled: Floats, new: Floats, differing: Any) -> None:
    """Draw, below n environments, a diamond for all rows together, estimate, lower and upper (3,),
    a bar for the effect in a new environment (2,), and write how much environments differ."""
    ax.axhline(n - 0.5, color=GUIDE, lw=0.6)
    if np.isfinite(pooled[0]):
        ax.axvline(pooled[0], color=CHOSEN, lw=1.0, zorder=1)
        low, high = pooled[1:] if np.isfinite(pooled[1:]).all() else pooled[[0, 0]]
        ax.fill(
            [low, pooled[0], high, pooled[0]],
            [n, n - _DIAMOND, n, n + _DIAMOND],
            color=CHOSEN,
            lw=1.0,
            zorder=3,
        )
    if np.isfinite(new).all():
        ax.plot(new, [n + 1, n + 1], color=ink(ax), lw=4.0, solid_capstyle="butt", zorder=3)
        _cut_ends(ax, n + 1, new[0], new[1], ink(ax))
    else:
        ax.text(
            0.5,
            n + 1,
            "–",
            transform=ax.get_yaxis_transform(),
            ha="center",
            va="center",
            fontsize="small",
        )
    if np.isfinite(differing["p_interaction"]):
        figures = (
            i2_text(differing["i2"]),
            tau_text(differing["tau"]),
            format_p_value(differing["p_interaction"]),
        )
        ax.set_xlabel("I² {}, τ {}, p {}".format(*figures), fontsize="small")
