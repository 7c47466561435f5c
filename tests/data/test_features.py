"""Features of several columns, from the table to the prediction."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP, Columns, LinearGaussian, Moments, MultiEnvironmentData
from invariance.data.features import Features
from invariance.decisions import Threshold
from invariance.exceptions import DataError, DataWarning, SettingError
from patients import LEVELS, patients
from twins import half_n_log_variance

TABLE = patients(60)
X = TABLE.drop(columns=["pressure", "hospital"])
Y = TABLE["pressure"].to_numpy()
SITE = TABLE["hospital"].to_numpy()
ASKED = {"outcome": "pressure", "environment": "hospital"}
FRAMES = pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"]
)
FROM_TABLE = MultiEnvironmentData.from_table
NAMES = ("sex", "age", "smoking", "region", "drugs")


def dummies(table: pd.DataFrame, name: str) -> np.ndarray:
    """The columns of a feature, made by hand."""
    if name not in LEVELS:
        return table[[name]].to_numpy(float)
    return np.column_stack([table[name] == level for level in sorted(LEVELS[name])[1:]]).astype(
        float
    )


def brute_force(table: pd.DataFrame, subset: tuple[str, ...]) -> float:
    """log Λ by least squares in every environment and in the pool."""
    design = (
        np.column_stack([dummies(table, name) for name in subset])
        if subset
        else np.empty((len(table), 0))
    )
    y = table["pressure"].to_numpy()
    site = table["hospital"].to_numpy()
    local = sum(
        half_n_log_variance(design[site == label], y[site == label]) for label in pd.unique(site)
    )
    return local - half_n_log_variance(design, y)


SUBSETS = [
    (),
    ("sex",),
    ("smoking",),
    ("age", "smoking"),
    ("region", "sex"),
    ("age", "smoking", "region"),
    NAMES,
]


@pytest.fixture(scope="module")
def fitted() -> BIP:
    return BIP().fit(X, Y, environments=SITE)


@FRAMES
def test_a_table_of_patients_fits_in_one_call(
    convert: Callable[[pd.DataFrame], Any], fitted: BIP
) -> None:
    model = BIP(columns=Columns(environment="hospital")).fit(
        convert(TABLE.drop(columns="pressure")), Y
    )
    assert model.selected_features_ == ("age", "smoking")
    assert model.support_.tolist() == [False, True, True, False, False]
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.n_features_in_ == 5
    assert model.posterior_.feature_names == NAMES
    assert model.inclusion_probabilities_.shape == (5,)
    assert model.columns_[:4] == ("sex=m", "age", "smoking=former", "smoking=never")
    assert model.coef_.shape == (len(model.columns_),) == (9,)
    assert np.flatnonzero(model.coef_).tolist() == [1, 2, 3]
    np.testing.assert_array_equal(model.coef_, fitted.coef_)
    note = "sex: 2 levels, compared with 'f'; smoking: 3 levels, compared with 'current'; "
    assert sum(note in text for text in model.posterior_.notes) == 1
    design = np.column_stack([np.ones(len(X)), dummies(X, "age"), dummies(X, "smoking")])
    expected = np.linalg.lstsq(design, Y, rcond=None)[0]
    np.testing.assert_allclose([model.intercept_, *model.coef_[1:4]], expected, rtol=1e-9)
    for table in (convert(X), convert(TABLE.drop(columns="pressure"))):
        np.testing.assert_allclose(model.predict(table), design @ expected, rtol=1e-9)
        assert (
            np.asarray(model.transform(table)).tolist() == X[["age", "smoking"]].to_numpy().tolist()
        )
    assert model.get_feature_names_out().tolist() == ["age", "smoking"]


@pytest.mark.parametrize("absent", ["west", "centre"], ids=["level", "reference"])
def test_a_level_absent_from_an_environment(absent: str) -> None:
    table = TABLE.copy()
    table.loc[table["hospital"] == "bb", "smoking"] = "never"
    table.loc[(table["hospital"] == "cc") & (table["region"] == absent), "region"] = "east"
    data = MultiEnvironmentData.from_table(table, **ASKED)
    expected = [brute_force(table, subset) for subset in SUBSETS]
    for source in (data, Moments.from_data(data)):
        model = LinearGaussian().bind(source)
        values = model.log_ratio_many([[name in subset for name in NAMES] for subset in SUBSETS])
        np.testing.assert_allclose(values, expected, rtol=1e-9)


# ---------------------------------------------------------------- prediction


def fitted_data(**how: Any) -> BIP:
    return BIP(select=Threshold(0.0)).fit(MultiEnvironmentData.from_table(TABLE, **ASKED, **how))


def test_levels_that_are_new(fitted: BIP) -> None:
    new = X.head(6).assign(smoking=["pipe", "never", "pipe", "current", "snuff", "former"])
    phrase = (
        "(2 rows), 'snuff' (1 row). Leave those rows out, or take the reference level: use "
        "handle_unknown='ignore'"
    )
    with pytest.raises(DataError, match=re.escape(phrase)):
        fitted.predict(new)
    model = pickle.loads(pickle.dumps(fitted))
    model.set_params(columns=Columns(handle_unknown="ignore"))
    with pytest.warns(
        DataWarning,
        match=r"count as the reference level, 'current' of 'smoking': .* 'pipe' \(2 rows\)",
    ):
        predicted = model.predict(new)
    as_reference = new.replace({"smoking": {"pipe": "current", "snuff": "current"}})
    np.testing.assert_array_equal(predicted, fitted.predict(as_reference))
    with pytest.raises(SettingError, match="handle_unknown='drop'"):
        BIP(columns=Columns(handle_unknown="drop")).fit(X, Y, environments=SITE)


@FRAMES
def test_some_rows_with_some_levels(convert: Callable[[pd.DataFrame], Any], fitted: BIP) -> None:
    whole = fitted.predict(X)
    for rows in ([3], [5, 2, 9]):
        part = convert(X.iloc[rows].reset_index(drop=True))
        np.testing.assert_allclose(fitted.predict(part), whole[rows], rtol=1e-12)
    ordered = X.astype({"smoking": pd.CategoricalDtype(["never", "other", "former", "current"])})
    np.testing.assert_array_equal(fitted.predict(convert(ordered)), whole)


def test_columns_are_found_by_name() -> None:
    model = fitted_data()
    expected = model.predict(TABLE)
    np.testing.assert_array_equal(
        model.predict(TABLE[TABLE.columns[::-1]].assign(more="x")), expected
    )
    np.testing.assert_array_equal(model.predict(pl.from_pandas(TABLE)), expected)
    with pytest.raises(ValueError, match="lacks 'region'"):
        model.predict(TABLE.drop(columns="region"))
    for array in (X.to_numpy(), np.zeros((3, 5)), np.zeros((3, 9))):
        with pytest.raises(
            DataError, match="X has no column names, by which features are found: pass a data frame"
        ):
            model.predict(array)


def test_constant_columns_are_not_looked_at() -> None:
    groups = {"body": ["age", "k"]}
    table = TABLE.assign(country="x", k=1.0)
    with pytest.warns(DataWarning):
        data = MultiEnvironmentData.from_table(table, **ASKED, groups=groups)
    model = BIP().fit(data)
    assert model.feature_names_in_.tolist() == [*NAMES, "country", "k"]
    assert model.support_.tolist() == [False, True, True, False, False, False, True]
    assert model.coef_[model.columns_.index("k")] == 0.0
    assert model.inclusion_probabilities_[5] == 0.0
    assert (
        "dropped columns that are constant over all rows from their features: 'k'."
        in model.posterior_.notes
    )
    expected = model.predict(table)
    np.testing.assert_allclose(expected, BIP().fit(X, Y, environments=SITE).predict(X), rtol=1e-9)
    for other in (TABLE, table.assign(country="y", k="text"), table.assign(country=None)):
        np.testing.assert_array_equal(model.predict(other), expected)


# ---------------------------------------------------------------- groups by hand


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    env = np.repeat([0, 1, 2], 50)
    values = rng.normal(size=(150, 4)) * (1 + env[:, None]) + env[:, None]
    values[:, 2] *= 3
    return values, values[:, 1] - values[:, 3] + rng.normal(size=150), env


@pytest.mark.parametrize("named", [False, True])
def test_columns_of_a_group_share_what_is_said_of_it(named: bool) -> None:
    values, y, env = numbers()
    names = list("abcd") if named else [f"x{j}" for j in range(4)]
    table: Any = pd.DataFrame(values, columns=names) if named else values
    columns = Columns(groups={"pair": [names[3], names[1]]})
    model = BIP(columns=columns, predict_with="selected").fit(table, y, environments=env)
    assert model.posterior_.feature_names == (names[0], "pair", names[2])
    assert model.columns_ == (names[0], names[3], names[1], names[2])
    assert model.selected_features_ == ("pair",)
    assert model.support_.tolist() == [False, True, False, True]
    inclusion = model.inclusion_probabilities_
    assert inclusion[1] == inclusion[3] == model.decision_.posterior.inclusion[1]
    design = np.column_stack([np.ones(150), values[:, [1, 3]]])
    np.testing.assert_allclose(
        model.predict(table), design @ np.linalg.lstsq(design, y, rcond=None)[0], rtol=1e-9
    )
    np.testing.assert_array_equal(np.asarray(model.transform(table)), values[:, [1, 3]])


def test_features_without_a_table_predict_from_their_columns() -> None:
    values, y, env = numbers()
    grouping = Features.of(list("abcd"), {"g": ("b", "c")})
    data = MultiEnvironmentData(values, y, env, grouping.names, (0, 1, 2), grouping=grouping)
    model = BIP(select=Threshold(0.0), predict_with="selected").fit(data)
    assert model.support_.shape == (3,)
    assert model.columns_ == tuple("abcd")
    expected = values @ model.coef_ + model.intercept_
    frame = pd.DataFrame(values[:, ::-1], columns=list("dcba")).assign(more=1)
    np.testing.assert_array_equal(model.predict(frame), expected)
    for other in (frame.drop(columns="c"), values):
        with pytest.raises(DataError):
            model.predict(other)


def test_fit_from_moments() -> None:
    table = TABLE[["drugs", "age", "pressure", "hospital"]]
    model, rows = (
        BIP(select=Threshold(0.0)).fit(read(table, **ASKED))
        for read in (Moments.from_rows, FROM_TABLE)
    )
    assert model.feature_names_in_.tolist() == ["drugs", "age"]
    np.testing.assert_allclose(model.predict(TABLE), rows.predict(TABLE), rtol=1e-9)
