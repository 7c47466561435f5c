"""What is said of rows that stay where they are, and of those that do not fit into memory."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cli_runner import fails, parts_of, run
from invariance import BIP, Moments, sweep
from invariance.cli.inputs import FileOptions
from invariance.cli.streaming import too_large
from invariance.data.sources import row_size, source_of
from invariance.exceptions import DataError
from invariance.moments.accumulator import MomentsAccumulator

RNG = np.random.default_rng(9)
N = 50
SHIFT = np.repeat([0.0, 2.0, -2.0], N)
A = RNG.normal(size=3 * N) + SHIFT
TABLE = pd.DataFrame({"a": A, "b": RNG.normal(size=3 * N), "y": A + RNG.normal(size=3 * N)}).round(3)
TABLE["site"] = np.repeat(["n", "s", "w"], N)
TABLE["died"] = (RNG.random(3 * N) < 0.4).astype(int)
TABLE["age"] = RNG.integers(20, 90, 3 * N)
TABLE["falls"] = RNG.poisson(1.0, 3 * N)
TABLE["ward"] = RNG.choice([f"ward {k}" for k in range(12)], 3 * N)
WHERE = ["--environment", "site", "--features", "a,b"]
ASKED = ["--outcome", "y", *WHERE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return parts_of(TABLE, N, tmp_path / "rows")


@pytest.mark.parametrize(("outcome", "options"), [("died", []), ("y", ["--compare", "Lasso"])])
def test_lines_of_a_folder_that_was_read_into_memory(
    outcome: str, options: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")
    page = folder.parent / "page.html"
    result = run("fit", folder, "--outcome", outcome, *WHERE, "--report", page, *options, "--quiet")
    assert result.exit_code == 0, result.stderr
    blocks = re.findall(r"<code>(.*?)</code>", page.read_text(), re.DOTALL)
    (lines,) = (html.unescape(block) for block in blocks if "from_table(" in block)
    assert "# The table came in several files: save all rows as table.csv first." in lines
    monkeypatch.chdir(folder.parent)
    TABLE.to_csv("table.csv", index=False)
    known: dict[str, Any] = {}
    exec(lines, known)
    assert str(known["model"].decision_).split("Posterior")[0].strip() in result.stdout


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("y", "y takes values that are no counts"), ("age", "age is whole numbers without a 0, from 20 to 89")],
)
def test_the_outcome_was_looked_at(outcome: str, reason: str, folder: Path) -> None:
    told = " ".join(run("fit", folder, "--outcome", outcome, *WHERE).stdout.split())
    assert f"model linear Gaussian ({reason})" in told


def test_moments_of_other_rows_or_outcomes_know_no_kind() -> None:
    moments = Moments.from_rows(TABLE, "falls", "site", ["a", "b", "y"])
    assert moments.kind is not None
    reason = BIP().fit(moments).posterior_.model_reason
    assert reason.startswith("falls is whole numbers from 0 to")
    assert reason.endswith("but second moments alone are known, which fit this model only")
    row = TABLE.loc[0, list(moments.columns)].to_numpy(float)
    others = moments.with_outcome("y"), moments.choosing(["n", "s"]), moments.without_row("n", row)
    halves = [Moments.from_rows(rows, "falls", "site", ["a"]) for rows in (TABLE[::2], TABLE[1::2])]
    assert [other.kind for other in (*others, halves[0].merge(halves[1]))] == [None] * 4
    assert Moments.from_rows(TABLE, "falls", "site", ["a"], partial=True).kind is None
    assert moments.with_outcome("falls").kind == moments.kind
    rows = MomentsAccumulator(["a", "falls"], "site")
    rows.add(pa.RecordBatch.from_pandas(TABLE, preserve_index=False))
    assert rows.moments("falls").kind is None


def test_levels_count_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = row_size(source_of(folder), "site", ["a", "ward", "died"])
    assert (size.n_columns, size.n_fitted) == (3, 13)
    assert size.text > len("ward 1")
    assert row_size(source_of(folder), "site", ["a", "ward", "died"], with_levels=False).n_fitted == 3
    needed = int(len(TABLE) * size.n_bytes)
    asked = ["--outcome", "died", "--environment", "site", "--features", "a,ward"]
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: needed + 1)
    assert run("fit", folder, *asked).exit_code == 0
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: needed - 1)
    assert "150 rows of 3 columns, which levels make 13, take" in fails("fit", folder, *asked)


def test_levels_of_all_files_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(3):
        rows = TABLE[k::3]
        rows.assign(ward=[f"{k} {j % 2}" for j in range(N)]).to_csv(tmp_path / f"part-{k}.csv", index=False)
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    asked = ["--outcome", "died", "--environment", "site", "--features", "a,ward"]
    assert "150 rows of 3 columns, which levels make 7, take" in fails("fit", tmp_path, *asked)


def test_a_file_whose_levels_do_not_fit_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, names = tmp_path / "t.parquet", list(TABLE.columns)
    TABLE.to_parquet(place)
    source = source_of(place)
    sizes = [row_size(source, "site", names, with_levels).n_bytes for with_levels in (False, True)]
    free = int(len(TABLE) * sum(sizes) / 2)
    for module in ("data.rows_that_fit", "_tools.memory"):
        monkeypatch.setattr(f"invariance.{module}.free_bytes", lambda: free)
    assert too_large(place, FileOptions()) is None
    assert "in pieces" in run("fit", place, *ASKED).stderr


def test_words_that_are_different_in_all_rows_make_no_columns(tmp_path: Path) -> None:
    TABLE.assign(name=[f"person {k}" for k in range(3 * N)]).to_parquet(tmp_path / "t.parquet")
    assert row_size(source_of(tmp_path), "site", ["a", "name", "y"]).n_fitted == 3


def test_reading_as_a_whole_is_not_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    told = fails("fit", folder, *ASKED, "--no-stream")
    assert "reading a table as a whole needs all rows in memory: about 1" in told
    assert "Without --no-stream a linear Gaussian model reads any number of rows: leave it out." in told
    assert run("fit", folder, *ASKED).exit_code == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_label_of_a_folder_that_is_a_column(ending: str, tmp_path: Path) -> None:
    for label, rows in TABLE.groupby("site"):
        place = tmp_path / f"site={label}" / f"rows.{ending}"
        place.parent.mkdir()
        rows.to_csv(place, index=False) if ending == "csv" else rows.to_parquet(place)
    told = fails("fit", tmp_path, *ASKED)
    assert "column 'site' is in" in told
    assert "and the folder's name, site=…, makes a column 'site' too: rename the folders, or leave" in told


def test_predict_takes_one_file(folder: Path) -> None:
    model, out = folder.parent / "model.json", folder.parent / "out.csv"
    assert run("fit", folder, *ASKED, "--save", model).exit_code == 0
    told = fails("predict", model, folder / "*.csv", "--out", out)
    assert "predict takes one file, and" in told
    assert "is a pattern: name its files one after the other" in told
    assert "is a folder: name its files" in fails("predict", model, folder, "--out", out)
    assert run("predict", model, folder / "part-0.csv", "--out", out).exit_code == 0


def test_a_folder_in_python(folder: Path) -> None:
    with pytest.raises(DataError, match=r"is a directory: pass the path of one table file, or read all files in it"):
        sweep(str(folder), out=str(folder.parent / "out"), environments="site")
    assert len(Moments.from_rows(str(folder), "y", "site").environments) == 3
