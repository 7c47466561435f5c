"""The page that `invariance fit` writes, with other methods beside it where that is asked for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import FileError
from .advice import comparison_for_command_line, for_command_line
from .console import show
from .outputs import save
from .streaming import Named, form_of

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..estimators.bip import BIP
    from ..moments.moments import Moments
    from ..report.subject import Source
    from .inputs import TableOptions

# Under which the context of a command keeps what was typed.
TYPED = "typed"


# What stands for a table that is no file, in lines that read it again.
_SAVED = Path("table.csv")
_PIPED = f"The table came by standard input: save it as {_SAVED} first."
_SEVERAL = f"The table came in several files: save all rows as {_SAVED} first."


def again(
    named: Named,
    outcome: str,
    environment: str,
    table: TableOptions,
    data: MultiEnvironmentData | Moments,
    typed: Sequence[str],
) -> Source:
    """Where the rows of the data came from; typed : the command"""
    from ..moments.moments import Moments
    from ..report.subject import Source

    columns, command = {"outcome": outcome, "environment": environment}, shlex.join(["invariance", *typed])
    worded = for_command_line
    if isinstance(data, Moments):
        form = {name: value for name, value in form_of(table).items() if value}
        reading = {name: value for name, value in table.reading().items() if value is not None}
        return Source({"rows": named.rows, **columns, **reading, **form}, command if typed else "", worded)
    file = named.file if not named.is_piped else None
    remark = "" if file is not None else _PIPED if named.is_piped else _SEVERAL
    rows = {"table": _SAVED if file is None else table.stated(file), **columns, **table.reading()}
    return Source(rows, command if typed else "", worded, remark)


def check_compared(methods: str | None, report: Path | None) -> None:
    """Refuse, before any long computation, methods that nobody knows, or that have no page to stand on."""
    if methods is None:
        return
    if report is None:
        raise FileError("--compare adds a section to a report: add --report report.html")
    from ..baselines.comparison import named_methods

    named_methods(methods, 1)


def write_page(
    path: Path,
    model: BIP,
    data: MultiEnvironmentData | Moments,
    methods: str | None,
    source: Source,
) -> None:
    """methods : to compare with, or None"""
    comparison = None
    if methods is not None:
        from ..baselines.comparison import compare
        from ..data.multi_environment import MultiEnvironmentData

        assert isinstance(data, MultiEnvironmentData)

        comparison = comparison_for_command_line(compare(data, methods, model))
    save(path, lambda temporary: model.report(temporary, comparison, source))
    show(f"\nSaved the report to {path}")
