"""What the user says about the columns: which to leave out, which are categories or numbers, which enter together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError, SettingError
from .checks import nearest, quoted
from .columns import as_text

FEWEST_KNOTS = 3
_OUTER_QUANTILES = 0.05, 0.95


@dataclass(frozen=True)
class Numbers:
    """The column as it is."""

    column: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column,)

    def encode(self, values: Floats) -> Floats:
        """(N, 1) from (N,)"""
        return values[:, None]


@dataclass(frozen=True)
class Dummies:
    """For each level but the first, the reference, whether a row has it. A single level makes one constant column.

    absent : levels that no row has
    """

    column: str
    levels: tuple[str, ...]
    absent: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={level}" for level in self.levels[self._first :])

    @property
    def note(self) -> str:
        """Empty where there is nothing to compare."""
        if len(self.occurring) < 2:
            return ""
        nowhere = ", which no row has" if self.levels[0] in self.absent else ""
        return f"{self.column}: {len(self.occurring)} levels, compared with {self.levels[0]!r}{nowhere}"

    @property
    def occurring(self) -> tuple[str, ...]:
        return tuple(level for level in self.levels if level not in self.absent)

    def encode(self, codes: Floats) -> Floats:
        """(N, number of levels − 1) from positions in `levels` (N,)"""
        return (codes[:, None] == np.arange(self._first, len(self.levels))).astype(float)

    def decode(self, dummies: Mapping[str, Floats]) -> Floats:
        """(N,) positions in `levels`; the columns of absent levels may be missing"""
        places = {name: k for k, name in enumerate(self.names, self._first)}
        return np.column_stack(list(dummies.values())) @ np.array([places[name] for name in dummies], dtype=float)

    @property
    def _first(self) -> int:
        return 1 if len(self.levels) > 1 else 0


@dataclass(frozen=True)
class SplineBasis:
    """A natural cubic spline: the column itself and, for all but two of the knots, a curve that is linear beyond the
    outer knots. In the units of the column."""

    column: str
    knots: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column, *(f"{self.column}~{j}" for j in range(2, len(self.knots))))

    @property
    def note(self) -> str:
        return f"{self.column}: natural cubic spline with knots at {', '.join(f'{knot:.4g}' for knot in self.knots)}"

    def encode(self, values: Floats) -> Floats:
        """(N, number of knots − 1) from (N,)"""
        knots = np.array(self.knots)
        *inner, last_but_one, last = knots
        span = last - knots[0]
        inside = np.clip(values, knots[0], last)

        def truncated(knot: float) -> Floats:
            return np.maximum(inside - knot, 0.0) ** 3 / (last - knot)

        beyond = np.maximum(values - last, 0.0)
        curves = [
            (truncated(knot) - truncated(last_but_one) + 3.0 * (last_but_one - knot) * beyond) / span for knot in inner
        ]
        return np.column_stack([values, *curves])


Term = Numbers | Dummies | SplineBasis


@dataclass(frozen=True, repr=False)
class Spline:
    """A natural cubic spline of one column, whose knots are not placed yet; see `spline`."""

    column: str
    knots: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise SettingError(f"spline({self.column!r}) needs the name of a column: spline('age', knots=4).")
        if isinstance(self.knots, bool) or not isinstance(self.knots, int | np.integer) or self.knots < FEWEST_KNOTS:
            raise SettingError(
                f"spline({self.column!r}, knots={self.knots!r}): knots must be a whole number, {FEWEST_KNOTS} or more."
            )

    def __repr__(self) -> str:
        return f"spline({self.column!r}, knots={self.knots!r})"

    def fitted(self, values: Floats) -> SplineBasis:
        """With knots at quantiles of the values (N,), equally spaced from 5% to 95%."""
        possible = self.possible(values)
        if possible is not None and len(possible.knots) == self.knots:
            return possible
        remedy = "use the column as it is"
        if possible is not None:
            remedy = f"use spline({self.column!r}, knots={len(possible.knots)})"
        raise DataError(
            f"spline({self.column!r}, knots={self.knots}) cannot place its knots at different values, because too many "
            f"rows of {self.column!r} share theirs: {remedy}."
        )

    def possible(self, values: Floats) -> SplineBasis | None:
        """As `fitted`, with fewer knots where too many of the values (N,) are the same; None where 3 are too many."""
        for n in range(int(self.knots), FEWEST_KNOTS - 1, -1):
            knots = _knots(values, n)
            if knots is not None:
                return SplineBasis(self.column, tuple(knots.tolist()))
        return None


def spline(column: str, knots: int = 4) -> Spline:
    """A natural cubic spline of a column, for `groups=`: its knots − 1 columns enter and leave together.

    Knots are at quantiles of all rows, equally spaced from 5% to 95%; the curve is linear beyond the outer ones.

    >>> from invariance import BIP, spline
    >>> BIP(groups=[spline("age", knots=4)]).groups
    [spline('age', knots=4)]
    """
    return Spline(column, knots)


def _knots(values: Floats, n: int) -> Floats | None:
    """(n,) quantiles; None where they do not differ, or the values do not take as many."""
    knots = np.quantile(values, np.linspace(*_OUTER_QUANTILES, n))
    return knots if (np.diff(knots) > 0.0).all() and len(np.unique(values)) >= n else None


Member = str | Spline


@dataclass(frozen=True)
class Choices:
    """categorical: columns whose values are levels, whatever they look like; levels: those of some of them, where the
    user lists them; numeric: columns whose text is read as numbers; groups: {feature: what its columns are made of};
    excluded: what is left out. Columns that are in none of them speak for themselves."""

    categorical: frozenset[str] = frozenset()
    numeric: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        categorical: Any = "auto",
        numeric: Any = (),
        groups: Any = None,
        exclude: Sequence[str] = (),
    ) -> Choices:
        """Checked against the columns that may be features."""
        named = () if isinstance(categorical, str) and categorical == "auto" else categorical
        choices = cls(
            frozenset(known_columns("categorical", named, columns)),
            frozenset(known_columns("numeric", numeric, columns)),
            _groups(groups, columns),
            _levels(categorical) if isinstance(categorical, Mapping) else {},
            tuple(map(str, exclude)),
        )
        both = choices.categorical & choices.numeric
        if both:
            raise SettingError(
                f"{quoted(sorted(both))} is both in categorical= and in numeric=: name it in one of them."
            )
        return choices

    @property
    def splines(self) -> dict[str, Spline]:
        """{column: its spline}"""
        members = (member for group in self.groups.values() for member in group)
        return {member.column: member for member in members if isinstance(member, Spline)}


def listed_names(setting: str, names: Any) -> list[str]:
    """The names as text."""
    if isinstance(names, str):
        listed = [part.strip() for part in names.split(",")]
        raise SettingError(f"{setting}={names!r} is a single string: pass a list of names, {setting}={listed!r}.")
    if not isinstance(names, Iterable):
        raise SettingError(f"{setting}={names!r} is not a list of column names: pass {setting}=['name', ...].")
    return [str(name) for name in names]


def known_columns(setting: str, names: Any, columns: Sequence[str]) -> list[str]:
    """The names as text, each one of the columns."""
    chosen = listed_names(setting, names)
    for name in chosen:
        _check_known(f"{setting}={chosen!r}", name, columns)
    return chosen


def excluding(exclude: Any, names: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """The names without those to exclude, which must be among the available columns."""
    left_out = known_columns("exclude", exclude, available)
    left = tuple(name for name in names if name not in left_out)
    if not left:
        raise DataError(f"exclude={left_out!r} leaves no feature column: leave one in.")
    return left


def _check_known(setting: str, name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise DataError(f"{setting}: {name!r} is not among the feature columns; {nearest(name, columns)}")


def _levels(listed: Mapping[Any, Any]) -> dict[str, tuple[str, ...]]:
    """{column: its levels as text, the first of which is the reference}"""
    levels: dict[str, tuple[str, ...]] = {}
    for name, values in listed.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SettingError(
                f"categorical: {str(name)!r} is {values!r}; pass a list of levels, "
                f"categorical={{{str(name)!r}: ['a', 'b']}}."
            )
        texts = tuple(map(as_text, values))
        if not texts or len(set(texts)) < len(texts):
            wrong = "twice the same level" if texts else "no levels"
            raise SettingError(f"categorical: {str(name)!r} lists {wrong}: list each of them once.")
        levels[str(name)] = texts
    return levels


def _groups(groups: Any, columns: Sequence[str]) -> dict[str, tuple[Member, ...]]:
    if groups is None:
        return {}
    if isinstance(groups, Spline):
        groups = [groups]
    if isinstance(groups, Iterable) and not isinstance(groups, Mapping | str):
        groups = _named_by_their_columns(list(groups))
    if not isinstance(groups, Mapping):
        raise SettingError(
            "groups must be a mapping from names to columns, groups={'region': ['r1', 'r2']}, or a list of terms, "
            "groups=[spline('age', knots=4)]."
        )
    parsed = {str(name): _members(str(name), members, columns) for name, members in groups.items()}
    owners: dict[str, str] = {}
    for name, members in parsed.items():
        for column in map(column_of, members):
            if column in owners:
                raise SettingError(f"groups: column {column!r} is in {owners[column]!r} and in {name!r}; name it once.")
            owners[column] = name
    for name in parsed:
        if name in columns and owners.get(name) != name:
            raise SettingError(
                f"groups: {name!r} is also the name of a column outside that group: choose another name."
            )
    return parsed


def _named_by_their_columns(terms: list[Any]) -> dict[str, Spline] | None:
    """{column: its term}; None where some are no terms"""
    if not all(isinstance(term, Spline) for term in terms):
        return None
    named: dict[str, Spline] = {}
    for term in terms:
        if named.setdefault(term.column, term) is not term:
            raise SettingError(f"groups has two terms of the column {term.column!r}: keep one of them.")
    return named


def _members(name: str, members: Any, columns: Sequence[str]) -> tuple[Member, ...]:
    if isinstance(members, Spline):
        members = [members]
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise SettingError(f"groups: {name!r} is {members!r}; pass a list of columns, groups={{{name!r}: ['a', 'b']}}.")
    parsed = tuple(member if isinstance(member, Spline) else str(member) for member in members)
    if not parsed:
        raise SettingError(f"groups: {name!r} has no columns; name some, or leave the group out.")
    for member in parsed:
        _check_known(f"groups: {name!r}", column_of(member), columns)
    return parsed


def column_of(member: Member) -> str:
    return member.column if isinstance(member, Spline) else member
