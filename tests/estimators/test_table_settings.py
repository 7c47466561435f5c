"""Settings of tables: what they do, and where they are refused rather than ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from invariance import BIP, Columns, Moments, MultiEnvironmentData, compare, spline
from invariance.baselines import ICP, Screened
from invariance.exceptions import SettingError

RNG = np.random.default_rng(0)
SITE = np.repeat(["a", "b", "c"], 60)
X = pd.DataFrame({"x": RNG.normal(size=180) + np.repeat([0.0, 1.0, 2.0], 60), "code": np.resize([0, 1, 2, 1], 180)})
Y = (X["x"] + X["code"] + RNG.normal(size=180)).to_numpy()
DATA = MultiEnvironmentData.from_arrays(X, Y, SITE)
SETTINGS = [{"categorical": ["code"]}, {"numeric": ["code"]}, {"groups": [spline("x")]}, {"exclude": ["code"]}]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings)))
def test_data_that_are_read_already(settings: dict[str, Any]) -> None:
    name, columns = next(iter(settings)), Columns(**settings)
    for model in (BIP(columns=columns), Screened(ICP(), columns=columns), Screened(BIP(columns=columns))):
        with pytest.raises(SettingError, match=rf"columns=Columns\({name}="):
            model.fit(DATA)
    with pytest.raises(SettingError, match=name):
        BIP(columns=columns).fit(Moments.from_data(DATA))
    failed = compare(DATA, "BIP", bip=BIP(columns=columns)).methods[0]
    assert failed.outcome == "failed"
    assert name in failed.notes[0]


@pytest.mark.parametrize("settings", [*SETTINGS, {"environment": "site"}, {"handle_unknown": "ignore"}])
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
        assert model.get_feature_names_out(names).tolist() == wanted.get_feature_names_out().tolist()
