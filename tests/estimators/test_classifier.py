"""Two classes: scikit-learn's conventions, labels of any kind, probabilities, and what is saved."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from invariance import (
    BIP,
    BIPClassifier,
    Columns,
    Logistic,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
)
from invariance.baselines import ICP
from invariance.exceptions import DataError, SettingError
from two_classes import LABELS, SITE, X, Y, classifier, table


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.PredictionWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
# Of the thirty features of the checks of weights, all subsets would take minutes.
@parametrize_with_checks([BIPClassifier(prior=UniformPrior(max_size=1))])
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


def test_probabilities_are_those_of_the_logistic_fit() -> None:
    model = classifier(predict_with="selected")
    assert (is_classifier(model), is_regressor(model), is_regressor(BIP())) == (True, False, True)
    assert model.selected_features_ == model.decision_.selected == ("x0", "x1")
    assert model.posterior_.model == "logistic"
    odds = X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(
        model.predict_proba(X), np.column_stack([expit(-odds), expit(odds)]), rtol=1e-12
    )
    np.testing.assert_allclose(model.decision_function(X), odds, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(odds > 0.0, "yes", "no"))
    assert model.score(X, LABELS) == np.mean(model.predict(X) == LABELS)
    plain = Logistic().bind(MultiEnvironmentData.from_arrays(X, Y, SITE)).fit(["x0", "x1"])
    np.testing.assert_allclose(model.coef_[:2], plain.coefficients, rtol=1e-9)
    assert "outcome y: 'yes' against 'no'." in model.posterior_.notes
    for y in (LABELS, Y + 1):  # a BIP predicts the same probability
        same = BIP(predict_with="selected").fit(X, y, environments=SITE)
        np.testing.assert_array_equal(same.predict(X), model.predict_proba(X)[:, 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [BIP("linear_gaussian"), BIP("poisson"), BIP("logistic"), ICP()], ids=str
)
def test_words_are_scored_as_0_and_1(model: Any) -> None:
    model.fit(X, LABELS, environments=SITE)
    residual = Y - model.predict(X)
    expected = 1.0 - residual @ residual / (len(Y) * Y.var())
    assert model.score(X, LABELS) == pytest.approx(expected)
    assert model.score(X, pd.Series(LABELS, dtype="category")) == pytest.approx(expected)
    with pytest.raises(DataError, match="'maybe'"):
        model.score(X, np.where(SITE == 0, "maybe", LABELS))


def test_an_average_is_one_of_probabilities() -> None:
    model = classifier(predict_with="average")
    posterior = model.predictive_
    weights = np.exp(posterior.log_probabilities)
    bound = Logistic().bind(MultiEnvironmentData.from_arrays(X, Y, SITE))
    kept = np.searchsorted(np.cumsum(weights) / weights.sum(), 0.999) + 1
    assert kept > 1
    each = [bound.fit(mask).predict(X[:, mask]) for mask in posterior.masks[:kept]]
    expected = weights[:kept] / weights[:kept].sum() @ np.array(each)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), logit(expected), rtol=1e-7, atol=1e-9)
    assert np.abs(expected - classifier().predict_proba(X)[:, 1]).max() > 1e-4


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (LABELS.astype(object).tolist(), ["no", "yes"]),
        (
            pd.Series(LABELS, index=np.arange(400) + 7).astype(pd.CategoricalDtype(["yes", "no"])),
            ["no", "yes"],
        ),
        (pd.array(LABELS, dtype="string"), ["no", "yes"]),
        (pd.Series(Y.astype(bool)).astype(object), [False, True]),
        (pd.array(Y.astype(bool), dtype="boolean"), [False, True]),
        (pl.Series("died", Y.astype(bool)), [False, True]),
        (np.where(Y == 1, 7, -3), [-3, 7]),
        (np.where(Y == 1, 2.0, 1.0), [1.0, 2.0]),
    ],
)
def test_labels_of_any_kind(y: object, classes: list) -> None:
    model = classifier(y)
    words = classifier()
    assert model.classes_.tolist() == classes
    assert [type(label) for label in model.classes_.tolist()] == [type(label) for label in classes]
    np.testing.assert_array_equal(model.predict_proba(X), words.predict_proba(X))
    assert model.predict(X).tolist() == [classes[int(label == "yes")] for label in words.predict(X)]
    assert model.score(X, y) == words.score(X, LABELS)


def test_data_sets_bring_their_classes() -> None:
    frame = table().assign(died=pd.Categorical(LABELS, categories=["yes", "no"]))
    model = BIPClassifier().fit(MultiEnvironmentData.from_table(frame, "died", "site"))
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(
        model.predict_proba(frame)[:, 1], classifier().predict_proba(X)[:, 1], rtol=1e-7
    )
    numbers = MultiEnvironmentData.from_arrays(X, Y + 1.0, SITE)
    assert BIPClassifier().fit(numbers).classes_.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="outcome 'y' has other than two values"):
        BIPClassifier().fit(MultiEnvironmentData.from_arrays(X, X[:, 0] * 3, SITE))
    with pytest.raises(DataError, match="needs the rows"):
        BIPClassifier().fit(Moments.from_data(numbers))


def test_more_classes_one_with_the_rest() -> None:
    y = np.where(Y == 1, "yes", np.where(X[:, 3] > 0, "no", "never"))
    model = OneVsRestClassifier(BIPClassifier(columns=Columns(environment="site"))).fit(table(), y)
    assert model.classes_.tolist() == ["never", "no", "yes"]
    assert model.score(table(), y) > 0.6
    with sklearn.config_context(enable_metadata_routing=True):
        routed = OneVsRestClassifier(BIPClassifier().set_fit_request(environments=True))
        probabilities = routed.fit(X, y, environments=SITE).predict_proba(X)
    np.testing.assert_allclose(probabilities, model.predict_proba(table()), rtol=1e-7)


def test_in_scikit_learn() -> None:
    X_frame = table()
    model = BIPClassifier(columns=Columns(environment="site"), predict_with="selected")
    how = {"groups": SITE, "cv": LeaveOneGroupOut(), "scoring": "roc_auc"}
    scores = cross_val_score(model, X_frame, LABELS, **how)
    left_out = classifier(predict_with="selected").new_environments().to_frame()
    np.testing.assert_allclose(scores, left_out["auc"], rtol=1e-9)
    steps = make_pipeline(BIPClassifier(), RandomForestClassifier(10, random_state=0))
    assert steps.fit(X, LABELS, bipclassifier__environments=SITE).score(X, LABELS) > 0.9
    model.set_output(transform="pandas").fit(X_frame, LABELS)
    assert model.transform(X_frame).columns.tolist() == ["a", "b"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X_frame), model.predict_proba(X_frame))
    assert clone(model).get_params() == model.get_params()


def test_means_that_json_does_not_know_are_not_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Logistic, "mean", lambda self, predictor: norm.cdf(predictor))
    other = classifier(predict_with="selected")
    np.testing.assert_allclose(
        other.predict_proba(X)[:, 1], norm.cdf(X @ other.coef_ + other.intercept_), rtol=1e-9
    )
    with pytest.raises(SettingError, match="cannot be saved as JSON: use pickle"):
        other.save(tmp_path / "model.json")


def test_rates_are_per_unit_of_exposure() -> None:
    rng = np.random.default_rng(8)
    years = rng.uniform(0.5, 6.0, len(X))
    visits = rng.poisson(years * np.exp(0.5 * X[:, 0] - 0.4 * X[:, 1] - 0.5)).astype(float)
    model = BIP(family="poisson", predict_with="selected").fit(
        X, visits, environments=SITE, exposure=years
    )
    np.testing.assert_allclose(
        model.predict(X), np.exp(X @ model.coef_ + model.intercept_), rtol=1e-12
    )
    assert (model.predict(X) * years).sum() == pytest.approx(visits.sum(), rel=1e-6)
    (member,) = model._predictor("selected").members
    missed = visits - model.predict(X) * years
    assert member.noise * member.freedom == pytest.approx(missed @ missed)
    with pytest.raises(
        SettingError, match=r"per unit of 'exposure': .* score\(X, y / exposure, sample_weight"
    ):
        model.score(X, visits)
    rates = visits / years
    mean = np.average(rates, weights=years)
    expected = 1.0 - years @ (rates - model.predict(X)) ** 2 / (years @ (rates - mean) ** 2)
    assert model.score(X, rates, sample_weight=years) == pytest.approx(expected)
    with pytest.raises(SettingError, match="nothing of the exposure: use regressor=None"):
        BIP(family="poisson", regressor=LinearRegression()).fit(
            X, visits, environments=SITE, exposure=years
        )
