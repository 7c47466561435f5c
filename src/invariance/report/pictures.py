"""The pictures of the package, as they stand on a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers
from .._tools.plotting import (
    GUIDE,
    INK,
    PLAIN,
    Size,
    missing_glyphs_allowed,
    new_figure,
    plain_ticks,
    tidy,
)
from .._tools.text import format_subset, name_labels, printable
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..models.base import VARIANCE, Fit, Predicts, predicts_of
from ..models.survival import PiecewiseExponentialFit
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from ..posterior.summary import format_p_value, format_probability, format_share
from ..prediction.predictor import as_observed, columns_of
from .page import Cell, Column, Heading, Part, Picture, Table, name, numbers, prose, sample_sd, table, without_rounding
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One font that every picture is measured with; the page names it once for all of them.
_FONT = "DejaVu Sans"
_NAMED_FONT = f"font-family:'{_FONT}', sans-serif;"
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"')
_LEFT_OUT = re.compile(r'<style type="text/css">.*?</style>|<!--.*?-->', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_ID = re.compile(r'(\bid="|url\(#|href="#)([^")]*)')


def inline_svg(figure: Figure, prefix: str, alt: str) -> str:
    """An <svg> element without a background; its ids are the prefix and a number."""
    numbers: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        return f"{match[1]}{prefix}-{numbers.setdefault(match[2], len(numbers))}"

    text = _drawn(figure)
    text = text[text.index("<svg") :]
    size = _SIZE.match(text)
    assert size is not None
    width, height = (round(float(points) * 96 / 72) for points in size.groups())
    body = _LEFT_OUT.sub("", text[text.index(">") + 1 : text.rindex("</svg>")])
    body = re.sub(r">\s+<", "><", _TAG.sub(lambda tag: _shorter(_ID.sub(renamed, tag[0])), body))
    head = f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {size[1]} {size[2]}"'
    return f'{head} width="{width}" height="{height}">{body}</svg>'


def _drawn(figure: Figure) -> str:
    import matplotlib as mpl

    written = BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "font.sans-serif": [_FONT]}), missing_glyphs_allowed():
        figure.savefig(written, format="svg", metadata=_NO_METADATA, transparent=True)
    return written.getvalue().decode("utf-8")


def _shorter(tag: str) -> str:
    """A tag with coordinates to a hundredth of a point, and without what says nothing."""
    tag = re.sub(r"\s+", " ", tag).replace("xlink:href", "href").replace(": ", ":").replace("; ", ";")
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag).replace(_NAMED_FONT, "")
    if "base64" in tag:
        return tag
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)


_MOST_NAMED = 5


def picture(draw: Callable[[Axes], object], size: Size, prefix: str, alt: str, caption: str) -> Picture:
    """What `draw` puts on axes, in matplotlib's own style, whatever a user set; prefix: as of `inline_svg`."""
    from matplotlib import style

    alt = printable(alt)
    with style.context("default"):
        figure = new_figure(*size)
        draw(figure.add_subplot())
        return Picture(inline_svg(figure, prefix, alt), alt, caption)


def _of_decision(decision: Decision, kind: str, alt: str, caption: str) -> Picture:
    from ..decisions.plots import picture_size, plot

    return picture(partial(plot, decision, kind), picture_size(decision, kind), kind[0], alt, caption)


def inclusion_picture(decision: Decision) -> Picture:
    posterior = decision.findings.posterior
    order = np.argsort(-posterior.inclusion, kind="stable")[:_MOST_NAMED]
    leading = ", ".join(f"{posterior.feature_names[j]} {format_probability(posterior.inclusion[j])}" for j in order)
    source = "as in the paper" if posterior.n_environments > 1 else "by the prior, as one environment cannot tell"
    return _of_decision(
        decision,
        "inclusion",
        f"Bars of inclusion probabilities, the largest first: {leading}.",
        f"How probable it is that each feature belongs to the invariant subset, {source}; dashed at one half.",
    )


def subsets_picture(decision: Decision) -> Picture:
    first = decision.findings.posterior.names_of(decision.compatible.masks[0])
    several = decision.findings.posterior.n_environments > 1
    which = "Subsets that are compatible with invariance" if several else "Subsets by how well they predict"
    return _of_decision(
        decision,
        "subsets",
        f"{'Compatible subsets' if several else 'Subsets'}, the best predictor first, which is {format_subset(first)}; "
        "the table below has the same.",
        f"{which}: a dot for each feature in them. The selected one stands out.",
    )


def frontier_picture(decision: Decision) -> Picture:
    chosen = decision.evidence
    return _of_decision(
        decision,
        "frontier",
        f"R² against the p-value of invariance of the subsets; the selected one is at R² {format_share(chosen.r2)} and "
        f"p-value {format_p_value(chosen.p_invariant)}.",
        "What invariance costs: how well subsets predict against how much the data speak against their invariance.",
    )


def coefficients_picture(decision: Decision, intervals: bool) -> Picture:
    """intervals : whether the model gives any"""
    if decision.findings.posterior.n_environments > 1:
        against = "the line is that of all rows together"
        if intervals:
            against = "intervals far from the band speak against it"
        caption = f"Invariance asks for the same coefficient everywhere: {against}."
    else:
        caption = "Invariance asks for the same coefficient everywhere; one environment has nothing to compare with."
    return _of_decision(
        decision,
        "coefficients",
        "Coefficients of the selected features in each environment, beside those of all rows together; the table below "
        "has the same numbers.",
        caption,
    )


def environments_picture(diagnosis: Diagnosis) -> Picture:
    from ..decisions.plots import environments_size, plot_environments

    return picture(
        partial(plot_environments, diagnosis),
        environments_size(diagnosis),
        "e",
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
    what = predicts_of(subject.family)
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
