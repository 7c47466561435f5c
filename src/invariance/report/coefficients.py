"""Coefficients of the selected features by environment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats
from .._tools.layout import printable, shorten
from ..conditionals.additive_model import AdditiveModel
from ..conditionals.predicts import Predicts, predicts_of
from .numbers import rows_of_numbers
from .parts import Cell, Column, Part, name, prose, table
from .pictures import coefficients_picture
from .subject import Subject

_COVERAGE = 0.95
_LONGEST_NOTE = 60
_SCALES = {
    Predicts.number: "Coefficients are in units of the outcome per unit of a column.",
    Predicts.probability: "Coefficients are log odds per unit of a column.",
    Predicts.rate: "Coefficients are logarithms of ratios of rates, per unit of a column.",
    Predicts.time: "Coefficients are logarithms of hazard ratios, per unit of a column.",
}
_NOTED = (
    "Where the rows of an environment do not tell a coefficient, the table says why; one that stands for another "
    "column too is that of both together."
)


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
    yield from prose([_SCALES[predicts_of(subject.conditional)], *_remarks(subject, intervals, noted)])
    yield coefficients_picture(decision, intervals)
    labels = ["all together", *subject.posterior.environments]
    cells = [_cells(*column) for column in zip(estimates.T, lower.T, upper.T, notes.T, strict=True)]
    yield table(
        f"Coefficients{f' with {100 * _COVERAGE:g}% intervals' if intervals else ''} by environment",
        [Column("Environment", number=False), *(Column(printable(column)) for column in columns)],
        ([name(label), *row] for label, *row in zip(labels, *cells, strict=True)),
    )


def _remarks(subject: Subject, intervals: bool, noted: bool) -> Iterator[str]:
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
    return [_cell(row, shorten(note, _LONGEST_NOTE)) for row, note in zip(rows, notes, strict=True)]


def _cell(numbers: list[Cell], note: str) -> Cell:
    """numbers : the estimate, the lower end and the upper"""
    middle, low, high = numbers
    if middle.value is None:
        return Cell(note or middle.text)
    interval = "" if low.value is None else f" ({low.text} to {high.text})"
    return Cell(f"{middle.text}{interval}{note and f', {note}'}", middle.value)
