"""Missing values: what leaves before rows do, and what the rows that go are counted as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cli_runner import run
from invariance.data import MultiEnvironmentData
from invariance.exceptions import DataError, DataWarning
from invariance.moments.accumulator import MomentsAccumulator
from invariance.moments.moments import Moments

N = 80
ROWS = np.arange(N)
SITE = np.where(ROWS % 2, "north", "south")


def table(**columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, N))
    return pd.DataFrame({"a": a, "b": b, "y": a + rng.normal(size=N), "site": SITE}).assign(**columns)


def where(keep: Any, value: Any = 1.0) -> np.ndarray:
    """The value at some rows, and none elsewhere."""
    values = np.broadcast_to(np.asarray(value, dtype=object), N)
    return np.where(keep, values, None)


TEN_HAVE_IT = ROWS % 8 == 0
ONE_VALUED = {
    "words": where(TEN_HAVE_IT, "late"),
    "numbers": np.where(TEN_HAVE_IT, 7.5, np.nan),
    "a category": pd.Categorical(where(TEN_HAVE_IT, "late"), categories=["early", "late"]),
}


@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("values", ONE_VALUED.values(), ids=ONE_VALUED)
def test_one_value_costs_no_row(values: Any, missing: str) -> None:
    with pytest.warns(DataWarning) as caught:
        data = MultiEnvironmentData.from_table(table(comment=values), "y", "site", missing=missing)
    assert [str(w.message) for w in caught] == list(data.losses)
    assert data.n_rows == N
    assert data.feature_names == ("a", "b")
    assert data.dropped_features == ("comment",)


@pytest.mark.parametrize("categorical", ["auto", ["nothing"], {"nothing": ["x", "z"]}])
def test_a_column_without_values_costs_no_row(categorical: Any) -> None:
    with pytest.warns(DataWarning, match="'nothing'"):
        data = MultiEnvironmentData.from_table(table(nothing=None), "y", "site", categorical=categorical)
    assert data.n_rows == N
    assert data.dropped_features == ("nothing",)


def test_arrays_are_not_written_to() -> None:
    X = np.column_stack([table()["a"], np.where(TEN_HAVE_IT, 1.0, np.nan)])
    with pytest.warns(DataWarning, match="'x1'"):
        MultiEnvironmentData.from_arrays(X, table()["y"], SITE)
    assert np.isnan(X[:, 1]).sum() == 70


def costly() -> pd.DataFrame:
    """50 rows lack c and d, 5 of these b too; 5 more lack b alone."""
    gone = ROWS < 50
    c, d = np.where(gone, np.nan, ROWS * 0.1), np.where(gone, np.nan, np.cos(ROWS))
    lost = (ROWS >= 45) & (ROWS < 55)
    return table(c=c, d=d).assign(b=lambda t: t["b"].mask(lost))


@pytest.mark.parametrize("in_pieces", [False, True])
def test_columns_that_most_rows_lack_are_named(in_pieces: bool) -> None:
    with pytest.raises(DataError) as refused:
        read(costly(), in_pieces, exclude=["a"])
    assert "in 'c' (50 rows), 'd' (50 rows), 'b' (10 rows); in" in str(refused.value)
    remedies = [dict(remedy.settings) for remedy in refused.value.args[0].remedies]
    assert remedies == [{"missing": "drop"}, {"exclude": ["a", "c", "d"]}]
    assert "keeps 25 of 80 rows" in str(refused.value)
    with pytest.warns(DataWarning, match=r"dropped 55 of 80 rows .*exclude=\['c', 'd'\]"):
        assert read(costly(), in_pieces, missing="drop").n_rows == 25
    with pytest.warns(DataWarning, match="dropped 10 of 80 rows") as caught:
        assert read(costly(), in_pieces, missing="drop", exclude=["c", "d"]).n_rows == 70
    assert "exclude" not in str(caught[0].message)


def arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


def read(rows: pd.DataFrame, in_pieces: bool, **how: Any) -> Any:
    reader = Moments.from_rows if in_pieces else MultiEnvironmentData.from_table
    return reader(rows, "y", "site", **how)


@pytest.mark.parametrize("comment", [where(TEN_HAVE_IT, "late"), np.where(TEN_HAVE_IT, 7.5, np.nan)])
def test_pieces_cannot_bring_rows_back(comment: Any) -> None:
    for missing in ("error", "drop"):
        with pytest.raises(DataError, match=r"'comment' .*70 rows.*exclude=\['comment'\]"):
            Moments.from_rows(table(comment=comment), "y", "site", missing=missing)
    with pytest.warns(DataWarning, match="dropped 70 of 80 rows"):
        Moments.from_rows(table(comment=comment), "y", "site", missing="drop", partial=True)


def test_one_count_everywhere(tmp_path: Path) -> None:
    rows = table().assign(site=np.where(ROWS < 5, "tiny", SITE), b=lambda t: t["b"].mask(ROWS % 20 == 3))
    rows.to_csv(tmp_path / "t.csv", index=False)
    asked = ["fit", str(tmp_path / "t.csv"), "--outcome", "y", "--environment", "site", "--missing", "drop"]
    for more in ([], ["--stream"]):
        result = run(*asked, "--min-rows", "6", *more)
        assert "dropped 3 of 75 rows" in result.stderr
        assert "dropped 3 of 75 rows" in result.stdout
        assert "of 80 rows" not in result.stderr + result.stdout


def accumulated(first: pd.DataFrame, second: pd.DataFrame) -> MomentsAccumulator:
    columns = [name for name in first.columns if name != "site"]
    added = [MomentsAccumulator(columns, "site").add(arrow(rows)) for rows in (first, second)]
    return added[0].merge(added[1])


def test_values_in_rows_that_go_are_merged() -> None:
    """Each piece has one value of k, the second in a row that lacks b."""
    rows = table(k=np.where(TEN_HAVE_IT, 7.5, np.nan)).assign(b=lambda t: t["b"].mask(ROWS >= 40))
    with pytest.raises(DataError, match="'k' has one value only, which is missing in 70 rows"):
        accumulated(rows[:40], rows[40:]).moments("y")
    rows.loc[48, "k"] = 8.5
    with pytest.raises(DataError, match="missing"):
        accumulated(rows[:40], rows[40:]).moments("y")
