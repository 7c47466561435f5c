"""The form of the page, read as the options of `invariance fit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cli.options import FitOptions, Missing, write_names
from ..exceptions import SettingError
from .session import Fields

_MOST_DIGITS = 18


def read_choices(form: Fields, columns: Sequence[str], rest: Iterable[str], written: Mapping[str, Any]) -> FitOptions:
    """form : columns are named by their positions; rest : columns that one tick stands for; written : how the file is,
    as `FileOptions` has it"""
    given = {name: value.strip() for name, value in form.items()}

    def column(position: str) -> str | None:
        place = place_in(columns, position)
        return None if place is None else columns[place]

    roles = {role: column(given.get(role, "")) for role in ("outcome", "environment", "event", "exposure")}
    for role in ("outcome", "environment"):
        if roles[role] is None:
            raise SettingError(f"Choose the column of the {role}.")
    ticked = {*map(column, form.getlist("feature")), *(rest if "rest" in given else ())}
    others = [name for name in columns if name not in roles.values()]
    features = [name for name in others if name in ticked]
    if not features:
        raise SettingError("Tick at least one feature that is neither the outcome nor the environment.")
    read_as: dict[str, list[str]] = {"category": [], "number": []}
    for position, name in enumerate(columns):
        kind = given.get(f"as{position}")
        if kind and name in roles.values():
            raise SettingError(f"'Read as' is for features, and {name!r} is none: choose 'it is' in its line.")
        if kind and name in features:
            read_as[kind].append(name)
    words: dict[str, Any] = {name: given[name] for name in ("family", "prior", "engine", "select") if given.get(name)}
    return FitOptions(
        **written,
        **words,
        outcome=str(roles["outcome"]),
        environment=str(roles["environment"]),
        event=roles["event"],
        exposure=roles["exposure"],
        features=None if features == others else write_names(features),
        categorical=write_names(read_as["category"]) or None,
        numeric=write_names(read_as["number"]) or None,
        missing=Missing.drop if "drop_missing" in given else Missing.error,
        min_rows=_whole(given, "min_rows", "Fewest rows of an environment") or 0,
        drop_environment=given.get("drop_environment") or None,
        merge=given.get("merge") or None,
        max_size=_whole(given, "max_size", "Most features in a subset"),
        strict="strict" in given,
        seed=_whole(given, "seed", "Seed") or 0,
    )


def place_in(columns: Sequence[Any], position: str) -> int | None:
    """Of a column whose position was sent, if there is one."""
    sent = int(position) if position.isdecimal() and len(position) <= _MOST_DIGITS else len(columns)
    return sent if sent < len(columns) else None


def _whole(given: Mapping[str, str], name: str, label: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise SettingError(f"{label}: {text[:40]!r} is no whole number from 0 to {10**_MOST_DIGITS}.")
    return int(text)
