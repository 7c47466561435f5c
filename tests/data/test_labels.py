"""Labels of environments and levels of categories are what a table says, whichever way it comes
in."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cli_runner import run
from invariance import BIP, Columns, Moments, MultiEnvironmentData, check, load, read_table
from invariance.data.labels import label_of, level_of
from invariance.data.settings import Environments
from invariance.data.sources import source_of
from invariance.exceptions import DataError, DataWarning
from invariance.sweeps.data import moments_of_columns, read_sweep_data

# Each stands for others in some reading of numbers and truth values; the last two are one.
WRITTEN = ["01", "1", "1.5", "10", "3.1", "3.10", "true", "TRUE", "1e3", "1000", "a", "a "]
LABELS = tuple(WRITTEN[:-1])
from_table = MultiEnvironmentData.from_table
AS_LEVELS = Columns(categorical=["code"])


def table(labels: list[str] = WRITTEN, n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.normal(size=len(labels) * n)
    site = np.repeat(labels, n)
    code = np.tile(labels, n)
    return pd.DataFrame(
        {"x": x, "code": code, "y": x + rng.normal(size=len(x)), "site": site}, dtype=object
    ).astype({"x": float, "y": float})


def csv(folder: Path, rows: pd.DataFrame | None = None, name: str = "t.csv") -> Path:
    (table() if rows is None else rows).to_csv(folder / name, index=False)
    return folder / name


def parquet(folder: Path) -> Path:
    table().to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def folders(folder: Path) -> Path:
    for label, rows in table().groupby("site", sort=False):
        (folder / f"site={label}").mkdir()
        rows.drop(columns="site").to_csv(folder / f"site={label}" / "t.csv", index=False)
    return folder


def files(folder: Path) -> list[Path]:
    return [
        csv(folder, rows, f"{label}.csv") for label, rows in table().groupby("site", sort=False)
    ]


def command(folder: Path) -> Any:
    arguments = [
        "--outcome",
        "y",
        "--environment",
        "site",
        "--categorical",
        "code",
        "--json",
        str(folder / "p.json"),
    ]
    result = run("fit", str(csv(folder)), *arguments, "--save", str(folder / "model.json"))
    assert result.exit_code == 0, result.stderr
    assert "'a' and 'a '" in result.stderr
    warnings.warn("'a' and 'a ' are one", DataWarning, stacklevel=1)  # as the command did
    assert tuple(json.loads((folder / "p.json").read_text())["environments"]) == LABELS
    return load(folder / "model.json")


def sweep_in_pieces(path: Path) -> Moments:
    source = source_of(str(path), words=["code"])
    return moments_of_columns(source, "site", AS_LEVELS, Environments(), "error", 1, False)


def fitted(rows: Any) -> BIP:
    X = rows.drop("y") if isinstance(rows, pl.DataFrame) else rows.drop(columns="y")
    return BIP(columns=Columns(environment="site", categorical=["code"])).fit(X, rows["y"])


def of_rows(rows: Any) -> Moments:
    return Moments.from_rows(rows, "y", "site", columns=AS_LEVELS)


def of_table(rows: Any) -> MultiEnvironmentData:
    return from_table(rows, "y", "site", columns=AS_LEVELS)


ENTRIES: dict[str, Callable[[Path], Any]] = {
    "file": lambda folder: of_table(csv(folder)),
    "read_table": lambda folder: of_table(read_table(csv(folder), as_text=["site", "code"])),
    "parquet": lambda folder: of_table(parquet(folder)),
    "data frame": lambda folder: of_table(table()),
    "polars": lambda folder: of_table(pl.from_pandas(table())),
    "arrays": lambda folder: MultiEnvironmentData.from_arrays(
        table()[["x", "code"]], table()["y"], table()["site"], columns=AS_LEVELS
    ),
    "fit": lambda folder: fitted(table()),
    "fit of polars": lambda folder: fitted(pl.from_pandas(table())),
    "rows of a file": lambda folder: of_rows(csv(folder)),
    "rows of files": lambda folder: of_rows(files(folder)),
    "rows of folders": lambda folder: of_rows(folders(folder)),
    "rows of parquet": lambda folder: of_rows(parquet(folder)),
    "rows of Arrow": lambda folder: of_rows(pa.Table.from_pandas(table())),
    "rows of a stream": lambda folder: of_rows(iter([table()[:40], table()[40:]])),
    "rows of a query": lambda folder: of_rows(pl.from_pandas(table()).lazy()),
    "stored moments": lambda folder: Moments.from_arrow(of_rows(csv(folder)).to_arrow()),
    "sweep": lambda folder: read_sweep_data(csv(folder), "site", columns=AS_LEVELS).moments,
    "sweep in pieces": lambda folder: sweep_in_pieces(csv(folder)),
    "command": command,
}


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("entry", ENTRIES)
def test_labels_and_levels_are_text_as_written(tmp_path: Path, entry: str) -> None:
    with pytest.warns(DataWarning, match="'a' and 'a '"):
        found = ENTRIES[entry](tmp_path)
    labels = getattr(found, "environments_", None) or found.environments
    encoding = found._layout.encoding if hasattr(found, "_layout") else found.encoding
    assert sorted(labels) == sorted(LABELS)
    assert set(encoding.of_levels["code"].levels) == set(LABELS)


def test_numbers_of_a_data_frame_stay_numbers() -> None:
    rows = table(["1", "2"], 30)
    for numbers, labels in (
        ([1, 1.0, 2], (1, 2)),
        ([1.5, 2, 3], (1.5, 2, 3)),
        (["1", "1.5", "2"], ("1", "1.5", "2")),
    ):
        rows["site"] = rows["code"] = numbers * 20
        rows["site"] = (
            np.repeat(numbers, 20).astype(object)
            if isinstance(numbers[0], str)
            else np.repeat(numbers, 20)
        )
        data = of_table(rows)
        assert data.environments == labels
        assert data.encoding is not None
        assert data.encoding.of_levels["code"].levels == tuple(map(level_of, labels))
    rows["site"] = [1, "1"] * 30
    with pytest.raises(DataError, match="look alike"):
        of_table(rows)


@pytest.mark.parametrize("source", [csv, parquet])
def test_environments_are_dropped_and_merged_as_written(
    tmp_path: Path, source: Callable[[Path], Path]
) -> None:
    chosen = Environments(drop=["a", "1.5"], merge={"small ": ["1", " 10"], "3": ["3.1", "3.10"]})
    for read in (from_table, Moments.from_rows):
        with pytest.warns(DataWarning, match="'a' and 'a '"):
            data = read(source(tmp_path), "y", "site", columns=AS_LEVELS, select=chosen)
        assert sorted(map(str, data.environments)) == sorted(
            ["01", "small", "3", "true", "TRUE", "1e3", "1000"]
        )
        assert data.counts.sum() == 12 * 12 - 36
        assert any("'a' and 'a '" in note for note in data.losses)


def test_merge_of_the_command(tmp_path: Path) -> None:
    path = csv(tmp_path, table(["01", "1", "2"], 20)[["x", "y", "site"]])
    fit = [
        "fit",
        str(path),
        "--outcome",
        "y",
        "--environment",
        "site",
        "--json",
        str(tmp_path / "p.json"),
    ]
    assert run(*fit, "--merge", "01+2=other").exit_code == 0
    assert json.loads((tmp_path / "p.json").read_text())["environments"] == ["other", "1"]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_levels_of_tables_to_predict(tmp_path: Path) -> None:
    model = BIP(columns=AS_LEVELS).fit(
        table()[["x", "code"]], table()["y"], environments=table()["site"]
    )
    model.save(tmp_path / "model.json")
    new = pd.DataFrame({"x": [0.5, 0.5], "code": ["3.10 ", "3.1"]})
    for predictor in (model, load(tmp_path / "model.json")):
        encoded = predictor._fitted_columns(new)
        at = [predictor.columns_.index(f"code={level}") for level in ("3.10", "3.1")]
        np.testing.assert_array_equal(encoded[:, at], np.eye(2))
        with pytest.raises(DataError, match=r"'3\.100'"):
            predictor._fitted_columns(new.replace("3.1", "3.100"))


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_rows_that_are_read_in_pieces_have_the_same_labels(tmp_path: Path) -> None:
    moments = Moments.from_rows(csv(tmp_path), "y", "site", exclude=["code"])
    model = BIP().fit(moments)
    assert model.environments_ == LABELS


def test_read_table_tells_of_numbers_that_are_written_in_several_ways(tmp_path: Path) -> None:
    rows = table(["01", "1", "2"], 4).assign(flag=["true", "TRUE", "false"] * 4)
    with pytest.warns(DataWarning, match="several ways") as told:
        read = read_table(csv(tmp_path, rows))
    message = told[0].message.args[0]
    assert [dict(remedy.settings) for remedy in message.remedies] == [
        {"as_text": ["code", "site", "flag"]}
    ]
    assert "'01' and '1'" in message
    assert read["site"].tolist() == [1] * 8 + [2] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = read_table(csv(tmp_path, rows), as_text=["site", "code", "flag"])
    assert kept["site"].tolist() == rows["site"].tolist()
    with pytest.raises(DataError, match=r"as_text: 'sight'.*'site'"):
        read_table(csv(tmp_path, rows), as_text=["sight"])


def test_whole_numbers_of_a_sheet_with_gaps_stay_whole(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    rows = table(["1", "2"], 30).assign(site=np.repeat([1, 2], 30), code=[1, 2] * 30).astype(object)
    rows.loc[0, ["site", "code"]] = None
    rows.to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.warns(DataWarning, match="dropped 1"):
        data = from_table(tmp_path / "t.xlsx", "y", "site", columns=AS_LEVELS, missing="drop")
    assert data.environments == (1, 2)
    assert str(data.environments) == "(1, 2)"
    assert data.encoding is not None
    assert data.encoding.of_levels["code"].levels == ("1", "2")


def test_whole_numbers_with_and_without_a_fraction_are_one_level(tmp_path: Path) -> None:
    """As where one hospital writes 4.0 and the next one 4; environments stay what they are
    called."""
    rows = table(["3", "4.0", "4"])
    rows["site"] = np.resize(["1", "1.0", "2"], len(rows))
    rows["code"] = np.repeat(["3", "4.0", "4"], len(rows) // 3)
    rows.to_csv(tmp_path / "t.csv", index=False)
    for given in (rows, tmp_path / "t.csv"):
        with pytest.warns(DataWarning) as told:
            data = from_table(given, "y", "site", columns=AS_LEVELS)
        assert [str(warning.message) for warning in told] == [
            "column 'code': '4' and '4.0' are one level."
        ]
        assert data.encoding.of_levels["code"].levels == ("3", "4")
        assert data.environments == ("1", "1.0", "2")


def test_environments_that_differ_in_a_fraction_of_zeros_are_found() -> None:
    rows = table(["3", "4", "5"]).drop(columns="code")
    rows["site"] = np.resize(["1", "1.0", "2"], len(rows))
    (finding,) = check(rows, "y", "site").findings
    assert dict(finding.remedies[0].settings) == {"merge_environments": {"1": ["1", "1.0"]}}


def test_levels_of_a_sheet_that_become_one_are_told(tmp_path: Path) -> None:
    rows = table(["a", "a ", "b"])
    rows.assign(site=rows["site"].str.replace(" ", "c")).to_excel(tmp_path / "t.xlsx", index=False)
    for read in (from_table, Moments.from_rows):
        with pytest.warns(DataWarning, match="'a' and 'a ' are one level"):
            read(tmp_path / "t.xlsx", "y", "site", columns=AS_LEVELS)


def test_empty_text_is_missing(tmp_path: Path) -> None:
    rows = table(["", "  ", "a", "b"])
    rows.to_parquet(tmp_path / "t.parquet")
    for source in (
        rows,
        rows.astype({"site": "category"}),
        tmp_path / "t.parquet",
        csv(tmp_path, rows),
    ):
        for read in (from_table, Moments.from_rows):
            with pytest.raises(DataError, match="no label in 24 rows"):
                read(source, "y", "site")
    with pytest.raises(DataError, match=r"missing values .*'code' .24 rows"):
        from_table(rows.assign(site=np.repeat(["n", "s"], 24)), "y", "site")


def test_a_label_of_each_type() -> None:
    missing = [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]
    assert [label_of(value) for value in missing] == [None] * 6
    given = (" a\N{NO-BREAK SPACE}", np.str_("b "), np.int8(3), True)
    assert [label_of(value) for value in given] == ["a", "b", 3, True]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_numbers_are_quoted_in_sentences() -> None:
    rng = np.random.default_rng(1)
    site = np.repeat([1, 2, 3], 60)
    x = rng.normal(size=180)
    rows = pd.DataFrame(
        {"x": x, "y": np.where(site == 3, -2.0, 2.0) * x + rng.normal(size=180), "site": site}
    )
    model = BIP(prior="inclusion(1)").fit(from_table(rows, "y", "site"))
    diagnosis = str(model.diagnose())
    assert "'3'" in str(model.decision_.verdict)
    assert "'3'" in diagnosis
    assert not re.search(r"(environment|without|most|in) 3\b", diagnosis, re.IGNORECASE)
    assert "'1' (60 rows), '2' (60 rows)" in repr(from_table(rows, "y", "site"))
    assert (
        from_table(rows, "y", "site", drop_environments=["3"]).losses[0].endswith("'3' (60 rows).")
    )
    gaps = rows.assign(x=rows["x"].where(rows.index != 179))
    with pytest.warns(DataWarning, match="1 of environment '3'"):
        from_table(gaps, "y", "site", missing="drop")
    with pytest.raises(DataError, match=r"'3' \(2 rows\)"):
        BIP(deviations="free").fit(from_table(rows[:122], "y", "site"))
    with pytest.raises(DataError, match="the same label '1'"):
        from_table(rows[:60], "y", "site")
    with pytest.raises(DataError, match=r"no environment '9'.*'1', '2', '3'"):
        from_table(rows, "y", "site", drop_environments=[9])


def test_periods_are_text_wherever_they_come_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "y"])
    table["year"] = pd.period_range("2020", periods=3, freq="Y").repeat(10)
    for data in (
        MultiEnvironmentData.from_table(table, "y", "year"),
        Moments.from_rows(table, "y", "year"),
    ):
        assert data.environments == ("2020", "2021", "2022")


def test_fit_advises_settings_that_the_named_function_has() -> None:
    X = np.arange(24.0).reshape(12, 2)
    y = np.arange(12.0)
    with pytest.raises(DataError) as caught:
        BIP().fit(np.where(X == 3.0, np.nan, X), y, environments=["x", "x\u200b", "w"] * 4)
    advised = re.findall(r"MultiEnvironmentData\.(\w+)\(\.\.\., (\w+)=", str(caught.value))
    assert advised == [("from_arrays", "missing"), ("from_arrays", "merge_environments")]
    for function, setting in advised:
        assert setting in inspect.signature(getattr(MultiEnvironmentData, function)).parameters
