"""Coefficients of the selected features by environment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._tools.arrays import Floats
from .._tools.layout import printable
from ..conditionals.additive_model import AdditiveModel
from ..conditionals.predicts import Predicts, predicts_of
from .numbers import rows_of_numbers
from .parts import Cell, Column, Part, name, prose, table
from .pictures import coefficients_picture
from .subject import Subject

_COVERAGE = 0.95
_SCALES = {
    Predicts.number: "Coefficients are in units of the outcome per unit of a column.",
    Predicts.probability: "Coefficients are log odds per unit of a column.",
    Predicts.rate: "Coefficients are logarithms of ratios of rates, per unit of a column.",
    Predicts.time: "Coefficients are logarithms of hazard ratios, per unit of a column.",
}


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
    intervals = bool(np.isfinite(lower).any())
    yield from prose([_SCALES[predicts_of(subject.conditional)], *_remarks(subject, intervals)])
    yield coefficients_picture(decision, intervals)
    labels = ["all together", *subject.posterior.environments]
    cells = [_cells(*column) for column in zip(estimates.T, lower.T, upper.T, strict=True)]
    yield table(
        f"Coefficients{f' with {100 * _COVERAGE:g}% intervals' if intervals else ''} by environment",
        [Column("Environment", number=False), *(Column(printable(column)) for column in columns)],
        ([name(label), *row] for label, *row in zip(labels, *cells, strict=True)),
    )


def _remarks(subject: Subject, intervals: bool) -> Iterator[str]:
    if subject.decision.findings.target.model.makes_curves:
        yield "The columns of a curve have no meaning one by one: it is their sum that acts."
    if intervals and isinstance(subject.decision.findings.target.model, AdditiveModel):
        yield "Intervals in environments take the shapes of the curves, which are fitted to all rows, as given."
    if not intervals:
        yield "This model gives no intervals for them."


def _cells(estimates: Floats, lower: Floats, upper: Floats) -> list[Cell]:
    """A column of estimates (E + 1,), with intervals where they are known."""
    return [
        middle if low.value is None else Cell(f"{middle.text} ({low.text} to {high.text})", middle.value)
        for middle, low, high in rows_of_numbers(zip(estimates, lower, upper, strict=True))
    ]
