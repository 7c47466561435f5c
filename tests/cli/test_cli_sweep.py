"""The command `sweep`."""

from __future__ import annotations

import json
import re
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


def test_the_table_is_that_of_python(example: Path) -> None:
    said = swept()
    found = read_sweep("out")
    expected = sweep(example, environments="hospital")
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"))
    for verdict, count in found.drop_duplicates("outcome")["verdict"].value_counts().items():
        assert re.search(rf"^  {verdict} +{count}$", said, re.MULTILINE)
    assert re.search(r"^  blood_pressure  age +1\.000 +0\.95$", said, re.MULTILINE)
    assert said.endswith("Saved to out\n")
    assert "0 of them now" in swept()


def test_outcomes_by_name_and_from_a_file(example: Path) -> None:
    pd.read_csv(example).rename(columns={"salt": "salt, daily"}).to_csv(example, index=False)
    swept("--outcomes", 'age,"salt, daily"')
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily"}
    Path("wanted.txt").write_text("age\n\n salt, daily \nsleep\n", encoding="utf-8-sig")
    assert "1 of them now" in swept("--outcomes", "wanted.txt")
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily", "sleep"}
    Path("latin.txt").write_bytes("age\nsäure\n".encode("latin-1"))
    assert "latin.txt" in fails(*TABLE, "--out", "out", "--outcomes", "latin.txt")


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
    left = rows[2:].dropna(subset=["sleep"]).query("hospital != 'west'")
    model = BIP(prior=BetaBinomialPrior(max_size=3), select="mode")
    model.fit(left.drop(columns=["age", "pulse", "whom", "hospital"]), left["age"], environments=left["hospital"])
    expected = dict(zip(model.feature_names_in_, model.inclusion_probabilities_, strict=True))
    assert dict(zip(found["feature"], found["inclusion"], strict=True)) == pytest.approx(expected, abs=1e-9)
    other = run(*TABLE, "--out", "out", *options, "--outcomes", "age", "--prior", "uniform")
    assert other.exit_code == 2
    assert "prior" in other.stderr


def test_failed_outcomes_are_named(example: Path) -> None:
    rows = pd.read_csv(example)
    rows.loc[rows["hospital"] == "west", "sleep"] = 7.0
    rows.to_csv(example, index=False)
    said = swept("--outcomes", "age,sleep")
    assert re.search(r"^  failed +1$", said, re.MULTILINE)
    assert "Failed\n  sleep: " in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--device", "cuda"], "device"),
        (["--jobs", "2", "--dask", "tcp://x:1"], "--jobs"),
        (["--perturbed", "hospitals"], "'hospital'"),
        (["--select", "best"], "best"),
        (["--family", "logistic"], "Logistic"),
        (["--event", "age"], "event"),
        (["--outcomes", "Age"], "'age'"),
        (["--outcomes", ","], "outcomes"),
        (["--out", "example.csv"], "example.csv"),
    ],
)
def test_what_a_sweep_refuses(example: Path, arguments: list[str], named: str) -> None:
    given = ["sweep", "example.csv", "--environment", "hospital", *arguments]
    assert named in fails(*given, *(() if "--out" in arguments else ("--out", "out")))
