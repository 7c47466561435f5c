"""Predictors: leverage, rows far from those that were fitted, averages, and regressors of the
user's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from invariance import BIP, Columns, Moments, MultiEnvironmentData, load, spline
from invariance.datasets import make_example
from invariance.decisions.pipeline import FitSettings
from invariance.estimators.saved import to_plain
from invariance.exceptions import PredictionWarning, SettingError
from invariance.prediction.new_environments import EnvironmentErrors, NewEnvironments
from invariance.prediction.predictor import Design, PredictedOutcome
from shifted_sites import DATA, NEW, fitted

COLUMNS = ("x0", "x2")


def hat_values(X: np.ndarray, new: np.ndarray) -> np.ndarray:
    design, rows = (np.column_stack([np.ones(len(part)), part]) for part in (X, new))
    return np.einsum("ni,ij,nj->n", rows, np.linalg.inv(design.T @ design), rows)


def test_leverages_and_the_farthest_row_that_was_fitted() -> None:
    """Of second moments an upper bound, which one column reaches."""
    X = DATA.X[:, [0, 2]]
    moments = Moments.from_data(DATA)
    exact = Design.of(DATA, COLUMNS)
    bound = Design.of(moments, COLUMNS)
    for design in (exact, bound):
        np.testing.assert_allclose(
            design.leverage(NEW[:, [0, 2]]), hat_values(X, NEW[:, [0, 2]]), rtol=1e-9
        )
        assert (design.n_rows, design.rank) == (240, 2)
        np.testing.assert_array_equal(design.minimum, X.min(axis=0))
    farthest = hat_values(X, X).max() - 1 / len(X)
    assert exact.farthest == pytest.approx(farthest, rel=1e-9)
    assert farthest * (1 - 1e-9) <= bound.farthest < 6 * farthest
    assert Design.of(moments, ("x0",)).farthest == pytest.approx(
        Design.of(DATA, ("x0",)).farthest, rel=1e-9
    )


def test_no_fitted_row_is_far_by_moments() -> None:
    """Columns that are nearly the same, with heavy tails: combinations are farther out than any
    single value."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=1200)
    X = np.column_stack([common + 0.1 * rng.standard_t(3, size=1200) for _ in range(3)])
    data = MultiEnvironmentData.from_arrays(X, common, np.repeat(list("abcd"), 300).tolist())
    design = Design.of(Moments.from_data(data), ("x0", "x1", "x2"))
    assert design.farthest <= 1 - 1 / 1200
    assert not design.far(X).any()
    assert design.far(X[:1] + np.array([[60.0, -60.0, 0.0]])).all()


def test_columns_that_depend_on_each_other() -> None:
    X = np.column_stack([DATA.X[:, 0], 1e6 * DATA.X[:, 0] - 3, DATA.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, DATA.y, DATA.environment_index)
    design = Design.of(data, ("x0", "x1", "x2"))
    assert design.rank == 2
    np.testing.assert_allclose(design.leverage(X), hat_values(X[:, ::2], X[:, ::2]), rtol=1e-6)


def test_far_is_beyond_twice_the_largest_leverage() -> None:
    design = Design.of(DATA, ("x0",))
    edge = design.centre[0] + np.sqrt(2 * design.farthest) / abs(design.whitening[0, 0])
    X = np.array(
        [[edge * 1.001 - 0.001 * design.centre[0]], [edge * 0.999 + 0.001 * design.centre[0]]]
    )
    assert (design.far(X) > 0).tolist() == [True, False]
    assert not Design.of(DATA, ()).far(np.empty((3, 0))).any()


def test_a_warning_names_the_worst_feature_and_its_range() -> None:
    model = fitted(predict_with="selected")
    X = NEW.copy()
    X[2, 0] = 60.0
    X[4, 1] = -300.0
    low = DATA.X[:, 1].min()
    high = DATA.X[:, 1].max()
    with pytest.warns(
        PredictionWarning, match=rf"2 of 7 rows .*x1 = -300.* {low:.4g} to {high:.4g}"
    ):
        model.predict_interval(X)
    assert model.extrapolates(X).tolist() == [False, False, True, False, True, False, False]
    X[:, 3] = 1e6  # is not selected
    assert model.extrapolates(X).sum() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", PredictionWarning)
        model.predict(NEW)


def test_what_is_said_of_a_row_that_is_far() -> None:
    """A combination that no row has; of splines the column that they are made of."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    X = np.column_stack([x, x + 0.01 * rng.normal(size=120)])
    data = MultiEnvironmentData.from_arrays(
        X, X[:, 0] + rng.normal(size=120), np.repeat([0, 1, 2], 40)
    )
    said = Design.of(data, ("x0", "x1")).outside(np.array([[1.0, -1.0], [1.0, 1.0]]))
    assert said.startswith("1 of 2 rows")
    assert "x0, x1" in said
    example = make_example()
    table = pd.DataFrame(example.X, columns=list(example.feature_names))
    columns = Columns(groups=[spline("age", knots=4)])
    model = BIP(columns=columns).fit(table, example.y, environments=example.environment_index)
    with pytest.warns(PredictionWarning, match="age = 900,"):
        model.predict(table[:3].assign(age=[900.0, 50.0, 50.0]))


class InAColumn(LinearRegression):
    """Predicts (n, 1)."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(X)[:, None]


def test_a_regressor_that_predicts_a_column_has_the_same_noise() -> None:
    one = fitted(regressor=LinearRegression())
    other = fitted(regressor=InAColumn())
    assert other._predictor("selected").noise == one._predictor("selected").noise
    np.testing.assert_array_equal(other.predict_interval(NEW), one.predict_interval(NEW))


def test_a_regressor_that_was_changed_after_the_fit_waits_for_the_next_one() -> None:
    untouched = fitted(regressor=Ridge(1.0))
    changed = fitted(regressor=Ridge(1.0)).set_params(regressor__alpha=1e9)
    np.testing.assert_array_equal(changed.predict_interval(NEW), untouched.predict_interval(NEW))
    with pytest.raises(SettingError, match="average"):
        changed.set_params(regressor=None, predict_with="average").predict(NEW)


def test_saving_selects_once_without_each_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    selections: list[int] = []
    original = FitSettings.findings
    monkeypatch.setattr(
        FitSettings, "findings", lambda *given: selections.append(1) or original(*given)
    )
    alone = fitted()
    model = fitted().set_params(regressor=DecisionTreeRegressor(max_depth=1))
    selections.clear()
    for kind in (
        "selected",
        "average",
        "everything",
    ):  # the selection is repeated for the first, and serves the others
        alone.set_params(predict_with=kind).new_environments()
    assert len(selections) == DATA.n_environments
    plain = to_plain(model)  # of the regressor as it was at the fit
    assert plain["settings"]["regressor"] == "None"
    assert (
        set(plain["predictors"])
        == set(plain["new_environments"])
        == {"selected", "everything", "average"}
    )
    assert len(selections) == 2 * DATA.n_environments
    for kind in ("selected", "everything", "average"):
        elsewhere = alone.set_params(predict_with=kind).new_environments()
        together = model.set_params(predict_with=kind, regressor=None).new_environments()
        for a, b in zip(elsewhere.left_out, together.left_out, strict=True):
            np.testing.assert_array_equal(a.absolute_errors, b.absolute_errors)
            assert a.features == b.features
    assert len(selections) == 2 * DATA.n_environments


class Counted(Ridge):
    """Knows what it was fitted to, of all its copies."""

    seen: ClassVar[list[bytes]] = []

    def fit(self, X, y):
        self.seen.append(X.tobytes() + y.tobytes())
        return super().fit(X, y)


def test_a_regressor_is_fitted_once_to_the_same_rows_and_columns() -> None:
    """By the choice of what predicts, the interval, the price and the saved model."""
    Counted.seen.clear()
    model = fitted(regressor=Counted())
    model.predict_interval(NEW)
    assert model.cost_of_invariance() is not None
    to_plain(model)
    assert len(Counted.seen) > 2 * DATA.n_environments
    assert len(set(Counted.seen)) == len(Counted.seen)


def with_a_rare_level() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The level 'w' raises the outcome by 5, and environment 'd' alone has it."""
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abcd"), 80)
    X = rng.normal(size=(320, 2))
    colour = rng.choice(["u", "v"], 320)
    colour[(labels == "d") & (rng.random(320) < 0.3)] = "w"
    y = X.sum(axis=1) + 2.0 * (colour == "v") + 5.0 * (colour == "w") + 0.5 * rng.normal(size=320)
    return pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "colour": colour}), y, labels


def test_a_level_of_one_environment_alone_is_told_where_it_widens_intervals(tmp_path: Path) -> None:
    table, y, labels = with_a_rare_level()
    data = MultiEnvironmentData.from_table(table.assign(y=y, site=labels), "y", "site")
    for model in (BIP().fit(Moments.from_data(data)), BIP().fit(table, y, environments=labels)):
        model.save(tmp_path / "model.json")
        for each in (model, load(tmp_path / "model.json")):
            with pytest.warns(PredictionWarning, match="'colour=w' without 'd'"):
                each.predict_interval(table[:1])
    common = table["colour"] != "w"
    usual = BIP().fit(table[common], y[common], environments=labels[common])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual.predict_interval(
            table[:1], coverage=0.7
        )  # of four environments 90% would be warned of
    left_out = tuple(EnvironmentErrors(label, (), None, ("rare",)) for label in "abc")
    elsewhere = NewEnvironments(PredictedOutcome("y"), left_out)
    assert elsewhere.limit(["other"]) == ""
    assert "'rare' without 'a'; 'rare' without 'b'" in elsewhere.limit(["rare", "other"])
