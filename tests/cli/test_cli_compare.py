from __future__ import annotations

import json
from pathlib import Path

import pytest

from bad_tables import BAD_TABLES
from cli_runner import fails, run
from invariance.baselines.comparison import METHODS
from invariance.cli.advice import for_command_line

COLUMNS = ("--outcome", "blood_pressure", "--environment", "hospital")


def compare_example(*arguments: object):
    return run("compare", "example.csv", *COLUMNS, *arguments)


def test_prints_and_saves(example: Path) -> None:
    result = compare_example("--json", "c.json", "--plot", "c.png")
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.endswith("Saved the comparison to c.json\nSaved the picture to c.png\n")
    stored = json.loads(Path("c.json").read_text())
    selected = {method["name"]: method["selected"] for method in stored["methods"]}
    assert selected["BIP"] == selected["ICP"] == ["age", "exercise", "smoking"]
    assert list(selected) == ["BIP", "ICP", "Hidden-ICP", "EILLS", "Regression", "Lasso", "Marginal"]
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_chosen_methods_and_features(example: Path) -> None:
    result = compare_example("--methods", "bip, lasso", "--features", "age,smoking")
    assert result.exit_code == 0, result.stderr
    assert "2 features" in result.stdout
    assert "ICP" not in result.stdout


def test_bip_is_that_of_fit(example: Path) -> None:
    options = ("--engine", "tempering(chains=2, steps=50)", "--prior", "inclusion(0.2)", "--seed", "3")
    assert compare_example("--methods", "BIP", "--json", "c.json", *options).exit_code == 0
    assert run("fit", "example.csv", *COLUMNS, "--json", "f.json", *options).exit_code == 0
    compared = json.loads(Path("c.json").read_text())["methods"][0]["inclusion_probabilities"]
    assert compared == json.loads(Path("f.json").read_text())["inclusion"]


def test_bip_selects_as_fit_does(example: Path) -> None:
    def selected(*options: str) -> list[str]:
        compare_example("--methods", "BIP", "--json", "c.json", *options)
        return json.loads(Path("c.json").read_text())["methods"][0]["selected"]

    default = selected()
    for options in (("--select", "threshold", "--threshold", "0"), ("--delta", "50", "--tau", "50")):
        run("fit", example, "--outcome", "blood_pressure", "--environment", "hospital", "--json", "f.json", *options)
        fitted = json.loads(Path("f.json").read_text())["decision"]["selected"]
        assert selected(*options) == fitted != default


def test_unknown_method_is_named(example: Path) -> None:
    message = fails("compare", "example.csv", *COLUMNS, "--methods", "BIB")
    assert "no method is named 'BIB'; did you mean 'BIP'?" in message
    assert all(name in message for name in METHODS)


@pytest.mark.parametrize(("text", "arguments", "phrase"), [pytest.param(*c[1:], id=c[0]) for c in BAD_TABLES[:6]])
def test_bad_tables_are_refused_as_by_fit(workdir: Path, text: str, arguments: dict, phrase: str) -> None:
    Path("table.csv").write_text(text)
    options = [item for key in ("outcome", "environment") for item in (f"--{key}", arguments[key])]
    features = ["--features", ",".join(arguments["features"])] if arguments.get("features") else []
    assert for_command_line(phrase) in fails("compare", "table.csv", *options, *features)


def test_oracle_is_advised_in_words_of_the_shell(example: Path) -> None:
    said = " ".join(compare_example("--methods", "Oracle").stdout.split())
    assert "Oracle needs to know the true features: name them in --methods 'Oracle(support=[...])'." in said
