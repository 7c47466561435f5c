"""Lists of columns as one argument of a shell: a,b,c; a name with a comma or outer blanks in double quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*?))\s*(?:,|$)')


def read_names(text: str | None) -> list[str]:
    """The names in an argument; empty ones, without quotes, are left out."""
    names, position = [], 0
    while text and position < len(text):
        match = _NAME.match(text, position)
        assert match is not None
        names.append(match["plain"] if match["quoted"] is None else match["quoted"].replace('""', '"'))
        position = match.end()
    return [name for name in names if name]


def write_names(names: Iterable[str]) -> str:
    """The argument that `read_names` takes apart into these names."""
    return ",".join(map(_written, names))


def _written(name: str) -> str:
    if "," in name or name.startswith('"') or name != name.strip():
        doubled = name.replace('"', '""')
        return f'"{doubled}"'
    return name
