"""Rows that perturb an outcome: what they change for that outcome, and for no other."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from invariance import (
    BIP,
    BetaBinomialPrior,
    Columns,
    InclusionPrior,
    Moments,
    MultiEnvironmentData,
    Tempering,
    Tolerance,
    sweep,
)
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.decisions.predictive import PredictiveScore, plain_neighbours
from invariance.exceptions import DataError, DataWarning, SettingError
from invariance.models.bayesian import BayesianGaussian
from invariance.models.gaussian import GaussianFromMoments
from invariance.sweeps.data import SweepData, read_sweep_data
from invariance.sweeps.fitting import Sweep, fit_outcome
from twins import datasets, simulated


def few_rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 8)), columns=list("abcdefgh"))
    rows["a"] += rows["b"] + rows["c"]
    return rows.assign(site=np.repeat(["north", "south"], 30))


def fitted(rows: pd.DataFrame, outcome: str, environment: str, prior: Any) -> BIP:
    moments = Moments.from_data(MultiEnvironmentData.from_table(rows, outcome, environment))
    return BIP(prior=prior, deviations="free").fit(moments)


def check_one(found: pd.DataFrame, outcome: str, model: BIP) -> None:
    """The same features, probabilities in both posteriors, and selection."""
    one = (
        found[found["outcome"] == outcome]
        .set_index("feature")
        .loc[list(model.posterior_.feature_names)]
    )
    np.testing.assert_allclose(one["inclusion"], model.predictive_.inclusion, rtol=1e-6, atol=1e-12)
    assert model.predictive_ is not None
    np.testing.assert_allclose(
        one["paper_inclusion"], model.posterior_.inclusion, rtol=1e-6, atol=1e-12
    )
    assert {*one.index[one["selected"]]} == {*model.selected_features_}


def first_note(found: pd.DataFrame, outcome: str) -> str:
    return str(found.loc[found["outcome"] == outcome, "notes"].iloc[0])


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("gap", [False, True], ids=["all rows", "with a row left out before"])
def test_a_row_is_not_used_for_the_outcome_that_it_perturbs(gap: bool) -> None:
    rows = few_rows()
    prior = BetaBinomialPrior(max_size=20)
    whom = np.full(60, None, dtype=object)
    whom[[5, 6, 40, 41, 50]] = "b", "", "c", "b", "elsewhere"
    how: Any = {"environments": "site", "allow_unmeasured": True}
    if gap:
        rows.loc[2, "d"] = np.nan
        with pytest.warns(DataWarning, match="dropped 1 of 60 rows"):
            found = sweep(rows.assign(whom=whom), perturbed="whom", missing="drop", **how)
    else:
        found = sweep(rows, perturbed=whom, **how)
    for outcome, left_out in (("a", []), ("b", [5, 41]), ("c", [40])):
        check_one(
            found, outcome, fitted(rows.dropna().drop(index=left_out), outcome, "site", prior)
        )
    assert first_note(found, "b").startswith("2 rows that perturb 'b' left out.")
    assert first_note(found, "c").startswith("1 row that perturbs 'c' left out.")
    assert "left out" not in first_note(found, "a")


@pytest.mark.parametrize("joined", ["b;c", "b, c", "c|b", "b+c", "b & c", "b/c ", "b;;c;b"])
def test_a_row_may_perturb_several_outcomes(joined: str) -> None:
    rows = few_rows().rename(columns={"d": "b,d"})  # what is a column is not taken apart
    source = read_sweep_data(rows, "site", [joined, "b", "b,d", "a; b,d", "b,d,a", *[None] * 55])
    assert source.perturbing == {"b": (0, 1), "c": (0,), "b,d": (2, 3, 4), "a": (3, 4)}


def test_what_is_no_column_is_refused_unless_allowed() -> None:
    whom = ["YAL001C", "b;YAL002W", "YAL001C", "b", *[None] * 56]
    with pytest.raises(
        DataError, match=r"'YAL001C', 'YAL002W' \(names: 2, in 3 rows\): use allow_unmeasured=True"
    ):
        read_sweep_data(few_rows(), "site", whom)
    assert read_sweep_data(few_rows(), "site", whom, allow_unmeasured=True).perturbing == {
        "b": (1, 3)
    }
    with pytest.raises(DataError, match="no column at all"):
        read_sweep_data(few_rows(), "site", ["YAL001C", *[None] * 59], allow_unmeasured=True)


def test_hints_leave_the_perturbed_column_out() -> None:
    rows = few_rows().assign(sample=[f"s{i}" for i in range(60)], whom=[*"ab", *[None] * 58])
    with pytest.raises(DataError, match="sample") as refused:
        read_sweep_data(rows, "site", "whom", Columns(exclude=["c"]))
    assert "use exclude=['c', 'sample'] or" in str(refused.value)
    source = read_sweep_data(rows, "site", "whom", Columns(exclude=["c", "sample", "whom"]))
    assert source.perturbing == {"a": (0,), "b": (1,)}
    assert "c" not in source.moments.columns


@pytest.mark.parametrize(
    "elsewhere", [(), (50, 51)], ids=["one environment", "and rows of another"]
)
def test_an_environment_that_perturbs_the_outcome_is_left_out(elsewhere: tuple[int, ...]) -> None:
    """As where each perturbation is an environment of its own."""
    rows = few_rows().assign(site=np.repeat(["wild", "c down", "other"], 20))
    acted_on = np.full(60, None, dtype=object)
    acted_on[[*range(20, 40), *elsewhere]] = "c"
    found = sweep(rows, outcomes=["b", "c"], perturbed=acted_on, environments="site")
    left = rows.drop(index=[*range(20, 40), *elsewhere])
    check_one(found, "c", fitted(left, "c", "site", BetaBinomialPrior(max_size=20)))
    check_one(found, "b", fitted(rows, "b", "site", BetaBinomialPrior(max_size=20)))
    assert "Environment 'c down' left out" in first_note(found, "c")
    with pytest.warns(DataWarning, match="could not be fitted"):
        failed = sweep(rows, outcomes=["c"], perturbed=["c"] * 60, environments="site")
    assert "every row perturbs 'c'" in failed["verdict"][0]


def test_a_row_that_cannot_be_removed_from_the_moments_is_left_out_of_the_rows() -> None:
    """Without it the scatter would keep three digits; and a column that only this row varies goes
    with it."""
    rows = few_rows()
    rows.loc[5, "b"] = 1e9
    rows["spike"] = np.where(np.arange(60) == 5, 1.0, 0.0)
    found = sweep(
        rows, perturbed=np.where(np.arange(60) == 5, "c", None), outcomes=["c"], environments="site"
    )
    check_one(
        found,
        "c",
        fitted(
            rows.drop(index=5).drop(columns="spike"), "c", "site", BetaBinomialPrior(max_size=20)
        ),
    )
    assert "Second moments come from the remaining rows" in found["notes"][0]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_too_few_rows_left_is_the_verdict_of_that_outcome_alone() -> None:
    found = sweep(
        few_rows()[25:],
        perturbed=["a", "a", "a", *[None] * 32],
        outcomes=["a", "b"],
        environments="site",
    )
    failed = found[found["feature"].isna()]
    assert failed["outcome"].tolist() == ["a"]
    assert "'north'" in failed["verdict"].iloc[0]


def without(data: MultiEnvironmentData, *rows: int) -> tuple[Moments | None, Moments]:
    """Moments that rows were taken out of, and those of the others"""
    kept = np.delete(np.arange(data.n_rows), rows)
    left = replace(
        data, X=data.X[kept], y=data.y[kept], environment_index=data.environment_index[kept]
    )
    return SweepData(Moments.from_data(data), data, {"y": rows}).reduced("y"), Moments.from_data(
        left
    )


@settings(max_examples=30)
@given(datasets(), st.sets(st.integers(0, 1000), min_size=1, max_size=3))
@pytest.mark.filterwarnings("ignore:dropped")
def test_removing_rows_equals_never_having_them(
    data: MultiEnvironmentData, picks: set[int]
) -> None:
    rows = {pick % data.n_rows for pick in picks}
    counts = np.bincount(
        np.delete(data.environment_index, list(rows)), minlength=data.n_environments
    )
    assume(counts.min() >= 3)
    found, expected = without(data, *rows)
    assume(found is not None)
    assert found is not None
    expected = expected.of_columns(found.columns)
    for name in ("counts", "minimum", "maximum", "varies"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("more", [(), (4, 5)], ids=["one", "three"])
def test_what_is_not_refused_is_right_to_nine_digits(more: tuple[int, ...]) -> None:
    refused = []
    for size in np.geomspace(1e2, 1e12, 30):
        data = simulated(3, (100, 100), seed=5)
        data.X[[3, *more], 0] = [size, 200.0, 50.0][: 1 + len(more)]
        found, expected = without(data, 3, *more)
        if found is None:
            refused.append(size)
        else:
            scale = np.sqrt(np.einsum("gjj->gj", expected.scatter))
            assert (
                np.abs(
                    (found.scatter - expected.scatter) / scale[:, :, None] / scale[:, None, :]
                ).max()
                < 1e-9
            )
    assert 1e3 < min(refused) < 1e5
    assert max(refused) == 1e12


@pytest.mark.filterwarnings("ignore:dropped columns")
@pytest.mark.parametrize("level", ["current", "former", "never"])
def test_a_level_whose_last_row_is_removed(level: str) -> None:
    rows = few_rows()
    others = [text for text in ("never", "former", "current") if text != level]
    rows = rows[["a", "b", "site"]].assign(smoking=np.resize(others, 60))
    rows.loc[5, "smoking"] = level
    left = read_sweep_data(rows, "site", ["a" if row == 5 else None for row in range(60)]).reduced(
        "a"
    )
    assert left is not None
    assert left.encoding is not None
    assert left.encoding.of_levels["smoking"].absent == {level}
    assert set(left.constants) == ({f"smoking={level}"} if level != "current" else set())
    with pytest.raises(DataError, match=f"'smoking' has {level!r}"):
        BIP(select=Threshold(0.0)).fit(left).predict(rows)


def test_rows_that_perturb_one_outcome_take_no_size_from_the_others() -> None:
    """All rows of a site act on the salt: the blood pressure follows from what it followed from
    before."""
    rows = make_example().to_frame()
    acted_on = np.where(rows["hospital"] == "north", "salt", None)
    with_them = sweep(
        rows, outcomes=["blood_pressure"], perturbed=acted_on, environments="hospital"
    )
    without = sweep(rows, outcomes=["blood_pressure"], environments="hospital")
    pd.testing.assert_frame_equal(
        with_them.drop(columns="seconds"), without.drop(columns="seconds")
    )
    assert sorted(without["feature"][without["selected"]]) == ["age", "exercise", "smoking"]


@pytest.mark.parametrize(
    "model", [None, BIP(prior=BetaBinomialPrior(max_size=6))], ids=["default", "asked for"]
)
def test_an_outcome_with_few_rows_left_has_a_limit_of_its_own(model: BIP | None) -> None:
    rows = few_rows()
    acted_on = np.where(np.arange(60) < 25, "a", None)  # five of thirty are left
    found = sweep(
        rows, model, outcomes=["a", "b"], perturbed=acted_on, top=None, environments="site"
    )
    assert found["feature"].notna().all()
    assert (
        "Subsets of at most 3 features, which is what the rows that are left allow."
        in first_note(found, "a")
    )
    assert "Subsets of at most" not in first_note(found, "b")
    check_one(found, "a", fitted(rows[25:], "a", "site", BetaBinomialPrior(max_size=3)))
    allowed = BIP(prior=BetaBinomialPrior(max_size=3))
    found = sweep(rows, allowed, outcomes=["a"], perturbed=acted_on, environments="site")
    assert "Subsets of at most" not in first_note(found, "a")


def test_a_limit_that_no_outcome_can_have_is_not_lowered() -> None:
    acted_on = [*["a"] * 3, *[None] * 35]
    model = BIP(prior=BetaBinomialPrior(max_size=7))
    with pytest.warns(
        UserWarning, match="2 of 2 outcomes could not be fitted"
    ):  # eight rows of the first site
        found = sweep(
            few_rows()[22:], model, outcomes=["a", "b"], perturbed=acted_on, environments="site"
        )
    assert found["verdict"].str.contains("'north'").all()


def with_a_rare_level() -> pd.DataFrame:
    """'Rare' comes first by the alphabet, so that the other levels are compared with it."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(120, 2)), columns=list("ab"))
    rows["k"] = rng.choice(list("xyz"), 120)
    rows["a"] += rows["b"] + 0.9 * (rows["k"] == "x")
    rows.loc[:1, "k"] = "Rare"
    return rows.assign(env=np.repeat(["u", "v", "w"], 40))


def test_a_level_that_vanishes_costs_nothing() -> None:
    rows = with_a_rare_level()
    perturbed = [*["a"] * 2, *[None] * 118]
    whole: Any = sweep(rows, outcomes=["a"], perturbed=perturbed, top=None, environments="env")
    left = sweep(rows[2:], outcomes=["a"], top=None, environments="env")
    columns = ["feature", "inclusion", "paper_inclusion", "selected", "p_invariant", "r2"]
    pd.testing.assert_frame_equal(whole[columns], left[columns], rtol=1e-6)
    check_one(whole, "a", fitted(rows[2:], "a", "env", BetaBinomialPrior(max_size=20)))


@pytest.mark.parametrize("family", [GaussianFromMoments, BayesianGaussian])
def test_the_price_is_of_coefficients_that_are_free(family: Any) -> None:
    """Three columns of which two are free cost as much as two."""
    rows = with_a_rare_level()
    source = read_sweep_data(rows, "env", [*["a"] * 2, *[None] * 118])
    moments = source.moments_for("a")[0]
    again = read_sweep_data(rows[2:], "env").moments_for("a")[0]
    assert moments.features.widths.max() == 3
    assert again.features.widths.max() == 2
    masks = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    weights = [
        PredictiveScore.with_price(family(part), Tolerance()).log_weights(masks)
        for part in (moments, again)
    ]
    np.testing.assert_allclose(*weights, rtol=1e-7)


class ColumnsOnly:
    """In the place of a gate, or of weights: shows how many columns it is told."""

    def values(self, gain: Any, columns: Any, *_: Any) -> Any:
        return np.asarray(columns, dtype=float)


def test_walks_and_searches_count_the_same_coefficients() -> None:
    source = read_sweep_data(with_a_rare_level(), "env", [*["a"] * 2, *[None] * 118])
    model = GaussianFromMoments(source.moments_for("a")[0])
    masks = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    expected = masks @ np.array([2.0 if name == "k" else 1.0 for name in model.feature_names])
    free = np.arange(2)
    nothing = np.arange(0)
    sizes = np.ones(3, dtype=bool)
    walk = model.subset_walk(free, nothing, Tolerance(rho=1.0, tau=1.0, level=1e-9))
    assert walk.n_low == 2
    for columns in range(4):  # gains are asked for of subsets with so many columns alone
        least = np.where(np.arange(4) == columns, -np.inf, np.inf)
        np.testing.assert_array_equal(
            ~np.isnan(walk.dense(nothing, sizes, least).gain), expected == columns
        )
        members = np.empty((4, 2), dtype=np.int32)
        listed = walk.listed(nothing, 2, sizes, members, least).gain
        codes = [(1 << row[row >= 0]).sum() for row in members]
        np.testing.assert_array_equal(~np.isnan(listed), expected[codes] == columns)
    gate: Any = ColumnsOnly()
    flipped = plain_neighbours(model, gate)(masks[0])
    np.testing.assert_array_equal(flipped, expected[[1, 2]])


def test_a_prior_may_name_outcomes() -> None:
    rows = few_rows()
    model = BIP(prior=InclusionPrior({"a": 0.9, "b": 0.2}, max_size=3))
    found = sweep(rows, model, outcomes=["a", "c"], top=None, environments="site")
    for outcome, named in (("a", {"b": 0.2}), ("c", {"a": 0.9, "b": 0.2})):
        check_one(found, outcome, fitted(rows, outcome, "site", InclusionPrior(named, max_size=3)))


def test_probabilities_by_position_are_refused() -> None:
    model = BIP(prior=InclusionPrior([0.9, *[0.5] * 6]))
    with pytest.raises(SettingError, match="by position"):
        sweep(few_rows(), model, outcomes=["a"], environments="site")


def test_moments_of_an_outcome_go_with_its_fit() -> None:
    """They may be as large as those of all rows: nothing may keep them until the garbage collector
    comes."""
    source = read_sweep_data(few_rows().assign(hit=[None] * 59 + ["b"]), "site", "hit")
    engine = Tempering(chains=2, steps=50)
    fit = Sweep(source, BIP(prior=BetaBinomialPrior(max_size=2), engine=engine), 20, 0)
    gc.collect()
    gc.disable()
    try:
        before = sum(type(one) is Moments for one in gc.get_objects())
        assert fit_outcome(fit, "b")[0]["feature"]
        assert sum(type(one) is Moments for one in gc.get_objects()) == before
    finally:
        gc.enable()
