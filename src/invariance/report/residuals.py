"""What the fit of the selected features leaves in each environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats
from .._tools.figures import plain_ticks
from .._tools.layout import name_labels
from .._tools.style import GUIDE, INK, PLAIN, tidy
from ..conditionals.compared import VARIANCE
from ..conditionals.piecewise_exponential import PiecewiseExponentialFit
from ..conditionals.predicts import Predicts, predicts_of
from ..data.multi_environment import MultiEnvironmentData
from ..posterior.summary import format_p_value
from ..prediction.design import columns_of
from ..prediction.outcome import as_observed
from .numbers import numbers, without_rounding
from .parts import Cell, Column, Heading, Part, Picture, Table, name, prose, table
from .pictures import picture
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
_MOST_ENVIRONMENTS = 40
_LONGEST_LABEL = 24
_WHAT = {
    Predicts.number: ("outcome", "the outcome minus what the fit to all rows predicts"),
    Predicts.probability: ("share of 1", "0 or 1 minus the probability that the fit to all rows predicts"),
    Predicts.rate: ("count", "the count minus what the fit to all rows expects"),
    Predicts.time: (
        "events",
        "1 for an event and 0 for none, minus the events that the fit to all rows expects by then",
    ),
}


@dataclass(frozen=True, eq=False)
class Residuals:
    """observed, expected : (N,), of the rows of the data"""

    observed: Floats
    expected: Floats
    data: MultiEnvironmentData

    @property
    def each(self) -> list[Floats]:
        """Of each environment, what was observed minus what was expected."""
        return [
            self.observed[rows] - self.expected[rows] for rows in map(self.data.rows, range(self.data.n_environments))
        ]


def residuals_of(subject: Subject) -> Residuals | None:
    """Of the fit of the selected features to all rows; None without rows."""
    data, decision = subject.rows, subject.decision
    if data is None:
        return None
    fit = decision.findings.target.model.fit(decision.mask, local=False)
    columns = columns_of(data, fit.columns)
    if isinstance(fit, PiecewiseExponentialFit):
        assert data.event is not None
        return Residuals(data.event, fit.risk(columns) * fit.baseline.cumulative(data.y), data)
    return Residuals(data.y, as_observed(fit.predict(columns), data), data)


def residual_parts(subject: Subject) -> Iterator[Part]:
    found = residuals_of(subject)
    yield Heading("Residuals")
    if found is None:
        yield from prose(["Second moments alone are known: residuals need the rows."])
        return
    what = predicts_of(subject.conditional)
    yield from prose([f"A residual is {_WHAT[what][1]}."])
    yield _picture(found, what, VARIANCE in subject.decision.findings.target.model.compares)
    yield _table(found, what)
    noise = subject.decision.noise
    if noise is not None and noise.shape is not None:
        yield from prose([_shape(noise.shape.excess_kurtosis, noise.shape.p_even, bool(subject.decision.selected))])


def _table(found: Residuals, what: Predicts) -> Table:
    data, left, scale = found.data, found.each, float(np.abs(found.observed).max())
    rows = [data.rows(e) for e in range(data.n_environments)]
    columns: list[tuple[Column, list[float]]] = [
        (Column(f"Mean {_WHAT[what][0]}"), [found.observed[at].mean() for at in rows]),
        (Column("Mean predicted"), [found.expected[at].mean() for at in rows]),
        (Column("Mean residual"), [without_rounding(float(values.mean()), scale) for values in left]),
        (Column("Standard error"), [_standard_error(values) for values in left]),
        (Column("SD of residuals"), [values.std() for values in left]),
    ]
    if what is Predicts.number:
        columns += [(Column(f"{100 * q:g}%"), [np.quantile(values, q) for values in left]) for q in _QUANTILES]
    counts = [Cell(f"{len(at):,}", len(at)) for at in rows]
    return table(
        "Residuals by environment",
        [Column("Environment", number=False), Column("Rows"), *(column for column, _ in columns)],
        zip(map(name, data.environments), counts, *(numbers(values) for _, values in columns), strict=True),
        "Percentages are quantiles of the residuals." if what is Predicts.number else "",
    )


def _standard_error(left: Floats) -> float:
    return float(left.std() / max(len(left) - 1, 1) ** 0.5)


def _shape(excess: float, p_even: float, selected: bool) -> str:
    even = f"; that their spread does not depend on the selected features has p-value {format_p_value(p_even)}"
    kurtosis = f"The residuals of each environment's own fit have an excess kurtosis of {excess:.2f} (normal noise: 0)"
    return f"{kurtosis}{even if selected else ''}."


def _picture(found: Residuals, what: Predicts, spread: bool) -> Picture:
    """spread: whether the noise's scale must be the same, too"""
    shown = min(found.data.n_environments, _MOST_ENVIRONMENTS)
    cut = "" if shown == found.data.n_environments else f" The first {shown} environments are shown."
    if what is Predicts.number:
        same = "Alike" if spread else "Around 0"
        caption = "Quantiles of the residuals: the median, the middle half, and 5% to 95%. "
        caption += f"{same} in every environment is what invariance asks for."
    else:
        caption = "Mean residual with a 95% interval: 0 is what invariance asks for."
    alt = f"Residuals of {shown} environment{'' if shown == 1 else 's'}; the table below has the numbers."
    draw = partial(_draw, found, what is Predicts.number, shown)
    return picture(draw, (7.0, 1.1 + 0.26 * max(shown, 3)), "r", alt, caption + cut)


def _draw(found: Residuals, numeric: bool, shown: int, ax: Axes) -> None:
    places, left = np.arange(shown), found.each[:shown]
    if numeric:
        low, lower, middle, upper, high = np.array([np.quantile(values, _QUANTILES) for values in left]).T
        ax.hlines(places, low, high, color=PLAIN, lw=1.2)
        ax.hlines(places, lower, upper, color=PLAIN, lw=6.0)
        ax.plot(middle, places, "o", ms=4.5, mfc="white", mec=INK, mew=1.2, ls="")
    else:
        means = np.array([values.mean() for values in left])
        margins = 1.96 * np.array([_standard_error(values) for values in left])
        ax.errorbar(means, places, xerr=margins, fmt="o", ms=4.5, lw=1.2, color=PLAIN)
    ax.axvline(0.0, color=GUIDE, lw=0.9, ls="--", zorder=0)
    ax.set_yticks(places, name_labels([str(label) for label in found.data.environments[:shown]], _LONGEST_LABEL))
    plain_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(shown - 0.4, -0.6)
    tidy(ax, "x", ("top", "right", "left"))
    ax.set_xlabel("residual" if numeric else "mean residual")
    ax.set_ylabel("environment")
