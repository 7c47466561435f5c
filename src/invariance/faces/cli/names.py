"""Lists of names as one argument of a shell: a,b,c, or a+b=c for what becomes one environment; a name that holds such
signs, or outer blanks, in double quotes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from ...exceptions import SettingError

_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*?))\s*(?:,|$)')

_LABEL = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,+="]*?))\s*(?P<next>[,+=]|$)')


def read_names(text: str | None) -> list[str]:
    """The names in an argument; empty ones, without quotes, are left out."""
    names, position = [], 0
    while text and position < len(text):
        match = _NAME.match(text, position)
        assert match is not None
        names.append(_unquoted(match))
        position = match.end()
    return [name for name in names if name]


def write_names(names: Iterable[str]) -> str:
    """The argument that `read_names` takes apart into these names."""
    return ",".join(map(_written, names))


def read_merges(text: str | None) -> dict[Hashable, list[str]]:
    """{new label: labels} of an argument a+b=c,d+e=f"""
    if not text:
        return {}
    labels, signs, position = [], "", 0
    while position < len(text) and (match := _LABEL.match(text, position)) is not None:
        labels.append(_unquoted(match))
        signs, position = signs + match["next"], match.end()
    well_formed = re.fullmatch(r"\++=(,\++=)*", signs) and len(labels) == len(signs) + 1
    if position < len(text) or not all(labels) or not well_formed:
        raise SettingError(
            f"cannot read --merge {text!r}: write a+b=c, or a+b=c,d+e=f, with the new label last; a label that holds "
            "a comma, + or = goes in double quotes."
        )
    merges: dict[Hashable, list[str]] = {}
    rest = iter(labels)
    for group in signs.split(","):
        members = [next(rest) for _ in group]
        name = next(rest)
        if name in merges:
            raise SettingError(f"--merge {text!r} makes {name!r} twice: write all its labels before one = sign.")
        merges[name] = members
    return merges


def _unquoted(match: re.Match[str]) -> str:
    quoted: str | None = match["quoted"]
    return str(match["plain"]) if quoted is None else quoted.replace('""', '"')


def _written(name: str) -> str:
    if "," in name or name.startswith('"') or name != name.strip():
        doubled = name.replace('"', '""')
        return f'"{doubled}"'
    return name
