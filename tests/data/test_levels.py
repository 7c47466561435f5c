"""Levels: what counts as one, in which order they come, and what they must not be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, MultiEnvironmentData
from invariance.data import read_chunks
from invariance.data.raw import as_text
from invariance.exceptions import DataError
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
