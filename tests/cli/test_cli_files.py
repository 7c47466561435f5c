"""Files in all their forms, from a shell."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cli_runner import PLAIN, fails, run
from invariance.cli.inputs import FileOptions
from invariance.cli.main import app
from invariance.exceptions import DataError

RNG = np.random.default_rng(4)
SITE = np.repeat(["north", "south", "west"], 30)
A, B = RNG.normal(size=90), RNG.normal(size=90)
SHIFT = np.repeat([0.0, 4.0, -4.0], 30)
TABLE = pd.DataFrame({"a": A + SHIFT, "y": 2 * (A + SHIFT) + B / 2, "site": SITE}).round(3)
TABLE["late"] = (TABLE["y"] + SHIFT + RNG.normal(size=90)).round(3)
ASKED = ["--outcome", "y", "--environment", "site"]


def piped(content: bytes, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env=PLAIN).invoke(app, list(arguments), input=content, prog_name="invariance")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plain") / "t.csv"
    TABLE.to_csv(path, index=False)
    result = run("fit", path, *ASKED)
    assert result.exit_code == 0, result.stderr
    assert "selected      {a}" in result.stdout
    return result.stdout


def test_standard_input(expected: str) -> None:
    assert piped(TABLE.to_csv(index=False).encode(), "fit", "-", *ASKED) == (0, expected, "")
    parquet = io.BytesIO()
    TABLE.to_parquet(parquet)
    assert piped(parquet.getvalue(), "fit", "-", *ASKED)[1] == expected


def test_european_files(expected: str) -> None:
    text = TABLE.to_csv(index=False, sep=";", decimal=",").encode("utf-8-sig")
    code, out, told = piped(text, "fit", "-", *ASKED)
    assert (code, out) == (0, expected)
    assert "standard input is read with semicolons between cells and with decimal commas" in told
    assert piped(text, "fit", "-", *ASKED, "--decimal", ",") == (0, expected, "")


@pytest.mark.parametrize("command", ["compare", "explain"])
def test_other_commands_read_it_too(command: str) -> None:
    code, out, told = piped(TABLE.to_csv(index=False, sep="\t").encode(), command, "-", *ASKED)
    assert (code, told) == (0, "")
    assert ("BIP" if command == "compare" else "Environments of y given {a}") in out


def test_sweep_and_predict_read_it_too(tmp_path: Path) -> None:
    text = TABLE.to_csv(index=False, sep=";").encode()
    folder, model, out = (str(tmp_path / name) for name in ("sweep", "model.json", "out.csv"))
    swept = ("sweep", "-", "--environment", "site", "--out", folder, "--jobs", "1", "--quiet")
    assert piped(text, *swept)[0] == 0
    assert piped(text, "fit", "-", *ASKED, "--save", model)[0] == 0
    code, said, _ = piped(text, "predict", model, "-", "--out", out)
    assert code == 0
    assert "for 90 rows of standard input" in said
    assert "prediction" in pd.read_csv(out)


def test_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, told = piped(b"", "fit", "-", *ASKED)
    assert (code, told) == (2, "error: standard input is empty: it needs a header line and rows.\n")
    monkeypatch.setattr("invariance.cli.inputs.sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    assert sys.stdin.isatty()
    with pytest.raises(DataError, match=r"nothing is sent there: write cat table\.csv \|"):
        FileOptions().open(Path("-"))


WHOLE = TABLE.assign(y=(10 * TABLE["y"]).astype(int))
THOUSANDS = WHOLE.assign(a=[f"{1 + abs(value):.3f}".replace(".", ",") for value in WHOLE["a"]]).drop(columns="late")
NAMED = WHOLE.rename(columns={"a": "a, cm", "late": "late, cm"}).to_csv(index=False, sep=";", decimal=",")
UNKNOWN = TABLE.assign(a=TABLE["a"].astype(object).where(TABLE.index != 4, "unknown"))


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (TABLE.rename(columns={"a": "größe"}).to_csv(index=False).encode("latin-1"), "--encoding latin-1"),
        (THOUSANDS.to_csv(index=False, sep=";").encode(), "--decimal ,"),
        (NAMED.replace('"', "").encode(), "--sep ';'"),
        (UNKNOWN.to_csv(index=False).encode(), "--na unknown"),
        (TABLE.assign(day="2020-01-01").to_csv(index=False).encode(), "--exclude day"),
        (TABLE.assign(id=range(90)).to_csv(index=False).encode(), "--exclude id"),
    ],
    ids=["encoding", "thousands", "two separators", "words", "dates", "row numbers"],
)
def test_remedies_work_as_typed(tmp_path: Path, content: bytes, remedy: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    line = ["fit", tmp_path / "t.csv", *ASKED, "--missing", "drop"]
    first = run(*line)
    assert remedy in first.stderr
    assert "read_table" not in first.stderr
    second = run(*line, *shlex.split(remedy))
    assert second.exit_code == 0, second.stderr
    assert remedy not in second.stderr


def test_sheets_as_typed(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        for sheet in ("all rows", "notes"):
            TABLE.to_excel(book, sheet_name=sheet, index=False)
    line = ["fit", tmp_path / "t.xlsx", *ASKED]
    assert "--sheet 'all rows'" in fails(*line)
    assert run(*line, "--sheet", "all rows").exit_code == 0


def test_wrong_options_are_named_as_typed(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    assert "--sheet first is for Excel files" in fails("fit", tmp_path / "t.csv", *ASKED, "--sheet", "first")


def test_chains_and_steps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, index=False)
    for option in ("--chains", "--steps"):
        said = fails("fit", path, *ASKED, option, "3")
        assert f"{option} is for --engine tempering, which samples: add that, or leave {option} out." in said
        assert f"{option} is for" in fails("fit", path, *ASKED, option, "3", "--engine", "exact")
    assert "states chains already" in fails("fit", path, *ASKED, "--chains", "3", "--engine", "tempering(chains=2)")
    asked = ["--engine", "tempering(searches=1)", "--chains", "3", "--steps", "20"]
    result = run("fit", path, *ASKED, *asked, "--json", tmp_path / "p.json")
    assert result.exit_code == 0, result.stderr
    assert "parallel tempering (3 replicas, 20 sweeps each)" in result.stdout
    assert json.loads((tmp_path / "p.json").read_text())


@pytest.mark.parametrize(
    ("options", "told"),
    [([], True), (["--prior", "beta-binomial"], False), (["--max-size", "2"], False), (["--quiet"], False)],
)
def test_a_note_on_the_prior_of_many_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: bool
) -> None:
    monkeypatch.setattr("invariance.cli.inputs.MANY_FEATURES", 1)
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", tmp_path / "t.csv", *ASKED, *options)
    assert result.exit_code == 0
    assert ("note: the uniform prior expects about half of the 2 features" in result.stderr) == told
