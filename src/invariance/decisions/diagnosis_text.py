"""A diagnosis for people: the verdict first, then tables, within 80 columns or as HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._tools.layout import COLUMNS, display_width, format_subset, name_labels, printable, wrap
from ..conditionals.compared import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE
from .telling_apart import SHIFT

if TYPE_CHECKING:
    from .diagnosis import Diagnosis
    from .environments import EnvironmentTest
    from .leaving_out import Refit

_DIFFER = {
    INTERCEPT: "the intercept differs",
    SLOPES: "the slopes differ",
    VARIANCE: "the noise's variance differs",
    DISPERSION: "the dispersion differs",
    BASELINE: "the shape of the baseline hazard differs",
}
_PLURAL = {part: part if part == SLOPES else f"{part}s" for part in _DIFFER}
_LONGEST_LABEL = 20
# Of the table of fits without an environment: the columns between its label and the subset.
_FIGURES = 22
_MOST_CHANGES = 5
_MOST_EXPERIMENTS = 3
_MOST_DECISIVE = 2
_LEAST_CHANGE = 0.1
T_BY_ENVIRONMENT = "T = −2 log Λ by environment"
NOT_REFITTED = "No fit was made again: with leave_out=True all is selected anew without each environment."


@dataclass(frozen=True)
class Section:
    """A title, sentences, and a table (its first row the head) whose first column is text and the others numbers, as
    `text_columns` says of further ones."""

    title: str
    sentences: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    text_columns: tuple[int, ...] = (0,)


def as_text(diagnosis: Diagnosis, worded: Callable[[str], str] = str) -> str:
    """worded: what to make of a sentence that may name a remedy"""
    return text_of(sections(diagnosis), worded)


def as_html(diagnosis: Diagnosis) -> str:
    return html_of(sections(diagnosis))


def text_of(told: Iterable[Section], worded: Callable[[str], str] = str) -> str:
    return "\n\n".join("\n".join(section_lines(section, worded)) for section in told)


def html_of(told: Iterable[Section]) -> str:
    return "<div>" + "".join(map(section_html, told)) + "</div>"


def format_p(p_value: float | None) -> str:
    """Two digits; "–" where nothing was tested."""
    if p_value is None or np.isnan(p_value):
        return "–"
    return "<1e-300" if p_value < 1e-300 else f"{p_value:.2g}" if p_value < 0.001 else f"{p_value:.3f}"


def format_r2(value: float, digits: int = 3) -> str:
    """So many digits, without the sign of what rounds to 0; "–" where nothing could be fitted."""
    return "–" if np.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def sections(diagnosis: Diagnosis) -> Iterator[Section]:
    title = f"Environments of {printable(diagnosis.outcome_name)} given {format_subset(diagnosis.subset)}"
    yield Section(title, tuple(_verdict(diagnosis)))
    yield _tests(diagnosis)
    if diagnosis.left_out:
        yield _without_each(diagnosis)
    yield Section("What would tell the leading subsets apart", tuple(_experiments(diagnosis)))
    if diagnosis.sites.capped:
        yield Section("Small environments", tuple(_sites(diagnosis)))


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    worst, n, subset = diagnosis.worst, diagnosis.n_environments, format_subset(diagnosis.subset)
    tested = "invariance" if diagnosis.judged_by.startswith("exact") else "approximate invariance"
    judged = f"p-value of {tested} {format_p(diagnosis.p_invariant)}, {diagnosis.judged_by}"
    if diagnosis.nothing_compatible:
        yield f"No subset of the features{diagnosis.allowed} is compatible with invariance ({diagnosis.judged_by})."
    if worst is None:
        undecided = diagnosis.unjudged or "fits to their rows cannot be decided"
        yield f"The environments cannot be compared given {subset}: {undecided}."
        return
    freed = diagnosis.freed_by
    refit = None if freed is None else freed.refit
    if refit is not None and refit.best is not None:
        yield (
            f"Environment {diagnosis.named!r} breaks it: without it {format_subset(refit.best)} predicts "
            f"{printable(diagnosis.outcome_name)} alike in the other {n - 1} (p-value of {tested} "
            f"{format_p(refit.best_p_invariant)}, R² {format_r2(refit.best_r2, 2)}), and it is at odds with them "
            f"(p-value {format_p(refit.p_against_best)})."
        )
    elif diagnosis.stands_out:
        told = f"p-value {format_p(worst.p_value)}, below {diagnosis.threshold:.2g}"
        if worst.environment is None:
            yield f"Given {subset}, the two environments differ: {_DIFFER[worst.part]} most ({told})."
        else:
            where = f"environment {worst.environment!r} is unlike the others"
            yield f"Given {subset}, {where}: {_DIFFER[worst.part]} most ({told})."
    else:
        smallest = "" if worst.environment is None else f", that of {worst.environment!r},"
        yield (
            f"No environment stands out given {subset}: the smallest p-value{smallest} is "
            f"{format_p(worst.p_value)}, not below {diagnosis.threshold:.2g}."
        )
    if diagnosis.unjudged:
        yield f"Whether {subset} is compatible with invariance cannot be judged: {diagnosis.unjudged}."
    elif not diagnosis.nothing_compatible:
        compatible = diagnosis.p_invariant >= diagnosis.tolerance.level
        yield f"The subset is {'' if compatible else 'not '}compatible with invariance ({judged})."
    for left in diagnosis.decisive[:_MOST_DECISIVE]:
        if left.refit is not None and left.refit.best is not None:
            yield (
                f"Without {left.environment!r} {format_subset(left.refit.best)} is compatible and predicts better (R² "
                f"{format_r2(left.refit.best_r2, 2)} instead of {format_r2(left.r2, 2)}); this environment alone "
                "speaks against it."
            )
    if diagnosis.named is not None or diagnosis.decisive:
        yield (
            "Nothing was left out: an environment may be unlike the others because it acts on the outcome itself, or "
            "because it alone shows what is not invariant."
        )


def _tests(diagnosis: Diagnosis) -> Section:
    head = ("rows", "T", "expected", "p-value", *diagnosis.parts)
    figures = [head, *(_figures(test, diagnosis.parts) for test in diagnosis.tests)]
    taken = sum(2 + max(map(display_width, column)) for column in zip(*figures, strict=True))
    width = min(_LONGEST_LABEL, COLUMNS - 2 - taken)
    labels = "environment", *name_labels([str(test.environment) for test in diagnosis.tests], width)
    rows = tuple((label, *row) for label, row in zip(labels, figures, strict=True))
    sentences = ["Each against the rows of all others together; the last columns are p-values of its parts."]
    found = [test.deviation for test in diagnosis.tests if test.deviation is not None]
    if any(deviation.p_value != deviation.p_gaussian for deviation in found):
        sentences.append("The p-value is that of the parts together, by Fisher's rule, not that of T.")
    if diagnosis.whole is not None:
        whole = diagnosis.whole
        shares = " + ".join(
            f"{_PLURAL[name]} {part.deviance:.1f} (p {format_p(part.p_value)})"
            for name, part in whole.parts.items()
            if name in diagnosis.parts
        )
        noise = " with normal noise" if VARIANCE in diagnosis.parts else ""
        sentences.append(
            f"All together: T = {whole.deviance:.1f} = {shares}; {whole.expected_deviance:.1f} ± "
            f"{whole.deviance_sd:.1f} is expected of an invariant subset{noise}."
        )
    return Section(T_BY_ENVIRONMENT, tuple(sentences), rows)


def _figures(test: EnvironmentTest, compared: tuple[str, ...]) -> tuple[str, ...]:
    found = test.deviation
    if found is None:
        return (f"{test.rows:,}", *["–"] * (3 + len(compared)))
    parts = (format_p(found.parts[name].p_value) for name in compared)
    deviance = f"{found.deviance:.1f}", f"{found.expected_deviance:.1f}"
    return f"{test.rows:,}", *deviance, format_p(found.p_value), *parts


def _without_each(diagnosis: Diagnosis) -> Section:
    labels = name_labels([str(left.environment) for left in diagnosis.left_out], _LONGEST_LABEL)
    head = ("without", "p_inv", "R²", *(("selected then",) if diagnosis.refitted else ()))
    width = COLUMNS - max(map(display_width, ("without", *labels))) - _FIGURES
    rows = [
        (
            label,
            format_p(left.p_invariant),
            format_r2(left.r2),
            *(_then(left.refit, width) if diagnosis.refitted else ()),
        )
        for label, left in zip(labels, diagnosis.left_out, strict=True)
    ]
    sentences = [f"p_inv and R² are of {format_subset(diagnosis.subset)} in the other environments."]
    if diagnosis.refitted:
        sentences += _changes(diagnosis)
    else:
        sentences.append(NOT_REFITTED)
    return Section("Without each environment", tuple(sentences), (head, *rows), (0, 3))


def _then(refit: Refit | None, width: int) -> tuple[str]:
    if refit is None:
        return ("cannot be fitted",)
    if refit.selected is None:
        return ("nothing compatible",)
    return (format_subset(refit.selected, width),)


def _changes(diagnosis: Diagnosis) -> Iterator[str]:
    """The largest changes of inclusion probabilities in one sentence."""
    predictive = not np.isnan(diagnosis.predictive_inclusion).all()
    values = np.nan_to_num(diagnosis.influence(predictive).to_numpy())
    kind = "predictive" if predictive else "paper's"
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_MOST_CHANGES]
    told = [
        f"{printable(diagnosis.feature_names[j])} {values[e, j]:+.2f} without {diagnosis.left_out[e].environment!r}"
        for e, j in zip(*np.unravel_index(order, values.shape), strict=True)
        if abs(values[e, j]) >= _LEAST_CHANGE
    ]
    if told:
        yield f"Inclusion probabilities ({kind} posterior) that change most: {'; '.join(told)}."
    else:
        yield f"No inclusion probability ({kind} posterior) changes by {_LEAST_CHANGE:g} or more."


def _experiments(diagnosis: Diagnosis) -> Iterator[str]:
    kind = "most probable" if diagnosis.nothing_compatible else "leading compatible"
    n = len(diagnosis.leading.subsets)
    if n < 2:
        yield f"There is one {kind} subset only, {format_subset(diagnosis.leading.subsets[0])}."
        return
    if not diagnosis.experiments:
        yield f"No feature, moved alone by {SHIFT:g} standard deviations, would tell the {n} {kind} subsets apart."
        return
    for found in diagnosis.experiments[:_MOST_EXPERIMENTS]:
        (low, down), (high, up) = found.lowest, found.highest
        yield (
            f"Move {printable(found.feature)} alone by {SHIFT:g} standard deviations: what the {n} {kind} subsets then "
            f"predict scatters by {found.disagreement:.2g}, {found.disagreement / diagnosis.leading.noise:.1f} times "
            f"the noise, from {down:+.2g} by {format_subset(low)} to {up:+.2g} by {format_subset(high)}."
        )


def _sites(diagnosis: Diagnosis) -> Iterator[str]:
    sites, binding = diagnosis.sites, diagnosis.sites.binding
    yield (
        f"Subsets hold at most {sites.largest} of {sites.n_features} features: a fit needs two rows more than columns "
        f"that vary, in every environment, and {binding.environment!r} has {binding.rows}."
    )
    n_rows = sum(site.rows for site in sites.each)
    for site in sites.costly:
        yield (
            f"Without {site.environment!r} ({site.rows:,} of {n_rows:,} rows) they may hold {site.largest_without}; it "
            "can be left out or merged with a similar one."
        )
    if sites.enough_rows is not None:
        small = [site for site in sites.each if site.rows < sites.enough_rows]
        gone = sum(site.rows for site in small)
        yield (
            f"With min_rows={sites.enough_rows}, which leaves out {len(small)} of {len(sites.each)} environments "
            f"({gone:,} of {n_rows:,} rows), they may hold all {sites.n_features}."
        )


def section_lines(section: Section, worded: Callable[[str], str] = str) -> Iterator[str]:
    yield from wrap(section.title)
    for sentence in section.sentences:
        yield from wrap(worded(sentence), "  ", "  ")
    if not section.table:
        return
    yield ""
    widths = [max(map(display_width, column)) for column in zip(*section.table, strict=True)]
    for row in section.table:
        cells = [
            _padded(cell, width, j in section.text_columns)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _padded(cell: str, width: int, left: bool) -> str:
    blanks = " " * (width - display_width(cell))
    return cell + blanks if left else blanks + cell


def section_html(section: Section) -> str:
    parts = [f"<h4>{html.escape(section.title)}</h4>"]
    parts += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
    if section.table:
        head, *rows = section.table
        parts += ["<table>", _html_row(head, "th", section.text_columns)]
        parts += [*(_html_row(row, "td", section.text_columns) for row in rows), "</table>"]
    return "".join(parts)


def _html_row(cells: Sequence[str], tag: str, text_columns: Sequence[int]) -> str:
    def cell(j: int, text: str) -> str:
        side = "left" if j in text_columns else "right"
        return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'

    return "<tr>" + "".join(cell(j, text) for j, text in enumerate(cells)) + "</tr>"
