"""What a selector reads, remembers and transforms: tables of any kind, settings, names, and empty
selections."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import invariance
from invariance import (
    BIP,
    BIPClassifier,
    BIPSurvival,
    Columns,
    InclusionPrior,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    compare,
    spline,
)
from invariance.baselines import ICP, LassoSelection, PooledRegression, Screened
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.exceptions import DataError, DataWarning, PredictionWarning, SettingError

EXAMPLE = make_example()


def with_constants() -> pd.DataFrame:
    """The example's whole table with constant columns at the beginning, inside and at the end."""
    table = EXAMPLE.to_frame()
    table.insert(0, "k0", 1.0)
    table.insert(4, "k1", 2.0)
    return table.assign(k2=3.0)


def data_of(table: pd.DataFrame) -> MultiEnvironmentData:
    with pytest.warns(DataWarning, match="'k0', 'k1', 'k2'"):
        return MultiEnvironmentData.from_table(table, "blood_pressure", "hospital")


@pytest.mark.parametrize("model", [BIP(), ICP(), Screened(ICP())], ids=["BIP", "ICP", "Screened"])
def test_fit_data_remembers_the_table_as_given(model) -> None:
    table = with_constants()
    data = data_of(table)
    model.fit(data)
    features = [name for name in table.columns if name not in ("blood_pressure", "hospital")]
    assert model.feature_names_in_.tolist() == features
    assert model.n_features_in_ == len(features) == len(model.support_)
    plain = type(model)(**model.get_params(deep=False)).fit(EXAMPLE)
    wanted = plain.predict(EXAMPLE.to_frame()[list(EXAMPLE.feature_names)])
    shuffled = table[table.columns[::-1]]
    for X in (
        table,
        table[features],
        shuffled,
        pl.from_pandas(table),
        table[features].to_numpy(),
        data.X,
    ):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            np.testing.assert_allclose(model.predict(X), wanted, rtol=1e-12)
            chosen = np.asarray(model.transform(X))
        np.testing.assert_array_equal(chosen, EXAMPLE.X[:, plain.support_])
    assert model.get_feature_names_out().tolist() == plain.get_feature_names_out().tolist()


@pytest.fixture(scope="module")
def with_a_constant() -> tuple[pd.DataFrame, MultiEnvironmentData, BIP]:
    """A table of a, b, c and the constant k in the middle; its data set; what was fitted to it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table.insert(1, "k", 1.0)
    scale = np.repeat([1.0, 3.0], 30)
    with pytest.warns(DataWarning, match="'k'"):
        data = MultiEnvironmentData.from_arrays(
            table, table["b"] + scale * rng.normal(size=60), scale
        )
    return table, data, BIP(select=Threshold(0.0)).fit(data)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_constant_features_are_not_looked_at(with_a_constant) -> None:
    """After a fit to a data set, by name or by place."""
    table, data, model = with_a_constant
    frames = table[list(data.feature_names)], data.to_frame(), table.assign(k=np.nan)
    for X in (
        data.X.tolist(),
        table.to_numpy().tolist(),
        *frames,
        pl.from_pandas(table.assign(k="text")),
    ):
        np.testing.assert_allclose(
            model.predict(X), data.X @ model.coef_[[0, 2, 3]] + model.intercept_, rtol=1e-12
        )
        np.testing.assert_array_equal(np.asarray(model.transform(X), float), data.X)
    for X, named in (
        (data.to_frame().drop(columns="a"), "X lacks 'a'"),
        (data.X[:, :2], "X has 2 features, but BIP is expecting 4"),
        (table.assign(a=np.nan), r"missing values \(NaN\) in 'a' \(60 rows\)"),
    ):
        with pytest.raises(ValueError, match=named):
            model.predict(X)
    y = data.y
    labels = data.environment_index
    for given in (table, table.to_numpy()):
        with pytest.warns(DataWarning, match="constant"):
            of_table = BIP(select=Threshold(0.0)).fit(given, y, environments=labels)
        X = table.assign(k=np.nan) if given is table else table.assign(k=np.nan).to_numpy()
        np.testing.assert_array_equal(of_table.predict(X), of_table.predict(given))


def test_an_empty_selection_is_told() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = rng.normal(size=60)
    environments = np.repeat([0, 1], 30)
    selected = {"predict_with": "selected"}
    for model in (
        BIP(select="mode", **selected),
        ICP(),
        BIP(prior=UniformPrior(max_size=0), **selected),
    ):
        model.fit(X, y, environments=environments)
        np.testing.assert_allclose(model.predict(X), y.mean())
        with pytest.warns(PredictionWarning) as caught:
            assert model.transform(X).shape == (60, 0)
        assert len(caught) == 1


def of_many_types() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table with a category, a number and a boolean; the outcome, the labels."""
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c"], 60)
    region = rng.choice(["n", "s", "w"], 180)
    x = rng.normal(size=180) + np.repeat([0.0, 1.0, 2.0], 60)
    y = x + (region == "s") + rng.normal(size=180)
    return pd.DataFrame({"region": pd.Categorical(region), "x": x, "flag": x + y > 1}), y, site


def with_arrow_types(table: pd.DataFrame) -> pd.DataFrame:
    return table.convert_dtypes(dtype_backend="pyarrow")


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, with_arrow_types, pl.from_pandas, pa.Table.from_pandas]
)
def test_transform_takes_what_fit_takes(convert) -> None:
    table, y, site = of_many_types()
    X = convert(table)
    everything = BIP(select=Threshold(0.0)).fit(X, y, environments=site)
    wanted = table.astype(object).to_numpy()
    np.testing.assert_array_equal(everything.transform(X), wanted)
    for container, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        chosen = everything.set_output(transform=container).transform(X)
        assert isinstance(chosen, kind)
        assert list(chosen.columns) == ["region", "x", "flag"]
        assert chosen["x"].to_numpy().dtype == np.float64
        np.testing.assert_array_equal(
            chosen["region"].to_numpy().astype(str), table["region"].astype(str)
        )
    mode = BIP(prior=InclusionPrior({"x": 1.0, "region": 0.0, "flag": 0.0})).fit(
        X, y, environments=site
    )
    assert mode.transform(X).dtype == np.float64
    np.testing.assert_array_equal(mode.transform(X), table[["x"]])


def test_transform_looks_at_values_as_predict_does() -> None:
    table, y, site = of_many_types()
    model = BIP(select=Threshold(0.0)).fit(table, y, environments=site)
    holes = table.assign(**{name: table[name].mask(table.index < 2) for name in ("region", "x")})
    for use in (model.predict, model.transform):
        with pytest.raises(
            DataError,
            match=r"missing values \(NaN\) in 'region' \(2 rows\), 'x' \(2 rows\)\. Replace",
        ):
            use(holes)
    with pytest.raises(ValueError, match=r"Feature names must be in the same order"):
        model.transform(table[["x", "region", "flag"]])
    with pytest.warns(PredictionWarning):
        assert BIP(prior=UniformPrior(max_size=0)).fit(table, y, environments=site).transform(
            table
        ).shape == (180, 0)


WHERE = EXAMPLE.environment_index
HIGH = EXAMPLE.y > EXAMPLE.y.mean()
TIMES = np.exp(-EXAMPLE.y / EXAMPLE.y.std())


def test_a_series_names_the_outcome(tmp_path: Path) -> None:
    X = pd.DataFrame(EXAMPLE.X, columns=list(EXAMPLE.feature_names))
    model = BIP().fit(X, pl.Series("days", EXAMPLE.y), WHERE)
    np.testing.assert_array_equal(model.coef_, BIP().fit(EXAMPLE.X, EXAMPLE.y, WHERE).coef_)
    model.save(tmp_path / "model.json")
    assert invariance.load(tmp_path / "model.json").outcome_name_ == "days"
    times = pd.Series(TIMES, name="days")
    assert BIPClassifier().fit(X, pl.Series("days", HIGH), WHERE).posterior_.outcome_name == "days"
    assert BIPSurvival().fit(X, times, WHERE, event=TIMES < 2).posterior_.outcome_name == "days"
    names = {0: "0", None: "y", "age": "age_"}  # a feature of the same name keeps it
    for given, kept in names.items():
        assert BIP().fit(X, pd.Series(EXAMPLE.y, name=given), WHERE).posterior_.outcome_name == kept
    for method in (ICP(), LassoSelection(), PooledRegression()):
        assert method.fit(EXAMPLE.X, pd.Series(EXAMPLE.y, name="a"), WHERE)._outcome.name == "a"
    data = MultiEnvironmentData.from_arrays(
        EXAMPLE.X, pd.Series(EXAMPLE.y, name="a"), WHERE, outcome_name="b"
    )
    assert BIP().fit(data).posterior_.outcome_name == "b"


RNG = np.random.default_rng(0)
SITE = np.repeat(["a", "b", "c"], 60)
X = pd.DataFrame(
    {
        "x": RNG.normal(size=180) + np.repeat([0.0, 1.0, 2.0], 60),
        "code": np.resize([0, 1, 2, 1], 180),
    }
)
Y = (X["x"] + X["code"] + RNG.normal(size=180)).to_numpy()
DATA = MultiEnvironmentData.from_arrays(X, Y, SITE)
SETTINGS = [
    {"categorical": ["code"]},
    {"numeric": ["code"]},
    {"groups": [spline("x")]},
    {"exclude": ["code"]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings)))
def test_data_that_are_read_already(settings: dict[str, Any]) -> None:
    name = next(iter(settings))
    columns = Columns(**settings)
    for model, data in ((BIP(), DATA), (BIP(), Moments.from_data(DATA)), (Screened(ICP()), DATA)):
        with pytest.raises(SettingError, match=rf"columns=Columns\({name}="):
            model.set_params(columns=columns).fit(data)
    failed = compare(DATA, "BIP", bip=BIP(columns=columns)).loc["BIP"]
    assert failed.outcome == "failed"
    assert name in failed.notes[0]


@pytest.mark.parametrize(
    "settings", [*SETTINGS, {"environment": "site"}, {"handle_unknown": "ignore"}]
)
def test_a_screen_reads_the_table_itself(settings: dict[str, Any]) -> None:
    table = X.assign(site=SITE)
    columns = Columns(**{"environment": "site"} | settings)
    with pytest.raises(SettingError, match="inside Screened"):
        Screened(BIP(columns=Columns(**settings))).fit(table, Y, "site")
    found = clone(Screened(BIP(), columns=columns)).fit(table, Y)
    wanted = BIP(columns=columns).fit(table, Y)
    assert found.columns_ == wanted.columns_
    assert found.environments_ == ("a", "b", "c")


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_three_ways_to_name_environments_and_features(made: Any) -> None:
    table = made({"note": ["?"] * 180, **X.to_dict("list"), "site": SITE.tolist()})
    wanted = BIP().fit(X, Y, SITE)
    for columns, labels in (
        (Columns(environment="site", exclude=["note"]), None),
        (Columns(exclude=["note"]), "site"),
        (Columns(features=["x", "code"]), SITE),
    ):
        model = BIP(columns=columns).fit(table, Y, environments=labels)
        assert model.feature_names_in_.tolist() == ["x", "code"]
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        np.testing.assert_array_equal(model.predict(table), wanted.predict(X))
        names = list(table.columns)
        assert (
            model.get_feature_names_out(names).tolist() == wanted.get_feature_names_out().tolist()
        )


def test_values_that_cannot_predict_are_located() -> None:
    model = BIP().fit(EXAMPLE.X, EXAMPLE.y, EXAMPLE.environment_index)
    for wrong, what in ((np.nan, "missing"), (np.inf, "infinite")):
        X = EXAMPLE.X.copy()
        X[:2, 3] = wrong
        with pytest.raises(DataError, match=rf"{what} values .* in 'x3' \(2 rows\)"):
            model.predict(X)


def test_a_list_of_one_name_is_that_column() -> None:
    table = EXAMPLE.to_frame()
    features = table.drop(columns="blood_pressure")
    wanted = BIP().fit(features, EXAMPLE.y, "hospital")
    for fitted in (
        BIP().fit(features, EXAMPLE.y, ["hospital"]),
        BIP().fit(features, EXAMPLE.y, ["hospital"], sample_weight=np.ones(len(table))),
        BIP(columns=Columns(environment=["hospital"])).fit(features, EXAMPLE.y),
    ):
        assert fitted.environments_ == wanted.environments_
