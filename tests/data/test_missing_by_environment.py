"""Missing values by environment, and what excluding features keeps."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from invariance import MultiEnvironmentData, check
from invariance.data.check import DataCheck
from invariance.data.gaps import MAX_LINES, WORTHWHILE

ENVIRONMENTS = "a", "b", "c"
SHARES = {"u": 0.6, "v": 0.3, "w": 0.05, "t": 0.02}


def gappy(seed: int = 0, n: int = 300, shares: dict[str, float] = SHARES) -> pd.DataFrame:
    """Columns with so large a share missing; `v` is missing everywhere in "c"."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"site": rng.choice(ENVIRONMENTS, n), "whole": rng.normal(size=n), "y": rng.normal(size=n)}
    )
    for name, share in shares.items():
        table[name] = np.where(rng.random(n) < share, np.nan, rng.normal(size=n))
    table.loc[table["site"] == "c", "v"] = np.nan
    return table.assign(y=table["y"].mask(rng.random(n) < 0.03))


@pytest.fixture(scope="module")
def found() -> DataCheck:
    return check(gappy(), "y", "site")


def test_counts_are_those_of_the_table(found: DataCheck) -> None:
    table = gappy()
    expected = table.drop(columns="site").isna().groupby(table["site"]).sum().T
    counts = found.missing_by_environment()
    assert set(counts.index) == {*SHARES, "y"}
    pd.testing.assert_frame_equal(
        counts[[*ENVIRONMENTS]], expected.loc[counts.index], check_names=False, check_dtype=False
    )
    percent = found.missing_by_environment(percent=True)
    assert percent.loc["v", "c"] == 100.0
    assert percent.loc["u", "a"] == pytest.approx(
        100.0 * table[table["site"] == "a"]["u"].isna().mean()
    )


@pytest.mark.parametrize("seed", range(5))
def test_exclusions_keep_the_rows_that_they_say(seed: int) -> None:
    table = gappy(seed, shares={**SHARES, "s": 0.4, "r": 0.1})
    found = check(table, "y", "site").missing_values
    features = [name for name in table if name not in ("site", "y")]
    # 'v' has no values in "c", which is a finding of its own
    features.remove("v")
    assert [each.features for each in found.exclusions] == list(range(len(features), 0, -1))
    for each in found.exclusions:
        kept = [name for name in features if name not in each.exclude]
        complete = table.dropna(subset=[*kept, "y"])
        assert each.rows == len(complete)
        sizes = complete["site"].value_counts().reindex(ENVIRONMENTS, fill_value=0)
        assert set(each.lost) == set(sizes[sizes < 3].index)
    for smaller, larger in zip(found.exclusions[1:], found.exclusions, strict=False):
        assert set(larger.exclude) < set(smaller.exclude)
        # the feature that comes in costs fewest rows
        added = [name for name in smaller.exclude if name not in larger.exclude]
        kept = [name for name in features if name not in smaller.exclude]
        rows = {name: len(table.dropna(subset=[*kept, name, "y"])) for name in smaller.exclude}
        assert rows[added[0]] == max(rows.values())


def test_no_other_features_keep_clearly_more(found: DataCheck) -> None:
    """The greedy path beside all subsets of the features"""
    table = gappy()
    features = ["whole", "u", "w", "t"]
    best = found.missing_values.best
    assert best is not None
    values = [
        len(table.dropna(subset=[*kept, "y"])) * size
        for size in range(1, 5)
        for kept in combinations(features, size)
    ]
    assert best.values >= 0.95 * max(values)
    assert best.exclude == ("u",)


def test_the_exclusion_is_proposed_and_reads(found: DataCheck) -> None:
    (finding,) = (finding for finding in found.findings if finding.code == "exclusion")
    table = gappy()
    for remedy in finding.remedies:
        settings = {**found.settings, **dict(remedy.settings)}
        settings["exclude"] = sorted({*settings["exclude"], "v"})
        with pytest.warns(UserWarning, match="dropped"):
            data = MultiEnvironmentData.from_table(table, "y", "site", **settings)
        assert f"keeps {data.n_rows} of 300 rows" in remedy.note
    assert set(found.settings["exclude"]) == {"u", "v"}


def test_an_environment_is_lost_only_if_that_keeps_more() -> None:
    """One of four sites did not measure half of the features: it goes, or they do."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(400, 12)), columns=[f"x{j}" for j in range(12)])
    table = table.assign(site=np.repeat(list("abcd"), 100), y=rng.normal(size=400))
    lacking = (table["site"] == "d") & (table.index % 100 > 1)
    table.loc[lacking, ["x0", "x1", "x2", "x3", "x4", "x5"]] = np.nan
    found = check(table, "y", "site")
    assert found.missing_values.best is None  # 302 × 12 rows against 400 × 6
    assert found.settings == {"missing": "drop"}
    everywhere = found.missing_values.best_everywhere
    assert everywhere is not None
    assert everywhere.lost == ()
    few = table.assign(**{f"x{j}": rng.normal(size=400) for j in range(5)})
    best = check(few, "y", "site").missing_values.best
    assert best is not None
    assert (best.exclude, best.rows, best.lost) == (("x5",), 400, ())


def test_little_is_no_reason_to_exclude() -> None:
    table = gappy(shares={"u": 0.04, "v": 0.0})
    table["v"] = 1.0 * (table["y"] > 0)
    found = check(table.assign(v=np.arange(300.0) % 7), "y", "site")
    assert found.missing_values.best is None
    first = found.missing_values.exclusions[0].values
    assert max(each.values for each in found.missing_values.exclusions) < WORTHWHILE * first
    assert "exclusion" not in {finding.code for finding in found.findings}


def test_it_prints_within_a_line_and_is_saved(found: DataCheck) -> None:
    assert "Missing values by site, in percent" in str(found)
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({f"measurement of 名前 {j}": rng.normal(size=400) for j in range(30)})
    wide = wide.mask(rng.random(wide.shape) < 0.02)
    sites = [f"the hospital of a long name, {k}" for k in range(40)]
    text = str(check(wide.assign(site=np.resize(sites, 400), y=rng.normal(size=400)), "y", "site"))
    assert max(map(len, text.splitlines())) <= 80
    assert f"{30 - MAX_LINES} columns and" in text
    saved = json.loads(found.to_json())["missing"]
    assert saved["environments"] == [str(label) for label in found.missing_values.environments]
    assert np.array(saved["counts"]).sum() == found.missing_by_environment().to_numpy().sum()
    assert saved["exclusions"][0]["exclude"] == []
    assert "Missing values" not in str(check(gappy()[["site", "whole"]], environment="site"))


def test_without_environments_all_rows_are_one() -> None:
    counts = check(gappy(), "y").missing_by_environment()
    assert list(counts.columns) == ["all"]
    assert counts.loc["u", "all"] == gappy()["u"].isna().sum()
