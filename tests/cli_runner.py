"""Run the command line inside the test process."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from typer.testing import CliRunner, Result

from invariance.cli.main import app

PLAIN = {"FORCE_COLOR": None, "NO_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "80"}


def run(*arguments: object, **env: str) -> Result:
    return CliRunner(env={**PLAIN, **env}).invoke(
        app, [str(a) for a in arguments], prog_name="invariance"
    )


def fails(*arguments: object) -> str:
    """The message of a command that must be refused: one line, exit code 2, nothing else."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return " ".join(result.stderr.split())


def parts_of(table: pd.DataFrame, rows: int, folder: Path) -> Path:
    """A new folder, with so many rows of the table in each file."""
    folder.mkdir()
    for k in range(-(-len(table) // rows)):
        table[k * rows : (k + 1) * rows].to_csv(folder / f"part-{k}.csv", index=False)
    return folder
