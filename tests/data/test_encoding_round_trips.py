"""Encoded tables written back, kept, reordered and read in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_encoding import ASKED, FRAMES, TABLE, N, column, failing, from_table

from invariance import MultiEnvironmentData, spline
from invariance.moments import Moments
from patients import LEVELS


def test_back_to_a_table() -> None:
    groups = {"age": spline("age"), "both": ["drugs", "extra"]}
    table = TABLE.assign(extra=np.random.default_rng(1).normal(size=N))
    data = from_table(table, **ASKED, groups=groups)
    back = data.to_frame()
    assert back.columns.tolist() == ["sex", "age", "smoking", "region", "drugs", "extra", "pressure", "hospital"]
    pd.testing.assert_frame_equal(back.astype(dict.fromkeys(LEVELS, "str")), table[back.columns])
    again = from_table(back, **ASKED, groups=groups)
    assert again.encoding == data.encoding
    np.testing.assert_array_equal(again.X, data.X)
    narrow = data.narrowed(np.array([True, False, True, False, False])).to_frame()
    assert narrow.columns.tolist() == ["sex=m", "smoking=former", "smoking=never", "pressure", "hospital"]


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """With missing values in the first rows, one of which alone has a level."""
    table = table.copy()
    table.loc[0, "region"] = None
    table.loc[1, ["age", "region"]] = [np.nan, "alone"]
    return table.assign(code=np.resize(["01", "1", "x", "y", "z"], len(table)))


@pytest.mark.filterwarnings("ignore:dropped 2 of 48 rows")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_and_streams_agree(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    table = gaps(TABLE)
    table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    how: dict[str, Any] = {"missing": "drop", "categorical": ["code"]}
    whole = from_table(path, **ASKED, **how)
    assert [name for name in whole.features.columns if "code" in name] == [f"code={k}" for k in ("1", "x", "y", "z")]
    moments = Moments.from_rows(path, **ASKED, **how)
    assert moments.encoding == whole.encoding
    assert moments.features.groups == whole.features.groups
    np.testing.assert_allclose(moments.scatter, Moments.from_data(whole).scatter, rtol=1e-9, atol=1e-7)


@FRAMES
def test_new_names_and_fewer_columns(convert: Callable[[pd.DataFrame], Any]) -> None:
    frame = convert(TABLE[["sex", "age", "drugs"]])
    names = ["gender", "years", "pills"]
    how: dict[str, Any] = {"feature_names": names, "exclude": ["years"]}
    data = MultiEnvironmentData.from_arrays(frame, TABLE["pressure"], TABLE["hospital"], **how)
    assert data.features.columns == ("gender=m", "pills")
    np.testing.assert_array_equal(column(data, "pills"), TABLE["drugs"])
    arrays = MultiEnvironmentData.from_arrays(
        TABLE[["age", "drugs"]].to_numpy(), TABLE["pressure"], TABLE["hospital"], exclude=["x0"]
    )
    assert arrays.feature_names == ("x1",)
    np.testing.assert_array_equal(arrays.X[:, 0], TABLE["drugs"])


def test_numbers_are_not_copied() -> None:
    X = np.random.default_rng(0).normal(size=(N, 3))
    data = MultiEnvironmentData.from_arrays(X, TABLE["pressure"], TABLE["hospital"])
    assert data.X is X
    assert data.encoding is None


def test_moments_of_different_encodings_do_not_merge() -> None:
    first, second = TABLE[TABLE["hospital"] < "c"], TABLE[TABLE["hospital"] > "c"]
    parts = [
        Moments.from_data(from_table(t, **ASKED, features=["age"], groups=[spline("age")])) for t in (first, second)
    ]
    with failing("cannot merge moments whose columns were made or grouped differently."):
        parts[0].merge(parts[1])
    assert parts[0].merge(parts[0]).encoding == parts[0].encoding
