"""Files: the format is recognised where it shows, refused where cells can be read in two ways, and
read as stated."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import Moments
from invariance.data import MultiEnvironmentData, read_table
from invariance.data.reading import TableFile, iter_columns
from invariance.exceptions import DataError, DataWarning, Message, SettingError

RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=24).round(6),
        "b b": RNG.normal(size=24),
        "y": RNG.normal(size=24),
        "site": ["n", "s"] * 12,
    }
)
N = 24
SITES = ["n"] * 12 + ["s"] * 12
Y = [f"{k * 7 % 11 + 0.5}" for k in range(N)]
COMMAS = [v.replace(".", ",") for v in Y]
WHOLE = [str(k % 7) for k in range(N)]
from_table = MultiEnvironmentData.from_table


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def table(path: Path, cells: list[str], sep: str = ";", y: list[str] = Y) -> Path:
    """Of the columns x, y and site."""
    body = [
        sep.join((f'"{x}"', f'"{v}"', site))
        for x, v, site in zip(cells * N, y, SITES, strict=False)
    ]
    return written(path, "\n".join([sep.join(("x", "y", "site")), *body]) + "\n")


def remedies(refused: pytest.ExceptionInfo[Exception]) -> list[dict[str, Any]]:
    message = refused.value.args[0]
    assert isinstance(message, Message)
    return [dict(remedy.settings) for remedy in message.remedies]


# ---------------------------------------------------------------- what separates cells, and
# encodings


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_are_recognised(tmp_path: Path, sep: str) -> None:
    for name in ("t.csv", "t.tsv"):
        TABLE.to_csv(tmp_path / name, sep=sep, index=False)
        pd.testing.assert_frame_equal(read_table(tmp_path / name), TABLE)


def test_two_separators_that_fit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "size, cm;weight, kg\n1,5;2,5\n1,7;2,8\n")
    with pytest.raises(DataError, match="commas or semicolons") as refused:
        read_table(path)
    assert remedies(refused) == [{"sep": ","}, {"sep": ";"}]
    assert read_table(path, sep=";", decimal=",")["weight, kg"].tolist() == [2.5, 2.8]
    assert read_table(written(path, 'a;"b;c"\n1;"x;\ny"\n2;z\n')).columns.tolist() == ["a", "b;c"]


@pytest.mark.parametrize(
    ("line", "encoding"), [("sep=;\n", "utf-8-sig"), ('"SEP=;"\r\n', "utf-16")]
)
def test_a_first_line_that_names_the_separator(tmp_path: Path, line: str, encoding: str) -> None:
    path = written(tmp_path / "t.csv", f"{line}a, cm;b\n1,5;2\n2,5;3\n", encoding)
    assert read_table(path, decimal=",").to_dict("list") == {"a, cm": [1.5, 2.5], "b": [2, 3]}


def test_encodings(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "größe,y\n1,2\n", "latin-1")
    with pytest.raises(DataError, match="not UTF-8") as refused:
        read_table(path)
    assert remedies(refused) == [{"encoding": "latin-1"}]
    assert read_table(path, encoding="latin-1").columns.tolist() == ["größe", "y"]
    with pytest.raises(DataError, match="'ascii'"):
        read_table(path, encoding="ascii")
    late = written(tmp_path / "late.csv", "a,b\n" + f"1,{'x' * 1000}\n" * 300 + "1,é\n", "latin-1")
    with pytest.raises(DataError, match="not UTF-8"):
        read_table(late)


def test_marked_packed_and_wide_text(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        assert read_table(written(tmp_path / "t.csv", "a,b\n1.5,2\n", encoding))["a"].tolist() == [
            1.5
        ]
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1.5,2\n"))
    assert read_table(tmp_path / "t.csv")["a"].tolist() == [1.5]
    names = [f"column {j} {'of many' * 20}" for j in range(2_000)]
    wide = written(tmp_path / "wide.csv", ";".join(names) + "\n" + ";".join(["1"] * 2_000) + "\n")
    assert read_table(wide).columns.tolist() == names


BAD_OPTIONS: list[dict[str, Any]] = [
    *(
        {"sep": ";;"},
        {"decimal": "'"},
        {"sep": ",", "decimal": ","},
        {"sheet": "a"},
        {"thousands": "x"},
        {"na": "NA"},
    ),
    *(
        {"thousands": ".", "decimal": "."},
        {"sep": ",", "thousands": "."},
        {"encoding": "hex"},
        {"encoding": "klingon"},
    ),
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options(tmp_path: Path, options: dict[str, Any]) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SettingError, match=next(iter(options))):
        read_table(tmp_path / "t.csv", **options)


# ---------------------------------------------------------------- decimals and thousands


@pytest.mark.parametrize(("sep", "encoding"), [(";", "utf-16"), ("\t", "utf-8")])
def test_decimal_commas_are_recognised_and_told(tmp_path: Path, sep: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, sep=sep, decimal=",", index=False, encoding=encoding)
    with pytest.warns(DataWarning, match="decimal commas") as told:
        read = read_table(path)
    assert len(told) == 1
    assert told[0].message.args[0].what.endswith(" is")  # a sentence also where no remedy is shown
    pd.testing.assert_frame_equal(read, TABLE)
    pd.testing.assert_frame_equal(read_table(path, decimal=","), TABLE)


@pytest.mark.parametrize("cell", ["1,234", "-12,345"])
def test_thousands_or_decimals_are_not_guessed(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path / "t.csv", f"a;y;site\n2;1;n\n{cell};2;s\n")
    with pytest.raises(DataError, match=f"column 'a' of t.csv has '{cell}' in line 3") as refused:
        read_table(path)
    assert remedies(refused) == [{"decimal": ","}, {"thousands": ","}]
    assert read_table(path, decimal=",")["a"][1] == float(cell.replace(",", "."))
    assert read_table(path, thousands=",")["a"][1] == float(cell.replace(",", ""))


@pytest.mark.parametrize("cell", ["0,234", "1,2345", "1,2", "1234,567", ",5", "1,5e3"])
def test_decimals_that_cannot_be_thousands(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path / "t.csv", f"a;y;site\n1,234;1;n\n{cell};2;s\n")
    with pytest.warns(DataWarning, match=f"'{cell}' in 'a'"):
        assert read_table(path)["a"].tolist() == [1.234, float(cell.replace(",", "."))]


@pytest.mark.parametrize(
    ("cells", "sep", "y", "refused"),
    [
        (["1.234", "950"], ";", WHOLE, True),
        (["1.234", "950"], "\t", WHOLE, True),
        (["1.234", "950"], ",", WHOLE, False),
        (["1.234", "0.950"], ";", WHOLE, False),
        (["1.234", "950"], ";", Y, False),
    ],
)
def test_points_in_groups_of_three(
    tmp_path: Path, cells: list[str], sep: str, y: list[str], refused: bool
) -> None:
    path = table(tmp_path / "t.csv", cells, sep, y)
    if refused:
        with pytest.raises(DataError, match="'x'") as raised:
            read_table(path)
        assert remedies(raised) == [{"decimal": "."}, {"thousands": "."}]
    found = read_table(path, decimal="." if refused else None)
    assert found["x"][:2].tolist() == [float(cell) for cell in cells]


def test_commas_and_points_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a;b;site\n1,5;2.5;n\n2,5;3.5;s\n")
    with pytest.raises(DataError, match=r"'1,5' in column 'a'.*'2\.5' in column 'b'"):
        read_table(path)
    assert read_table(path, decimal=",")["a"].tolist() == [1.5, 2.5]
    assert read_table(path, decimal=".")["b"].tolist() == [2.5, 3.5]
    assert read_table(written(path, "codes;b;site\n1,5;2.5;n\nnone,5;3.5;s\n"))[
        "codes"
    ].tolist() == ["1,5", "none,5"]


@pytest.mark.parametrize(
    ("cells", "y", "sign", "values"),
    [
        (["1.469", "950"], COMMAS, ".", [1469.0, 950.0]),
        (["1.234,56", "12,5"], COMMAS, ".", [1234.56, 12.5]),
        (["1.234.567", "2.500"], WHOLE, ".", [1234567.0, 2500.0]),
        (["1,234.56", "7.5"], Y, ",", [1234.56, 7.5]),
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
    with pytest.raises(DataError, match="'x'") as refused:
        from_table(path, "y", "site")
    assert sign in [remedy.get("thousands") for remedy in remedies(refused)]
    with pytest.raises(DataError, match="'x'"):
        from_table(path, "y", "site", numeric=["x"])
    frame = read_table(path, thousands=sign)
    assert frame["x"][: len(values)].tolist() == values
    assert frame["y"].tolist() == [float(v.replace(",", ".")) for v in y]
    pieces = iter_columns(TableFile.of(path, thousands=sign), ["x"], 7)
    assert pd.concat(pieces)["x"][: len(values)].tolist() == values


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
@pytest.mark.parametrize(
    ("cells", "advised", "option", "values"),
    [
        (["1,234", "7"], [{"thousands": ","}, {"decimal": ","}], {"thousands": ","}, [1234.0, 7.0]),
        (["1,5", "2"], [{"decimal": ","}], {"decimal": ","}, [1.5, 2.0]),
        (["1.469", "950"], [{"thousands": "."}], {"thousands": "."}, [1469.0, 950.0]),
    ],
)
def test_text_that_is_numbers_in_other_sources(
    tmp_path: Path,
    kind: str,
    cells: list[str],
    advised: list[dict],
    option: dict[str, str],
    values: list[float],
) -> None:
    frame = pd.DataFrame({"x": cells * 12, "y": np.arange(N) % 5.0, "site": SITES})
    path = saved(frame, tmp_path / f"t.{kind}")
    assert read_table(path, **option)["x"].tolist() == values * 12
    for rows in (path, frame):
        with pytest.raises(DataError, match="'x'") as refused:
            from_table(rows, "y", "site")
        assert [
            remedy for remedy in remedies(refused) if "decimal" in remedy or "thousands" in remedy
        ] == advised


@pytest.mark.parametrize("stated", [{"decimal": ","}, {"thousands": "."}])
@pytest.mark.parametrize("cells", [["2.5", "1.469"], ["1,5", "1.46"], ["1.469", "1.46"]])
def test_points_between_decimal_commas_are_no_numbers(
    tmp_path: Path, stated: dict[str, str], cells: list[str]
) -> None:
    path = TableFile.of(table(tmp_path / "t.csv", cells, y=COMMAS), **stated)
    for read in (from_table, Moments.from_rows):
        for numeric in ((), ("x",)):
            with pytest.raises(DataError, match="'x'"):
                read(path, "y", "site", numeric=numeric)


# ---------------------------------------------------------------- missing values, names, large
# numbers


def example(word: Any, gap_in: str) -> pd.DataFrame:
    """With `word` in every fifth row of one column"""
    cells: dict[str, list[Any]] = {
        "number": [k * 3 % 7 + 0.25 for k in range(30)],
        "whole": [k * 5 % 11 for k in range(30)],
        "truth": [k % 4 < 2 for k in range(30)],
        "text": [["low", "high"][k // 2 % 2] for k in range(30)],
        "y": [k * 7 % 13 + 0.5 for k in range(30)],
        "site": [["n", "s", "m"][k // 4 % 3] for k in range(30)],
    }
    cells[gap_in] = [word if k % 5 == 0 else value for k, value in enumerate(cells[gap_in])]
    return pd.DataFrame(cells)


def saved(frame: pd.DataFrame, path: Path) -> Path:
    save: Any = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".xlsx": frame.to_excel}[
        path.suffix
    ]
    save(path, index=False)
    return path


@pytest.mark.parametrize("gap_in", ["number", "truth", "text", "y", "site"])
@pytest.mark.parametrize(
    ("word", "na", "suffix"),
    [("   ", [], ".csv"), ("\u00a0? ", ["?"], ".csv"), (" n/a", [], ".xlsx")],
)
def test_blanks_around_a_word_change_nothing(
    tmp_path: Path, gap_in: str, word: str, na: list[str], suffix: str
) -> None:
    found = read_table(saved(example(word, gap_in), tmp_path / f"t{suffix}"), na=na)
    assert found[gap_in].isna().sum() == 6
    pd.testing.assert_frame_equal(
        found, read_table(saved(example("NA", gap_in), tmp_path / f"plain{suffix}"), na=na)
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_words_and_numbers_for_missing_values(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {"x": [-999.0, 1.5] * 12, "k": [-999, 3] * 12, "w": ["unknown ", "a"] * 12, "site": SITES}
    )
    path = saved(frame.assign(flag=[True, False] * 12), tmp_path / f"t{suffix}")
    gaps = read_table(path, na=["-999", " unknown", "1"]).isna().sum().to_dict()
    assert gaps == {"x": 12, "k": 12, "w": 12, "site": 0, "flag": 0}


@pytest.mark.parametrize(
    ("suffix", "name"), [(".csv", " dose \r\n  (mg) "), (".xlsx", "dose\t(mg)")]
)
def test_a_name_of_two_lines_is_one_that_can_be_typed(
    tmp_path: Path, suffix: str, name: str
) -> None:
    frame = (
        example("NA", "number")
        .rename(columns={"number": name})
        .assign(**{name: np.arange(30) % 7 + 0.5})
    )
    path = saved(frame, tmp_path / f"t{suffix}")
    assert read_table(path)["dose (mg)"][3] == 3.5
    assert from_table(path, "y", "site", ["dose (mg)"]).feature_names == ("dose (mg)",)
    saved(frame.assign(**{"dose (mg)": 1.0}), path)
    with pytest.raises(DataError, match=r"duplicate .*'dose \(mg\)'"):
        read_table(path)


@pytest.mark.parametrize("body", ["1,2,3\n4,5\n", "1,2\n3,4\n5,6,7\n", "1,2,,9\n"])
def test_rows_that_are_too_long_are_refused(tmp_path: Path, body: str) -> None:
    line = next(n for n, row in enumerate(body.splitlines(), 2) if len(row.split(",")) > 2)
    for filler in (0, 300):  # also after the lines that are looked at first
        path = written(tmp_path / "t.csv", "a,b\n" + f"1,{'2' * 1000}\n" * filler + body)
        with pytest.raises(DataError, match=rf"t\.csv cannot be parsed.* line {line + filler}\b"):
            read_table(path)
    assert read_table(written(path, "a,b\n1,2,\n3,4,\n")).to_dict("list") == {
        "a": [1, 3],
        "b": [2, 4],
    }


# ---------------------------------------------------------------- Excel, standard input, damaged
# files


def test_excel(tmp_path: Path) -> None:
    full = TABLE.assign(
        code=[1, 1, 2] * 8, day=pd.date_range("2020-01-01", periods=24), gap=[None, 1.5] * 12
    )
    path = saved(full.assign(site=[1, 2] * 12), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="'day'"):
        from_table(path, "y", "site")
    data = from_table(path, "y", "site", exclude=["day", "gap"], categorical=["code"])
    assert data.environments == (1, 2)
    assert data.features.columns == ("a", "b b", "code=2")
    assert [len(piece) for piece in iter_columns(path, ["a"], 10)] == [10, 10, 4]


def test_sheets_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        TABLE.to_excel(book, sheet_name="first", index=False)
        TABLE[:3].to_excel(book, sheet_name="the rest", index=False)
    for sheet in (None, "third"):
        with pytest.raises(DataError, match="sheet") as refused:
            read_table(path, sheet=sheet)
        assert remedies(refused) == [{"sheet": "first"}, {"sheet": "the rest"}]
    assert len(read_table(path, sheet="the rest")) == 3
    with pytest.raises(SettingError, match="sep"):
        read_table(path, sep=";")


@pytest.mark.parametrize(
    ("suffix", "module"), [(".xlsx", "openpyxl"), (".parquet", "pyarrow.parquet")]
)
def test_the_extra_that_is_needed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, module: str
) -> None:
    path = saved(TABLE, tmp_path / f"t{suffix}")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"pip install 'invariant-prediction\[(excel|parquet)\]'"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "content", "phrase"),
    [
        ("t.csv.gz", b"not gzip", "cannot be read"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 500, mtime=0)[:40], "cannot be read"),
        ("t.parquet", b"not parquet", "cannot be read"),
        ("t.xlsx", b"not a book", "cannot be read"),
        ("t.csv", b"PK\x03\x04", r"\.xlsx"),
        ("t.csv", b"", "empty"),
        ("t.csv", b"\n\n", "empty"),
        ("t.unknown", b"a,b\n", r"\.csv"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, phrase: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=phrase):
        read_table(tmp_path / name)


def test_a_column_of_lists_is_refused_by_name(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "a": [0.0, 1.0, 2.0, 5.0],
            "y": [1.0, 2.0, 3.0, 5.0],
            "site": list("ppqq"),
            "l": [[1, 2]] * 4,
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    for columns in (("y", "site"), ("y", "l"), ("l", "site")):
        with pytest.raises(DataError, match=r"'l'|\[1, 2\]"):
            MultiEnvironmentData.from_table(tmp_path / "t.parquet", *columns)


def test_a_file_without_names_of_columns(tmp_path: Path) -> None:
    """A row of numbers in their place; numbers that are all different may be names."""
    rows = "63.0,1.0,1.0,145.0\n67.0,1.0,4.0,160.0\n"
    with pytest.raises(DataError, match=r"first line of a\.csv has numbers, not names"):
        read_table(written(tmp_path / "a.csv", rows))
    assert list(read_table(written(tmp_path / "b.csv", f"0,1,2,3\n{rows}")).columns) == [
        "0",
        "1",
        "2",
        "3",
    ]
