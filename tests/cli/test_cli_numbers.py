"""Numbers as other countries write them, from a shell; and settings that are said twice."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run

RNG = np.random.default_rng(5)
SITE = np.repeat(["north", "south"], 30)
INCOME = RNG.integers(400, 9000, 60)
TABLE = pd.DataFrame({"income": INCOME, "y": (INCOME / 500 + RNG.normal(size=60)).round(2), "site": SITE})
ASKED = ["--outcome", "y", "--environment", "site"]


def comma(value: object) -> str:
    return str(value).replace(".", ",")


@pytest.mark.parametrize("american", [True, False])
def test_advice_about_thousands_is_followed(tmp_path: Path, american: bool) -> None:
    plain, path = tmp_path / "plain.csv", tmp_path / "t.csv"
    TABLE.to_csv(plain, index=False)
    grouped = TABLE["income"].map("{:,}".format)
    if american:
        TABLE.assign(income=grouped).to_csv(path, index=False)
    else:
        other = TABLE.assign(income=grouped.str.replace(",", "."), y=TABLE["y"].map(comma))
        other.to_csv(path, index=False, sep=";")
    told = fails("fit", path, *ASKED)
    (advice,) = re.findall(r"--thousands \S(?=;)", told)
    result = run("fit", path, *ASKED, *shlex.split(advice))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == run("fit", plain, *ASKED).stdout


def test_predictions_are_written_with_points(tmp_path: Path) -> None:
    german, model, out = (str(tmp_path / name) for name in ("t.csv", "m.json", "out.csv"))
    table = TABLE.assign(income=TABLE["income"] / 8, code="01", note="1.5 l")
    text = table.assign(income=table["income"].map("{:,.3f}".format).str.translate(str.maketrans(",.", ".,")))
    text.assign(y=table["y"].map(comma)).to_csv(german, index=False, sep=";")
    asked = ["--thousands", "."]
    assert run("fit", german, *ASKED, *asked, "--features", "income", "--save", model, "-q").exit_code == 0
    assert run("predict", model, german, "--out", out, *asked).exit_code == 0
    rows = pd.read_csv(out, dtype={"code": str})
    np.testing.assert_array_equal(rows["income"], table["income"])
    np.testing.assert_array_equal(rows["y"], table["y"])
    assert set(rows["code"]) == {"01"}
    assert set(rows["note"]) == {"1.5 l"}
    assert rows["prediction"].dtype == float


@pytest.mark.parametrize("stated", ["steps=2000", "steps = 2000"])
def test_settings_said_twice_are_refused(tmp_path: Path, stated: str) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    twice = ["--engine", f"tempering({stated})", "--chains", "2", "--steps", "5"]
    assert "states steps already: leave --steps out" in fails("fit", tmp_path / "t.csv", *ASKED, *twice)


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    from invariance.cli.inputs import FileOptions
    from invariance.exceptions import DataError

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="nothing is sent there"):
        FileOptions().open(Path("-"))
