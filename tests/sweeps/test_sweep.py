"""One fit for each outcome: the same as by hand, whatever else is fitted; tables, settings and
memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from invariance import (
    BIP,
    BetaBinomialPrior,
    Columns,
    Moments,
    MultiEnvironmentData,
    Tempering,
    spline,
    sweep,
)
from invariance.baselines import LassoSelection
from invariance.decisions.levels import LEFT_FREE
from invariance.exceptions import DataError, DataWarning, SettingError, WrongTypeError
from invariance.sweeps.data import check_processes, read_sweep_data
from invariance.sweeps.store import RESULT_COLUMNS
from invariance.sweeps.sweep import checked_engine, settings_of

NAMES = ["a", "b", "c", "d", "e"]


def table(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """a → b → c alike in both sites; d and e react to them differently."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["north", "south"], [n // 2, n - n // 2])
    shift = np.where(site == "north", 0.0, 1.5)
    a = rng.normal(size=n) + shift
    b = 1.2 * a + rng.normal(size=n)
    c = -0.8 * b + rng.normal(size=n)
    d = (0.5 + shift) * c + rng.normal(size=n)
    e = rng.normal(size=n) * (1 + shift) + b
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e, "site": site})


def found_note(found: pd.DataFrame, outcome: Any) -> str:
    return str(found.loc[found["outcome"] == outcome, "notes"].iloc[0])


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds"), second.drop(columns="seconds"), check_exact=True
    )


def test_rules_that_take_the_posterior_as_it_is_start_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(*arguments: object) -> None:
        raise AssertionError("nobody asked for compatible subsets")

    monkeypatch.setattr("invariance.decisions.pipeline.predictive_posterior", searched)
    for rule in ("mode", "threshold"):
        found = sweep(
            table(), BIP(prior=BetaBinomialPrior(max_size=3), select=rule), environments="site"
        )
        assert not found["notes"].str.contains("compatible").any()
        assert found["inclusion"].notna().all()


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_every_outcome_is_fitted_as_by_hand() -> None:
    found = sweep(table(), environments="site")
    assert found["outcome"].drop_duplicates().tolist() == NAMES
    assert found.columns.tolist() == list(RESULT_COLUMNS)
    for outcome, one in found.groupby("outcome"):
        assert one["inclusion"].is_monotonic_decreasing
        data = MultiEnvironmentData.from_table(table(), outcome, "site")
        model = BIP(prior=BetaBinomialPrior(max_size=4)).fit(Moments.from_data(data))
        one = one.set_index("feature").loc[list(model.feature_names_in_)]
        evidence = model.decision_.evidence
        np.testing.assert_allclose(one["inclusion"], model.inclusion_probabilities_, atol=1e-9)
        if model.predictive_ is not None:
            np.testing.assert_allclose(
                one["paper_inclusion"], model.posterior_.inclusion, atol=1e-9
            )
        assert one["selected"].tolist() == model.support_.tolist()
        found_evidence = one.iloc[0][["p_invariant", "r2"]].tolist()
        assert found_evidence == pytest.approx([evidence.p_invariant, evidence.r2], abs=1e-9)
        levels = {0.2: "invariant", 0.02: "weakly invariant", 0.0: "not invariant"}
        verdict = next(levels[level] for level in levels if evidence.p_invariant >= level)
        free = model.decision_.level in LEFT_FREE
        assert one["verdict"].iloc[0] == f"{'effects ' if free else ''}{verdict}"
        assert one["level"].unique().tolist() == [model.decision_.level]
        compatible = model.predictive_ is not None
        assert (
            "inclusion is that of the paper's posterior" in found_note(found, outcome)
        ) != compatible
    assert found["paper_inclusion"].notna().any()
    assert len(set(found["verdict"])) > 1


SAMPLED = BIP(engine=Tempering(chains=2, steps=50), prior="beta-binomial", select="mode")


@pytest.mark.usefixtures("brief")
def test_what_is_drawn_depends_on_the_name_of_the_outcome_only() -> None:
    whole, part = (
        sweep(table(), SAMPLED, outcomes=list(names), environments="site")
        for names in ("abd", "db")
    )
    same(part, whole[whole["outcome"].isin(["b", "d"])].reset_index(drop=True))
    other = sweep(table(), SAMPLED, outcomes=["b"], random_state=1, environments="site")
    assert (other["inclusion"] != part["inclusion"][:4]).any()
    assert SAMPLED.random_state is None


@pytest.mark.integration
def test_processes_give_the_same_as_one() -> None:
    rows = table().assign(whom=[None] * 3 + ["a"] + [None] * 115 + ["b"])
    how = {"outcomes": ["a", "b", "d"], "perturbed": "whom", "environments": "site"}
    one, two = (sweep(rows, SAMPLED, **how, n_jobs=n) for n in (1, 2))
    same(two, one)


@pytest.mark.parametrize("form", ["polars", "csv", "parquet", "labels", "data", "moments"])
def test_tables_of_any_form(form: str, tmp_path: Path) -> None:
    rows = table()
    names = {"environments": "site"}
    given: Any = rows
    if form == "polars":
        given = pl.from_pandas(rows)
    elif form in ("csv", "parquet"):
        given = tmp_path / f"table.{form}"
        rows.to_csv(given, index=False) if form == "csv" else rows.to_parquet(given, index=False)
    elif form == "labels":
        given = rows.drop(columns="site")
        names = {"environments": rows["site"].tolist()}
    else:
        given = MultiEnvironmentData.from_table(rows, "a", "site")
        names = {}
        given = given if form == "data" else Moments.from_data(given)
    found = sweep(given, outcomes=["c"], **names)
    expected = sweep(rows, outcomes=["c"], environments="site")
    assert found["feature"].tolist() == expected["feature"].tolist()
    np.testing.assert_allclose(found["inclusion"], expected["inclusion"], rtol=1e-9)


def test_the_default_fits_small_environments() -> None:
    """Subsets of 20 features could not be fitted to seven rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(15, 12)), columns=[f"x{j}" for j in range(12)])
    found = sweep(
        rows,
        environments=["a"] * 7 + ["b"] * 8,
        outcomes=["x0", "x5"],
        perturbed=["x5"] + [None] * 14,
    )
    assert found["feature"].notna().all()


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_random_deviations_are_for_who_asks() -> None:
    rows = table().assign(site=np.arange(120) // 5)
    model = BIP(prior=BetaBinomialPrior(max_size=2), deviations="random")
    by_default = BIP(prior=BetaBinomialPrior(max_size=2))
    asked, usual = (sweep(rows, each, environments="site") for each in (model, by_default))
    alone = model.fit(Moments.from_data(MultiEnvironmentData.from_table(rows, "c", "site")))
    own = asked[asked["outcome"] == "c"].set_index("feature")["inclusion"]
    np.testing.assert_allclose(
        own[list(alone.feature_names_in_)], alone.inclusion_probabilities_, atol=1e-9
    )
    free = usual[usual["outcome"] == "c"].set_index("feature")["inclusion"]
    assert not np.allclose(own[free.index], free)


def test_an_outcome_that_fails_does_not_stop_the_others() -> None:
    rows = table()
    rows.loc[:59, "d"] = 1.0
    rows["flat"] = 3.0
    with pytest.warns(DataWarning, match="'flat'"), pytest.warns(DataWarning, match="'d', 'flat'$"):
        found = sweep(rows, outcomes=["a", "d", "flat"], environments="site")
    failed = found[found["feature"].isna()].set_index("outcome")
    assert failed.index.tolist() == ["d", "flat"]
    assert "'north'" in failed["verdict"]["d"]
    assert not failed["selected"].any()
    assert failed["inclusion"].isna().all()
    assert (found["outcome"] == "a").sum() == 4


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_an_engine_that_fails_is_a_verdict_but_want_of_memory_is_none() -> None:
    class Broken:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def run(self, target: Any, options: Any) -> Any:
            raise self.error

    found = sweep(
        table(),
        BIP(engine=Broken(ZeroDivisionError("by\nzero"))),
        outcomes=["a"],
        environments="site",
    )
    assert found["verdict"].tolist() == ["by zero"]
    with pytest.raises(MemoryError):
        sweep(table(), BIP(engine=Broken(MemoryError())), outcomes=["a"], environments="site")


def test_levels_and_groups_are_features_and_no_outcomes() -> None:
    rng = np.random.default_rng(1)
    rows = table().assign(ward=rng.choice(["x", "y", "z"], 120))
    model = BIP(columns=Columns(groups={"both": ["d", "e"]}))
    found = sweep(rows, model, progress=True, environments="site")
    assert set(found["outcome"]) == {"a", "b", "c"}
    assert set(found["feature"][found["outcome"] == "a"]) == {"b", "c", "ward", "both"}
    direct = BIP(prior=BetaBinomialPrior(max_size=20), columns=Columns(groups={"both": ["d", "e"]}))
    one = sweep(rows, direct, outcomes=["a"], environments="site")
    direct.fit(rows[["b", "c", "d", "e", "ward"]], rows["a"], environments=rows["site"])
    one = one[one["outcome"] == "a"].set_index("feature")["inclusion"]
    np.testing.assert_allclose(
        one[["b", "ward", "both"]], direct.inclusion_probabilities_[[0, 4, 2]], atol=1e-9
    )
    for name in ("ward", "both"):
        with pytest.raises(DataError, match=f"'{name}'"):
            sweep(rows, model, outcomes=[name], environments="site")
    with pytest.raises(DataError, match="no column can be the outcome: 'ward'"):
        sweep(rows[["ward", "site"]], environments="site")
    curved = sweep(
        rows,
        BIP(columns=Columns(groups=[spline("e", knots=3)])),
        outcomes=["a"],
        environments="site",
    )
    assert "e" in set(curved["feature"])


def test_top_features_and_all_that_are_selected() -> None:
    every = sweep(table(), top=None, environments="site")
    assert (every.groupby("outcome").size() == 4).all()
    few = sweep(table(), top=1, environments="site")
    for outcome, kept in few.groupby("outcome"):
        one = every[every["outcome"] == outcome]
        assert kept["feature"].iloc[0] == one["feature"].iloc[0]
        assert set(kept["feature"][1:]) == set(one["feature"][1:][one["selected"][1:]])
    assert (few.groupby("outcome").size() > 1).any()


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"environments": None}, SettingError, "environments"),
        ({"environments": "sites"}, DataError, "'sites'.*'site'"),
        ({"perturbed": "whom"}, DataError, "'whom'"),
        ({"perturbed": ["b"]}, DataError, "perturbed has 1 row"),
        ({"perturbed": ["B"] * 120}, DataError, "'B'.*'b'"),
        ({"outcomes": ["A"]}, DataError, "'A'.*'a'"),
        ({"outcomes": "a,b"}, SettingError, "outcomes='a,b'"),
        ({"outcomes": []}, SettingError, "outcomes"),
        ({"top": 0}, SettingError, "top=0"),
        ({"random_state": None}, SettingError, "random_state=None"),
        ({"device": "cuda"}, SettingError, "device='cuda'"),
        ({"device": "cuda", "dask": "tcp://127.0.0.1:1"}, SettingError, "dask"),
        ({"exlude": ["b"]}, WrongTypeError, "'exlude'.*'exclude'"),
        ({"exclude": "d"}, SettingError, "exclude"),
        ({"perturbed": 7}, DataError, "perturbed"),
        ({"features": ["a"]}, DataError, "'a'"),
        ({"n_jobs": "2"}, SettingError, "n_jobs"),
        ({"model": BIP(engine="exat")}, SettingError, "engine='exat'"),
        ({"model": BIP(select="best")}, SettingError, "select='best'"),
        ({"model": BIP(prior="flat")}, SettingError, "'flat'"),
        ({"model": BIP(family="line")}, SettingError, "family='line'"),
        ({"model": BIP(family="logistic")}, SettingError, "family="),
        ({"model": BIP(regressor=LinearRegression())}, SettingError, "regressor=None"),
        ({"model": LassoSelection()}, WrongTypeError, "LassoSelection"),
    ],
)
def test_complaints(settings: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sweep(table(), **{"environments": "site", **settings})


@pytest.mark.parametrize(
    "named", [{"environments": "site"}, {"perturbed": ["a"] * 120}, {"missing": "drop"}]
)
def test_moments_are_of_rows_that_were_read(named: dict[str, Any]) -> None:
    moments = Moments.from_data(MultiEnvironmentData.from_table(table(), "a", "site"))
    with pytest.raises(SettingError, match=f"Leave {next(iter(named))}= out"):
        sweep(moments, **named)


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of three groups of five columns take 600 bytes; an outcome that does without rows
    takes them again."""
    moments = Moments.from_data(MultiEnvironmentData.from_table(table(), "a", "site"))
    assert moments.scatter.nbytes == 600
    perturbed = read_sweep_data(table(), "site", ["a", *[None] * 119])

    def free(n: int) -> None:
        monkeypatch.setattr("invariance.models.gaussian.free_bytes", lambda: n)

    free(700)
    with pytest.raises(DataError, match="of 5 columns"):
        sweep(table(), environments="site")
    assert len(sweep(moments, outcomes=["a"]))
    free(600)
    check_processes(perturbed, 1)
    free(599)
    with pytest.raises(DataError, match="n_jobs=1"):
        check_processes(perturbed, 1)
    with pytest.raises(DataError, match="use n_jobs=1"):
        sweep(moments, n_jobs=2)


SMALL = BIP(prior=BetaBinomialPrior(max_size=2), engine="exact")


def outcomes_of(rows: pd.DataFrame, **settings: Any) -> list[str]:
    return list(sweep(rows, SMALL, environments="site", **settings)["outcome"].unique())


@pytest.mark.parametrize("labels", [[1, 1, None], [1.0, 1.0, np.nan], ["1", "1", ""]])
def test_names_that_are_numbers(labels: list[Any]) -> None:
    """Whole numbers become floats where some are missing."""
    rows = table(60).rename(columns={"a": 0, "b": 1, "c": 2, "d": 3})
    assert outcomes_of(rows, outcomes=(name for name in (2, 0))) == ["0", "2"]
    rows["hit"] = pd.Series(labels + labels[-1:] * 57)
    found = sweep(rows, SMALL, outcomes=["1"], perturbed="hit", environments="site")
    assert found["notes"][0].startswith("2 rows that perturb '1' left out.")


def test_other_capitals_are_mentioned_and_blanks_stripped() -> None:
    perturbed = ["a", "A", "b ", "elsewhere", *[None] * 56]
    with pytest.raises(DataError, match=r"'A', 'elsewhere'.*did you mean 'a'"):
        outcomes_of(table(60), perturbed=perturbed)
    with pytest.warns(DataWarning, match=r"'A', 'elsewhere'.*did you mean 'a'"):
        assert outcomes_of(table(60), perturbed=perturbed, allow_unmeasured=True) == NAMES


class Leading:
    """A rule without a text of its own."""

    def __init__(self, most: Any) -> None:
        self.most = most


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(5000.0), np.append(np.arange(4999.0), -1.0)),
        (np.array([0.1, 0.2]), np.array([0.1 + 1e-12, 0.2])),
        ([Leading(1), "..."], [Leading(2), "..."]),
        ({"x": Leading(np.zeros(2000))}, {"x": Leading(np.ones(2000))}),
    ],
)
def test_contents_tell_objects_apart(one: Any, other: Any) -> None:
    texts = [settings_of(BIP(select=Leading(held)))["select"] for held in (one, one, other)]
    assert texts[0] == texts[1] != texts[2]
    assert " at 0x" not in texts[0]
    with pytest.raises(SettingError, match="__repr__"):
        settings_of(BIP(select=Leading(lambda: one)))


def test_labels_and_constants_are_part_of_the_data() -> None:
    rows = table(60)
    swapped = rows.assign(site=rows["site"].to_numpy()[[0, 30, *range(2, 30), 1, *range(31, 60)]])
    with pytest.warns(DataWarning, match="constant"):
        three, four = (read_sweep_data(rows.assign(k=k), "site").identity for k in (3.0, 4.0))
    plain = read_sweep_data(rows, "site").identity
    assert plain == read_sweep_data(rows.copy(), "site").identity
    assert (
        len(
            {
                each["data"]
                for each in (plain, read_sweep_data(swapped, "site").identity, three, four)
            }
        )
        == 4
    )


def test_engines_by_name_on_a_device() -> None:
    data = SimpleNamespace(moments=SimpleNamespace(groups={}))
    for name, pairs in (("vi", 20), ("vi-genes", 10), ("vi-genes(pairs=7)", 7)):
        task: Any = SimpleNamespace(model=BIP("linear_gaussian", engine=name), data=data)
        assert checked_engine(task, "cuda").pairs == pairs
    for name in ("auto", "exact"):
        task = SimpleNamespace(model=BIP("linear_gaussian", engine=name), data=data)
        with pytest.raises(SettingError, match="engine='vi'"):
            checked_engine(task, "cuda")
