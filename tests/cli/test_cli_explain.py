"""invariance explain, and the options about environments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance.cli.advice import for_command_line
from invariance.cli.options import read_merges
from invariance.exceptions import SettingError

ASKED = ["--outcome", "y", "--environment", "site"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = a + noise, shifted in the east."""
    rng = np.random.default_rng(9)
    site = np.repeat(["north", "south", "east", "west", "a, b"], 40)
    site = np.append(site, ["tiny"] * 4)
    a, b = rng.normal(size=(2, len(site)))
    y = a + rng.normal(size=len(site)) + 2.0 * (site == "east")
    path = tmp_path_factory.mktemp("explain") / "table.csv"
    pd.DataFrame({"a": a, "b": b, "y": y, "site": site}).to_csv(path, index=False)
    return path


def said(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def test_explain_names_the_environment_and_writes_files(table: Path, tmp_path: Path) -> None:
    files = tmp_path / "out.json", tmp_path / "out.png"
    result = run("explain", table, *ASKED, "--min-rows", 5, "--json", files[0], "--plot", files[1])
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines()[:30])) <= 80
    text = " ".join(result.stdout.split())
    assert "Environment 'east' breaks it: without it {a} predicts y alike in the other 4" in text
    assert "left out environments with fewer than 5 rows: 'tiny' (4 rows)." in text
    assert text.endswith(f"Saved the diagnosis to {files[0]} Saved the picture to {files[1]}")
    assert json.loads(files[0].read_text(encoding="utf-8"))["named"] == "east"
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_explain_a_subset_without_fitting_again(table: Path) -> None:
    text = said("explain", table, *ASKED, "--min-rows", 5, "--subset", "b", "--no-leave-out")
    assert text.startswith("Environments of y given {b}")
    assert "with --leave-out all is selected anew" in text
    assert "Environments of y given {}" in said("explain", table, *ASKED, "--min-rows", 5, "--subset", "")


def test_a_constant_column_is_said_to_be_constant(tmp_path: Path, table: Path) -> None:
    with_constant = tmp_path / "constant.csv"
    pd.read_csv(table).assign(still=1.0).to_csv(with_constant, index=False)
    result = run("explain", with_constant, *ASKED, "--subset", "a,still")
    assert result.exit_code == 2
    assert "error: 'still' is constant and no feature: leave it out of --subset." in result.stderr
    assert run("explain", with_constant, *ASKED, "--subset", "a", "--no-leave-out").exit_code == 0


def test_explain_selects_as_fit_does(table: Path) -> None:
    options = ["--min-rows", 5, "--no-leave-out"]
    for choice in (
        ["--select", "threshold", "--threshold", 0],
        ["--select", "mode", "--strict"],
        ["--delta", 0.5, "--tau", 3, "--level", 0.1, "--weak-level", 0.1],
    ):
        fitted = said("fit", table, *ASKED, "--min-rows", 5, *choice)
        chosen = fitted.split(" selected {")[1].split("}")[0]
        assert f"Environments of y given {{{chosen}}}" in said("explain", table, *ASKED, *options, *choice)
    assert "given {a, b}" in said("explain", table, *ASKED, *options, "--select", "threshold", "--threshold", 0)
    assert "exact invariance" in said("explain", table, *ASKED, *options, "--strict")


def test_every_command_with_a_table_chooses_environments(table: Path) -> None:
    options = ["--drop-environment", 'tiny,"a, b"', "--merge", "north+south=cold"]
    for command in (["fit"], ["compare", "--methods", "Regression"], ["explain", "--no-leave-out"]):
        result = run(*command, table, *ASKED, *options)
        assert result.exit_code == 0, result.stderr
        assert "cold" in result.stdout or command[0] == "compare"
        assert "south" not in result.stdout.replace("'south' (40 rows)", "")
    assert "left out environments, as asked: 'a, b' (40 rows), 'tiny' (4 rows)." in said("fit", table, *ASKED, *options)


def test_what_explain_refuses(table: Path) -> None:
    assert "did you mean 'tiny'?" in fails("explain", table, *ASKED, "--drop-environment", "tinny")
    assert "cannot read --merge 'north+south'" in fails("fit", table, *ASKED, "--merge", "north+south")
    assert "--min-rows 99 leaves no environment" in fails("compare", table, *ASKED, "--min-rows", 99)
    assert "Use --min-rows 40 or fewer." in fails("fit", table, *ASKED, "--min-rows", 99)
    assert "cannot write a picture as '.txt'" in fails("explain", table, *ASKED, "--plot", "picture.txt")
    assert "'c'" in fails("explain", table, *ASKED, "--min-rows", 5, "--subset", "a,c")


def test_help_shows_how_it_is_called() -> None:
    text = said("explain", "--help")
    assert "invariance explain table.csv --outcome yield --environment site" in text
    assert "--merge lima+cusco=peru" in text


def test_remedies_are_options_in_a_shell() -> None:
    message = "with min_rows=40, or drop_environments=['a, b', 'it\\'s'], or leave_out=True"
    assert for_command_line(message) == (
        "with --min-rows 40, or --drop-environment '\"a, b\",it'\"'\"'s', or --leave-out"
    )


@pytest.mark.parametrize(
    ("text", "merges"),
    [
        (None, {}),
        ("", {}),
        ("a+b=c", {"c": ["a", "b"]}),
        (" a + b c =d , e+f+g=e", {"d": ["a", "b c"], "e": ["e", "f", "g"]}),
        ('"a, b"+"c+d"="e=f"', {"e=f": ["a, b", "c+d"]}),
        ('"say ""so"""+b=c', {"c": ['say "so"', "b"]}),
    ],
)
def test_merges_in_an_argument(text: str | None, merges: dict[str, list[str]]) -> None:
    assert read_merges(text) == merges


@pytest.mark.parametrize(
    "text", ["a", "a+b", "a=b", "a+b=c,", "a+=c", "+b=c", "a+b=", "a+b=c=d", 'a+"b=c', "a+b=c+d=e"]
)
def test_merges_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SettingError, match=r"cannot read --merge .*: write a\+b=c"):
        read_merges(text)


def test_a_label_is_made_once() -> None:
    with pytest.raises(SettingError, match="makes 'c' twice"):
        read_merges("a+b=c,d+e=c")
