"""What cannot be streamed, or not so: said in a sentence that helps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cli_runner import PLAIN, fails, parts_of, run
from invariance.cli.main import app
from invariance.cli.streaming import Named

RNG = np.random.default_rng(8)
N = 50
SITE = np.repeat(["x", "z"], N)
A = RNG.normal(size=2 * N)
TABLE = pd.DataFrame({"a": A, "b": RNG.normal(size=2 * N), "y": A + RNG.normal(size=2 * N), "site": SITE})
TABLE["died"] = (RNG.random(2 * N) < 0.4).astype(int)
TABLE["lived"] = np.where(TABLE["died"] == 1, "no", "yes")
TABLE["falls"] = RNG.poisson(1.0, 2 * N)
WHERE = ["--environment", "site", "--features", "a,b"]
ASKED = ["--outcome", "y", *WHERE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return parts_of(TABLE, N, tmp_path / "rows")


def test_patterns_that_match_nothing(folder: Path) -> None:
    told = fails("fit", folder / "*.parquet", *ASKED)
    assert f"*.parquet' matches no file: the folder '{folder}' holds 'part-0.csv', 'part-1.csv'." in told
    assert f"there is no folder '{folder / 'none'}'" in fails("fit", folder / "none" / "*.csv", *ASKED)


def test_empty_folders(tmp_path: Path) -> None:
    assert "holds no files" in fails("fit", tmp_path, *ASKED)


def test_files_of_several_kinds(folder: Path) -> None:
    TABLE.to_parquet(folder / "more.parquet")
    assert "the files are of several kinds" in fails("fit", folder, *ASKED)


def test_a_file_with_other_columns(folder: Path) -> None:
    TABLE.drop(columns="a").to_csv(folder / "part-1.csv", index=False)
    assert "part-1.csv has no column 'a', unlike part-0.csv" in fails("fit", folder, *ASKED)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    TABLE.to_parquet(tmp_path / "one.parquet")
    (tmp_path / "two.parquet").write_bytes(b"no such thing")
    assert "two.parquet" in fails("fit", tmp_path, *ASKED)


def test_wrong_columns(folder: Path) -> None:
    for options in (["--outcome", "q", *WHERE], ["--outcome", "died", "--environment", "siet", "--event", "falls"]):
        assert "is not in" in fails("fit", folder, *options)


def test_several_outcomes(folder: Path) -> None:
    told = fails("compare", folder, "--outcome", "y,falls", "--environment", "site")
    assert f"invariance sweep {folder} --environment site --outcomes y,falls --out sweep" in told


def test_standard_input() -> None:
    result = CliRunner(env=PLAIN).invoke(app, ["fit", "-", *ASKED, "--stream"], input=TABLE.to_csv(index=False))
    assert "standard input comes as a whole: save it as a file" in result.stderr
    assert "save it as a file first" in fails("fit", "-", "other.csv", *ASKED)


@pytest.mark.parametrize(
    ("outcome", "model"), [("died", "logistic"), ("lived", "logistic"), ("falls", "negative binomial")]
)
def test_outcomes_that_need_rows(outcome: str, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    told = fails("fit", folder, "--outcome", outcome, *WHERE)
    assert f"the {model} model ({outcome} " in told
    assert "100 rows of 3 columns" in told
    assert f"About {24 if outcome == 'lived' else 27} rows fit" in told
    assert ("--family gaussian reads any number of them" in told) == (outcome != "lived")
    if outcome != "lived":
        assert run("fit", folder, "--outcome", outcome, *WHERE, "--family", "gaussian").exit_code == 0


def test_needs_that_show_before_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    told = fails("fit", folder, "--outcome", "y", "--event", "died", *WHERE)
    assert "a model with --event needs all rows in memory" in told
    assert "gaussian" not in told
    assert "the model Additive needs all rows" in fails("fit", folder, *ASKED, "--family", "additive")
    page = ["--report", folder.parent / "page.html", "--compare", "Lasso"]
    assert "comparing methods needs all rows" in fails("fit", folder, *ASKED, *page)


def test_rows_that_fit_are_read(folder: Path, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "whole.csv", index=False)
    asked = ["--outcome", "lived", *WHERE]
    gathered = run("fit", folder, *asked)
    assert "read 100 rows of 2 files in" in gathered.stderr
    assert "into memory: the logistic model (lived has two values: 'no' and 'yes') needs them" in gathered.stderr
    assert gathered.stdout == run("fit", tmp_path / "whole.csv", *asked).stdout
    gaussian = run("fit", folder, *asked, "--family", "gaussian")
    assert "into memory: an outcome of words needs them" in gaussian.stderr
    assert gaussian.stdout == run("fit", tmp_path / "whole.csv", *asked, "--family", "gaussian").stdout


def test_what_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "a[1].csv"
    odd.write_text("a\n")
    assert Named.of([odd]).file == odd
    assert Named.of([tmp_path]).file is None
    assert Named.of([tmp_path / "*.csv"]).file is None
    assert Named.of([Path("one.csv"), Path("two.csv")]).rows == ["one.csv", "two.csv"]


def test_text_later_on(folder: Path) -> None:
    odd = TABLE[N:].astype({"a": object})
    odd.iloc[0, 0] = "none"
    odd.to_csv(folder / "part-1.csv", index=False)
    told = fails("fit", folder, *ASKED)
    assert "count such words as missing with --na none, or take all values as levels, --categorical a" in told
    assert run("fit", folder, *ASKED, "--na", "none", "--missing", "drop").exit_code == 0


def test_sweeps(folder: Path, tmp_path: Path) -> None:
    asked = ["--out", tmp_path / "out"]
    told = fails("sweep", folder, "--environment", "site", "--perturbed", "lived", *asked)
    assert "they must all be in one file" in told
    assert "environment column 'siet' is not in" in fails("sweep", folder, "--environment", "siet", *asked)
