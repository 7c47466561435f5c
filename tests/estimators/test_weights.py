"""Case weights: a row with weight 2 is two rows, one with weight 0 none, wherever rows come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import invariance
from cli_runner import run
from invariance import (
    BIP,
    Additive,
    BIPClassifier,
    BIPSurvival,
    Columns,
    Environments,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    along,
    sweep,
)
from invariance.baselines import ICP
from invariance.data import columns as data_columns
from invariance.data import weights as data_weights
from invariance.data.sources import source_of
from invariance.exceptions import DataError, SettingError, WrongTypeError
from invariance.sweeps.data import moments_of_columns

RNG = np.random.default_rng(0)
N = 150
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
SITE = np.repeat(["p", "q", "r"], N // 3)
X["c"] += (SITE == "q") - 0.5 * (SITE == "r")
NUMBER = X["a"].to_numpy() + RNG.normal(size=N)
CLASS = NUMBER > 0.3
COUNT = RNG.poisson(np.exp(0.4 * X["a"]))
TIME = RNG.exponential(np.exp(-0.5 * X["a"]))
EVENT = RNG.random(N) < 0.7
YEARS = RNG.uniform(0.5, 2.0, N)
WEIGHTS = RNG.integers(0, 4, N)
AGAIN = np.repeat(np.arange(N), WEIGHTS)
TABLE = X.assign(y=NUMBER, site=SITE, w=WEIGHTS)
QUICK = {"prior": UniformPrior(max_size=2), "random_state": 0}

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "gaussian": (BIP(**QUICK), NUMBER, {}),
    "mean": (BIP("linear_gaussian_mean", **QUICK), NUMBER, {}),
    "bayesian": (BIP("bayesian_linear_gaussian", **QUICK), NUMBER, {}),
    "additive": (BIP(Additive(knots=3), **QUICK), NUMBER, {}),
    "logistic": (BIPClassifier(**QUICK), CLASS, {}),
    "poisson": (BIP("poisson", **QUICK), COUNT, {}),
    "negative binomial": (BIP("negative_binomial", **QUICK), COUNT, {"exposure": YEARS}),
    "survival": (BIPSurvival(**QUICK), TIME, {"event": EVENT}),
    "random deviations": (BIP(deviations="random", **QUICK), NUMBER, {}),
}


def plain(model: Any, path: Path) -> tuple[Any, ...]:
    """All that a model has found, as numbers and text, without what tells of the weights"""
    model.save(path)
    found = model.posterior_.to_plain(), model.decision_.to_plain(), json.loads(path.read_text())
    return tuple(_without_notes(part) for part in found)


def _without_notes(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_notes(part)
            for name, part in value.items()
            if name not in ("notes", "seconds", "checksum")
        }
    return [_without_notes(part) for part in value] if isinstance(value, list | tuple) else value


def assert_same(one: Any, two: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for name in one:
            assert_same(one[name], two[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for first, second in zip(one, two, strict=True):
            assert_same(first, second)
    elif isinstance(one, float):
        assert two == pytest.approx(one, rel=1e-10, abs=1e-10, nan_ok=True)
    else:
        assert one == two


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_repeat_rows(family: str, tmp_path: Path) -> None:
    estimator, y, given = FAMILIES[family]
    one = clone(estimator).fit(X, y, SITE, sample_weight=WEIGHTS, **given)
    repeated = {role: values[AGAIN] for role, values in given.items()}
    two = clone(estimator).fit(X.iloc[AGAIN], y[AGAIN], SITE[AGAIN], **repeated)
    assert_same(plain(one, tmp_path / "one.json"), plain(two, tmp_path / "two.json"))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-10)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-10)
    if family in ("gaussian", "logistic"):
        assert_same(*(_without_notes(model.diagnose().to_dict()) for model in (one, two)))
    if family in ("gaussian", "mean", "random deviations"):
        np.testing.assert_allclose(one.predict_interval(X), two.predict_interval(X), rtol=1e-10)
    if family != "negative binomial":
        scored = {"event": EVENT} if given else {}
        again = {"event": EVENT[AGAIN]} if given else {}
        wanted = two.score(X.iloc[AGAIN], y[AGAIN], **again)
        assert one.score(X, y, sample_weight=WEIGHTS, **scored) == pytest.approx(wanted, abs=1e-10)
    told = (
        f"{N} rows count as {WEIGHTS.sum()} by their weights 'sample_weight', "
        f"{(WEIGHTS == 0).sum()} of them"
    )
    assert any(told in note for note in one.posterior_.notes)
    assert told[:20] in " ".join(str(one.summary()).split())


@pytest.mark.parametrize("engine", ["tempering", "vi"])
def test_weights_repeat_rows_for_engines_that_draw(engine: str) -> None:
    one = BIP(engine=engine, **QUICK).fit(X, NUMBER, SITE, sample_weight=WEIGHTS)
    two = BIP(engine=engine, **QUICK).fit(X.iloc[AGAIN], NUMBER[AGAIN], SITE[AGAIN])
    np.testing.assert_allclose(one.posterior_.inclusion, two.posterior_.inclusion, rtol=1e-10)


@pytest.mark.parametrize(
    "environments", [along("when"), ["site", "half"]], ids=["along", "factors"]
)
def test_weights_repeat_rows_of_a_design(environments: Any) -> None:
    table = X.assign(
        site=SITE, half=np.resize(["u", "v"], N), when=np.resize(np.arange(10.0), N), w=WEIGHTS
    )
    one = BIP(columns=Columns(environment=environments, weights="w"), **QUICK).fit(table, NUMBER)
    again = table.drop(columns="w").iloc[AGAIN]
    two = BIP(columns=Columns(environment=environments), **QUICK).fit(again, NUMBER[AGAIN])
    assert_same(_without_notes(one.decision_.to_plain()), _without_notes(two.decision_.to_plain()))
    with pytest.raises(DataError, match="weights 'w' repeat rows"):
        BIP().fit(table, NUMBER, along("when", ar=2, within="site"), sample_weight="w")


def test_weights_of_tables_and_arrays() -> None:
    """A row of weight 0 may hold anything."""
    table = TABLE.copy()
    table.loc[np.flatnonzero(WEIGHTS == 0)[0], ["a", "y"]] = np.inf, np.nan
    again = MultiEnvironmentData.from_table(TABLE.drop(columns="w").iloc[AGAIN], "y", "site")
    arrays = MultiEnvironmentData.from_arrays(X, NUMBER, SITE, weights=WEIGHTS.tolist())
    read = {"outcome": "y", "environment": "site"}
    for data in (
        MultiEnvironmentData.from_table(table, **read, weights="w"),
        MultiEnvironmentData.from_table(
            pl.from_pandas(TABLE), **read, columns=Columns(weights="w")
        ),
        arrays,
    ):
        np.testing.assert_array_equal(data.X, again.X)
        np.testing.assert_array_equal(data.y, again.y)
        assert data.counts.tolist() == again.counts.tolist()
        assert data.weights is not None
        assert data.weights.total == data.n_rows == len(data.to_frame())
    assert "w" not in data.feature_names
    once = MultiEnvironmentData.from_table(data.to_frame(), "y", "environment")
    assert once.n_rows == data.n_rows


@pytest.mark.parametrize("form", ["pandas", "batches", "parquet", "csv", "arrow"])
def test_weights_of_streams(form: str, tmp_path: Path) -> None:
    batches = pa.Table.from_pandas(TABLE).to_batches(max_chunksize=7)
    TABLE.to_parquet(tmp_path / "t.parquet", row_group_size=40)
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    rows = {"pandas": TABLE, "batches": batches, "arrow": pa.Table.from_pandas(TABLE)}
    source = rows.get(form, str(tmp_path / f"t.{form}"))
    found = Moments.from_rows(source, "y", "site", weights="w")
    again = Moments.from_rows(TABLE.drop(columns="w").iloc[AGAIN], "y", "site")
    np.testing.assert_allclose(found.scatter, again.scatter, rtol=1e-10, atol=1e-10)
    one = BIP(**QUICK).fit(found)
    two = BIP(**QUICK).fit(again)
    assert_same(_without_notes(one.decision_.to_plain()), _without_notes(two.decision_.to_plain()))
    np.testing.assert_allclose(one.predict_interval(X), two.predict_interval(X), rtol=1e-10)
    assert found.weights == Moments.from_arrow(found.to_arrow()).weights
    assert found.weights == data_weights.Weights("w", N, (WEIGHTS == 0).sum(), WEIGHTS.sum())
    assert found.losses == (str(found.weights),)
    halves = [
        Moments.from_rows(part, "y", "site", weights="w", partial=True)
        for part in (TABLE[:80], TABLE[80:])
    ]
    both = halves[0].merge(halves[1])
    assert both.weights == found.weights
    assert both.counts.tolist() == found.counts.tolist()
    with pytest.raises(DataError, match="different weights"):
        halves[0].merge(Moments.from_rows(TABLE[80:].drop(columns="w"), "y", "site", partial=True))


def test_weights_of_sweeps(tmp_path: Path) -> None:
    perturbed = np.where(np.arange(N) % 30 == 0, "a", None)
    table = TABLE.assign(who=perturbed)
    again = TABLE.assign(who=perturbed).drop(columns="w").iloc[AGAIN]
    settings = {"environments": "site", "perturbed": "who", "progress": False}
    one = sweep(table, weights="w", **settings)
    two = sweep(again, **settings)
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds"), two.drop(columns="seconds"), rtol=1e-10
    )
    asked = "site", Columns(weights="w"), Environments(), "error", 1, False
    moments = moments_of_columns(source_of(TABLE), *asked)
    assert set(moments.columns) == {"a", "b", "c", "y"}
    assert moments.n_rows == WEIGHTS.sum()


def test_weights_on_the_command_line(tmp_path: Path) -> None:
    paths = [tmp_path / "t.csv", tmp_path / "again.csv"]
    TABLE.to_csv(paths[0], index=False)
    TABLE.drop(columns="w").iloc[AGAIN].to_csv(paths[1], index=False)
    for stream in ("--no-stream", "--stream"):
        plain = []
        for path, weight in zip(paths, (("--weight", "w"), ()), strict=True):
            options = (
                "--outcome",
                "y",
                "--environment",
                "site",
                stream,
                *weight,
                "--json",
                str(tmp_path / "x.json"),
            )
            assert run("fit", str(path), *options).exit_code == 0
            plain.append(_without_notes(json.loads((tmp_path / "x.json").read_text())))
        assert_same(*plain)


def test_what_cannot_be_a_weight() -> None:
    wrong: dict[str, Any] = {
        "no whole numbers": WEIGHTS + 0.5,
        "for example -1": WEIGHTS - 1,
        "missing in 2 rows": np.where(np.arange(N) < 2, np.nan, WEIGHTS),
        "zero in all": np.zeros(N),
        "not numeric": np.resize(["a", "b"], N),
        "X has 150 rows": WEIGHTS[:9],
        "names a column of X": "v",
        r"shape \(150, 2\)": np.ones((N, 2)),
    }
    for named, weights in wrong.items():
        with pytest.raises(DataError, match=named):
            BIP().fit(X, NUMBER, SITE, sample_weight=weights)
    for weights in (WEIGHTS + 0.5, WEIGHTS - 1.0, np.full(N, np.nan)):
        with pytest.raises(DataError, match="weights 'w'"):
            Moments.from_rows(TABLE.assign(w=weights), "y", "site", weights="w")
    with pytest.raises(DataError, match="twice"):
        BIP(columns=Columns(weights="w")).fit(TABLE, NUMBER, SITE, sample_weight=WEIGHTS)
    data = MultiEnvironmentData.from_table(TABLE, "y", "site", weights="w")
    with pytest.raises(SettingError, match="sample_weight= is part"):
        BIP().fit(data, sample_weight=np.ones(data.n_rows))
    with pytest.raises(SettingError, match="weights="):
        BIP(columns=Columns(weights="w")).fit(data)
    with pytest.raises(TypeError, match="weights='w'"):
        ICP().fit(X, NUMBER, SITE, sample_weight=WEIGHTS)
    with pytest.raises(DataError, match="is both"):
        MultiEnvironmentData.from_table(TABLE, "y", "site", weights="site")
    with pytest.raises(DataError, match="duplicate column names"):
        BIP().fit(X.set_axis(["a"] * X.shape[1], axis=1), NUMBER, SITE, sample_weight=WEIGHTS)


def test_weights_that_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_weights, "free_bytes", lambda: 10_000)
    with pytest.raises(DataError, match="weights 'sample_weight' count as"):
        BIP().fit(X, NUMBER, SITE, sample_weight=WEIGHTS)


def test_weights_travel_with_metadata_routing() -> None:
    with config_context(enable_metadata_routing=True):
        model = BIPClassifier(**QUICK).set_fit_request(environments="groups", sample_weight=True)
        model.set_score_request(sample_weight=True)
        passed = {"groups": SITE, "sample_weight": WEIGHTS}
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        found = cross_validate(
            piped, X, CLASS, cv=LeaveOneGroupOut(), params=passed, error_score="raise"
        )
        search = GridSearchCV(
            piped, {"bipclassifier__predict_with": ["selected"]}, cv=LeaveOneGroupOut()
        )
        search.fit(X, CLASS, **passed)
    left = SITE != "p"
    scaler = StandardScaler().fit(X[left])
    fitted = BIPClassifier(**QUICK).fit(
        scaler.transform(X[left]), CLASS[left], SITE[left], sample_weight=WEIGHTS[left]
    )
    wanted = fitted.score(scaler.transform(X[~left]), CLASS[~left], sample_weight=WEIGHTS[~left])
    assert found["test_score"][0] == pytest.approx(wanted)
    assert search.best_estimator_[-1]._data.weights.total == WEIGHTS.sum()
    table = X.assign(site=SITE, w=WEIGHTS)
    by_column = BIPClassifier(columns=Columns(environment="site", weights="w"), **QUICK)
    mixed = KFold(3, shuffle=True, random_state=0)
    assert cross_validate(by_column, table, CLASS, cv=mixed, error_score="raise")[
        "test_score"
    ].shape == (3,)


def test_a_saved_model_needs_no_weights(tmp_path: Path) -> None:
    table = X.assign(site=SITE, w=WEIGHTS)
    model = BIP(columns=Columns(environment="site", weights="w"), **QUICK).fit(table, NUMBER)
    model.save(tmp_path / "m.json")
    for new in (table, X):
        np.testing.assert_allclose(
            invariance.load(tmp_path / "m.json").predict(new), model.predict(X), rtol=1e-12
        )
        np.testing.assert_array_equal(model.predict(new), model.predict(X))
    weighted = ICP(columns=Columns(weights="w")).fit(X.assign(w=WEIGHTS), NUMBER, SITE)
    repeated = ICP().fit(X.iloc[AGAIN], NUMBER[AGAIN], SITE[AGAIN])
    np.testing.assert_allclose(weighted.p_values_, repeated.p_values_, rtol=1e-10)


def test_class_weight_is_answered() -> None:
    with pytest.raises(WrongTypeError, match="TunedThresholdClassifierCV"):
        BIPClassifier(class_weight="balanced")
    with pytest.raises(TypeError, match="did you mean 'family'"):
        BIP(famly="logistic")
    table = X.assign(site=SITE)
    by_site = BIPClassifier(columns=Columns(environment="site"), **QUICK)
    tuned = TunedThresholdClassifierCV(by_site, cv=2).fit(table, CLASS)
    assert 0.0 < tuned.best_threshold_ < 1.0


def test_sparse_tables_are_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.where(X > 0.5, X, 0.0)
    frame = pd.DataFrame(values, columns=X.columns)
    by_site = {"environments": SITE}
    wanted = BIP(**QUICK).fit(values, NUMBER, **by_site).predict(values)
    for matrix in (scipy.sparse.csr_array(values), scipy.sparse.coo_matrix(values)):
        model = BIP(**QUICK).fit(matrix, NUMBER, **by_site, sample_weight=np.ones(N))
        np.testing.assert_allclose(model.predict(matrix), wanted, rtol=1e-12)
        assert model.transform(matrix).shape[0] == N
        assert model.score(matrix, NUMBER) > 0.0
    sparse = frame.astype(pd.SparseDtype(float, 0.0))
    for table in (sparse, frame.assign(a=sparse["a"])):
        model = BIP(**QUICK).fit(table, NUMBER, **by_site)
        np.testing.assert_allclose(model.predict(table), wanted, rtol=1e-12)
        data = MultiEnvironmentData.from_table(table.assign(y=NUMBER, site=SITE), "y", "site")
        np.testing.assert_array_equal(data.X, values)
        moments = Moments.from_rows(table.assign(y=NUMBER, site=SITE), "y", "site")
        np.testing.assert_allclose(
            moments.scatter, Moments.from_data(data).scatter, rtol=1e-10, atol=1e-10
        )
    monkeypatch.setattr(data_columns, "MOST_DENSE_BYTES", 1000)
    for table in (sparse, scipy.sparse.csr_array(values)):
        with pytest.raises(DataError, match="sparse"):
            BIP().fit(table, NUMBER, **by_site)


@pytest.mark.parametrize("kind", [BIP, BIPClassifier])
@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_scores_refuse_weights_of_no_mean(kind: Any, wrong: float) -> None:
    data = invariance.datasets.make_example()
    y = data.y if kind is BIP else data.y > 120
    model = kind().fit(data.X, y, environments=data.environment_index)
    weights = np.ones(len(data.y))
    assert model.score(data.X, y, sample_weight=weights) == model.score(data.X, y)
    weights[3] = wrong
    with pytest.raises(DataError, match="1 row"):
        model.score(data.X, y, sample_weight=weights)
