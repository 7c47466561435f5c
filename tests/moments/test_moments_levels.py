"""Moments of tables with levels and with constant columns: merged, with another outcome, without a row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.data import read_chunks
from invariance.exceptions import DataError, DataWarning
from patients import patients

from_table = MultiEnvironmentData.from_table
TABLE = patients(12)[["smoking", "age", "region", "drugs", "pressure", "hospital"]]
N = len(TABLE)
ASKED: dict[str, Any] = {"outcome": "pressure", "environment": "hospital"}
LEVELS = {"smoking": ["never", "former", "current"], "region": ["west", "north", "south", "east", "centre"]}


def failing(phrase: str) -> Any:
    return pytest.raises(DataError, match=re.escape(phrase))


def same(moments: Moments, expected: Moments) -> None:
    assert moments.columns == expected.columns
    assert moments.feature_names == expected.feature_names
    assert moments.encoding == expected.encoding
    assert moments.environments == expected.environments
    assert moments.constants == expected.constants
    assert moments.losses == expected.losses
    for name in ("counts", "minimum", "maximum", "at_ends"):
        np.testing.assert_array_equal(getattr(moments, name), getattr(expected, name))
    for name in ("means", "scatter", "rounding"):
        np.testing.assert_allclose(getattr(moments, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------- merging

FIRST = np.arange(N) % 3 > 0
MIXED = TABLE.assign(smoking=np.where(FIRST, np.resize(["never", "current"], N), "former"))
PARTS = (MIXED[FIRST], MIXED[~FIRST].assign(region="east"))


@pytest.mark.filterwarnings("ignore:dropped (features|columns)")
@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_tables_with_other_levels_are_merged_when_all_are_listed(tmp_path: Path, in_chunks: bool, order: int) -> None:
    parts = [part.assign(dose=float(k), k=7.0) for k, part in enumerate(PARTS)][::order]

    def moments(table: pd.DataFrame) -> Moments:
        if not in_chunks:
            return Moments.from_data(from_table(table, **ASKED, categorical=LEVELS))
        table.to_csv(tmp_path / "t.csv", index=False)
        return Moments.from_chunks(read_chunks(tmp_path / "t.csv", **ASKED, categorical=LEVELS, rows_per_chunk=9))

    first, second = map(moments, parts)
    assert {"smoking=former", "dose", "k"} <= set((first if order == 1 else second).constants)
    whole = Moments.from_data(from_table(pd.concat(parts), **ASKED, categorical=LEVELS))
    assert whole.constants == {"k": 7.0}
    same(first.merge(second), whole)


def test_levels_that_differ_are_to_be_listed() -> None:
    first, second = (
        Moments.from_data(from_table(part[["smoking", "age", "pressure", "hospital"]], **ASKED))
        for part in (MIXED[FIRST], MIXED[MIXED["smoking"] != "current"])
    )
    advice = "read the data of both with categorical={'smoking': ['current', 'never', 'former']}."
    with failing("cannot merge moments whose levels, or the order of them, differ: " + advice):
        first.merge(second)
    grouped = from_table(MIXED[FIRST], **ASKED, features=["smoking", "age"], groups={"g": ["smoking", "age"]})
    with failing("cannot merge moments whose columns were made or grouped differently."):
        first.merge(Moments.from_data(grouped))


@pytest.mark.filterwarnings("ignore:dropped features")
def test_a_constant_that_the_other_never_had_is_a_difference() -> None:
    numbers = TABLE[["age", "drugs", "pressure", "hospital"]]
    first = Moments.from_data(from_table(numbers.assign(k=1.0), **ASKED))
    with failing("cannot merge moments of different columns; they differ in ['k']."):
        first.merge(Moments.from_data(from_table(numbers, **ASKED)))


# ---------------------------------------------------------------- another outcome


def test_another_outcome_keeps_the_levels() -> None:
    table = TABLE.assign(age=[f"{age:.3f}" for age in TABLE["age"]])
    moments = Moments.from_data(from_table(table, **ASKED, numeric=["age"]))
    turned = moments.with_outcome("drugs")
    direct = from_table(table, "drugs", "hospital", numeric=["age"])
    assert turned.notes == moments.notes == direct.notes
    assert set(turned.feature_names) == set(direct.feature_names)
    model, expected = BIP(select="mode").fit_moments(turned), BIP(select="mode").fit_data(direct)
    np.testing.assert_allclose(model.predict(table), expected.predict(table), rtol=1e-9)
    assert set(model.selected_features_) == set(expected.selected_features_) != set()
    assert set(model.feature_names_in_) == {"smoking", "age", "region", "pressure"}
    assert model.transform(table).shape == expected.transform(table).shape
    assert turned.with_outcome("pressure").encoding == moments.encoding


def test_what_cannot_be_the_outcome() -> None:
    moments = Moments.from_data(from_table(TABLE, **ASKED))
    columns = "Available columns: 'age', 'drugs', 'pressure'."
    with failing(f"the feature 'region' is made of several columns and cannot be the outcome; {columns}"):
        moments.with_outcome("region")
    with failing(f"column 'region=west' is part of the feature 'region' and cannot be the outcome; {columns}"):
        moments.with_outcome("region=west")
    with failing(f"column 'agee' is not in the data; did you mean 'age'? {columns}"):
        moments.with_outcome("agee")


# ---------------------------------------------------------------- what was left out


@pytest.mark.filterwarnings("ignore:dropped")
@pytest.mark.parametrize("rows_per_chunk", [2, 5, 1000])
def test_moments_know_what_was_left_out(tmp_path: Path, rows_per_chunk: int) -> None:
    table = TABLE.assign(k=1.0)
    table.loc[[0, 1, 20, 46, 47], "age"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    whole = from_table(table, **ASKED, missing="drop", groups={"both": ["age", "k"]})
    how: dict[str, Any] = {"missing": "drop", "groups": {"both": ["age", "k"]}}
    chunks = Moments.from_chunks(read_chunks(tmp_path / "t.csv", **ASKED, **how, rows_per_chunk=rows_per_chunk))
    assert whole.losses == Moments.from_data(whole).losses == chunks.losses
    assert len(whole.losses) == 2
    alone = from_table(table, **ASKED, missing="drop")
    assert Moments.from_data(alone).losses == alone.losses
    assert "dropped features that are constant over all rows: 'k'." in alone.losses


@pytest.mark.filterwarnings("ignore:dropped columns")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_level_whose_last_row_is_removed(place: int) -> None:
    level = sorted(LEVELS["smoking"])[place]
    table = TABLE.assign(smoking=np.resize([text for text in LEVELS["smoking"] if text != level], N))
    table.loc[5, "smoking"] = level
    data = from_table(table, **ASKED, features=["smoking", "age"])
    left = Moments.from_data(data).without_row("aa", [*data.X[5], data.y[5]])
    nowhere = ", which no row has" if place == 0 else ""
    assert data.notes == ("smoking: 3 levels, compared with 'current'.",)
    assert left.notes == (f"smoking: 2 levels, compared with 'current'{nowhere}.",)
    with failing(f"levels that the training data lack: column 'smoking' has {level!r} (1 row)"):
        BIP().fit_moments(left).predict(table)
    if place:
        assert left.losses == (
            f"dropped columns that are constant over all rows from their features: 'smoking={level}'.",
        )


def test_a_feature_that_loses_all_levels_but_one_is_not_noted() -> None:
    table = TABLE.assign(smoking=["current", *["never"] * (N - 1)])
    data = from_table(table, **ASKED, features=["smoking", "age"])
    with pytest.warns(DataWarning, match="dropped features that are constant over all rows: 'smoking'"):
        left = Moments.from_data(data).without_row("aa", [*data.X[0], data.y[0]])
    assert left.notes == ()
    assert left.losses == ("dropped features that are constant over all rows: 'smoking'.",)
