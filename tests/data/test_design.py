"""Environments along a variable, in sequences and by several factors: how they are read, and what
is refused."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import (
    BIP,
    BIPClassifier,
    Columns,
    Moments,
    MultiEnvironmentData,
    along,
    sweep,
)
from invariance.exceptions import DataError, DataWarning, InvarianceError


def table(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "year": 1980 + np.arange(n) // 10}
    )
    return frame.assign(
        y=frame["a"] + rng.normal(size=n), site=np.resize(["p", "q", "r"], n), town=np.arange(n) % 2
    )


def read(environment, frame=None, **how) -> MultiEnvironmentData:
    frame = table() if frame is None else frame
    return MultiEnvironmentData.from_table(frame, "y", environment, ["a", "b"], **how)


def test_blocks_of_the_variable_are_the_environments_in_its_order():
    frame = table().sample(frac=1.0, random_state=1)
    data = read(along("year"), frame)
    assert data.environments == (
        "1980 to 1981",
        "1982 to 1984",
        "1985 to 1986",
        "1987 to 1989",
        "1990 to 1991",
    )
    assert data.counts.tolist() == [20, 30, 20, 30, 20]
    np.testing.assert_array_equal(data.design.values, frame["year"])
    for label, (first, last) in zip(data.environments, [(1980, 1981), (1982, 1984)], strict=False):
        inside = data.choosing([label, "1990 to 1991"]).design.values
        assert set(inside) == {*range(first, last + 1), 1990.0, 1991.0}


def days(frame: pd.DataFrame) -> pd.Series:
    return pd.Series(pd.date_range("2020-01-01", periods=len(frame), freq="D"), index=frame.index)


@pytest.mark.parametrize(
    "as_column",
    [
        days,
        lambda frame: days(frame).dt.tz_localize("UTC").dt.tz_convert("Europe/Rome"),
        lambda frame: days(frame).dt.strftime("%Y-%m-%d"),
        lambda frame: days(frame).dt.date,
        lambda frame: days(frame).dt.to_period("D"),
    ],
    ids=["datetime", "time zone", "text", "date", "period"],
)
def test_dates_are_read_as_they_come(as_column):
    frame = table()
    expected = read(along("day"), frame.assign(day=days(frame)))
    found = read(along("day"), frame.assign(day=as_column(frame)))
    np.testing.assert_array_equal(found.design.values, expected.design.values)
    assert found.environments == expected.environments
    assert found.environments[0] == "2020-01-01 to 2020-01-24"


def test_every_way_in_gives_the_same_design(tmp_path):
    frame = table()
    environment = ["town", along("year", ar=1, within="site")]
    frame = frame.drop_duplicates(["site", "year"])
    frame.to_csv(tmp_path / "table.csv", index=False)
    ways = [frame, pl.from_pandas(frame), tmp_path / "table.csv"]
    designs = [read(environment, each).design for each in ways]
    X = frame.drop(columns="y")
    fits = [
        BIP().fit(X, frame["y"], environments=environment),
        BIP(columns=Columns(environment=environment)).fit(X, frame["y"]),
    ]
    designs += [fit._data.design for fit in fits]
    for design in designs:
        assert list(map(str, design.factors[0].levels)) == ["0", "1"]
        np.testing.assert_array_equal(design.values, frame["year"])
        np.testing.assert_array_equal(design.steps, designs[0].steps)
    assert fits[0].feature_names_in_.tolist() == ["a", "b"]
    assert fits[0].predict(X).shape == (len(X),)


def test_a_table_of_it_reads_as_it_was():
    frame = table().assign(day=days(table())).drop_duplicates(["site", "year"])
    for environment in (
        along("day"),
        ["site", "town"],
        ["town", along("year", ar=1, within="site")],
    ):
        data = read(environment, frame)
        again = MultiEnvironmentData.from_table(data.to_frame(), "y", environment)
        assert again.environments == data.environments
        assert again.feature_names == data.feature_names
        for name in ("values", "steps", "units"):
            np.testing.assert_array_equal(getattr(again.design, name), getattr(data.design, name))


def test_a_list_of_labels_stays_a_list_of_labels():
    frame = table(40)
    labels = ["a" if k % 2 else "b" for k in range(40)]
    assert BIP().fit(frame[["a", "b"]], frame["y"], environments=labels).environments_ == ("b", "a")


def test_rows_without_a_value_are_left_out_with_the_design():
    frame = table()
    frame.loc[3, "year"] = np.nan
    frame.loc[4, "a"] = np.nan
    with pytest.warns(UserWarning, match="dropped 2"):
        data = read(along("year"), frame, missing="drop")
    np.testing.assert_array_equal(data.design.values, frame["year"].drop([3, 4]))
    few = table().assign(year=np.repeat([1, 2, 3, 4], [2, 58, 58, 2]))
    assert read(along("year"), few).environments == ("1 to 2", "3 to 4")
    gap = table().assign(town=table()["town"].where(table().index != 2))
    with pytest.warns(UserWarning, match="dropped 1"):
        left = read(["site", "town"], gap, missing="drop", drop_environments=["q"])
    assert left.design.factors[1].levels == (0, 1)
    left = read(["site", "town"], drop_environments=["q"])
    assert [factor.levels for factor in left.design.factors] == [("p", "r"), (0, 1)]
    assert len(left.design.factors[1].codes) == left.n_rows == 80


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(two=frame["a"] > 0.0)


REFUSED = {
    "steady levels": (
        lambda f: read(["site", along("year", ar=1, within="site")], f),
        "pass for noise",
    ),
    "missing": (
        lambda f: read(along("year"), f.assign(year=f["year"].where(f.index > 0))),
        "'year' is missing in 1 row",
    ),
    "words": (lambda f: read(along("site"), f), "neither numbers nor dates"),
    "infinite": (
        lambda f: read(along("year"), f.assign(year=np.where(f.index, 1.0, np.inf))),
        "infinite",
    ),
    "few values": (lambda f: read(along("town"), f), "2 values"),
    "no column": (lambda f: read(along("Year"), f), "not in the table"),
    "same twice": (lambda f: read(["site", "site"], f), "both"),
    "two variables": (lambda f: read([along("year"), along("a")], f), "one variable"),
    "twins": (
        lambda f: read(["site", "twin"], f.assign(twin=f["site"] + "!")),
        "'site' and 'twin' separate the same",
    ),
    "one level": (lambda f: read(["site", "one"], f.assign(one=1)), "one level"),
    "within alone": (lambda _: along("year", within="site"), "ar="),
    "ar": (lambda _: along("year", ar=-1), "ar=-1"),
    "no name": (lambda _: along(3), "name of a column"),
    "repeated": (lambda f: read(along("year", ar=1), f), "108 rows too many: name"),
    "repeated in units": (
        lambda f: read(along("year", ar=1, within="site"), f),
        "one row of each site .* keep one",
    ),
    "repeated by weights": (
        lambda f: BIP().fit(
            f[["a", "year"]].head(9), f["y"].head(9), along("year", ar=1), sample_weight=[2] * 9
        ),
        "weights 'sample_weight' repeat rows",
    ),
    "repeated by a column": (
        lambda f: read(along("year", ar=1), f.head(9).assign(n=2), weights="n"),
        "weights 'n' repeat rows",
    ),
    "repeated by rows": (
        lambda f: MultiEnvironmentData.from_arrays(
            f[["a"]],
            f["y"],
            weights=[2] * 120,
            design=read(along("day", ar=1), f.assign(day=f.index)).design,
        ),
        "weights 'weights' repeat rows",
    ),
    "merge": (lambda f: read(["site", "town"], f, merge_environments={"s": ["p", "q"]}), "merge"),
    "moments": (lambda f: Moments.from_data(read(along("year"), f)), "along year"),
    "stream": (lambda f: Moments.from_rows(f, "y", along("year")), "along\\('year'\\)"),
    "stream of factors": (lambda f: Moments.from_rows(f, "y", ["site", "town"]), "several factors"),
    "sweep": (lambda f: sweep(f, environments=along("year")), "along\\('year'\\)"),
    "sweep of data": (lambda f: sweep(read(["site", "town"], f)), "by site and by town"),
    "classes": (
        lambda f: BIP().fit(twice(f)[["a", "b", "year"]], twice(f)["two"], along("year")),
        "periods",
    ),
    "classifier": (
        lambda f: BIPClassifier().fit(f[["b", "year"]], f["a"] > 0.0, along("year")),
        "Logistic",
    ),
    "mean": (lambda f: BIP("linear_gaussian_mean").fit(read(along("year"), f)), "linear_gaussian"),
    "Bayesian": (
        lambda f: BIP("bayesian_linear_gaussian").fit(read(["site", "town"], f)),
        "BayesianLinearGaussian",
    ),
    "additive": (lambda f: BIP("additive").fit(read(along("year"), f)), "Additive"),
    "random": (lambda f: BIP(deviations="random").fit(read(along("year"), f)), "one column"),
    "no factor": (
        lambda f: BIP().fit(f[["a", "site"]], f["y"], ["site", "twon"]),
        "environment 2='twon' names a column",
    ),
    "array": (lambda f: BIP().fit(f[["a", "b"]].to_numpy(), f["y"], along("year")), "column of X"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_cannot_be_done_is_refused(case):
    run, message = REFUSED[case]
    with pytest.raises(InvarianceError, match=message):
        run(table())


def follow(values: Any, sites: str) -> list[tuple[int, int]]:
    """Rows that are compared and those one step before them, in the order of the rows"""
    panel = table(len(sites)).assign(year=values, site=list(sites))
    return sorted(
        map(tuple, read(along("year", ar=1, within="site"), panel).design.windows.tolist())
    )


def test_gaps_break_sequences_whichever_values_occur():
    """The third year of site q is a gap, and a step that no site has is one, too."""
    assert follow([1, 2, 3, 4, 1, 2, 4], "ppppqqq") == [(1, 0), (2, 1), (3, 2), (5, 4)]
    assert follow([1.0, 2.0, 7.0, 8.0, 1.5, 2.5, 9.0], "ppppqqq") == [(1, 0), (3, 2), (5, 4)]
    assert follow([0, 2, 4, 8, 10, 12], "pppppp") == [(1, 0), (2, 1), (4, 3), (5, 4)]
    # More than half of the rows after one step are missing.
    assert follow([0, 1, 3, 5, 6, 8, 10, 12, 13], "p" * 9) == [(1, 0), (4, 3), (8, 7)]
    # Quarters of years, rounded.
    assert follow([0.0, 0.25, 0.5, 1.0, 1.25, 1.5], "pppppp") == [(1, 0), (2, 1), (4, 3), (5, 4)]
    assert follow([1990.08, 1990.17, 1990.25, 1990.33, 1990.5], "ppppp") == [(1, 0), (2, 1), (3, 2)]


@pytest.mark.parametrize(
    ("freq", "step"), [("MS", 1), ("ME", 1), ("QS", 1), ("YS", 1), ("D", 1), ("2h", 1), ("QE", 1)]
)
def test_months_quarters_and_years_are_steps_whatever_days_they_have(freq, step):
    dates = pd.date_range("1999-01-01", periods=60, freq=freq)
    gone = [0, *range(20, 24), 40]  # the row after a gap has none before it
    kept = np.setdiff1d(np.arange(60), gone)
    frame = table(60).assign(year=dates).iloc[kept]
    data = read(along("year", ar=step), frame)
    assert len(data.design.windows) == 54 - 3
    assert (
        sum("2 gaps of 'year' break sequences: 51 of 54 rows" in note for note in data.notes) == 1
    )


def test_periods_are_steps():
    months = pd.period_range("1999-01", periods=60, freq="M").delete([30])
    assert len(read(along("year", ar=2), table(59).assign(year=months)).design.windows) == 59 - 4


def test_the_order_of_rows_does_not_matter_for_sequences():
    frame = table(60).assign(
        year=np.tile([1, 2, 3, 4, 6, 7, 8, 9, 10, 11], 6), site=np.repeat([*"pqrstu"], 10)
    )
    mixed = frame.sample(frac=1.0, random_state=2)
    pairs = []
    for rows in (frame, mixed):
        design = read(along("year", ar=1, within="site"), rows).design
        pairs.append({tuple(pair) for pair in rows.index.to_numpy()[design.windows].tolist()})
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 6 * 8


def test_a_clock_by_parts_of_steps_is_refused_with_what_to_type():
    """Patients that come when they come, and one row that lies between the others"""
    rng = np.random.default_rng(0)
    visits = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.cumsum(rng.integers(5, 90, 60)), "D")
    frame = table(60).assign(year=visits, site=np.repeat([*"pqr"], 20))
    with pytest.raises(
        DataError,
        match=r"'year' is an irregular clock: .* Number the rows of each site.*ar=1, within.* "
        r"--within site",
    ):
        read(along("year", ar=1, within="site"), frame)
    between = table(60).assign(year=np.append(np.arange(59.0), 20.4))
    rare = table(60).assign(year=np.append(5 * np.arange(59.0), 21.0))
    with pytest.raises(DataError, match=r"irregular clock.* in a terminal --along number --ar 1\."):
        read(along("year", ar=1), rare)
    with pytest.raises(
        DataError, match=r"after 2 of 59 rows .*\(1, not 0.4\).*along\('number', ar=2\)"
    ):
        read(along("year", ar=2), between)
    # Without sequences it does not matter.
    assert read(along("year"), between).n_rows == 60
    numbered = frame.assign(year=frame.groupby("site")["year"].rank())
    assert len(read(along("year", ar=1, within="site"), numbered).design.windows) == 57


def test_blocks_of_short_sequences_have_rows_with_enough_before_them():
    """Ten years with two rows before: the first two years are no block of their own, and the panel
    is fitted."""
    panel = table(200).assign(
        year=np.tile(np.arange(1990, 2000), 20), site=np.repeat(np.arange(20), 10)
    )
    data = read(along("year", ar=2, within="site"), panel)
    assert data.environments[0] == "1990 to 1993"
    assert BIP().fit(data).posterior_.judge.model.n_windows == 160
    assert any("R² is without those" in note for note in data.notes)


def test_the_last_block_has_rows_that_are_compared():
    """The last two years have no rows before them, and belong to the block before."""
    years = np.append(np.arange(1900, 1958), [1990, 2000])
    assert (
        read(along("year", ar=2), table(60).assign(year=years)).environments[-1].endswith("to 2000")
    )


def test_rows_without_a_unit_are_no_sequence():
    panel = table(60).assign(year=np.tile(np.arange(10), 6), site=np.repeat([*"pqrst", None], 10))
    panel.loc[:9, "site"] = None
    with pytest.warns(DataWarning, match="dropped 20 of 60"):
        data = read(along("year", ar=1, within="site"), panel, missing="drop")
    assert (data.n_rows, len(data.design.windows)) == (40, 36)


@pytest.mark.parametrize("as_text", [False, True])
def test_days_of_a_time_zone_are_these_days(as_text):
    days = pd.Series(pd.date_range("2000-01-01", periods=120, tz="Europe/Berlin"))
    data = read(along("year"), table().assign(year=days.map(str) if as_text else days))
    assert (data.design.fitted.first, data.design.fitted.last) == ("2000-01-01", "2000-04-29")
