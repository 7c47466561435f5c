"""All that is planted is found, each of its remedies mends it, and the settings are tried before
they are told."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP, Columns, FileFormat, MultiEnvironmentData, check
from invariance.data.check import MAX_ROUNDS, DataCheck, examine, read_with
from invariance.data.look import Finding
from invariance.exceptions import DataError, Remedy, use
from planted import PLANTED, SITES, planted_table

ROLES = {"outcome": "y", "environment": "site"}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return planted_table()


@pytest.fixture(scope="module")
def found(table: pd.DataFrame) -> DataCheck:
    return check(table, "y", "site")


def test_everything_is_found_and_nothing_else(found: DataCheck) -> None:
    assert {(each.column, each.code): each.asks for each in found.findings} == PLANTED
    assert len(found.findings) == len(PLANTED)
    for each in found.findings:
        assert each.remedies
        assert len(each.what.split()) < 25


def test_environments_and_rows_are_named(found: DataCheck, table: pd.DataFrame) -> None:
    by_name = {(each.column, each.code): each for each in found.findings}
    chol, dose, months = (
        by_name[pair]
        for pair in (("chol", "one_value"), ("dose", "one_value"), ("months", "far_values"))
    )
    assert (chol.environments, chol.rows) == (("bath",), (table["chol"] == 0).sum())
    assert (dose.environments, dose.rows) == (("cork",), (table["site"] == "cork").sum())
    assert (months.environments, months.rows) == (("ayr",), (table["months"] == -9).sum())
    assert by_name["glucose", "zeros"].environments == ("ayr",)
    assert by_name["weeks", "far_values"].environments == SITES
    within = by_name[None, "within"]
    assert dict(within.remedies[0].settings) == {"exclude": ["at_ayr", "at_bath"]}


def with_remedy(found: DataCheck, finding: Finding, remedy: Remedy) -> dict[str, Any]:
    """The settings without what they say of the column, but with the remedy"""
    settings = dict(found.settings)
    settings["exclude"] = [name for name in settings["exclude"] if name != finding.column]
    settings["na"] = {
        name: codes for name, codes in settings["na"].items() if name != finding.column
    }
    for name, value in remedy.settings:
        known = settings.get(name)
        settings[name] = {**known, **value} if isinstance(value, dict) else value
        if isinstance(value, list):
            settings[name] = list(dict.fromkeys([*(known or ()), *value]))
    return settings


def read(table: Any, settings: Mapping[str, Any]) -> MultiEnvironmentData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MultiEnvironmentData.from_table(table, "y", "site", **settings)


@pytest.mark.parametrize(("column", "code"), list(PLANTED))
def test_each_remedy_mends_it(
    found: DataCheck, table: pd.DataFrame, column: str | None, code: str
) -> None:
    (finding,) = (each for each in found.findings if (each.column, each.code) == (column, code))
    for remedy in finding.remedies:
        settings = with_remedy(found, finding, remedy)
        data = read(table, settings)
        if "keeps" in remedy.note and "level" not in remedy.note:
            assert f"keeps {data.n_rows} of 240 rows" in remedy.note
        left = table[~table["site"].isin(settings.get("drop_environments", []))]
        said = ("features", "exclude", "categorical", "numeric", "na")
        columns = Columns(**{name: settings[name] for name in said if name in settings})
        again = {
            (each.column, each.code) for each in check(left, "y", "site", columns=columns).findings
        }
        # Only missing values are still missing.
        assert (column, code) not in again or code == "missing"


def test_questions_are_not_in_the_settings(found: DataCheck) -> None:
    asked = {each.column for each in found.findings if each.asks}
    assert asked == {"glucose", "grade", "mark", "dose"}
    named = {
        *found.settings["exclude"],
        *found.settings["na"],
        *found.settings.get("categorical", ()),
    }
    assert not asked & named
    assert "drop_environments" not in found.settings


def test_the_settings_are_read_from_every_kind_of_table(
    found: DataCheck, table: pd.DataFrame, tmp_path: Path
) -> None:
    data = read(table, found.settings)
    BIP(progress=False).fit(data)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    table.to_csv(tmp_path / "t.csv.gz", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_excel(tmp_path / "t.xlsx", index=False)
    for other in (pl.from_pandas(table), *sorted(tmp_path.iterdir())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            also = check(other, "y", "site")
        assert [
            (each.column, each.code, each.what) for each in also.findings if each.code != "words"
        ] == [
            (each.column, each.code, each.what) for each in found.findings if each.code != "words"
        ]
        np.testing.assert_array_equal(read(other, also.settings).X, data.X)


# ---------------------------------------------------------------- what the user says joins


def test_codes_of_the_user_are_kept_and_looked_at(table: pd.DataFrame) -> None:
    table = table.assign(chol=table["chol"].mask(table.index % 40 == 2, 9999.0))
    found = check(table, "y", "site", columns=Columns(na={"chol": [0], "age": [77.7]}))
    codes = {each.code for each in found.findings if each.column == "chol"}
    assert "one_value" not in codes
    assert "far_values" in codes
    assert found.missing_by_environment().loc["chol", "bath"] == 60
    kept = check(
        table[table["site"] != "bath"],
        "y",
        "site",
        columns=Columns(na={"chol": [0], "age": [77.7]}),
    )
    assert list(map(float, kept.settings["na"]["chol"])) == [0.0, 9999.0]
    assert kept.settings["na"]["age"] == ("77.7",)
    assert next(each for each in kept.columns if each.name == "chol").missing == 0
    zeros = next(each for each in found.columns if each.name == "chol").missing
    assert zeros == (table["chol"] == 0).sum()


def test_a_code_is_a_number_however_it_is_written() -> None:
    rng = np.random.default_rng(0)
    cells = [f"{value:.1f}" for value in rng.normal(5, 1, 60)]
    cells[:3] = ["0.0", "0", "?"]
    table = pd.DataFrame(
        {
            "site": ["a", "b", "c"] * 20,
            "x": cells,
            "z": rng.normal(size=60),
            "y": rng.normal(size=60),
        }
    )
    data = read(table, {"na": {"x": [0, "?"]}, "missing": "drop"})
    assert data.n_rows == 57
    truths = pd.DataFrame(
        {"site": ["a", "b"] * 30, "x": [True, False, True] * 20, "y": rng.normal(size=60)}
    )
    assert read(truths, {"na": {"x": [1]}}).n_rows == 60  # a truth value is no number


# ---------------------------------------------------------------- the trial


def small(n: int = 90, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = {
        "site": np.resize(["a", "b", "c"], n),
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
    }
    return pd.DataFrame({**frame, **columns})


def test_what_is_refused_is_mended_by_its_remedies() -> None:
    """Sites of two rows, and a site in which all have the same outcome, of times that are 0."""
    table = small(site=np.array([*"abc"] * 29 + ["tiny", "tiny", "a"]), died=np.resize([0, 1], 90))
    table = table.assign(y=table["y"].abs() + 0.1)
    table.loc[:1, "y"] = 0.0
    found = check(table, "y", "site", event="died")
    stopped = [each for each in found.findings if each.code == "stopped"]
    assert [dict(each.remedies[0].settings) for each in stopped] == [
        {"na": {"y": [0.0]}, "missing": "drop"},
        {"min_rows": 3},
    ]
    assert found.settings == {"na": {"y": [0.0]}, "missing": "drop", "min_rows": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = read_with(table, {**ROLES, "event": "died"}, found.settings)
    assert data.environments == ("c", "a", "b")
    assert data.n_rows == 86


def test_an_outcome_that_is_constant_in_a_site() -> None:
    table = small().assign(y=lambda rows: rows["y"].where(rows["site"] != "b", 1.0))
    found = check(table, "y", "site")
    assert [each.code for each in found.findings] == ["stopped"]
    assert found.settings == {"drop_environments": ["b"]}
    assert not found.is_refused
    BIP(progress=False).fit(read(table, found.settings))


def test_what_has_no_remedy_is_told_with_what_was_tried() -> None:
    table = small(y=np.resize(["low", "middle", "high"], 90), x=[np.nan, *range(89)])
    found = check(table, "y", "site")
    assert found.is_refused
    (refused,) = found.refusals
    assert "3 classes" in refused.what
    assert refused.remedies == ()


def test_trials_end() -> None:
    tried: list[Mapping[str, Any]] = []

    def never(settings: Mapping[str, Any]) -> None:
        tried.append(settings)
        raise DataError("no", use(min_rows=len(tried)))

    found = examine(small(), ROLES, attempt=never)
    assert found.is_refused
    assert len(tried) == MAX_ROUNDS + 1
    assert [each.code for each in found.findings] == ["stopped"] * MAX_ROUNDS + ["refused"]
    tried.clear()

    def again(settings: Mapping[str, Any]) -> None:
        tried.append(settings)
        raise DataError("no", use(min_rows=3), use(family="gaussian"))  # no setting of the reader

    assert examine(small(), ROLES, attempt=again).is_refused
    assert len(tried) == 2


def test_a_file_is_tried_as_it_is_read(tmp_path: Path) -> None:
    """Of an attempt the first settings are those that are told."""
    planted_table().to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    tried: list[Mapping[str, Any]] = []
    with pytest.warns(UserWarning, match="decimal commas"):
        found = examine(tmp_path / "t.csv", ROLES, format=FileFormat(), attempt=tried.append)
    assert tried[-1] == found.settings


# ---------------------------------------------------------------- words and odd headers


def test_a_word_that_may_be_a_level_keeps_its_rows(tmp_path: Path) -> None:
    """'None' is read as missing, as pandas does; of pupils that react it is a level."""
    rng = np.random.default_rng(0)
    table = small(
        300, pupil=rng.choice(["Both", "One", "None"], 300), side=rng.choice(["l", "r", ""], 300)
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    found = check(tmp_path / "t.csv", "y", "site")
    pupil, side = (each for each in found.findings if each.code == "missing")
    assert "'None'" in pupil.what
    assert "'None'" not in side.what
    assert found.settings == {"missing": "level"}
    assert read(tmp_path / "t.csv", found.settings).n_rows == 300
    only = check(tmp_path / "t.csv", "y", "site", columns=Columns(exclude=["pupil"]))
    assert only.settings["missing"] == "drop"
    asked = check(tmp_path / "t.csv", "y", "site", format=FileFormat(na=["None"]))
    assert asked.settings["missing"] == "drop"


def test_ranges_among_numbers_are_levels() -> None:
    table = small(
        motor=np.resize(["1/2", "3", "4", "5/6"], 90),
        lab=np.resize(["1.5", "2.5", "n.d.", "3.5"], 90),
    )
    motor, lab = (each for each in check(table, "y", "site").findings if each.code == "words")
    assert dict(motor.remedies[0].settings) == {"categorical": ["motor"]}
    assert dict(lab.remedies[0].settings) == {"na": {"lab": ["n.d."]}}


def test_a_column_is_called_self(tmp_path: Path) -> None:
    table = small(self=np.resize([0.5, 1.5, 2.5, 7.5], 90), index=np.resize([1, 2], 90))
    table.to_csv(tmp_path / "t.csv", index=False, decimal=",", sep=";")
    with pytest.warns(UserWarning, match="decimal commas"):
        found = check(tmp_path / "t.csv", "y", "site")
    data = read(tmp_path / "t.csv", found.settings)
    assert data.feature_names == ("x", "self", "index")
    assert list(data.to_frame()) == ["x", "self", "index", "y", "site"]


def test_the_same_said_of_many_columns_stands_in_one_line() -> None:
    rng = np.random.default_rng(0)
    words = {
        f"x{j}": np.where(rng.random(90) < 0.1, "?", rng.normal(size=90).round(2)) for j in range(5)
    }
    found = check(small(**words), "y", "site")
    assert len(found.findings) == 5
    text = str(found)
    assert text.count("is not numeric") == 1
    assert "'x0', 'x1', 'x2', 'x3', 'x4'" in text
    for name in words:
        assert f"'{name}': ['?']" in " ".join(text.split())
