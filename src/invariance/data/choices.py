"""What the user says about the columns: which to leave out, which are categories or numbers, which enter together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..exceptions import DataError, SettingError
from .checks import nearest, quoted
from .levels import as_text
from .terms import Spline

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
