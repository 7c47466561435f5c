"""Predictions after settings changed, by unusual regressors, and where one environment alone has a level."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from invariance import BIP, Moments, MultiEnvironmentData, load
from invariance.estimators import bip
from invariance.estimators.saved import to_plain
from invariance.exceptions import NotInvariantWarning, PredictionWarning, SettingError
from invariance.prediction.new_environments import EnvironmentErrors, NewEnvironments
from invariance.prediction.predictor import PredictedOutcome, RefittedPredictor
from shifted_sites import DATA, NEW, fitted, several

OUTCOME = PredictedOutcome("y")


class InAColumn(LinearRegression):
    """Predicts (n, 1)."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(X)[:, None]


def test_a_regressor_that_predicts_a_column_has_the_same_noise() -> None:
    one, other = fitted(regressor=LinearRegression()), fitted(regressor=InAColumn())
    assert isinstance(other._predictor("selected"), RefittedPredictor)
    assert other._predictor("selected").noise == one._predictor("selected").noise
    np.testing.assert_array_equal(other.predict_interval(NEW), one.predict_interval(NEW))


def test_a_regressor_that_was_changed_after_the_fit_waits_for_the_next_one() -> None:
    untouched, changed = fitted(regressor=Ridge(1.0)), fitted(regressor=Ridge(1.0)).set_params(regressor__alpha=1e9)
    np.testing.assert_array_equal(changed.predict_interval(NEW), untouched.predict_interval(NEW))
    with pytest.raises(SettingError, match="average"):
        changed.set_params(regressor=None, predict_with="average").predict(NEW)
    untouched, changed = fitted(), fitted().set_params(regressor=DecisionTreeRegressor(max_depth=1))
    np.testing.assert_array_equal(changed.predict_interval(NEW), untouched.predict_interval(NEW))
    plain = to_plain(changed)
    assert plain["settings"]["regressor"] == "None"
    assert set(plain["predictors"]) == set(plain["new_environments"]) == {"selected", "average"}


def test_saving_selects_once_without_each_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(search, data, outcome, builders, progress):
        calls.append(len(builders))
        return original(search, data, outcome, builders, progress)

    original = bip.cross_validate
    monkeypatch.setattr(bip, "cross_validate", counted)
    model, alone = fitted(), fitted()
    model.save(tmp_path / "model.json")
    assert calls == [2]
    for kind in ("selected", "average"):
        alone.set_params(predict_with=kind).predict_interval(NEW)
        pairs = zip(alone._elsewhere[kind].left_out, model._elsewhere[kind].left_out, strict=True)
        assert all(np.array_equal(a.absolute_errors, b.absolute_errors) and a.features == b.features for a, b in pairs)
    assert calls == [2, 1, 1]


def with_a_rare_level() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The level 'w' raises the outcome by 5, and environment 'd' alone has it."""
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abcd"), 80)
    X = rng.normal(size=(320, 2))
    colour = rng.choice(["u", "v"], 320)
    colour[(labels == "d") & (rng.random(320) < 0.3)] = "w"
    y = X.sum(axis=1) + 2.0 * (colour == "v") + 5.0 * (colour == "w") + 0.5 * rng.normal(size=320)
    return pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "colour": colour}), y, labels


@pytest.mark.parametrize("from_moments", [False, True])
def test_a_level_of_one_environment_alone_is_told_where_it_widens_intervals(from_moments: bool, tmp_path: Path) -> None:
    table, y, labels = with_a_rare_level()
    model = BIP(progress=False)
    if from_moments:
        data = MultiEnvironmentData.from_table(table.assign(y=y, site=labels), "y", "site")
        model.fit(Moments.from_data(data))
    else:
        model.fit(table, y, environments=labels)
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        with pytest.warns(PredictionWarning, match="'colour=w' without 'd'"):
            each.predict_interval(table[:1])
    common = table["colour"] != "w"
    usual = BIP(progress=False).fit(table[common], y[common], environments=labels[common])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual.predict_interval(table[:1])


def test_columns_that_do_not_predict_are_not_told() -> None:
    elsewhere = NewEnvironments(OUTCOME, tuple(EnvironmentErrors(label, (), 1.0, None, ("rare",)) for label in "abc"))
    assert elsewhere.limit(["other"]) == ""
    assert "'rare' without 'a'; 'rare' without 'b'" in elsewhere.limit(["rare", "other"])


def test_a_saved_model_says_that_it_is_not_invariant(tmp_path: Path) -> None:
    data = several()
    y = data.y + 5.0 * data.environment_index
    with pytest.warns(NotInvariantWarning):
        model = BIP(progress=False).fit(data.X, y, environments=data.environment_index)
    assert not model.invariant_
    model.save(tmp_path / "model.json")
    with pytest.warns(NotInvariantWarning, match="saved model.* y .*p-value"):
        load(tmp_path / "model.json")
    fitted(DATA).save(tmp_path / "invariant.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path / "invariant.json")
