"""Other methods beside this one: a section where somebody compared them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._tools.layout import printable
from ..exceptions import SettingError
from ..posterior.summary import format_probability
from .compared import ComparedMethod
from .parts import Cell, Column, Part, name, prose, table
from .subject import Subject

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
        ([name(m.name), Cell(_answer(m)), Cell(_asks(m)), Cell(_remarks(m, outcome)), _count(m)] for m in methods),
    )
    fitted = [m for m in methods if m.outcome != "failed"]
    if not fitted:
        return
    columns = [Column(printable(m.name), number=False, hint=_hint(m)) for m in fitted]
    yield table(
        "Features by method",
        [Column("Feature", number=False), Column("This fit", number=False), *columns],
        (
            [
                name(feature),
                _mark("selected" if feature in selected else "not selected"),
                *(_cell(m, j) for m in fitted),
            ]
            for j, feature in enumerate(subject.comparison.feature_names)
        ),
    )


def _answer(method: ComparedMethod) -> str:
    return _OUTCOMES.get(method.outcome, "selected")


def _count(method: ComparedMethod) -> Cell:
    if method.outcome in ("failed", "rejected"):
        return Cell("–")
    n = int(np.sum(method.selected))
    return Cell(f"{n:,}", n)


def _asks(method: ComparedMethod) -> str:
    return "prediction on all rows together" if method.pooled else "invariance"


def _remarks(method: ComparedMethod, outcome: str) -> str:
    verdict = () if method.verdict is None else (method.verdict,)
    as_number = (f"Fits {outcome} as a number, by least squares.",) if method.as_number else ()
    return " ".join(printable(text) for text in (*verdict, *as_number, *method.notes))


def _hint(method: ComparedMethod) -> str:
    return "" if method.evidence is None else f"with its {method.evidence[0]}"


def _cell(method: ComparedMethod, j: int) -> Cell:
    status = str(method.status[j])
    value = np.nan if method.evidence is None else float(method.evidence[1][j])
    number = "" if np.isnan(value) else f" ({format_probability(value)})"
    return _mark(status, number)


def _mark(status: str, number: str = "") -> Cell:
    return Cell(_MARKS[status] + number, list(_MARKS).index(status), "strong" if status == "selected" else "")
