"""`invariance check` prints a command that runs, or says what is in the way."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance import MultiEnvironmentData, check, load
from invariance.cli.check import parsed
from invariance.cli.console import in_shell
from invariance.cli.inputs import begin, read_file
from invariance.cli.options import read_codes, write_codes
from planted import PLANTED, planted_table

KNOWN = "-o", "y", "-e", "site"


@pytest.fixture
def planted(workdir: Path) -> Path:
    planted_table().to_csv("t.csv", index=False)
    return workdir / "t.csv"


def proposed(*arguments: object) -> list[str]:
    """The words of the command that check prints, without `invariance`."""
    shown = run("check", *arguments)
    assert shown.exit_code == 0, shown.stderr
    assert max(map(len, shown.stdout.split("\nTo fit it")[0].splitlines())) <= 80
    last = shown.stdout.splitlines()[-1]
    assert last.startswith("invariance fit "), shown.stdout
    return shlex.split(last)[1:]


def read(command: list[str]) -> MultiEnvironmentData:
    """The table as the command reads it, whose fit is begun"""
    given = parsed(shlex.join(["invariance", *command]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = read_file(Path(command[1]), given)
        begin(given.bip(1), data)
    return data


def fits(command: list[str]) -> tuple[str, ...]:
    """The features that the command has to choose from."""
    fitted = run(*command, "--save", "m.json")
    assert fitted.exit_code == 0, fitted.stderr
    return tuple(load("m.json").posterior_.feature_names)


def test_everything_planted_is_printed_and_the_command_runs(planted: Path) -> None:
    shown = run("check", "t.csv", *KNOWN, "--json", "found.json")
    saved = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert {(each["column"], each["code"]): each["asks"] for each in saved["findings"]} == PLANTED
    assert "Missing values by site, in percent of the rows" in shown.stdout
    assert re.search(r"chol +25 +\. +100 +\. +\.\n", shown.stdout)
    assert "Is 9 a missing value? Use --na mark=9 or --categorical mark." in " ".join(
        shown.stdout.split()
    )
    assert "--exclude chol,rare --missing drop (keeps" in " ".join(shown.stdout.split())
    command = shlex.split(shown.stdout.splitlines()[-1])[1:]
    names = set(fits(command))
    assert names == {
        "age",
        "w",
        "glucose",
        "grade",
        "mark",
        "weeks",
        "months",
        "dose",
        "lab",
        "blood",
        "some",
    }


@pytest.mark.parametrize("place", range(len(PLANTED)))
def test_each_remedy_as_it_is_typed(place: int, planted: Path) -> None:
    """In the place of what the command says of the column"""
    found = check("t.csv", "y", "site")
    finding = found.findings[place]
    for remedy in finding.remedies:
        settings: dict[str, Any] = {**found.settings, **dict(remedy.settings)}
        settings["exclude"] = [name for name in found.settings["exclude"] if name != finding.column]
        codes = {
            name: words for name, words in found.settings["na"].items() if name != finding.column
        }
        for name, value in remedy.settings:
            if name == "exclude":
                settings["exclude"] = sorted({*settings["exclude"], *value})
            codes |= value if name == "na" else {}
        settings["na"] = codes
        options = " ".join(in_shell(name, value) for name, value in settings.items())
        read(["fit", "t.csv", "--outcome", "y", "--environment", "site", *shlex.split(options)])


ODD = {
    "age": "age, in years",
    "w": "-w",
    "chol": "chol's",
    "glucose": 'glucose "fasting"',
    "grade": "--grade",
    "weeks": "wéeks 名前",
    "months": "months=since",
    "beds": "$HOME `beds`",
    "lab": "lab [mg/dl]; x|y",
    "blood": "self",
    "rare": "rare\\",
    "some": "some %",
    "y": "-y",
    "site": "--the site",
}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".xlsx", "; .csv"])
def test_odd_headers_in_every_kind_of_file(ending: str, workdir: Path) -> None:
    table = planted_table().rename(columns=ODD)
    file = workdir / f"-a 'file'{ending.removeprefix('; ')}"
    match ending:
        case ".parquet":
            table.to_parquet(file)
        case ".xlsx":
            table.to_excel(file, index=False)
        case "; .csv":
            table.to_csv(file, index=False, sep=";", decimal=",")
        case _:
            table.to_csv(file, index=False, sep="\t" if ending == ".tsv" else ",")
    command = proposed("--outcome=-y", "--environment=--the site", "--", file.name)
    assert command[1] == f"./{file.name}"
    left = {*table} - {
        *(ODD.get(name, name) for name in ("chol", "rare", "beds", "region", "at_ayr", "at_bath"))
    }
    names = fits(command) if ending == ".csv" else read(command).feature_names
    assert set(names) == left - {"-y", "--the site"}


@pytest.mark.parametrize(
    "codes", [{"a=b": ["-9"]}, {"=": ["9", "x=y"]}, {"a": ["<=5"]}, {'a,"b': ["?"]}]
)
def test_codes_of_columns_are_typed_and_read_back(codes: dict[str, list[str]]) -> None:
    _, typed = shlex.split(in_shell("na", codes))
    assert read_codes(typed) == codes
    assert write_codes(codes) == [
        f"{name}={code}".replace("=", "\\=", name.count("="))
        for name in codes
        for code in codes[name]
    ]


@pytest.mark.parametrize(
    ("labels", "n_environments"),
    [
        (("a b", "a,b", "a+b", "a=b"), 4),
        (("-a", "--b", "é", "'q'"), 4),
        (("01", "1", "2", "02"), 2),
        ((" a", "a ", "b", "c"), 3),
        (("é", "e\u0301", "f", "g"), 3),
        (("2020-01", "2020-02", "2020-03", "2020-04"), 4),
    ],
)
def test_odd_labels(labels: tuple[str, ...], n_environments: int, workdir: Path) -> None:
    table = planted_table()
    table = table.assign(site=np.repeat(labels, 60))
    table.drop(columns="chol").to_csv("t.csv", index=False)
    assert read(proposed("t.csv", *KNOWN)).n_environments == n_environments


def test_words_of_the_user_join_those_that_are_proposed(planted: Path) -> None:
    command = proposed("t.csv", *KNOWN, "--na", "n/k,chol=0,age=77.7,?")
    words = command[command.index("--na") + 1].split(",")
    assert {"n/k", "?", "age=77.7"} <= set(words)
    assert "weeks=-1" in words
    assert "lab=?" not in words
    assert "'chol' is 0" not in run("check", "t.csv", *KNOWN, "--na", "chol=0").stdout
    assert read(command).n_features == 11


def test_standard_input_is_tried_too(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = planted.read_bytes()

    class Piped(io.StringIO):
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Piped())
    from invariance.cli import check as command

    options = command.CheckOptions(outcome="y", environment="site")
    shown: list[str] = []
    monkeypatch.setattr(command, "show", lambda text: shown.append(str(text)))
    command.check(Path("-"), given=options)
    assert "invariance fit - --outcome y" in shown[-1]


def test_what_is_in_the_way_is_said_in_place_of_a_command(workdir: Path) -> None:
    table = planted_table()
    table.assign(y=np.resize(["low", "middle", "high"], len(table))).to_csv("t.csv", index=False)
    shown = run("check", "t.csv", *KNOWN)
    assert shown.exit_code == 0
    assert "invariance fit" not in shown.stdout
    last = " ".join(shown.stdout.split("\n\n")[-1].split())
    assert last.startswith("No command is proposed")
    assert "3 classes" in last
    assert "y == 'high'" in last


def test_what_only_the_model_refuses_is_mended(workdir: Path) -> None:
    """An outcome that features give exactly: one of them has to go."""
    table = planted_table()[["site", "age", "w", "glucose"]]
    table.assign(y=table["age"] + 2 * table["w"] - table["glucose"]).to_csv("t.csv", index=False)
    command = proposed("t.csv", *KNOWN)
    excluded = command[command.index("--exclude") + 1]
    assert excluded in ("age", "w", "glucose")
    assert excluded not in read(command).feature_names


def test_a_file_that_is_read_in_pieces_is_read_as_a_whole_if_settings_need_it(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--no-stream" not in proposed("t.csv", *KNOWN)
    monkeypatch.setattr("invariance.cli.inputs.LARGE_INPUT", 1000)
    command = proposed("t.csv", *KNOWN)
    assert command[-1] == "--no-stream"
    assert len(fits(command)) == 11
    planted_table()[["site", "y", "age", "w"]].to_csv("t.csv", index=False)
    assert "--no-stream" not in proposed("t.csv", *KNOWN)


def test_columns_that_were_not_named_stand_in_capitals(planted: Path) -> None:
    shown = run("check", "t.csv", "-e", "site").stdout
    assert "with the column of the outcome:" in shown
    assert "--outcome OUTCOME --environment site" in shown
    assert "'o' is not" not in shown


def test_the_parser_of_fit_decides() -> None:
    given = parsed(
        "invariance fit t.csv --outcome=-y --environment=--site --na 'a=1,?' --missing level"
    )
    assert (given.outcome, given.compared, given.missing) == ("-y", "--site", "level")
    assert given.columns.na == {"a": ("1",)}
    assert given.form.na == ("?",)
    with pytest.raises(Exception, match="No such option"):
        parsed("invariance fit t.csv -o y -e site --nothing")


def test_times_that_are_zero_are_left_out(workdir: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "site": np.resize(list("abc"), 240),
            "x": rng.normal(size=240),
            "died": rng.integers(0, 2, 240),
        }
    )
    table["days"] = rng.exponential(10.0, 240).round() * (np.arange(240) % 30 > 0)
    table.to_csv("t.csv", index=False)
    known = "-o", "days", "-e", "site", "--event", "died"
    message = fails("fit", "t.csv", *known)
    assert "is not above 0 in" in message
    assert "--na days=0 --missing drop" in message
    command = proposed("t.csv", *known)
    assert run(*command).exit_code == 0
