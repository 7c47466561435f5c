"""The page that `invariance fit` writes, with other methods beside it where that is asked for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...exceptions import OutputError
from .advice import comparison_for_command_line, for_command_line
from .console import show
from .options import STANDARD_INPUT
from .outputs import save

if TYPE_CHECKING:
    from ...data.multi_environment import MultiEnvironmentData
    from ...estimators.bip import BIP

# Under which the context of a command keeps what was typed.
TYPED = "typed"


# What stands for a table that came by standard input, in lines that read it again.
_SAVED = Path("table.csv")
_PIPED = f"The table came by standard input: save it as {_SAVED} first."


def is_piped(file: Path) -> bool:
    return str(file) == STANDARD_INPUT


def as_saved(file: Path) -> Path:
    """The file, or the one that a table from standard input is to be saved as."""
    return _SAVED if is_piped(file) else file


def check_compared(methods: str | None, report: Path | None) -> None:
    """Refuse, before any long computation, methods that nobody knows, or that have no page to stand on."""
    if methods is None:
        return
    if report is None:
        raise OutputError("--compare adds a section to a report: add --report report.html")
    from ...comparison.comparison import named_methods

    named_methods(methods, 1)


def write_page(
    path: Path,
    model: BIP,
    data: MultiEnvironmentData,
    methods: str | None,
    table: dict[str, Any],
    typed: Sequence[str],
    piped: bool = False,
) -> None:
    """methods : to compare with, or None; table : as `MultiEnvironmentData.from_table` takes it; typed : the command;
    piped : whether the table came by standard input"""
    from ...report.subject import Source

    comparison = None
    if methods is not None:
        from ...comparison.comparison import compare

        comparison = comparison_for_command_line(compare(data, methods, model))
    command, remark = shlex.join(["invariance", *typed]) if typed else "", _PIPED if piped else ""
    source = Source(table, command, for_command_line, remark)
    save(path, lambda temporary: model.report(temporary, comparison, source))
    show(f"\nSaved the report to {path}")
