"""What a shell completes: columns of the table that is named on the line, and names that an option
takes. A text file's first line is read, and no more."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

TYPED = "typed"  # in the context of a command: its name and arguments
_TEXT = (".csv", ".tsv", ".txt")
_BINARY = (".parquet", ".xlsx")
Complete = Callable[[typer.Context, str], list[str]]


def one_of(*names: str) -> Complete:
    return lambda ctx, incomplete: _for_shell(names)


def several_of(*names: str) -> Complete:
    return lambda ctx, incomplete: _further(names, incomplete)


def column(context: typer.Context, incomplete: str) -> list[str]:
    return _for_shell(_columns(context))


def columns(context: typer.Context, incomplete: str) -> list[str]:
    return _further(_columns(context), incomplete)


def _further(names: Iterable[str], incomplete: str) -> list[str]:
    """Lists as they are typed: what is there before the last comma, and one more name."""
    before, comma, _ = incomplete.rpartition(",")
    return _for_shell((name for name in names if name not in before.split(",")), before + comma)


def _for_shell(names: Iterable[str], before: str = "") -> list[str]:
    """Bash inserts them as they are; other shells escape blanks themselves."""
    in_bash = os.environ.get("_INVARIANCE_COMPLETE", "").endswith("bash")
    return [
        before + (re.sub(r"([^\w.,+=:@%-])", r"\\\1", name) if in_bash else name) for name in names
    ]


def _columns(context: typer.Context) -> list[str]:
    """Return the columns of the first argument that is a table or a folder of tables.

    Empty if it cannot be read: prompts stay clean.
    """
    for argument in context.meta[TYPED][1:]:
        path = Path(argument).expanduser()
        path = (
            next((file for file in sorted(path.iterdir()) if _is_table(file)), path)
            if path.is_dir()
            else path
        )
        if path.is_file() and _is_table(path):
            with suppress(Exception):
                return _names(path, context.params.get("sep"), context.params.get("encoding"))
    return []


def _is_table(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((*_TEXT, *_BINARY))


def _names(path: Path, sep: str | None, encoding: str | None) -> list[str]:
    if path.suffix in _BINARY:
        from ..data.reading import TableFile, column_names

        return column_names(TableFile(path))
    with (gzip.open if path.suffix == ".gz" else open)(
        path, "rt", encoding=encoding or "utf-8-sig"
    ) as lines:
        line = lines.readline()
    sign = "\t" if sep == "tab" else sep or max("\t;|,", key=line.count)
    return [name.strip() for name in next(csv.reader([line], delimiter=sign)) if name.strip()]
