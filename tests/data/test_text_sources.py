"""Text is read as `read_chunks` and `read_table` read it."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from invariance.data import read_chunks
from invariance.data import record_batches as base
from invariance.data.reading import TableFile, clear_errors
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
def test_the_same_values_and_environments_as_in_chunks(tmp_path: Path, text: str, form: dict) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding=form.get("encoding", "utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of rows that are left out
        chunks = list(read_chunks(path, "y", "site", missing="drop", rows_per_chunk=2, **form))
    wanted = [
        (x, y, chunk.environments[e])
        for chunk in chunks
        for x, y, e in zip(chunk.X[:, 0].tolist(), chunk.y.tolist(), chunk.environment_index.tolist(), strict=True)
    ]
    found = rows_of(path, ["x", "y"], **form)
    kept = [row for row in found if row[0] is not None]
    assert kept == wanted
    assert [type(row[2]) for row in kept] == [type(row[2]) for row in wanted]


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


def test_only_columns_that_are_asked_for_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,empty,site\n1,,a\n")
    assert rows_of(tmp_path / "a.csv", ["x"]) == [(1, "a")]
    assert rows_of(tmp_path / "a.csv", ["empty"]) == [(None, "a")]


def test_decimal_commas_are_told_of_once(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"x;site\n{n},5;a\n")
    with pytest.warns(DataWarning) as told:
        assert [row[0] for row in rows_of(tmp_path, ["x"])] == [0.5, 1.5, 2.5]
    assert len(told) == 1
    (tmp_path / "9.csv").write_text("x\tsite\n7,5\ta\n")
    with pytest.warns(DataWarning) as told:
        rows_of(tmp_path, ["x"])
    assert ["tabs" in str(warning.message) for warning in told] == [False, True]


def test_columns_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",x,site\n0,1.5,a\n")
    with pytest.warns(DataWarning, match="no name"):
        assert rows_of(path, ["x"]) == [(1.5, "a")]
    assert rows_of(path, ["x"], warn_unnamed=False) == [(1.5, "a")]


def test_sheets(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"x": [1.5, 2.5, 3], "site": ["a", 1, 2.5]}).to_excel(book, sheet_name="one", index=False)
        pd.DataFrame({"x": [1, "n.a."], "site": ["a", "b"]}).to_excel(book, sheet_name="two", index=False)
    assert rows_of(path, ["x"], sheet="one") == [(1.5, "a"), (2.5, 1), (3.0, 2.5)]
    with pytest.raises(DataError, match="several sheets"):
        rows_of(path, ["x"])
    with pytest.raises(DataError, match=r"'x' of book\.xlsx holds values of several types.*'n\.a\.'.*exclude=\['x'\]"):
        rows_of(path, ["x"], sheet="two")
    assert rows_of(path, [], sheet="two") == [("a",), ("b",)]
    assert rows_of(path, ["x"], sheet="two", words=["x"]) == [("1", "a"), ("n.a.", "b")]


def test_standard_input(tmp_path: Path) -> None:
    content = b"x,site\n1.5,a\n"
    source = source_of(TableFile.of("-", content=content))
    assert (source.name, source.n_bytes) == ("standard input", len(content))
    assert rows_of(source, ["x"]) == [(1.5, "a")]
    path = tmp_path / "a.parquet"
    pd.DataFrame({"x": [1.5], "site": ["a"]}).to_parquet(path)
    assert rows_of(TableFile.of("-", content=path.read_bytes()), ["x"]) == [(1.5, "a")]


def test_rows_that_are_too_long_are_refused_by_every_thread(tmp_path: Path) -> None:
    """And the filters of warnings are afterwards what they were."""
    for n in range(8):
        (tmp_path / f"{n}.csv").write_text("x,site\n" + "1,a\n" * 2_000 + "1,a,2\n")
    before = list(warnings.filters)

    def read(n: int) -> str:
        try:
            return str(rows_of(tmp_path / f"{n}.csv", ["x"]))
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        assert all(f"{n}.csv cannot be parsed" in said for n, said in enumerate(pool.map(read, range(8))))
    assert warnings.filters == before


def test_the_last_reader_puts_the_filters_back(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,site\n1,a\n")
    before = list(warnings.filters)
    first, second = clear_errors(TableFile.of(path)), clear_errors(TableFile.of(path))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert warnings.filters != before
    second.__exit__(None, None, None)
    assert warnings.filters == before


def test_a_missing_label_is_null(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,site\n1,a\n2,\n3,7\n4,NA\n")
    assert rows_of(path, ["x"]) == [(1, "a"), (2, None), (3, 7), (4, None)]
