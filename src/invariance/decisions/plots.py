"""Pictures of a decision: coefficients by environment, compatible subsets, and how prediction and invariance trade."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.figures import new_figure, plain_ticks, save_figure
from .._tools.layout import name_labels, shorten
from ..exceptions import SettingError
from ..posterior.summary import format_p_value, format_probability, format_share
from .decision import Decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PLAIN, _CHOSEN, _FAINT, _WARN = "#3f8fd2", "#d9822b", "#9aa3ad", "#b5483a"
_LONGEST_NAME = 20
# In inches: what a headline and the label of an axis need.
_NARROWEST = 6.4
_MOST_PANELS, _PANELS_PER_ROW = 12, 4
_MOST_ENVIRONMENTS = 40
_MOST_COLUMNS = 30
# p-values below count as this in a picture.
_LEAST_P_VALUE = 1e-4


def plot_coefficients(decision: Decision, coverage: float = 0.95) -> Figure:
    """A panel for each column of the chosen features: its coefficient in every environment with an interval, and the
    pooled one as a band. Twelve columns and forty environments at most."""
    table = decision.coefficients(coverage)
    columns = list(dict.fromkeys(table["column"]))
    labels = list(decision.findings.posterior.environments)[:_MOST_ENVIRONMENTS]
    shown = columns[:_MOST_PANELS]
    if not shown:
        return _only_text(decision, "No feature is selected: there are no coefficients.")
    n_across = min(len(shown), _PANELS_PER_ROW)
    n_down = -(-len(shown) // n_across)
    figure = new_figure(max(_NARROWEST, 1.6 + 2.1 * n_across), 0.8 + n_down * (0.75 + 0.2 * max(len(labels), 3)))
    panels = figure.subplots(n_down, n_across, sharey=True, squeeze=False)
    by_column = table.set_index("column")[["estimate", "lower", "upper"]]
    for ax, name, title in zip(panels.flat, shown, name_labels(shown, _LONGEST_NAME), strict=False):
        values = by_column.loc[[name]].to_numpy(dtype=float)
        _forest(ax, values[0], values[1 : len(labels) + 1])
        ax.set_title(title, fontsize="small", parse_math=False)
    for ax in panels.flat[len(shown) :]:
        ax.set_visible(False)
    for ax in panels[:, 0]:
        ax.set_yticks(np.arange(len(labels)), name_labels([str(label) for label in labels], _LONGEST_NAME))
        ax.set_ylim(len(labels) - 0.4, -0.6)
        plain_ticks(ax)
    figure.supxlabel(f"coefficient and {100 * coverage:g}% interval (band: all rows together)", fontsize="medium")
    figure.supylabel("environment", fontsize="medium")
    _headline(figure, decision, _cut(len(shown), len(columns), "columns"), _cut_environments(decision, len(labels)))
    return figure


def _forest(ax: Axes, pooled: Floats, local: Floats) -> None:
    """pooled (3,), local (E, 3): estimate, lower, upper."""
    if np.isfinite(pooled[1:]).all():
        ax.axvspan(pooled[1], pooled[2], color=_CHOSEN, alpha=0.25, lw=0)
    ax.axvline(pooled[0], color=_CHOSEN, lw=1.2)
    known = np.flatnonzero(np.isfinite(local[:, 0]))
    margins = np.abs(local[known][:, [1, 2]].T - local[known, 0])
    ax.errorbar(local[known, 0], known, xerr=margins, fmt="o", ms=3.5, lw=1.1, color=_PLAIN)
    for row in np.flatnonzero(~np.isfinite(local[:, 0])).tolist():
        ax.text(0.5, row, "constant", transform=ax.get_yaxis_transform(), ha="center", va="center", fontsize="x-small")
    ax.axvline(0.0, color="0.6", lw=0.8, ls="--", zorder=0)
    ax.locator_params(axis="x", nbins=4)
    ax.tick_params(axis="x", labelsize="small")
    ax.tick_params(axis="y", length=0, labelsize="small")
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)


def plot_subsets(decision: Decision, top: int = 15) -> Figure:
    """The `top` compatible subsets, the best predictor first: a dot for each feature that they hold, and bars of their
    probability among compatible subsets, of R² and of p_inv. The chosen one stands out."""
    if top < 1:
        raise SettingError(f"top must be at least 1, not {top}")
    predictive = decision.findings.predictive
    if predictive is None:
        return _only_text(decision, "No subset is compatible with invariance.")
    masks = predictive.masks[:top]
    evidence = predictive.leading_evidence(len(masks))
    held = np.flatnonzero(masks.any(axis=0))
    held = held[np.argsort(-predictive.inclusion[held], kind="stable")]
    shown = held[:_MOST_COLUMNS]
    chosen = (masks == decision.mask).all(axis=1)
    width = max(2.0, 0.28 * len(shown))
    figure = new_figure(width + 5.4, 2.1 + 0.26 * max(len(masks), 4))
    dots, *bars = figure.subplots(1, 4, sharey=True, width_ratios=[width, 1.5, 1.5, 1.5])
    _dots(dots, masks[:, shown], chosen)
    names = name_labels([predictive.feature_names[j] for j in shown], _LONGEST_NAME)
    dots.set_xticks(np.arange(len(shown)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize="small")
    dots.set_yticks(np.arange(len(masks)), [str(rank) for rank in range(1, len(masks) + 1)], fontsize="small")
    plain_ticks(dots)
    dots.set_xlabel("feature" if len(shown) == len(held) else f"feature ({len(shown)} of {len(held)} in these subsets)")
    dots.set_ylabel("rank")
    _bars(bars[0], np.exp(predictive.log_probabilities[: len(masks)]), chosen, "probability", format_probability)
    _bars(bars[1], evidence.r2, chosen, "R²", format_share)
    _bars(bars[2], evidence.p_invariant, chosen, "p_inv", format_p_value)
    bars[-1].axvline(decision.accepted.level, color=_WARN, lw=1.0, ls="--")
    n = decision.compatible.n
    _headline(figure, decision, _cut(len(masks), n, "compatible subsets"))
    return figure


def _dots(ax: Axes, held: Mask, chosen: Mask) -> None:
    n_rows, n_columns = held.shape
    rows, columns = np.mgrid[:n_rows, :n_columns]
    colours = np.where(held, np.where(chosen[:, None], _CHOSEN, "#33404d"), "#e3e7eb")
    ax.scatter(columns.ravel(), rows.ravel(), c=colours.ravel().tolist(), s=34, zorder=2)
    for row, mask in enumerate(held):
        if mask.sum() > 1:
            ends = np.flatnonzero(mask)[[0, -1]]
            ax.plot(ends, [row, row], color=_CHOSEN if chosen[row] else "#33404d", lw=1.2, zorder=1)
    ax.set_xlim(-0.7, max(n_columns - 0.3, 0.7))
    ax.set_ylim(max(n_rows, 4) - 0.4, -0.6)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _bars(ax: Axes, values: Floats, chosen: Mask, label: str, written: Callable[[float], str]) -> None:
    known = np.nan_to_num(values, nan=0.0)
    ax.barh(np.arange(len(values)), known, height=0.6, color=np.where(chosen, _CHOSEN, _PLAIN).tolist(), zorder=2)
    for row, value in enumerate(values):
        ax.text(1.02, row, written(float(value)), transform=ax.get_yaxis_transform(), va="center", fontsize="x-small")
    ax.set_xlim(0.0, 1.0)
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"], fontsize="small")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="0.92", zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(label)


def plot_frontier(decision: Decision, ax: Axes | None = None) -> Axes:
    """R² against p_inv of every subset that was scored, or of those that the posteriors list; the level from which on
    subsets count as compatible, the best R² for each p_inv, the chosen subset and the most probable one."""
    survey = decision.survey
    if ax is None:
        ax = new_figure(7.0, 4.6).add_subplot()
        _headline(ax.figure, decision, _cut(len(survey.masks), survey.n_subsets, "subsets"))
    p_values = np.maximum(survey.p_invariant, _LEAST_P_VALUE)
    many = len(p_values) > 300
    ax.scatter(
        p_values, survey.r2, s=8 if many else 18, color=_FAINT, alpha=0.5 if many else 0.8, lw=0, rasterized=many
    )
    known = np.flatnonzero(np.isfinite(survey.r2))
    order = known[np.lexsort((-survey.r2[known], -p_values[known]))]
    best = np.maximum.accumulate(survey.r2[order])
    ax.step(p_values[order], best, where="post", color=_PLAIN, lw=1.3, label="best R² at this p_inv or above")
    level = decision.accepted.level
    ax.axvline(level, color=_WARN, lw=1.0, ls="--", label=f"level {level:g}: compatible to the right")
    mode = decision.mode_evidence
    at_mode = max(mode.p_invariant, _LEAST_P_VALUE)
    ax.plot(at_mode, mode.r2, "D", ms=8, mfc="none", mec="#33404d", mew=1.4, label="most probable subset")
    chosen = decision.evidence
    at_chosen = max(chosen.p_invariant, _LEAST_P_VALUE)
    ax.plot(at_chosen, chosen.r2, "*", ms=14, color=_CHOSEN, mec="white", mew=0.6, label="selected subset")
    ax.set_xscale("log")
    ax.set_xlim(_LEAST_P_VALUE * 0.7, 1.3)
    ax.set_xticks([1e-4, 1e-3, 1e-2, 0.1, 1.0], ["≤ 0.0001", "0.001", "0.01", "0.1", "1"])
    ax.minorticks_off()
    ax.set_ylim(min(0.0, *survey.r2[known].tolist()) - 0.03, 1.03)
    ax.set_xlabel("p_inv: p-value of invariance")
    ax.set_ylabel("R² of the pooled fit")
    ax.grid(color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False, fontsize="small")
    return ax


PICTURES: dict[str, Callable[[Decision], Any]] = {
    "coefficients": plot_coefficients,
    "subsets": plot_subsets,
    "frontier": lambda decision: plot_frontier(decision).figure,
}


def save_picture(decision: Decision, kind: str, path: str | Path) -> Path:
    """Write one of PICTURES to a file whose ending gives the format; returns the path that was written."""
    if kind not in PICTURES:
        raise SettingError(f"there is no picture {kind!r}: use {' or '.join(map(repr, PICTURES))}.")
    return save_figure(PICTURES[kind](decision), path)


def _headline(figure: Any, decision: Decision, *cuts: str) -> None:
    posterior, n = decision.findings.posterior, len(decision.selected)
    outcome = shorten(posterior.outcome_name, _LONGEST_NAME)
    state = "compatible with invariance" if decision.is_compatible else "NOT compatible with invariance"
    if not decision.judged:
        state = "which the rows cannot judge"
    if posterior.n_environments == 1:
        state = "one environment cannot show invariance"
    text = f"Outcome {outcome}: {n:,} feature{'' if n == 1 else 's'} selected, {state}"
    said = "\n".join([text, *filter(None, cuts)])
    figure.suptitle(said, x=0.01, ha="left", fontsize="medium", parse_math=False)


def _cut(shown: int, total: int, what: str) -> str:
    return f"{shown:,} of {total:,} {what}" if shown < total else ""


def _cut_environments(decision: Decision, shown: int) -> str:
    return _cut(shown, decision.findings.posterior.n_environments, "environments")


def _only_text(decision: Decision, text: str) -> Figure:
    figure = new_figure(7.0, 1.6)
    _headline(figure, decision)
    figure.text(0.5, 0.4, text, ha="center", va="center")
    return figure
