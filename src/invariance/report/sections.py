"""The sections of a report: the answer, held-out environments, and an appendix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._tools import sections as results
from .._tools.arrays import Floats, Integers, Mask, Names
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import format_subset, in_quotes, printable, shorten, with_equal_decimals
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import class_in_words
from ..decisions.decision import (
    NO_INTERVAL,
    Decision,
    Grade,
    Verdict,
    compared_in_words,
    papers_view,
    role_in_words,
)
from ..decisions.diagnosis import T_BY_ENVIRONMENT
from ..decisions.effects import (
    differing_in_words,
    effect_name,
    i2_text,
    infinite_in_words,
    prediction_text,
    scale_of,
    standard_errors_in_words,
    tau_text,
)
from ..decisions.levels import LEFT_FREE
from ..exceptions import SettingError, or_why_not
from ..models.base import INVERSE_LINKS, Level, kind_of, link_of
from ..models.bayesian import BayesianLinearGaussian
from ..models.random_coefficients import GaussianRandomDeviations
from ..moments.moments import Moments
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
from ..prediction.new_environments import NewEnvironments
from ..prediction.pooled_performance import PooledPerformance
from .methods import Subject, methods_paragraph, reproduction_blocks
from .page import Block, Cell, Column, Picture, Table, counts, numbers, picture, texts, write_page

_MOST_NAMES = 12
_MOST_EFFECTS = 12
# Subsets in each of two tables.
MOST_LISTED = 15
SHRUNKEN = (
    "Values of an environment are predicted from its rows and from how all environments deviate."
)


def answer_blocks(subject: Subject) -> Iterator[Block]:
    """Yield the answer for a reader who does not read anything else."""
    decision = subject.decision
    worded = subject.source.worded
    lines = list(map(worded, _lines(decision.verdict)))
    yield Block(callout=(*state(decision), lines), sentences=list(_in_short(subject)))
    if decision.selected:
        yield _effects(subject)
    yield Block("Caveats", points=list(caveats(subject)))


def _effects(subject: Subject) -> Block:
    try:
        found = subject.decision.effects()
    except SettingError as error:  # with a link of one's own
        return Block("Effects", sentences=[str(error)[:1].upper() + str(error)[1:]])
    told = "The selected features act by curves: see their coefficients in the appendix."
    return Block("Effects", sentences=[told]) if found.empty else effect_block(subject, found)


def _lines(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict: effects, baselines, the consequence for a new environment, and what was
    tested."""
    parts = [
        part
        for part in (verdict.effects, verdict.baseline, verdict.follows, verdict.context)
        if part
    ]
    yield from parts or [verdict.sentence]


def state(decision: Decision) -> tuple[str, str]:
    """Return the tone of the verdict, and in a few words what is the same in all environments."""
    verdict = decision.verdict
    short = decision.in_short
    tone = "open"
    if verdict.grade is Grade.alike:
        tone = "partly" if decision.level in LEFT_FREE else "good"
    elif verdict.grade is Grade.differ and not decision.is_compatible:
        tone = "bad"
    return tone, short[0].upper() + short[1:]


def _in_short(subject: Subject) -> Iterator[str]:
    """Yield the selection, the environment that deviates, and the error elsewhere: one sentence
    each."""
    decision = subject.decision
    n = subject.posterior.n_features
    names = [printable(name) for name in decision.selected]
    shown = (
        names
        if len(names) <= _MOST_NAMES
        else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    )
    listed = " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
    total = f"{n:,} feature{'' if n == 1 else 's'}"
    yield f"Selected, of {total}: {listed}." if names else f"Of {total} none was selected."
    if subject.posterior.n_environments > 1:
        yield _who_deviates(subject)
        yield _elsewhere(subject.model.new_environments())


def _who_deviates(subject: Subject) -> str:
    decision = subject.decision
    diagnosis = subject.diagnosis
    if decision.components is not None:
        parts = "; ".join(
            text for _, text in decision.components.facts(subject.posterior.outcome_name)
        )
        return f"Environments {decision.components.design.in_words}: {parts}." if parts else ""
    if isinstance(diagnosis, str) or not decision.judged:
        return "Which environment deviates cannot be told."
    alarms = sorted(
        (test.deviation.p_value, str(test.environment))
        for test in diagnosis.tests
        if test.deviation is not None and test.deviation.p_value < diagnosis.threshold
    )
    n = diagnosis.n_environments
    limit = f"p-value below 0.05/{n:,}"
    others = "the other" if n == 2 else "the others"
    parts = (
        "" if diagnosis.level is Level.full else f" in {compared_in_words(decision.model, 'or')}"
    )
    if not alarms:
        return f"No single environment was found to deviate from {others}{parts} (no {limit})."
    verdict = decision.verdict
    besides = ""
    if verdict.grade is Grade.but_for and len(alarms) > 1:
        # They are compared with rows that hold the one that differs.
        besides = (
            f" Also below it: {len(alarms) - 1} more, against rows that include "
            f"{in_quotes(verdict.environment)}."
        )
        alarms = [alarm for alarm in alarms if alarm[1] == verdict.environment]
    told = ", ".join(
        f"{in_quotes(label)} ({format_small_p_value(p_value)})" for p_value, label in alarms[:6]
    )
    more = f" and {len(alarms) - 6} more" if len(alarms) > 6 else ""
    tolerated = ", within what is tolerated" if decision.verdict.grade is Grade.alike else ""
    return f"Deviating from {others}{parts} ({limit}{tolerated}): {told}{more}.{besides}"


def _elsewhere(found: NewEnvironments) -> str:
    """Return how well the predictions are in held-out environments."""
    known = [left for left in found.left_out if np.isfinite(left.figures[found.kind.measure])]
    if not known:
        return "How well it predicts in an environment left out cannot be told."
    ordered = sorted(
        (left.figures[found.kind.measure], in_quotes(left.environment)) for left in known
    )
    worst = ordered[0]
    best = ordered[-1]
    mean, *ends = with_equal_decimals([found.on_average(found.kind.measure), worst[0], best[0]], 3)
    n = found.n_environments
    among = f" over {len(known)} of {n} environments" if len(known) < n else ""
    over = (
        f"{among} ({ends[0]} in {worst[1]} to {ends[1]} in {best[1]})" if len(known) > 1 else among
    )
    share = found.on_average("r2") if "r2" in found.kind.figures else np.nan
    more = f"; R² there {format_share(share, 2)}" if np.isfinite(share) else ""
    return (
        f"In an environment left out, predictions by {found.by_in_words} "
        f"{found.kind.measure_does} {mean} on average"
        f"{over}{more}."
    )


def effect_block(subject: Subject, found: pd.DataFrame) -> Block:
    """Return a table of the pooled effects with their heterogeneity, and the forest plot."""
    decision = subject.decision
    what = scale_of(subject.decision)
    shown = found.iloc[:_MOST_EFFECTS]
    rows: list[Any] = list(shown.itertuples())
    outcome = subject.model._outcome
    of = printable(outcome.name)
    if outcome.kind.classifies and outcome.classes is not None:
        of = f"{of} = {printable(class_in_words(outcome.classes[1]))}"
    elif outcome.kind.censored:
        of = printable(getattr(subject.data, "event_name", None) or "the event")
    title = f"{what.capitalize()} {'in' if what == 'difference' else 'of'} {of}"
    intervals = bool(np.isfinite(shown["lower"]).any())
    compared = bool(shown["p_interaction"].notna().any())
    columns = [
        texts("Feature", (effect_name(row.feature, row.column) for row in rows)),
        texts("Change", (row.unit for row in rows)),
        Column(
            f"{what.capitalize()} (95% interval)" if intervals else what.capitalize(),
            tuple(effect_cell(row) for _, row in shown.iterrows()),
        ),
    ]
    if compared:
        logs = "" if what == "difference" else " of its logarithm"
        columns += [
            numbers(
                "I²",
                shown["i2"],
                i2_text,
                "share of the variance of environments' estimates beyond chance",
            ),
            numbers("τ", shown["tau"], tau_text, f"standard deviation{logs} between environments"),
            numbers(
                "p",
                shown["p_interaction"],
                format_small_p_value,
                "of the same effect in all environments",
            ),
        ]
    if shown["prediction_lower"].notna().any():
        cells = tuple(Cell(prediction_text(row), row.prediction_lower) for row in rows)
        columns.append(
            Column("In a new environment", cells, hint="95% prediction interval of the effect")
        )
    more = list(_about_effects(decision, intervals))
    if len(found) > len(shown):
        more.append(f"{len(shown)} of {len(found)} are shown.")
    several = subject.posterior.n_environments > 1
    told = (
        f"{title}: each environment{' with its 95% interval' if intervals else ''}; the "
        "diamond is all rows together"
    )
    told += ", the bar a new environment." if shown["prediction_lower"].notna().any() else "."
    drawn = _decision_picture(decision, "effects", told) if several else None
    return Block("Effects", table=Table(title, columns, " ".join(more)), picture=drawn)


def effect_cell(row: Any, like: Sequence[float] | None = None) -> Cell:
    """Return an estimate with its interval, or why there is none; like : numbers with the same
    decimals."""
    note = (
        "" if row["note"] == NO_INTERVAL else shorten(str(row["note"]), 60)
    )  # the table says so of all
    if not np.isfinite(row["estimate"]):
        return Cell(note or "–")
    middle, low, high = with_equal_decimals([row["estimate"], row["lower"], row["upper"]], 3, like)
    interval = f" ({low} to {high})" if np.isfinite(row["lower"]) else ""
    return Cell(f"{middle}{interval}{note and f', {note}'}", row["estimate"])


def _about_effects(decision: Decision, intervals: bool) -> Iterator[str]:
    given = ", each given the others" if len(decision.selected) > 1 else ""
    stratified = (
        "" if decision.model.level is Level.full else ", with a baseline for each environment"
    )
    yield f"From one fit of the selected features to all rows{stratified}{given}."
    if decision.verdict.grade in (Grade.differ, Grade.but_for):
        yield "As environments differ, this is an average over them."
    if intervals:
        errors = standard_errors_in_words(decision)
        yield f"Intervals: {errors}; the selection counts as given."
    else:
        yield "This model gives no intervals."
    yield from infinite_in_words(decision)
    yield from differing_in_words(decision)
    if isinstance(decision.model, GaussianRandomDeviations):
        yield SHRUNKEN
    shown = set(decision.effects()["feature"])
    curved = [name for name in decision.selected if name not in shown]
    if curved:
        yield f"{format_subset(curved)}: a curve, see the coefficients in the appendix."


def caveats(subject: Subject) -> Iterator[str]:
    """Every alarm of the fit, then what holds of all fits."""
    decision = subject.decision
    posterior = subject.posterior
    worded = subject.source.worded
    said = [
        text for name, text in decision.sections[0].facts if name in ("caution", "noise", "limit")
    ]
    if decision.rejected:
        said.append(
            f"The data speak against the invariance of {format_subset(decision.selected)}. {CAUSES}"
        )
    unmoved = [feature.name for feature in decision.features if feature.never_challenged]
    if unmoved:
        said.append(
            f"{format_subset(unmoved)}: never challenged: no environment shifts them: a decoy "
            "would not show."
        )
    if posterior.n_environments > 1:
        said.append(subject.model.new_environments().limit(decision.columns))
    # The verdict, which stands above, is what a fit warns of where nothing is invariant, or effects
    # alone are.
    verdict = str(decision.verdict)
    warned = (*subject.source.warned, *subject.model._warned)
    said += [
        text for text in warned if not text.startswith(verdict) and not verdict.startswith(text)
    ]
    said += [note for note in posterior.notes if note not in subject.data.notes]
    if posterior.n_environments > 1:
        said.append(
            "Compatible means that the data do not speak against invariance, no proof of it: with "
            "few rows, or "
            "environments that hardly differ, much is compatible. A new environment may differ as "
            "none of these does."
        )
    outcome = printable(posterior.outcome_name)
    alike = f"That features predict {outcome} alike everywhere"
    if decision.level in LEFT_FREE:
        alike = f"That effects on {outcome} are the same everywhere"
    said.append(
        f"{alike} does not by itself make features causes: a cause that was not measured, or "
        "environments that act on "
        "the outcome itself, can mislead."
    )
    # A warning and a note that say the same differ in the full stop.
    for text in dict.fromkeys(worded(text).rstrip(".") for text in said if text):
        # no name of a file
        yield f"{text[:1].upper() if text.partition(' ')[0].isalpha() else text[:1]}{text[1:]}."


def left_out_blocks(subject: Subject) -> Iterator[Block]:
    """Yield the predictions in each held-out environment, and other comparisons."""
    if subject.posterior.n_environments > 1:
        found = subject.model.new_environments()
        price = subject.source.worded(subject.model.explain_cost())
        if found.left_out:
            told = f"Each environment is predicted by {found.by_in_words}, fitted without it."
            caption = (
                "Calibration, and how well is predicted, in each environment left out, with 95% "
                "intervals. Line: the "
                "mean over environments; dashed: intercept 0 and slope 1, of predictions that are "
                "right."
            )
            drawn = _decision_picture(subject.decision, "left_out", caption)
            yield Block(sentences=[told, price], table=left_out_table(found), picture=drawn)
            pooled = found.pooled()
            if pooled.measures:
                yield Block(table=pooled_table(pooled))
        else:
            yield Block(sentences=[found.why_none, price])
    yield from comparison_blocks(subject)


def left_out_table(found: NewEnvironments) -> Table:
    left_out = found.left_out
    measure = found.kind.measure
    frame = found.to_frame()
    columns = [texts("Environment", (left.environment for left in left_out))]
    columns.append(counts("Rows", (left.rows for left in left_out)))
    if any(left.events is not None for left in left_out):
        columns.append(
            counts("Events", (np.nan if left.events is None else left.events for left in left_out))
        )
    for name, title in (
        ("intercept", "Intercept"),
        ("slope", "Slope"),
        (measure, found.head_of(measure)),
    ):
        # Of a small environment they may be large, and must not take the decimals of the others.
        like = (
            frame[name].tolist()
            if name in ("intercept", "rmse")
            else [1.0 if name == "slope" else 0.1]
        )
        own = frame[[name, f"{name}_lower", f"{name}_upper"]].set_axis(
            ["estimate", "lower", "upper"], axis=1
        )
        cells = [effect_cell(row, like) for _, row in own.astype(float).assign(note="").iterrows()]
        columns.append(Column(title[:1].upper() + title[1:], tuple(cells)))
    if measure == "rmse":
        columns.append(
            numbers(
                "R²", (left.figures["r2"] for left in left_out), partial(format_share, digits=3)
            )
        )
    more = (
        "With 95% intervals. Calibration intercept (0 is right) and slope (1 is right, less "
        "where predictions are too "
        f"extreme) are of {found.kind.scale}. {found.kind.measure_is}"
    )
    return Table("Environments left out", columns, more)


def pooled_table(found: PooledPerformance) -> Table:
    head, *rows = found.cells()
    columns = [texts(name, values) for name, *values in zip(head, *rows, strict=True)]
    return Table("At a new environment", columns, " ".join(found.sentences))


def check_comparison(comparison: Any, outcome: str, features: Names) -> None:
    """Raise if it is not a comparison, or one of other data."""
    about = getattr(comparison, "attrs", {}) if hasattr(comparison, "as_sections") else {}
    if (about.get("outcome"), set(about.get("features", ()))) != (outcome, set(features)):
        raise SettingError(
            "comparison= has another outcome or other features: pass what compare() says of the "
            "data."
        )


def comparison_blocks(subject: Subject) -> Iterator[Block]:
    if subject.comparison is not None:
        told = (
            "Each method answers in its own way: one that asks what predicts does not ask what "
            "is invariant."
        )
        yield Block("Other methods", sentences=[told])
        # The notes on the fit stand among the caveats.
        for section in subject.comparison.as_sections(
            subject.source.worded, subject.posterior.notes
        ):
            yield _as_block(section, subject, heading=False)


# ---- the appendix


def methods_blocks(subject: Subject) -> Iterator[Block]:
    yield Block(sentences=[methods_paragraph(subject)])


def data_blocks(subject: Subject) -> Iterator[Block]:
    data = subject.data
    model = subject.source.worded(model_in_words(subject.posterior))
    facts = [("Features", _features(data)), ("Model of the outcome", model)]
    points = list(map(subject.source.worded, data.notes))
    if isinstance(data, Moments) and data.sample is None:
        points.append(
            "Second moments alone were fitted: rows would add calibration, checks of the noise "
            "and models."
        )
    yield Block(
        facts=facts, table=Table("Environments", list(_environment_columns(subject))), points=points
    )


def _outcome(subject: Subject) -> str:
    data = subject.data
    told = printable(subject.data.outcome_name)
    if isinstance(data, Moments):
        return told
    if data.event_name is not None and data.event is not None:
        told += (
            f", a time; {int(data.event.sum()):,} of {data.n_rows:,} ended with "
            f"{printable(data.event_name)}"
        )
    if data.exposure_name is not None:
        told += f", per unit of {printable(data.exposure_name)}"
    if data.classes is not None:
        zero, one = (printable(class_in_words(label)) for label in data.classes)
        told += f": {zero} counts 0 and {one} counts 1"
    return told


def _features(data: MultiEnvironmentData | Moments) -> str:
    features = data.features
    several = [
        group for group, width in zip(features.names, features.widths, strict=True) if width > 1
    ]
    if not several:
        return f"{len(features.names):,}"
    columns = f"{len(several):,} of them of several columns ({features.n_columns:,} in all)"
    return f"{len(features.names):,}, {columns}: {format_subset(several, limit=6)}"


def _environment_columns(subject: Subject) -> Iterator[Column]:
    """Yield the rows of each environment, and the distribution of the outcome in it."""
    data = subject.data
    outcome = printable(subject.data.outcome_name)
    labels = subject.posterior.environments
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
    means = [data.y[rows].mean() for rows in groups]
    if kind_of(subject.family).classifies:
        yield numbers("Share of 1", means, hint=f"of rows in which {outcome} counts 1")
    elif data.event is not None:
        yield counts("Events", (data.event[rows].sum() for rows in groups))
        yield numbers("Mean time", means, hint="until the event, or until it was censored")
    elif data.exposure is not None:
        rates = [data.y[rows].sum() / data.exposure[rows].sum() for rows in groups]
        yield numbers(
            "Rate", rates, hint=f"of {outcome} per unit of {printable(str(data.exposure_name))}"
        )
    else:
        yield numbers("Mean", means, hint=f"of {outcome}")
        deviations = sample_sd(
            np.array([data.y[rows].var() for rows in groups]) * data.counts, data.counts
        )
        yield numbers("SD", deviations, hint="standard deviation")


def sample_sd(squares: Floats, counts: Integers) -> Floats:
    """Return standard deviations (E,) of numbers with these sums of squares around their mean.

    It is 0 for one number.
    """
    return np.asarray(np.sqrt(squares / np.maximum(counts - 1, 1)))


def _decision_picture(decision: Decision, kind: str, caption: str) -> Picture:
    from ..decisions.plots import picture_size, plot

    return picture(partial(plot, decision, kind), picture_size(decision, kind), caption)


def feature_blocks(subject: Subject) -> Iterator[Block]:
    decision = subject.decision
    posterior = subject.posterior
    predictive = subject.decision.predictive
    several = posterior.n_environments > 1
    features = decision.features
    weighed = (
        "among compatible subsets, by how well these predict"
        if several
        else "by how well subsets predict"
    )
    source = weighed if decision.posterior is predictive else "as in the paper"
    source = source if several else "by the prior, as one environment cannot tell"
    caption = (
        f"How probable it is that each feature belongs to the subset, {source}; dashed at one half."
    )
    places = [posterior.feature_names.index(feature.name) for feature in features]
    compatible = (
        np.full(posterior.n_features, np.nan) if predictive is None else predictive.inclusion
    )
    change = "of the selection when this feature alone is left out of it, or added to it"
    columns = [
        texts("Feature", (feature.name for feature in features)),
        texts("Selected", ("● yes" if feature.selected else "no" for feature in features)),
        texts("Role", (subject.source.worded(role_in_words(feature)) for feature in features)),
        numbers("Inclusion", compatible[places], format_probability, f"probability {weighed}"),
        numbers(
            "Paper's inclusion",
            posterior.inclusion[places],
            format_probability,
            "by invariance alone",
        ),
        numbers(
            "Change of R²", (feature.r2_change for feature in features), "{:+z.3f}".format, change
        ),
    ]
    if several:
        hint = "the p-value of invariance of the selection after that change"
        columns.append(
            numbers(
                "p_inv then", (feature.p_invariant for feature in features), format_p_value, hint
            )
        )
    none = (
        f"No subset{decision.findings.allowed} is compatible with invariance: the inclusion is "
        "the paper's."
    )
    drawn = _decision_picture(decision, "inclusion", caption)
    points = [none] if predictive is None and several else []
    yield Block(picture=drawn, table=Table("Every feature", columns), points=points)


def coefficient_blocks(subject: Subject) -> Iterator[Block]:
    decision = subject.decision
    model = subject.decision.findings.target.model
    if not decision.selected:
        yield Block(sentences=["No feature is selected, so that there are no coefficients."])
        return
    found = decision.coefficients()
    link = link_of(subject.family)
    of = f"on the scale of the {link} link"
    if link in INVERSE_LINKS:
        scale = scale_of(decision)
        of = (
            "in units of the outcome"
            if scale == "difference"
            else f"logarithms of {scale.replace('ratio', 'ratios')}"
        )
    sentences = [
        f"Coefficients of the selected features, fitted without the others, are {of} per unit of "
        "a column."
    ]
    if model.makes_curves:
        sentences.append(
            "The columns of a curve act by their sum; intervals take its shape, from all rows, as "
            "given."
        )
    if getattr(subject.family, "deviations", "") == "random":
        sentences.append(SHRUNKEN)
    labels = texts("Environment", ["all together", *subject.posterior.environments])
    columns = [
        Column(printable(str(name)), tuple(effect_cell(row) for _, row in rows.iterrows()))
        for name, rows in found.groupby("column", sort=False)[
            ["estimate", "lower", "upper", "note"]
        ]
    ]
    intervals = bool(np.isfinite(found["lower"].astype(float)).any())
    caption = (
        f"Coefficients of the selected features{' with 95% intervals' if intervals else ''} "
        "by environment"
    )
    yield Block(sentences=sentences, table=Table(caption, [labels, *columns]))
    if decision.curves is not None:
        told = (
            "Coefficients along the variable, as a mixed model predicts them, with 95% bands, "
            "point by point."
        )
        yield Block(picture=_decision_picture(decision, "along", told))


def subset_blocks(subject: Subject) -> Iterator[Block]:
    """Yield the subsets by prediction, then by invariance alone."""
    decision = subject.decision
    posterior = subject.posterior
    predictive = subject.decision.predictive
    several = posterior.n_environments > 1
    caption = f"{'Compatible subsets' if several else 'Subsets'}, the best predictor first"
    title = "Compatible with invariance, by prediction" if several else "By prediction"
    if predictive is None:
        yield Block(
            title,
            sentences=[f"No subset{decision.findings.allowed} is compatible with invariance."],
        )
    else:
        drawn = f"{caption}: a dot for each feature in them. The selected one stands out."
        table = _subset_table(caption, predictive, decision.mask, str(decision.compatible))
        told = [reading(predictive)]
        if decision.is_compatible and several:
            told.append(subject.source.worded(or_why_not(subject.model.chance_selection)))
        yield Block(
            title,
            sentences=told,
            picture=_decision_picture(decision, "subsets", drawn),
            table=table,
        )
    full = posterior.judge is None or posterior.judge.model.level is Level.full
    title = "By invariance alone, as in the paper" if full else "By invariance of effects alone"
    if not several:
        yield Block(title, sentences=[reading(posterior)])
        return
    cost = (
        "How well subsets predict against how much their coefficients differ, with 90% "
        "intervals of two of them."
    )
    told = [reading(posterior, decision.causes), papers_view(decision.findings.target.model)]
    table = _subset_table(
        "Most probable invariant subsets",
        posterior,
        decision.mask,
        format_count(posterior.n_subsets),
    )
    yield Block(
        title, sentences=told, picture=_decision_picture(decision, "frontier", cost), table=table
    )


def _subset_table(caption: str, posterior: Posterior, selected: Mask, n_found: str) -> Table:
    """n_found : how many subsets there are, in words"""
    masks = posterior.masks[:MOST_LISTED]
    n = len(masks)
    evidence = posterior.leading_evidence(n)
    names = [f"{{{', '.join(map(printable, posterior.names_of(mask)))}}}" for mask in masks]
    subsets = tuple(
        Cell(name, strong=(mask == selected).all()) for name, mask in zip(names, masks, strict=True)
    )
    within = posterior.judge is not None and posterior.judge.model.level is not Level.full
    variance = f"the outcome's variance{' within environments' if within else ''}"
    explained = f"share of {variance} that the fit to all rows explains, by its likelihood"
    columns = [
        Column("Subset", subsets, number=False),
        counts("Features", masks.sum(axis=1).tolist()),
        numbers("Probability", np.exp(posterior.log_probabilities[:n]), format_probability),
        numbers("R²", evidence.r2, format_share, explained),
    ]
    what = "coefficients" if within else "coefficients and baselines"
    differing = f"share of {what} by which environments differ, with a 90% interval"
    if posterior.n_environments > 1:
        invariance = "p-value of invariance, by the test that the methods state"
        columns += [
            numbers("log Λ", posterior.log_ratios[:n], hint="how invariant it is: see the methods"),
            numbers("p_inv", evidence.p_invariant, format_p_value, invariance),
            numbers(
                "exact p",
                evidence.p_exact,
                format_small_p_value,
                "the same where nothing is tolerated",
            ),
            texts("Differ by", (format_difference(evidence.one(row)) for row in range(n)))._replace(
                hint=differing
            ),
        ]
        if np.isfinite(evidence.r2_new).any():
            unseen = "in environments that the fit has not seen, where that is known"
            unseen += ", around their own baselines" if within else ""
            columns.append(numbers("R² elsewhere", evidence.r2_new, format_share, unseen))
    return Table(
        caption, columns, f"The selected subset is set in bold. Shown: {n:,} of {n_found}."
    )


def environment_blocks(subject: Subject) -> Iterator[Block]:
    decision = subject.decision
    if isinstance(subject.diagnosis, str):
        yield Block(sentences=[subject.diagnosis])
    else:
        opening, *others = subject.diagnosis.sections
        caption = (
            "How much each environment differs from all others, given the selected features; "
            "diamonds, all parts "
            "together, beyond the dashed line raise an alarm."
        )
        drawn = _decision_picture(decision, "environments", caption)
        yield Block(sentences=list(map(subject.source.worded, opening.sentences)), picture=drawn)
        for section in others:
            yield _as_block(section, subject)
    if decision.noise is not None and decision.noise.shape is not None:
        shape = decision.noise.shape
        told = (
            "The residuals of each environment's own fit have an excess kurtosis of "
            f"{shape.excess_kurtosis:.2f}"
        )
        even = (
            "; their spread depends on the selected features: p-value "
            f"{format_p_value(shape.p_even)}"
        )
        yield Block(
            "Noise", sentences=[f"{told} (normal noise: 0){even if decision.selected else ''}."]
        )


def prediction_blocks(subject: Subject) -> Iterator[Block]:
    """Yield the cost of invariance in each environment, and calibration."""
    decision = subject.decision
    predictions = subject.decision.predictions
    unused = [
        name
        for name in subject.data.features.columns
        if name not in subject.model.predictor_.design.columns
    ]
    if unused and predictions.resolved(decision.predict_with) == "everything":
        why = (
            "constant in every environment, which are too few to tell what it does, or a "
            "combination of others"
        )
        yield Block(
            sentences=[f"Of all features, what predicts leaves out {format_subset(unused)}: {why}."]
        )
    price = decision.cost
    if price is not None and len(price.environments):
        errors = {
            "Selected without it": price.selected,
            "All features": price.everything,
            "Constant": price.constant,
        }
        columns = [numbers(title, values) for title, values in errors.items()]
        caption = (
            f"{price.measure[:1].upper()}{price.measure[1:]} in each environment, left out "
            "with the selection"
        )
        table = Table(
            f"{caption} repeated",
            [texts("Environment", price.environments), *columns],
            "Less is better.",
        )
        yield Block("What invariance costs", table=table)
    if subject.posterior.n_environments > 1:
        caption = (
            "Observed means of rows with similar predictions, with 95% intervals, in each "
            "environment left out; on the "
            "dashed line predictions are right."
        )
        yield Block("Calibration", picture=_decision_picture(decision, "calibration", caption))


def _as_block(section: results.Section, subject: Subject, heading: bool = True) -> Block:
    """Return a section of a result as a block of the page."""
    title = section.title
    said = map(subject.source.worded, section.sentences)
    sentences = [text[:1].upper() + text[1:] for text in said]
    # Where Λ is a Bayes factor by the methods of the page, T is none of it.
    if title == T_BY_ENVIRONMENT and isinstance(subject.family, BayesianLinearGaussian):
        title = "T by environment"
        sentences = [
            "T is of a ratio of maximised likelihoods, not of the Bayes factor Λ.",
            *sentences,
        ]
    columns = []
    for j, (head, *cells) in enumerate(zip(*section.table, strict=True)):
        number = j not in section.text_columns
        columns.append(
            Column(
                head,
                tuple(Cell(text, _sort_key(text) if number else None) for text in cells),
                number,
            )
        )
    table = Table(title, columns) if columns else None
    points = [subject.source.worded(note).removeprefix("- ") for note in section.notes]
    shown = title if heading or (table is None and section.facts) else ""
    if not shown and table is None:
        sentences = [f"{title}.", *sentences]
    return Block(shown, sentences=sentences, facts=section.facts, table=table, points=points)


def _sort_key(text: str) -> float | None:
    with suppress(ValueError):
        return float(text.removeprefix("<").replace(",", ""))
    return None


class Part(NamedTuple):
    """anchor : its address in the page; folded : whether it belongs to the appendix"""

    anchor: str
    title: str
    blocks: Callable[[Subject], Iterable[Block]]
    folded: bool = True


PARTS = (
    Part("answer", "The answer", answer_blocks, folded=False),
    Part("left-out", "Environments left out", left_out_blocks, folded=False),
    Part("methods", "Methods, a paragraph to paste", methods_blocks),
    Part("data", "The data", data_blocks),
    Part("features", "Feature by feature", feature_blocks),
    Part("subsets", "Subsets", subset_blocks),
    Part("coefficients", "Coefficients by environment", coefficient_blocks),
    Part("environments", "Which environment deviates, and in what", environment_blocks),
    Part("predictions", "Predictions in environments left out", prediction_blocks),
    Part("reproduction", "Versions, and lines to make it again", reproduction_blocks),
)


def write_report(subject: Subject, path: Path, progress: ProgressMode = False) -> Path:
    """Write the report; sections without content are omitted."""
    outcome = printable(subject.data.outcome_name)
    posterior = subject.posterior
    title = f"What predicts {outcome} alike in every environment?"
    n = posterior.n_environments
    column = getattr(subject.data, "environment_name", None)
    by = "" if column is None else f" by {printable(column)}"
    lead = f"{int(posterior.counts.sum()):,} rows, {n:,} environment{'' if n == 1 else 's'}{by}"
    told = _outcome(subject)
    lead += f"; {told}" if told != outcome else ""  # the title names it already
    sections = []
    with ProgressBar("report", len(PARTS), progress) as bar:
        for part in PARTS:
            blocks = list(part.blocks(subject))
            sections += [(part.anchor, part.title, blocks, part.folded)] if blocks else []
            bar.advance()
    return write_page(title, lead, sections, path)
