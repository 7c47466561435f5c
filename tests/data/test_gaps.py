"""Missing values: what leaves before rows do, and what the rows that go are counted as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance.data import MultiEnvironmentData
from invariance.exceptions import DataError, DataWarning
from invariance.moments.moments import Moments

N = 80
ROWS = np.arange(N)
SITE = np.where(ROWS % 2, "north", "south")


def table(**columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, N))
    return pd.DataFrame({"a": a, "b": b, "y": a + rng.normal(size=N), "site": SITE}).assign(
        **columns
    )


def costly() -> pd.DataFrame:
    """50 rows lack c and d, 5 of these b too; 5 more lack b alone."""
    gone = ROWS < 50
    c = np.where(gone, np.nan, ROWS * 0.1)
    d = np.where(gone, np.nan, np.cos(ROWS))
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


def read(rows: pd.DataFrame, in_pieces: bool, **how: Any) -> Any:
    reader = Moments.from_rows if in_pieces else MultiEnvironmentData.from_table
    return reader(rows, "y", "site", **how)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    "values", [None, np.where(ROWS % 8 == 0, 7.5, np.nan), np.where(ROWS % 8 == 0, "late", None)]
)
def test_columns_with_hardly_a_value_are_refused(values: Any, in_pieces: bool) -> None:
    with pytest.raises(DataError, match="'comment'") as refused:
        read(table(comment=values), in_pieces)
    assert {"exclude": ["comment"]} in [
        dict(remedy.settings) for remedy in refused.value.args[0].remedies
    ]
    with pytest.raises(DataError, match="'comment' has at most one value beside missing ones"):
        read(table(comment=values), in_pieces, missing="drop")
