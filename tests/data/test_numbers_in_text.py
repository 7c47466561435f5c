"""Numbers that text holds in other ways than Python writes them: read where that was said, else refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariance
from invariance.data import DataWarning, MultiEnvironmentData, read_chunks, read_table
from invariance.data.text import NumberForm, grouped_in, unit_in
from invariance.exceptions import DataError, SettingError

N = 24
SITES = ["n"] * 12 + ["s"] * 12
Y = [f"{k * 7 % 11 + 0.5}" for k in range(N)]


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def table(path: Path, cells: list[str], sep: str = ";", y: list[str] = Y) -> Path:
    """Of the columns x, y and site."""
    body = [sep.join((f'"{x}"', f'"{v}"', site)) for x, v, site in zip(cells * N, y, SITES, strict=False)]
    return written(path, "\n".join([sep.join(("x", "y", "site")), *body]) + "\n")


COMMAS = [v.replace(".", ",") for v in Y]
WHOLE = [str(k % 7) for k in range(N)]


@pytest.mark.parametrize(
    ("cells", "y", "sign", "values"),
    [
        (["1.469", "950"], COMMAS, ".", [1469.0, 950.0]),
        (["1.234,56", "12,5"], COMMAS, ".", [1234.56, 12.5]),
        (["1.234", "2.500", "950"], WHOLE, ".", [1234.0, 2500.0, 950.0]),
        (["1.234,56", "7"], WHOLE, ".", [1234.56, 7.0]),
        (["1.234.567", "2.500"], WHOLE, ".", [1234567.0, 2500.0]),
        (["1,234.56", "7.5"], Y, ",", [1234.56, 7.5]),
        (["1,234", "7"], Y, ",", [1234.0, 7.0]),
        (["1,234,567", "2,345"], WHOLE, ",", [1234567.0, 2345.0]),
        (["1'234.5", "7.5"], Y, "'", [1234.5, 7.5]),
        (["1 234,5", "7,5"], COMMAS, " ", [1234.5, 7.5]),
        (["1\u00a0234", "7"], WHOLE, " ", [1234.0, 7.0]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*decimal commas")
def test_thousands_are_refused_and_read_where_they_are_stated(
    tmp_path: Path, cells: list[str], y: list[str], sign: str, values: list[float]
) -> None:
    path = table(tmp_path / "t.csv", cells, y=y)
    advised = f"read_table(path, thousands={sign!r})"
    with pytest.raises(DataError) as refused:
        MultiEnvironmentData.from_table(path, "y", "site")
    assert advised in str(refused.value)
    assert "na=" not in str(refused.value)
    with pytest.raises(DataError):
        MultiEnvironmentData.from_table(path, "y", "site", numeric=["x"])
    frame = read_table(path, thousands=sign)
    assert frame["x"][: len(values)].tolist() == values
    assert frame["y"].tolist() == [float(v.replace(",", ".")) for v in y]
    pieces = read_chunks(path, "y", "site", rows_per_chunk=7, thousands=sign)
    assert np.concatenate([piece.X[:, 0] for piece in pieces])[: len(values)].tolist() == values


def test_points_in_groups_of_three_are_decimals_where_that_is_said_or_shows(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["1.234", "950"], y=WHOLE)
    assert read_table(path, decimal=".")["x"][0] == 1.234
    with pytest.raises(DataError, match=r"may be 1\.234 or 1234.*decimal='\.'\).*thousands='\.'\)"):
        read_table(path)
    with pytest.raises(DataError, match=r"may be 1\.234 or 1234"):
        read_table(table(tmp_path / "t.csv", ["1.234", "950"], sep=",", y=WHOLE))
    with pytest.raises(DataError, match=r"may be 1\.234 or 1234"):
        read_table(table(tmp_path / "t.csv", ["1.234", "95"], sep=";", y=WHOLE))
    assert read_table(table(tmp_path / "t.csv", ["1.234", "95"], sep=",", y=WHOLE))["x"][0] == 1.234
    assert read_table(table(tmp_path / "t.csv", ["1.234", "0.950"], y=WHOLE))["x"][1] == 0.95
    assert read_table(table(tmp_path / "t.csv", ["1.234", "950"], y=Y))["x"][0] == 1.234


def test_both_readings_are_named_for_text_of_a_table() -> None:
    frame = pd.DataFrame({"x": ["1,234", "7"] * 12, "y": np.arange(N) % 5.0, "site": SITES})
    with pytest.raises(DataError, match=r"decimal=','\) takes for decimals, and .*thousands=','\) for thousands"):
        MultiEnvironmentData.from_table(frame, "y", "site")


def test_text_of_a_sheet_that_may_be_thousands(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"x": ["1.469", "950"] * 12, "y": np.arange(N) % 5.0, "site": SITES}).to_excel(path, index=False)
    with pytest.raises(DataError, match=r"'1\.469' is 1469, as read_table\(path, thousands='\.'\) reads it"):
        MultiEnvironmentData.from_table(path, "y", "site")
    assert read_table(path, thousands=".")["x"].max() == 1469.0


def test_thousands_after_the_beginning_of_a_file(tmp_path: Path) -> None:
    rows = [f"{k % 900};{k % 7},5;{'ns'[k % 2]}" for k in range(30_000)] + ["1.149;2,5;n"]
    path = written(tmp_path / "t.csv", "x;y;site\n" + "\n".join(rows) + "\n")
    for numeric in ((), ("x",)):
        with (
            pytest.warns(match="decimal commas"),
            pytest.raises(DataError, match=r"column 'x' .* '1\.149'.*it is 1149"),
        ):
            MultiEnvironmentData.from_table(path, "y", "site", numeric=numeric)
    assert read_table(path, thousands=".")["x"].max() == 1149.0


def test_groups_of_other_lengths_are_no_thousands() -> None:
    form = NumberForm(",", ".")
    assert [form.plain(text) for text in ("1.234,5", "-12.345", "12,5 ", "1234")] == [
        "1234.5",
        "-12345",
        "12.5",
        "1234",
    ]
    assert [form.plain(text) for text in ("1.46", "0.234", "1234.567", "1.2345", "x")] == [None] * 5
    assert grouped_in(["1,5", "2"]) is None
    assert grouped_in(["1,234", "x"]) is None


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"thousands": "x"}, "thousands='x' is none of"),
        ({"thousands": ".", "decimal": "."}, "decimal and thousands are both '.'"),
        ({"thousands": ".", "sep": ","}, "sep and decimal are both ','"),
        ({"encoding": "hex"}, "encoding='hex' is not known"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, str], phrase: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_table(table(tmp_path / "t.csv", ["1.5"]), **options)
    assert phrase in str(refused.value)


@pytest.mark.parametrize(
    ("cells", "unit"),
    [(["36%", "38%"], "%"), (["$5", "$7.5"], "$"), (["12 kg", "7 kg", "?"], "kg"), (["3€", "4€"], "€")],
)
def test_numbers_with_a_unit_are_no_levels(tmp_path: Path, cells: list[str], unit: str) -> None:
    path = table(tmp_path / "t.csv", cells)
    with pytest.raises(DataError) as refused:
        MultiEnvironmentData.from_table(path, "y", "site")
    assert f"column 'x' holds numbers with a unit (for example {cells[0]!r})" in str(refused.value)
    assert f"remove {unit!r}" in str(refused.value)
    assert MultiEnvironmentData.from_table(path, "y", "site", categorical=["x"]).n_rows == N


def test_words_with_numbers_are_levels() -> None:
    assert unit_in(["1st", "2nd", "3rd"]) is None
    assert unit_in(["Q1", "Q2"]) is None
    assert unit_in(["5%", "none"]) is None
    assert unit_in(["1 - low", "2 - high"]) is None


def test_words_are_not_advised_for_numbers(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["1,182.56", "950.5", "unknown", "7.5"])
    with pytest.raises(DataError, match=r"but not 'unknown'\..*na=\['unknown'\]"):
        MultiEnvironmentData.from_table(path, "y", "site")


def test_numbers_of_two_forms_are_shown(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["1.182,56", "1.5", "7.5"])
    with pytest.raises(DataError, match=r"but not '1\.182,56'\. Leave it out with"):
        MultiEnvironmentData.from_table(path, "y", "site")


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_words_and_numbers_for_missing_values_in_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    pytest.importorskip({"xlsx": "openpyxl", "parquet": "pyarrow", "csv": "pandas"}[kind])
    frame = pd.DataFrame({"x": [-999.0, 1.5] * 12, "k": [-999, 3] * 12, "w": ["unknown", "a"] * 12, "site": SITES})
    frame["flag"] = [True, False] * 12
    path = tmp_path / f"t.{kind}"
    save: Any = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[kind]
    save(path, index=False)
    read = read_table(path, na=["-999", "unknown", "1"])
    assert read.isna().sum().to_dict() == {"x": 12, "k": 12, "w": 12, "site": 0, "flag": 0}
    if kind == "parquet":
        frame["y"] = np.arange(N) % 5.0
        frame.to_parquet(path)
        with pytest.warns(DataWarning, match="dropped 12 of 24 rows"):
            assert sum(p.n_rows for p in read_chunks(path, "y", "site", ["x"], "drop", 7, na=["-999"])) == 12


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
def test_advice_about_commas_works_for_text_in_other_files(tmp_path: Path, kind: str) -> None:
    pytest.importorskip({"xlsx": "openpyxl", "parquet": "pyarrow"}[kind])
    frame = pd.DataFrame({"x": ["1,5", "2"] * 12, "y": np.arange(N) % 5.0, "site": SITES})
    path = tmp_path / f"t.{kind}"
    frame.to_parquet(path) if kind == "parquet" else frame.to_excel(path, index=False)
    with pytest.raises(DataError, match=r"read_table\(path, decimal=','\)"):
        MultiEnvironmentData.from_table(path, "y", "site")
    assert read_table(path, decimal=",")["x"].tolist() == [1.5, 2.0] * 12


def test_chunks_take_how_a_file_is_written(tmp_path: Path) -> None:
    path = written(tmp_path / "t.txt", "x|y|größe\n" + "\n".join(f"-9,5|{k % 5},5|a" for k in range(6)), "latin-1")
    written_as = {"sep": "|", "decimal": ",", "encoding": "latin-1"}
    (piece,) = read_chunks(path, "y", "größe", **written_as)
    assert piece.X[:, 0].tolist() == [-9.5] * 6
    assert invariance.read_table is read_table


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_first_line_that_names_the_separator(tmp_path: Path, line: str, encoding: str) -> None:
    path = written(tmp_path / "t.csv", f"{line}a, cm;b\n1,5;2\n2,5;3\n", encoding)
    assert read_table(path, decimal=",").to_dict("list") == {"a, cm": [1.5, 2.5], "b": [2, 3]}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_without_a_mark(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path / "t.csv", "a,b\n1.5,2\n", encoding)
    with pytest.raises(DataError, match=r"NUL characters.*encoding='utf-16-le'"):
        read_table(path)
    with pytest.raises(DataError, match=r"t\.csv cannot be parsed: it is not text in the encoding 'utf-16'"):
        read_table(path, encoding="utf-16")
    assert read_table(path, encoding=encoding)["a"].tolist() == [1.5]


def test_packed_and_wide_text_is_recognised(tmp_path: Path) -> None:
    assert read_table(written(tmp_path / "t.csv", "a,b\n1.5,2\n", "utf-32"))["a"].tolist() == [1.5]
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1.5,2\n"))
    assert read_table(tmp_path / "t.csv")["a"].tolist() == [1.5]
