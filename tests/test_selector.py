"""What a fitted selector accepts, and what it says of an empty selection."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from invariance import BIP, ICP, DataWarning, MultiEnvironmentData, Screened, UniformPrior
from invariance.datasets import make_example
from invariance.selector import EmptySelectionWarning

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
    model.fit_data(data)
    features = [name for name in table.columns if name not in ("blood_pressure", "hospital")]
    assert model.feature_names_in_.tolist() == features
    assert model.n_features_in_ == len(features) == len(model.support_)
    plain = type(model)(**model.get_params(deep=False)).fit_data(EXAMPLE)
    wanted = plain.predict(EXAMPLE.to_frame()[list(EXAMPLE.feature_names)])
    shuffled = table[table.columns[::-1]]
    for X in (table, table[features], shuffled, pl.from_pandas(table), table[features].to_numpy(), data.X):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            np.testing.assert_allclose(model.predict(X), wanted, rtol=1e-12)
            chosen = np.asarray(model.transform(X))
        np.testing.assert_array_equal(chosen, EXAMPLE.X[:, plain.support_])
    assert model.get_feature_names_out().tolist() == plain.get_feature_names_out().tolist()


def test_a_table_without_the_features_is_refused() -> None:
    model = BIP().fit_data(EXAMPLE)
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing:\n- age"):
        model.predict(EXAMPLE.to_frame()[list(EXAMPLE.feature_names)].drop(columns="age"))


def test_after_fit_unknown_columns_are_refused() -> None:
    X = EXAMPLE.to_frame()[list(EXAMPLE.feature_names)]
    model = BIP().fit(X, EXAMPLE.y, environments=EXAMPLE.environment_index)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- more"):
        model.predict(X.assign(more=1.0))


def empty() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(60, 3)), rng.normal(size=60), np.repeat([0, 1], 30)


def test_an_empty_selection_names_the_way_out() -> None:
    X, y, environments = empty()
    broken = make_pipeline(BIP(), LinearRegression())
    with (
        pytest.warns(EmptySelectionWarning, match="the next step of a pipeline refuses") as caught,
        pytest.raises(ValueError, match="0 feature"),
    ):
        broken.fit(X, y, bip__environments=environments)
    assert [warning.category for warning in caught] == [EmptySelectionWarning]
    inclusion = broken[0].inclusion_probabilities_
    threshold = float(str(caught[0].message).split("threshold=")[1].split(")")[0])
    assert 0.9 * inclusion.max() < threshold <= inclusion.max()
    mended = make_pipeline(BIP(select="threshold", threshold=threshold), LinearRegression())
    mended.fit(X, y, bip__environments=environments)
    last = BIP().fit(X, y, environments=environments)
    np.testing.assert_allclose(last.predict(X), y.mean())


def test_other_empty_selections_do_not_promise_a_threshold() -> None:
    X, y, environments = empty()
    for model in (ICP(), BIP(prior=UniformPrior(max_size=0)), BIP(select="threshold", threshold=1.0)):
        model.fit(X, y, environments=environments)
        with pytest.warns(EmptySelectionWarning) as caught:
            assert model.transform(X).shape == (60, 0)
        assert "threshold=" not in str(caught[0].message)


def test_a_selection_is_made_without_a_word() -> None:
    model = BIP().fit_data(EXAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.transform(EXAMPLE.to_frame()).shape == (600, 3)
