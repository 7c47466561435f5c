"""Moments of rows that stay where they are: as those of the same table in memory, and with the same
complaints."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrow_rows import assert_alike, assert_same_bits
from invariance import Moments, MultiEnvironmentData, spline
from invariance.data import Columns, Environments, FileFormat
from invariance.data import sources as base
from invariance.data.outcomes import outcome_kind
from invariance.exceptions import DataError, SettingError
from invariance.moments import accumulator
from invariance.moments.accumulator import Wanted
from invariance.moments.from_rows import of_source, opened

N = 60
RNG = np.random.default_rng(0)
PLAIN: dict[str, Any] = {
    "x": RNG.normal(size=N) + 1e5,
    "z": RNG.normal(size=N),
    "y": RNG.normal(size=N),
    "site": ["a", "b", "c"] * (N // 3),
}
NORMAL = RNG.normal(size=N).tolist()
COUNTS = [3, 1, 2, 2, 0] * 12
WARDS = ["day", "night", "late", "late"] * 15
SOME_WARDS = ["day", None, "late", "night", "night", "day"] * 10
DATES = [dt.date(2020, 1, 1), dt.date(2021, 1, 1), dt.date(2020, 1, 1), dt.date(2020, 1, 1)] * 15
FOUR: dict[str, Any] = {"site": np.repeat([1, 2, 3, 4], [25, 17, 13, 5])}
RARE: dict[str, Any] = FOUR | {"z": ["u", "v", "v", "u", "u"] * 11 + ["w"] * 5}
HOLES: dict[str, Any] = FOUR | {"z": [None, *NORMAL[1:42], *[None] * 18], "x": [None, *NORMAL[1:]]}
FLAT: dict[str, Any] = {"z": [0.1] * N, "x": [None, *NORMAL[1:]]}
FEW: dict[str, Any] = {"merge_environments": {"few": [3, 4]}}

# (name, columns that replace others, settings)
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("numbers", {}, {}),
    ("half precision", {"z": pa.array(np.array(NORMAL, np.float16))}, {}),
    ("whole numbers up to 2**53", {"z": [2**53 - n * n for n in range(N)]}, {}),
    ("decimals", {"z": [Decimal(f"{value:.3f}") for value in NORMAL]}, {}),
    ("truth values with gaps", {"z": [True, None, False, True] * 15}, {"missing": "drop"}),
    ("an outcome of truth values", {"y": [True, False, False, True] * 15}, {}),
    ("text", {"z": WARDS}, {}),
    ("text that tells environments", {"z": ["u", "v", "w"] * 20}, {}),
    ("text without the rows with gaps", {"z": SOME_WARDS}, {"missing": "drop"}),
    (
        "one level is left",
        {"z": ["other"] + ["only"] * 59, "x": [None, *NORMAL[1:]]},
        {"missing": "drop"},
    ),
    ("text that is a list of names", {"z": [f"p{n}" for n in range(N)]}, {}),
    ("text of dates", {"z": [str(date) for date in DATES]}, {}),
    ("two ways to write a level", {"z": ["1", "1.0", "2", "3"] * 15}, {"categorical": ["z"]}),
    ("categories", {"z": pa.array(WARDS).dictionary_encode()}, {}),
    ("levels listed", {"z": WARDS}, {"categorical": {"z": ["night", "never", "late", "day"]}}),
    (
        "nobody has the first listed",
        {"z": WARDS},
        {"categorical": {"z": ["x", "late", "day", "night"]}},
    ),
    ("levels that are not listed", {"z": WARDS}, {"categorical": {"z": ["night", "late"]}}),
    ("numbers as levels, listed", {"z": COUNTS}, {"categorical": {"z": [3, 2, 1, 0]}}),
    (
        "numbers with gaps as levels",
        {"z": [1.5, None, np.nan, 2.0] * 15},
        {"categorical": ["z"], "missing": "drop"},
    ),
    ("dates as levels", {"z": DATES}, {"categorical": ["z"]}),
    ("text as numbers", {"z": ["1", "2.5", " 3", "1e3"] * 15}, {"numeric": ["z"]}),
    (
        "text as numbers with gaps",
        {"z": ["1", None, "3", "1e3"] * 15},
        {"numeric": ["z"], "missing": "drop"},
    ),
    ("text as numbers that it is not", {"z": ["1", "2.5", "x", "1e3"] * 15}, {"numeric": ["z"]}),
    ("dates", {"z": DATES}, {}),
    ("lists", {"z": [[1.0]] * N}, {}),
    ("whole numbers beyond 2**53", {"z": [2**53 + 2, *COUNTS[1:]]}, {}),
    ("a spline", {}, {"groups": [spline("x", knots=4)]}),
    ("a spline and levels", {"z": WARDS}, {"groups": {"both": ["z", spline("x", knots=5)]}}),
    (
        "a spline of rows that are left",
        {"z": [None, *NORMAL[1:]]},
        {"groups": [spline("x")], "missing": "drop"},
    ),
    ("a spline of chosen environments", {}, {"groups": [spline("x")], "drop_environments": ["b"]}),
    ("a spline of levels", {"z": WARDS}, {"groups": [spline("z")]}),
    ("a spline of few values", {"z": [1.0, 2.0, 3.0] * 20}, {"groups": [spline("z", knots=5)]}),
    ("bytes as levels", {"z": [b"u", b"v", b"v", b"u"] * 15}, {"categorical": ["z"]}),
    ("without rows with a missing number", {"z": [np.nan, None, *NORMAL[2:]]}, {"missing": "drop"}),
    (
        "an environment of which no row is left",
        {"z": [None, 1.5, 2.5] * 19 + [None, 1.0, 1.0]},
        {"missing": "drop"},
    ),
    (
        "no row is left",
        {"x": [None, 1.5, None, 2.5] * 15, "z": [1.5, None, 2.5, None] * 15},
        {"missing": "drop"},
    ),
    ("infinite, and rows dropped", {"z": [np.inf, np.nan, *NORMAL[2:]]}, {"missing": "drop"}),
    ("a row number", {"z": list(range(N))}, {}),
    (
        "a row number beside a list of names",
        {"x": list(range(N)), "z": [f"p{n}" for n in range(N)]},
        {},
    ),
    ("a constant", {"z": [0.1] * N}, {}),
    (
        "a constant in the rows that are left",
        {"z": [1.0] * 59 + [2.0], "x": [*NORMAL[1:], None]},
        {"missing": "drop"},
    ),
    ("all features constant", {"z": [0.1] * N, "x": [7] * N}, {}),
    ("a constant outcome", {"y": [1.0] * N}, {}),
    ("an outcome that is constant in an environment", {"y": [1.0, 2.0, 3.0] * 20}, {}),
    ("an outcome without values", {"y": [None] * N}, {}),
    ("rows without labels dropped", {"site": [None, "a", "b"] * 20}, {"missing": "drop"}),
    ("a constant left out", FLAT, {"missing": "drop"}),
    ("a constant of a group", FLAT, {"missing": "drop", "groups": {"both": ["x", "z"]}}),
    (
        "gaps in both",
        {"site": [None, "a", "b"] * 20, "z": [None, None, *NORMAL[2:]]},
        {"missing": "drop"},
    ),
    ("no labels at all", {"site": pa.nulls(N, pa.string())}, {"missing": "drop"}),
    ("one environment", {"site": ["a"] * N}, {}),
    ("a small environment", {"site": ["a", "b"] * 29 + ["c", "c"]}, {}),
    ("environments that look alike", {"site": ["a", "a "] * 30}, {}),
    ("numbers with gaps for environments", {"site": [1.5, np.nan, 2.0] * 20}, {"missing": "drop"}),
    ("dates for environments", {"site": DATES}, {}),
    ("categories for environments", {"site": pa.array(WARDS).dictionary_encode()}, {}),
    ("groups of levels and numbers", {"z": WARDS}, {"groups": {"both": ["x", "z"]}}),
    ("too large to square", {"z": [1e200, *NORMAL[1:]]}, {}),
    ("sums beyond the largest number", {"z": [1.7e308, 1.7e308, *NORMAL[2:]]}, {}),
    ("chosen features", {"z": [[1.0]] * N}, {"features": ["x"]}),
    ("no such feature", {}, {"features": ["xx"]}),
    ("no such setting", {}, {"missing": "dropp"}),
    ("a feature in two settings", {}, {"categorical": ["z"], "numeric": ["z"]}),
    ("no rows", {"x": [], "z": [], "y": [], "site": []}, {}),
    ("an environment dropped", FOUR, {"drop_environments": [3]}),
    ("dropped as text, and few rows", FOUR, {"drop_environments": ["3"], "min_rows": 10}),
    ("merged", FOUR, FEW),
    (
        "merged, and one dropped",
        FOUR,
        {"merge_environments": {"few": [2, 4]}, "drop_environments": [1]},
    ),
    ("few rows", FOUR, {"min_rows": 15}),
    ("a level of few rows", RARE, {"min_rows": 10}),
    ("a level of a dropped environment", RARE, {"drop_environments": [4]}),
    ("no such environment", FOUR, {"drop_environments": [9]}),
    ("all environments but one dropped", FOUR, {"drop_environments": [1, 2, 3]}),
    ("too few rows in all", FOUR, {"min_rows": 50}),
    ("a negative number of rows", FOUR, {"min_rows": -1}),
    ("all merged", FOUR, {"merge_environments": {"all": [1, 2, 3, 4]}}),
    ("merged into another", FOUR, {"merge_environments": {2: [1, 3]}}),
    *(
        (f"gaps, {name} environments, {missing}", HOLES, {"missing": missing} | choice)
        for name, choice in (("dropped", {"drop_environments": [3, 4]}), ("merged", FEW))
        for missing in ("error", "drop")
    ),
]


def outcome_of(compute: Callable[[], Moments]) -> tuple[Moments | str, list[str]]:
    """The moments, or what was raised; and what was said."""
    found: Moments | str
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = compute()
        except (DataError, SettingError) as error:
            found = f"{type(error).__name__}: {error}"
    return found, [f"{type(warning.message).__name__}: {warning.message}" for warning in said]


def in_memory(table: Any, **settings: Any) -> Moments:
    data = MultiEnvironmentData.from_table(table, "y", "site", **settings)
    moments = Moments.from_data(data)
    assert moments.losses == data.losses
    return moments


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows at a time"""
    monkeypatch.setattr(accumulator, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(accumulator, "_FEWEST_ROWS", 11)
    monkeypatch.setattr(base, "_BATCH_ROWS", 7)
    monkeypatch.setattr(base, "TASK_BYTES", 8 * 4 * 25)
    monkeypatch.setattr(base, "TASK_ROWS_PER_COLUMN", 0)


@pytest.mark.parametrize(
    ("columns", "settings"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_as_in_memory(columns: dict[str, Any], settings: dict[str, Any], blocks: None) -> None:
    table = pa.table({**PLAIN, **columns})
    expected, expected_said = outcome_of(lambda: in_memory(table, **settings))
    found, said = outcome_of(lambda: Moments.from_rows(table, "y", "site", n_jobs=2, **settings))
    # Environments are named in the order in which they lost rows.
    assert [sorted(each) for each in said] == [sorted(each) for each in expected_said]
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert_alike(found, expected)
        assert (found.losses, found.notes) == (expected.losses, expected.notes)


@pytest.mark.parametrize(
    ("columns", "settings", "named"),
    [
        ({"z": [None] * N}, {}, "column 'z' has"),
        ({"z": [None] * N}, {"missing": "drop"}, "column 'z' has"),
        ({"z": pa.nulls(N, pa.string())}, {}, "column 'z' has"),
        ({"z": pa.nulls(N, pa.string())}, {"missing": "drop"}, "column 'z' has"),
        ({"z": 2**53 + np.arange(N)}, {"numeric": ["z"]}, "'z'"),
        ({"y": WARDS}, {}, "'y'"),
        ({"y": DATES}, {}, "'y'"),
    ],
)
def test_columns_without_numbers(
    columns: dict[str, Any], settings: dict[str, Any], named: str, blocks: None
) -> None:
    with pytest.raises(DataError, match=named):
        Moments.from_rows(pa.table({**PLAIN, **columns}), "y", "site", **settings)


LEVELS = ["night", *(f"unused {k}" for k in range(500)), "day", "late"]
DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([501, 0, 502, 502] * 15), pa.array(LEVELS))
# {kind: (table, the level that the others are compared with)}
ORDERED: dict[str, tuple[Any, str]] = {
    "pandas": (pd.DataFrame({**PLAIN, "z": pd.Categorical(WARDS, categories=LEVELS)}), "night"),
    "pandas, ordered": (
        pd.DataFrame({**PLAIN, "z": pd.Categorical(WARDS, categories=LEVELS, ordered=True)}),
        "night",
    ),
    "polars": (pl.DataFrame({**PLAIN, "z": pl.Series(WARDS, dtype=pl.Enum(LEVELS))}), "night"),
    "polars, by letters": (
        pl.DataFrame({**PLAIN, "z": pl.Series(WARDS, dtype=pl.Categorical)}),
        "day",
    ),
    "pyarrow, by letters": (pa.table({**PLAIN, "z": DICTIONARY}), "day"),
}


@pytest.mark.parametrize("kind", ORDERED)
def test_the_order_of_levels_is_that_of_their_type(kind: str, blocks: None) -> None:
    """Of 503 levels that a type lists, three occur in 60 rows, and only these count."""
    table, first = ORDERED[kind]
    found = Moments.from_rows(table, "y", "site")
    assert found.encoding is not None
    assert found.encoding.of_levels["z"].levels[0] == first
    assert found.n_features == 2
    assert_alike(found, in_memory(table))


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_bits_do_not_depend_on_the_number_of_jobs(
    missing: str, blocks: None, tmp_path: Path
) -> None:
    table = pa.table({**PLAIN, "z": WARDS})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    for rows in (table, tmp_path / "rows.parquet"):
        one, *others = (
            Moments.from_rows(rows, "y", "site", missing=missing, n_jobs=jobs) for jobs in (1, 2, 3)
        )
        for other in others:
            assert_same_bits(other, one)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_splines_of_files_take_two_passes(ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(PLAIN)
    path = tmp_path / f"rows.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    found = Moments.from_rows(path, "y", "site", groups=[spline("x", knots=4)])
    assert found.groups["x"] == ("x", "x~2", "x~3")
    assert_alike(found, in_memory(frame, groups=[spline("x", knots=4)]))
    with pytest.raises(DataError, match="two passes"):
        Moments.from_rows(pa.table(PLAIN).to_reader(), "y", "site", groups=[spline("x")])


# ---------------------------------------------------------------- environments and outcomes

KINDS = {
    "numbers": RNG.normal(size=90),
    "two values": np.where(RNG.random(90) < 0.3, -1.5, 2.5),
    "0 and 1": (RNG.random(90) < 0.3).astype(float),
    "counts": RNG.poisson(1.5, 90).astype(float),
    "large counts": 100_000.0 * RNG.poisson(1.5, 90),
    "ages": RNG.integers(20, 60, 90).astype(float),
    "marks": RNG.integers(0, 11, 90).astype(float),
    "ids": np.arange(90.0),
    "below 0": RNG.integers(-3, 2, 90).astype(float),
    "one half": np.append(RNG.poisson(1.0, 89), 0.5),
}


def kind_of(table: pd.DataFrame, missing: str = "error", drop: Any = ()) -> Any:
    asked = Wanted("y", "site", choice=Environments(drop=drop), missing=missing)
    source, wanted = opened(
        [table[start : start + 17] for start in range(0, len(table), 17)], asked, {}
    )
    return wanted.screened(of_source(source, wanted, 1, False)).outcome_kind


def with_outcome(y: np.ndarray) -> pd.DataFrame:
    sites = ["p"] * 45 + ["q"] * 45 + ["r"] * (len(y) - 90)
    return pd.DataFrame({"a": RNG.normal(size=len(y)), "y": y, "site": sites})


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_outcome(kind: str) -> None:
    assert kind_of(with_outcome(KINDS[kind])) == outcome_kind(KINDS[kind], "y")


def test_kind_of_the_rows_that_are_left() -> None:
    table = with_outcome(np.append(KINDS["counts"], [0.5, 0.5]))
    assert kind_of(table).kind == "number"
    assert kind_of(table, drop=["r"]) == outcome_kind(KINDS["counts"], "y")
    assert kind_of(table.assign(y=[0.5, *table["y"][1:]]), drop=["r"]).kind == "number"
    table.loc[90:, "a"] = np.nan
    with pytest.warns(UserWarning, match="2 of 92 rows"):
        assert kind_of(table, missing="drop").kind == "count"
    assert kind_of(pd.DataFrame(PLAIN | {"y": ["no", "yes"] * 30})).kind == "classes"


@pytest.mark.parametrize("most", [3, 4])
def test_too_many_whole_numbers_are_given_up(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator, "_MOST_VALUES", most)
    y = np.array([0.0, 1.0, 1.0, 2.0, 70_000.0, 70_000.0] * 15)
    found = kind_of(with_outcome(y))
    assert found.kind == "number" if most == 3 else found == outcome_kind(y, "y")


def test_settings_as_dataclasses(tmp_path: Path) -> None:
    frame = pd.DataFrame(PLAIN | RARE)
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False, sep=";")
    columns = Columns(exclude=["x"], categorical=["z"])
    select = Environments(drop=[4], merge={"few": [2, 3]})
    form = FileFormat(sep=";", decimal=".")
    found = Moments.from_rows(path, "y", "site", columns=columns, select=select, form=form)
    choice = {"drop_environments": [4], "merge_environments": {"few": [2, 3]}}
    as_written = frame.assign(site=frame["site"].astype(str))
    expected = Moments.from_rows(
        as_written, "y", "site", exclude=["x"], categorical=["z"], **choice
    )
    assert_alike(found, expected)
    assert found.environments == ("1", "few")
