"""The sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools import sections as results
from .._tools.arrays import Floats, Integers, Mask
from .._tools.plotting import GUIDE, INK, PLAIN, plain_ticks, tidy
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import format_subset, name_labels, printable, shorten
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import in_words
from ..decisions.decision import Decision, Grade, papers_view, role_in_words
from ..decisions.diagnosis import T_BY_ENVIRONMENT
from ..exceptions import SettingError
from ..models.base import VARIANCE, Fit, Predicts, predicts_of
from ..models.bayesian import BayesianLinearGaussian
from ..models.survival import PiecewiseExponentialFit
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from ..posterior.posterior import Posterior
from ..posterior.summary import (
    CAUSES,
    format_count,
    format_difference,
    format_p_value,
    format_probability,
    format_share,
    format_small_p_value,
    model_in_words,
    reading,
)
from ..prediction.choice import Choice
from ..prediction.new_environments import few_environments
from ..prediction.predictions import Price
from ..prediction.predictor import as_observed, columns_of
from .methods import Subject, method_blocks
from .page import Block, Cell, Column, Picture, Table, counts, numbers, picture, texts, with_equal_decimals, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"selected": "Selected", "predicts with": "Predicts with", "test": "Test of invariance", "rule": "Rule"}
_LABELS |= {"components": "What differs", "change": "Change", "cells": "Cells"}


def answer_blocks(subject: Subject) -> Iterator[Block]:
    decision, worded = subject.decision, subject.source.worded
    said = [(name, worded(text)) for name, text in decision.sections[0].facts]
    facts = [(_LABELS[name], text) for name, text in said if name in _LABELS]
    yield Block(callout=(*state(decision), worded(str(decision.verdict))), facts=facts)
    yield Block("How sure this is", sentences=list(_readings(decision)))
    if decision.is_compatible and decision.findings.posterior.n_environments > 1:
        yield Block("Would luck do this?", sentences=[worded(decision.explain_luck())])
    told = [text[:1].upper() + text[1:] for name, text in said if name in ("caution", "noise", "limit")]
    yield Block("Caveats", points=[*told, *_caveats(decision)])


def state(decision: Decision) -> tuple[str, str]:
    """The tone of the verdict, and its grade."""
    verdict = decision.verdict
    bad = verdict.grade is Grade.differ and not decision.is_compatible
    tone = "good" if verdict.grade is Grade.alike else "bad" if bad else "open"
    return tone, verdict.short[0].upper() + verdict.short[1:]


def _readings(decision: Decision) -> Iterator[str]:
    posterior, predictive = decision.findings.posterior, decision.findings.predictive
    if predictive is not None:
        among = ", among compatible subsets" if posterior.n_environments > 1 else ""
        yield f"By prediction{among}. {reading(predictive)}"
    yield f"By invariance alone, as in the paper. {reading(posterior)}"
    if posterior.n_environments > 1:
        yield papers_view(decision.findings.target.model)


def _caveats(decision: Decision) -> Iterator[str]:
    posterior = decision.findings.posterior
    unmoved = [feature.name for feature in decision.features if feature.never_challenged]
    if unmoved:
        yield f"{format_subset(unmoved)}: never challenged: no environment shifts them, so that a decoy would not show."
    if posterior.n_environments > 1:
        yield (
            "Compatible means that the data do not speak against invariance, by the test that the methods below state: "
            "no proof. With few rows, or environments that hardly differ, much is compatible."
        )
        if not decision.compatible.n and CAUSES not in reading(posterior):
            yield CAUSES
        yield "Only the environments at hand were compared: a new one may differ in ways that none of them does."
    few = few_environments(posterior.n_environments)
    if few:
        yield few[0].upper() + few[1:]
    yield (
        f"That features predict {printable(posterior.outcome_name)} alike everywhere does not by itself make them "
        "causes: a cause that was not measured, or environments that act on the outcome itself, can mislead."
    )


def data_blocks(subject: Subject) -> Iterator[Block]:
    posterior, data = subject.posterior, subject.data
    n, column = posterior.n_environments, getattr(data, "environment_name", None)
    question = (
        f"Which of {_count(posterior.n_features, 'feature')} predict {printable(data.outcome_name)} in the same way in "
        f"{_count(n, 'environment')}, and how sure is that?"
    )
    facts = [
        ("Outcome", _outcome(subject)),
        ("Rows", f"{int(posterior.counts.sum()):,}"),
        ("Left out", _left_out(data)),
        ("Features", _features(data)),
        ("Environments", f"{n:,}{'' if column is None else f', by {printable(column)}'}"),
        ("Model of the outcome", subject.source.worded(model_in_words(posterior))),
        ("Subsets", f"{format_count(posterior.n_subsets)}, by the prior and the number of rows"),
    ]
    points = [subject.source.worded(note) for note in posterior.notes]
    if isinstance(data, Moments) and (data.second is None or data.second.fourths is None):
        points.insert(0, "Second moments alone were fitted: rows would add residuals, checks of the noise and models.")
    table = Table("Environments", list(_environment_columns(subject)))
    yield Block(sentences=[question], facts=facts, table=table, points=points)


def _outcome(subject: Subject) -> str:
    data, told = subject.data, printable(subject.data.outcome_name)
    if isinstance(data, Moments):
        return told
    if data.event_name is not None and data.event is not None:
        told += f", a time; {int(data.event.sum()):,} of {data.n_rows:,} ended with {printable(data.event_name)}"
    if data.exposure_name is not None:
        told += f", per unit of {printable(data.exposure_name)}"
    if data.classes is not None:
        zero, one = (printable(in_words(label)) for label in data.classes)
        told += f": {zero} counts 0 and {one} counts 1"
    return told


def _left_out(data: MultiEnvironmentData | Moments) -> str:
    rows, columns = sum(data.dropped_rows.values()), len(data.constants)
    told = f"{_count(rows, 'row')} with missing values" if rows else "no row"
    return f"{told} and {_count(columns, 'constant column')}" if columns else told


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _features(data: MultiEnvironmentData | Moments) -> str:
    features = data.features
    several = [group for group, width in zip(features.names, features.widths, strict=True) if width > 1]
    if not several:
        return f"{len(features.names):,}"
    columns = f"{len(several):,} of them of several columns ({features.n_columns:,} in all)"
    return f"{len(features.names):,}, {columns}: {format_subset(several, limit=6)}"


def _environment_columns(subject: Subject) -> Iterator[Column]:
    """Rows of each environment, and what the outcome is like there."""
    data, outcome, labels = subject.data, printable(subject.data.outcome_name), subject.posterior.environments
    yield texts("Environment", labels)
    yield counts("Rows", subject.posterior.counts)
    if any(data.dropped_rows.get(label) for label in labels):
        yield counts("Left out", (data.dropped_rows.get(label, 0) for label in labels))
    if isinstance(data, Moments):
        yield numbers("Mean", data.means[:, data.outcome], hint=f"of {outcome}")
        if data.scatter.size:
            deviations = sample_sd(data.scatter[:-1, data.outcome, data.outcome], data.counts)
            yield numbers("SD", deviations, hint="standard deviation")
        return
    groups = [data.rows(e) for e in range(data.n_environments)]
    means = without_rounding(np.array([data.y[rows].mean() for rows in groups]), float(np.abs(data.y).max()))
    if predicts_of(subject.family) is Predicts.probability:
        yield numbers("Share of 1", means, hint=f"of rows in which {outcome} counts 1")
    elif data.event is not None:
        yield counts("Events", (data.event[rows].sum() for rows in groups))
        yield numbers("Mean time", means, hint="until the event, or until it was censored")
    elif data.exposure is not None:
        rates = [data.y[rows].sum() / data.exposure[rows].sum() for rows in groups]
        yield numbers("Rate", rates, hint=f"of {outcome} per unit of {printable(str(data.exposure_name))}")
    else:
        yield numbers("Mean", means, hint=f"of {outcome}")
        deviations = sample_sd(np.array([data.y[rows].var() for rows in groups]) * data.counts, data.counts)
        yield numbers("SD", deviations, hint="standard deviation")


def _decision_picture(decision: Decision, kind: str, caption: str) -> Picture:
    from ..decisions.plots import picture_size, plot

    return picture(partial(plot, decision, kind), picture_size(decision, kind), caption)


def feature_blocks(subject: Subject) -> Iterator[Block]:
    decision, posterior, predictive = subject.decision, subject.posterior, subject.decision.findings.predictive
    several, features = posterior.n_environments > 1, decision.features
    by_prediction = decision.posterior is predictive
    source = "among compatible subsets, by how well these predict" if by_prediction else "as in the paper"
    source = source if several else "by the prior, as one environment cannot tell"
    caption = f"How probable it is that each feature belongs to the subset, {source}; dashed at one half."
    places = [posterior.feature_names.index(feature.name) for feature in features]
    compatible = np.full(posterior.n_features, np.nan) if predictive is None else predictive.inclusion
    weighed = "among compatible subsets, by how well these predict" if several else "by how well subsets predict"
    change = "of the selection when this feature alone is left out of it, or added to it"
    columns = [
        texts("Feature", (feature.name for feature in features)),
        texts("Selected", ("● yes" if feature.selected else "no" for feature in features)),
        texts("Role", (subject.source.worded(role_in_words(feature)) for feature in features)),
        numbers("Inclusion", compatible[places], format_probability, f"probability {weighed}"),
        numbers("Paper's inclusion", posterior.inclusion[places], format_probability, "by invariance alone"),
        numbers("Change of R²", (feature.r2_change for feature in features), "{:+z.3f}".format, change),
    ]
    if several:
        hint = "the p-value of invariance of the selection after that change"
        columns.append(numbers("p_inv then", (feature.p_invariant for feature in features), format_p_value, hint))
    columns.append(_pooled_coefficients(subject, [feature.name for feature in features]))
    none = f"No subset{decision.findings.allowed} is compatible with invariance: the inclusion is the paper's."
    drawn, points = _decision_picture(decision, "inclusion", caption), [none] if predictive is None and several else []
    yield Block(picture=drawn, table=Table("Every feature", columns), points=points)


def _pooled_coefficients(subject: Subject, names: list[str]) -> Column:
    decision = subject.decision
    selected = subject.data.features.chosen(decision.mask)
    values = decision.findings.target.model.fit(decision.mask, local=False).coefficients
    cells = {
        name: Cell(with_equal_decimals([values[start]])[0], values[start]) if width == 1 else Cell(f"{width} columns")
        for name, start, width in zip(selected.names, selected.starts, selected.widths, strict=False)
    }
    hint = "of the selected features alone, in their fit to all rows; a feature of several columns has several"
    return Column("Coefficient", tuple(cells.get(name, Cell("–")) for name in names), hint=hint)


_SCALES = {
    Predicts.number: "Coefficients are in units of the outcome per unit of a column.",
    Predicts.probability: "Coefficients are log odds per unit of a column.",
    Predicts.rate: "Coefficients are logarithms of ratios of rates, per unit of a column.",
    Predicts.time: "Coefficients are logarithms of hazard ratios, per unit of a column.",
}


def coefficient_blocks(subject: Subject) -> Iterator[Block]:
    decision, model = subject.decision, subject.decision.findings.target.model
    if not decision.selected:
        yield Block(sentences=["No feature is selected, so that there are no coefficients."])
        return
    found = decision.coefficients()
    intervals = bool(np.isfinite(found["lower"].astype(float)).any())
    sentences = ["Coefficients are those of the selected features, fitted without the others."]
    sentences.append(_SCALES[predicts_of(subject.family)])
    if model.makes_curves:
        sentences.append("The columns of a curve act by their sum; intervals take its shape, from all rows, as given.")
    if getattr(subject.family, "deviations", "") == "random":
        sentences.append("Those of an environment are predicted from its rows and from how all environments deviate.")
    if not intervals:
        sentences.append("This model gives no intervals for them.")
    told = "Invariance asks for the same coefficient in every environment, that of all rows together."
    drawn = _decision_picture(decision, "coefficients", told)
    labels = texts("Environment", ["all together", *subject.posterior.environments])
    columns = [
        Column(printable(str(name)), tuple(_coefficient(*row) for row in rows.itertuples(index=False)))
        for name, rows in found.groupby("column", sort=False)[["estimate", "lower", "upper", "note"]]
    ]
    caption = f"Coefficients of the selected features{' with 95% intervals' if intervals else ''} by environment"
    yield Block(sentences=sentences, picture=drawn, table=Table(caption, [labels, *columns]))
    if decision.curves is not None:
        told = "Coefficients along the variable, as a mixed model predicts them, with 95% bands, point by point."
        yield Block(picture=_decision_picture(decision, "along", told))


def _coefficient(estimate: float, lower: float, upper: float, note: str) -> Cell:
    note = shorten(note, 60)
    if not np.isfinite(estimate):
        return Cell(note or "–")
    middle, low, high = with_equal_decimals([estimate, lower, upper])
    interval = f" ({low} to {high})" if np.isfinite(lower) else ""
    return Cell(f"{middle}{interval}{note and f', {note}'}", estimate)


def subset_blocks(subject: Subject) -> Iterator[Block]:
    decision, predictive = subject.decision, subject.decision.findings.predictive
    several = subject.posterior.n_environments > 1
    which = "Compatible subsets" if several else "Subsets"
    title = "Compatible with invariance, by prediction" if several else "By prediction"
    if predictive is None:
        yield Block(title, sentences=[f"No subset{decision.findings.allowed} is compatible with invariance."])
    else:
        caption = f"{which}, the best predictor first"
        told = f"{caption}: a dot for each feature in them. The selected one stands out."
        table = _subset_table(caption, predictive, decision.mask, str(decision.compatible))
        yield Block(title, picture=_decision_picture(decision, "subsets", told), table=table)
    title = "By invariance alone"
    if not several:
        told = "One environment says nothing about invariance: the paper's posterior is the prior."
        yield Block(title, sentences=[told])
        return
    cost = (
        "What likeness costs: how well subsets predict against how much their coefficients differ, with 90% intervals."
    )
    yield Block(picture=_decision_picture(decision, "frontier", cost))
    told = "The paper's posterior weighs subsets by their invariance and the prior, not by prediction."
    n = format_count(subject.posterior.n_subsets)
    table = _subset_table("Most probable invariant subsets", subject.posterior, decision.mask, n)
    yield Block(title, sentences=[told], table=table)


def _subset_table(caption: str, posterior: Posterior, selected: Mask, n_found: str) -> Table:
    """n_found : how many subsets there are, in words"""
    masks = posterior.masks[:15]
    n, evidence = len(masks), posterior.leading_evidence(len(masks))
    names = [f"{{{', '.join(map(printable, posterior.names_of(mask)))}}}" for mask in masks]
    subsets = tuple(Cell(name, strong=(mask == selected).all()) for name, mask in zip(names, masks, strict=True))
    explained = "share of the outcome's variance that the fit to all rows explains, by its likelihood"
    columns = [
        Column("Subset", subsets, number=False),
        counts("Features", masks.sum(axis=1).tolist()),
        numbers("Probability", np.exp(posterior.log_probabilities[:n]), format_probability),
        numbers("R²", evidence.r2, format_share, explained),
    ]
    if posterior.n_environments > 1:
        invariance = "p-value of invariance, by the test that the methods below state"
        columns += [
            numbers("log Λ", posterior.log_ratios[:n], hint="how invariant it is: see the methods below"),
            numbers("p_inv", evidence.p_invariant, format_p_value, invariance),
            numbers("exact p", evidence.p_exact, format_small_p_value, "the same where nothing is tolerated"),
            texts("Coefficients differ by", (format_difference(evidence.one(row)) for row in range(n))),
        ]
        if np.isfinite(evidence.r2_new).any():
            unseen = "in environments that the fit has not seen, where that is known"
            columns.append(numbers("R² elsewhere", evidence.r2_new, format_share, unseen))
    return Table(caption, columns, f"The selected subset is set in bold. Shown: {n:,} of {n_found}.")


def environment_blocks(subject: Subject) -> Iterator[Block]:
    if isinstance(subject.diagnosis, str):
        yield Block(sentences=[subject.diagnosis])
    else:
        from ..decisions.plots import environments_size, plot_environments

        opening, *others = subject.diagnosis.sections
        size = environments_size(subject.diagnosis.n_environments)
        caption = (
            "How much each environment differs from all others, given the selected features; diamonds, all parts "
            "together, beyond the dashed line raise an alarm."
        )
        drawn = picture(partial(plot_environments, subject.diagnosis), size, caption)
        yield Block(sentences=list(map(subject.source.worded, opening.sentences)), picture=drawn)
        for section in others:
            yield _as_block(section, subject)
    yield residual_block(subject)


_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
_MOST_ENVIRONMENTS = 40
_LONGEST_LABEL = 24
# {what is predicted: (the observed mean, what a residual is)}
_WHAT = {
    Predicts.number: ("Mean outcome", "the outcome minus what the selected features predict, fitted to all rows"),
    Predicts.probability: ("Share of 1", "0 or 1 minus the probability by the selected features, fitted to all rows"),
    Predicts.rate: ("Mean count", "the count minus what the selected features let expect, fitted to all rows"),
    Predicts.time: (
        "Mean events",
        "1 for an event, else 0, minus the events that the selected features let expect by then",
    ),
}


@dataclass(frozen=True, eq=False)
class EnvironmentResiduals:
    """What was observed minus what was expected, in E environments.
    each : residuals of the rows, or of a sample of them; counts : (E,) all rows; observed, expected : (E,) means
    spread : (E,) standard deviations of residuals; scale : the largest number that was observed"""

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
        """(E,)"""
        return without_rounding(self.observed - self.expected, self.scale)


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


def _residuals(subject: Subject) -> EnvironmentResiduals | None:
    """Of the fit of the selected features to all rows."""
    data, decision = subject.data, subject.decision
    fit = decision.findings.target.model.fit(decision.mask, local=False)
    if isinstance(data, Moments):
        return residuals_of_sample(data, fit)
    X = columns_of(data, fit.columns)
    if isinstance(fit, PiecewiseExponentialFit) and data.event is not None:
        return EnvironmentResiduals.of_rows(data.event, fit.risk(X) * fit.baseline.cumulative(data.y), data)
    return EnvironmentResiduals.of_rows(data.y, as_observed(fit.predict(X), data), data)


def residual_block(subject: Subject) -> Block:
    found, decision, what = _residuals(subject), subject.decision, predicts_of(subject.family)
    if found is None:
        told = "Second moments alone are known, and residuals need the rows: fit with the rows, too."
        return Block("Residuals", sentences=[told])
    points = []
    if decision.noise is not None and decision.noise.shape is not None:
        shape = decision.noise.shape
        told = f"an excess kurtosis of {shape.excess_kurtosis:.2f} (normal noise: 0)"
        if decision.selected:
            told += f"; their spread depends on the selected features: p-value {format_p_value(shape.p_even)}"
        points = [f"The residuals of each environment's own fit have {told}."]
    columns = [
        texts("Environment", found.environments),
        counts("Rows", found.counts),
        numbers(_WHAT[what][0], found.observed),
        numbers("Mean predicted", found.expected),
        numbers("Mean residual", found.means),
        numbers("Standard error", found.spread / np.sqrt(found.counts)),
        numbers("SD of residuals", found.spread),
    ]
    caption, more = "Mean residual with a 95% interval: 0 is what invariance asks for.", ""
    if what is Predicts.number:
        sizes = [len(left) for left, n in zip(found.each, found.counts, strict=True) if len(left) < n]
        sampled = f", of {max(sizes):,} rows drawn by chance where an environment has more" if sizes else ""
        alike = "Alike" if VARIANCE in decision.findings.target.model.compares else "Around 0"
        caption = (
            f"Quantiles of the residuals: the median, the middle half, and 5% to 95%{sampled}. "
            f"{alike} in every environment is what invariance asks for."
        )
        columns += [numbers(f"{100 * q:g}%", (np.quantile(left, q) for left in found.each)) for q in _QUANTILES]
        more = f"Percentages are quantiles of the residuals{sampled}."
    shown = min(len(found.each), _MOST_ENVIRONMENTS)
    if shown < len(found.each):
        caption += f" The first {shown} environments are shown."
    size = 7.0, 1.1 + 0.26 * max(shown, 3)
    drawn = picture(partial(_draw, found, what is Predicts.number, shown), size, caption)
    table = Table("Residuals by environment", columns, more)
    return Block("Residuals", sentences=[f"A residual is {_WHAT[what][1]}."], picture=drawn, table=table, points=points)


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


def prediction_blocks(subject: Subject) -> Iterator[Block]:
    """What predicts and why, what invariance costs, and what predicts in environments left out."""
    decision, predictions, worded = subject.decision, subject.decision.predictions, subject.source.worded
    assert predictions is not None
    choice, told = predictions.choice, f"Predictions are made with {worded(str(predictions))}"
    unused = [name for name in subject.data.features.columns if name not in subject.model.predictor_.design.columns]
    why = "constant in every environment, which are too few to tell what it does, or a combination of others"
    by_all = predictions.resolved(predictions.asked) == "everything" and unused
    points = [f"Of all features, what predicts leaves out {format_subset(unused)}: {why}."] if by_all else []
    errors, table = {"All features": choice.everything, "Selected features": choice.selected}, None
    if not np.isnan(choice.ratio):
        table = _error_table(choice, "as it is", errors)
    yield Block("What predicts", sentences=[told[:1].upper() + told[1:]], table=table, points=points)
    sentences, table, price = [worded(decision.explain_price())], None, predictions.known_price
    if price is not None and len(price.environments):
        errors = {"Selected without it": price.selected, "All features": price.everything, "Constant": price.constant}
        table = _error_table(price, "repeated", errors)
    yield Block("What invariance costs", sentences=sentences, table=table)
    for section in subject.model.new_environments().sections:
        yield _as_block(section, subject)


def _error_table(found: Choice | Price, selection: str, errors: dict[str, Floats]) -> Table:
    columns = [numbers(title, values) for title, values in errors.items()]
    caption = f"{found.measure[:1].upper()}{found.measure[1:]} in each environment, left out with the selection"
    return Table(f"{caption} {selection}", [texts("Environment", found.environments), *columns], "Less is better.")


def _as_block(section: results.Section, subject: Subject) -> Block:
    """A section of a result, as the page shows it."""
    title, said = section.title, map(subject.source.worded, section.sentences)
    sentences = [text[:1].upper() + text[1:] for text in said]
    # Where Λ is a Bayes factor by the methods of the page, T is none of it.
    if title == T_BY_ENVIRONMENT and isinstance(subject.family, BayesianLinearGaussian):
        title = "T by environment"
        sentences = ["T is of a ratio of maximised likelihoods, not of the Bayes factor Λ.", *sentences]
    columns = []
    for j, (head, *cells) in enumerate(zip(*section.table, strict=True)):
        number = j not in section.text_columns
        columns.append(Column(head, tuple(Cell(text, _sort_key(text) if number else None) for text in cells), number))
    table = Table(title, columns) if columns else None
    return Block(title, sentences=sentences, table=table, points=list(map(subject.source.worded, section.notes)))


def _sort_key(text: str) -> float | None:
    with suppress(ValueError):
        return float(text.removeprefix("<").replace(",", ""))
    return None


def check_comparison(comparison: Any, outcome: str, features: tuple[str, ...]) -> None:
    """Raise where it is none, or one of other data."""
    compared = getattr(comparison, "outcome_name", None), set(getattr(comparison, "feature_names", ()))
    if compared != (outcome, set(features)):
        raise SettingError("comparison= has another outcome or other features: pass what compare() says of the data.")


def comparison_blocks(subject: Subject) -> Iterator[Block]:
    if subject.comparison is not None:
        told = "Each method answers in its own way: one that asks what predicts does not ask what is invariant."
        yield Block(sentences=[told])
        for section in subject.comparison.sections:
            yield _as_block(section, subject)


# (anchor, title, blocks) in the order of the page
SECTIONS: tuple[tuple[str, str, Callable[[Subject], Iterable[Block]]], ...] = (
    ("answer", "The answer", answer_blocks),
    ("data", "The question and the data", data_blocks),
    ("features", "Feature by feature", feature_blocks),
    ("subsets", "Subsets", subset_blocks),
    ("coefficients", "Coefficients by environment", coefficient_blocks),
    ("environments", "Residuals and environments", environment_blocks),
    ("predictions", "Predictions in a new environment", prediction_blocks),
    ("comparison", "Other methods", comparison_blocks),
    ("methods", "How it was made", method_blocks),
)


def write_report(subject: Subject, path: Path, progress: ProgressMode = False) -> Path:
    """Sections that have nothing to say are left out."""
    title = f"What predicts {printable(subject.data.outcome_name)} alike in every environment?"
    lead = f"{format_subset(subject.decision.selected, 100)}: {state(subject.decision)[1]}"
    sections = []
    with ProgressBar("report", len(SECTIONS), progress) as bar:
        for anchor, heading, make_blocks in SECTIONS:
            blocks = list(make_blocks(subject))
            sections += [(anchor, heading, blocks)] if blocks else []
            bar.advance()
    return write_page(title, lead, sections, path)
