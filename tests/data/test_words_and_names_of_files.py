"""Missing values, names and large numbers as files have them, read alike in memory, in chunks and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cli_runner import run
from invariance import Moments
from invariance.data import MultiEnvironmentData, read_chunks, read_table
from invariance.data import reading as excel
from invariance.data.reading import TableFile
from invariance.data.text import MISSING
from invariance.exceptions import DataError

ROWS = 30
SITES = ["n", "s", "m"]


def in_memory(path: Path, na: list[str]) -> Moments:
    return Moments.from_data(MultiEnvironmentData.from_table(TableFile.of(path, na=na), "y", "site", missing="drop"))


def in_chunks(path: Path, na: list[str]) -> Moments:
    return Moments.from_chunks(read_chunks(path, "y", "site", missing="drop", rows_per_chunk=7, na=na))


def streamed(path: Path, na: list[str]) -> Moments:
    return Moments.from_rows(path, "y", "site", missing="drop", na=na)


WAYS = pytest.mark.parametrize("read", [in_memory, in_chunks, streamed])


def table(word: str, gap_in: str) -> pd.DataFrame:
    """With `word` in every fifth row of one column"""
    cells: dict[str, list[Any]] = {
        "number": [k * 3 % 7 + 0.25 for k in range(ROWS)],
        "whole": [k * 5 % 11 for k in range(ROWS)],
        "truth": [k % 4 < 2 for k in range(ROWS)],
        "text": [["low", "high"][k // 2 % 2] for k in range(ROWS)],
        "y": [k * 7 % 13 + 0.5 for k in range(ROWS)],
        "site": [SITES[k // 4 % 3] for k in range(ROWS)],
    }
    cells[gap_in] = [word if k % 5 == 0 else value for k, value in enumerate(cells[gap_in])]
    return pd.DataFrame(cells)


def saved(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_excel(path, index=False) if path.suffix == ".xlsx" else frame.to_csv(path, index=False)
    return path


@WAYS
@pytest.mark.filterwarnings("ignore:dropped")
@pytest.mark.parametrize("gap_in", ["number", "whole", "truth", "text", "y", "site"])
@pytest.mark.parametrize(
    ("word", "na", "suffix"),
    [("NA ", [], ".csv"), ("   ", [], ".csv"), ("\u00a0? ", ["?"], ".csv"), (" n/a", [], ".xlsx")],
)
def test_blanks_around_a_word_change_nothing(
    tmp_path: Path, read: Callable[..., Moments], gap_in: str, word: str, na: list[str], suffix: str
) -> None:
    found = read(saved(table(word, gap_in), tmp_path / f"t{suffix}"), na)
    wanted = read(saved(table("NA", gap_in), tmp_path / f"plain{suffix}"), na)
    assert found.columns == wanted.columns
    assert found.environments == wanted.environments
    assert found.n_rows == ROWS - 6
    assert np.array_equal(found.scatter, wanted.scatter)


@WAYS
@pytest.mark.filterwarnings("ignore:dropped")
def test_blanks_around_a_stated_word_of_parquet(tmp_path: Path, read: Callable[..., Moments]) -> None:
    path = tmp_path / "t.parquet"
    table("unknown ", "text").to_parquet(path)
    assert read(path, ["unknown"]).n_rows == ROWS - 6
    assert read(path, [" unknown"]).n_rows == ROWS - 6


def test_the_missing_words_are_those_of_pandas(tmp_path: Path) -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    assert MISSING == STR_NA_VALUES


def test_words_that_only_begin_so_are_values(tmp_path: Path) -> None:
    frame = table("NA north", "text")
    assert "NA north" in read_table(saved(frame, tmp_path / "t.csv"))["text"].tolist()


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
@pytest.mark.parametrize("written", ["dose\n(mg)", " dose \r\n  (mg) ", "dose\t(mg)"])
def test_a_name_of_two_lines_is_one_that_can_be_typed(tmp_path: Path, suffix: str, written: str) -> None:
    frame = table("NA", "number").assign(number=1.0).rename(columns={"number": written})
    frame[written] = np.arange(ROWS) % 7 + 0.5
    path = saved(frame, tmp_path / f"t{suffix}")
    with pytest.warns(match=r"line breaks and tabs in the names of columns are read as blanks: 'dose \(mg\)'"):
        assert read_table(path)["dose (mg)"][3] == 3.5
    result = run("fit", path, "--outcome", "y", "--environment", "site", "--features", "dose (mg),whole")
    assert result.exit_code == 0, result.output
    result = run("fit", path, "--outcome", "dosis (mg)", "--environment", "site")
    assert "'dose (mg)'" in " ".join(result.output.split())
    frame.assign(**{"dose (mg)": 1.0}).pipe(saved, path)
    with pytest.raises(DataError, match=r"duplicate column names in t\.\w+: 'dose \(mg\)'"), pytest.warns():
        read_table(path)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[TableFile]:
    """The Excel files that were parsed, as often as they were"""
    files: list[TableFile] = []
    parse = excel._parsed

    def noted(file: TableFile) -> excel.Sheet:
        files.append(file)
        return parse(file)

    monkeypatch.setattr(excel, "_parsed", noted)
    return files


@WAYS
def test_a_sheet_is_parsed_once(tmp_path: Path, parsed: list[TableFile], read: Callable[..., Moments]) -> None:
    path = saved(table("low", "text"), tmp_path / "t.xlsx")
    first = read(path, [])
    assert len(parsed) == 1
    saved(table("low", "text").assign(number=np.arange(ROWS) ** 2 % 17), path)  # the next reading sees what changed
    parsed.clear()
    assert not np.array_equal(read(path, []).scatter, first.scatter)
    assert len(parsed) == 1


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_a_sheet_is_parsed_once_for_a_fit(tmp_path: Path, parsed: list[TableFile], stream: tuple[str, ...]) -> None:
    path = saved(table("low", "text"), tmp_path / "t.xlsx")
    assert run("fit", path, "--outcome", "y", "--environment", "site", *stream).exit_code == 0
    assert len(parsed) == 1


def test_each_file_has_its_own_sheet(tmp_path: Path) -> None:
    files = [TableFile.of(saved(table(word, "text"), tmp_path / f"{word}.xlsx")) for word in ("a", "b")]
    for file, word in [*zip(files, "ab", strict=True)] * 2:
        assert excel.sheet_of(file).rows["text"][0] == word


def test_no_sheet_is_kept_longer_than_its_file(tmp_path: Path) -> None:
    file = TableFile.of(saved(table("low", "text"), tmp_path / "t.xlsx"))
    assert excel.sheet_of(file) is excel.sheet_of(file)
    del file
    assert excel._last_sheet._last is None


def big(kind: str, path: Path) -> Any:
    frame = table("low", "text").assign(whole=[2**53 + k % 7 for k in range(ROWS)])
    if kind == "pyarrow":
        return pa.Table.from_pandas(frame)
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    return frame if kind == "pandas" else saved(frame, path)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "csv"])
@pytest.mark.parametrize("role", ["feature", "outcome"])
def test_whole_numbers_that_double_precision_cannot_tell_apart(tmp_path: Path, kind: str, role: str) -> None:
    rows = big(kind, tmp_path / "t.csv")
    outcome = "whole" if role == "outcome" else "y"
    for read in (MultiEnvironmentData.from_table, Moments.from_rows):
        with pytest.raises(DataError, match=r"column 'whole' holds whole numbers beyond 2\*\*53 .*9007199254740998.*"):
            read(rows, outcome, "site")
    if role == "feature":
        assert MultiEnvironmentData.from_table(rows, "y", "site", exclude=["whole"]).n_rows == ROWS
