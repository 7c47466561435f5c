"""The pictures of the package, as they stand on a page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats, Integers
from .._tools.plotting import GUIDE, INK, PLAIN, Size, missing_glyphs_allowed, new_figure, plain_ticks, tidy
from .._tools.text import name_labels, printable
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..models.base import VARIANCE, Fit, Predicts, predicts_of
from ..models.survival import PiecewiseExponentialFit
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from ..posterior.summary import format_p_value
from ..prediction.predictor import as_observed, columns_of
from .page import Column, Heading, Part, Picture, Table, count, name, numbers, prose, sample_sd, table, without_rounding
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Any = {"font.sans-serif": ["DejaVu Sans"], "svg.fonttype": "none", "svg.hashsalt": "invariance"}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def picture(draw: Callable[[Axes], object], size: Size, alt: str, caption: str) -> Picture:
    """What `draw` puts on axes, in matplotlib's own style; the same drawing gives the same text."""
    import matplotlib as mpl
    from matplotlib import style

    written = BytesIO()
    with style.context("default"), mpl.rc_context(_STYLE):
        figure = new_figure(*size)
        draw(figure.add_subplot())
        with missing_glyphs_allowed():
            figure.savefig(written, format="svg", metadata=_NO_METADATA, transparent=True)
    svg = written.getvalue().decode("utf-8")
    # Matplotlib makes the names of clip paths from their unrounded corners.
    for number, clip in enumerate(dict.fromkeys(re.findall(r'<clipPath id="(\w+)"', svg))):
        svg = svg.replace(clip, f"clip{number}")
    return Picture(b64encode(svg.encode("utf-8")).decode("ascii"), printable(alt), caption)


def decision_picture(decision: Decision, kind: str, alt: str, caption: str) -> Picture:
    from ..decisions.plots import picture_size, plot

    return picture(partial(plot, decision, kind), picture_size(decision, kind), alt, caption)


def environments_picture(diagnosis: Diagnosis) -> Picture:
    from ..decisions.plots import environments_size, plot_environments

    return picture(
        partial(plot_environments, diagnosis),
        environments_size(diagnosis),
        "Bars of −log₁₀ p of each environment against all others, by what may differ; a table below has the p-values.",
        "How much each environment differs from all others, given the selected features; diamonds, all parts together, "
        "beyond the dashed line raise an alarm.",
    )


_WITHOUT_ROWS = "Second moments alone are known, and residuals need the rows: fit with the rows, too."
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
    def sampled(self) -> str:
        """For a sentence on quantiles: of how many rows, where a sample alone is at hand."""
        sizes = [len(left) for left, n in zip(self.each, self.counts, strict=True) if len(left) < n]
        return f", of {max(sizes):,} rows drawn by chance where an environment has more" if sizes else ""


def residuals_of(subject: Subject) -> Residuals | None:
    """Of the fit of the selected features to all rows; None without rows, or a sample of them."""
    data, decision = subject.data, subject.decision
    fit = decision.findings.target.model.fit(decision.mask, local=False)
    if isinstance(data, Moments):
        return residuals_of_sample(data, fit)
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
    what, noise = predicts_of(subject.family), subject.decision.noise
    yield from prose([f"A residual is {_WHAT[what][1]}."])
    yield _picture(found, what is Predicts.number, VARIANCE in subject.decision.findings.target.model.compares)
    yield _table(found, what)
    if noise is not None and noise.shape is not None:
        excess = f"an excess kurtosis of {noise.shape.excess_kurtosis:.2f} (normal noise: 0)"
        even = ""
        if subject.decision.selected:
            even = f"; their spread depends on the selected features: p-value {format_p_value(noise.shape.p_even)}"
        yield from prose([f"The residuals of each environment's own fit have {excess}{even}."])


def _table(found: Residuals, what: Predicts) -> Table:
    columns: list[tuple[str, Iterable[float]]] = [
        (_WHAT[what][0], found.observed),
        ("Mean predicted", found.expected),
        ("Mean residual", [without_rounding(mean, found.scale) for mean in found.means.tolist()]),
        ("Standard error", found.standard_errors),
        ("SD of residuals", found.spread),
    ]
    note = ""
    if what is Predicts.number:
        columns += [(f"{100 * q:g}%", [np.quantile(left, q) for left in found.each]) for q in _QUANTILES]
        note = f"Percentages are quantiles of the residuals{found.sampled}."
    cells = map(name, found.environments), map(count, found.counts.tolist()), *(numbers(each) for _, each in columns)
    titles = [Column("Environment", number=False), Column("Rows"), *(Column(title) for title, _ in columns)]
    return table("Residuals by environment", titles, zip(*cells, strict=True), note)


def _picture(found: Residuals, numeric: bool, spread: bool) -> Picture:
    """spread : whether the noise's scale must be the same, too"""
    shown = min(len(found.each), _MOST_ENVIRONMENTS)
    cut = "" if shown == len(found.each) else f" The first {shown} environments are shown."
    if numeric:
        same = "Alike" if spread else "Around 0"
        caption = f"Quantiles of the residuals: the median, the middle half, and 5% to 95%{found.sampled}. "
        caption += f"{same} in every environment is what invariance asks for."
    else:
        caption = "Mean residual with a 95% interval: 0 is what invariance asks for."
    alt = f"Residuals of {shown} environment{'' if shown == 1 else 's'}; the table below has the numbers."
    draw = partial(_draw, found, numeric, shown)
    return picture(draw, (7.0, 1.1 + 0.26 * max(shown, 3)), alt, caption + cut)


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
