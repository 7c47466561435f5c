"""All sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Section as Told
from .._tools.text import format_subset, printable, shorten
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import in_words
from ..decisions.decision import UNCHALLENGED, Decision, counted, described
from ..decisions.diagnosis import T_BY_ENVIRONMENT, Diagnosis
from ..exceptions import SettingError
from ..models.additive import AdditiveModel
from ..models.base import VARIANCE, Predicts, predicts_of
from ..models.bayesian import BayesianLinearGaussian
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..posterior.summary import CAUSES, format_count, format_probability, model_in_words, reading
from .methods import method_parts
from .page import (
    Callout,
    Cell,
    Column,
    Contents,
    Facts,
    Heading,
    Part,
    Section,
    Table,
    change,
    name,
    number,
    numbers,
    p_value,
    probability,
    prose,
    rows_of_numbers,
    sample_sd,
    share,
    table,
    without_rounding,
)
from .pictures import (
    coefficients_picture,
    environments_picture,
    frontier_picture,
    inclusion_picture,
    residual_parts,
    subsets_picture,
)
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
    yield "Outcome", _outcome(subject)
    yield "Rows", f"{int(posterior.counts.sum()):,}"
    yield "Left out", _left_out(data)
    yield "Features", _features(data)
    yield "Environments", _environment_names(subject)
    yield "Model of the outcome", subject.source.worded(model_in_words(posterior))
    yield "Subsets", f"{format_count(posterior.n_subsets)}, by the prior and the number of rows"


def _outcome(subject: Subject) -> str:
    data, told = subject.data, printable(subject.posterior.outcome_name)
    if isinstance(data, MultiEnvironmentData):
        if data.event_name is not None and data.event is not None:
            told += f", a time; {int(data.event.sum()):,} of {data.n_rows:,} ended with {printable(data.event_name)}"
        if data.exposure_name is not None:
            told += f", per unit of {printable(data.exposure_name)}"
        if data.classes is not None:
            told += f": {_class(data, 0)} counts 0 and {_class(data, 1)} counts 1"
    return told


def _class(data: MultiEnvironmentData, which: int) -> str:
    assert data.classes is not None
    return printable(in_words(data.classes[which]))


def _left_out(data: MultiEnvironmentData | Moments) -> str:
    rows = sum(data.dropped_rows.values())
    columns = len(data.constants)
    told = [f"{rows:,} row{'' if rows == 1 else 's'} with missing values" if rows else "no row"]
    if columns:
        told.append(f"{columns:,} constant column{'' if columns == 1 else 's'}")
    return " and ".join(told)


def _features(data: MultiEnvironmentData | Moments) -> str:
    features = data.features
    several = [group for group, held in zip(features.names, features.widths, strict=True) if held > 1]
    told = f"{len(features.names):,}"
    if several:
        told += f", {len(several):,} of them of several columns ({features.n_columns:,} in all): "
        told += ", ".join(map(printable, several[:6])) + (f", … +{len(several) - 6:,}" if len(several) > 6 else "")
    return told


def _environment_names(subject: Subject) -> str:
    n = subject.posterior.n_environments
    column = getattr(subject.data, "environment_name", None)
    return f"{n:,}" if column is None else f"{n:,}, by {printable(column)}"


def _environments(subject: Subject) -> Table:
    posterior, data = subject.posterior, subject.data
    dropped = [data.dropped_rows.get(label, 0) for label in posterior.environments]
    columns = [Column("Environment", number=False), Column("Rows")]
    each = [[name(label), Cell(f"{n:,}", n)] for label, n in zip(posterior.environments, posterior.counts, strict=True)]
    if any(dropped):
        columns.append(Column("Left out"))
        for row, n in zip(each, dropped, strict=True):
            row.append(Cell(f"{n:,}", n))
    for column, cells in _outcome_columns(subject):
        columns.append(column)
        for row, cell in zip(each, cells, strict=True):
            row.append(cell)
    return table("Environments", columns, each)


def _outcome_columns(subject: Subject) -> Iterator[tuple[Column, list[Cell]]]:
    """What the outcome is like in each environment."""
    data, outcome = subject.data, printable(subject.posterior.outcome_name)
    if isinstance(data, Moments):
        means = data.means[:, data.outcome]
        yield Column("Mean", hint=f"of {outcome}"), numbers(means)
        if data.scatter.size:
            yield _SD, numbers(sample_sd(data.scatter[:-1, data.outcome, data.outcome], data.counts))
        return
    groups = [data.rows(e) for e in range(data.n_environments)]
    scale = float(np.abs(data.y).max())
    means = np.array([without_rounding(float(data.y[rows].mean()), scale) for rows in groups])
    if predicts_of(subject.family) is Predicts.probability:
        yield Column("Share of 1", hint=f"of rows in which {outcome} counts 1"), numbers(means)
    elif data.event is not None:
        events = [int(data.event[rows].sum()) for rows in groups]
        yield Column("Events"), [Cell(f"{n:,}", n) for n in events]
        yield Column("Mean time", hint="until the event, or until it was censored"), numbers(means)
    elif data.exposure is not None and data.exposure_name is not None:
        rates = [data.y[rows].sum() / data.exposure[rows].sum() for rows in groups]
        yield Column("Rate", hint=f"of {outcome} per unit of {printable(data.exposure_name)}"), numbers(rates)
    else:
        yield Column("Mean", hint=f"of {outcome}"), numbers(means)
        yield _SD, numbers(sample_sd(np.array([data.y[rows].var() for rows in groups]) * data.counts, data.counts))


_P_INVARIANT = Column("p_inv then", hint="the p-value of invariance of the selection after that change")
_PREDICTIVE = Column("Predictive inclusion", hint="probability among compatible subsets, by how well these predict")
_PREDICTIVE_OF_ONE = Column("Predictive inclusion", hint="probability by how well subsets predict")
_COLUMNS = (
    Column("Feature", number=False),
    Column("Selected", number=False),
    Column("Role", number=False),
    _PREDICTIVE,
    Column("Inclusion", hint="posterior probability of being in the invariant subset, as in the paper"),
    Column("Change of R²", hint="of the selection when this feature alone is left out of it, or added to it"),
    _P_INVARIANT,
    Column(
        "Coefficient", hint="of the selected features in the fit to all rows; a feature of several columns has several"
    ),
)


def feature_parts(subject: Subject) -> Iterator[Part]:
    decision, posterior, predictive = subject.decision, subject.posterior, subject.predictive
    place = {feature: j for j, feature in enumerate(posterior.feature_names)}
    unknown = np.full(posterior.n_features, np.nan)
    compatible = unknown if predictive is None else predictive.inclusion
    coefficients = _coefficients(subject)
    rows = (
        (
            name(feature.name),
            Cell("● yes", 0, "strong") if feature.selected else Cell("no", 1),
            Cell(subject.source.worded(described(decision, feature))),
            probability(compatible[place[feature.name]]),
            probability(posterior.inclusion[place[feature.name]]),
            change(feature.r2_change),
            p_value(feature.p_invariant),
            coefficients.get(feature.name, Cell("–")),
        )
        for feature in decision.features
    )
    yield inclusion_picture(decision)
    several = posterior.n_environments > 1
    kept = [several or column is not _P_INVARIANT for column in _COLUMNS]
    columns = (_PREDICTIVE_OF_ONE if column is _PREDICTIVE and not several else column for column in _COLUMNS)
    yield table("Every feature", compress(columns, kept), (tuple(compress(row, kept)) for row in rows))
    if predictive is None and several:
        none = f"No subset{decision.findings.allowed} is compatible with invariance"
        yield from prose([f"{none}, so that there is no predictive inclusion."])


def _coefficients(subject: Subject) -> dict[str, Cell]:
    """Of the pooled fit, by selected feature."""
    decision = subject.decision
    features = subject.data.features.chosen(decision.mask)
    values = decision.findings.target.model.fit(decision.mask, local=False).coefficients
    return {
        feature: number(values[start]) if width == 1 else Cell(f"{width} columns")
        for feature, start, width in zip(features.names, features.starts, features.widths, strict=False)
    }


_COVERAGE = 0.95
_LONGEST_NOTE = 60
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
    estimates, lower, upper = (
        found[which].to_numpy(dtype=float).reshape(-1, len(columns)) for which in ("estimate", "lower", "upper")
    )
    notes = found["note"].to_numpy(dtype=object).reshape(-1, len(columns))
    intervals, noted = bool(np.isfinite(lower).any()), bool((notes != "").any())
    yield from prose([_SCALES[predicts_of(subject.family)], *_coefficient_remarks(subject, intervals, noted)])
    yield coefficients_picture(decision, intervals)
    labels = ["all together", *subject.posterior.environments]
    cells = [_cells(*column) for column in zip(estimates.T, lower.T, upper.T, notes.T, strict=True)]
    yield table(
        f"Coefficients{f' with {100 * _COVERAGE:g}% intervals' if intervals else ''} by environment",
        [Column("Environment", number=False), *(Column(printable(column)) for column in columns)],
        ([name(label), *row] for label, *row in zip(labels, *cells, strict=True)),
    )


def _coefficient_remarks(subject: Subject, intervals: bool, noted: bool) -> Iterator[str]:
    if subject.decision.findings.target.model.makes_curves:
        yield "The columns of a curve have no meaning one by one: it is their sum that acts."
    if intervals and isinstance(subject.decision.findings.target.model, AdditiveModel):
        yield "Intervals in environments take the shapes of the curves, which are fitted to all rows, as given."
    if not intervals:
        yield "This model gives no intervals for them."
    if noted:
        yield _NOTED


def _cells(estimates: Floats, lower: Floats, upper: Floats, notes: NDArray[np.object_]) -> list[Cell]:
    """A column of estimates (E + 1,), with intervals where they are known, and with what is to be noted."""
    rows = rows_of_numbers(zip(estimates, lower, upper, strict=True))
    return [_coefficient_cell(row, shorten(note, _LONGEST_NOTE)) for row, note in zip(rows, notes, strict=True)]


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
    yield Heading("Compatible with invariance, by prediction" if several else "By prediction")
    if predictive is None:
        yield from prose([f"No subset{decision.findings.allowed} is compatible with invariance."])
    else:
        yield subsets_picture(decision)
        which = "Compatible subsets" if several else "Subsets"
        yield _subset_table(f"{which}, the best predictor first", predictive, subject, counted(decision))
    if several:
        yield frontier_picture(decision)
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
        Column("Features"): [Cell(f"{n:,}", n) for n in sizes.tolist()],
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
    told, worded = list(map(partial(_as_weighed, subject), diagnosis.sections)), subject.source.worded
    yield from prose(map(worded, told[0].sentences))
    yield environments_picture(diagnosis)
    for section in told[1:]:
        yield Heading(section.title)
        yield from prose(_sentence(worded(said)) for said in section.sentences)
        if section.table:
            yield _environment_table(section)


def _as_weighed(subject: Subject, section: Told) -> Told:
    """Where Λ is a Bayes factor by the methods of the page, T is none of it."""
    if section.title != T_BY_ENVIRONMENT or not isinstance(subject.settled, BayesianLinearGaussian):
        return section
    return replace(section, title="T by environment", sentences=(_T_OF_LIKELIHOODS, *section.sentences))


def _environment_table(section: Told) -> Table:
    head, *rows = section.table
    columns = [Column(title, j not in section.text_columns) for j, title in enumerate(head)]
    cells = (
        [_environment_cell(text, column.number) for text, column in zip(row, columns, strict=True)] for row in rows
    )
    return table(section.title, columns, cells, titled=True)


def _environment_cell(text: str, numeric: bool) -> Cell:
    """Figures are sorted as such, though here they are text already."""
    if not numeric or text == "–":
        return Cell(text)
    return Cell(text, float(text.removeprefix("<").replace(",", "")))


_MARKS = {"selected": "● selected", "not selected": "·", "screened out": "– screened out", "rejected": "× rejected"}
_OUTCOMES = {"empty": "nothing selected", "rejected": "model rejected", "failed": "failed"}


def check_comparison(comparison: Any, outcome: str, features: tuple[str, ...]) -> None:
    """Raise where it is none, or one of other data."""
    if not all(hasattr(comparison, wanted) for wanted in ("methods", "feature_names", "outcome_name")):
        raise SettingError(
            f"comparison={comparison!r} is no comparison: pass what compare(data, 'BIP,ICP') returns, or None."
        )
    if comparison.outcome_name != outcome:
        raise SettingError(
            f"the comparison is of the outcome {comparison.outcome_name!r} and the model of {outcome!r}: compare "
            "methods on the data that were fitted."
        )
    if set(comparison.feature_names) != set(features):
        only = sorted(set(comparison.feature_names) ^ set(features))
        raise SettingError(
            f"the comparison and the model have other features, {only[0]!r} for example: compare methods on the data "
            "that were fitted."
        )


def comparison_parts(subject: Subject) -> Iterator[Part]:
    if subject.comparison is None:
        return
    methods, selected = subject.comparison.methods, subject.decision.selected
    outcome = subject.comparison.outcome_name
    yield from prose(
        [
            "Each method answers in its own way: one that asks what predicts on all rows together does not ask what is "
            "invariant."
        ]
    )
    words = ("Method", "Answer", "Asks for", "Remarks")
    yield table(
        "What each method selected",
        [*(Column(title, number=False) for title in words), Column("Features")],
        (
            [
                name(m.name),
                Cell(_OUTCOMES.get(m.outcome, "selected")),
                Cell("prediction on all rows together" if m.pooled else "invariance"),
                Cell(_comparison_remarks(m, outcome)),
                _count(m),
            ]
            for m in methods
        ),
    )
    fitted = [m for m in methods if m.outcome != "failed"]
    if not fitted:
        return
    columns = [
        Column(printable(m.name), number=False, hint="" if m.evidence is None else f"with its {m.evidence[0]}")
        for m in fitted
    ]
    yield table(
        "Features by method",
        [Column("Feature", number=False), Column("This fit", number=False), *columns],
        (
            [
                name(feature),
                _mark("selected" if feature in selected else "not selected"),
                *(_comparison_cell(m, j) for m in fitted),
            ]
            for j, feature in enumerate(subject.comparison.feature_names)
        ),
    )


def _count(method: Any) -> Cell:
    if method.outcome in ("failed", "rejected"):
        return Cell("–")
    n = int(np.sum(method.selected))
    return Cell(f"{n:,}", n)


def _comparison_remarks(method: Any, outcome: str) -> str:
    verdict = () if method.verdict is None else (method.verdict,)
    as_number = (f"Fits {outcome} as a number, by least squares.",) if method.as_number else ()
    return " ".join(printable(text) for text in (*verdict, *as_number, *method.notes))


def _comparison_cell(method: Any, j: int) -> Cell:
    status = str(method.status[j])
    value = np.nan if method.evidence is None else float(method.evidence[1][j])
    number = "" if np.isnan(value) else f" ({format_probability(value)})"
    return _mark(status, number)


def _mark(status: str, number: str = "") -> Cell:
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


def contents_of(subject: Subject, progress: ProgressMode = False) -> Contents:
    """All that a page says. Sections that have nothing to say are left out."""
    outcome = printable(subject.posterior.outcome_name)
    title = f"What predicts {outcome} alike in every environment?"
    lead = f"{format_subset(subject.decision.selected, 100)}: {state(subject.decision)[1]}"
    sections = []
    with ProgressBar("report", len(SECTIONS), progress, meanwhile="drawing pictures") as bar:
        for anchor, heading, parts in SECTIONS:
            sections.append(Section(anchor, heading, tuple(parts(subject))))
            bar.advance()
    return Contents(title, lead, tuple(section for section in sections if section.parts))
