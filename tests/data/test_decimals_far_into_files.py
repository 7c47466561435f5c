"""A number that may be thousands or decimals is never guessed, wherever in a file it stands and however it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from invariance import Moments
from invariance.data import MultiEnvironmentData, read_chunks, read_table
from invariance.data import reading as table_file
from invariance.data import text as decimal_signs
from invariance.exceptions import DataError

SAMPLE = 400


def in_memory(path: Path, **options: Any) -> float:
    numeric = {"numeric": options.pop("numeric")} if "numeric" in options else {}
    table = table_file.TableFile.of(path, **options)
    return float(MultiEnvironmentData.from_table(table, "y", "site", ["x"], **numeric).X.sum())


def in_chunks(path: Path, **options: Any) -> float:
    return float(sum(data.X.sum() for data in read_chunks(path, "y", "site", ["x"], rows_per_chunk=10, **options)))


def streamed(path: Path, **options: Any) -> float:
    moments = Moments.from_rows(path, "y", "site", ["x"], **options)
    return float(moments.counts @ moments.means[:, moments.columns.index("x")])


WAYS = pytest.mark.parametrize("total", [in_memory, in_chunks, streamed])


@pytest.fixture(autouse=True)
def short_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "_SAMPLE", SAMPLE)
    monkeypatch.setattr(decimal_signs, "_BLOCK", 64)


def written(path: Path, first: list[str], later: list[str], sep: str = ",", outcome_columns: str = "7") -> Path:
    """x is `first`, again and again, beyond the sample, and then `later`."""
    cells = (first * SAMPLE)[:SAMPLE] + later
    rows = [sep.join((x, outcome_columns, str(k % 5), "ns"[k % 2])) for k, x in enumerate(cells)]
    path.write_text("\n".join([sep.join(("x", "z", "y", "site")), *rows]) + "\n")
    return path


@WAYS
@pytest.mark.parametrize(
    ("first", "sep", "sign"), [(["950", "7"], ",", "."), (["9", "7"], ";", "."), (["9", "7"], "\t", ",")]
)
def test_a_late_number_that_may_be_a_thousand(
    tmp_path: Path, total: Callable[..., float], first: list[str], sep: str, sign: str
) -> None:
    path = written(tmp_path / "t.csv", first, [f"1{sign}149"] * 4, sep)
    with pytest.raises(DataError, match=rf"'1\{sign}149' in column 'x' of t\.csv, line {SAMPLE + 2}, may be 1\.149 or"):
        total(path)
    whole = sum(map(float, (first * SAMPLE)[:SAMPLE]))
    assert total(path, decimal=sign) == pytest.approx(whole + 4 * 1.149)
    assert total(path, thousands=sign) == pytest.approx(whole + 4 * 1149)


@WAYS
def test_a_late_decimal_tells_what_the_others_are(tmp_path: Path, total: Callable[..., float]) -> None:
    path = written(tmp_path / "t.csv", ["950"], ["1.149", "2.5"])
    assert total(path) == pytest.approx(SAMPLE * 950 + 1.149 + 2.5)
    path = written(tmp_path / "t.csv", ["950"], ["2,5"], ";")
    with pytest.warns(match=r"decimal commas: '2,5' in 'x' is 2\.5"):
        assert total(path) == pytest.approx(SAMPLE * 950 + 2.5)


def test_lines_without_a_sign_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ["9", "7"], ["7"] * 50 + ["1.149", "2,5"], ";")
    with pytest.raises(DataError, match=rf"'1\.149' in column 'x' of t\.csv, line {SAMPLE + 52}, stands beside"):
        read_table(path)


def test_hundreds_count_wherever_they_stand(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ["9", "7"], ["950"] + ["7"] * 50 + ["1.149"])
    with pytest.raises(DataError, match=rf"'1\.149' in column 'x' of t\.csv, line {SAMPLE + 53}, may be"):
        read_table(path)
    assert read_table(written(path, ["9", "7"], ["1.149"]))["x"].max() == 9


def test_a_column_is_doubted_beside_one_that_was_doubted_before(tmp_path: Path) -> None:
    rows = [f"1.{k + 100},{950 if k < SAMPLE // 2 else 7},{k % 5},{'ns'[k % 2]}" for k in range(SAMPLE)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["x,z,y,site", *rows, "1.234,1.149,3,n", *rows[-50:]]) + "\n")
    with pytest.raises(DataError, match=rf"'1\.149' in column 'z' of t\.csv, line {SAMPLE + 2}, may be"):
        read_table(path)


def test_lines_in_quotes_are_one_cell_also_beyond_the_beginning(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ["950"], ["1"])
    with path.open("a") as more:
        more.write('4,"first\nsecond,1.149,x\nthird",2,n\n1.149,"a",3,s\n')
    with pytest.raises(DataError, match=rf"'1\.149' in column 'x' of t\.csv, line {SAMPLE + 6}, may be"):
        read_table(path)


@WAYS
@pytest.mark.parametrize("stated", [{"decimal": ","}, {"thousands": "."}])
@pytest.mark.parametrize("later", [["2.5", "1.469"] * 5, ["1.469"] * 20])
@pytest.mark.parametrize("first", [["2.5", "1.469"], ["2.5", "3.5"]])
def test_points_and_thousands_in_one_column_are_not_read_as_numbers(
    tmp_path: Path, total: Callable[..., float], stated: dict[str, str], first: list[str], later: list[str]
) -> None:
    path = written(tmp_path / "t.csv", first, later, ";", "0,5")
    for options in (stated, {**stated, "numeric": ["x"]}):
        with pytest.raises(DataError) as refused:
            total(path, **options)
        said = str(refused.value)
        assert "column 'x' of t.csv holds '" in said
        assert " in row " in said
        assert "decimals are written with a comma" in said
        assert ("thousands='.'" in said) == ("decimal" in stated)


@WAYS
def test_points_that_can_only_be_decimals_are_read_where_that_is_said(
    tmp_path: Path, total: Callable[..., float]
) -> None:
    path = written(tmp_path / "t.csv", ["2.5", "3.25"], [], ";", "0,5")
    assert total(path, decimal=",", numeric=["x"]) == pytest.approx(SAMPLE / 2 * (2.5 + 3.25))


def test_the_row_of_a_thousand_is_counted_through_chunks_of_parquet(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": ["1,5"] * 20 + ["1.469"], "y": range(21), "site": ["n", "s", "n"] * 7})
    frame.to_parquet(path)
    with pytest.raises(DataError, match=r"'1\.469' in row 21, .*it is 1469"):
        list(read_chunks(path, "y", "site", rows_per_chunk=10, decimal=","))
