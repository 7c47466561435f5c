"""Options, their groups and their help; remedies are data, which the command line words as it takes
them."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

import invariance
from cli_runner import fails, run
from invariance import BIP, MultiEnvironmentData, Tempering, Tolerance, __version__
from invariance.cli import options
from invariance.cli.console import _NO_OPTIONS, in_shell, said_by
from invariance.cli.main import app
from invariance.cli.options import FitOptions, ModelOptions, read_merges, read_names
from invariance.decisions.rules import RULES, Threshold
from invariance.exceptions import DataError, DataWarning, Message, SettingError, use
from invariance.inference.base import ENGINES
from invariance.models.registry import FAMILIES, SHORT
from invariance.priors import PRIOR_FORMS

ASKED = ["--outcome", "y", "--environment", "site"]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_short_and_complete(command: str) -> None:
    shown, everything = (run(command, option).stdout for option in ("-h", "--help-all"))
    for text in (shown, everything):
        assert (
            f"\n  Examples:\n    invariance {'fit table' if command == 'predict' else command}"
            in text
        )
        assert max(map(len, text.splitlines())) <= 80
    assert len(shown.splitlines()) <= (82 if command == "compare" else 66)
    listed = {
        name for option in COMMANDS[command].params for name in option.opts if name.startswith("--")
    }
    assert {name for name in listed if name not in everything} == set()
    assert ("Further options:" in everything) == ("--help-all" in shown)


def test_help_names_every_member() -> None:
    assert {
        name for name in set(FAMILIES) - set(SHORT.values()) if name not in options._FAMILY
    } == set()
    assert {name for name in ("auto", *ENGINES) if name not in options._ENGINE} == set()
    assert {form for form in PRIOR_FORMS if form not in options.PRIOR} == set()
    assert {name for name in RULES if name not in options._SELECT} == set()


def test_help_states_the_defaults() -> None:
    text = " ".join(run("fit", "--help-all", COLUMNS="300").stdout.split())
    for option, name in {
        "tolerance": "rho",
        "tau": "tau",
        "level": "level",
        "weak-level": "weak_level",
    }.items():
        default = getattr(Tolerance(), name)
        assert re.search(rf"--{option} .*?\[default: \({default:g}\b", text)
    assert f"{Tolerance.strict().level:g} with --strict" in text
    first = run("fit", "--help").stdout
    assert "--select RULE" in first
    assert "--threshold P" in first
    for name in ("chains", "steps"):
        assert re.search(rf"--{name} .*?\[default: \({getattr(Tempering(), name)}\b", text)


def test_start() -> None:
    assert run().stdout == run("--help").stdout
    assert run("-V").stdout == run("--version").stdout == f"invariance {__version__}\n"
    assert (
        fails("fti") == "error: No such command 'fti'. Did you mean 'fit'? Try 'invariance --help'."
    )
    assert "--outcome" in fails("fit", "t.csv", "--outcom", "y")
    assert "--environment" in fails("fit", "t.csv", "--outcome", "y")


def test_short_names(workdir: Path) -> None:
    short, long = (
        run("fit", "good.csv", *asked).stdout for asked in (["-o", "y", "-e", "site"], ASKED)
    )
    assert short == long != ""
    for command in ("fit", "compare", "explain", "sweep", "predict"):
        assert "-e, --environment" in run(command, "-h").stdout


def test_colours() -> None:
    """On terminals; no escape sequence where NO_COLOR asks for plain text."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for environment, coloured in (
        ({}, False),
        (terminal, True),
        (terminal | {"NO_COLOR": "1"}, False),
    ):
        assert ("\x1b" in run("fti", **environment).stderr) == coloured


@pytest.mark.integration
def test_help_loads_no_heavy_library_and_bars_need_no_unicode(workdir: Path) -> None:
    code = """
import atexit, sys
sys.stdout.reconfigure(encoding="ascii")
heavy = {"numpy", "scipy", "sklearn", "pandas", "numba", "matplotlib", "narwhals", "rich"}
heavy.add("uvicorn")
atexit.register(lambda: print("loaded:", sorted(heavy & set(sys.modules))))
from invariance.__main__ import main
main()
"""
    for asked, told in (
        (["--help"], b"loaded: []\n"),
        (["good.csv", "--outcome", "y", "--environment", "site"], b"Inclusion probability"),
    ):
        assert (
            told
            in subprocess.run(
                [sys.executable, "-c", code, "fit", *asked], capture_output=True
            ).stdout
        )


def test_names_and_merges_in_an_argument() -> None:
    assert read_names(None) == read_names(" , ") == []
    assert read_names("a, b c ,,d,\ne") == ["a", "b c", "d", "e"]
    assert read_names('"region, of origin", 5" pipe') == ["region, of origin", '5" pipe']
    assert read_merges(None) == {}
    assert read_merges(" a + b c =d , e+f+g=e") == {"d": ["a", "b c"], "e": ["e", "f", "g"]}
    assert read_merges('"a, b+c=d"') == {"d": ["a, b", "c"]}
    for bad in ("a", "a+b", "a=b", "a+=c", "+b=c", "a+b=", "a+b=c=d", "a+b=c,d+e=c"):
        with pytest.raises(SettingError, match="cannot merge"):
            read_merges(bad)


def test_no_option_is_given_twice() -> None:
    for named, option in {"--exclude": ("--exclude", "a"), "--outcome": ("-o", "b")}.items():
        given = (
            "fit",
            "t.csv",
            "--strict",
            "--strict",
            "--outcome",
            "a",
            "--environment",
            "site",
            *option,
            *option,
        )
        assert named in fails(*given)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"select": "mode"}, {"select": "mode"}),
        ({"deviations": "random"}, {"deviations": "random"}),
        ({"baseline": "free"}, {"baseline": "free"}),
        ({"select": "threshold(0.9)"}, {"select": "threshold(0.9)"}),
        ({"select": "threshold", "threshold": 0.005}, {"select": Threshold(0.005)}),
        ({"tolerance": 0.01, "tau": 0.0, "level": 0.3}, {"tolerance": Tolerance(0.01, 0.0, 0.3)}),
        ({"strict": True}, {"tolerance": Tolerance.strict()}),
        ({"strict": True, "level": 0.1}, {"tolerance": Tolerance.strict(0.1)}),
        ({"level": 0.99, "weak_level": 0.5}, {"tolerance": Tolerance(level=0.99, weak_level=0.5)}),
        ({"strict": True, "weak_level": 0.001}, {"tolerance": Tolerance(0.0, 0.0, 0.05, 0.001)}),
        (
            {"engine": "tempering", "chains": 3, "steps": 20},
            {"engine": Tempering(chains=3, steps=20)},
        ),
        (
            {"engine": "tempering(searches=1)", "chains": 3},
            {"engine": Tempering(searches=1, chains=3)},
        ),
    ],
)
def test_model_options_are_those_of_the_estimator(
    options: dict[str, Any], settings: dict[str, Any]
) -> None:
    found = ModelOptions(**options, seed=5).bip(2).get_params()
    expected = BIP(**settings).get_params()
    assert {name: found[name] for name in settings} == {name: expected[name] for name in settings}
    assert (found["n_jobs"], found["random_state"]) == (2, 5)


def test_model_options_that_contradict() -> None:
    contradictions: dict[str, dict[str, Any]] = {
        "--threshold": {"threshold": 0.3},
        "--tau": {"strict": True, "tau": 1.0},
        "--chains": {"chains": 3},
        "--steps": {"steps": 3, "engine": "exact"},
    }
    for named, asked in contradictions.items():
        with pytest.raises(SettingError, match=named):
            ModelOptions(**asked).bip()


@pytest.mark.parametrize(
    ("asked", "remedies"),
    [
        ({"select": "mode"}, ("--select predictive", "--baseline shared")),
        ({"select": "threshold", "threshold": 0.3}, ("--select predictive", "--baseline shared")),
        ({"engine": "vi(iterations=9)"}, ("--engine auto", "--baseline shared")),
    ],
)
def test_free_baselines_are_refused_before_a_table_is_read(
    asked: dict[str, Any], remedies: tuple[str, ...]
) -> None:
    with pytest.raises(SettingError) as refused:
        ModelOptions(**asked, baseline="free").bip()
    words = said_by(refused.value)
    assert all(remedy in words for remedy in remedies)
    for other in ("auto", "shared"):
        assert ModelOptions(**asked, baseline=other).bip().baseline == other


def test_verbose_and_quiet(example: Path) -> None:
    asked = ["fit", example, "--outcome", "blood_pressure", "--environment", "hospital"]
    usual, quiet, verbose = (run(*asked, *option) for option in ([], ["--quiet"], ["--verbose"]))
    assert usual.stdout == quiet.stdout == verbose.stdout
    assert usual.stderr == quiet.stderr == ""
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    assert f"{data.n_rows} rows, {data.n_features} features" in verbose.stderr
    assert "finished after" in verbose.stderr
    assert "--quiet and --verbose" in fails(*asked, "--quiet", "--verbose")


# ---- remedies

SETTINGS = [
    ("missing", "drop", "--missing drop"),
    ("exclude", ["a, b", "it's"], "--exclude '\"a, b\",it'\"'\"'s'"),
    ("drop_environments", ["north"], "--drop-environment north"),
    ("merge_environments", {"new": ["a", "b c"]}, "--merge 'a+b c=new'"),
    ("min_rows", 40, "--min-rows 40"),
    ("sep", ";", "--sep ';'"),
    ("decimal", ".", "--decimal '.'"),
    ("na", ["none", "?"], "--na 'none,?'"),
    ("family", "linear_gaussian_mean", "--family mean"),
    ("engine", "tempering(chains=8, steps=20000)", "--engine 'tempering(chains=8, steps=20000)'"),
    ("select", Threshold(0.3), "--select threshold --threshold 0.3"),
    ("prior", "beta-binomial", "--prior beta-binomial"),
    ("baseline", "shared", "--baseline shared"),
    ("n_jobs", 2, "--jobs 2"),
    ("random_state", 5, "--seed 5"),
    ("stream", False, "--no-stream"),
]


def test_settings_are_worded_as_the_parser_takes_them() -> None:
    for name, value, words in SETTINGS:
        assert in_shell(name, value) == words
    typed = shlex.split(" ".join(words for *_, words in SETTINGS))
    found = COMMANDS["fit"].make_context("fit", ["t.csv", *ASKED, *typed]).params
    options = FitOptions(**{name: found[name] for name in FitOptions.__dataclass_fields__})
    model = options.bip(options.jobs)
    assert (model.family, model.select) == ("linear_gaussian_mean", Threshold(0.3))
    assert model.baseline == "shared"
    assert (model.n_jobs, model.random_state, model.engine) == (
        2,
        5,
        Tempering(chains=8, steps=20_000),
    )
    assert read_names(options.exclude) == ["a, b", "it's"]
    assert (options.form.sep, list(options.form.na), options.environments.min_rows) == (
        ";",
        ["none", "?"],
        40,
    )
    assert (read_names(options.drop_environment), read_merges(options.merge)) == (
        ["north"],
        {"new": ["a", "b c"]},
    )
    assert found["stream"] is False


def test_settings_of_other_commands_and_of_python() -> None:
    for name, value, words in (
        ("features", None, "no --features"),
        ("leave_out", True, "--leave-out"),
        ("handle_unknown", "ignore", "--unknown ignore"),
        ("predict_with", "average", "--predict-with average"),
        ("predict_with", "selected", "--predict-with selected"),
        ("support", ["x0", "x1"], "--methods 'Oracle(support=[x0, x1])'"),
        ("categorical", {"a": ["u", "v"]}, "categorical={'a': ['u', 'v']}"),
        ("pseudo_rows", 1, "pseudo_rows=1"),
    ):
        assert in_shell(name, value) == words


@settings(max_examples=40)
@given(
    st.lists(
        st.text(alphabet="ab,\"' \\[]\n", min_size=1).filter(str.strip).map(str.strip), min_size=1
    )
)
def test_any_names_come_back_from_the_shell(names: list[str]) -> None:
    option, typed = shlex.split(in_shell("exclude", names))
    assert (option, read_names(typed)) == ("--exclude", names)


def test_errors_warnings_and_notes_are_worded(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(self: BIP, *data: Any, **more: Any) -> None:
        warnings.warn(Message("odd", use(missing="drop")), DataWarning, stacklevel=1)
        raise DataError("too wide", use(exclude=["a"]), use(" for few rows", max_size=1))

    (workdir / "gaps.csv").write_text(
        (workdir / "good.csv").read_text() + "1,,6,north\n2,1,3,south\n"
    )
    assert "'b'" in fails("fit", "gaps.csv", *ASKED)
    assert run("fit", "gaps.csv", *ASKED, "--missing", "drop").exit_code == 0
    monkeypatch.setattr(BIP, "fit", warn)
    said = run("fit", "good.csv", *ASKED).stderr.splitlines()
    assert said[0] == "warning: odd: use --missing drop."
    assert said[1] == "error: too wide: use --exclude a or --max-size 1 for few rows."


def test_remedies_of_the_package_name_options() -> None:
    """Parameters in use(...) are options of a command, or settings that the command line lacks."""
    texts = [
        path.read_text(encoding="utf-8") for path in Path(invariance.__file__).parent.rglob("*.py")
    ]
    named = {
        str(keyword.arg)
        for text in texts
        if "use(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "use"
        for keyword in node.keywords
        if keyword.arg
    }
    options = {
        name for command in COMMANDS.values() for option in command.params for name in option.opts
    }
    typed = {
        in_shell(name, "x").split()[0] for name in named - {"support", "predict_with", *_NO_OPTIONS}
    }
    assert typed - options == set()
