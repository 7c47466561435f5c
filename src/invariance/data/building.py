"""From the columns of a table to data: screened, encoded, and checked as a whole."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from .beside import check_beside
from .checks import check_spread, check_whole, warn
from .choices import Choices
from .encoding import Encoding, Learner
from .environment_choice import ALL_ENVIRONMENTS, EnvironmentChoice, refuse_single
from .gaps import WORTH_A_WARNING, filled
from .losses import announce_constant, dropped_message
from .multi_environment import MultiEnvironmentData, without_constant
from .outcomes import Outcome
from .raw import RawTable
from .screening import Rows, screened


def learnt(
    raw: RawTable,
    choices: Choices,
    outcome: Outcome,
    labels: list[Hashable] | None,
    environment: str | None,
    missing: str,
    from_text: bool = False,
    choice: EnvironmentChoice = ALL_ENVIRONMENTS,
) -> MultiEnvironmentData:
    """A whole table, encoded by what it teaches itself."""
    in_table = environment is not None
    raw, constant_gaps = filled(raw)
    learner = Learner(raw.names, choices, in_table)
    learner.look(raw)
    learner.check()
    words = list(raw.levels) if from_text else []
    named = [outcome.name, *(name for name, _ in outcome.beside.values())]
    beside = [values for _, values in outcome.beside.values()]
    columns = (*raw.names, *named)
    told: dict[str, Any] = {"words": words, "beside": beside, "excluded": choices.excluded}
    rows = screened(raw.values, outcome.values, labels, columns, environment, missing, **told)
    rows, notes = choice.large_enough(rows)
    if rows.dropped:
        n_lost = sum(rows.dropped.values())
        counted = raw.names, len(rows.y), n_lost, in_table, choices.excluded
        more = rows.gaps.advice(columns, *counted, share=WORTH_A_WARNING)
        warn(dropped_message(rows.dropped, rows.environments, len(rows.y) + n_lost) + (more and f".{more}"))
    y, classes = outcome.two_of(rows.y)
    rows = rows._replace(y=y)
    learner.learn(rows, raw)
    learner.warn()
    encoding = learner.encoding((*named,) if environment is None else (*named, environment))
    data = encoded(rows, raw, encoding, outcome.name, environment)
    with_it: dict[str, Any] = {f"{role}_name": name for role, (name, _) in outcome.beside.items()}
    with_it |= dict(zip(outcome.beside, rows.beside, strict=True))
    return replace(data, environment_notes=notes, constant_gaps=constant_gaps, classes=classes, **with_it)


def encoded(
    rows: Rows, raw: RawTable, encoding: Encoding | None, outcome: str, environment: str | None
) -> MultiEnvironmentData:
    """Rows of a table in the columns that a model fits."""
    features = None if encoding is None else encoding.features
    return MultiEnvironmentData(
        rows.X if encoding is None else encoding.encode(replace(raw, values=rows.X)),
        rows.y,
        rows.codes,
        raw.names if features is None else features.names,
        rows.environments,
        outcome,
        environment,
        dropped_rows=rows.dropped,
        grouping=features,
        encoding=encoding,
    )


def whole(data: MultiEnvironmentData, single_allowed: bool = False) -> MultiEnvironmentData:
    """The checks that need all rows; drops the features that are constant over them."""
    refuse_single(data.environments, data.environment_notes)
    check_whole(
        data.environments,
        data.counts,
        *data.outcome_range,
        outcome_name=data.outcome_name,
        environment_name=data.environment_name,
        single_allowed=single_allowed,
        flat_allowed=data.outcome_kind.kind != "number",
    )
    names = {"outcome": data.outcome_name, "event": str(data.event_name), "exposure": str(data.exposure_name)}
    check_beside(data.y, data.beside, names, data.environments, data.environment_index)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    check_spread(
        (*data.features.columns, data.outcome_name),
        np.append(low, data.y.min()),
        np.append(high, data.y.max()),
    )
    constant = low == high
    if not constant.any():
        return data
    left = without_constant(data, constant)
    announce_constant(left.dropped_features, data.n_features, left.dropped_columns, data.constant_gaps)
    return left
