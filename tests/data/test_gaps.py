"""Missing values: what leaves before rows do, and what the rows that go are counted as."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cli_runner import run
from invariance import BIP
from invariance.data import MultiEnvironmentData
from invariance.data.missing import Gaps
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
    sentence = "dropped features that are constant over all rows: 'comment' (missing in 70 rows)"
    assert [str(w.message) for w in caught] == [sentence]
    assert data.n_rows == N
    assert data.feature_names == ("a", "b")
    assert data.dropped_features == ("comment",)
    assert data.losses == (sentence + ".",)


@pytest.mark.parametrize("categorical", ["auto", ["nothing"], {"nothing": ["x", "z"]}])
def test_a_column_without_values_costs_no_row(categorical: Any) -> None:
    with pytest.warns(DataWarning, match=r"'nothing' \(missing in 80 rows\)"):
        data = MultiEnvironmentData.from_table(table(nothing=None), "y", "site", categorical=categorical)
    assert data.n_rows == N
    assert data.dropped_features == ("nothing",)


def test_arrays_are_not_written_to() -> None:
    X = np.column_stack([table()["a"], np.where(TEN_HAVE_IT, 1.0, np.nan)])
    with pytest.warns(DataWarning, match="'x1'"):
        MultiEnvironmentData.from_arrays(X, table()["y"], SITE)
    assert np.isnan(X[:, 1]).sum() == 70


def test_infinite_values_are_still_told_of() -> None:
    with pytest.raises(DataError, match=r"infinite values \(inf\) in 'far' \(10 rows\)"):
        MultiEnvironmentData.from_table(table(far=np.where(TEN_HAVE_IT, np.inf, np.nan)), "y", "site")


def costly() -> pd.DataFrame:
    """50 rows lack c and d, 5 of these b too; 5 more lack b alone."""
    gone = ROWS < 50
    c, d = np.where(gone, np.nan, ROWS * 0.1), np.where(gone, np.nan, np.cos(ROWS))
    lost = (ROWS >= 45) & (ROWS < 55)
    return table(c=c, d=d).assign(b=lambda t: t["b"].mask(lost))


KEEPS_MORE = "missing='drop', exclude=['c', 'd'] (keeps 70 rows)."
SENTENCE = f"most for 'c', 'd': use missing='drop' (keeps 25 of 80 rows) or {KEEPS_MORE}"


def arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


def read(rows: pd.DataFrame, in_pieces: bool, **how: Any) -> Any:
    reader = Moments.from_rows if in_pieces else MultiEnvironmentData.from_table
    return reader(rows, "y", "site", **how)


@pytest.mark.parametrize("in_pieces", [False, True])
def test_the_columns_that_cost_most_rows_are_named(in_pieces: bool) -> None:
    with pytest.raises(DataError) as refused:
        read(costly(), in_pieces)
    assert "in 'c' (50 rows), 'd' (50 rows), 'b' (10 rows); in" in str(refused.value)
    assert str(refused.value).endswith(SENTENCE)
    with pytest.warns(DataWarning, match="dropped 55 of 80 rows with") as caught:
        assert read(costly(), in_pieces, missing="drop").n_rows == 25
    assert str(caught[0].message).endswith(f"most for 'c', 'd': use {KEEPS_MORE}")
    with pytest.warns(DataWarning, match="dropped 10 of 80 rows with") as caught:
        assert read(costly(), in_pieces, missing="drop", exclude=["c", "d"]).n_rows == 70
    assert "most for" not in str(caught[0].message)


@pytest.mark.parametrize("in_pieces", [False, True])
def test_what_is_left_out_already_stays_left_out(in_pieces: bool) -> None:
    with pytest.raises(DataError, match=re.escape("exclude=['a', 'c', 'd'] (keeps 70 rows)")):
        read(costly(), in_pieces, exclude=["a"])
    with pytest.raises(DataError, match=re.escape("exclude=['a', 'name']")):
        read(table(name=[f"n {i}" for i in range(N)]), in_pieces, exclude=["a"])


@pytest.mark.parametrize("in_pieces", [False, True])
def test_few_gaps_are_not_worth_a_sentence(in_pieces: bool) -> None:
    few = table().assign(b=lambda t: t["b"].mask(ROWS < 8))
    with pytest.raises(DataError) as refused:
        read(few, in_pieces)
    assert "most for" not in str(refused.value)
    with pytest.raises(DataError, match=r"most for 'b': .*keeps 71 of 80 rows.*keeps 80 rows"):
        read(table().assign(b=lambda t: t["b"].mask(ROWS < 9)), in_pieces)


def test_rows_that_go_for_the_outcome_do_not_come_back() -> None:
    gone = table().assign(y=lambda t: t["y"].mask(ROWS < 50), b=lambda t: t["b"].mask(ROWS < 55))
    with pytest.raises(DataError) as refused:
        read(gone, False)
    assert "most for" not in str(refused.value)


def test_rows_that_all_lack_something() -> None:
    gone = table().assign(b=lambda t: t["b"].mask(ROWS < 70), a=lambda t: t["a"].mask(ROWS >= 70), c=np.sin(ROWS))
    with pytest.raises(DataError, match=re.escape("exclude=['b'] (keeps 70 rows)")):
        read(gone, False, missing="drop")


def test_arrays_have_no_such_option() -> None:
    rows = costly()
    with pytest.raises(DataError, match=r"'c', 'd', without which X keeps 70 rows.*keeps 25 of 80 rows"):
        MultiEnvironmentData.from_arrays(rows[["a", "b", "c", "d"]], rows["y"], SITE)


@pytest.mark.parametrize("in_pieces", [False, True])
def test_other_environments_do_not_count(in_pieces: bool) -> None:
    three = costly().assign(site=np.where(ROWS % 4, SITE, "far"))
    with pytest.raises(DataError, match=r"keeps 19 of 60 rows.*keeps 52 rows"):
        read(three, in_pieces, drop_environments=["far"])
    three["site"] = np.where(ROWS % 16 == 1, "tiny", three["site"])
    left = three[~three["site"].isin(["far", "tiny"])]
    kept, without = len(left.dropna()), len(left.dropna(subset=["b"]))
    counted = f"keeps {without} rows"
    with pytest.warns(DataWarning, match=f"^dropped {len(left) - kept} of {len(left)} rows.*{counted}"):
        read(three, in_pieces, drop_environments=["far"], min_rows=4, missing="drop")


@pytest.mark.parametrize("comment", [where(TEN_HAVE_IT, "late"), np.where(TEN_HAVE_IT, 7.5, np.nan)])
def test_pieces_cannot_bring_rows_back(comment: Any) -> None:
    for missing in ("error", "drop"):
        with pytest.raises(DataError, match=r"'comment' .*70 rows.*exclude=\['comment'\]"):
            Moments.from_rows(table(comment=comment), "y", "site", missing=missing)
    with pytest.warns(DataWarning, match="dropped 70 of 80 rows"):
        Moments.from_rows(table(comment=comment), "y", "site", missing="drop", partial=True)


@pytest.mark.parametrize("other", ["early", 8.5])
def test_a_value_in_a_row_that_goes_counts(other: Any) -> None:
    """The one row with another value lacks something else."""
    first = "late" if other == "early" else 7.5
    rows = table(comment=np.where(ROWS == 1, np.full(N, other, object), where(TEN_HAVE_IT, first)))
    rows = rows.assign(b=rows["b"].mask(ROWS == 1))
    rows["comment"] = rows["comment"] if other == "early" else rows["comment"].astype(float)
    with pytest.raises(DataError, match="missing"):
        Moments.from_rows(rows, "y", "site")


def test_kinds_of_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.data.missing._MOST_KINDS", 1)
    gaps = Gaps()
    gaps.add(np.array([[True, False, False]] * 9), "north")
    gaps.add(np.array([[True, True, False]]), "north")
    assert gaps.merged(Gaps()).costly(["c", "d", "y"], ["c", "d"], 10) == (["c"], 9)


def test_one_count_everywhere(tmp_path: Path) -> None:
    rows = table().assign(site=np.where(ROWS < 5, "tiny", SITE), b=lambda t: t["b"].mask(ROWS % 20 == 3))
    rows.to_csv(tmp_path / "t.csv", index=False)
    asked = ["fit", str(tmp_path / "t.csv"), "--outcome", "y", "--environment", "site", "--missing", "drop"]
    for more in ([], ["--stream"]):
        result = run(*asked, "--min-rows", "6", *more)
        assert "dropped 3 of 75 rows" in result.stderr
        assert "dropped 3 of 75 rows" in result.stdout
        assert "of 80 rows" not in result.stderr + result.stdout


@pytest.mark.parametrize("as_frame", [False, True])
def test_gaps_of_a_constant_do_not_stop_predictions(as_frame: bool) -> None:
    X: Any = np.column_stack([table()["a"], np.where(TEN_HAVE_IT, 1.0, np.nan)])
    X = pd.DataFrame(X, columns=["a", "k"]) if as_frame else X
    with pytest.warns(DataWarning, match="missing in 70 rows"):
        model = BIP().fit(X, table()["y"], environments=SITE)
    whole = X.fillna(1.0) if as_frame else np.nan_to_num(X, nan=1.0)
    np.testing.assert_array_equal(model.predict(X), model.predict(whole))
    assert model.transform(X).shape == (N, 1)
    broken = X.copy()
    broken[broken == np.asarray(X)[3, 0]] = np.nan
    for ask in (model.predict, model.transform):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            ask(broken)


def counted(*kinds: tuple[int, tuple[int, int, int]]) -> Gaps:
    gaps = Gaps()
    for n_rows, missing in kinds:
        gaps.add(np.array([missing] * n_rows, dtype=bool), "north")
    return gaps


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        (counted((4, (1, 0, 0)), (3, (0, 1, 0)), (3, (0, 0, 1))), (["a", "b"], 7)),
        (counted((9, (0, 0, 1)), (3, (1, 0, 0))), ([], 0)),
        (counted((9, (1, 1, 0))), (["a", "b"], 9)),
        (counted((9, (1, 1, 1))), ([], 0)),
    ],
    ids=["the fewest that cost half", "the outcome stays", "together", "all of them"],
)
def test_columns_that_cost_rows(gaps: Gaps, expected: tuple[list[str], int]) -> None:
    n_lost = sum(gaps.rows.values())
    assert gaps.costly(["a", "b", "y"], ["a", "b", "c"], n_lost) == expected


def test_not_all_features_are_left_out() -> None:
    assert counted((9, (1, 1, 0))).costly(["a", "b", "y"], ["a", "b"], 9) == ([], 0)


def test_files_are_counted_together(tmp_path: Path) -> None:
    for name, rows in (("1", costly()[:30]), ("2", costly()[30:])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(DataError, match=re.escape(SENTENCE)):
        Moments.from_rows(tmp_path, "y", "site")


def accumulated(first: pd.DataFrame, second: pd.DataFrame) -> MomentsAccumulator:
    columns = [name for name in first.columns if name != "site"]
    added = [MomentsAccumulator(columns, "site").add(arrow(rows)) for rows in (first, second)]
    return added[0].merge(added[1])


def test_accumulators_count_together() -> None:
    with pytest.raises(DataError, match=re.escape(SENTENCE)):
        accumulated(costly()[:30], costly()[30:]).moments("y")


def test_values_in_rows_that_go_are_merged() -> None:
    """Each piece has one value of k, the second in a row that lacks b."""
    rows = table(k=np.where(TEN_HAVE_IT, 7.5, np.nan)).assign(b=lambda t: t["b"].mask(ROWS >= 40))
    with pytest.raises(DataError, match="'k' has one value only, which is missing in 70 rows"):
        accumulated(rows[:40], rows[40:]).moments("y")
    rows.loc[48, "k"] = 8.5
    with pytest.raises(DataError, match="missing"):
        accumulated(rows[:40], rows[40:]).moments("y")
