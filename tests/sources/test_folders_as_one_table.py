"""What is refused in one file is refused where its rows lie in several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from invariance import Moments
from invariance.data import MultiEnvironmentData, read_chunks
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


@pytest.mark.parametrize("read", [in_memory, in_chunks, streamed])
def test_quotes_that_are_not_closed_swallow_no_rows(tmp_path: Path, read: Callable[[Path], int]) -> None:
    path = with_notes(tmp_path / "t.csv", "a", '"b', "c", "d")  # each quote is closed by the next one
    with pytest.raises(DataError, match=r"column 'note' of t\.csv has a cell of 5 lines in row 2, .*close the quote"):
        read(path)
    path = with_notes(tmp_path / "t.csv", "a", '"b', '"c', "d")
    with pytest.raises(DataError, match=r"column 'note' of t\.csv has a cell of 2 lines in row 2, .*close the quote"):
        read(path)


@pytest.mark.parametrize("read", [in_memory, in_chunks, streamed])
def test_notes_of_several_lines_are_cells(tmp_path: Path, read: Callable[[Path], int]) -> None:
    notes = ('"one, 2\nthree, four, 5, 6"', '"Main St, 5, b, c\nBerlin"', '"a\nb, c, d, e\nf"')
    assert read(with_notes(tmp_path / "t.csv", *notes)) == 24
