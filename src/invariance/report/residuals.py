"""What the fit of the selected features leaves in each environment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers
from .._tools.figures import plain_ticks
from .._tools.layout import name_labels
from .._tools.style import GUIDE, INK, PLAIN, tidy
from ..conditionals.base import Fit
from ..conditionals.compared import VARIANCE
from ..conditionals.piecewise_exponential import PiecewiseExponentialFit
from ..conditionals.predicts import Predicts, predicts_of
from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments
from ..moments.sampling import sampled_data
from ..posterior.summary import format_p_value
from ..prediction.design import columns_of
from ..prediction.outcome import as_observed
from .numbers import numbers, sample_sd, without_rounding
from .parts import Cell, Column, Heading, Part, Picture, Table, name, prose, table
from .pictures import picture
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WITHOUT_ROWS = (
    "Second moments alone are known: residuals need the rows, which fit_moments(moments, rows=...) reads again."
)
_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
_MOST_ENVIRONMENTS = 40
_LONGEST_LABEL = 24
_WHAT = {
    Predicts.number: ("Mean outcome", "the outcome minus what the fit to all rows predicts"),
    Predicts.probability: ("Share of 1", "0 or 1 minus the probability that the fit to all rows predicts"),
    Predicts.rate: ("Mean count", "the count minus what the fit to all rows expects"),
    Predicts.time: (
        "Mean events",
        "1 for an event and 0 for none, minus the events that the fit to all rows expects by then",
    ),
}


@dataclass(frozen=True, eq=False)
class Residuals:
    """What was observed minus what was expected, in E environments.

    each : those of the rows, or of a sample of them; counts : (E,) all rows; observed, expected : (E,) their means
    spread : (E,) standard deviations of what was missed; scale : the largest number that was observed
    """

    environments: tuple[Hashable, ...]
    each: list[Floats]
    counts: Integers
    observed: Floats
    expected: Floats
    spread: Floats
    scale: float

    @classmethod
    def of_rows(cls, observed: Floats, expected: Floats, data: MultiEnvironmentData) -> Residuals:
        rows = [data.rows(e) for e in range(data.n_environments)]
        each = [observed[at] - expected[at] for at in rows]
        means, predicted = (np.array([values[at].mean() for at in rows]) for values in (observed, expected))
        spread = sample_sd(np.array([values.var() for values in each]) * data.counts, data.counts)
        return cls(data.environments, each, data.counts, means, predicted, spread, float(np.abs(observed).max()))

    @property
    def means(self) -> Floats:
        """(E,) of what was missed"""
        return self.observed - self.expected

    @property
    def standard_errors(self) -> Floats:
        return self.spread / np.sqrt(self.counts)

    @property
    def largest_sample(self) -> int | None:
        """Rows of the largest sample; None where all rows are at hand."""
        sampled = [len(left) for left, n in zip(self.each, self.counts, strict=True) if len(left) < n]
        return max(sampled, default=None)


def residuals_of(subject: Subject) -> Residuals | None:
    """Of the fit of the selected features to all rows; None without rows, or a sample of them."""
    data, decision = subject.rows, subject.decision
    fit = decision.findings.target.model.fit(decision.mask, local=False)
    if isinstance(subject.data, Moments):
        return residuals_of_sample(subject.data, fit)
    assert data is not None
    columns = columns_of(data, fit.columns)
    if isinstance(fit, PiecewiseExponentialFit):
        assert data.event is not None
        return Residuals.of_rows(data.event, fit.risk(columns) * fit.baseline.cumulative(data.y), data)
    return Residuals.of_rows(data.y, as_observed(fit.predict(columns), data), data)


def residuals_of_sample(moments: Moments, fit: Fit) -> Residuals | None:
    """Means and deviations are those of all rows."""
    data = sampled_data(moments, fit.columns)
    if data is None:
        return None
    found = Residuals.of_rows(data.y, fit.predict(columns_of(data, fit.columns)), data)
    at = [*(moments.columns.index(name) for name in fit.columns), moments.outcome]
    weights = np.append(-fit.coefficients, 1.0)
    squares = np.einsum("i,eij,j->e", weights, moments.scatter[:-1][:, np.array(at)[:, None], at], weights)
    means = moments.means[:, at]
    return replace(
        found,
        counts=moments.counts,
        observed=means[:, -1],
        expected=means[:, :-1] @ fit.coefficients + fit.intercept,
        spread=sample_sd(np.maximum(squares, 0.0), moments.counts),
        scale=float(np.abs([moments.minimum[:, moments.outcome], moments.maximum[:, moments.outcome]]).max()),
    )


def residual_parts(subject: Subject) -> Iterator[Part]:
    found = residuals_of(subject)
    yield Heading("Residuals")
    if found is None:
        yield from prose([_WITHOUT_ROWS])
        return
    what = predicts_of(subject.conditional)
    yield from prose([f"A residual is {_WHAT[what][1]}."])
    yield _picture(found, what, VARIANCE in subject.decision.findings.target.model.compares)
    yield _table(found, what)
    noise = subject.decision.noise
    if noise is not None and noise.shape is not None:
        yield from prose([_shape(noise.shape.excess_kurtosis, noise.shape.p_even, bool(subject.decision.selected))])


def _table(found: Residuals, what: Predicts) -> Table:
    columns: list[tuple[Column, Iterable[float]]] = [
        (Column(_WHAT[what][0]), found.observed),
        (Column("Mean predicted"), found.expected),
        (Column("Mean residual"), [without_rounding(mean, found.scale) for mean in found.means.tolist()]),
        (Column("Standard error"), found.standard_errors),
        (Column("SD of residuals"), found.spread),
    ]
    note = ""
    if what is Predicts.number:
        columns += [(Column(f"{100 * q:g}%"), [np.quantile(left, q) for left in found.each]) for q in _QUANTILES]
        note = f"Percentages are quantiles of the residuals{_sampled(found)}."
    counts = [Cell(f"{n:,}", n) for n in found.counts.tolist()]
    return table(
        "Residuals by environment",
        [Column("Environment", number=False), Column("Rows"), *(column for column, _ in columns)],
        zip(map(name, found.environments), counts, *(numbers(values) for _, values in columns), strict=True),
        note,
    )


def _sampled(found: Residuals) -> str:
    largest = found.largest_sample
    return "" if largest is None else f", of {largest:,} rows drawn by chance where an environment has more"


def _shape(excess: float, p_even: float, selected: bool) -> str:
    even = f"; that their spread does not depend on the selected features has p-value {format_p_value(p_even)}"
    kurtosis = f"The residuals of each environment's own fit have an excess kurtosis of {excess:.2f} (normal noise: 0)"
    return f"{kurtosis}{even if selected else ''}."


def _picture(found: Residuals, what: Predicts, spread: bool) -> Picture:
    """spread: whether the noise's scale must be the same, too"""
    shown = min(len(found.each), _MOST_ENVIRONMENTS)
    cut = "" if shown == len(found.each) else f" The first {shown} environments are shown."
    if what is Predicts.number:
        same = "Alike" if spread else "Around 0"
        caption = f"Quantiles of the residuals: the median, the middle half, and 5% to 95%{_sampled(found)}. "
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
        ax.errorbar(
            found.means[:shown], places, xerr=1.96 * found.standard_errors[:shown], fmt="o", ms=4.5, lw=1.2, color=PLAIN
        )
    ax.axvline(0.0, color=GUIDE, lw=0.9, ls="--", zorder=0)
    ax.set_yticks(places, name_labels([str(label) for label in found.environments[:shown]], _LONGEST_LABEL))
    plain_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(shown - 0.4, -0.6)
    tidy(ax, "x", ("top", "right", "left"))
    ax.set_xlabel("residual" if numeric else "mean residual")
    ax.set_ylabel("environment")
