"""What is said about tables is never ignored in silence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from invariance.data.chunks import read_chunks
from sklearn.base import clone

from invariance import BIP, Moments, MultiEnvironmentData, compare, spline
from invariance.baselines import ICP, Screened
from invariance.estimators.selector import stated, typed
from invariance.exceptions import DataError, SettingError

RNG = np.random.default_rng(0)
SITE = np.repeat(["a", "b", "c"], 60)
X = pd.DataFrame({"x": RNG.normal(size=180) + np.repeat([0.0, 1.0, 2.0], 60), "code": np.resize([0, 1, 2, 1], 180)})
Y = (X["x"] + X["code"] + RNG.normal(size=180)).to_numpy()
DATA = MultiEnvironmentData.from_arrays(X, Y, SITE)
SETTINGS = [{"categorical": ["code"]}, {"numeric": ["code"]}, {"groups": [spline("x")]}]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings)))
def test_data_that_are_read_already(settings: dict[str, Any], tmp_path: Path) -> None:
    (name, value), reset = next(iter(settings.items())), {"categorical": "auto", "numeric": (), "groups": None}
    said = f"{name}={value!r} says how a table is read, and fit_data takes data that are read already: say it to "
    advice = (
        f"MultiEnvironmentData.from_table(..., {name}={value!r}), and not here, set_params({name}={reset[name]!r})."
    )
    for model in (BIP(**settings), Screened(ICP(), **settings), Screened(BIP(**settings))):
        with pytest.raises(SettingError, match=re.escape(said + advice)):
            model.fit_data(DATA)
    X.assign(y=Y, site=SITE).to_csv(tmp_path / "table.csv", index=False)
    moments = Moments.from_chunks(read_chunks(tmp_path / "table.csv", "y", "site"))
    with pytest.raises(SettingError, match=r"fit_moments takes .*: say it to read_chunks\(\.\.\., "):
        BIP(**settings).fit_moments(moments)
    failed = compare(DATA, "BIP", bip=BIP(**settings)).methods[0]
    assert failed.outcome == "failed"
    assert failed.notes == (said + advice,)


@pytest.mark.parametrize("nothing", [{"categorical": []}, {"numeric": np.array([])}, {"groups": {}}, {"numeric": ()}])
def test_settings_that_say_nothing(nothing: dict[str, Any]) -> None:
    assert BIP(**nothing).fit_data(DATA).columns_ == ("x", "code")


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings)))
def test_rows_with_gaps_are_left_out_of_the_same_model(settings: dict[str, Any]) -> None:
    gaps = X.assign(x=X["x"].mask(X.index == 3))
    with pytest.raises(DataError) as caught:
        BIP(**settings).fit(gaps, Y, environments=SITE)
    advice = re.search(r"set_params\(.*(?= leaves those rows out)", str(caught.value))
    assert advice
    names = {"model": BIP(**settings), "X": gaps, "y": Y, "environments": SITE}
    with pytest.warns(match="dropped 1 of 180 rows"):
        followed = eval(f"model.{advice[0]}", globals(), names)
    rest = BIP(**settings).fit(X.drop(3), np.delete(Y, 3), environments=np.delete(SITE, 3))
    assert followed.columns_ == rest.columns_
    np.testing.assert_array_equal(followed.coef_, rest.coef_)


@pytest.mark.parametrize("settings", [*SETTINGS, {"environment": "site"}, {"handle_unknown": "ignore"}])
def test_a_screen_reads_the_table_itself(settings: dict[str, Any]) -> None:
    table = X.assign(site=SITE)
    labels = {} if "environment" in settings else {"environment": "site"}
    inside = Screened(BIP(**settings), **labels)
    with pytest.raises(SettingError, match=r"inside Screened never sees the table: say it to Screened") as caught:
        inside.fit(table, Y)
    advice = re.search(r"set_params\(.*(?=\.$)", str(caught.value))
    assert advice
    followed = eval(f"model.{advice[0]}", globals(), {"model": inside}).fit(table, Y)
    wanted = BIP(**labels | settings).fit(table, Y)
    assert followed.columns_ == wanted.columns_
    assert followed.handle_unknown == wanted.handle_unknown
    assert followed.environments_ == ("a", "b", "c")
    said = Screened(BIP(), **labels | settings)
    assert clone(said).fit(table, Y).columns_ == wanted.columns_
    assert said.handle_unknown == wanted.handle_unknown


def test_settings_as_they_are_typed() -> None:
    model = BIP(categorical=pd.Index(["code"]), groups={"g": np.array(["x"]), "s": spline("z", knots=3)})
    assert typed(stated(model)) == "categorical=['code'], groups={'g': ['x'], 's': spline('z', knots=3)}"
