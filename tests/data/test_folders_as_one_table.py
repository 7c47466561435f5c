"""What is refused in one file is refused where its rows lie in several."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from invariance import Moments
from invariance.data import MultiEnvironmentData, read_chunks, read_table
from invariance.exceptions import DataError


def folder(path: Path, *columns: list[str]) -> Path:
    """A file for each list of values of x"""
    for n, cells in enumerate(columns):
        rows = ["\t".join((cells[k % len(cells)], str(k % 7), "ns"[k % 2])) for k in range(20)]
        (path / f"{n}.tsv").write_text("\n".join(["x\ty\tsite", *rows]) + "\n")
    return path


@pytest.mark.filterwarnings("ignore:.*decimal commas")
@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_points_of_one_file_beside_decimal_commas_of_another(tmp_path: Path, first: int, second: int) -> None:
    cells = [["2,5", "3,5"], ["1.149", "7"]]
    path = folder(tmp_path, cells[first], cells[second])
    with pytest.raises(
        DataError, match=rf"'1\.149' in column 'x' of {second}\.tsv, line 2, .* decimal commas of {first}"
    ):
        Moments.from_rows(path, "y", "site")
    moments = Moments.from_rows(path, "y", "site", thousands=".")
    assert float(moments.counts @ moments.means[:, 0]) == pytest.approx(60 + 10 * 1149 + 70)


def test_points_of_one_file_beside_hundreds_of_another(tmp_path: Path) -> None:
    path = folder(tmp_path, ["950", "7"], ["1.250", "3"])
    with pytest.raises(DataError, match=r"'1\.250' in column 'x' of 1\.tsv, line 2, may be 1\.250 or 1250"):
        Moments.from_rows(path, "y", "site")
    assert Moments.from_rows(path, "y", "site", decimal=".").maximum.max() == 950
    (tmp_path / "2.tsv").write_text("x\ty\tsite\n0.5\t1\tn\n")  # a decimal tells what the others are
    assert Moments.from_rows(path, "y", "site").n_rows == 41


def in_memory(path: Path) -> int:
    return MultiEnvironmentData.from_table(path, "y", "site").n_rows


def in_chunks(path: Path) -> int:
    return sum(data.n_rows for data in read_chunks(path, "y", "site", rows_per_chunk=7))


def streamed(path: Path) -> int:
    return Moments.from_rows(path, "y", "site").n_rows


def with_notes(path: Path, *notes: str) -> Path:
    rows = [f"{notes[k % len(notes)]},{k % 7}.5,{k % 5},{'ns'[k // 2 % 2]}" for k in range(24)]
    path.write_text("\n".join(["note,x,y,site", *rows]) + "\n")
    return path


def told(read: Callable[[], object]) -> tuple[object, str]:
    """What comes of it, and all that is said beside it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = read()
    return found, " ".join(str(warning.message) for warning in said)


@pytest.mark.parametrize("read", [in_memory, in_chunks, streamed])
def test_quotes_that_are_not_closed_are_told_of(tmp_path: Path, read: Callable[[Path], int]) -> None:
    path = with_notes(tmp_path / "t.csv", "a", '"b', "c", "d")  # each quote is closed by the next one
    rows, said = told(lambda: read(path))
    assert rows == 12
    assert "column 'note' of t.csv has a cell of 5 lines in row 2 that look like rows ('b,1.5,1,n', 'c,2" in said
    assert "if a quote was left open there, close it, or remove it." in said
    path = with_notes(tmp_path / "t.csv", "a", '"b', '"c', "d")
    rows, said = told(lambda: read(path))
    assert rows == 18
    assert "column 'note' of t.csv has a cell of 2 lines in row 2 that look like rows" in said


SWALLOWED = {
    "decimal commas": ('y;n;s\n1,5;"abc;a\n2,5;def;b\n3,5;ghi";c\n4,5;d;e\n', {}),
    "truth values": ('y,n,flag\n1.5,"abc,True\n2.5,def",False\n4.5,d,True\n', {}),
    "missing words": ('y,n,x\n1.5,"abc",-\n2.5,"def,-\n3.5,ghi",8\n4.5,d,9\n', {"na": ["-"]}),
    "blanks": ('y,n,x\n1.5,"abc, 7\n 2.5 ,def, 8 \n3.5,ghi",8\n4.5,d,9\n', {}),
}


@pytest.mark.parametrize("kind", SWALLOWED)
def test_rows_are_recognised_in_whatever_way_they_are_written(tmp_path: Path, kind: str) -> None:
    text, options = SWALLOWED[kind]
    (tmp_path / "t.csv").write_text(text)
    assert "if a quote was left open there" in told(lambda: read_table(tmp_path / "t.csv", **options))[1]


def test_the_row_is_that_of_the_cell(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('y,n,x\n0.5,abc,1\n1.5,"abc\n2.5,def,8\n3.5,ghi",8\n4.5,d,9\n')
    assert "has a cell of 3 lines in row 2 that" in told(lambda: read_table(tmp_path / "t.csv"))[1]


CELLS = {
    "no numbers to go by": 'a,n,s\nx,"one\ntwo, three, four\nfive",p\ny,b,q\n',
    "other numbers of cells": 'y,n,s\n1.5,"one\n2.5, three\nfive",p\n2.5,b,q\n',
    "words in the place of a number": 'y,n,s\n1.5,"one\ntwo, three, four\nfive",p\n2.5,b,q\n',
    "nothing but gaps": 'y,n,s\n1.5,"one\n,,\nfive",p\n2.5,b,q\n',
}


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.filterwarnings("error")
def test_other_lines_are_no_rows(tmp_path: Path, kind: str) -> None:
    (tmp_path / "t.csv").write_text(CELLS[kind])
    assert len(read_table(tmp_path / "t.csv")) == 2


def test_numbers_may_stand_for_missing_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,-99\n2,5\n")
    assert read_table(tmp_path / "t.csv", na=[-99])["y"].isna().tolist() == [True, False]


@pytest.mark.parametrize("read", [in_memory, in_chunks, streamed])
def test_notes_of_several_lines_are_cells(tmp_path: Path, read: Callable[[Path], int]) -> None:
    notes = ('"one, 2\nthree, four, 5, 6"', '"Main St, 5, b, c\nBerlin"', '"a\nb, c, d, e\nf"')
    assert read(with_notes(tmp_path / "t.csv", *notes)) == 24
