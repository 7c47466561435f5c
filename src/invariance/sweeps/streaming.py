"""Moments of all columns of rows that stay where they are, none of which is the outcome more than others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._tools.parallel import n_workers
from .._tools.progress import ProgressMode
from ..data.checks import nearest, quoted
from ..exceptions import DataError
from ..moments.accumulator import MomentsAccumulator
from ..moments.from_rows import of_source
from ..moments.moments import Moments
from ..moments.wanted import Wanted
from ..sources.base import RowSource
from ..sources.columns import kind_of

_NUMBERS = ("numbers", "true and false")


def moments_of_columns(
    source: RowSource, environment: str, options: Mapping[str, Any], n_jobs: int | None, progress: ProgressMode
) -> Moments:
    """options : as `Moments.from_rows` takes them. A column that varies in every environment is the outcome."""
    available = source.schema.names
    if environment not in available:
        raise DataError(
            f"environment column {environment!r} is not in {source.name}; {nearest(environment, available)}"
        )
    given = dict(options)
    named = given.pop("features", None) or [name for name in available if name != environment]
    numbers = [name for name in named if name in available and kind_of(source.schema.field(name).type) in _NUMBERS]
    plain = [name for name in numbers if name not in (*given["exclude"], *given["categorical"])]
    if not plain:
        raise DataError(f"no column can be the outcome: {quoted(named)} are no numbers.")
    others = [name for name in named if name != plain[-1]]
    choice = {"drop": given.pop("drop_environments"), "merge": given.pop("merge_environments")}
    wanted = Wanted.of(
        available, source.name, plain[-1], environment, others, **given, **choice, is_text=source.is_text
    )
    rows = of_source(source, wanted, n_workers(n_jobs), progress)
    outcome = _varying(rows, plain)
    return replace(
        wanted, outcome=outcome, features=tuple(name for name in wanted.columns if name != outcome)
    ).finished(rows)


def _varying(rows: MomentsAccumulator, names: Sequence[str]) -> str:
    """The last of the columns that is constant in no environment, or the last one"""
    parts = list(rows.parts.values())
    places = {column.name: j for j, column in enumerate(rows.wide_columns) if column.level is None}
    varying = [
        name
        for name in names
        if name in places and all(part.minimum[places[name]] < part.maximum[places[name]] for part in parts)
    ]
    return (varying or list(names))[-1]
