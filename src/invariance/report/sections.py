"""All sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._tools.arrays import Mask
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import format_subset, printable, shorten
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import in_words
from ..decisions.decision import UNCHALLENGED, Decision, role_in_words
from ..decisions.diagnosis import T_BY_ENVIRONMENT, Diagnosis
from ..exceptions import SettingError
from ..models.additive import AdditiveModel
from ..models.base import VARIANCE, Predicts, predicts_of
from ..models.bayesian import BayesianLinearGaussian
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..posterior.summary import (
    CAUSES,
    format_count,
    format_p_value,
    format_probability,
    format_share,
    model_in_words,
    reading,
)
from .methods import method_parts
from .page import (
    Callout,
    Cell,
    Column,
    Facts,
    Heading,
    Part,
    Section,
    Table,
    count,
    formatted,
    name,
    numbers,
    p_value,
    probability,
    prose,
    row_of_numbers,
    sample_sd,
    share,
    table,
    without_rounding,
    write_page,
)
from .pictures import decision_picture, environments_picture, residual_parts
from .subject import Subject

_LABELS = {"selected": "Selected", "compatible": "Compatible subsets", "mode": "Most probable subset", "rule": "Rule"}
_CAVEATS = ("caution", "noise", "limit")
_UNCHALLENGED_ALL = (
    "Never challenged: no environment shifts any of them, given the others selected. The data could not have shown "
    "one of them to be a decoy."
)


def answer_parts(subject: Subject) -> Iterator[Part]:
    decision, worded = subject.decision, subject.source.worded
    tone, label = state(decision)
    yield Callout(tone, label, worded(decision.verdict))
    said = [(name, worded(text)) for name, text in decision.sections[0].facts]
    yield Facts(tuple((_LABELS[name], text) for name, text in said if name in _LABELS))
    yield Heading("How sure this is")
    yield from prose(_readings(subject))
    yield Heading("Caveats")
    yield from prose([*(_sentence(text) for name, text in said if name in _CAVEATS), *_caveats(decision)], points=True)


def state(decision: Decision) -> tuple[str, str]:
    """The tone of the verdict, and the same in words."""
    if decision.findings.posterior.n_environments == 1:
        return "open", "Cannot be told: one environment cannot show invariance"
    if not decision.judged:
        return "open", "Cannot be told: the rows cannot judge the selected features"
    if decision.is_compatible:
        return "good", "Compatible with invariance"
    return ("open", "Open") if decision.invariant else ("bad", "Not compatible with invariance")


def _readings(subject: Subject) -> Iterator[str]:
    if subject.predictive is not None:
        among = ", among compatible subsets" if subject.posterior.n_environments > 1 else ""
        yield f"By prediction{among}. {reading(subject.predictive)}"
    yield f"By invariance alone, as in the paper. {reading(subject.posterior)}"
    yield _why_they_differ(subject)


def _why_they_differ(subject: Subject) -> str:
    """Where the paper's posterior calls nothing invariant and the selection is compatible with invariance."""
    decision = subject.decision
    if subject.posterior.verdict is None or not decision.is_compatible:
        return ""
    judged_by = decision.findings.judge.model.judged_by(decision.accepted)
    normal = ", and takes the noise as normal" if VARIANCE in decision.findings.target.model.compares else ""
    return (
        f"The two differ because they ask differently: subsets are compatible by a test of {judged_by}, and the "
        f"paper's posterior weighs a likelihood ratio that tolerates no difference{normal}."
    )


def _caveats(decision: Decision) -> Iterator[str]:
    unmoved = [feature.name for feature in decision.features if feature.never_challenged]
    if unmoved:
        said = UNCHALLENGED if len(unmoved) == 1 else _UNCHALLENGED_ALL
        yield f"{format_subset(unmoved)}: {said[0].lower()}{said[1:]}"
    if decision.findings.posterior.n_environments > 1:
        yield (
            "Compatible means that the data do not speak against invariance, by the test that the methods below state: "
            "no proof. With few rows, or environments that hardly differ, much is compatible."
        )
        if not decision.compatible.n and CAUSES not in reading(decision.findings.posterior):
            yield CAUSES
        yield "Only the environments at hand were compared: a new one may differ in ways that none of them does."
    yield (
        f"That features predict {printable(decision.findings.posterior.outcome_name)} alike everywhere does not by "
        "itself make them causes: a cause that was not measured, or environments that act on the outcome itself, can "
        "mislead."
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


_SD = Column("SD", hint="standard deviation")
_WITHOUT_ROWS = (
    "Second moments alone were fitted. The rows would add residuals, checks of the noise's shape, fits that moments "
    "cannot decide, and models for classes, counts, times and curves."
)


def glance_parts(subject: Subject) -> Iterator[Part]:
    posterior, data = subject.posterior, subject.data
    outcome, n = printable(posterior.outcome_name), posterior.n_environments
    where = f"in the same way in {'every one of ' if n > 1 else ''}{n:,} environment{'' if n == 1 else 's'}"
    asked = f"Which of {posterior.n_features:,} features predict {outcome}"
    if posterior.n_features == 1:
        asked = f"Does {printable(posterior.feature_names[0])} predict {outcome}"
    yield from prose([f"{asked} {where}, and how sure is that?"])
    yield Facts(tuple(_facts(subject)))
    yield _environments(subject)
    if isinstance(data, Moments) and (data.second is None or data.second.fourths is None):
        yield from prose([_WITHOUT_ROWS])
    yield from prose(map(subject.source.worded, posterior.notes), points=True)


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    posterior, data = subject.posterior, subject.data
    column = getattr(data, "environment_name", None)
    yield "Outcome", _outcome(subject)
    yield "Rows", f"{int(posterior.counts.sum()):,}"
    yield "Left out", _left_out(data)
    yield "Features", _features(data)
    yield "Environments", f"{posterior.n_environments:,}{'' if column is None else f', by {printable(column)}'}"
    yield "Model of the outcome", subject.source.worded(model_in_words(posterior))
    yield "Subsets", f"{format_count(posterior.n_subsets)}, by the prior and the number of rows"


def _outcome(subject: Subject) -> str:
    data, told = subject.data, printable(subject.posterior.outcome_name)
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
    told = f"{rows:,} row{'' if rows == 1 else 's'} with missing values" if rows else "no row"
    return f"{told} and {columns:,} constant column{'' if columns == 1 else 's'}" if columns else told


def _features(data: MultiEnvironmentData | Moments) -> str:
    features = data.features
    several = [printable(group) for group, held in zip(features.names, features.widths, strict=True) if held > 1]
    if not several:
        return f"{len(features.names):,}"
    more = f", … +{len(several) - 6:,}" if len(several) > 6 else ""
    columns = f"{len(several):,} of them of several columns ({features.n_columns:,} in all)"
    return f"{len(features.names):,}, {columns}: {', '.join(several[:6])}{more}"


def _environments(subject: Subject) -> Table:
    posterior, dropped = subject.posterior, subject.data.dropped_rows
    columns: dict[Column, Iterable[Cell]] = {
        Column("Environment", number=False): map(name, posterior.environments),
        Column("Rows"): map(count, posterior.counts.tolist()),
    }
    if any(dropped.get(label) for label in posterior.environments):
        columns[Column("Left out")] = [count(dropped.get(label, 0)) for label in posterior.environments]
    columns |= dict(_outcome_columns(subject))
    return table("Environments", columns, zip(*columns.values(), strict=True))


def _outcome_columns(subject: Subject) -> Iterator[tuple[Column, list[Cell]]]:
    """What the outcome is like in each environment."""
    data, outcome = subject.data, printable(subject.posterior.outcome_name)
    if isinstance(data, Moments):
        yield Column("Mean", hint=f"of {outcome}"), numbers(data.means[:, data.outcome])
        if data.scatter.size:
            yield _SD, numbers(sample_sd(data.scatter[:-1, data.outcome, data.outcome], data.counts))
        return
    groups = [data.rows(e) for e in range(data.n_environments)]
    scale = float(np.abs(data.y).max())
    means = numbers([without_rounding(float(data.y[rows].mean()), scale) for rows in groups])
    if predicts_of(subject.family) is Predicts.probability:
        yield Column("Share of 1", hint=f"of rows in which {outcome} counts 1"), means
    elif data.event is not None:
        yield Column("Events"), [count(int(data.event[rows].sum())) for rows in groups]
        yield Column("Mean time", hint="until the event, or until it was censored"), means
    elif data.exposure is not None and data.exposure_name is not None:
        rates = [data.y[rows].sum() / data.exposure[rows].sum() for rows in groups]
        yield Column("Rate", hint=f"of {outcome} per unit of {printable(data.exposure_name)}"), numbers(rates)
    else:
        yield Column("Mean", hint=f"of {outcome}"), means
        yield _SD, numbers(sample_sd(np.array([data.y[rows].var() for rows in groups]) * data.counts, data.counts))


def feature_parts(subject: Subject) -> Iterator[Part]:
    decision, posterior, predictive = subject.decision, subject.posterior, subject.predictive
    several = posterior.n_environments > 1
    order = np.argsort(-posterior.inclusion, kind="stable")[:_MOST_NAMED]
    leading = ", ".join(f"{posterior.feature_names[j]} {format_probability(posterior.inclusion[j])}" for j in order)
    source = "as in the paper" if several else "by the prior, as one environment cannot tell"
    yield decision_picture(
        decision,
        "inclusion",
        f"Bars of inclusion probabilities, the largest first: {leading}.",
        f"How probable it is that each feature belongs to the invariant subset, {source}; dashed at one half.",
    )
    features = decision.features
    places = [posterior.feature_names.index(feature.name) for feature in features]
    compatible = np.full(posterior.n_features, np.nan) if predictive is None else predictive.inclusion
    weighed = "among compatible subsets, by how well these predict" if several else "by how well subsets predict"
    coefficients = _coefficients(subject)
    yes, no = Cell("● yes", 0, "strong"), Cell("no", 1)
    columns: dict[Column, Iterable[Cell]] = {
        Column("Feature", number=False): (name(feature.name) for feature in features),
        Column("Selected", number=False): (yes if feature.selected else no for feature in features),
        Column("Role", number=False): (Cell(subject.source.worded(role_in_words(each))) for each in features),
        Column("Predictive inclusion", hint=f"probability {weighed}"): map(probability, compatible[places]),
        Column("Inclusion", hint="posterior probability of being in the invariant subset, as in the paper"): map(
            probability, posterior.inclusion[places]
        ),
        Column("Change of R²", hint="of the selection when this feature alone is left out of it, or added to it"): (
            formatted(feature.r2_change, lambda known: f"{known:+z.3f}") for feature in features
        ),
    }
    if several:
        hint = "the p-value of invariance of the selection after that change"
        columns[Column("p_inv then", hint=hint)] = (p_value(feature.p_invariant) for feature in features)
    hint = "of the selected features in the fit to all rows; a feature of several columns has several"
    columns[Column("Coefficient", hint=hint)] = (coefficients.get(feature.name, Cell("–")) for feature in features)
    yield table("Every feature", columns, zip(*columns.values(), strict=True))
    if predictive is None and several:
        none = f"No subset{decision.findings.allowed} is compatible with invariance"
        yield from prose([f"{none}, so that there is no predictive inclusion."])


def _coefficients(subject: Subject) -> dict[str, Cell]:
    """Of the pooled fit, by selected feature."""
    decision = subject.decision
    features = subject.data.features.chosen(decision.mask)
    values = decision.findings.target.model.fit(decision.mask, local=False).coefficients
    return {
        feature: numbers([values[start]])[0] if width == 1 else Cell(f"{width} columns")
        for feature, start, width in zip(features.names, features.starts, features.widths, strict=False)
    }


_COVERAGE = 0.95
_LONGEST_NOTE = 60
_MOST_NAMED = 5
_SCALES = {
    Predicts.number: "Coefficients are in units of the outcome per unit of a column.",
    Predicts.probability: "Coefficients are log odds per unit of a column.",
    Predicts.rate: "Coefficients are logarithms of ratios of rates, per unit of a column.",
    Predicts.time: "Coefficients are logarithms of hazard ratios, per unit of a column.",
}
_NOTED = "Where the rows of an environment do not tell a coefficient, the table says why."


def coefficient_parts(subject: Subject) -> Iterator[Part]:
    decision = subject.decision
    if not decision.selected:
        yield from prose(["No feature is selected, so that there are no coefficients."])
        return
    found = decision.coefficients(_COVERAGE)
    columns = list(dict.fromkeys(found["column"]))
    intervals, noted = bool(np.isfinite(found["lower"].astype(float)).any()), bool((found["note"] != "").any())
    yield from prose([_SCALES[predicts_of(subject.family)], *_coefficient_remarks(subject, intervals, noted)])
    against = "the line is that of all rows together"
    if subject.posterior.n_environments == 1:
        against = "one environment has nothing to compare with"
    elif intervals:
        against = "intervals far from the band speak against it"
    yield decision_picture(
        decision,
        "coefficients",
        "Coefficients of the selected features in each environment, beside those of all rows together; the table below "
        "has the same numbers.",
        f"Invariance asks for the same coefficient everywhere: {against}.",
    )
    told = zip(found["estimate"], found["lower"], found["upper"], found["note"], strict=True)
    cells = [_coefficient_cell(row_of_numbers(row), shorten(note, _LONGEST_NOTE)) for *row, note in told]
    width = len(columns)
    labels = ["all together", *subject.posterior.environments]
    yield table(
        f"Coefficients{f' with {100 * _COVERAGE:g}% intervals' if intervals else ''} by environment",
        [Column("Environment", number=False), *(Column(printable(column)) for column in columns)],
        ([name(label), *cells[e * width : (e + 1) * width]] for e, label in enumerate(labels)),
    )


def _coefficient_remarks(subject: Subject, intervals: bool, noted: bool) -> Iterator[str]:
    model = subject.decision.findings.target.model
    if model.makes_curves:
        yield "The columns of a curve have no meaning one by one: it is their sum that acts."
    if intervals and isinstance(model, AdditiveModel):
        yield "Intervals in environments take the shapes of the curves, which are fitted to all rows, as given."
    if not intervals:
        yield "This model gives no intervals for them."
    if noted:
        yield _NOTED


def _coefficient_cell(numbers: list[Cell], note: str) -> Cell:
    """numbers : the estimate, the lower end and the upper"""
    middle, low, high = numbers
    if middle.value is None:
        return Cell(note or middle.text)
    interval = "" if low.value is None else f" ({low.text} to {high.text})"
    return Cell(f"{middle.text}{interval}{note and f', {note}'}", middle.value)


_TOP = 15
_EVIDENCE = (
    Column("log Λ", hint="how invariant it is: see the methods below"),
    Column("p_inv", hint="p-value of invariance, by the test that the methods below state"),
    Column("R² elsewhere", hint="in environments that the fit has not seen, where that is known"),
)


def subset_parts(subject: Subject) -> Iterator[Part]:
    decision, predictive, several = subject.decision, subject.predictive, subject.posterior.n_environments > 1
    which = "Compatible subsets" if several else "Subsets"
    yield Heading("Compatible with invariance, by prediction" if several else "By prediction")
    if predictive is None:
        yield from prose([f"No subset{decision.findings.allowed} is compatible with invariance."])
    else:
        first = format_subset(subject.posterior.names_of(decision.compatible.masks[0]))
        yield decision_picture(
            decision,
            "subsets",
            f"{which}, the best predictor first, which is {first}; the table below has the same.",
            f"{which}, the best predictor first: a dot for each feature in them. The selected one stands out.",
        )
        yield _subset_table(f"{which}, the best predictor first", predictive, subject, str(decision.compatible))
    if several:
        at = f"R² {format_share(decision.evidence.r2)} and p-value {format_p_value(decision.evidence.p_invariant)}"
        yield decision_picture(
            decision,
            "frontier",
            f"R² against the p-value of invariance of the subsets; the selected one is at {at}.",
            "What invariance costs: how well subsets predict against how much the data speak against their invariance.",
        )
    yield Heading("By invariance alone")
    if not several:
        yield from prose(["One environment says nothing about invariance: the paper's posterior is the prior."])
        return
    yield from prose(["The paper's posterior weighs subsets by their invariance and the prior, not by prediction."])
    n = format_count(subject.posterior.n_subsets)
    yield _subset_table("Most probable invariant subsets", subject.posterior, subject, n)


def _subset_table(caption: str, posterior: Posterior, subject: Subject, counted: str) -> Table:
    masks = posterior.masks[:_TOP]
    evidence, sizes = posterior.leading_evidence(len(masks)), masks.sum(axis=1)
    columns = {
        Column("Subset", number=False): [_members(subject, posterior, mask) for mask in masks],
        Column("Features"): map(count, sizes.tolist()),
        Column("Probability"): map(probability, np.exp(posterior.log_probabilities)),
        Column("R²", hint="share of the outcome's variance that the fit to all rows explains, by its likelihood"): map(
            share, evidence.r2
        ),
    }
    if posterior.n_environments > 1:
        found = numbers(posterior.log_ratios[:_TOP]), map(p_value, evidence.p_invariant), map(share, evidence.r2_new)
        kept = len(_EVIDENCE) if np.isfinite(evidence.r2_new).any() else len(_EVIDENCE) - 1
        columns |= dict(zip(_EVIDENCE[:kept], found, strict=False))
    rows = zip(*columns.values(), strict=False)
    return table(caption, columns, rows, f"The selected subset is set in bold. {_shown(len(masks), counted)}")


def _shown(n: int, counted: str) -> str:
    if counted == f"{n:,}":
        return "All are shown."
    if counted == f"at least {n:,}":
        return "All that were found are shown; there may be others."
    return f"Shown {'is' if n == 1 else 'are'} {n:,} of {counted}."


def _members(subject: Subject, posterior: Posterior, mask: Mask) -> Cell:
    held = [printable(posterior.feature_names[j]) for j in np.flatnonzero(mask)]
    return Cell("{" + ", ".join(held) + "}", mark="strong" if (mask == subject.decision.mask).all() else "")


_T_OF_LIKELIHOODS = "T is −2 times the logarithm of a ratio of maximised likelihoods, not of the Bayes factor Λ."


def environment_parts(subject: Subject) -> Iterator[Part]:
    diagnosis = subject.diagnosis
    if isinstance(diagnosis, str):
        yield from prose([diagnosis])
    else:
        yield from _diagnosed(subject, diagnosis)
    yield from residual_parts(subject)


def _diagnosed(subject: Subject, diagnosis: Diagnosis) -> Iterator[Part]:
    worded = subject.source.worded
    opening, *others = diagnosis.sections
    yield from prose(map(worded, opening.sentences))
    yield environments_picture(diagnosis)
    for section in others:
        sentences, title = section.sentences, section.title
        # Where Λ is a Bayes factor by the methods of the page, T is none of it.
        if title == T_BY_ENVIRONMENT and isinstance(subject.chosen_family, BayesianLinearGaussian):
            sentences, title = (_T_OF_LIKELIHOODS, *sentences), "T by environment"
        yield Heading(title)
        yield from prose(_sentence(worded(said)) for said in sentences)
        if section.table:
            head, *rows = section.table
            columns = [Column(text, j not in section.text_columns) for j, text in enumerate(head)]
            cells = ([_written(*each) for each in zip(row, columns, strict=True)] for row in rows)
            yield table(title, columns, cells, titled=True)


def _written(text: str, column: Column) -> Cell:
    """Figures are sorted as such, though they are text already."""
    known = column.number and text != "–"
    return Cell(text, float(text.removeprefix("<").replace(",", "")) if known else None)


_MARKS = {"selected": "● selected", "not selected": "·", "screened out": "– screened out", "rejected": "× rejected"}
_OUTCOMES = {"empty": "nothing selected", "rejected": "model rejected", "failed": "failed"}


def check_comparison(comparison: Any, outcome: str, features: tuple[str, ...]) -> None:
    """Raise where it is none, or one of other data."""
    if not all(hasattr(comparison, wanted) for wanted in ("methods", "feature_names", "outcome_name")):
        raise SettingError(
            f"comparison={comparison!r} is no comparison: pass what compare(data, 'BIP,ICP') returns, or None."
        )
    other = {comparison.outcome_name, *comparison.feature_names} ^ {outcome, *features}
    if other or comparison.outcome_name != outcome:
        named = min(other, default=comparison.outcome_name)
        raise SettingError(
            f"the comparison and the model are of other columns, {named!r} for example: compare methods on the data "
            "that were fitted."
        )


def comparison_parts(subject: Subject) -> Iterator[Part]:
    if subject.comparison is None:
        return
    methods, selected = subject.comparison.methods, subject.decision.selected
    yield from prose(
        [
            "Each method answers in its own way: one that asks what predicts on all rows together does not ask what is "
            "invariant."
        ]
    )
    columns: dict[Column, Iterable[Cell]] = {
        Column("Method", number=False): (name(m.name) for m in methods),
        Column("Answer", number=False): (Cell(_OUTCOMES.get(m.outcome, "selected")) for m in methods),
        Column("Asks for", number=False): (
            Cell("prediction on all rows together" if m.pooled else "invariance") for m in methods
        ),
        Column("Remarks", number=False): (Cell(_remarks(m, subject.comparison.outcome_name)) for m in methods),
        Column("Features"): (
            Cell("–") if m.outcome in ("failed", "rejected") else count(int(np.sum(m.selected))) for m in methods
        ),
    }
    yield table("What each method selected", columns, zip(*columns.values(), strict=True))
    features = subject.comparison.feature_names
    columns = {
        Column("Feature", number=False): map(name, features),
        Column("This fit", number=False): (_mark("selected" if f in selected else "not selected") for f in features),
    }
    for m in methods:
        if m.outcome != "failed":
            hint, values = ("", [np.nan] * len(features)) if m.evidence is None else m.evidence
            column = Column(printable(m.name), number=False, hint=hint and f"with its {hint}")
            columns[column] = (_mark(*each) for each in zip(m.status, values, strict=True))
    if len(columns) > 2:
        yield table("Features by method", columns, zip(*columns.values(), strict=True))


def _remarks(method: Any, outcome: str) -> str:
    as_number = f"Fits {outcome} as a number, by least squares." if method.as_number else ""
    return " ".join(printable(text) for text in (method.verdict, as_number, *method.notes) if text)


def _mark(status: str, evidence: float = np.nan) -> Cell:
    number = "" if np.isnan(evidence) else f" ({format_probability(evidence)})"
    return Cell(_MARKS[status] + number, list(_MARKS).index(status), "strong" if status == "selected" else "")


Parts = Callable[[Subject], Iterable[Part]]
# (anchor, title, parts) in the order of the page
SECTIONS: tuple[tuple[str, str, Parts], ...] = (
    ("answer", "The answer", answer_parts),
    ("data", "The question and the data", glance_parts),
    ("features", "Feature by feature", feature_parts),
    ("subsets", "Subsets", subset_parts),
    ("coefficients", "Coefficients by environment", coefficient_parts),
    ("environments", "Residuals and environments", environment_parts),
    ("comparison", "Other methods", comparison_parts),
    ("methods", "How it was made", method_parts),
)


def write_report(subject: Subject, path: Path, progress: ProgressMode = False) -> Path:
    """Sections that have nothing to say are left out."""
    title = f"What predicts {printable(subject.posterior.outcome_name)} alike in every environment?"
    lead = f"{format_subset(subject.decision.selected, 100)}: {state(subject.decision)[1]}"
    written = []
    with ProgressBar("report", len(SECTIONS), progress, meanwhile="drawing pictures") as bar:
        for anchor, heading, parts in SECTIONS:
            written.append(Section(anchor, heading, tuple(parts(subject))))
            bar.advance()
    return write_page(title, lead, [section for section in written if section.parts], path)
