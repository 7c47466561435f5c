"""Environments that are chosen, and kinds of outcomes that are told, while rows go by: as of a table in memory."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.data.outcomes import outcome_kind
from invariance.data.sources import source_of
from invariance.exceptions import DataError
from invariance.moments.accumulator import WholeNumbers
from invariance.moments.from_rows import of_source, opened

RNG = np.random.default_rng(11)
SITE = np.repeat([1, 2, 3, 4], [40, 30, 20, 5])
TABLE = pd.DataFrame({"a": RNG.normal(size=95) + SITE, "b": RNG.choice(["u", "v"], size=95), "site": SITE})
TABLE["y"] = TABLE["a"] + RNG.normal(size=95)


def pieces(table: pd.DataFrame) -> list[pd.DataFrame]:
    return [table[start : start + 17] for start in range(0, len(table), 17)]


CHOICES: list[dict[str, Any]] = [
    {"drop_environments": [3]},
    {"drop_environments": ["3"], "min_rows": 10},
    {"merge_environments": {"few": [3, 4]}},
    {"merge_environments": {"few": [2, 4]}, "drop_environments": [1]},
    {"min_rows": 25},
]


@pytest.mark.parametrize("choice", CHOICES)
def test_chosen_environments(choice: dict[str, Any]) -> None:
    expected = Moments.from_data(MultiEnvironmentData.from_table(TABLE, "y", "site", **choice))
    found = Moments.from_rows(pieces(TABLE), "y", "site", **choice)
    assert found.environments == expected.environments
    assert found.columns == expected.columns
    assert found.losses == expected.losses
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-13)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(found.at_ends, expected.at_ends)


@pytest.mark.parametrize("choice", [{"min_rows": 10}, {"drop_environments": [4]}])
def test_levels_go_with_their_environment(choice: dict[str, Any]) -> None:
    table = TABLE.assign(b=np.where(SITE == 4, "w", TABLE["b"]))
    expected = MultiEnvironmentData.from_table(table, "y", "site", **choice)
    found = Moments.from_rows(pieces(table), "y", "site", **choice)
    assert found.columns == (*expected.features.columns, "y")
    assert found.notes == expected.notes


@pytest.mark.parametrize(
    "choice",
    [
        {"drop_environments": [9]},
        {"drop_environments": [1, 2, 3]},
        {"min_rows": 50},
        {"min_rows": -1},
        {"merge_environments": {"all": [1, 2, 3, 4]}},
        {"merge_environments": {2: [1, 3]}},
    ],
)
def test_the_same_complaints(choice: dict[str, Any]) -> None:
    with pytest.raises(DataError) as expected:
        MultiEnvironmentData.from_table(TABLE, "y", "site", **choice)
    with pytest.raises(DataError) as found:
        Moments.from_rows(pieces(TABLE), "y", "site", **choice)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("choice", [{"drop_environments": [3, 4]}, {"merge_environments": {"few": [3, 4]}}])
def test_gaps_go_with_their_environment(choice: dict[str, Any]) -> None:
    table = TABLE.copy()
    table.loc[table["site"] >= 3, "a"] = np.nan
    table.loc[0, ["a", "b"]] = None
    said = []
    for make, rows in ((MultiEnvironmentData.from_table, table), (Moments.from_rows, pieces(table))):
        with pytest.raises(DataError) as refused:
            make(rows, "y", "site", **choice)  # type: ignore[operator]
        with pytest.warns(UserWarning, match="missing") as warned:
            made = make(rows, "y", "site", missing="drop", **choice)  # type: ignore[operator]
        said.append((str(refused.value), [str(warning.message) for warning in warned], made.losses))
    assert said[1] == said[0]


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


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_outcome(kind: str) -> None:
    y = KINDS[kind]
    table = pd.DataFrame({"a": RNG.normal(size=90), "y": y, "site": np.repeat(["p", "q", "r"], 30)})
    assert _kind(table) == outcome_kind(y, "y")


def test_kind_of_the_rows_that_are_left() -> None:
    y = np.append(KINDS["counts"], [0.5, 0.5])
    table = pd.DataFrame({"a": RNG.normal(size=92), "y": y, "site": np.repeat(["p", "q", "r"], [45, 45, 2])})
    assert _kind(table).kind == "number"
    assert _kind(table, drop=["r"]) == outcome_kind(KINDS["counts"], "y")
    table.loc[0, "y"] = 0.5
    assert _kind(table, drop=["r"]).kind == "number"
    table.loc[0, "y"] = 0.0
    table.loc[90:, "a"] = np.nan
    with pytest.warns(UserWarning, match="2 of 92 rows"):
        assert _kind(table, missing="drop").kind == "count"


def test_kind_of_words() -> None:
    table = pd.DataFrame({"a": RNG.normal(size=40), "y": ["no", "yes"] * 20, "site": np.repeat([1, 2], 20)})
    assert _kind(table) == ("classes", "y has two values: 'no' and 'yes'")


def _kind(table: pd.DataFrame, missing: str = "error", drop: Any = ()) -> Any:
    choices: dict[str, Any] = {"exclude": (), "categorical": "auto", "numeric": (), "groups": None, "drop": drop}
    source, wanted = opened(pieces(table), "y", "site", None, missing, {}, **choices)
    return wanted.screened(of_source(source, wanted, 1, False)).outcome_kind


def test_too_many_whole_numbers_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.moments.accumulator._MOST", 3)
    one, other = WholeNumbers(), WholeNumbers()
    one.add(np.array([0.0, 1.0, 1.0]))
    other.add(np.array([2.0, 70_000.0]))
    assert (one.n_values, other.n_values) == (2, 2)
    one.absorb(other)
    assert one.n_values is None


def test_rows_are_counted_by_the_first_ones(tmp_path: Path) -> None:
    text = TABLE.to_csv(index=False) * 50
    (tmp_path / "t.csv").write_text(text)
    assert source_of(tmp_path / "t.csv").about_rows == 50 * 96
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    assert source_of(tmp_path / "t.csv.gz").about_rows == 50 * 96
    TABLE.to_parquet(tmp_path / "t.parquet")
    assert source_of(tmp_path / "t.parquet").about_rows == 95


def test_merged_rows_are_read_again() -> None:
    merge = {"few": [3, 4]}
    whole = BIP().fit_data(MultiEnvironmentData.from_table(TABLE, "y", "site", merge_environments=merge))
    source = source_of(TABLE)
    moments = Moments.from_rows(source, "y", "site", merge_environments=merge)
    model = BIP(environment="site").fit_moments(moments, rows=source)
    judged = [fit.decision_.findings.judge.evidence(np.eye(2, dtype=bool)).p_invariant for fit in (whole, model)]
    np.testing.assert_allclose(judged[1], judged[0], rtol=1e-9)
