"""The command that fits every column as the outcome of all others."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from cli_runner import fails, run
from invariance import BIP, BetaBinomialPrior, read_sweep, sweep
from invariance.posterior.summary import display_width

TABLE = ("sweep", "example.csv", "--environment", "hospital", "--jobs", "1")


def swept(*arguments: object) -> str:
    result = run(*TABLE, "--out", "out", *arguments)
    assert result.exit_code == 0, result.stderr
    assert all(display_width(line) <= 80 for line in result.stdout.splitlines())
    return result.stdout


def test_the_table_and_what_is_printed(example: Path) -> None:
    said = swept()
    assert re.match(r"Sweep over 9 outcomes: 9 of them now, in .* by 1 process\.\n", said)
    found = read_sweep("out")
    expected = sweep(example, environments="hospital")
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"))
    counts = found.drop_duplicates("outcome")["verdict"].value_counts()
    for verdict, count in counts.items():
        assert re.search(rf"^  {verdict} +{count}$", said, re.MULTILINE)
    assert re.search(r"^  blood_pressure  age +1\.000 +0\.95$", said, re.MULTILINE)
    assert said.endswith("Saved to out\n")
    again = swept()
    assert "0 of them now" in again
    assert "9 were there\nbefore" in again


def test_memory_is_said_before(example: Path) -> None:
    result = run(*TABLE, "--out", "out", "--outcomes", "age")
    assert result.stderr == "note: 1 outcome. Second moments of 9 columns take 3 kB.\n"


def test_outcomes_by_name_and_from_a_file(example: Path) -> None:
    rows = pd.read_csv(example).rename(columns={"salt": "salt, daily"})
    rows.to_csv(example, index=False)
    swept("--outcomes", 'age,"salt, daily"')
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily"}
    Path("wanted.txt").write_text("age\n\n salt, daily \nsleep\n")
    assert "1 of them now" in swept("--outcomes", "wanted.txt")
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily", "sleep"}


def test_options_reach_the_fits(example: Path) -> None:
    rows = pd.read_csv(example)
    rows["whom"] = ["age"] * 2 + [""] * (len(rows) - 2)
    rows.loc[5, "sleep"] = None
    rows.to_csv(example, index=False)
    options = ("--perturbed", "whom", "--missing", "drop", "--exclude", "pulse", "--drop-environment", "west")
    swept(*options, "--outcomes", "age", "--top", "0", "--max-size", "3", "--select", "mode", "--seed", "4")
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["prior"] == "BetaBinomialPrior(a=1.0, b=1.0, max_size=3)"
    assert (manifest["select"], manifest["seed"], manifest["top"]) == ("'mode'", 4, None)
    assert manifest["environments"] == ["north", "south", "east"]
    found = read_sweep("out")
    assert found["notes"][0].startswith("2 rows that perturb 'age' left out.")
    left = rows[2:].dropna(subset=["sleep"]).query("hospital != 'west'")
    model = BIP(prior=BetaBinomialPrior(max_size=3), select="mode")
    model.fit(left.drop(columns=["age", "pulse", "whom", "hospital"]), left["age"], environments=left["hospital"])
    expected = dict(zip(model.feature_names_in_, model.inclusion_probabilities_, strict=True))
    assert dict(zip(found["feature"], found["inclusion"], strict=True)) == pytest.approx(expected, abs=1e-9)


def test_failed_outcomes_are_named(example: Path) -> None:
    rows = pd.read_csv(example)
    rows.loc[rows["hospital"] == "west", "sleep"] = 7.0
    rows.to_csv(example, index=False)
    said = swept("--outcomes", "age,sleep")
    assert re.search(r"^  failed +1$", said, re.MULTILINE)
    assert "Failed\n  sleep: outcome 'sleep' is constant inside environment 'west'" in said


def test_other_settings_need_another_folder(example: Path) -> None:
    swept("--outcomes", "age")
    message = fails(*TABLE, "--out", "out", "--prior", "uniform")
    assert "holds results of other settings (prior: " in message
    assert "Name another folder with --out, or delete this one." in message


def test_what_a_folder_was_made_with_is_shown_as_it_was_written_down(example: Path) -> None:
    swept("--outcomes", "age", "--max-size", "3", "--prior", "uniform")
    message = fails(*TABLE, "--out", "out", "--max-size", "2", "--prior", "uniform")
    assert "(prior: UniformPrior(max_size=3) there, UniformPrior(max_size=2) now). Name another folder with" in message


def test_a_refused_command_leaves_nothing_in_the_way(example: Path) -> None:
    Path("out").mkdir()
    Path("out/manifest.json").write_text('{"sweep": "of another version"}')
    assert "1 of them now" in swept("--outcomes", "age")


def test_tails_are_mentioned(example: Path) -> None:
    said = swept("--outcomes", "age")
    told = "take noise for Gaussian: where tails are heavy, or outcomes are counts, they reject too often."
    assert told in " ".join(said.split())


def test_files_of_names_in_other_encodings(example: Path) -> None:
    Path("marked.txt").write_text("age\nsalt\n", encoding="utf-8-sig")
    swept("--outcomes", "marked.txt")
    assert set(read_sweep("out")["outcome"]) == {"age", "salt"}
    Path("latin.txt").write_bytes("age\nsäure\n".encode("latin-1"))
    message = fails(*TABLE, "--out", "out", "--outcomes", "latin.txt")
    assert "--outcomes latin.txt: the file is not UTF-8 text. Save it as UTF-8." in message


def test_the_same_outcome_twice_is_not_several(example: Path) -> None:
    message = fails("fit", "example.csv", "--environment", "hospital", "--outcome", "age,age")
    assert "is not in the file" in message


@pytest.mark.parametrize("command", ["fit", "compare", "explain"])
def test_several_outcomes_are_for_sweep(example: Path, command: str) -> None:
    """The line that the message names works as typed."""
    message = fails(command, "example.csv", "--environment", "hospital", "--outcome", 'age, "salt"')
    line = re.search(r"For a fit of each: invariance (.*)$", message)
    assert line
    result = run(*shlex.split(line[1]), "--jobs", "1")
    assert result.exit_code == 0, result.stderr
    assert set(read_sweep("sweep")["outcome"]) == {"age", "salt"}
    assert "is not in the file" in fails(command, "example.csv", "--environment", "hospital", "--outcome", "age,slat")


def test_a_name_with_a_comma_is_one_outcome(example: Path) -> None:
    pd.read_csv(example).rename(columns={"age": "age,salt"}).to_csv(example, index=False)
    arguments = ("--environment", "hospital", "--outcome", "age,salt")
    assert run("fit", "example.csv", *arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (
            ["--device", "cuda"],
            "--device cuda does variational inference, not --engine auto: use --engine vi, or leave --device",
        ),
        (["--device", "cuda", "--dask", "tcp://x:1"], "--device is for this machine and --dask for a cluster"),
        (["--jobs", "2", "--dask", "tcp://x:1"], "--jobs is for this machine and --dask for a cluster"),
        (["--perturbed", "hospitals"], "perturbed column 'hospitals' is not in the table; did you mean 'hospital'?"),
        (["--select", "best"], "select='best' is not known"),
        (["--outcomes", "Age"], "outcome column 'Age' is not among those of the sweep; did you mean 'age'?"),
        (["--outcomes", ","], "outcomes is an empty list: name at least one column, or leave --outcomes out"),
        (["--out", "example.csv"], "example.csv' is a file, not a folder"),
    ],
)
def test_complaints(example: Path, arguments: list[str], phrase: str) -> None:
    given = ["sweep", "example.csv", "--environment", "hospital", *arguments]
    assert phrase in fails(*given, *(() if "--out" in arguments else ("--out", "out")))
