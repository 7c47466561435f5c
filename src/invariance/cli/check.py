"""`invariance check`: what is wrong with a table, and the command that fits it all the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tools.text import wrap
from ..exceptions import SettingError
from .console import for_shell, in_shell, messages, show
from .options import (
    ENVIRONMENT,
    STANDARD_INPUT,
    FileArgument,
    FileOptions,
    FitOptions,
    ResultOptions,
    read_codes,
    read_names,
    setting,
    write_codes,
)

if TYPE_CHECKING:
    from ..data.check import DataCheck

Roles = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(FileOptions, ResultOptions):
    """A table, and what is known of its columns."""

    outcome: str | None = setting(None, "COL", "Column to predict.", False, "--outcome", "-o")
    environment: str | None = setting(None, "COL", "Column of environments.", False, *ENVIRONMENT)
    event: str | None = setting(
        None, "COL", "Column of 0 and 1: whether a time ended with the event."
    )
    exposure: str | None = setting(None, "COL", "Column of exposures of counts: years, persons.")
    weight: str | None = setting(None, "COL", "Column of how many rows each row counts as.")
    exclude: str | None = setting(None, "A,B,C", "Columns that are not features.")


def check(
    file: FileArgument,
    *,
    given: CheckOptions,
) -> None:
    """List what is wrong with a table before it is fitted, and what mends it.

    Ends with the command that fits the table with the first remedy of each finding. The command has
    been tried: it reads the table and begins the fit. If something else has to be mended first,
    that is said in its place.
    """
    with messages(given):
        from .._tools.sections import as_text
        from ..data.check import examine
        from ..data.settings import Columns
        from .inputs import try_fit
        from .outputs import checked_outputs, deliver

        outputs = checked_outputs({"json": given.json}, file)
        roles = {
            name: getattr(given, name) for name in ("outcome", "environment", "event", "exposure")
        }
        columns = Columns(
            exclude=read_names(given.exclude), na=read_codes(given.na), weights=given.weight
        )
        table = given.open(file)

        def attempt(settings: Mapping[str, Any]) -> None:
            try_fit(file, parsed(_command(file, given, roles, settings)), table.content)

        found = examine(table, roles, columns, attempt=attempt)
        deliver(as_text(found.sections, for_shell), outputs, {"json": found.to_json})
        show(f"\n{_last(found, file, given, roles)}")


def _last(found: DataCheck, file: Path, given: CheckOptions, roles: Roles) -> str:
    """The command that fits the table, or what is in the way of each that was tried."""
    if found.is_refused:
        refused = " ".join(for_shell(finding.message) for finding in found.refusals)
        return "\n".join(
            wrap(f"No command is proposed: the last one that was tried is refused. {refused}")
        )
    chosen = [role for role in ("outcome", "environment") if roles[role] is None]
    asks = any(finding.asks for finding in found.findings)
    first = f"To fit it{' (the questions above are left open)' if asks else ''}"
    first += f", with the column of the {' and of the '.join(chosen)}" if chosen else ""
    return f"{first}:\n{_command(file, given, roles, found.settings)}"


def _command(file: Path, given: CheckOptions, roles: Roles, settings: Mapping[str, Any]) -> str:
    """Return the command that fits the table, in one line."""
    from .inputs import needs_whole

    stated = {
        name: getattr(given, name) for name in ("sep", "decimal", "encoding", "sheet", "thousands")
    }
    codes = write_codes(settings.get("na", {}))
    stated = {
        **roles,
        **stated,
        **settings,
        "na": [*dict.fromkeys([*read_names(given.na), *codes])],
    }
    names = ("outcome", "OUTCOME"), ("environment", "ENVIRONMENT")
    stated |= {name: word for name, word in names if stated[name] is None}
    path = f"./{file}" if str(file).startswith("-") and file != STANDARD_INPUT else str(file)
    options = [
        in_shell(name, value) for name, value in stated.items() if value not in (None, [], {})
    ]
    command = " ".join(["invariance fit", shlex.quote(path), *options])
    return f"{command} --no-stream" if needs_whole(file, parsed(command)) else command


def parsed(command: str) -> FitOptions:
    """The options of `invariance fit` as its own parser reads a line."""
    from typer.main import get_command

    from .main import app

    commands: Any = get_command(app)
    try:
        given = commands.commands["fit"].make_context("fit", shlex.split(command)[2:]).params
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise SettingError(str(error.format_message())) from None
    return FitOptions(**{each.name: given[each.name] for each in fields(FitOptions)})
