"""Remedies are data: the command line words each as it is typed, and takes it back."""

from __future__ import annotations

import ast
import shlex
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

import invariance
from cli_runner import fails, run
from invariance import BIP, BetaBinomialPrior, InclusionPrior, Tempering, Tolerance, UniformPrior, Variational
from invariance.baselines import ICP, Screened
from invariance.baselines.comparison import named_methods
from invariance.cli.main import app
from invariance.cli.options import ModelOptions, read_merges, read_names
from invariance.cli.remedies import _NO_OPTIONS, in_shell
from invariance.exceptions import DataError, DataWarning, Message, use
from invariance.models.logistic import Logistic
from invariance.screening import LassoScreen

ASKED = ["--outcome", "y", "--environment", "site"]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def parsed(command: str, words: str) -> dict[str, Any]:
    """The values of the options of a command, by name, as the parser reads the words."""
    needed = {"fit": ["t.csv", *ASKED], "compare": ["t.csv", *ASKED], "explain": ["t.csv", *ASKED]}
    needed |= {"sweep": ["t.csv", *ASKED[2:], "--out", "out"], "predict": ["m.json", "t.csv", "--out", "o.csv"]}
    context = COMMANDS[command].make_context(command, [*needed[command], *shlex.split(words)])
    values: dict[str, Any] = context.params
    return values


@pytest.mark.parametrize(
    ("command", "name", "value", "words"),
    [
        ("fit", "missing", "drop", "--missing drop"),
        ("fit", "exclude", ["a", "b c"], "--exclude 'a,b c'"),
        ("fit", "exclude", ["a, b", "it's"], "--exclude '\"a, b\",it'\"'\"'s'"),
        ("fit", "drop_environments", ["north"], "--drop-environment north"),
        ("fit", "merge_environments", {"new": ["a", "b c"]}, "--merge 'a+b c=new'"),
        ("fit", "min_rows", 40, "--min-rows 40"),
        ("fit", "sep", ";", "--sep ';'"),
        ("fit", "na", ["none", "?"], "--na 'none,?'"),
        ("fit", "family", "linear_gaussian", "--family gaussian"),
        ("fit", "family", "linear_gaussian_mean", "--family mean"),
        ("fit", "family", Logistic(pseudo_rows=0), "--family 'logistic(pseudo_rows=0)'"),
        ("fit", "engine", "exact", "--engine exact"),
        ("fit", "engine", Tempering(chains=8, steps=20_000), "--engine 'tempering(chains=8, steps=20000)'"),
        ("fit", "engine", Variational(starts=("uninformative",)), "--engine 'vi(starts=[uninformative])'"),
        ("fit", "prior", UniformPrior(max_size=3), "--max-size 3"),
        ("fit", "prior", BetaBinomialPrior(1, 3, max_size=5), "--prior 'beta-binomial(1,3)' --max-size 5"),
        ("fit", "prior", InclusionPrior(0.1), "--prior 'inclusion(0.1)'"),
        ("fit", "prior", "beta-binomial", "--prior beta-binomial"),
        ("fit", "tolerance", Tolerance.strict(), "--strict"),
        ("fit", "tolerance", Tolerance(delta=0.1), "--delta 0.1"),
        ("fit", "max_size", 2, "--max-size 2"),
        ("fit", "n_jobs", 2, "--jobs 2"),
        ("fit", "random_state", 5, "--seed 5"),
        ("fit", "stream", False, "--no-stream"),
        ("explain", "leave_out", True, "--leave-out"),
        ("compare", "methods", [ICP(max_size=3), "Lasso"], "--methods 'ICP(max_size=3),Lasso'"),
        ("compare", "methods", [Screened(ICP(), LassoScreen(k=3))], "--methods 'ICP-screen(k=3)'"),
        ("sweep", "device", "cuda", "--device cuda"),
        ("predict", "handle_unknown", "ignore", "--unknown ignore"),
        ("predict", "predict_with", "average", "--average"),
    ],
)
def test_settings_are_worded_as_the_parser_takes_them(command: str, name: str, value: Any, words: str) -> None:
    assert in_shell(name, value) == words
    given = parsed(command, words)
    settings = {field.name: given[field.name] for field in fields(ModelOptions) if field.name in given}
    model = ModelOptions(**settings).bip(given.get("jobs")) if settings else None
    if name in ("family", "engine", "prior", "tolerance") and model is not None:
        expected = BIP(**{name: value}).get_params()[name]
        found = model.get_params()[name]
        assert repr(found) == repr(expected) or (isinstance(value, str) and type(found).__name__ == "BetaBinomialPrior")
    elif name in ("exclude", "na"):
        assert read_names(given[name]) == value
    elif name == "merge_environments":
        assert read_merges(given["merge"]) == value
    elif name == "methods":
        assert len(named_methods(given["methods"], 3)) == len(value)


@pytest.mark.parametrize(("value", "words"), [(None, "no --features"), (..., "--features A,B,C")])
def test_settings_that_are_not_values(value: Any, words: str) -> None:
    assert in_shell("features", value) == words


@given(st.lists(st.text(alphabet="ab,\"' \\[]\n", min_size=1).filter(str.strip).map(str.strip), min_size=1))
def test_any_names_come_back_from_the_shell(names: list[str]) -> None:
    option, typed = shlex.split(in_shell("exclude", names))
    assert (option, read_names(typed)) == ("--exclude", names)


def test_errors_warnings_and_notes_are_worded(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: BIP, *data: Any, **more: Any) -> None:
        raise DataError("too wide", use(exclude=["a"]), use(" for few rows", prior=UniformPrior(max_size=1)))

    def warn(self: BIP, *data: Any, **more: Any) -> None:
        warnings.warn(Message("odd", use(missing="drop")), DataWarning, stacklevel=1)
        raise DataError("done")

    monkeypatch.setattr(BIP, "fit", refuse)
    assert fails("fit", "good.csv", *ASKED) == "error: too wide: use --exclude a or --max-size 1 for few rows."
    monkeypatch.setattr(BIP, "fit", warn)
    said = run("fit", "good.csv", *ASKED).stderr
    assert said == "warning: odd: use --missing drop.\nerror: done\n"


def test_a_remedy_works_as_typed(workdir: Path) -> None:
    (workdir / "gaps.csv").write_text((workdir / "good.csv").read_text() + "1,,6,north\n2,1,3,south\n")
    said = fails("fit", "gaps.csv", *ASKED)
    assert "'b'" in said
    assert run("fit", "gaps.csv", *ASKED, "--missing", "drop").exit_code == 0


def test_remedies_of_the_package_name_options() -> None:
    """Parameters in use(...) are options of a command, or settings that the command line lacks."""
    source = Path(invariance.__file__).parent
    calls = [
        node
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "use"
    ]
    named = {str(keyword.arg) for call in calls for keyword in call.keywords if keyword.arg}
    options = {name for command in COMMANDS.values() for option in command.params for name in option.opts}
    groups = {"columns", "select", "format", "tolerance", "predict_with"}
    unknown = {name for name in named - groups - {*_NO_OPTIONS} if in_shell(name, "x").split()[0] not in options}
    assert not unknown
