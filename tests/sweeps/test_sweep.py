"""One fit for each outcome: the same as by hand, whatever else is fitted, and rows that perturb an outcome left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from invariance import BIP, BetaBinomialPrior, Columns, Moments, MultiEnvironmentData, Tempering, spline, sweep
from invariance.baselines import LassoSelection
from invariance.exceptions import DataError, DataWarning, EngineError, SettingError, WrongTypeError
from invariance.sweeps.data import check_processes, read_sweep_data
from invariance.sweeps.store import COLUMNS, MANIFEST
from invariance.sweeps.sweep import settings_of

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


def without_seconds(found: pd.DataFrame) -> pd.DataFrame:
    return found.drop(columns="seconds")


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(without_seconds(first), without_seconds(second), check_exact=True)


def by_hand(rows: pd.DataFrame, outcome: str, **settings: Any) -> BIP:
    model = BIP(prior=BetaBinomialPrior(max_size=4), **settings)
    return model.fit(Moments.from_data(MultiEnvironmentData.from_table(rows, outcome, "site")))


def check_one(found: pd.DataFrame, outcome: str, model: BIP) -> None:
    one = found[found["outcome"] == outcome].set_index("feature")
    inclusion = dict(zip(model.feature_names_in_, model.inclusion_probabilities_, strict=True))
    assert {*one.index} == {*inclusion}
    for name, row in one.iterrows():
        assert row["inclusion"] == pytest.approx(inclusion[name], abs=1e-9)
        assert row["selected"] == (name in model.selected_features_)
    evidence = model.decision_.evidence
    assert one["p_invariant"].iloc[0] == pytest.approx(evidence.p_invariant, abs=1e-9)
    assert one["r2"].iloc[0] == pytest.approx(evidence.r2, abs=1e-9)


# ---------------------------------------------------------------- what is fitted


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_every_outcome_is_fitted_as_by_hand() -> None:
    found = sweep(table(), environments="site")
    assert found["outcome"].drop_duplicates().tolist() == NAMES
    assert found.columns.tolist() == list(COLUMNS)
    for outcome in NAMES:
        check_one(found, outcome, by_hand(table(), outcome))
    for _, one in found.groupby("outcome"):
        assert one["inclusion"].is_monotonic_decreasing
    model = by_hand(table(), "b")
    assert model.predictive_ is not None
    one = found[found["outcome"] == "b"].set_index("feature")
    expected = pd.Series(model.predictive_.inclusion, index=model.predictive_.feature_names)
    pd.testing.assert_series_equal(one["predictive"].sort_index(), expected.sort_index(), check_names=False)


def test_what_is_drawn_depends_on_the_name_of_the_outcome_only() -> None:
    model = BIP(engine=Tempering(chains=2, steps=50), prior="beta-binomial", select="mode")
    whole = sweep(table(), model, environments="site")
    part = sweep(table(), model, outcomes=["d", "b"], environments="site")
    same(part, whole[whole["outcome"].isin(["b", "d"])].reset_index(drop=True))
    other = sweep(table(), model, outcomes=["d", "b"], random_state=1, environments="site")
    assert (other["inclusion"] != part["inclusion"]).any()
    assert model.random_state is None


@pytest.mark.integration
def test_processes_give_the_same_as_one() -> None:
    model = BIP(engine=Tempering(chains=2, steps=50), prior="beta-binomial", select="mode")
    rows = table().assign(whom=[None] * 3 + ["a"] + [None] * 115 + ["b"])
    one = sweep(rows, model, perturbed="whom", environments="site")
    same(sweep(rows, model, perturbed="whom", n_jobs=2, environments="site"), one)


@pytest.mark.parametrize("form", ["pandas", "polars", "csv", "parquet", "labels", "data", "moments"])
def test_tables_of_any_form(form: str, tmp_path: Path) -> None:
    rows = table()
    given: Any = rows
    names: dict[str, Any] = {"environments": "site"}
    if form == "polars":
        given = pl.from_pandas(rows)
    elif form in ("csv", "parquet"):
        given = tmp_path / f"table.{form}"
        rows.to_csv(given, index=False) if form == "csv" else rows.to_parquet(given, index=False)
    elif form == "labels":
        given, names = rows.drop(columns="site"), {"environments": rows["site"].tolist()}
    elif form in ("data", "moments"):
        given, names = MultiEnvironmentData.from_table(rows, "a", "site"), {}
        given = given if form == "data" else Moments.from_data(given)
    found, expected = sweep(given, outcomes=["c"], **names), sweep(rows, outcomes=["c"], environments="site")
    assert found["feature"].tolist() == expected["feature"].tolist()
    np.testing.assert_allclose(found["inclusion"], expected["inclusion"], rtol=1e-9)


def test_the_default_fits_small_environments() -> None:
    """Subsets of 20 features could not be fitted to seven rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(15, 12)), columns=[f"x{j}" for j in range(12)])
    found = sweep(rows, environments=["a"] * 7 + ["b"] * 8, outcomes=["x0", "x5"], perturbed=["x5"] + [None] * 14)
    assert found["feature"].notna().all()


# ---------------------------------------------------------------- rows that perturb an outcome


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("gap", [False, True], ids=["all rows", "with a row left out before"])
def test_a_row_is_not_used_for_the_outcome_that_it_perturbs(gap: bool) -> None:
    rows = table()
    whom = np.full(120, None, dtype=object)
    whom[[5, 70, 71, 100]] = "b", "c", "b", "elsewhere"
    whom[6] = ""
    if gap:
        rows.loc[2, "d"] = np.nan
        with pytest.warns(DataWarning, match="dropped 1 of 120 rows"):
            found = sweep(rows.assign(whom=whom), perturbed="whom", missing="drop", environments="site")
    else:
        found = sweep(rows, perturbed=whom, environments="site")
    complete = rows.dropna()
    for outcome, left_out in (("a", []), ("b", [5, 71]), ("c", [70])):
        check_one(found, outcome, by_hand(complete.drop(index=left_out), outcome))
    notes = found.groupby("outcome")["notes"].first()
    assert notes["b"].startswith("2 rows that perturb 'b' left out.")
    assert notes["c"].startswith("1 row that perturbs 'c' left out.")
    assert "left out" not in notes["a"]


def test_a_row_that_cannot_be_removed_from_the_moments_is_left_out_of_the_rows() -> None:
    """Without it the scatter would keep three digits; and a column that only this row varies goes with it."""
    rows = table()
    rows.loc[5, "b"] = 1e9
    rows["spike"] = np.where(np.arange(120) == 5, 1.0, 0.0)
    found = sweep(rows, perturbed=np.where(np.arange(120) == 5, "c", None), outcomes=["c"], environments="site")
    check_one(found, "c", by_hand(rows.drop(index=5).drop(columns="spike"), "c"))
    assert "Second moments come from the remaining rows" in found["notes"][0]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_too_few_rows_left_is_the_verdict_of_that_outcome_alone() -> None:
    rows = table()[55:]
    whom = ["a", "a", "a", *[None] * 62]
    found = sweep(rows, perturbed=whom, environments="site")
    failed = found[found["feature"].isna()]
    assert failed["outcome"].tolist() == ["a"]
    assert "'north'" in failed["verdict"].iloc[0]


# ---------------------------------------------------------------- outcomes that fail or cannot be


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

    found = sweep(table(), BIP(engine=Broken(ZeroDivisionError("by\nzero"))), outcomes=["a"], environments="site")
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
    np.testing.assert_allclose(one[["b", "ward", "both"]], direct.inclusion_probabilities_[[0, 4, 2]], atol=1e-9)
    for name in ("ward", "both"):
        with pytest.raises(DataError, match=f"'{name}'"):
            sweep(rows, model, outcomes=[name], environments="site")
    with pytest.raises(DataError, match="no column can be the outcome: 'ward'"):
        sweep(rows[["ward", "site"]], environments="site")
    curved = sweep(rows, BIP(columns=Columns(groups=[spline("e", knots=3)])), outcomes=["a"], environments="site")
    assert "e" in set(curved["feature"])


# ---------------------------------------------------------------- what is kept


def test_top_features_and_all_that_are_selected() -> None:
    every = sweep(table(), top=None, environments="site")
    assert (every.groupby("outcome").size() == 4).all()
    few = sweep(table(), top=1, environments="site")
    for outcome, kept in few.groupby("outcome"):
        one = every[every["outcome"] == outcome]
        assert kept["feature"].iloc[0] == one["feature"].iloc[0]
        assert set(kept["feature"][1:]) == set(one["feature"][1:][one["selected"][1:]])
    assert (few.groupby("outcome").size() > 1).any()


def test_verdicts_follow_the_p_value() -> None:
    found = sweep(table(), environments="site").drop_duplicates("outcome")
    for row in found.itertuples():
        levels = {0.2: "invariant", 0.02: "weakly invariant", 0.0: "not invariant"}
        expected = next(word for level, word in levels.items() if row.p_invariant >= level)
        assert row.verdict == expected
    assert len(set(found["verdict"])) > 1


# ---------------------------------------------------------------- complaints


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
        *(({"n_jobs": jobs}, SettingError, "n_jobs") for jobs in (0, "2", True)),
        ({"model": BIP(engine="exat")}, SettingError, "engine='exat'"),
        ({"model": BIP(engine=Tempering)}, SettingError, "engine"),
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


@pytest.mark.parametrize("named", [{"environments": "site"}, {"perturbed": ["a"] * 120}, {"missing": "drop"}])
def test_moments_are_of_rows_that_were_read(named: dict[str, Any]) -> None:
    moments = Moments.from_data(MultiEnvironmentData.from_table(table(), "a", "site"))
    with pytest.raises(SettingError, match=f"Leave {next(iter(named))}= out"):
        sweep(moments, **named)


# ---------------------------------------------------------------- memory


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.sweeps.data.free_bytes", lambda: 700)
    with pytest.raises(DataError, match="of 5 columns"):
        sweep(table(), environments="site")
    moments = Moments.from_data(MultiEnvironmentData.from_table(table(), "a", "site"))
    assert len(sweep(moments, outcomes=["a"]))
    monkeypatch.setattr("invariance.sweeps.data.free_bytes", lambda: 500)
    with pytest.raises(DataError, match="use n_jobs=1"):
        sweep(moments, n_jobs=2)


# ---------------------------------------------------------------- names, numbers and folders of any kind

SMALL = BIP(prior=BetaBinomialPrior(max_size=2), engine="exact")


def numbered() -> pd.DataFrame:
    return table(60).rename(columns={"a": 0, "b": 1, "c": 2, "d": 3})


def outcomes_of(rows: pd.DataFrame, **settings: Any) -> list[str]:
    return list(sweep(rows, SMALL, environments="site", **settings)["outcome"].unique())


def test_names_and_numbers_of_any_kind(tmp_path: Path) -> None:
    assert outcomes_of(numbered(), outcomes=(name for name in (2, 0))) == ["0", "2"]
    assert outcomes_of(table(60), exclude=["d"]) == ["a", "b", "c", "e"]
    first = sweep(table(60), SMALL, top=1, random_state=3, out=tmp_path, environments="site")
    second = sweep(table(60), SMALL, top=np.int64(1), random_state=np.int32(3), out=tmp_path, environments="site")
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("labels", [[1, 1, None], [1.0, 1.0, np.nan], ["1", "1", ""]])
def test_perturbed_columns_that_are_numbers(labels: list[Any]) -> None:
    """Whole numbers become floats where some are missing."""
    rows = numbered().assign(hit=pd.Series(labels * 1 + labels[-1:] * 57))
    found = sweep(rows, SMALL, outcomes=["1"], perturbed="hit", environments="site")
    assert found["notes"][0].startswith("2 rows that perturb '1' left out.")


def test_other_capitals_and_blanks_are_mentioned() -> None:
    perturbed = ["a", "A", "b ", "elsewhere", *[None] * 56]
    with pytest.warns(DataWarning, match="'A', 'b '.*did you mean 'a'"):
        outcomes_of(table(60), perturbed=perturbed)


def test_a_stray_file_is_nobodys_part(tmp_path: Path) -> None:
    sweep(table(60), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    shutil.copy(tmp_path / "part-000001.parquet", tmp_path / "part-copy.parquet")
    found = sweep(table(60), SMALL, outcomes=["a", "b"], out=tmp_path, environments="site")
    assert set(found["outcome"]) == {"a", "b"}
    assert (tmp_path / "part-copy.parquet").exists()


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_broken_manifest(tmp_path: Path, content: str) -> None:
    sweep(table(60), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(EngineError, match=r"manifest\.json.* damaged"):
        sweep(table(60), SMALL, outcomes=["b"], out=tmp_path, environments="site")


@pytest.mark.parametrize("content", ["{", '{"seed": 9}'])
def test_a_manifest_of_no_results_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    sweep(table(60), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    assert json.loads((tmp_path / MANIFEST).read_text())["seed"] == 0


class Leading:
    """A rule without a text of its own."""

    def __init__(self, most: Any) -> None:
        self.most = most


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(5000.0), np.append(np.arange(4999.0), -1.0)),
        (np.arange(5000.0), np.arange(5000.0).reshape(2, -1)),
        (np.array([0.1, 0.2]), np.array([0.1 + 1e-12, 0.2])),
        ([Leading(1), "..."], [Leading(2), "..."]),
        ({"x": Leading(np.zeros(2000))}, {"x": Leading(np.ones(2000))}),
    ],
)
def test_contents_tell_objects_apart(one: Any, other: Any) -> None:
    texts = [settings_of(BIP(select=Leading(held)))["select"] for held in (one, one, other)]
    assert texts[0] == texts[1] != texts[2]
    assert " at 0x" not in texts[0]


def test_labels_and_constants_are_part_of_the_data() -> None:
    rows = table(60)
    swapped = rows.assign(site=rows["site"].to_numpy()[[0, 30, *range(2, 30), 1, *range(31, 60)]])
    with pytest.warns(DataWarning, match="constant"):
        three, four = (read_sweep_data(rows.assign(k=k), "site").identity for k in (3.0, 4.0))
    plain = read_sweep_data(rows, "site").identity
    assert plain == read_sweep_data(rows.copy(), "site").identity
    assert len({each["data"] for each in (plain, read_sweep_data(swapped, "site").identity, three, four)}) == 4


def test_processes_need_room_for_outcomes_that_do_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of three groups of five columns take 600 bytes, the rows 2,400."""
    rows, perturbed = table(60), ["a", *[None] * 59]
    moments = Moments.from_data(MultiEnvironmentData.from_table(rows, "a", "site"))
    assert moments.scatter.nbytes == 600
    source = read_sweep_data(rows, "site", perturbed)
    monkeypatch.setattr("invariance.sweeps.data.free_bytes", lambda: 599)
    with pytest.raises(DataError, match="n_jobs=1"):
        check_processes(source, 1)
    monkeypatch.setattr("invariance.sweeps.data.free_bytes", lambda: 600)
    check_processes(source, 1)
