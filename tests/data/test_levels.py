"""Levels: what counts as one, in which order they come, and what they must not be."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, MultiEnvironmentData
from invariance.data import read_chunks
from invariance.data.raw import as_text
from invariance.exceptions import DataError, DataWarning
from patients import patients

from_table = MultiEnvironmentData.from_table
TABLE = patients(12)[["age", "drugs", "pressure", "hospital"]]
N = len(TABLE)
ASKED = {"outcome": "pressure", "environment": "hospital"}


def failing(phrase: str, error: type[Exception] = DataError) -> Any:
    return pytest.raises(error, match=re.escape(phrase))


def save(table: pd.DataFrame, folder: Path, name: str = "t.csv") -> Path:
    table.to_csv(folder / name, index=False)
    return folder / name


# ---------------------------------------------------------------- one level, written in several ways


@pytest.mark.parametrize(
    ("written", "levels"),
    [
        (["1.0", "2.0", "3.0"], ["2", "3"]),
        (["1.50", "2.00", "10"], ["2", "10"]),
        (["1e1", "-0.25", "20"], ["10", "20"]),
        (["TRUE", "FALSE", "TRUE"], ["True"]),
        (["true", "false", "true"], ["True"]),
        (["12345678901234567", "12345678901234568", "3"], ["12345678901234567", "12345678901234568"]),
    ],
)
def test_a_file_and_its_frame_have_the_same_levels(tmp_path: Path, written: list[str], levels: list[str]) -> None:
    path = save(TABLE.assign(code=np.resize(written, N)), tmp_path)
    data = from_table(path, **ASKED, categorical=["code"])
    assert [name for name in data.features.columns if "code" in name] == [f"code={level}" for level in levels]
    frame = pd.read_csv(path)
    assert from_table(frame, **ASKED, categorical=["code"]).encoding == data.encoding
    for chunk in read_chunks(path, **ASKED, categorical=["code"], rows_per_chunk=7):
        assert chunk.encoding == data.encoding
    model = BIP().fit_data(data)
    np.testing.assert_array_equal(model.predict(frame), model.predict(data.to_frame()))


@pytest.mark.parametrize("code", ["01", "+1", "1.", ".5", "1_000", "nan", "x1", "1e", "٣", "yes", "True story"])
def test_text_that_is_no_plain_number_stays(code: str) -> None:
    assert as_text(code) == code


@pytest.mark.parametrize("rows_per_chunk", [1, 1000])
def test_text_that_differs_is_not_made_one_level_in_silence(tmp_path: Path, rows_per_chunk: int) -> None:
    table = TABLE.assign(code=np.resize(["250.0", "250.00", "v1"], N))
    phrase = "column 'code': '250.0' and '250.00' are the same number or truth value. Write them in the same way if"
    with failing(phrase):
        from_table(table, **ASKED, categorical=["code"])
    path = save(table, tmp_path)
    with failing(phrase):
        list(read_chunks(path, **ASKED, categorical=["code"], rows_per_chunk=rows_per_chunk))


# ---------------------------------------------------------------- levels that tell environments apart

WARDS = TABLE["hospital"] + np.resize(["1", "2"], N)


@pytest.mark.parametrize("ward", [TABLE["hospital"], WARDS], ids=["the label itself", "nested"])
@pytest.mark.parametrize("rows_per_chunk", [5, 1000])
def test_levels_of_one_environment_each(tmp_path: Path, ward: pd.Series, rows_per_chunk: int) -> None:
    table = TABLE.assign(ward=ward, sex=np.resize(["f", "m"], N))
    phrase = r"each level of 'ward' occurs in one environment only: .* Leave it out with exclude=\['ward'\]"
    path = save(table, tmp_path)
    for give in (
        lambda: from_table(table, **ASKED),
        lambda: from_table(path, **ASKED),
        lambda: list(read_chunks(path, **ASKED, rows_per_chunk=rows_per_chunk)),
    ):
        with pytest.warns(DataWarning, match=phrase) as caught:
            give()
        assert len(caught) == 1
    with pytest.warns(DataWarning, match=r"each level of 'ward', 'twin' .* Leave them out of X$"):
        BIP().fit(table[["age", "ward"]].assign(twin=ward), table["pressure"], environments=table["hospital"])


@pytest.mark.parametrize("shared", [False, True])
def test_a_level_that_two_environments_share_is_enough(shared: bool) -> None:
    """And one environment has nothing to tell apart."""
    table = TABLE.assign(ward=WARDS.replace({"bb1": "aa1"}) if shared else WARDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiEnvironmentData.from_arrays(
            table[["age", "ward"]], table["pressure"], table["hospital"] if shared else None
        )


def test_a_level_whose_rows_elsewhere_are_dropped_is_of_one_environment() -> None:
    table = TABLE.assign(ward=WARDS)
    table.loc[table["hospital"] == "bb", "ward"] = ["aa1", *["bb1"] * 11]
    table.loc[table["ward"].eq("aa1") & table["hospital"].eq("bb"), "age"] = np.nan
    with pytest.warns(DataWarning, match="each level of 'ward'"), pytest.warns(DataWarning, match="dropped 1 of"):
        from_table(table, **ASKED, missing="drop")
