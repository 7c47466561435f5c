"""Plots of a decision: effects by environment, held-out environments, subsets, frontier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Fields, Floats, Mask
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
)
from .._tools.text import format_subset, name_labels, shorten
from ..exceptions import SettingError
from ..models.base import Level
from ..posterior.plots import (
    MOST_BARS,
    TRACE_SIZE,
    check_kind,
    check_not_cut,
    inclusion_size,
    plot_inclusion,
    plot_trace,
)
from ..posterior.posterior import check_at_least_one
from ..posterior.summary import format_count, format_p_value, format_probability, format_share
from .decision import Decision
from .effects import effect_name, effects, scale_of
from .environments import ALARM, ComparedEnvironments, compared_environments
from .forests import MOST_ENVIRONMENTS, environment_axis, forests

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Panels(dict[str, "Axes"]):
    """The axes of a picture of several panels by their names, in its order; figure : theirs."""

    @property
    def figure(self) -> Figure | SubFigure:
        return next(iter(self.values())).figure

    def __repr__(self) -> str:
        return f"Panels({', '.join(map(repr, self))})"


_LONGEST_LABEL = 32
_LONGEST_NAME = 20
_LONGEST_SUBSET = 36
_FEW = 12
_MOST_PANELS = 12
_PANELS_PER_ROW = 4
_MOST_SUBSETS = 15
_MOST_COLUMNS = 30
# In inches: what a headline and the label of an axis need.
_NARROWEST = 6.4
_WIDTH_OF_BARS = 1.5
_ONLY_TEXT = (7.0, 1.6)
# Between panels that matplotlib does not lay out: numbers stand there.
_APART = {"wspace": 0.6, "bottom": 0.3, "right": 0.88}
# Smaller p-values in pictures of environments, and smaller differences in that of the frontier,
# count as these.
_SMALLEST = 1e-300
_LEAST_DIFFERENCE = 5e-3


class Picture(NamedTuple):
    """draw(decision, place, top) returns axes, on a figure to divide if `panels`, else on axes;
    size(decision, top) in inches; top : how much is shown by default, None where nothing is cut"""

    draw: Callable[[Decision, Any, int], Any]
    size: Callable[[Decision, int], Size]
    top: int | None = None
    panels: bool = False


def plot(decision: Decision, kind: str, ax: Axes | None = None, top: int | None = None) -> Any:
    """Draw one of PICTURES on axes or a new figure of pyplot; returns the axes, or Panels."""
    picture = PICTURES[check_kind(kind)]
    nothing = _nothing(decision, kind)
    size = picture_size(decision, kind, top)
    top = picture.top if top is None else top
    if nothing:
        figure = panels_for(ax, size)
        only = figure.add_subplot()
        only.set_axis_off()
        only.text(0.5, 0.5, nothing, ha="center", va="center", transform=only.transAxes)
        headline(figure, _headline_text(decision))
        return Panels({kind: only}) if picture.panels else only
    return picture.draw(
        decision, panels_for(ax, size) if picture.panels else axes_for(ax, size), top or 0
    )


def picture_size(decision: Decision, kind: str, top: int | None = None) -> Size:
    """The figure that `plot` wants, in inches."""
    default = PICTURES[kind].top
    if default is None:
        check_not_cut(kind, top)
    elif top is not None:
        check_at_least_one("top", top)
    return (
        _ONLY_TEXT
        if _nothing(decision, kind)
        else PICTURES[kind].size(decision, top or default or 0)
    )


def save_picture(decision: Decision, kind: str, path: str | Path, top: int | None = None) -> Path:
    """Write a picture to a file whose ending gives the format; returns the path that was
    written."""
    return save_drawing(
        partial(plot, decision, kind, top=top), picture_size(decision, kind, top), path
    )


def _nothing(decision: Decision, kind: str) -> str:
    """A sentence where there is nothing to draw."""
    if kind == "subsets" and decision.predictive is None:
        return f"No subset{decision.findings.allowed} is compatible with invariance."
    if kind == "along" and decision.curves is None:
        return "Environments were not compared along a variable, or these features cannot be."
    if kind in ("coefficients", "effects") and not decision.columns:
        return f"No feature is selected: there are no {kind}."
    if kind == "effects":
        return _no_effects(decision)
    if kind in ("calibration", "left_out"):
        return _nothing_left_out(decision, kind)
    if kind in ("environments", "frontier") and decision.n_environments < 2:
        return "There is nothing to compare one environment with."
    if kind == "trace" and "trace" not in decision.findings.posterior.diagnostics:
        return 'Only variational inference, engine="vi", has an ELBO to draw.'
    return ""


def _no_effects(decision: Decision) -> str:
    try:
        if not effects(decision).empty:
            return ""
    except SettingError as error:  # with a link of one's own
        return str(error)[:1].upper() + str(error)[1:]
    return "The selected features act by curves, which have no single effect."


def _nothing_left_out(decision: Decision, kind: str) -> str:
    if decision.n_environments < 2:
        return "With one environment none can be left out."
    found = decision.new_environments
    left_out = found.left_out
    if not left_out:
        return found.why_none
    if kind == "calibration" and all(left.calibration is None for left in left_out):
        return "Calibration needs the rows, and second moments alone are known."
    return ""


def _headline_text(decision: Decision, *cuts: str) -> str:
    posterior = decision.findings.posterior
    n = len(decision.selected)
    outcome = shorten(posterior.outcome_name, _LONGEST_NAME)
    text = (
        f"Outcome {outcome}: {n:,} feature{'' if n == 1 else 's'} selected; environments: "
        f"{decision.in_short}"
    )
    return "\n".join([text, *filter(None, cuts)])


def _cut(shown: int, total: int, what: str) -> str:
    return f"{format_count(shown)} of {format_count(total)} {what}" if shown < total else ""


def environments_size(n_environments: int) -> Size:
    n = min(n_environments, MOST_ENVIRONMENTS)
    return 7.0, 2.1 + n * (0.5 if n <= _FEW else 0.3)


def save_environments(compared: ComparedEnvironments, path: str | Path) -> Path:
    """Write `plot_environments` to a file whose ending gives the format; returns the path that was
    written."""
    size = environments_size(compared.n_environments)
    return save_drawing(lambda ax: plot_environments(compared, ax), size, path)


def plot_environments(compared: ComparedEnvironments, ax: Axes | None = None) -> Axes:
    """Bars of −log₁₀ p of each environment against the others, by part, and a diamond for all parts
    together.

    Diamonds beyond the dashed line raise an alarm. Of more than forty environments those that
    deviate most are shown.
    """
    ax = axes_for(ax, environments_size(compared.n_environments))
    p_values = np.array(
        [np.nan if test.deviation is None else test.deviation.p_value for test in compared.tests]
    )
    shown = np.sort(np.argsort(p_values, kind="stable")[:MOST_ENVIRONMENTS])
    tests = [compared.tests[e] for e in shown]
    parts = compared.parts
    n = len(shown)
    height = 0.8 / len(parts)
    for k, part in enumerate(parts):
        tested = (
            None if test.deviation is None else test.deviation.parts[part].p_value for test in tests
        )
        values = [1.0 if p_value is None else p_value for p_value in tested]
        places = np.arange(n) + (k - (len(parts) - 1) / 2.0) * height
        ax.barh(
            places, _minus_log10(values), height=height * 0.9, color=PARTS[k], label=part, zorder=2
        )
    alarms = p_values[shown] < compared.threshold
    wholes = _minus_log10(p_values[shown])
    for which, colour, label in (
        (~alarms, ink(ax), "all parts together"),
        (alarms, WARN, "all together: alarm"),
    ):
        if which.any():
            ax.plot(
                wholes[which],
                np.flatnonzero(which),
                "D",
                ms=6,
                color=colour,
                mec="white",
                label=label,
                zorder=4,
            )
    for row in np.flatnonzero(np.isnan(wholes)).tolist():
        ax.text(
            0.02,
            row,
            "cannot be judged",
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize="x-small",
        )
    beyond = f"diamonds beyond: alarm (p below {ALARM:g}/{compared.n_environments})"
    ax.axvline(
        -np.log10(compared.threshold),
        color=GUIDE,
        linewidth=1.0,
        linestyle="--",
        label=beyond,
        zorder=3,
    )
    environment_axis(ax, [test.environment for test in tests], _LONGEST_LABEL)
    for name, alarm in zip(ax.get_yticklabels(), alarms, strict=True):
        if alarm:
            name.set(color=WARN, fontweight="bold")
    ax.set_xlim(left=0.0)
    tidy(ax)
    ax.set_xlabel("−log₁₀ p-value against all other environments")
    cut = n < compared.n_environments
    ax.set_ylabel(f"environment ({n} of {compared.n_environments:,})" if cut else "environment")
    outcome = shorten(compared.outcome_name, _LONGEST_NAME)
    above: Fields = {
        "loc": "lower left",
        "bbox_to_anchor": (0.0, 1.0),
        "ncols": 3,
        "frameon": False,
    }
    ax.legend(**(above if has_layout(ax.figure) else {}), fontsize="small")
    given = f"Outcome {outcome} given {format_subset(compared.subset, _LONGEST_SUBSET)}"
    title(ax, given, pad=40.0 if has_layout(ax.figure) else None)
    return ax


def _minus_log10(p_values: ArrayLike) -> Floats:
    return -np.log10(np.maximum(p_values, _SMALLEST))


def _grid(n_panels: int) -> tuple[int, int]:
    """Return the numbers of panels across and down."""
    n_across = min(n_panels, _PANELS_PER_ROW)
    return n_across, -(-n_panels // n_across)


def _grid_size(n_panels: int, width: float, height: float) -> Size:
    """Return the size of a grid of panels of this size."""
    n_across, n_down = _grid(n_panels)
    return max(_NARROWEST, 1.4 + width * n_across), 0.9 + height * n_down


def _coefficients_size(decision: Decision, top: int) -> Size:
    n_shown = min(max(decision.n_environments, 3), MOST_ENVIRONMENTS)
    return _grid_size(min(top, len(decision.columns)), 2.1, 0.75 + 0.2 * n_shown)


def _effects_size(decision: Decision, top: int) -> Size:
    """Two rows more, of all together and of a new environment."""
    n_shown = min(decision.n_environments, MOST_ENVIRONMENTS) + 2
    return _grid_size(min(top, len(decision.columns)), 2.1, 1.05 + 0.2 * n_shown)


def _draw_coefficients(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """A panel for each column: its coefficient in every environment, or in those farthest from the
    pool, with a 95% interval; the pooled one is a band."""
    heads = dict(zip(decision.columns, name_labels(decision.columns, _LONGEST_NAME), strict=True))
    return _by_column(decision, figure, top, decision.coefficients(), heads, "coefficient")


def _draw_effects(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """Forest plots of effects in readable units, differences or ratios on a logarithmic axis:
    environments with 95% intervals, a diamond for all rows together, a bar for a new environment,
    and below how much they differ."""
    found = effects(decision, by_environment=True)
    first = found.drop_duplicates("column")
    names = list(map(effect_name, first["feature"], first["column"]))
    distinct = list(dict.fromkeys(names))  # levels of a feature share its name
    labels = dict(zip(distinct, name_labels(distinct, _LONGEST_NAME), strict=True))
    of_columns = zip(first["column"], names, first["unit"], strict=True)
    heads = {
        column: f"{labels[name]}\n{shorten(unit, _LONGEST_LABEL)}"
        for column, name, unit in of_columns
    }
    return _by_column(decision, figure, top, found, heads, scale_of(decision))


def _by_column(
    decision: Decision,
    figure: Figure | SubFigure,
    top: int,
    found: pd.DataFrame,
    heads: Mapping[str, str],
    what: str,
) -> Panels:
    """found : as `forests` has it, with all columns; heads : {column: title}"""
    n = decision.n_environments
    shown = dict(list(heads.items())[:top])
    intervals = bool(found["lower"].notna().any())
    summary = "tau" in found
    cuts = (
        _cut(len(shown), len(heads), "columns"),
        _cut(min(n, MOST_ENVIRONMENTS), n, "environments"),
    )
    nothing = dict.fromkeys(shown, 1.0 if "ratio" in what else 0.0)
    panels = forests(
        _panels(figure, len(shown), sharey=True), found, shown, nothing, "ratio" in what
    )
    pooled = "diamond" if summary else "band" if intervals else "line"
    marks = [f"{pooled}: all rows together"]
    if summary and found["prediction_lower"].notna().any():
        marks.append("bar: a new environment")
    if found["infinite"].any():
        marks.append("arrow: infinite")
    label = f"{what}{' and 95% interval' if intervals else ''} ({'; '.join(marks)})"
    return _labelled(figure, panels, label, "environment", _headline_text(decision, *cuts))


def _panels(figure: Figure | SubFigure, n: int, **shared: Any) -> list[Axes]:
    """n panels in rows, with small numbers."""
    n_across, n_down = _grid(n)
    every = figure.subplots(n_down, n_across, squeeze=False, **shared).ravel().tolist()
    for panel in every[n:]:
        panel.remove()
    for panel in every[:n]:
        panel.tick_params(labelsize="small")
    return every[:n]


def _labelled(
    figure: Figure | SubFigure, panels: Mapping[str, Axes], x: str, y: str, told: str
) -> Panels:
    """Return panels with shared labels of the axes and a headline."""
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")
    headline(figure, told)
    return Panels(panels)


_IDEAL = {"intercept": 0.0, "slope": 1.0}


def _draw_left_out(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """Calibration intercept and slope, and how well is predicted, in each environment left out,
    with 95% intervals; the line is the mean over environments, dashed is what is right."""
    import pandas as pd

    found = decision.new_environments
    heads = {name: found.head_of(name) for name in ("intercept", "slope", found.kind.measure)}
    n = len(found.left_out)
    unknown = np.nan, np.nan
    rows: list[tuple[Any, ...]] = [
        (name, "mean", found.on_average(name), *unknown, "") for name in heads
    ]
    for left in found.left_out:
        ends = {name: left.intervals.get(name, unknown) for name in heads}
        rows += [(name, left.environment, left.figures[name], *ends[name], "–") for name in heads]
    columns = ["column", "environment", "estimate", "lower", "upper", "note"]
    drawn = _panels(figure, len(heads), sharey=True)
    panels = forests(drawn, pd.DataFrame(rows, columns=columns), heads, _IDEAL, most=top)
    told = "\n".join(filter(None, [found.told, _cut(min(top, n), n, "environments")]))
    label = "in the environment left out, with 95% interval (line: mean; dashed: right)"
    return _labelled(figure, panels, label, "environment", told)


def _draw_calibration(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """A panel for each environment left out: mean outcomes of rows with similar predictions, with
    95% intervals."""
    found: Any = decision.new_environments
    left_out = [left for left in found.left_out if left.calibration is not None]
    shown = left_out[:top]
    panels = _panels(figure, len(shown), sharex=True, sharey=True)
    every = np.concatenate([left.calibration[:, :2].ravel() for left in shown])
    low = float(every.min())
    high = float(every.max())
    room = 0.08 * (high - low or 1.0)
    labels = name_labels([str(left.environment) for left in shown], _LONGEST_NAME)
    for panel, left, label in zip(panels, shown, labels, strict=True):
        predicted, observed, lower, upper, _ = left.calibration.T
        panel.plot([low, high], [low, high], color=GUIDE, lw=0.9, ls="--", zorder=0)
        margins = np.maximum([observed - lower, upper - observed], 0.0)
        panel.errorbar(predicted, observed, yerr=margins, fmt="o-", ms=3.5, lw=1.1, color=PLAIN)
        panel.set_title(f"{label} ({left.rows:,} rows)", fontsize="small", parse_math=False)
        panel.locator_params(nbins=4)
        tidy(panel, "both")
    # Intervals of shares are not cut; others may be far longer than what they are of.
    ends = (
        np.concatenate([left.calibration[:, 2:4].ravel() for left in shown])
        if found.of_shares
        else every
    )
    bottom = min(low, float(ends.min()))
    highest = max(high, float(ends.max()))
    panels[0].set(xlim=(low - room, high + room), ylim=(bottom - 2.0 * room, highest + 2.0 * room))
    told = "\n".join(filter(None, [found.told, _cut(len(shown), len(left_out), "environments")]))
    named = {str(left.environment): panel for left, panel in zip(shown, panels, strict=True)}
    return _labelled(
        figure, named, f"predicted {found.kind.group_mean}", "observed, with 95% interval", told
    )


def _held(decision: Decision, top: int) -> tuple[Mask, NDArray[np.intp]]:
    """The subsets of a picture (k, p), and the features that they hold, the most probable first."""
    predictive = decision.predictive
    assert predictive is not None
    masks = predictive.masks[:top]
    held = np.flatnonzero(masks.any(axis=0))
    return masks, held[np.argsort(-predictive.inclusion[held], kind="stable")]


def _dots_width(held: NDArray[np.intp]) -> float:
    """Return the width of the dots in inches."""
    return max(2.0, 0.28 * min(len(held), _MOST_COLUMNS))


def _subsets_size(decision: Decision, top: int) -> Size:
    masks, held = _held(decision, top)
    bars = 5.4 if decision.n_environments > 1 else 3.6
    return max(_dots_width(held) + bars, _NARROWEST), 2.6 + 0.26 * max(len(masks), 4)


def _draw_subsets(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """Compatible subsets, the best predictor first: a dot for each feature, bars of probability, R²
    and p_inv."""
    predictive = decision.predictive
    assert predictive is not None
    masks, held = _held(decision, top)
    names = name_labels([predictive.feature_names[j] for j in held[:_MOST_COLUMNS]], _LONGEST_NAME)
    n = len(masks)
    several = predictive.n_environments > 1
    evidence = predictive.leading_evidence(n, elsewhere=False)
    chosen = (masks == decision.mask).all(axis=1)
    widths = [_dots_width(held), *[_WIDTH_OF_BARS] * (3 if several else 2)]
    apart = {} if has_layout(figure) else _APART
    panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths, gridspec_kw=apart)
    dots, *bars = panels
    _dots(dots, masks[:, held[: len(names)]], chosen)
    dots.set_xticks(np.arange(len(names)), names, rotation=60, ha="right", rotation_mode="anchor")
    dots.set_yticks(np.arange(n), [str(rank) for rank in range(1, n + 1)])
    dots.tick_params(labelsize="small")
    plain_ticks(dots)
    cut = len(names) < len(held)
    dots.set_xlabel(f"feature ({len(names)} of {len(held)} in these subsets)" if cut else "feature")
    dots.set_ylabel("rank")
    _bars(
        bars[0], np.exp(predictive.log_probabilities[:n]), chosen, "probability", format_probability
    )
    _bars(
        bars[1],
        evidence.r2,
        chosen,
        "R²",
        format_share,
        most=float(np.nanmax(evidence.r2, initial=1e-3)),
    )
    if several:
        _bars(bars[2], evidence.p_invariant, chosen, "p_inv", format_p_value)
        bars[2].axvline(decision.accepted.level, color=WARN, lw=1.0, ls="--")
    which = "compatible subsets" if several else "subsets"
    headline(figure, _headline_text(decision, _cut(n, decision.compatible.n, which)))
    return Panels(dict(zip(("features", "probability", "R²", "p_inv"), panels, strict=False)))


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


def _bars(
    ax: Axes,
    values: Floats,
    chosen: Mask,
    label: str,
    written: Callable[[float], str],
    most: float = 1.0,
) -> None:
    """most : where the axis ends"""
    known = np.nan_to_num(values, nan=0.0)
    ax.barh(
        np.arange(len(values)),
        known,
        height=0.6,
        color=np.where(chosen, CHOSEN, PLAIN).tolist(),
        zorder=2,
    )
    for row, value in enumerate(values):
        ax.text(
            1.02,
            row,
            written(float(value)),
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize="x-small",
        )
    ax.set_xlim(0.0, most)
    ax.locator_params(axis="x", nbins=3)
    ax.tick_params(axis="x", labelsize="small")
    ax.tick_params(axis="y", length=0)
    tidy(ax)
    ax.set_xlabel(label)


def _draw_frontier(decision: Decision, ax: Axes, top: int) -> Axes:
    """R² against how much coefficients differ, of the subsets that were scored and have
    coefficients; the best R² up to each difference, and the chosen and the mode with their
    intervals."""
    survey = decision.survey
    tolerance = decision.tolerance
    known = np.flatnonzero(np.isfinite(survey.r2) & np.isfinite(survey.difference))
    differences = np.maximum(survey.difference[known], _LEAST_DIFFERENCE)
    r2 = survey.r2[known]
    compatible = survey.p_invariant[known] >= decision.accepted.level
    many = len(known) > 300
    for which, colour, label in (
        (~compatible, FAINT, "not compatible"),
        (compatible, PLAIN, "compatible"),
    ):
        look: Fields = {
            "s": 8 if many else 18,
            "alpha": 0.5 if many else 0.8,
            "lw": 0,
            "rasterized": many,
        }
        ax.scatter(differences[which], r2[which], color=colour, label=label, **look)
    order = np.lexsort((-r2, differences))
    best = np.maximum.accumulate(r2[order])
    ax.step(
        differences[order],
        best,
        where="post",
        color=PLAIN,
        lw=1.3,
        label="best R² up to this difference",
    )
    if tolerance.rho >= _LEAST_DIFFERENCE:
        ax.axvline(
            tolerance.rho, color=WARN, lw=1.0, ls="--", label=f"{tolerance.rho:.0%}: tolerated"
        )
    # At the level of the selection, as all other subsets
    mode = decision.findings.judge.evidence(
        decision.findings.posterior.mode_mask[None], elsewhere=False
    ).one()
    marked = (mode, "D", ink(ax), "the paper's mode"), (decision.evidence, "*", CHOSEN, "selected")
    for evidence, marker, colour, label in marked:
        ends = evidence.difference_low, evidence.difference, evidence.difference_high
        low, middle, high = np.maximum(ends, _LEAST_DIFFERENCE)
        bar: Fields = {
            "xerr": [[middle - low], [high - middle]],
            "color": colour,
            "lw": 1.2,
            "capsize": 3,
        }
        ax.errorbar(middle, evidence.r2, fmt=marker, ms=9, mec="white", mew=0.6, label=label, **bar)
    ax.set_xscale("log")
    ticks = np.array([_LEAST_DIFFERENCE, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
    largest = max(1.0, *differences.tolist()) * 1.3
    ticks = ticks[ticks <= largest]
    ax.set_xticks(ticks, [f"≤ {ticks[0]:.1%}", *(f"{tick:.0%}" for tick in ticks[1:])])
    ax.set_xlim(_LEAST_DIFFERENCE * 0.8, largest)
    ax.minorticks_off()
    lowest = min([0.0, *r2.tolist()])
    highest = max([*r2.tolist(), 1e-3])
    ax.set_ylim(lowest - 0.03 * (highest - lowest), highest + 0.08 * (highest - lowest))
    ax.set_xlabel("how much coefficients differ between environments, as a share of themselves")
    full = decision.findings.level is Level.full
    ax.set_ylabel(f"R² of the pooled fit{'' if full else ', within environments'}")
    tidy(ax, "both")
    title(
        ax,
        _headline_text(
            decision, _cut(len(known), decision.findings.posterior.n_subsets, "subsets")
        ),
    )
    below: Fields = {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, -0.14),
        "ncols": 3,
        "frameon": False,
    }
    ax.legend(**(below if has_layout(ax.figure) else {}), fontsize="small")
    return ax


def _draw_along(decision: Decision, figure: Figure | SubFigure, top: int) -> Panels:
    """A panel for the level of the outcome and for each column: its coefficient along the variable
    with a pointwise 95% band, and, dashed, where nothing changes."""
    curves = decision.curves
    components = decision.components
    assert curves is not None
    assert components is not None
    design = components.design
    shown = min(top + 1, len(curves.columns))
    panels = _panels(figure, shown)
    outcome = decision.findings.posterior.outcome_name
    names = name_labels([f"level of {outcome}", *curves.columns[1:]], _LONGEST_NAME)
    for j, (panel, name) in enumerate(zip(panels, names[:shown], strict=True)):
        estimate = curves.estimates[:, j]
        margin = 1.96 * curves.errors[:, j]
        panel.fill_between(
            curves.values, estimate - margin, estimate + margin, color=PLAIN, alpha=0.25, lw=0
        )
        panel.plot(curves.values, estimate, color=PLAIN, lw=1.4)
        panel.axhline(curves.common[j], color=CHOSEN, lw=1.2, ls="--")
        panel.set_title(name, fontsize="small", parse_math=False)
        ends = curves.values[[0, -1]]
        panel.set_xticks(ends, [design.written(value) for value in ends])
        panel.locator_params(axis="y", nbins=4)
        tidy(panel)
    variable = shorten(design.variable.column if design.variable is not None else "", _LONGEST_NAME)
    named = dict(zip(("level", *curves.columns[1:shown]), panels, strict=True))
    x_label = f"{variable} (dashed: where nothing changes; band: 95%, point by point)"
    told = _headline_text(decision, _cut(shown - 1, len(curves.columns) - 1, "columns"))
    return _labelled(figure, named, x_label, "", told)


PICTURES = {
    "along": Picture(
        _draw_along,
        lambda decision, top: _grid_size(min(top, len(decision.columns)) + 1, 2.3, 2.2),
        top=_MOST_PANELS - 1,
        panels=True,
    ),
    "inclusion": Picture(
        lambda decision, ax, top: plot_inclusion(decision.posterior, ax, top),
        lambda decision, top: inclusion_size(decision.posterior, top),
        top=MOST_BARS,
    ),
    "subsets": Picture(_draw_subsets, _subsets_size, _MOST_SUBSETS, panels=True),
    "effects": Picture(_draw_effects, _effects_size, _MOST_PANELS, panels=True),
    "coefficients": Picture(_draw_coefficients, _coefficients_size, _MOST_PANELS, panels=True),
    "left_out": Picture(
        _draw_left_out,
        lambda decision, top: (
            7.0,
            1.5 + 0.2 * min(max(decision.n_environments, 3), top),
        ),
        top=MOST_ENVIRONMENTS,
        panels=True,
    ),
    "calibration": Picture(
        _draw_calibration,
        lambda decision, top: _grid_size(min(top, decision.n_environments), 1.9, 1.9),
        top=_MOST_PANELS,
        panels=True,
    ),
    "environments": Picture(
        lambda decision, ax, top: plot_environments(
            compared_environments(decision.findings.target.model, decision.mask), ax
        ),
        lambda decision, top: environments_size(decision.n_environments),
    ),
    "frontier": Picture(_draw_frontier, lambda decision, top: (7.0, 4.8)),
    "trace": Picture(
        lambda decision, ax, top: plot_trace(decision.findings.posterior, ax),
        lambda decision, top: TRACE_SIZE,
    ),
}
