"""Whether environments differ given the selected features, in what, and what each of them does to the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..conditionals.bayesian_gaussian import BayesianLinearGaussian
from ..decisions.diagnosis import Diagnosis
from ..decisions.diagnosis_text import NOT_REFITTED, T_BY_ENVIRONMENT, Section, sections
from .parts import Cell, Column, Heading, Part, Table, prose, table
from .pictures import environments_picture
from .residuals import residual_parts
from .subject import Subject

_LEAVE_OUT = (
    "Nothing was selected anew without each environment: model.diagnose(leave_out=True) does that in Python, and "
    "`invariance explain` with the option --leave-out in a shell."
)


_T_OF_LIKELIHOODS = "T is −2 times the logarithm of a ratio of maximised likelihoods, not of the Bayes factor Λ."


def environment_parts(subject: Subject) -> Iterator[Part]:
    diagnosis = subject.diagnosis
    if isinstance(diagnosis, str):
        yield from prose([diagnosis])
    else:
        yield from _diagnosed(subject, diagnosis)
    yield from residual_parts(subject)


def _diagnosed(subject: Subject, diagnosis: Diagnosis) -> Iterator[Part]:
    told, worded = list(map(partial(_as_weighed, subject), sections(diagnosis))), subject.source.worded
    yield from prose(map(worded, told[0].sentences))
    yield environments_picture(diagnosis)
    for section in told[1:]:
        yield Heading(section.title)
        yield from prose(_LEAVE_OUT if said == NOT_REFITTED else worded(said) for said in section.sentences)
        if section.table:
            yield _table(section)


def _as_weighed(subject: Subject, section: Section) -> Section:
    """Where Λ is a Bayes factor by the methods of the page, T is none of it."""
    if section.title != T_BY_ENVIRONMENT or not isinstance(subject.settled, BayesianLinearGaussian):
        return section
    return replace(section, title="T by environment", sentences=(_T_OF_LIKELIHOODS, *section.sentences))


def _table(section: Section) -> Table:
    head, *rows = section.table
    columns = [Column(title, j not in section.text_columns) for j, title in enumerate(head)]
    cells = ([_cell(text, column.number) for text, column in zip(row, columns, strict=True)] for row in rows)
    return table(section.title, columns, cells, titled=True)


def _cell(text: str, numeric: bool) -> Cell:
    """Figures are sorted as such, though here they are text already."""
    if not numeric or text == "–":
        return Cell(text)
    return Cell(text, float(text.removeprefix("<").replace(",", "")))
