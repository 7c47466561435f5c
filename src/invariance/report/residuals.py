"""Residuals of the selected features in each environment, as a table and a picture."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers
from .._tools.plotting import GUIDE, INK, PLAIN, plain_ticks, tidy
from .._tools.text import name_labels
from ..data.multi_environment import MultiEnvironmentData
from ..models.base import VARIANCE, Fit, Predicts, predicts_of
from ..models.survival import PiecewiseExponentialFit
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from ..posterior.summary import format_p_value
from ..prediction.predictor import as_observed, columns_of
from .methods import Subject
from .page import Block, Picture, Table, counts, numbers, picture, texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
_MOST_ENVIRONMENTS = 40
_LONGEST_LABEL = 24
# {what is predicted: (the observed mean, what a residual is)}
_WHAT = {
    Predicts.number: ("Mean outcome", "the outcome minus what the fit to all rows predicts"),
    Predicts.probability: ("Share of 1", "0 or 1 minus the probability that the fit to all rows predicts"),
    Predicts.rate: ("Mean count", "the count minus what the fit to all rows expects"),
    Predicts.time: ("Mean events", "1 for an event and 0 for none, minus the events that the fit expects by then"),
}


@dataclass(frozen=True, eq=False)
class EnvironmentResiduals:
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
    def of_rows(cls, observed: Floats, expected: Floats, data: MultiEnvironmentData) -> EnvironmentResiduals:
        rows = [data.rows(e) for e in range(data.n_environments)]
        each = [observed[at] - expected[at] for at in rows]
        means, predicted = (np.array([values[at].mean() for at in rows]) for values in (observed, expected))
        spread = sample_sd(np.array([values.var() for values in each]) * data.counts, data.counts)
        return cls(data.environments, each, data.counts, means, predicted, spread, float(np.abs(observed).max()))

    @property
    def means(self) -> Floats:
        """(E,) of what was missed"""
        return without_rounding(self.observed - self.expected, self.scale)

    @property
    def sampled(self) -> str:
        """For a sentence on quantiles: of how many rows, where a sample alone is at hand."""
        sizes = [len(left) for left, n in zip(self.each, self.counts, strict=True) if len(left) < n]
        return f", of {max(sizes):,} rows drawn by chance where an environment has more" if sizes else ""


def sample_sd(squares: Floats, counts: Integers) -> Floats:
    """Standard deviations (E,) of so many numbers whose squares around their mean sum to this; 0 of one number."""
    return np.asarray(np.sqrt(squares / np.maximum(counts - 1, 1)))


def without_rounding(values: Floats, scale: float) -> Floats:
    """0 where values, computed from numbers as large as `scale`, are their rounding only."""
    return np.where(np.abs(values) < 1e-12 * scale, 0.0, values)


def residuals_of_sample(moments: Moments, fit: Fit) -> EnvironmentResiduals | None:
    """Means and deviations are those of all rows; None without a sample of them."""
    data = sampled_data(moments, fit.columns)
    if data is None:
        return None
    found = EnvironmentResiduals.of_rows(data.y, fit.predict(columns_of(data, fit.columns)), data)
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


def residual_block(subject: Subject) -> Block:
    """Of the fit of the selected features to all rows."""
    data, decision = subject.data, subject.decision
    fit = decision.findings.target.model.fit(decision.mask, local=False)
    found: EnvironmentResiduals | None
    if isinstance(data, Moments):
        found = residuals_of_sample(data, fit)
    else:
        X, observed = columns_of(data, fit.columns), data.y
        if isinstance(fit, PiecewiseExponentialFit) and data.event is not None:
            observed, expected = data.event, fit.risk(X) * fit.baseline.cumulative(data.y)
        else:
            expected = as_observed(fit.predict(X), data)
        found = EnvironmentResiduals.of_rows(observed, expected, data)
    if found is None:
        told = "Second moments alone are known, and residuals need the rows: fit with the rows, too."
        return Block("Residuals", sentences=[told])
    what, noise, points = predicts_of(subject.family), decision.noise, []
    if noise is not None and noise.shape is not None:
        told = f"an excess kurtosis of {noise.shape.excess_kurtosis:.2f} (normal noise: 0)"
        if decision.selected:
            told += f"; their spread depends on the selected features: p-value {format_p_value(noise.shape.p_even)}"
        points = [f"The residuals of each environment's own fit have {told}."]
    drawn = _picture(found, what is Predicts.number, VARIANCE in decision.findings.target.model.compares)
    sentences = [f"A residual is {_WHAT[what][1]}."]
    return Block("Residuals", sentences=sentences, picture=drawn, table=_table(found, what), points=points)


def _table(found: EnvironmentResiduals, what: Predicts) -> Table:
    columns = [
        texts("Environment", found.environments),
        counts("Rows", found.counts),
        numbers(_WHAT[what][0], found.observed),
        numbers("Mean predicted", found.expected),
        numbers("Mean residual", found.means),
        numbers("Standard error", found.spread / np.sqrt(found.counts)),
        numbers("SD of residuals", found.spread),
    ]
    if what is not Predicts.number:
        return Table("Residuals by environment", columns)
    columns += [numbers(f"{100 * q:g}%", (np.quantile(left, q) for left in found.each)) for q in _QUANTILES]
    return Table("Residuals by environment", columns, f"Percentages are quantiles of the residuals{found.sampled}.")


def _picture(found: EnvironmentResiduals, numeric: bool, spread: bool) -> Picture:
    """spread : whether the noise's scale must be the same, too"""
    shown = min(len(found.each), _MOST_ENVIRONMENTS)
    caption = "Mean residual with a 95% interval: 0 is what invariance asks for."
    if numeric:
        caption = (
            f"Quantiles of the residuals: the median, the middle half, and 5% to 95%{found.sampled}. "
            f"{'Alike' if spread else 'Around 0'} in every environment is what invariance asks for."
        )
    if shown < len(found.each):
        caption += f" The first {shown} environments are shown."
    return picture(partial(_draw, found, numeric, shown), (7.0, 1.1 + 0.26 * max(shown, 3)), caption)


def _draw(found: EnvironmentResiduals, numeric: bool, shown: int, ax: Axes) -> None:
    places, left = np.arange(shown), found.each[:shown]
    if numeric:
        low, lower, middle, upper, high = np.array([np.quantile(values, _QUANTILES) for values in left]).T
        ax.hlines(places, low, high, color=PLAIN, lw=1.2)
        ax.hlines(places, lower, upper, color=PLAIN, lw=6.0)
        ax.plot(middle, places, "o", ms=4.5, mfc="white", mec=INK, mew=1.2, ls="")
    else:
        half_widths = 1.96 * found.spread[:shown] / np.sqrt(found.counts[:shown])
        ax.errorbar(found.means[:shown], places, xerr=half_widths, fmt="o", ms=4.5, lw=1.2, color=PLAIN)
    ax.axvline(0.0, color=GUIDE, lw=0.9, ls="--", zorder=0)
    ax.set_yticks(places, name_labels([str(label) for label in found.environments[:shown]], _LONGEST_LABEL))
    plain_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(shown - 0.4, -0.6)
    tidy(ax, "x", ("top", "right", "left"))
    ax.set_xlabel("residual" if numeric else "mean residual")
    ax.set_ylabel("environment")
