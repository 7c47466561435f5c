"""The question, and the data at a glance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._tools.layout import printable
from ..conditionals.predicts import Predicts, predicts_of
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import in_words
from ..moments.moments import Moments
from ..posterior.summary import format_count, model_in_words
from .numbers import numbers, sample_sd, without_rounding
from .parts import Cell, Column, Facts, Part, Table, name, prose, table
from .subject import Subject

_SD = Column("SD", hint="standard deviation")
_WITHOUT_ROWS = (
    "Second moments alone were fitted. The rows would add the residuals of the selected features, checks of their "
    "noise's shape, fits that moments cannot decide, and models for classes, counts, times and curves: "
    "fit_moments(moments, rows=...) reads them again for all but the last."
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
    if predicts_of(subject.conditional) is Predicts.probability:
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
