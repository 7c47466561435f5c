"""From an accumulator to moments: what only all rows can tell, and the columns that levels make."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Integers
from ..data.checks import check_scale, nearest, with_counts
from ..data.choices import Choices
from ..data.columns import ADVICE
from ..data.encoding import Encoding, Learner
from ..data.raw import COUNTED_ROWS, Refusal, counts_rows, not_listed
from ..data.terms import Dummies
from ..exceptions import DataError
from .moments import Moments, assembled
from .parts import Part
from .running import in_columns

if TYPE_CHECKING:
    from .accumulator import Column, MomentsAccumulator

# Share by which the scatter of a column that counts rows may be off.
_ROUNDING = 1e-9


def finished(rows: MomentsAccumulator, outcome: str, groups: Any, is_text: bool) -> Moments:
    """Before the complaints of `Moments.checked`; see `MomentsAccumulator.moments`."""
    if outcome not in rows.columns:
        raise DataError(f"outcome column {outcome!r} is not among the columns; {nearest(outcome, rows.columns)}")
    features = tuple(name for name in rows.columns if name != outcome)
    choices = replace(rows.choices, groups=Choices.of(features, groups=groups).groups)
    _refuse_splines(choices)
    parts, columns = rows.parts, rows.wide_columns
    learner = Learner(features, choices)
    learner.tell(
        rows.tally.n_rows,
        {name: levels for name, levels in rows.levels.items() if name in features},
        {name: [level for column, level in columns if column == name and level is not None] for name in rows.levels},
        _learnt(parts, columns, features),
        {name: refusal for name, refusal in rows.refused.items() if name in features},
        {name for name, n in zip(rows.columns, rows.tally.missing, strict=True) if n == rows.tally.n_rows > 0},
        _row_numbers(parts, columns),
    )
    _check_outcome(rows, outcome)
    _check_stated(choices, parts, columns)
    learner.check()
    words = [name for name in rows.levels if is_text]
    rows.tally.complain(rows.columns, rows.environment, rows.missing, words, tuple(parts))
    for part in parts.values():
        check_scale([column.name for column in columns], part.minimum, part.maximum)
    learner.warn()
    encoding = learner.encoding((outcome, rows.environment))
    names, places, d = _places(columns, features, outcome, encoding)
    laid_out = (_in_places(part, places, d) for part in parts.values())
    moments = assembled(names, names.index(outcome), tuple(parts), laid_out)
    grouped = {} if encoding is None else dict(encoding.features.groups)
    return replace(moments, groups=grouped, encoding=encoding, dropped_rows=dict(rows.tally.dropped))


def _refuse_splines(choices: Choices) -> None:
    for name in choices.splines:
        raise DataError(
            f"spline({name!r}) needs quantiles of all rows, which one look at rows that stay where they are does not "
            "give: use Moments.from_chunks(read_chunks(file, ...)), which reads the file twice."
        )


def _check_outcome(rows: MomentsAccumulator, outcome: str) -> None:
    refusal = rows.refused.get(outcome)
    if refusal is not None:
        raise DataError(f"column {outcome!r} {refusal.reason}: {ADVICE['outcome']}.")
    levels = rows.levels.get(outcome)
    if levels is not None:
        raise DataError(f"column {outcome!r} is not numeric (for example {levels.texts[0]!r}): {ADVICE['outcome']}.")


def _check_stated(choices: Choices, parts: Mapping[Hashable, Part], columns: tuple[Column, ...]) -> None:
    """Where the user lists the levels of a column, no others may occur."""
    for name, stated in choices.levels.items():
        places = {level: j for j, (column, level) in enumerate(columns) if column == name and level not in stated}
        counts = [round(sum(p.n_rows * (p.centre[j] + p.rest[j]) for p in parts.values())) for j in places.values()]
        strange = with_counts(list(places), counts)
        if strange:
            raise DataError(not_listed(name, strange))


def _learnt(
    parts: Mapping[Hashable, Part], columns: tuple[Column, ...], features: tuple[str, ...]
) -> dict[str, dict[str, set[Hashable]]]:
    """{column: {level: environments that have it}}"""
    learnt: dict[str, dict[str, set[Hashable]]] = {}
    for place, (name, level) in enumerate(columns):
        where = {label for label, part in parts.items() if part.maximum[place] > 0.0}
        if level is not None and name in features:
            learnt.setdefault(name, {})
            if where:
                learnt[name][level] = where
    return learnt


def _row_numbers(parts: Mapping[Hashable, Part], columns: tuple[Column, ...]) -> dict[str, Refusal]:
    """Columns that count the rows: the n whole numbers in a row have a scatter of their own, n(n² − 1)/12."""
    n = sum(part.n_rows for part in parts.values())
    if n < COUNTED_ROWS:
        return {}
    low = np.min([part.minimum for part in parts.values()], axis=0)
    high = np.max([part.maximum for part in parts.values()], axis=0)
    found = {}
    for j in np.flatnonzero(high - low == n - 1).tolist():
        middle = (low[j] + high[j]) / 2.0
        squares = sum(
            part.scatter[j, j] + part.n_rows * ((part.centre[j] - middle) + part.rest[j]) ** 2
            for part in parts.values()
        )
        if columns[j].level is None and abs(squares / (n * (n * n - 1.0) / 12.0) - 1.0) < _ROUNDING:
            found[columns[j].name] = counts_rows(low[j], high[j])
    return found


def _places(
    columns: tuple[Column, ...], features: tuple[str, ...], outcome: str, encoding: Encoding | None
) -> tuple[tuple[str, ...], Integers, int]:
    """Names of the d columns of the moments; where in them each column of the accumulator belongs, or -1; d"""
    names = (*(features if encoding is None else encoding.features.columns), outcome)
    wanted = {} if encoding is None else dict(_level_columns(encoding))
    at = {name: place for place, name in enumerate(names)}
    found = [at.get(name if level is None else wanted.get((name, level), ""), -1) for name, level in columns]
    return names, np.array(found, np.intp), len(names)


def _level_columns(encoding: Encoding) -> Iterator[tuple[tuple[str, str], str]]:
    """((column of the table, level), column of the moments)"""
    for column, term in encoding.of_levels.items():
        assert isinstance(term, Dummies)
        compared = term.levels[len(term.levels) - len(term.names) :]
        yield from (((column, level), name) for level, name in zip(compared, term.names, strict=True))


def _in_places(part: Part, places: Integers, d: int) -> Part:
    """Its columns at these places among d, without those at -1."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    chosen = Part(
        part.n_rows,
        part.centre[kept],
        part.rest[kept],
        part.minimum[kept],
        part.maximum[kept],
        part.at_ends[:, kept],
        part.rounding[kept],
        part.scatter[np.ix_(kept, kept)],
    )
    return in_columns(chosen, places[kept], d)
