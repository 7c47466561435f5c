"""From an accumulator to moments: what only all rows can tell, and the columns that levels make."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Integers
from ..data.checks import check_scale, nearest, rows_text, with_counts
from ..data.choices import Choices
from ..data.columns import ADVICE
from ..data.encoding import Encoding, Learner
from ..data.environment_choice import ALL_ENVIRONMENTS, EnvironmentChoice
from ..data.outcome_kinds import OutcomeKind, at_two_values, number_kind
from ..data.raw import COUNTED_ROWS, Refusal, counts_rows, not_listed
from ..data.terms import Dummies
from ..exceptions import DataError
from .accumulator import Column
from .moments import Moments, assembled
from .parts import Part
from .running import in_columns

if TYPE_CHECKING:
    from .accumulator import MomentsAccumulator

# Share by which the scatter of a column that counts rows may be off.
_ROUNDING = 1e-9
_CLASSES = 2


@dataclass(frozen=True, eq=False)
class Screened:
    """Rows after all complaints, but those about an outcome of two classes, or one that is constant somewhere.

    rows : of the environments that are left; notes : about the others; merged : {label: new label}
    """

    rows: MomentsAccumulator
    outcome: str
    encoding: Encoding | None
    notes: tuple[str, ...]
    merged: Mapping[Hashable, Hashable]

    @property
    def outcome_kind(self) -> OutcomeKind:
        """As `invariance.data.outcome_kinds` tells it of the same rows in memory"""
        levels = self.rows.levels.get(self.outcome)
        if levels is not None:
            return OutcomeKind("classes", f"{self.outcome} has two values: {' and '.join(map(repr, levels.texts))}")
        j = self.rows.wide_columns.index(Column(self.outcome))
        parts = list(self.rows.parts.values())
        n, low = sum(part.n_rows for part in parts), float(min(part.minimum[j] for part in parts))
        high, means = float(max(part.maximum[j] for part in parts)), [part.centre[j] + part.rest[j] for part in parts]
        mean = sum(part.n_rows * m for part, m in zip(parts, means, strict=True)) / n
        between = sum(part.n_rows * (m - mean) ** 2 for part, m in zip(parts, means, strict=True))
        if at_two_values(n, low, high, mean, sum(part.scatter[j, j] for part in parts) + between):
            return OutcomeKind("classes", f"{self.outcome} has two values: {low:g} and {high:g}")
        return number_kind(self.outcome, n, low, high, mean, self.rows.whole_numbers.n_values)

    def moments(self, partial: bool = False) -> Moments:
        """partial : without the complaints of `Moments.checked`"""
        rows, encoding, features = self.rows, self.encoding, _features(self.rows, self.outcome)
        _check_numeric(rows, self.outcome)
        parts = rows.parts
        names, places, d = _places(rows.wide_columns, features, self.outcome, encoding)
        laid_out = (_in_places(part, places, d) for part in parts.values())
        moments = assembled(names, names.index(self.outcome), tuple(parts), laid_out)
        grouped = {} if encoding is None else dict(encoding.features.groups)
        moments = replace(moments, groups=grouped, encoding=encoding, dropped_rows=dict(rows.tally.dropped))
        moments = replace(moments, environment_notes=self.notes, merged=self.merged)
        if rows.outcome == self.outcome and not partial:
            moments = replace(moments, kind=self.outcome_kind)
        return moments if partial else moments.checked(rows.environment)


def _features(rows: MomentsAccumulator, outcome: str) -> tuple[str, ...]:
    return tuple(name for name in rows.columns if name != outcome)


def screened(
    rows: MomentsAccumulator,
    outcome: str,
    groups: Any,
    is_text: bool,
    choice: EnvironmentChoice = ALL_ENVIRONMENTS,
    partial: bool = False,
    excluded: Sequence[str] = (),
) -> Screened:
    """With the complaints that only all rows can justify; partial: of which some are elsewhere; excluded: columns that
    the user left out."""
    if outcome not in rows.columns:
        raise DataError(f"outcome column {outcome!r} is not among the columns; {nearest(outcome, rows.columns)}")
    features = _features(rows, outcome)
    choices = replace(rows.choices, groups=Choices.of(features, groups=groups).groups, excluded=tuple(excluded))
    _refuse_splines(choices)
    hollow = {} if partial else _one_valued(rows)
    rows, notes, merged = _regrouped(rows, choice)
    parts, columns = rows.parts, rows.wide_columns
    learner = Learner(features, choices)
    learner.tell(
        rows.tally.n_rows,
        {name: levels for name, levels in rows.levels.items() if name in features},
        {name: [level for column, level in columns if column == name and level is not None] for name in rows.levels},
        _learnt(parts, columns, features),
        {name: refusal for name, refusal in {**hollow, **rows.refused}.items() if name in features},
        {name for name, n in zip(rows.columns, rows.tally.missing, strict=True) if n == rows.tally.n_rows > 0},
        _row_numbers(parts, columns),
    )
    if len(getattr(rows.levels.get(outcome), "texts", ())) != _CLASSES:
        _check_numeric(rows, outcome)
    _check_stated(choices, parts, columns)
    learner.check()
    words = [name for name in rows.levels if is_text]
    rows.tally.complain(rows.columns, rows.environment, rows.missing, words, tuple(parts), features, excluded)
    for part in parts.values():
        check_scale([column.name for column in columns], part.minimum, part.maximum)
    small, more = choice.too_small(tuple(parts), _counts(parts), rows.tally.dropped)
    if small:
        rows = rows.relabelled({label: label for label in rows.environments if label not in small})
        learner.learn_of(_learnt(rows.parts, columns, features))
    rows.tally.tell_dropped(rows.columns, tuple(rows.parts), features, excluded)
    learner.warn()
    return Screened(rows, outcome, learner.encoding((outcome, rows.environment)), (*notes, *more), merged)


def _one_valued(rows: MomentsAccumulator) -> dict[str, Refusal]:
    """Columns with one value besides missing ones: they say nothing, and the rows that go for them cannot come back."""
    parts, found = rows.parts.values(), {}
    at = {name: place for place, (name, level) in enumerate(rows.wide_columns) if level is None}
    for j in np.flatnonzero(rows.tally.missing).tolist():
        name = rows.columns[j]
        if name in rows.levels:
            varies = len(rows.levels[name].texts) > 1
        else:
            ends = [(part.minimum[at[name]], part.maximum[at[name]]) for part in parts] if name in at else []
            varies = name not in at or rows.tally.vary(j, ends)
        if not varies:
            found[name] = Refusal(f"has one value only, which is missing in {rows_text(int(rows.tally.missing[j]))}")
    return found


def _regrouped(
    rows: MomentsAccumulator, choice: EnvironmentChoice
) -> tuple[MomentsAccumulator, tuple[str, ...], dict[Hashable, Hashable]]:
    """After environments were left out and merged; sentences about it, and {label: new label} of those merged"""
    if not choice.regroups:
        return rows, (), {}
    new, notes = choice.renamed(rows.environments, rows.counts)
    names = {name for name, _ in choice.merge}
    return rows.relabelled(new), notes, {label: name for label, name in new.items() if name in names}


def _counts(parts: Mapping[Hashable, Part]) -> Integers:
    return np.array([part.n_rows for part in parts.values()], np.int64)


def _refuse_splines(choices: Choices) -> None:
    for name in choices.splines:
        raise DataError(
            f"spline({name!r}) needs quantiles of all rows, which one look at rows that stay where they are does not "
            "give: use Moments.from_chunks(read_chunks(file, ...)), which reads the file twice."
        )


def _check_numeric(rows: MomentsAccumulator, outcome: str) -> None:
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
