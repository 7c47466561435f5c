"""Text is read in pieces as `MultiEnvironmentData.from_table` reads the whole file."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest

from invariance import Moments
from invariance.data import record_batches as base
from invariance.data.reading import TableFile, read_columns
from invariance.data.sources import source_of
from invariance.exceptions import DataError, DataWarning
from source_rows import batches_of, rows_of


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_BATCH_ROWS", 2)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x,y,site\n1.5,1,1\n2,2,1.0\n,3,01\n-1e3,4,a\n", {}),
        ("x,y,site\n1.5,1,1\n2,2,1.5\nNA,3,2\nn.a.,4,2\n", {"na": ["n.a."]}),
        ("x;y;site\n1,5;1;a\n2,5;2;b\n3;3;a\n", {"decimal": ","}),
        ("x;y;site\n1.234,5;1;a\n2,5;2;b\n3;3;a\n", {"thousands": "."}),
        ('x|y|site\n"1.5"|1|"a|b"\n2|2|"a\nb"\n3|3|c\n', {"sep": "|"}),
        ("x,y,site\n1.5,1,köln\n2,2,køge\n3,3,köln\n", {"encoding": "latin-1"}),
        ("sep=;\nx;y;site\n1.5;1;a\n2;2;b\n3;3;a\n", {}),
        (" x , y , site \n1.5, 1, a\n2, 2, b\n3, 3, a\n", {}),
    ],
)
def test_the_same_values_and_environments_as_in_memory(tmp_path: Path, text: str, form: dict) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding=form.get("encoding", "utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of decimal commas
        frame = read_columns(TableFile.of(path, **form), ["x", "y", "site"], labels="site")
        found = rows_of(path, ["x", "y"], **form)
    frame = frame.astype(object).where(frame.notna(), None)
    assert found == list(frame.itertuples(index=False, name=None))
    first: dict[object, object] = {}  # 1 and 1.0 are one label
    assert [type(row[2]) for row in found] == [type(first.setdefault(label, label)) for label in frame["site"]]


@pytest.mark.usefixtures("few_rows")
def test_text_is_decided_by_the_first_value_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("x,t,v,site\n1,,,a\n2,,,a\n3,,,a\n")
    (tmp_path / "2.csv").write_text("x,t,v,site\n4,b7,,a\n5,01,,a\n6,3.0,7,a\n")
    (tmp_path / "3.csv").write_text("x,t,v,site\n7,001,8,a\n")
    found = rows_of(tmp_path, ["x", "t", "v"])
    assert [row[1] for row in found] == [None, None, None, "b7", "01", "3.0", "001"]
    assert [row[2] for row in found] == [None] * 5 + [7, 8]
    kinds = {str(batch.schema.field("t").type) for batch in batches_of(source_of(tmp_path), ["t"], "site")}
    assert len(kinds) == 1


@pytest.mark.usefixtures("few_rows")
def test_text_after_numbers_is_refused_and_both_remedies_work(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("x,site\n1,a\n02,a\n3,a\n")
    (tmp_path / "2.csv").write_text("x,site\n4,a\n?,b\n")
    with pytest.raises(
        DataError, match=r"'x' holds numbers.* in 2\.csv later on \('\?'\).*na=\['\?'\].*categorical=\['x'\]"
    ):
        rows_of(tmp_path, ["x"])
    assert [row[0] for row in rows_of(tmp_path, ["x"], na=["?"])] == [1, 2, 3, 4, None]
    assert [row[0] for row in rows_of(tmp_path, ["x"], words=["x"])] == ["1", "02", "3", "4", "?"]


def test_decimal_commas_are_told_of_once(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"x;site\n{n},5;a\n")
    with pytest.warns(DataWarning) as told:
        assert [row[0] for row in rows_of(tmp_path, ["x"])] == [0.5, 1.5, 2.5]
    assert len(told) == 1


def test_sheets(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"x": [1.5, 2.5, 3], "site": ["a", 1, 2.5]}).to_excel(book, sheet_name="one", index=False)
        pd.DataFrame({"x": [1, "n.a."], "site": ["a", "b"]}).to_excel(book, sheet_name="two", index=False)
    assert rows_of(path, ["x"], sheet="one") == [(1.5, "a"), (2.5, 1), (3.0, 2.5)]
    with pytest.raises(DataError, match="several sheets"):
        rows_of(path, ["x"])
    with pytest.raises(DataError, match=r"'x' of book\.xlsx holds values of several.*'n\.a\.'.*exclude=\['x'\]"):
        rows_of(path, ["x"], sheet="two")
    assert rows_of(path, [], sheet="two") == [("a",), ("b",)]
    assert rows_of(path, ["x"], sheet="two", words=["x"]) == [("1", "a"), ("n.a.", "b")]


def test_standard_input(tmp_path: Path) -> None:
    content = b"x,site\n1.5,a\n"
    source = source_of(TableFile.of("-", content=content))
    assert source.name == "standard input"
    assert rows_of(source, ["x"]) == [(1.5, "a")]
    path = tmp_path / "a.parquet"
    pd.DataFrame({"x": [1.5], "site": ["a"]}).to_parquet(path)
    assert rows_of(TableFile.of("-", content=path.read_bytes()), ["x"]) == [(1.5, "a")]


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
    with pytest.raises(DataError, match=rf"{second}\.tsv has '1\.149'"):
        Moments.from_rows(path, "y", "site")
    moments = Moments.from_rows(path, "y", "site", thousands=".")
    assert float(moments.counts @ moments.means[:, 0]) == pytest.approx(60 + 10 * 1149 + 70)
