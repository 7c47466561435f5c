"""Options, their groups and their help."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from cli_runner import fails, run
from invariance import BIP, MultiEnvironmentData, Tempering, Tolerance, __version__
from invariance.cli import options
from invariance.cli.main import app
from invariance.cli.options import Command, ModelOptions, read_merges, read_names, setting, with_option_groups
from invariance.decisions.rules import RULES, Threshold
from invariance.exceptions import SettingError
from invariance.inference.registry import ENGINES
from invariance.models.registry import FAMILIES, SHORT
from invariance.priors.priors import PRIORS

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Journey:
    to: str = setting(..., "TOWN", "Where to.")
    days: int = setting(3, "N", "How long.", True, rare=True, min=1)


@dataclass(frozen=True)
class LongJourney(Journey):
    days: int = setting(30, "N", "How long.", True, rare=True, min=1)


def said(group: type, *arguments: str) -> str:
    program = typer.Typer(rich_markup_mode=None)

    def travel(who: str, journey: group, alone: bool = False) -> None:  # type: ignore[valid-type]
        typer.echo(f"{who} {journey} {alone}")

    travel.__annotations__["journey"] = group
    program.command(cls=Command)(with_option_groups(travel))
    result = CliRunner().invoke(program, arguments)
    return " ".join((result.stdout + result.stderr).split())


def test_a_command_gets_its_group() -> None:
    assert said(Journey, "Ada", "--to", "Rome", "--days", "5") == "Ada Journey(to='Rome', days=5) False"
    assert said(Journey, "Ada", "--to", "Rome", "--alone") == "Ada Journey(to='Rome', days=3) True"
    assert said(LongJourney, "Ada", "--to", "Rome") == "Ada LongJourney(to='Rome', days=30) False"
    assert "'--days'" in said(Journey, "Ada", "--to", "Rome", "--days", "0")


def test_rare_options_are_listed_by_help_all() -> None:
    assert "--days" not in said(Journey, "--help")
    assert "--help-all" in said(Journey, "--help")
    assert re.search(r"Further options: --days N +How long. +\[default: 3\]", said(Journey, "--help-all"))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_short_and_complete(command: str) -> None:
    shown, everything = (run(command, option).stdout for option in ("--help", "--help-all"))
    assert run(command, "-h").stdout == shown
    for text in (shown, everything):
        assert f"\n  Examples:\n    invariance {'fit table' if command == 'predict' else command}" in text
        assert max(map(len, text.splitlines())) <= 80
    assert len(shown.splitlines()) <= (72 if command == "compare" else 60)
    hidden = {"--event", "--exposure"} if command == "sweep" else set()
    listed = {name for option in COMMANDS[command].params for name in option.opts if name.startswith("--")}
    assert {name for name in listed if name not in everything} == hidden


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (options._FAMILY, set(FAMILIES) - set(SHORT.values())),
        (options._ENGINE, {"auto", *ENGINES}),
        (options.PRIOR, PRIORS.forms),
        (options._SELECT, RULES),
    ],
)
def test_help_names_every_member(text: str, names: Any) -> None:
    assert all(name in text for name in names)


def test_help_states_the_defaults() -> None:
    text = " ".join(run("fit", "--help-all", COLUMNS="300").stdout.split())
    for name in ("delta", "tau", "level", "weak_level"):
        default = getattr(Tolerance(), name)
        assert re.search(rf"--{name.replace('_', '-')} .*?\[default: {default:g}\b", text)
    assert f"{Tolerance.strict().level:g} with --strict" in text
    assert f"[default: {Tempering().chains}]" in text
    assert f"[default: {Tempering().steps}]" in text


def test_start() -> None:
    assert run().stdout == run("--help").stdout
    assert run("--version").stdout == f"invariance {__version__}\n"
    assert fails("fti") == "error: No such command 'fti'. Did you mean 'fit'? Try 'invariance --help'."
    assert "--outcome" in fails("fit", "t.csv", "--outcom", "y")
    assert "--environment" in fails("fit", "t.csv", "--outcome", "y")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("invariance f", {"fit"}),
        ("invariance fit t.csv --miss", {"--missing"}),
        ("invariance fit t.csv --missing ", {"error", "drop"}),
    ],
)
def test_completion(words: str, expected: set[str]) -> None:
    asked = {"_INVARIANCE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(run(**asked).stdout.split()) == expected


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8")


@pytest.mark.integration
def test_python_m_is_the_same(tmp_path: Path) -> None:
    missing = python("-m", "invariance", "fit", str(tmp_path / "none.csv"), "--outcome", "y", "--environment", "e")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("error: ")
    assert "none.csv" in missing.stderr
    ascii_only = "import sys; sys.stdout.reconfigure(encoding='ascii'); from invariance.__main__ import main; main()"
    assert "The true subset" in python("-c", ascii_only, "demo").stdout


@pytest.mark.integration
def test_help_loads_no_heavy_library() -> None:
    code = """
import atexit, sys
heavy = {"numpy", "scipy", "sklearn", "pandas", "numba", "matplotlib", "narwhals", "rich", "uvicorn"}
atexit.register(lambda: print("loaded:", sorted(heavy & set(sys.modules))))
from invariance.__main__ import main
main()
"""
    assert python("-c", code, "fit", "--help").stdout.endswith("loaded: []\n")


@pytest.mark.integration
@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_means_no_escape_sequences(no_color: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80"} | ({"NO_COLOR": "1"} if no_color else {})
    line = [sys.executable, "-m", "invariance", "fti"]
    assert subprocess.run(line, stdout=theirs, stderr=theirs, env=environment).returncode == 2
    os.close(theirs)
    said = os.read(ours, 10_000)
    os.close(ours)
    assert b"No such command" in said
    assert (b"\x1b" in said) != no_color


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, []),
        (" , ", []),
        ("a, b c ,d", ["a", "b c", "d"]),
        ('"region, of origin", b', ["region, of origin", "b"]),
        ('" date ",b', [" date ", "b"]),
        ('5" pipe,b', ['5" pipe', "b"]),
        ('"say ""so"", then",b', ['say "so", then', "b"]),
        ('"half,b', ['"half', "b"]),
        ('"a" b,c', ['"a" b', "c"]),
        ("a,,b,", ["a", "b"]),
    ],
)
def test_names_in_an_argument(text: str | None, names: list[str]) -> None:
    assert read_names(text) == names


@pytest.mark.parametrize(
    ("text", "merges"),
    [
        (None, {}),
        ("a+b=c", {"c": ["a", "b"]}),
        (" a + b c =d , e+f+g=e", {"d": ["a", "b c"], "e": ["e", "f", "g"]}),
        ('"a, b"+"c+d"="e=f"', {"e=f": ["a, b", "c+d"]}),
        ('"say ""so"""+b=c', {"c": ['say "so"', "b"]}),
    ],
)
def test_merges_in_an_argument(text: str | None, merges: dict[str, list[str]]) -> None:
    assert read_merges(text) == merges


@pytest.mark.parametrize(
    "text", ["a", "a+b", "a=b", "a+b=c,", "a+=c", "+b=c", "a+b=", "a+b=c=d", 'a+"b=c', "a+b=c+d=e", "a+b=c,d+e=c"]
)
def test_merges_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SettingError, match="--merge"):
        read_merges(text)


@pytest.mark.parametrize("option", [("--exclude", "a"), ("--merge", "a+b=c"), ("--outcome", "b")])
def test_no_option_is_given_twice(option: tuple[str, str]) -> None:
    given = ("fit", "t.csv", "--outcome", "a", "--environment", "site", *option, *option)
    assert f"{option[0]} is given more than once" in fails(*given)


def test_flags_may_be_repeated(workdir: Path) -> None:
    pd.DataFrame({"a": np.arange(20.0) % 7, "y": np.arange(20.0) % 3, "site": ["u", "v"] * 10}).to_csv("t.csv")
    assert run("fit", "t.csv", "--outcome", "y", "--environment", "site", "--strict", "--strict").exit_code == 0


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"select": "mode"}, {"select": "mode"}),
        ({"select": "threshold", "threshold": 0.005}, {"select": Threshold(0.005)}),
        ({"delta": 0.01, "tau": 0.0, "level": 0.3}, {"tolerance": Tolerance(0.01, 0.0, 0.3)}),
        ({"strict": True}, {"tolerance": Tolerance.strict()}),
        ({"strict": True, "level": 0.1}, {"tolerance": Tolerance.strict(0.1)}),
        ({"level": 0.99, "weak_level": 0.5}, {"tolerance": Tolerance(level=0.99, weak_level=0.5)}),
        ({"strict": True, "weak_level": 0.001}, {"tolerance": Tolerance(0.0, 0.0, 0.05, 0.001)}),
        ({"engine": "tempering", "chains": 3, "steps": 20}, {"engine": Tempering(chains=3, steps=20)}),
        ({"engine": "tempering(searches=1)", "chains": 3}, {"engine": Tempering(searches=1, chains=3)}),
    ],
)
def test_model_options_are_those_of_the_estimator(options: dict[str, Any], settings: dict[str, Any]) -> None:
    found, expected = ModelOptions(**options).bip(2, 5).get_params(), BIP(**settings).get_params()
    assert {name: found[name] for name in settings} == {name: expected[name] for name in settings}
    assert (found["n_jobs"], found["random_state"]) == (2, 5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"threshold": 0.3}, "--threshold"),
        ({"strict": True, "tau": 1.0}, "--tau"),
        ({"chains": 3}, "--chains"),
        ({"steps": 3, "engine": "exact"}, "--steps"),
        ({"steps": 3, "engine": "tempering(steps = 20)"}, "--steps"),
    ],
)
def test_model_options_that_contradict(options: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        ModelOptions(**options).bip(None, 0)


def test_verbose_and_quiet(example: Path) -> None:
    asked = ["fit", example, "--outcome", "blood_pressure", "--environment", "hospital"]
    usual, quiet, verbose = (run(*asked, *option) for option in ([], ["--quiet"], ["--verbose"]))
    assert usual.stdout == quiet.stdout == verbose.stdout
    assert usual.stderr == quiet.stderr == ""
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    assert f"{data.n_rows} rows, {data.n_features} features" in verbose.stderr
    assert "finished after" in verbose.stderr
    assert "--quiet and --verbose" in fails(*asked, "--quiet", "--verbose")
