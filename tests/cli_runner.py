"""Run the command line inside the test process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from invariance.faces.cli.main import app

PLAIN = {"FORCE_COLOR": None, "NO_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "80"}


def run(*arguments: object, **env: str) -> Result:
    return CliRunner(env={**PLAIN, **env}).invoke(app, [str(a) for a in arguments], prog_name="invariance")


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
