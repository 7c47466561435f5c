"""Input that cannot be used is refused by every entry, with what is wrong by name."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from bad_tables import BAD_TABLES, COLUMNS, NO_OWN_FIT
from invariance import LinearGaussian, Logistic
from invariance.data import MultiEnvironmentData
from invariance.exceptions import DataError, InvarianceError
from invariance.moments import Moments

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 3))
Y = RNG.normal(size=12)
LABELS = ["b"] * 4 + ["a"] * 5 + ["c"] * 3
FRAME = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=Y, site=LABELS)

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays


def refused(
    named: tuple[str, ...], read: Callable[..., Any], *given: Any, **arguments: Any
) -> None:
    with pytest.raises(InvarianceError) as caught:
        read(*given, **arguments)
    assert isinstance(caught.value, ValueError)
    for each in named:
        assert each in str(caught.value)


@pytest.mark.parametrize(
    ("text", "arguments", "named"), [pytest.param(*c[1:], id=c[0]) for c in BAD_TABLES]
)
def test_bad_tables(
    tmp_path: Path, text: str, arguments: dict[str, Any], named: tuple[str, ...]
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    refused(named, from_table, path, **arguments)
    refused(named, Moments.from_rows, path, **arguments)
    if "table.csv" in named or "duplicate" in text:
        return
    frame = pd.read_csv(io.StringIO(text))
    if "b.1" in frame:
        return
    refused(named, from_table, frame, **arguments)
    refused(named, from_table, pl.from_pandas(frame), **arguments)
    frame.to_parquet(tmp_path / "table.parquet")
    refused(named, from_table, tmp_path / "table.parquet", **arguments)
    refused(named, Moments.from_rows, tmp_path / "table.parquet", **arguments)


@pytest.mark.parametrize(
    ("text", "arguments", "named"), [pytest.param(*c[1:], id=c[0]) for c in NO_OWN_FIT]
)
def test_environments_without_a_fit_of_their_own(
    text: str, arguments: dict[str, Any], named: tuple[str, ...]
) -> None:
    frame = pd.read_csv(io.StringIO(text))
    for read in (from_table, Moments.from_rows):
        refused(named, LinearGaussian().bind, read(frame, **COLUMNS, **arguments))
    if "merge them" in named:
        refused(named, Logistic().bind, from_table(frame, **COLUMNS, **arguments))
    assert (
        LinearGaussian(deviations="random").bind(from_table(frame, **COLUMNS)).log_ratio([]) <= 0.0
    )


def changed(**columns: Any) -> pd.DataFrame:
    return FRAME.assign(**columns)


BAD_FRAMES: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "a string": (FRAME, {"features": "u"}, ("features=['u']",)),
    "a number": (FRAME, {"features": 3}, ("features=3",)),
    "empty list": (FRAME, {"features": []}, ("features=None",)),
    "no outcome": (FRAME, {"outcome": None}, ("outcome=None",)),
    "missing=": (FRAME, {"missing": "skip"}, ("missing='error'", "missing='drop'")),
    "no columns": (pd.DataFrame(), {}, ("'y'",)),
    "duplicates": (pd.concat([FRAME, FRAME[["u"]]], axis=1), {}, ("duplicate", "'u'")),
    "names": (
        changed(u=pd.Categorical([f"{i}" for i in range(12)])),
        {},
        ("'u'", "12 different values"),
    ),
    "dates": (
        changed(u=pd.date_range("2020-01-01", periods=12)),
        {},
        ("'u'", "datetime64", "categorical=['u']"),
    ),
    "objects": (changed(u=X[:, 0].astype(object)), {}, ("'u'", "dtype object", "numeric=['u']")),
    "text": (
        changed(u=list(map(str, range(12)))),
        {},
        ("exclude=['u']", "numeric=['u']", "categorical=['u']"),
    ),
    "complex": (changed(u=X[:, 0] + 1j), {}, ("'u'", "Complex data not supported")),
    "unhashable": (changed(site=[[1]] * 6 + [[2]] * 6), {}, ("row 0", "list")),
    "null labels": (
        changed(site=pd.array(["a", None] * 6, dtype="string")),
        {},
        ("'site'", "6 rows"),
    ),
    "nullable": (
        changed(u=pd.array([1, None] + [2] * 10, dtype="Int64")),
        {},
        ("'u' (1 row)", "'b' (1 row)"),
    ),
    "lazy": (pl.from_pandas(FRAME).lazy(), {}, (".collect()",)),
    "an array": (X, {}, ("ndarray", "from_arrays")),
    "a mapping": ({"u": [1]}, {}, ("dict",)),
    "no file": ("nowhere.csv", {}, ("'nowhere.csv'",)),
    "a suffix": (Path(__file__), {}, ("sep=','",)),
    "a folder": (Path(__file__).parent, {}, ("directory",)),
    "beyond 2**53": (
        changed(u=2**53 + np.arange(12) % 7),
        {},
        ("'u'", "9007199254740998", "exclude=['u']"),
    ),
}


@pytest.mark.parametrize(("table", "arguments", "named"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_bad_frames(table: Any, arguments: dict[str, Any], named: tuple[str, ...]) -> None:
    refused(named, from_table, table, **{**COLUMNS, **arguments})


def with_value(value: float) -> np.ndarray:
    changed = X.copy()
    changed[0, 0] = value
    return changed


BAD_ARRAYS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "X 1-D": ({"X": X[:, 0]}, ("X", "(12,)", "reshape")),
    "no features": ({"X": X[:, :0]}, ("X", "(12, 0)")),
    "no rows": ({"X": X[:0], "y": Y[:0], "environments": []}, ("no rows",)),
    "complex X": ({"X": X + 1j}, ("X", "Complex data not supported")),
    "complex y": ({"y": Y + 1j}, ("y", "Complex data not supported")),
    "object X": ({"X": X.astype(object)}, ("X", "object", ".astype(float)")),
    "object y": ({"y": Y.astype(object)}, ("y", "object")),
    "text": ({"X": X.astype(str)}, ("X", "<U")),
    "ragged": ({"X": [[1, 2], [3]]}, ("X", "rectangular")),
    "ragged y": ({"y": [[1, 2], [3]] * 6}, ("y", "rectangular")),
    "large sparse matrix": (
        {"X": scipy.sparse.csr_matrix((10**6, 10**6))},
        ("8e+03 GB", "VarianceThreshold"),
    ),
    "y 2-D": ({"y": X}, ("y", "(12, 3)")),
    "y short": ({"y": Y[:5]}, ("X has 12 rows", "y has 5 rows", "environments has 12")),
    "labels short": ({"environments": LABELS[1:]}, ("environments has 11 rows",)),
    "string": ({"environments": "site"}, ("environments='site'",)),
    "scalar": ({"environments": 4}, ("environments", "int")),
    "2-D labels": ({"environments": X}, ("environments", "(12, 3)")),
    "unhashable": ({"environments": [*LABELS[:11], {"c": 1}]}, ("row 11",)),
    "missing label": ({"environments": [*LABELS[:10], None, np.nan]}, ("environments", "2 rows")),
    "masked y": ({"y": np.ma.masked_array(Y, np.arange(12) == 2)}, ("'y' (1 row)",)),
    "nan": ({"X": with_value(np.nan)}, ("'x0' (1 row)", "'b' (1 row)", "missing='drop'")),
    "masked": (
        {"X": np.ma.masked_array(X, np.eye(12, 3, 1) > np.arange(12)[:, None])},
        ("'x1' (1 row)",),
    ),
    "inf": ({"X": with_value(np.inf), "missing": "drop"}, ("'x0' (1 row)", "'b' (1 row)")),
    "empty": ({"X": np.full((12, 2), np.nan), "missing": "drop"}, ("'x0'", "'x1'")),
    "two rows": ({"X": X[:2], "y": Y[:2], "environments": None}, ("2 rows", "3 rows")),
    "names": ({"feature_names": ["p", "q"]}, ("feature_names", "3")),
    "a string of names": ({"feature_names": "pqr"}, ("feature_names='pqr'",)),
    "twice": ({"feature_names": list("ppq")}, ("feature_names", "'p'")),
    "outcome name": ({"outcome_name": "x1"}, ("outcome_name='x1'",)),
}


@pytest.mark.parametrize(("arguments", "named"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_bad_arrays(arguments: dict[str, Any], named: tuple[str, ...]) -> None:
    refused(named, from_arrays, **{"X": X, "y": Y, "environments": LABELS, **arguments})


# ---------------------------------------------------------------- columns that cannot be used

N = 40
GOOD = pd.DataFrame(
    {"a": RNG.normal(size=N), "y": RNG.normal(size=N), "site": ["n"] * 20 + ["s"] * 20}
)
BAD_COLUMNS = {
    "visit": [f"2021-03-{1 + i % 5:02d}" for i in range(N)],
    "hour": ["08:30", "9:15 PM"] * (N // 2),
    "born": [f"{1 + i % 9}.5.1970" for i in range(N)],
    "patient": [f"P{i}" for i in range(N)],
    "dose": ["1,5", "2,5"] * (N // 2),
}


@pytest.mark.parametrize("read", [from_table, Moments.from_rows])
def test_all_unusable_columns_at_once(read: Callable[..., Any]) -> None:
    with pytest.raises(DataError) as caught:
        read(GOOD.assign(**BAD_COLUMNS), "y", "site")
    advised = {
        setting: value
        for remedy in caught.value.args[0].remedies
        for setting, value in remedy.settings
    }
    assert advised == {
        "exclude": list(BAD_COLUMNS),
        "categorical": list(BAD_COLUMNS),
        "decimal": ",",
    }
    assert all(f"column {name!r}" in str(caught.value) for name in BAD_COLUMNS)
