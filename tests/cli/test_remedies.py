"""Remedies are data: the command line words each as it is typed, and takes it back."""

from __future__ import annotations

import ast
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

import invariance
from cli_runner import fails, run
from invariance import BIP, Tempering
from invariance.cli.console import _NO_OPTIONS, in_shell
from invariance.cli.main import app
from invariance.cli.options import FitOptions, read_merges, read_names
from invariance.decisions.rules import Threshold
from invariance.exceptions import DataError, DataWarning, Message, use

ASKED = ["--outcome", "y", "--environment", "site"]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
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
    assert (model.n_jobs, model.random_state, model.engine) == (2, 5, Tempering(chains=8, steps=20_000))
    assert read_names(options.exclude) == ["a, b", "it's"]
    assert (options.form.sep, list(options.form.na), options.environments.min_rows) == (";", ["none", "?"], 40)
    assert (read_names(options.drop_environment), read_merges(options.merge)) == (["north"], {"new": ["a", "b c"]})
    assert found["stream"] is False


def test_settings_of_other_commands_and_of_python() -> None:
    for name, value, words in (
        ("features", None, "no --features"),
        ("leave_out", True, "--leave-out"),
        ("handle_unknown", "ignore", "--unknown ignore"),
        ("predict_with", "average", "--average"),
        ("predict_with", "selected", "no --average"),
        ("support", ["x0", "x1"], "--methods 'Oracle(support=[x0, x1])'"),
        ("categorical", {"a": ["u", "v"]}, "categorical={'a': ['u', 'v']}"),
        ("pseudo_rows", 1, "pseudo_rows=1"),
    ):
        assert in_shell(name, value) == words


@given(st.lists(st.text(alphabet="ab,\"' \\[]\n", min_size=1).filter(str.strip).map(str.strip), min_size=1))
def test_any_names_come_back_from_the_shell(names: list[str]) -> None:
    option, typed = shlex.split(in_shell("exclude", names))
    assert (option, read_names(typed)) == ("--exclude", names)


def test_errors_warnings_and_notes_are_worded(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(self: BIP, *data: Any, **more: Any) -> None:
        warnings.warn(Message("odd", use(missing="drop")), DataWarning, stacklevel=1)
        raise DataError("too wide", use(exclude=["a"]), use(" for few rows", max_size=1))

    (workdir / "gaps.csv").write_text((workdir / "good.csv").read_text() + "1,,6,north\n2,1,3,south\n")
    assert "'b'" in fails("fit", "gaps.csv", *ASKED)
    assert run("fit", "gaps.csv", *ASKED, "--missing", "drop").exit_code == 0
    monkeypatch.setattr(BIP, "fit", warn)
    said = run("fit", "good.csv", *ASKED).stderr.splitlines()
    assert said[0] == "warning: odd: use --missing drop."
    assert said[1] == "error: too wide: use --exclude a or --max-size 1 for few rows."


def test_remedies_of_the_package_name_options() -> None:
    """Parameters in use(...) are options of a command, or settings that the command line lacks."""
    texts = [path.read_text(encoding="utf-8") for path in Path(invariance.__file__).parent.rglob("*.py")]
    named = {
        str(keyword.arg)
        for text in texts
        if "use(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "use"
        for keyword in node.keywords
        if keyword.arg
    }
    options = {name for command in COMMANDS.values() for option in command.params for name in option.opts}
    typed = {in_shell(name, "x").split()[0] for name in named - {"support", "predict_with", *_NO_OPTIONS}}
    assert typed - options == set()
