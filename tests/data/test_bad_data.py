"""Input that cannot be used: each kind fails with the phrase that helps."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from bad_tables import BAD_TABLES, COLUMNS
from invariance.data import MultiEnvironmentData
from invariance.exceptions import DataError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 3))
Y = RNG.normal(size=12)
LABELS = ["b"] * 4 + ["a"] * 5 + ["c"] * 3
FRAME = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=Y, site=LABELS)

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays


def failing(phrase: str) -> Any:
    return pytest.raises(DataError, match=re.escape(phrase))


def with_nan(row: int = 0, column: int = 0, value: float = np.nan) -> np.ndarray:
    changed = X.copy()
    changed[row, column] = value
    return changed


# ---------------------------------------------------------------- bad files and frames


@pytest.mark.parametrize(("text", "arguments", "phrase"), [pytest.param(*c[1:], id=c[0]) for c in BAD_TABLES])
def test_bad_csv(tmp_path: Path, text: str, arguments: dict[str, Any], phrase: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with failing(phrase):
        from_table(path, **arguments)


@pytest.mark.parametrize(
    ("text", "arguments", "phrase"),
    [pytest.param(*c[1:], id=c[0]) for c in BAD_TABLES if "parsed" not in c[3] and "table.csv" not in c[3]],
)
def test_bad_frame(text: str, arguments: dict[str, Any], phrase: str) -> None:
    with failing(phrase.replace("the file;", "the table;")):
        from_table(pd.read_csv(io.StringIO(text)), **arguments)


def frame_with(**columns: Any) -> pd.DataFrame:
    return FRAME.assign(**columns)


@pytest.mark.parametrize(
    ("make", "arguments", "phrase"),
    [
        pytest.param(lambda: FRAME, {"features": "u"}, "features=['u']", id="str"),
        pytest.param(lambda: FRAME, {"features": "u, v"}, "features=['u', 'v']", id="joined"),
        pytest.param(lambda: FRAME, {"features": 3}, "features=3", id="number"),
        pytest.param(lambda: FRAME, {"features": []}, "features is an empty list", id="empty list"),
        pytest.param(lambda: FRAME, {"outcome": None}, "outcome=None is not a column name: pass the name", id="none"),
        pytest.param(lambda: FRAME, {"missing": "skip"}, "missing='error' or missing='drop'", id="missing="),
        pytest.param(lambda: FRAME[:0], {}, "the table has no rows. Check the file", id="no rows"),
        pytest.param(lambda: pd.DataFrame(), {}, "the table has no columns. It needs an outcome", id="no columns"),
        pytest.param(
            lambda: pd.concat([FRAME, FRAME[["u"]]], axis=1),
            {},
            "duplicate column names in the table: 'u'. Give every column its own name.",
            id="duplicates",
        ),
        pytest.param(
            lambda: frame_with(u=pd.Categorical([f"{i}" for i in range(12)])),
            {},
            "column 'u' is not numeric but has 12 different values in 12 rows (for example '0')",
            id="category of names",
        ),
        pytest.param(
            lambda: frame_with(u=pd.date_range("2020-01-01", periods=12)),
            {},
            "column 'u' is not numeric (dtype datetime64",
            id="dates",
        ),
        pytest.param(
            lambda: frame_with(u=X[:, 0].astype(object)),
            {},
            "column 'u' holds numbers stored as dtype object",
            id="object numbers",
        ),
        pytest.param(
            lambda: frame_with(u=[str(i) for i in range(12)]),
            {},
            "exclude=['u'] or numeric=['u'] or categorical=['u']",
            id="numbers as text",
        ),
        pytest.param(
            lambda: frame_with(u=X[:, 0] + 1j),
            {},
            "column 'u' holds complex numbers (dtype complex128). Complex data not supported: use its real",
            id="complex",
        ),
        pytest.param(
            lambda: frame_with(site=[[1]] * 6 + [[2]] * 6),
            {},
            "label in row 0 is not hashable (list [1])",
            id="unhashable",
        ),
        pytest.param(
            lambda: frame_with(site=pd.array(["a", None] * 6, dtype="string")),
            {},
            "environment column 'site' has no label in 6 rows",
            id="null labels",
        ),
        pytest.param(
            lambda: frame_with(u=pd.array([1, None] + [2] * 10, dtype="Int64")),
            {},
            "missing values (NaN) in 'u' (1 row); in environment 'b' (1 row)",
            id="nullable integer",
        ),
        pytest.param(
            lambda: pl.from_pandas(FRAME).with_columns(u=pl.Series(list("abcdefghijkl"))),
            {},
            "column 'u' is not numeric but has 12 different values in 12 rows (for example 'a')",
            id="polars text",
        ),
        pytest.param(
            lambda: pl.from_pandas(FRAME).lazy(),
            {},
            "is a lazy frame: call .collect() on it first.",
            id="lazy",
        ),
        pytest.param(lambda: X, {}, "got ndarray: for arrays use MultiEnvironmentData.from_arrays", id="array"),
        pytest.param(lambda: {"u": [1]}, {}, "must be a pandas or polars DataFrame or the path", id="dict"),
        pytest.param(lambda: "nowhere.csv", {}, "file not found: 'nowhere.csv'. Check the path", id="no file"),
        pytest.param(
            lambda: Path(__file__),
            {},
            "sep=','",
            id="suffix",
        ),
        pytest.param(lambda: Path(__file__).parent, {}, "is a directory: pass the path of one", id="directory"),
    ],
)
def test_bad_table(make: Callable[[], Any], arguments: dict[str, Any], phrase: str) -> None:
    with failing(phrase):
        from_table(make(), **{**COLUMNS, **arguments})


def test_long_lists_of_columns_are_shortened() -> None:
    wide = pd.DataFrame(np.zeros((3, 100)), columns=[f"x{i}" for i in range(100)])
    with failing("'x11', ... (88 more)."):
        from_table(wide, outcome="zzz", environment="x0")


# ---------------------------------------------------------------- bad arrays


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        pytest.param({"X": X[:, 0]}, "X is one-dimensional, shape (12,): reshape it to (rows, features)", id="X 1-D"),
        pytest.param({"X": X[None]}, "X has 3 dimensions: reshape it to (rows, features).", id="X 3-D"),
        pytest.param({"X": X[:, :0]}, "X has no features, shape (12, 0): it needs at least one column.", id="p=0"),
        pytest.param({"X": X[:0], "y": Y[:0], "environments": []}, "the table has no rows. Check", id="no rows"),
        pytest.param({"X": X + 1j}, "X holds complex numbers. Complex data not supported: use the real", id="complex"),
        pytest.param({"y": Y + 1j}, "y holds complex numbers. Complex data not supported", id="complex y"),
        pytest.param({"X": X.astype(object)}, "X is an object array (for example ", id="object"),
        pytest.param({"y": Y.astype(object)}, "): convert it with .astype(float), after", id="object y"),
        pytest.param({"X": X.astype(str)}, "X is not numeric (dtype <U", id="text"),
        pytest.param({"X": [[1, 2], [3]]}, "X is not rectangular: give every row the same number", id="ragged"),
        pytest.param({"X": scipy.sparse.csr_matrix(X)}, "X is a sparse matrix: pass a dense array", id="sparse"),
        pytest.param({"X": scipy.sparse.coo_array(X)}, "for example X.toarray().", id="sparse array"),
        pytest.param({"y": X}, "y has shape (12, 3), but one outcome per row is needed: pass a single", id="y 2-D"),
        pytest.param({"y": 3.0}, "y has shape (), but one outcome per row is needed", id="y scalar"),
        pytest.param({"y": Y[:5]}, "lengths differ: X has 12 rows, y has 5 rows, environments has 12", id="y short"),
        pytest.param({"environments": LABELS[1:]}, "environments has 11 rows. Pass one entry per row", id="labels"),
        pytest.param({"environments": ["a"] * 12}, "environments: all 12 rows have the same label 'a'", id="one"),
        pytest.param({"environments": [1, 2] + [3] * 10}, "environments too small: 1 (1 row), 2 (1 row).", id="small"),
        pytest.param({"environments": "site"}, "is a single string: pass one label per row", id="string"),
        pytest.param({"environments": 4}, "environments of type int is not a sequence: pass one label", id="scalar"),
        pytest.param({"environments": X}, "environments has shape (12, 3): pass one label per row", id="2-D labels"),
        pytest.param(
            {"environments": [*LABELS[:11], {"c": 1}]},
            "environment label in row 11 is not hashable",
            id="unhashable",
        ),
        pytest.param(
            {"environments": [*LABELS[:10], None, np.nan]},
            "environments has no label in 2 rows",
            id="missing label",
        ),
        pytest.param({"X": with_nan()}, "missing values (NaN) in 'x0' (1 row); in environment 'b' (1 row)", id="nan"),
        pytest.param(
            {"X": with_nan(), "environments": None},
            "missing values (NaN) in 'x0' (1 row)",
            id="nan without environments",
        ),
        pytest.param(
            {"X": with_nan(value=np.inf), "missing": "drop"},
            "infinite values (inf) in 'x0' (1 row); in environment 'b' (1 row). Replace them",
            id="inf is never dropped",
        ),
        pytest.param(
            {"X": np.full((12, 2), np.nan), "missing": "drop"},
            "every feature is constant over all rows: 'x0' (missing in 12 rows), 'x1' (missing in 12 rows).",
            id="all empty",
        ),
        pytest.param({"X": X[:2], "y": Y[:2], "environments": None}, "only 2 rows; at least 3 rows are", id="N=2"),
        pytest.param({"feature_names": ["p", "q"]}, "2 names but X has 3 columns: pass one per column", id="names"),
        pytest.param({"feature_names": "pqr"}, "is a single string: pass a list of 3 names.", id="names string"),
        pytest.param({"feature_names": list("ppq")}, "duplicate column names in feature_names: 'p'.", id="twice"),
        pytest.param(
            {"outcome_name": "x1"},
            "outcome_name='x1' is also a feature name: choose another.",
            id="outcome name",
        ),
        pytest.param({"missing": None}, "missing=None", id="missing="),
    ],
)
def test_bad_arrays(arguments: dict[str, Any], phrase: str) -> None:
    with failing(phrase):
        from_arrays(**{"X": X, "y": Y, "environments": LABELS, **arguments})
