"""Outcomes as people have them: classes, events, exposures; and what is said where they are not."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP
from invariance.data import MultiEnvironmentData
from invariance.data.outcomes import outcome_kind
from invariance.exceptions import DataError, DataWarning

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays
RNG = np.random.default_rng(3)
N = 60
SITE = np.repeat(["north", "south", "east"], N // 3)
YES = np.arange(N) % 3 == 0
TABLE = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N), "site": SITE})
TIMES = RNG.exponential(size=N) + 0.1
YEARS = RNG.uniform(0.5, 3.0, size=N)
SURVIVAL = TABLE.assign(time=TIMES, died=YES.astype(int))
COUNTS = TABLE.assign(visits=RNG.poisson(YEARS), years=YEARS)


def failing(phrase: str, kind: type[Exception] = DataError) -> Any:
    return pytest.raises(kind, match=re.escape(phrase))


# ---------------------------------------------------------------- classes


@pytest.mark.parametrize(
    ("values", "classes", "ones"),
    [
        pytest.param(np.where(YES, "yes", "no"), ("no", "yes"), YES, id="text"),
        pytest.param(np.where(YES, "alive", "dead"), ("alive", "dead"), ~YES, id="by letters"),
        pytest.param(YES, (False, True), YES, id="truth values"),
        pytest.param(np.where(YES, "1", "0"), ("0", "1"), YES, id="numbers as text"),
        pytest.param(np.where(YES, "9", "10"), ("10", "9"), YES, id="numbers as text, by letters"),
        pytest.param(
            pd.Categorical(np.where(YES, "low", "high"), ["low", "high"]),
            ("high", "low"),
            YES,
            id="sorted",
        ),
        pytest.param(
            pd.Categorical(np.where(YES, "b", "a"), ["a", "b", "c"]),
            ("a", "b"),
            YES,
            id="unused category",
        ),
        pytest.param(
            pd.array(YES, dtype="boolean"), (False, True), YES, id="nullable truth values"
        ),
    ],
)
def test_two_classes_are_zero_and_one(values: Any, classes: tuple[Any, Any], ones: Any) -> None:
    data = from_table(TABLE.assign(died=values), "died", "site")
    assert data.classes == classes
    np.testing.assert_array_equal(data.y, ones.astype(float))
    assert data.notes == (f"outcome died: {classes[1]!r} against {classes[0]!r}.",)
    again = from_arrays(TABLE[["a", "b"]], pd.Series(values), SITE)
    assert again.classes == classes
    np.testing.assert_array_equal(again.y, data.y)


def test_numbers_stay_what_they_are() -> None:
    data = from_table(TABLE.assign(y=np.where(YES, 2, 1)), "y", "site")
    assert data.classes is None
    assert set(data.y) == {1.0, 2.0}
    assert data.notes == ()
    recoded = data.with_classes()
    assert recoded.classes == (1.0, 2.0)
    np.testing.assert_array_equal(recoded.y, YES)
    assert recoded.notes == ("outcome y: 2 against 1.",)
    binary = from_table(TABLE.assign(y=YES.astype(int)), "y", "site")
    assert binary.with_classes() is binary


def test_more_classes_are_refused_with_the_way() -> None:
    table = TABLE.assign(stage=np.resize(["a", "b", "c"], N))
    with failing("outcome 'stage' has 3 classes, 'a', 'b', 'c', and a model needs two."):
        from_table(table, "stage", "site")
    for y in (np.resize(["a", "b", "c"], N), np.resize(["a", "b", "c"], N).tolist(), table["site"]):
        with pytest.raises(DataError, match="has 3 classes"):
            from_arrays(TABLE[["a", "b"]], y, SITE)
    for spelled in (["yes", "Yes "], ["No", "Yes", "YES"]):
        with failing("capitals or blanks"):
            from_table(table.assign(stage=np.resize(spelled, N)), "stage", "site")
    compared = from_table(table.assign(stage=table["stage"] == "a"), "stage", "site")
    np.testing.assert_array_equal(compared.y, np.resize([1.0, 0.0, 0.0], N))


@pytest.mark.parametrize(
    ("values", "phrase"),
    [
        (np.resize(["1.5", "2", "3"], N), "holds numbers stored as dtype"),
        (np.resize(["1.5", "oops"], N), "the outcome must be numeric"),
        (np.resize(["1", "2", "n/a"], N), "the outcome must be numeric"),
        (pd.date_range("2020-01-01", periods=2).repeat(N // 2), "is not numeric"),
        (np.resize(np.array([1.5, 2.5], dtype=object), N), "holds numbers stored as dtype"),
    ],
)
def test_other_outcomes_are_refused_as_before(values: Any, phrase: str) -> None:
    with failing(phrase):
        from_table(TABLE.assign(y=values), "y", "site")


def test_an_environment_without_events_is_one() -> None:
    """For counts and classes; any other number must vary everywhere."""
    flat = np.where(SITE == "east", 0, YES)
    assert from_table(TABLE.assign(y=flat), "y", "site").n_environments == 3
    with failing("outcome 'y' is constant inside environment 'east'"):
        flat_numbers = from_table(
            TABLE.assign(y=np.where(SITE == "east", 0.5, RNG.normal(size=N))), "y", "site"
        )
        BIP(deviations="free").fit(flat_numbers)
    with failing("outcome 'y' is constant: every row is 0"):
        from_table(TABLE.assign(y=0), "y", "site")
    with failing("'y' is constant in 'east'. Choose more environments."):
        from_table(TABLE.assign(y=flat), "y", "site").choosing(["east"])


@pytest.mark.parametrize("convert", [lambda t: t, pl.from_pandas, "file"])
def test_classes_of_tables_and_files_come_back(tmp_path: Path, convert: Any) -> None:
    table = TABLE.assign(died=np.where(YES, "yes", "no"))
    if convert == "file":
        table.to_csv(tmp_path / "table.csv", index=False)
    data = from_table(
        tmp_path / "table.csv" if convert == "file" else convert(table), "died", "site"
    )
    assert data.classes == ("no", "yes")
    assert data.to_frame()["died"].tolist() == table["died"].tolist()


# ---------------------------------------------------------------- events and exposures


def test_what_comes_with_the_outcome_is_no_feature() -> None:
    data = from_table(SURVIVAL, "time", "site", event="died")
    assert data.feature_names == ("a", "b")
    assert (data.event_name, data.exposure_name, data.exposure) == ("died", None, None)
    np.testing.assert_array_equal(data.event, YES)
    data = from_table(COUNTS, "visits", "site", exposure="years")
    assert data.feature_names == ("a", "b")
    assert (data.event_name, data.event, data.exposure_name) == (None, None, "years")
    np.testing.assert_array_equal(data.exposure, YEARS)
    data = from_arrays(TABLE[["a", "b"]], TIMES, SITE, event=YES)
    assert data.event_name == "event"
    np.testing.assert_array_equal(data.event, YES)
    named = from_arrays(
        TABLE[["a", "b"]].set_axis(["event", "b"], axis=1), TIMES, SITE, event=YES.tolist()
    )
    assert named.event_name == "event_"
    assert from_arrays(TABLE[["a", "b"]], TIMES, SITE, event=SURVIVAL["died"]).event_name == "died"


def test_events_stay_with_their_rows() -> None:
    """Through dropping, merging, choosing, narrowing and back to a table."""
    shuffled = SURVIVAL.assign(row=np.arange(N, dtype=float)).sample(frac=1.0, random_state=1)
    shuffled.loc[[3, 7], "a"] = np.nan
    shuffled["died"] = shuffled["died"].astype("Int64").mask(shuffled["row"] == 11)
    merge = {"rest": ["south", "east"]}
    with pytest.warns(DataWarning, match="dropped 3 of 60 rows"):
        data = from_table(
            shuffled, "time", "site", missing="drop", event="died", merge_environments=merge
        )
    for rows_of in (data, data.choosing(["rest"]), data.narrowed(np.array([False, False, True]))):
        rows = rows_of.X[:, rows_of.feature_names.index("row")].astype(int)
        np.testing.assert_array_equal(rows_of.event, YES[rows])
        np.testing.assert_array_equal(rows_of.y, TIMES[rows])
    again = from_table(data.to_frame(), "time", "site", event="died")
    np.testing.assert_array_equal(again.event, data.event)
    few = from_table(
        COUNTS, "visits", "site", exposure="years", min_rows=2, drop_environments=["north"]
    )
    np.testing.assert_array_equal(few.exposure, YEARS[SITE != "north"])


@pytest.mark.parametrize(
    ("table", "asked", "phrase"),
    [
        (
            SURVIVAL,
            {"event": "dead"},
            "event column 'dead' is not in the table; did you mean 'died'?",
        ),
        (
            SURVIVAL,
            {"event": "time"},
            "column 'time' is both outcome and event: name two different columns.",
        ),
        (SURVIVAL, {"event": "site"}, "column 'site' is both environment and event"),
        (
            SURVIVAL,
            {"event": "died", "features": ["a", "died"]},
            "features contains the event column 'died'",
        ),
        (
            SURVIVAL,
            {"event": "died", "exclude": ["died"]},
            "'died' is not among the feature columns",
        ),
        (SURVIVAL.assign(died=0), {"event": "died"}, "event 'died' is 0 in every row"),
        (
            SURVIVAL.assign(time=np.where(np.arange(N) < 2, 0.0, TIMES)),
            {"event": "died"},
            "not above 0 in 2 rows",
        ),
        (
            SURVIVAL.assign(died=np.where(np.arange(N) == 4, np.nan, 1.0)),
            {"event": "died"},
            "'died' (1 row)",
        ),
        (SURVIVAL, {"exposure": "site"}, "column 'site' is both environment and exposure"),
        (
            SURVIVAL.assign(years=YEARS),
            {"exposure": "years"},
            "counts, and 'time' is not in 60 rows",
        ),
        (SURVIVAL.assign(w="x"), {"exposure": "w"}, "exposure 'w' holds 'x': it must be numbers"),
    ],
)
def test_wrong_columns_are_named(table: pd.DataFrame, asked: dict[str, Any], phrase: str) -> None:
    with failing(phrase):
        from_table(table, "time", "site", **asked)


@pytest.mark.parametrize("values", [np.where(YES, 2, 1), np.where(YES, "dead", "alive")])
def test_events_are_said_and_not_guessed(values: Any) -> None:
    table = SURVIVAL.assign(died=values)
    with pytest.raises(DataError, match="event 'died'"):
        from_table(table, "time", "site", event="died")
    table["died"] = table["died"] == values[YES == 1][0]
    np.testing.assert_array_equal(from_table(table, "time", "site", event="died").event, YES)


def test_arrays_beside_the_outcome_are_checked() -> None:
    X = TABLE[["a", "b"]]
    wrong = {
        "event 'event'": np.where(YES, 2, 1),
        "event has 59 rows": YES[1:],
        "event='died'": "died",
    }
    for phrase, event in wrong.items():
        with failing(phrase):
            from_arrays(X, TIMES, SITE, event=event)
    with failing("exposure has shape (60, 2), but one value per row is needed"):
        from_arrays(X, COUNTS["visits"], SITE, exposure=np.ones((N, 2)))


# ---------------------------------------------------------------- what an outcome is


def values(*counts: tuple[float, int]) -> np.ndarray:
    return np.repeat([value for value, _ in counts], [n for _, n in counts]).astype(float)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        pytest.param(values((0, 5), (1, 5)), "classes", id="zero or one"),
        pytest.param(values((-1, 5), (2.5, 5)), "classes", id="two numbers"),
        pytest.param(values((0, 6), (1, 3), (2, 1)), "count", id="counts"),
        pytest.param(values((0, 3), (1, 2), (9, 1)), "count", id="two rows a value"),
        pytest.param(values((0, 2), (1, 2), (9, 1)), "number", id="fewer than two rows a value"),
        pytest.param(values((0, 5), (0.5, 5), (1, 5)), "number", id="halves"),
        pytest.param(values((-1, 5), (0, 5), (1, 1)), "number", id="below zero"),
        pytest.param(np.repeat(np.arange(18.0, 90.0), 3), "number", id="ages"),
        pytest.param(values((0, 1), (5, 3), (8, 9), (10, 9)), "number", id="a score"),
        pytest.param(values((0, 4), (1, 4), (2, 4)), "number", id="as many of each"),
        pytest.param(np.arange(200.0), "number", id="row numbers"),
    ],
)
def test_kinds_of_outcomes(y: np.ndarray, kind: str) -> None:
    found = outcome_kind(y, "y")
    assert found.kind == kind
    assert found.reason.startswith("y ")
    assert outcome_kind(y[::-1], "y") == found


def test_what_comes_with_it_decides_first() -> None:
    y = values((0, 5), (1, 5))
    assert outcome_kind(y, "y", exposure="years") == (
        "count",
        "y is a count, and years its exposure",
        None,
    )
    assert outcome_kind(y, "y", event="died").kind == "time"
    assert outcome_kind(y, "y", classes=("no", "yes")).reason == "y has two values: 'no' and 'yes'"


def test_grades_are_doubted_and_counts_are_not() -> None:
    """Narrowed arteries of 920 patients, 0 to 4, end where a count would go on; counts of the same
    mean do."""
    grades = values((0, 411), (1, 265), (2, 109), (3, 107), (4, 28))
    found = outcome_kind(grades, "num")
    assert found.kind == "count"
    assert found.doubt is not None
    assert "num > 0" in found.doubt.what
    assert [dict(way.settings) for way in found.doubt.remedies] == [{"family": "negative_binomial"}]
    assert outcome_kind(grades, "num", exposure="years").doubt is None
    rng = np.random.default_rng(0)
    of_counts = [rng.poisson(mean, 920).astype(float) for mean in (0.3, 1.0, 1.07, 2.0) * 10]
    spread = [rng.poisson(rng.gamma(2.0, 0.5, 920)).astype(float) for _ in range(40)]
    counts = [y for y in (*of_counts, *spread) if outcome_kind(y, "n").kind == "count"]
    assert sum(outcome_kind(y, "falls").doubt is not None for y in counts) <= 2
    few = values((0, 30), (1, 12), (2, 4))
    assert [outcome_kind(few, name).doubt is None for name in ("falls", "tumour_stage")] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("family", "doubted"), [("auto", True), ("negative_binomial", False)])
def test_a_fit_warns_of_grades_unless_the_model_was_named(family: str, doubted: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(920, 1))
    y = rng.permutation(values((0, 411), (1, 265), (2, 109), (3, 107), (4, 28)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        BIP(family).fit(X, y, environments=np.arange(920) % 4)
    assert sum("as grades do" in str(one.message) for one in told) == doubted


# ---------------------------------------------------------------- rows that are left


@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize("given", [np.where(YES, "yes", "no"), YES], ids=["words", "truths"])
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_a_missing_class_may_be_the_first(place: int, given: Any, nothing: Any) -> None:
    y = given.astype(object)
    y[place] = nothing
    data = from_arrays(TABLE[["a", "b"]], y, SITE, missing="drop")
    assert data.n_rows == N - 1
    np.testing.assert_array_equal(data.y, np.delete(YES, place))


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_classes_are_those_of_the_rows_that_are_left() -> None:
    table = pd.DataFrame(
        {"a": TABLE["a"], "b": TABLE["b"], "site": SITE, "y": np.where(YES, "yes", "no")}
    )
    table.loc[:3, "y"] = "maybe"
    with pytest.raises(DataError, match="has 3 classes, 'maybe', 'no', 'yes'"):
        from_table(table, "y", "site")
    missing = table.assign(a=table["a"].where(table.index > 3))
    small = table.assign(site=table["site"].where(table.index > 3, "tiny"))
    for data in (
        from_table(missing, "y", "site", missing="drop"),
        from_table(small, "y", "site", min_rows=10),
        from_arrays(missing[["a", "b"]], table["y"], SITE, missing="drop"),
    ):
        assert data.classes == ("no", "yes")
        np.testing.assert_array_equal(data.y, YES[4:])
