"""`invariance check`: what is wrong with a table, and the command that fits it all the same."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from .console import for_shell, in_shell, messages, show
from .options import ENVIRONMENT, FileArgument, FileOptions, SpeechOptions, json_option, read_codes, read_names, setting


@dataclass(frozen=True, kw_only=True)
class CheckOptions(FileOptions, SpeechOptions):
    """A table, and what is known of its columns."""

    outcome: str | None = setting(None, "COL", "Column to predict.", False, "--outcome", "-o")
    environment: str | None = setting(None, "COL", "Column of environments.", False, *ENVIRONMENT)
    event: str | None = setting(None, "COL", "Column of 0 and 1: whether a time ended with the event.")
    exposure: str | None = setting(None, "COL", "Column of exposures of counts: years, persons.")
    weight: str | None = setting(None, "COL", "Column of how many rows each row counts as.")
    exclude: str | None = setting(None, "A,B,C", "Columns that are not features.")


def check(
    file: FileArgument, *, given: CheckOptions, json: Annotated[Path | None, json_option("the findings")] = None
) -> None:
    """List what is wrong with a table before it is fitted, and what mends it.

    Ends with the command that fits the table with the first remedy of each finding, unless something else has to be
    mended first.
    """
    with messages(given, json):
        from .._tools.sections import as_text
        from ..data.findings import check as look
        from ..data.settings import Columns
        from .outputs import Files, checked_outputs, deliver

        outputs = checked_outputs({"json": json}, file)
        roles = {name: getattr(given, name) for name in ("outcome", "environment", "event", "exposure")}
        columns = Columns(exclude=read_names(given.exclude), na=read_codes(given.na), weights=given.weight)
        found = look(given.open(file), **roles, columns=columns)
        files: Files = {"json": ("the findings", found.to_json)}
        deliver(as_text(found.sections, for_shell), outputs, files)
        if not found.is_refused:
            show(f"\nTo fit it:\n{_command(file, given, roles, found.settings)}")


def _command(file: Path, given: CheckOptions, roles: dict[str, str | None], settings: Any) -> str:
    """What fits the table, in one line"""
    from ..data.labels import level_of

    stated = {name: getattr(given, name) for name in ("sep", "decimal", "encoding", "sheet", "thousands")}
    codes = [f"{name}={level_of(code)}" for name, found in settings.get("na", {}).items() for code in found]
    stated = {**roles, **stated, **settings, "na": [*dict.fromkeys([*read_names(given.na), *codes])]}
    names = ("outcome", "OUTCOME"), ("environment", "ENVIRONMENT")
    stated |= {name: word for name, word in names if stated[name] is None}
    options = [in_shell(name, value) for name, value in stated.items() if value not in (None, [], {})]
    return " ".join(["invariance fit", shlex.quote(str(file)), *options])
