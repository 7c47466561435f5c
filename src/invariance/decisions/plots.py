"""Pictures of a decision: coefficients by environment, compatible subsets, and how prediction and invariance trade."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from .._tools.plotting import (
    CHOSEN,
    FAINT,
    GUIDE,
    PARTS,
    PLAIN,
    WARN,
    Size,
    axes_for,
    empty,
    has_layout,
    headline,
    ink,
    panels_for,
    plain_ticks,
    save_drawing,
    tidy,
    title,
    widest,
)
from .._tools.text import format_subset, name_labels, shorten
from ..exceptions import SettingError, WrongTypeError
from ..posterior.plots import check_kind, inclusion_size, plot_inclusion
from ..posterior.posterior import check_at_least_one
from ..posterior.summary import format_count, format_p_value, format_probability, format_share
from .decision import STANDS_FOR, Decision
from .environments import ALARM, ComparedEnvironments, Deviation, EnvironmentTest, compared_environments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def decision_of(given: Any, function: str) -> Decision:
    """A decision or that of a fitted model; function: the name of what was called with it."""
    if isinstance(given, Decision):
        return given
    if hasattr(type(given), "decision_"):
        decision: Decision = given.decision_
        return decision
    raise WrongTypeError(
        f"{function} draws a decision, not {type(given).__name__}: pass a fitted model, or its model.decision_."
    )


def compared_of(given: Any, function: str) -> ComparedEnvironments:
    """Environments that were compared, or those of a decision or a fitted model."""
    if isinstance(given, ComparedEnvironments):
        return given
    if isinstance(given, Decision) or hasattr(type(given), "decision_"):
        decision = decision_of(given, function)
        return compared_environments(decision.findings.target.model, decision.mask)
    raise WrongTypeError(
        f"{function} draws a diagnosis, not {type(given).__name__}: pass model.diagnose(), a fitted model, or its "
        "model.decision_."
    )


_LONGEST_LABEL, _LONGEST_NAME, _LONGEST_SUBSET = 32, 20, 36
_FEW, _MOST = 12, 40
_SMALLEST = 1e-300


def environments_size(diagnosis: ComparedEnvironments) -> Size:
    """How large a figure `plot_environments` wants, in inches."""
    n = min(diagnosis.n_environments, _MOST)
    return 7.0, 2.1 + n * (0.5 if n <= _FEW else 0.3)


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


_LONGEST_NAME = 20
# In inches: what a headline and the label of an axis need.
_NARROWEST = 6.4
_ONLY_TEXT = (7.0, 1.6)
_MOST_PANELS, _PANELS_PER_ROW = 12, 4
_MOST_ENVIRONMENTS = 40
_MOST_SUBSETS, _MOST_COLUMNS = 15, 30
_WIDTH_OF_BARS = 1.5
# Between panels that matplotlib does not lay out: numbers stand there.
_APART = {"wspace": 0.6, "bottom": 0.3, "right": 0.88}
# p-values below count as this in a picture.
_LEAST_P_VALUE = 1e-4

_HOLLOW = "hollow: stands for a column that is not identified there, too"

Panels = NDArray[np.object_]


def coefficients_size(decision: Decision, top: int = _MOST_PANELS) -> Size:
    """How large a figure `plot_coefficients` wants, in inches."""
    n = min(top, len(decision.columns))
    if not n:
        return _ONLY_TEXT
    n_across, n_down = _grid(n)
    n_shown = min(max(decision.findings.posterior.n_environments, 3), _MOST_ENVIRONMENTS)
    return max(_NARROWEST, 1.6 + 2.1 * n_across), 0.8 + n_down * (0.75 + 0.2 * n_shown)


def plot_coefficients(
    decision: Decision, ax: Axes | None = None, top: int = _MOST_PANELS, coverage: float = 0.95
) -> Panels:
    """A panel for each of the first `top` columns of the chosen features: its coefficient in every environment with an
    interval, and the pooled one as a band. Forty environments at most.

    Returns the axes of the panels. Without `ax` a new figure of pyplot is made; the place of an `ax` is divided.
    """
    decision = decision_of(decision, "plot_coefficients")
    check_at_least_one("top", top)
    table, columns = decision.coefficients(coverage), decision.columns
    labels = list(decision.findings.posterior.environments)[:_MOST_ENVIRONMENTS]
    shown = columns[:top]
    figure = panels_for(ax, coefficients_size(decision, top))
    if not shown:
        return _only_text(figure, decision, "No feature is selected: there are no coefficients.")
    n_across, n_down = _grid(len(shown))
    panels = figure.subplots(n_down, n_across, sharey=True, squeeze=False)
    drawn = table.groupby("column", sort=False).head(len(labels) + 1).set_index("column")
    values, notes = drawn[["estimate", "lower", "upper"]].astype(float), drawn["note"]
    for panel, name, label in zip(panels.flat, shown, name_labels(shown, _LONGEST_NAME), strict=False):
        pooled, *local = values.loc[[name]].to_numpy()
        _forest(panel, pooled, np.array(local), notes.loc[[name]].tolist()[1:])
        panel.set_title(label, fontsize="small", parse_math=False)
    for panel in panels.flat[len(shown) :]:
        panel.remove()
    for panel in panels[:, 0]:
        panel.set_yticks(np.arange(len(labels)), name_labels([str(label) for label in labels], _LONGEST_NAME))
        panel.set_ylim(len(labels) - 0.4, -0.6)
    for panel in panels.flat[: len(shown)]:
        plain_ticks(panel)
    interval = f" and {100 * coverage:g}% interval" if values["lower"].notna().any() else ""
    figure.supxlabel(f"coefficient{interval} ({'band' if interval else 'line'}: all rows together)", fontsize="medium")
    figure.supylabel("environment", fontsize="medium")
    shared = _HOLLOW if notes.loc[list(shown)].str.startswith(STANDS_FOR).any() else ""
    cuts = _cut(len(shown), len(columns), "columns"), _cut_environments(decision, len(labels))
    _headline(figure, decision, *cuts, shared)
    return panels.ravel()[: len(shown)]


def _grid(n_panels: int) -> tuple[int, int]:
    """How many across, how many down."""
    n_across = min(n_panels, _PANELS_PER_ROW)
    return n_across, -(-n_panels // n_across)


def _forest(ax: Axes, pooled: Floats, local: Floats, notes: Sequence[str]) -> None:
    """pooled (3,), local (E, 3): estimate, lower, upper; a note for each environment."""
    if np.isfinite(pooled[1:]).all():
        ax.axvspan(pooled[1], pooled[2], color=CHOSEN, alpha=0.25, lw=0)
    ax.axvline(pooled[0], color=CHOSEN, lw=1.2)
    known = np.isfinite(local[:, 0])
    shared = np.array([note.startswith(STANDS_FOR) for note in notes], dtype=bool)
    for rows, face in ((np.flatnonzero(known & ~shared), PLAIN), (np.flatnonzero(known & shared), ax.get_facecolor())):
        margins = np.abs(local[rows][:, [1, 2]].T - local[rows, 0])
        ax.errorbar(local[rows, 0], rows, xerr=margins, fmt="o", ms=3.5, lw=1.1, color=PLAIN, mfc=face)
    for row in np.flatnonzero(~known).tolist():
        ax.text(0.5, row, notes[row], transform=ax.get_yaxis_transform(), ha="center", va="center", fontsize="x-small")
    ax.axvline(0.0, color="0.6", lw=0.8, ls="--", zorder=0)
    ax.locator_params(axis="x", nbins=4)
    ax.tick_params(axis="x", labelsize="small")
    ax.tick_params(axis="y", length=0, labelsize="small")
    tidy(ax, without=("top", "right", "left"))


class _Listed(NamedTuple):
    """The subsets of a picture (k, p), and the features that they hold, the most probable first."""

    masks: Mask
    held: NDArray[np.intp]

    @property
    def shown(self) -> NDArray[np.intp]:
        return self.held[:_MOST_COLUMNS]

    @property
    def width(self) -> float:
        """Of the dots, in inches."""
        return max(2.0, 0.28 * len(self.shown))


def _listed(decision: Decision, top: int) -> _Listed | None:
    """None where no subset is compatible with invariance."""
    predictive = decision.findings.predictive
    if predictive is None:
        return None
    masks = predictive.masks[:top]
    held = np.flatnonzero(masks.any(axis=0))
    return _Listed(masks, held[np.argsort(-predictive.inclusion[held], kind="stable")])


def subsets_size(decision: Decision, top: int = _MOST_SUBSETS) -> Size:
    """How large a figure `plot_subsets` wants, in inches."""
    listed = _listed(decision, top)
    if listed is None:
        return _ONLY_TEXT
    # Names stand at 60 degrees.
    below = 0.87 * widest(_names(decision, listed), "small")
    bars = 5.4 if decision.findings.posterior.n_environments > 1 else 3.6
    return max(listed.width + bars, _NARROWEST), 1.4 + max(below, 0.7) + 0.26 * max(len(listed.masks), 4)


def _names(decision: Decision, listed: _Listed) -> list[str]:
    return name_labels([decision.findings.posterior.feature_names[j] for j in listed.shown], _LONGEST_NAME)


def plot_subsets(decision: Decision, ax: Axes | None = None, top: int = _MOST_SUBSETS) -> Panels:
    """The `top` compatible subsets, the best predictor first: a dot for each feature that they hold, and bars of their
    probability among compatible subsets, of R² and of p_inv, which one environment does not have. The chosen one
    stands out.

    Returns the axes of the panels. Without `ax` a new figure of pyplot is made; the place of an `ax` is divided.
    """
    decision = decision_of(decision, "plot_subsets")
    check_at_least_one("top", top)
    figure = panels_for(ax, subsets_size(decision, top))
    predictive, listed = decision.findings.predictive, _listed(decision, top)
    if predictive is None or listed is None:
        return _only_text(figure, decision, f"No subset{decision.findings.allowed} is compatible with invariance.")
    masks, held, shown = listed.masks, listed.held, listed.shown
    evidence = predictive.leading_evidence(len(masks))
    chosen = (masks == decision.mask).all(axis=1)
    apart = {} if has_layout(figure) else _APART
    several = predictive.n_environments > 1
    n_bars = 3 if several else 2
    widths = [listed.width, *[_WIDTH_OF_BARS] * n_bars]
    panels = figure.subplots(1, 1 + n_bars, sharey=True, width_ratios=widths, gridspec_kw=apart)
    dots, *bars = panels
    _dots(dots, masks[:, shown], chosen)
    dots.set_xticks(np.arange(len(shown)), _names(decision, listed), rotation=60, ha="right", rotation_mode="anchor")
    dots.set_yticks(np.arange(len(masks)), [str(rank) for rank in range(1, len(masks) + 1)])
    dots.tick_params(labelsize="small")
    plain_ticks(dots)
    dots.set_xlabel("feature" if len(shown) == len(held) else f"feature ({len(shown)} of {len(held)} in these subsets)")
    dots.set_ylabel("rank")
    _bars(bars[0], np.exp(predictive.log_probabilities[: len(masks)]), chosen, "probability", format_probability)
    _bars(bars[1], evidence.r2, chosen, "R²", format_share)
    if several:
        _bars(bars[2], evidence.p_invariant, chosen, "p_inv", format_p_value)
        bars[2].axvline(decision.accepted.level, color=WARN, lw=1.0, ls="--")
    which = "compatible subsets" if several else "subsets"
    _headline(figure, decision, _cut(len(masks), decision.compatible.n, which))
    return panels


def _dots(ax: Axes, held: Mask, chosen: Mask) -> None:
    n_rows, n_columns = held.shape
    rows, columns = np.mgrid[:n_rows, :n_columns]
    colours = np.where(held, np.where(chosen[:, None], CHOSEN, ink(ax)), empty(ax))
    ax.scatter(columns.ravel(), rows.ravel(), c=colours.ravel().tolist(), s=34, zorder=2)
    for row, mask in enumerate(held):
        if mask.sum() > 1:
            ends = np.flatnonzero(mask)[[0, -1]]
            ax.plot(ends, [row, row], color=CHOSEN if chosen[row] else ink(ax), lw=1.2, zorder=1)
    ax.set_xlim(-0.7, max(n_columns - 0.3, 0.7))
    ax.set_ylim(max(n_rows, 4) - 0.4, -0.6)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _bars(ax: Axes, values: Floats, chosen: Mask, label: str, written: Callable[[float], str]) -> None:
    known = np.nan_to_num(values, nan=0.0)
    ax.barh(np.arange(len(values)), known, height=0.6, color=np.where(chosen, CHOSEN, PLAIN).tolist(), zorder=2)
    for row, value in enumerate(values):
        ax.text(1.02, row, written(float(value)), transform=ax.get_yaxis_transform(), va="center", fontsize="x-small")
    ax.set_xlim(0.0, 1.0)
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"], fontsize="small")
    ax.tick_params(axis="y", length=0)
    tidy(ax)
    ax.set_xlabel(label)


def frontier_size(decision: Decision) -> Size:
    """How large a figure `plot_frontier` wants, in inches."""
    return (7.0, 4.8) if decision.findings.posterior.n_environments > 1 else _ONLY_TEXT


def plot_frontier(decision: Decision, ax: Axes | None = None) -> Axes:
    """R² against p_inv of every subset that was scored, or of those that the posteriors list; the level from which on
    subsets count as compatible, the best R² for each p_inv, the chosen subset and the most probable one.

    Without `ax` a new figure of pyplot is made; it is at `ax.figure`.
    """
    decision = decision_of(decision, "plot_frontier")
    if decision.findings.posterior.n_environments < 2:
        (alone,) = _only_text(panels_for(ax, _ONLY_TEXT), decision, "One environment has no p-value of invariance.")
        return alone
    survey = decision.survey
    ax = axes_for(ax, frontier_size(decision))
    p_values = np.maximum(survey.p_invariant, _LEAST_P_VALUE)
    many = len(p_values) > 300
    ax.scatter(p_values, survey.r2, s=8 if many else 18, color=FAINT, alpha=0.5 if many else 0.8, lw=0, rasterized=many)
    known = np.flatnonzero(np.isfinite(survey.r2))
    order = known[np.lexsort((-survey.r2[known], -p_values[known]))]
    best = np.maximum.accumulate(survey.r2[order])
    ax.step(p_values[order], best, where="post", color=PLAIN, lw=1.3, label="best R² at this p_inv or above")
    level = decision.accepted.level
    ax.axvline(level, color=WARN, lw=1.0, ls="--", label=f"level {level:g}: compatible to the right")
    mode = decision.mode_evidence
    at_mode = max(mode.p_invariant, _LEAST_P_VALUE)
    ax.plot(at_mode, mode.r2, "D", ms=8, mfc="none", mec=ink(ax), mew=1.4, label="most probable subset")
    chosen = decision.evidence
    at_chosen = max(chosen.p_invariant, _LEAST_P_VALUE)
    ax.plot(at_chosen, chosen.r2, "*", ms=14, color=CHOSEN, mec="white", mew=0.6, label="selected subset")
    ax.set_xscale("log")
    ax.set_xlim(_LEAST_P_VALUE * 0.7, 1.3)
    ax.set_xticks([1e-4, 1e-3, 1e-2, 0.1, 1.0], ["≤ 0.0001", "0.001", "0.01", "0.1", "1"])
    ax.minorticks_off()
    ax.set_ylim(min([0.0, *survey.r2[known].tolist()]) - 0.03, 1.03)
    ax.set_xlabel("p_inv: p-value of invariance")
    ax.set_ylabel("R² of the pooled fit")
    tidy(ax, "both")
    title(ax, _headline_text(decision, _cut(len(survey.masks), survey.n_subsets, "subsets")))
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2, "frameon": False}
    ax.legend(**(below if has_layout(ax.figure) else {}), fontsize="small")
    return ax


def _draw_environments(decision: Decision, ax: Axes | None = None) -> Axes:
    if decision.findings.posterior.n_environments > 1:
        return plot_environments(compared_environments(decision.findings.target.model, decision.mask), ax)
    (ax,) = _only_text(panels_for(ax, _ONLY_TEXT), decision, "There is nothing to compare one environment with.")
    return ax


def _environments_size(decision: Decision) -> Size:
    if decision.findings.posterior.n_environments < 2:
        return _ONLY_TEXT
    return environments_size(compared_environments(decision.findings.target.model, decision.mask))


class Picture(NamedTuple):
    """draw(decision, ax) returns axes; size(decision) is what it wants, in inches. Both take `top` if `has_top`."""

    draw: Callable[..., Any]
    size: Callable[..., Size]
    has_top: bool = True


PICTURES = {
    "inclusion": Picture(
        lambda decision, ax, **top: plot_inclusion(decision.findings.posterior, ax, **top),
        lambda decision, **top: inclusion_size(decision.findings.posterior, **top),
    ),
    "subsets": Picture(plot_subsets, subsets_size),
    "coefficients": Picture(plot_coefficients, coefficients_size),
    "environments": Picture(_draw_environments, _environments_size, has_top=False),
    "frontier": Picture(plot_frontier, frontier_size, has_top=False),
}


def plot(decision: Decision, kind: str, ax: Axes | None = None, top: int | None = None) -> Any:
    """Draw one of PICTURES; returns its axes."""
    picture, limit = _picture(kind, top)
    return picture.draw(decision, ax, **limit)


def picture_size(decision: Decision, kind: str, top: int | None = None) -> Size:
    """How large a figure one of PICTURES wants, in inches."""
    picture, limit = _picture(kind, top)
    return picture.size(decision, **limit)


def save_picture(decision: Decision, kind: str, path: str | Path, top: int | None = None) -> Path:
    """Write one of PICTURES to a file whose ending gives the format; returns the path that was written."""
    return save_drawing(partial(plot, decision, kind, top=top), picture_size(decision, kind, top), path)


def _picture(kind: str, top: int | None) -> tuple[Picture, dict[str, int]]:
    check_kind(kind)
    picture = PICTURES[kind]
    if top is not None and picture.has_top:
        check_at_least_one("top", top)
    if top is None:
        return picture, {}
    if not picture.has_top:
        raise SettingError(f"the picture {kind!r} is not cut to a number: leave out top={top}.")
    return picture, {"top": top}


def _headline(figure: Figure | SubFigure, decision: Decision, *cuts: str) -> None:
    headline(figure, _headline_text(decision, *cuts))


def _headline_text(decision: Decision, *cuts: str) -> str:
    posterior, n = decision.findings.posterior, len(decision.selected)
    outcome = shorten(posterior.outcome_name, _LONGEST_NAME)
    state = "compatible with invariance" if decision.is_compatible else "NOT compatible with invariance"
    if not decision.judged:
        state = "which the rows cannot judge"
    if posterior.n_environments == 1:
        state = "one environment cannot show invariance"
    text = f"Outcome {outcome}: {n:,} feature{'' if n == 1 else 's'} selected, {state}"
    return "\n".join([text, *filter(None, cuts)])


def _cut(shown: int, total: int, what: str) -> str:
    return f"{format_count(shown)} of {format_count(total)} {what}" if shown < total else ""


def _cut_environments(decision: Decision, shown: int) -> str:
    return _cut(shown, decision.findings.posterior.n_environments, "environments")


def _only_text(figure: Figure | SubFigure, decision: Decision, text: str) -> Panels:
    """Axes without a frame, as an array (1,)."""
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    _headline(figure, decision)
    return np.array([ax], dtype=object)
