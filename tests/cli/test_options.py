"""Options, their groups and their help."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli_runner import fails, run
from invariance import BIP, MultiEnvironmentData, Tempering, Tolerance, __version__
from invariance.cli import options
from invariance.cli.main import app
from invariance.cli.options import ModelOptions, read_merges, read_names
from invariance.decisions.rules import RULES, Threshold
from invariance.exceptions import SettingError
from invariance.inference.base import ENGINES
from invariance.models.registry import FAMILIES, SHORT
from invariance.priors import PRIOR_FORMS

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_short_and_complete(command: str) -> None:
    shown, everything = (run(command, option).stdout for option in ("-h", "--help-all"))
    for text in (shown, everything):
        assert f"\n  Examples:\n    invariance {'fit table' if command == 'predict' else command}" in text
        assert max(map(len, text.splitlines())) <= 80
    assert len(shown.splitlines()) <= (72 if command == "compare" else 60)
    listed = {name for option in COMMANDS[command].params for name in option.opts if name.startswith("--")}
    assert {name for name in listed if name not in everything} == set()
    assert ("Further options:" in everything) == ("--help-all" in shown)


def test_help_names_every_member() -> None:
    assert {name for name in set(FAMILIES) - set(SHORT.values()) if name not in options._FAMILY} == set()
    assert {name for name in ("auto", *ENGINES) if name not in options._ENGINE} == set()
    assert {form for form in PRIOR_FORMS if form not in options.PRIOR} == set()
    assert {name for name in RULES if name not in options._SELECT} == set()


def test_help_states_the_defaults() -> None:
    text = " ".join(run("fit", "--help-all", COLUMNS="300").stdout.split())
    for name in ("delta", "tau", "level", "weak_level"):
        default = getattr(Tolerance(), name)
        assert re.search(rf"--{name.replace('_', '-')} .*?\[default: \({default:g}\b", text)
    assert f"{Tolerance.strict().level:g} with --strict" in text
    for name in ("chains", "steps"):
        assert re.search(rf"--{name} .*?\[default: \({getattr(Tempering(), name)}\b", text)


def test_start() -> None:
    assert run().stdout == run("--help").stdout
    assert run("--version").stdout == f"invariance {__version__}\n"
    assert fails("fti") == "error: No such command 'fti'. Did you mean 'fit'? Try 'invariance --help'."
    assert "--outcome" in fails("fit", "t.csv", "--outcom", "y")
    assert "--environment" in fails("fit", "t.csv", "--outcome", "y")


def test_colours() -> None:
    """On terminals; no escape sequence where NO_COLOR asks for plain text."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for environment, coloured in (({}, False), (terminal, True), (terminal | {"NO_COLOR": "1"}, False)):
        assert ("\x1b" in run("fti", **environment).stderr) == coloured


@pytest.mark.integration
def test_help_loads_no_heavy_library_and_bars_need_no_unicode(workdir: Path) -> None:
    code = """
import atexit, sys
sys.stdout.reconfigure(encoding="ascii")
heavy = {"numpy", "scipy", "sklearn", "pandas", "numba", "matplotlib", "narwhals", "rich", "uvicorn"}
atexit.register(lambda: print("loaded:", sorted(heavy & set(sys.modules))))
from invariance.__main__ import main
main()
"""
    for asked, told in (
        (["--help"], b"loaded: []\n"),
        (["good.csv", "--outcome", "y", "--environment", "site"], b"Inclusion probability"),
    ):
        assert told in subprocess.run([sys.executable, "-c", code, "fit", *asked], capture_output=True).stdout


def test_names_and_merges_in_an_argument() -> None:
    assert read_names(None) == read_names(" , ") == []
    assert read_names("a, b c ,,d,\ne") == ["a", "b c", "d", "e"]
    assert read_names('"region, of origin", 5" pipe') == ["region, of origin", '5" pipe']
    assert read_merges(None) == {}
    assert read_merges(" a + b c =d , e+f+g=e") == {"d": ["a", "b c"], "e": ["e", "f", "g"]}
    assert read_merges('"a, b+c=d"') == {"d": ["a, b", "c"]}
    for bad in ("a", "a+b", "a=b", "a+=c", "+b=c", "a+b=", "a+b=c=d", "a+b=c,d+e=c"):
        with pytest.raises(SettingError, match="--merge"):
            read_merges(bad)


def test_no_option_is_given_twice() -> None:
    for option in (("--exclude", "a"), ("--outcome", "b")):
        given = ("fit", "t.csv", "--strict", "--strict", "--outcome", "a", "--environment", "site", *option, *option)
        assert option[0] in fails(*given)


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
    found, expected = ModelOptions(**options, seed=5).bip(2).get_params(), BIP(**settings).get_params()
    assert {name: found[name] for name in settings} == {name: expected[name] for name in settings}
    assert (found["n_jobs"], found["random_state"]) == (2, 5)


def test_model_options_that_contradict() -> None:
    contradictions: dict[str, dict[str, Any]] = {
        "--threshold": {"threshold": 0.3},
        "--tau": {"strict": True, "tau": 1.0},
        "--chains": {"chains": 3},
        "--steps": {"steps": 3, "engine": "exact"},
    }
    for named, given in contradictions.items():
        with pytest.raises(SettingError, match=named):
            ModelOptions(**given).bip()


def test_verbose_and_quiet(example: Path) -> None:
    asked = ["fit", example, "--outcome", "blood_pressure", "--environment", "hospital"]
    usual, quiet, verbose = (run(*asked, *option) for option in ([], ["--quiet"], ["--verbose"]))
    assert usual.stdout == quiet.stdout == verbose.stdout
    assert usual.stderr == quiet.stderr == ""
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    assert f"{data.n_rows} rows, {data.n_features} features" in verbose.stderr
    assert "finished after" in verbose.stderr
    assert "--quiet and --verbose" in fails(*asked, "--quiet", "--verbose")
