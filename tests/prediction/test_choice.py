"""What predicts, by rows: the gate, what is said of it, known environments, what invariance costs,
saved models."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeRegressor

from conformance_cases import StatsmodelsLogistic
from decision_cases import decided
from invariance import (
    BIP,
    BIPClassifier,
    BIPSurvival,
    Logistic,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    along,
    load,
)
from invariance.exceptions import NotInvariantWarning, PredictionWarning, SettingError
from invariance.kinds import CLASS, NUMBER
from invariance.prediction import predictions
from invariance.prediction.model_choice import gate
from invariance.prediction.predictions import CostOfInvariance
from line_twins import line_by_rows, mixed_by_rows, shifted
from shifted_sites import as_table, fitted, own_baselines, several
from two_classes import LABELS, SITE, X, Y, classifier


def strong(n_environments: int = 6, n: int = 50, seed: int = 3) -> MultiEnvironmentData:
    """y = x0 − x1 + noise; x2 follows y, and in one environment −y, far away."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(n_environments), n)
    Z = rng.normal(size=(len(env), 3)) + rng.normal(size=(n_environments, 3))[env]
    y = Z[:, 0] - Z[:, 1] + rng.normal(size=len(env))
    Z[:, 2] = np.where(env == 0, 8.0 - y, y) + 0.5 * rng.normal(size=len(env))
    return MultiEnvironmentData.from_arrays(Z, y, env)


def left_out_by_rows(data: MultiEnvironmentData, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """RMSE in each environment left out of half least squares and half a random intercept on all
    columns, and of least squares on those of the mask."""
    found = []
    env = data.environment_index
    for e in range(data.n_environments):
        rest = env != e
        own = env == e
        design = np.column_stack([data.X[:, mask], np.ones(data.n_rows)])
        selected = np.linalg.lstsq(design[rest], data.y[rest], rcond=None)[0]
        line = line_by_rows(data.X[rest], data.y[rest], env[rest])
        missed = (
            data.y[own] - data.X[own] @ line[:-1] - line[-1],
            data.y[own] - design[own] @ selected,
        )
        found.append([np.sqrt(np.mean(each**2)) for each in missed])
    return np.array(found)[:, 0], np.array(found)[:, 1]


@pytest.mark.parametrize(
    ("n_environments", "threshold"), [(2, 3.4903), (3, 1.7429), (4, 1.3668), (5, 1.2214)]
)
def test_the_gate_by_rows(n_environments: int, threshold: float) -> None:
    data = several(n_environments, 40)
    model = fitted(data)
    choice = model.decision_.prediction
    everything, selected = left_out_by_rows(data, model.support_)
    np.testing.assert_allclose(choice.everything, everything, rtol=1e-5)
    np.testing.assert_allclose(choice.selected, selected, rtol=1e-8)
    assert choice.ratio == pytest.approx(everything.max() / selected.max(), rel=1e-5)
    assert choice.threshold == pytest.approx(threshold, rel=1e-4)
    assert choice.uses == ("selected" if choice.ratio > choice.threshold else "everything")
    of_moments = BIP().fit(Moments.from_data(data)).decision_.prediction
    np.testing.assert_allclose(of_moments.everything, choice.everything, rtol=1e-6)
    assert of_moments.uses == choice.uses


def test_the_gate_with_free_baselines_by_rows() -> None:
    """Rows as they are, baselines too, are predicted by a line with random intercepts of the other
    environments."""
    data = own_baselines()
    decision = fitted(data).decision_
    assert (decision.level, decision.selected) == ("effects", ("x0", "x1"))
    for choice in (decision.prediction, decided(Moments.from_data(data)).prediction):
        np.testing.assert_allclose(
            choice.everything, left_out_by_rows(data, decision.mask)[0], rtol=1e-5
        )
        for e in range(data.n_environments):
            rest = data.environment_index != e
            own = data.environment_index == e
            columns = data.X[:, decision.mask]
            line, _ = mixed_by_rows(columns[rest], data.y[rest], data.environment_index[rest])
            missed = data.y[own] - columns[own] @ line[:-1] - line[-1]
            assert choice.selected[e] == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-5)


def test_thresholds_ties_and_errors_that_are_not_known() -> None:
    ones = np.ones(10)
    nan = np.full(3, np.nan)
    assert gate(ones, ones, NUMBER) == (1.0, pytest.approx(np.exp(0.2)))
    assert gate(0.0 * ones, 0.0 * ones, NUMBER)[0] == 1.0
    assert gate(ones, 0.0 * ones, NUMBER)[0] == np.inf
    assert np.isnan(gate(nan, nan, NUMBER)[0])
    # Environments where one of both is not known count for neither.
    ratio, threshold = gate(
        np.array([1.0, 9.0, 2.0, np.inf]), np.array([2.0, np.nan, 1.0, np.inf]), NUMBER
    )
    assert (ratio, threshold) == (1.0, pytest.approx(np.exp(5 / 4)))
    assert gate(np.array([np.inf, 1.0]), ones[:2], NUMBER)[0] == np.inf
    assert gate(ones, ones, CLASS) == (1.0, pytest.approx(np.exp(0.3)))


def test_interventions_open_it_and_shifts_do_not() -> None:
    data = strong()
    model = fitted(data)
    choice = model.decision_.prediction
    assert (choice.uses, model.selected_features_) == ("selected", ("x0", "x1"))
    assert choice.ratio > choice.threshold == pytest.approx(np.exp(0.2))
    np.testing.assert_allclose(
        model.predict(data.X), data.X @ model.coef_ + model.intercept_, rtol=1e-10
    )
    assert model.predictor_.columns == ("x0", "x1")
    Z, y, env = shifted(6)
    other = fitted(MultiEnvironmentData.from_arrays(Z, y, env))
    assert other.decision_.prediction.uses == "everything"
    line = line_by_rows(Z, y, env)
    np.testing.assert_allclose(other.predict(Z), Z @ line[:-1] + line[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        np.append(other.predictor_.coefficients, other.predictor_.intercept), line, rtol=1e-4
    )


def test_one_environment_and_outcomes_that_are_lines_are_no_reason() -> None:
    alone = fitted(several(1)).decision_.prediction
    assert (alone.uses, np.isnan(alone.ratio)) == ("everything", True)
    assert "no environment" in str(alone)
    Z, _, env = shifted()
    line = MultiEnvironmentData.from_arrays(Z, 1e6 + Z @ [1.0, -0.5, 0.3], env)
    exact = fitted(line, prior=UniformPrior(max_size=2)).decision_.prediction
    assert (exact.uses, exact.worst[0]) == ("everything", 0.0)


@pytest.mark.filterwarnings("ignore")
def test_the_selection_does_not_depend_on_what_predicts() -> None:
    models = [
        fitted(strong(), predict_with=kind)
        for kind in ("auto", "selected", "everything", "average")
    ]
    first = models[0]
    for model in models[1:]:
        np.testing.assert_array_equal(model.support_, first.support_)
        np.testing.assert_array_equal(model.coef_, first.coef_)
        assert (model.intercept_, str(model.decision_.verdict)) == (
            first.intercept_,
            str(first.decision_.verdict),
        )
        assert str(model.decision_.prediction) == str(first.decision_.prediction)
    assert not np.allclose(models[2].predict(strong().X), models[1].predict(strong().X))
    np.testing.assert_array_equal(models[1].predict(strong().X), first.predict(strong().X))


def test_a_regressor_has_the_same_gate() -> None:
    data = strong()
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    model = fitted(data, regressor=tree)
    choice = model.decision_.prediction
    env = data.environment_index
    for e in range(6):
        rest = env != e
        own = env == e
        for columns, errors in ((slice(0, 3), choice.everything), (slice(0, 2), choice.selected)):
            own_tree = clone(tree).fit(data.X[rest, columns], data.y[rest])
            missed = data.y[own] - own_tree.predict(data.X[own, columns])
            assert errors[e] == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert model.regressor_.n_features_in_ == (2 if choice.uses == "selected" else 3)


@pytest.mark.filterwarnings("ignore")
def test_a_family_of_ones_own_predicts_by_its_likelihood() -> None:
    y = (LABELS == "yes").astype(float)
    model = BIP(StatsmodelsLogistic(), engine="exact", predict_with="everything").fit(
        X, y, environments=SITE
    )
    fit = StatsmodelsLogistic().maximise(X, y)
    np.testing.assert_allclose(
        model.predict(X), 1 / (1 + np.exp(-X @ fit.coefficients - fit.intercept)), rtol=1e-9
    )
    rest = SITE != 1
    others = StatsmodelsLogistic().maximise(X[rest], y[rest])
    chances = 1 / (1 + np.exp(-X[~rest] @ others.coefficients - others.intercept))
    constant = log_loss(y[~rest], np.full((~rest).sum(), y[rest].mean()))
    assert model.decision_.prediction.everything[1] == pytest.approx(
        log_loss(y[~rest], chances) / constant
    )


def test_classes_are_judged_by_deviances_over_that_of_a_constant() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(Logistic(pseudo_rows=0), engine="exact").fit(
            X, Y.astype(float), environments=SITE
        )
    choice = model.decision_.prediction
    for e in range(4):
        rest = e != SITE
        own = e == SITE
        constant = log_loss(Y[own], np.full(own.sum(), Y[rest].mean()))
        for columns, errors in (
            (np.full(4, True), choice.everything),
            (model.support_, choice.selected),
        ):
            fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
                X[rest][:, columns], Y[rest]
            )
            expected = log_loss(Y[own], fit.predict_proba(X[own][:, columns])[:, 1]) / constant
            assert errors[e] == pytest.approx(expected, rel=1e-4)


def censored(n_events: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = several(4, 40)
    event = (np.arange(160) % (160 // n_events) == 0).astype(float)
    return data.X, np.exp(-data.y / 3), event


@pytest.mark.filterwarnings("ignore")
def test_too_few_events_for_all_features(tmp_path: Path) -> None:
    """The selection predicts and says why; nothing that asks for errors fails."""
    Z, time, event = censored(16)
    model = BIPSurvival().fit(Z, time, environments=np.repeat(range(4), 40), event=event)
    choice = model.decision_.prediction
    assert (choice.uses, np.isnan(choice.ratio)) == ("selected", True)
    assert "4 columns are too many" in str(choice)
    assert "use" not in choice.reason
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").predict(Z), model.predict(Z))
    assert "cannot be told" in str(model.cost_of_invariance())
    with pytest.raises(ValueError, match="predict_with='selected'"):
        model.set_params(predict_with="everything").predict(Z)


# ---------------------------------------------------------------- known environments


@pytest.mark.parametrize("n", [1, 2, 180])
def test_environments_as_fit_took_them_are_those_of_the_first_column(n: int) -> None:
    Z, y, env = shifted(6)
    table = as_table(Z).assign(
        site=np.array(list("abcdef"))[env], shift=np.resize(["u", "v"], len(Z))
    )
    model = BIP(predict_with="everything").fit(table, y, environments=["site", "shift"])
    some = table.head(n)
    by_site = model.predict(table.head(n), environments="site")
    assert (by_site != model.predict(some)).all()
    for given in (["site", "shift"], ["site", along("year")]):
        np.testing.assert_array_equal(model.predict(some, environments=given), by_site)
    labels = np.resize(["a", "b"], n).tolist()
    np.testing.assert_array_equal(
        model.predict(some, environments=labels),
        model.predict(some.assign(site=labels), environments="site"),
    )


@pytest.mark.parametrize("growing", [1.0, 6.0])
def test_rows_of_known_environments_get_their_free_baseline(growing: float) -> None:
    """Predicted by the selected features, or by an average of subsets; also from a saved model."""
    data = own_baselines()
    env = data.environment_index
    noise = np.random.default_rng(0).normal(size=data.n_rows)
    y = data.y + (growing - 1.0) * (env == 0) * noise
    model = fitted(replace(data, y=y), predict_with="selected")
    mask = model.decision_.mask
    assert model.decision_.level == ("effects" if growing == 1.0 else "effects, noise free")
    line, ratio = mixed_by_rows(data.X[:, mask], y, env)
    left = y - data.X[:, mask] @ line[:-1] - line[-1]
    n = np.bincount(env)
    effects = (n * ratio / (1 + n * ratio) * np.bincount(env, left) / n)[env]
    plain = model.predict(data.X)
    np.testing.assert_allclose(
        model.predict(data.X, environments=env) - plain, effects, rtol=1e-3, atol=1e-6
    )
    assert np.mean((y - plain - effects) ** 2) < np.mean((y - plain) ** 2)
    average = clone(model).set_params(predict_with="average").fit(data.X, y, environments=env)
    members = average.predictor_.members
    weights = average._predictions.selection.averaged[1]
    assert len(members) > 1
    own = sum(
        weight * average.decision_.findings.target.model.random_intercept(subset).effects
        for subset, weight in zip(average._predictions.selection.averaged[0], weights, strict=True)
    )
    shifted_by = average.predict(data.X, environments=env) - average.predict(data.X)
    np.testing.assert_allclose(shifted_by, own[env], atol=1e-12)


def test_rows_of_known_environments_get_their_intercept() -> None:
    Z, y, env = shifted(6)
    labels = np.array(list("abcdef"))[env]
    table = as_table(Z)
    model = BIP(predict_with="everything").fit(table, y, environments=labels)
    line = line_by_rows(Z, y, env)
    ratio = mixed_by_rows(Z, y, env)[1]
    left = np.array([np.mean((y - Z @ line[:-1] - line[-1])[env == e]) for e in range(6)])
    effects = (30 * ratio / (1 + 30 * ratio) * left)[env]
    plain = model.predict(table)
    np.testing.assert_allclose(
        model.predict(table, environments=labels) - plain, effects, rtol=1e-3, atol=1e-6
    )
    turned = table.assign(site=labels)[["site", "x2", "x0", "x1"]]
    for frame in (turned, pl.from_pandas(turned), pl.from_pandas(turned).to_arrow()):
        predicted = model.predict(frame, environments="site")
        np.testing.assert_allclose(predicted, plain + effects, rtol=1e-3, atol=1e-5)
    strange = labels.astype(object)
    strange[:3] = "z"
    strange[3] = None
    with pytest.warns(PredictionWarning, match=r"'z' \(3 rows\), .*\(1 row\)"):
        partly = model.predict(table, environments=strange)
    np.testing.assert_array_equal(partly[:4], plain[:4])
    np.testing.assert_array_equal(partly[4:], model.predict(table, environments=labels)[4:])
    with pytest.raises(ValueError, match="environments has 3 rows"):
        model.predict(table, environments=list("abc"))
    with pytest.raises(SettingError, match=r"along\('year'\) says .* leave it out"):
        model.predict(table, environments=along("year"))
    model = BIP(predict_with="selected", baseline="shared").fit(table, y, environments=labels)
    with pytest.warns(PredictionWarning, match="changes nothing"):
        np.testing.assert_array_equal(
            model.predict(table, environments=labels), model.predict(table)
        )


# ---------------------------------------------------------------- what invariance costs


def price_of(n: int, selected: float, everything: float, uses: str = "everything") -> str:
    labels = tuple(range(n))
    ones = np.ones(n)
    return str(
        CostOfInvariance(labels, selected * ones, everything * ones, 3.0 * ones, "RMSE", uses)
    )


def test_what_may_be_said_of_the_price() -> None:
    assert "%" not in price_of(2, 2.0, 1.0)
    assert "cannot be told" in price_of(2, 2.0, 1.0)
    assert "cannot be told" in price_of(3, 2.0, 1.0)
    assert "costs 100%" in price_of(4, 2.0, 1.0)
    assert "gains" not in price_of(4, 1.0, 2.0)
    assert "costs nothing" in price_of(4, 1.0, 2.0)
    assert "gains 50%" in price_of(4, 1.0, 2.0, "selected")
    assert "insurance" in price_of(4, 2.0, 1.0, "selected")
    assert "insurance" not in price_of(4, 2.0, 1.0)
    assert "costs nothing" in price_of(9, 1.005, 1.0)
    known = np.ones(4), "RMSE", "everything"
    unknown = CostOfInvariance((0, 1, 2, 3), np.array([1, 1, 1, np.nan]), np.ones(4), *known)
    assert unknown.ratio == 1.0
    assert "From 3 environments" in str(unknown)
    uneven = CostOfInvariance(
        (0, 1, 2, 3), np.array([2.0, 3.0, 4.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0]), *known
    )
    assert (uneven.ratios.tolist(), uneven.ratio) == ([2.0, 1.5, 4.0, 1.0], 2.0)
    assert "+0% to +300%" in str(uneven)
    assert "-0%" not in price_of(4, 0.999, 1.0)


def test_the_price_of_a_line_without_noise() -> None:
    data = several(5, 40)
    noiseless = MultiEnvironmentData.from_arrays(
        data.X, data.X @ np.arange(1.0, 1.0 + data.X.shape[1]), data.environment_index
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        price = BIP(prior=UniformPrior(max_size=1)).fit(noiseless).cost_of_invariance()
    assert (price.everything == 0.0).all()
    assert "All features predict without error, the selected ones alone do not." in str(price)
    assert "costs nothing" in price_of(4, 0.0, 0.0)


def test_what_is_not_known_cannot_be_asked_for_after_the_fit() -> None:
    model = fitted(strong()).set_params(predict_with="all")
    for told in (model.summary, lambda: model.decision_):
        with pytest.raises(SettingError, match="predict_with='all' is not known"):
            told()


def test_one_feature_is_no_more_than_one() -> None:
    data = strong()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP().fit(data.X[:, :1], data.y, environments=data.environment_index)
    assert str(model.decision_.prediction).startswith("the one feature: it predicts ")


def test_all_features_are_those_that_all_features_predict_with() -> None:
    data = strong(4)
    sites = (data.environment_index**2).astype(float)
    X = np.column_stack([data.X, sites, sites % 3])
    model = BIP(predict_with="everything").fit(X, data.y, environments=data.environment_index)
    choice = model.decision_.prediction
    n = data.X.shape[1]
    assert len(model.predictor_.design.columns) == choice.n_features == n
    assert choice.n_constant == 2
    assert f"all {n} features that vary within environments" in str(choice)
    tree = BIP(regressor=DecisionTreeRegressor()).fit(
        X, data.y, environments=data.environment_index
    )
    assert f"all {n + 2} features" in tree.decision_.prediction.named("everything")
    with pytest.warns(NotInvariantWarning):
        alone = BIP().fit(sites[:, None], data.y + sites, environments=data.environment_index)
    assert alone.decision_.prediction.named("everything") == "a constant"


def test_the_price_is_that_of_environments_left_out_and_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    original = predictions.cross_validate
    monkeypatch.setattr(
        predictions, "cross_validate", lambda *given: calls.append(1) or original(*given)
    )
    data = strong()
    model = fitted(data)
    assert not calls
    price = model.cost_of_invariance()
    env = data.environment_index
    assert model.cost_of_invariance() is price
    assert calls == [1]
    for e in range(6):
        rest = env != e
        own = env == e
        other = fitted(MultiEnvironmentData.from_arrays(data.X[rest], data.y[rest], env[rest]))
        for kind in ("selected", "everything"):
            missed = data.y[own] - other.set_params(predict_with=kind).predict(data.X[own])
            assert getattr(price, kind)[e] == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-8)
        assert price.constant[e] == pytest.approx(
            np.sqrt(np.mean((data.y[own] - data.y[rest].mean()) ** 2))
        )
    assert price.ratio == pytest.approx(price.selected.mean() / price.everything.mean())
    assert price.uses == "selected"


# ---------------------------------------------------------------- kept

Z4, TIME, EVENT = censored(80)
ENV4 = np.repeat(list("abcd"), 40)
VISITS = np.random.default_rng(1).poisson(np.exp(0.3 * Z4[:, 0])).astype(float)
KINDS: dict[str, Any] = {
    "numbers": lambda: BIP().fit(Z4, several(4, 40).y, environments=ENV4),
    "counts": lambda: BIP(family="poisson").fit(
        Z4, VISITS, environments=ENV4, exposure=np.full(160, 2.0)
    ),
    "classes": lambda: classifier(),
    "times": lambda: BIPSurvival().fit(Z4, TIME, environments=ENV4, event=EVENT),
    "many columns": lambda: BIP(prior=UniformPrior(max_size=2)).fit(*wide()),
}


def wide() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    more = np.random.default_rng(2).normal(size=(160, 36))
    return np.column_stack([Z4, more]), several(4, 40).y, ENV4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*KINDS])
def test_all_kinds_are_saved_pickled_and_the_same_each_time(kind: str, tmp_path: Path) -> None:
    model = KINDS[kind]()
    again = KINDS[kind]()
    rows = model._data.X
    choice = model.decision_.prediction
    price = model.cost_of_invariance()
    plain = json.loads(json.dumps(model.decision_.to_plain(), allow_nan=False))
    assert (plain["prediction"]["uses"], plain["price"]["sentence"]) == (choice.uses, str(price))
    model.save(tmp_path / "model.json")
    saved = load(tmp_path / "model.json")
    pickled = pickle.loads(pickle.dumps(model))
    assert str(saved.prediction_) == str(choice) == str(again.decision_.prediction)
    np.testing.assert_array_equal(saved.prediction_.everything, choice.everything)
    np.testing.assert_array_equal(saved.price_.selected, price.selected)
    assert (saved.price_.environments, str(saved.price_)) == (price.environments, str(price))
    for predict_with in ("auto", "selected", "everything", "average"):
        expected = model.set_params(predict_with=predict_with).predict(rows)
        for other in (saved, pickled, again):
            np.testing.assert_array_equal(
                other.set_params(predict_with=predict_with).predict(rows), expected
            )
    if kind == "numbers":
        both = [
            each.set_params(predict_with="everything").predict(rows, environments=ENV4)
            for each in (model, saved)
        ]
        np.testing.assert_array_equal(*both)
    assert clone(model).get_params() == model.get_params()
    again.save(tmp_path / "again.json")  # which finds the price where it was not asked for
    assert str(load(tmp_path / "again.json").price_) == str(price)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "figure"), [("counts", "deviance_explained"), ("times", "concordance")]
)
def test_of_shares_that_are_right_the_rest_is_the_error(kind: str, figure: str) -> None:
    model = KINDS[kind]()
    price = model.cost_of_invariance()
    for predict_with in ("selected", "everything"):
        right = model.set_params(predict_with=predict_with).new_environments().to_frame()[figure]
        np.testing.assert_allclose(getattr(price, predict_with), 1.0 - right)
    assert price.everything.mean() < price.constant.mean()


@pytest.mark.filterwarnings("ignore")
def test_columns_in_other_order_predict_the_same() -> None:
    table = as_table(Z4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(predict_with="everything").fit(table, several(4, 40).y, environments=ENV4)
    expected = model.predict(table)
    for frame in (table[["x3", "x1", "x0", "x2"]], pl.from_pandas(table[["x3", "x1", "x0", "x2"]])):
        np.testing.assert_array_equal(model.predict(frame), expected)
    np.testing.assert_array_equal(pd.Series(model.predict(Z4)), expected)
    assert isinstance(
        BIPClassifier().fit(X, LABELS, environments=SITE).decision_.prediction.content["worst"],
        tuple,
    )
