"""How a file is written: recognised where it shows, refused where it can be read in two ways."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance.data import DataWarning, MultiEnvironmentData, read_chunks, read_table
from invariance.data.reading import TableFile
from invariance.exceptions import DataError, SettingError

RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {"a": RNG.normal(size=24).round(6), "b b": RNG.normal(size=24), "y": RNG.normal(size=24), "site": ["n", "s"] * 12}
)


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_separators_are_recognised(tmp_path: Path, name: str, sep: str) -> None:
    TABLE.to_csv(tmp_path / name, sep=sep, index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), TABLE)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("sep", [";", "\t"])
def test_decimal_commas_are_recognised_and_told(tmp_path: Path, sep: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, sep=sep, decimal=",", index=False, encoding=encoding)
    shown = f"{TABLE['a'][0]:.6f}".rstrip("0")
    with pytest.warns(DataWarning, match="decimal commas: '{}' in 'a' is ".format(shown.replace(".", ","))) as told:
        read = read_table(path)
    assert len(told) == 1
    pd.testing.assert_frame_equal(read, TABLE)
    pd.testing.assert_frame_equal(read_table(path, decimal=","), TABLE)


def test_chunks_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, sep=";", decimal=",", index=False)
    with pytest.warns(DataWarning, match="decimal commas"):
        chunks = list(read_chunks(path, "y", "site", rows_per_chunk=7))
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), TABLE[["a", "b b"]].to_numpy())


@pytest.mark.parametrize("cell", ["1,234", "-12,345"])
def test_thousands_or_decimals_are_not_guessed(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path / "t.csv", f"a;y;site\n{cell};1;n\n2;2;s\n")
    with pytest.raises(DataError, match=f"'{cell}' in column 'a' of t.csv, line 2, may be ") as refused:
        read_table(path)
    assert f"or {cell.replace(',', '')}" in str(refused.value)
    assert read_table(path, decimal=",")["a"][0] == float(cell.replace(",", "."))
    assert read_table(path, thousands=",")["a"][0] == float(cell.replace(",", ""))


@pytest.mark.parametrize("cell", ["0,234", "1,2345", "1,2", "1234,567", ",5", "1,5e3"])
def test_decimals_that_cannot_be_thousands(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path / "t.csv", f"a;y;site\n1,234;1;n\n{cell};2;s\n")
    with pytest.warns(DataWarning, match=f"'{cell}' in 'a'"):
        assert read_table(path)["a"].tolist() == [1.234, float(cell.replace(",", "."))]


def test_commas_beside_points_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a;b;site\n1,5;2.5;n\n2,5;3.5;s\n")
    with pytest.raises(DataError, match=r"a comma, '1,5' in 'a', and numbers with a point, '2\.5' in 'b'"):
        read_table(path)
    assert read_table(path, decimal=",")["a"].tolist() == [1.5, 2.5]
    assert read_table(path, decimal=".")["b"].tolist() == [2.5, 3.5]


def test_words_and_codes_with_commas_are_no_decimals(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "codes;b;site\n1,5;2.5;n\nnone,5;3.5;s\n")
    assert read_table(path)["codes"].tolist() == ["1,5", "none,5"]


def test_numbers_with_commas_are_no_levels() -> None:
    """Where the beginning of a file does not show them, or a table holds them."""
    table = TABLE.assign(a=["1,5", "2"] * 12)
    with pytest.raises(DataError, match=r"column 'a' holds numbers with a comma \(for example '1,5'\)"):
        MultiEnvironmentData.from_table(table, "y", "site")


def test_two_separators_that_fit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "size, cm;weight, kg\n1,5;2,5\n1,7;2,8\n")
    with pytest.raises(DataError, match=r"may be separated by commas or semicolons .*sep=','\) or .*sep=';'\)"):
        read_table(path)
    assert read_table(path, sep=";", decimal=",")["weight, kg"].tolist() == [2.5, 2.8]


def test_cells_of_several_lines_and_quoted_signs(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", 'a;"b;c"\n1;"x;\ny"\n2;z\n')
    assert read_table(path).columns.tolist() == ["a", "b;c"]


def test_encodings(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "größe,y\n1,2\n", "latin-1")
    with pytest.raises(DataError, match=r"not UTF-8 text.*read_table\(path, encoding='latin-1'\)"):
        read_table(path)
    assert read_table(path, encoding="latin-1").columns.tolist() == ["größe", "y"]
    with pytest.raises(DataError, match="not text in the encoding 'ascii'"):
        read_table(path, encoding="ascii")
    with pytest.raises(SettingError, match="encoding='klingon' is not known"):
        read_table(path, encoding="klingon")


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"sep": ";;"}, "sep=';;' is not one sign"),
        ({"decimal": "'"}, "is neither '.' nor ','"),
        ({"sep": ",", "decimal": ","}, "are both ','"),
        ({"sheet": "a"}, "sheet='a' is for Excel files, which t.csv is not"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, str], phrase: str) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SettingError) as refused:
        read_table(tmp_path / "t.csv", **options)
    assert phrase in str(refused.value)


@pytest.mark.parametrize("sep", ["tab", r"\t", "\t"])
def test_tabs_have_names(tmp_path: Path, sep: str) -> None:
    TABLE.to_csv(tmp_path / "t.txt", sep="\t", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.txt", sep=sep), TABLE)


@pytest.mark.parametrize("kind", ["csv", "gz", "parquet", "xlsx"])
def test_bytes_without_a_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        TABLE.to_excel(path, index=False)
    elif kind == "parquet":
        TABLE.to_parquet(path)
    else:
        text = TABLE.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if kind == "gz" else text)
    file = TableFile.of("-", content=path.read_bytes())
    data = MultiEnvironmentData.from_table(file, "y", "site")
    # Excel stores 16 digits.
    np.testing.assert_allclose(data.X, TABLE[["a", "b b"]].to_numpy(), rtol=1e-15 if kind == "xlsx" else 0.0)
    assert file.name == "standard input"


def test_excel(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    when = pd.date_range("2020-01-01", periods=24)
    full = TABLE.assign(code=[1, 1, 2] * 8, day=when, gap=[None, 1.5] * 12, site=[1, 2] * 12)
    full.to_excel(path, index=False)
    with pytest.raises(DataError, match=r"column 'day' is not numeric .* but holds dates or times"):
        MultiEnvironmentData.from_table(path, "y", "site")
    data = MultiEnvironmentData.from_table(path, "y", "site", exclude=["day", "gap"], categorical=["code"])
    assert data.environments == (1, 2)
    assert data.notes == ("code: 2 levels, compared with '1'.",)
    pieces = list(read_chunks(path, "y", "site", features=["a"], rows_per_chunk=10))
    assert [piece.n_rows for piece in pieces] == [10, 10, 4]


def test_sheets_are_named(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        TABLE.to_excel(book, sheet_name="first", index=False)
        TABLE[:3].to_excel(book, sheet_name="the rest", index=False)
    with pytest.raises(DataError, match=r"several sheets: name one of 'first', 'the rest', for example"):
        read_table(path)
    with pytest.raises(DataError, match="has no sheet 'third'"):
        read_table(path, sheet="third")
    assert len(read_table(path, sheet="the rest")) == 3
    with pytest.raises(SettingError, match=r"sep=';' is for text files, which t\.xlsx is not"):
        read_table(path, sep=";")


def test_excel_without_openpyxl_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openpyxl")
    TABLE.to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"needs openpyxl: install it with pip install 'invariance\[excel\]'\."):
        read_table(tmp_path / "t.xlsx")
