"""Some of the environments: of rows, of moments, and as a table is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariance import LinearGaussian, Moments, MultiEnvironmentData
from invariance.exceptions import DataError
from invariance.moments.moments import against_the_rest


def table(sizes: dict[str, int] | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    sizes = sizes or {"north": 20, "south": 15, "east": 12, "tiny": 2}
    site = np.repeat(list(sizes), list(sizes.values()))
    n = len(site)
    # "only" varies in the east alone, "level" has one level more there.
    only = np.where(site == "east", rng.normal(size=n), 4.0)
    level = np.where(
        (site == "east") & (np.arange(n) % 2 == 0), "c", np.where(np.arange(n) % 3 == 0, "a", "b")
    )
    a = rng.normal(1e4, 1.0, n)
    return pd.DataFrame(
        {"a": a, "only": only, "level": level, "y": a + rng.normal(size=n), "site": site}
    )


def read(given: pd.DataFrame, **choice) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_table(given, "y", "site", **choice)


def same(a: Moments, b: Moments) -> None:
    assert (a.columns, a.environments, a.feature_names) == (
        b.columns,
        b.environments,
        b.feature_names,
    )
    np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_allclose(a.means, b.means, rtol=1e-12)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(a.varies, b.varies)
    assert (dict(a.constants), dict(a.groups)) == (dict(b.constants), dict(b.groups))


@pytest.mark.filterwarnings("error")
def test_chosen_moments_are_those_of_the_chosen_rows() -> None:
    data = read(table(), drop_environments=["tiny"])
    for labels in (["north", "east"], ["south", "north"], ["south"]):
        chosen = Moments.from_data(data).choosing(labels)
        same(chosen, Moments.from_data(data.choosing(labels)))
        assert chosen.environments == tuple(label for label in data.environments if label in labels)
        assert chosen.groups["level"] == ("level=b", "level=c")[: 1 + ("east" in labels)]
    without = data.choosing(["north", "south"])
    assert without.feature_names == ("a", "level")
    assert without.features.columns == ("a", "level=b")
    assert without.constants == {"only": 4.0, "level=c": 0.0}
    assert without.names_as_given == ("a", "only", "level")
    assert (without.dropped_features, without.dropped_positions) == (("only",), (1,))
    assert without.n_rows == 35
    np.testing.assert_array_equal(without.y, data.y[data.environment_index < 2])


def test_environments_that_are_not_there() -> None:
    data = read(table(), drop_environments=["tiny"])
    wrong = {
        "did you mean 'north'": ["nort"],
        "'north' is a single label": "north",
        "no environment is named": [],
    }
    for source in (data, Moments.from_data(data)):
        for phrase, labels in wrong.items():
            with pytest.raises(DataError, match=phrase):
                source.choosing(labels)
    narrow = data.narrowed(np.array([False, True, False]))
    for source in (narrow, Moments.from_data(narrow)):
        with pytest.raises(DataError, match="every feature is constant in 'north', 'south'"):
            source.choosing(["north", "south"])


def test_what_an_outcome_is_does_not_change_with_the_rows_that_are_chosen() -> None:
    counts = [0, 1, 1, 2, 2, 2, 3, 9] * 10
    data = read(
        pd.DataFrame(
            {"y": counts + [1, 2, 3, 4] * 10, "a": range(120), "site": ["x"] * 80 + ["y"] * 40}
        )
    )
    alone = data.choosing(["y"])
    assert (data.outcome_kind.kind, alone.outcome_kind.kind) == ("count", "count")
    assert read(alone.to_frame().assign(site=["y", "z"] * 20)).outcome_kind.kind == "number"


def test_small_environments_are_not_to_be_left_out_where_too_few_are_large() -> None:
    rng = np.random.default_rng(0)
    for sites in (np.arange(24) // 2, np.maximum(np.arange(24) - 20, 0)):
        data = MultiEnvironmentData.from_arrays(
            rng.normal(size=(24, 2)), rng.normal(size=24), sites.tolist()
        )
        with pytest.raises(
            DataError, match="Each needs 3 rows: merge them, or choose another column"
        ) as caught:
            LinearGaussian().bind(data)
        assert "min_rows" not in str(caught.value)


def test_one_environment_against_the_rest() -> None:
    data = read(table(), drop_environments=["tiny"])
    two = against_the_rest(Moments.from_data(data), 1)
    rest = np.where(data.environment_index == 1, "south", "rest")
    merged = MultiEnvironmentData.from_arrays(
        data.X, data.y, rest.tolist(), feature_names=list(data.features.columns)
    )
    wanted = Moments.from_data(merged)
    np.testing.assert_allclose(two.scatter, wanted.scatter[[1, 0, 2]], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(two.means, wanted.means[[1, 0]], rtol=1e-12)
    np.testing.assert_array_equal(two.varies, wanted.varies[[1, 0, 2]])


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_environments_are_left_out_as_a_table_is_read() -> None:
    with pytest.raises(DataError, match="too small: 'tiny' \\(2 rows\\)"):
        LinearGaussian().bind(read(table()))
    data = read(table(), drop_environments=["tiny", "east"])
    assert data.environments == ("north", "south")
    assert data.feature_names == ("a", "level")
    assert data.encoding is not None
    assert data.encoding.features.columns == ("a", "only", "level=b")
    assert data.losses[0] == "left out environments, as asked: 'east' (12 rows), 'tiny' (2 rows)."
    assert Moments.from_data(data).losses == data.losses


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_small_environments_are_left_out() -> None:
    data = read(table(), min_rows=13)
    assert data.environments == ("north", "south")
    assert (
        data.losses[0]
        == "left out environments with fewer than 13 rows: 'east' (12 rows), 'tiny' (2 rows)."
    )
    assert read(table(), min_rows=12).environments == ("north", "south", "east")
    with pytest.raises(DataError, match="min_rows=99 is more than the 20 of any"):
        read(table(), min_rows=99)


def test_rows_that_were_lost_are_counted_once() -> None:
    gaps = table({"north": 30, "south": 30, "east": 30, "west": 30})
    gaps.loc[gaps.index[:10], "a"] = np.nan
    gaps.loc[gaps.index[40:45], "a"] = np.nan
    with pytest.warns(UserWarning, match="^dropped 5 of 90 rows"):
        data = read(gaps, min_rows=25, missing="drop")
    assert data.dropped_rows == {"south": 5}
    assert data.losses == (
        "left out environments with fewer than 25 rows: 'north' (20 rows).",
        "dropped 5 of 90 rows with missing values: 5 of environment 'south'.",
    )
    assert Moments.from_data(data).losses == data.losses


def test_environments_become_one() -> None:
    data = read(table(), merge_environments={"small": ["east", "tiny"]})
    assert data.environments == ("north", "south", "small")
    assert data.counts.tolist() == [20, 15, 14]
    assert data.losses == (
        "merged 'east' (12 rows), 'tiny' (2 rows) into one environment, 'small'.",
    )
    kept = read(
        table(),
        merge_environments={"east": ["east", "tiny"]},
        drop_environments=["south"],
        min_rows=14,
    )
    assert kept.environments == ("north", "east")
    assert len(kept.losses) == 2
    merged = read(table().replace({"site": {"tiny": "small", "east": "small"}}))
    same(Moments.from_data(data), Moments.from_data(merged))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"drop_environments": "tiny"}, r"use drop_environments=\['tiny'\]"),
        ({"drop_environments": ["tinny"]}, "no environment 'tinny'; did you mean 'tiny'"),
        ({"drop_environments": ["north", "south", "east", "tiny"]}, "no environment is left"),
        ({"drop_environments": ["tiny", "south", "east"]}, "one environment is left, 'north'"),
        ({"min_rows": -1}, "min_rows=-1"),
        ({"merge_environments": ["east", "tiny"]}, "merge_environments"),
        (
            {"merge_environments": {"small": "tiny"}},
            "'small' needs a list of two labels or more, not 'tiny'",
        ),
        (
            {"merge_environments": {"north": ["tiny", "east"]}},
            "cannot merge into 'north', which is another",
        ),
        (
            {"merge_environments": {"s": ["tiny", "east"]}, "drop_environments": ["tiny"]},
            "'tiny' is to be .* twice",
        ),
        (
            {"merge_environments": {"p": ["tiny", "east"], "q": ["south", "east"]}},
            "'east' is to be .* twice",
        ),
    ],
)
def test_choices_that_cannot_be_made(choice: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(table(), **choice)


def test_rows_without_a_label_stay_what_they_are() -> None:
    holes = table()
    holes["site"] = holes["site"].mask(holes.index == 3)
    with pytest.raises(DataError, match="has no label in 1 row"):
        read(holes, drop_environments=["tiny"])
    with pytest.warns(UserWarning, match="1 without an environment label"):
        assert read(holes, drop_environments=["tiny"], missing="drop").counts.tolist() == [
            19,
            15,
            12,
        ]
