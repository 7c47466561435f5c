"""How much the command line says, in what colours, and what it suggests."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from cli_runner import fails, run
from invariance import MultiEnvironmentData
from invariance.cli.main import app
from invariance.moments import Moments

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


def test_verbose_and_quiet(tmp_path: Path) -> None:
    usual, quiet, verbose = (run("demo", *options) for options in ([], ["--quiet"], ["--verbose"]))
    assert usual.stdout == quiet.stdout == verbose.stdout
    assert usual.stderr == quiet.stderr == ""
    assert verbose.stderr.startswith("note: finished after ")
    said = fails("demo", "--quiet", "--verbose")
    assert "--quiet and --verbose ask for opposite things" in said
    run("demo", "--csv", tmp_path / "t.csv")
    asked = ["--outcome", "blood_pressure", "--environment", "hospital"]
    told = run("fit", tmp_path / "t.csv", *asked, "-v").stderr.splitlines()
    assert told[0] == "note: read 600 rows, 8 features and 4 environments from t.csv"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_on_narrow_screens(command: str) -> None:
    shown = run(command, "--help").stdout
    assert "\n  Examples:\n" in shown
    assert f"    invariance {command} " in shown
    # The page has nothing to say beside its address.
    assert ("-q, --quiet" in shown) == ("-v, --verbose" in shown) == (command != "app")
    assert max(map(len, shown.splitlines())) <= 80


def test_nearest_command_and_option() -> None:
    assert fails("fti") == "error: No such command 'fti'. Did you mean 'fit'? Try 'invariance --help'."
    assert fails("zzzz") == "error: No such command 'zzzz'. Try 'invariance --help'."
    assert "No such option: --outcom. Did you mean --outcome?" in fails("fit", "t.csv", "--outcom", "y")
    assert "No such option: --zzzz. Try" in fails("fit", "t.csv", "--zzzz")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("invariance f", {"fit"}),
        ("invariance fit t.csv --miss", {"--missing"}),
        ("invariance fit t.csv --missing ", {"error", "drop"}),
        ("invariance fit t.csv --outcome", {"--outcome"}),
    ],
)
def test_completion(words: str, expected: set[str]) -> None:
    asked = {"_INVARIANCE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(run(**asked).stdout.split()) == expected


def test_completion_can_be_shown_and_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}

    def program(*arguments: str) -> str:
        line = [sys.executable, "-m", "invariance", *arguments]
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout

    assert "_INVARIANCE_COMPLETE=complete_bash" in program("--show-completion", "bash")
    program("--install-completion", "bash")
    assert any("_INVARIANCE_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_means_no_escape_sequences(no_color: bool) -> None:
    """On a terminal, of which both streams are one."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80"} | ({"NO_COLOR": "1"} if no_color else {})
    line = [sys.executable, "-m", "invariance", "fti"]
    process = subprocess.Popen(line, stdout=theirs, stderr=theirs, env=environment)
    assert process.wait() == 2
    os.close(theirs)
    said = os.read(ours, 10_000)
    os.close(ours)
    assert b"No such command" in said
    assert (b"\x1b" in said) != no_color


def test_moments_fit_a_screen() -> None:
    X = np.random.default_rng(0).normal(size=(300, 200))
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + X[:, 1], [f"site {i % 30}" for i in range(300)])
    shown = repr(Moments.from_data(data))
    assert shown.startswith("Moments(300 rows, 200 features, outcome 'y', environments 'site 0' (10 rows), ")
    assert len(shown) < 400
