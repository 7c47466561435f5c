"""BIPSurvival: what it finds, predicts, keeps and refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from invariance import BIP, BIPSurvival, Columns, PiecewiseExponential
from invariance.exceptions import DataError
from invariance.prediction.predictor import concordance
from survival_twins import survived

DATA = survived(n=120, n_environments=4)
X = pd.DataFrame(DATA.X, columns=[f"x{j}" for j in range(5)])
SITE = [f"site {e}" for e in DATA.environment_index]


@pytest.fixture(scope="module")
def model() -> BIPSurvival:
    return BIPSurvival().fit(X, DATA.y, environments=SITE, event=DATA.event)


@pytest.mark.parametrize("kind", ["selected", "average"])
def test_median_and_survival_agree(model: BIPSurvival, kind: str) -> None:
    chosen = pickle.loads(pickle.dumps(model)).set_params(predict_with=kind)
    median = chosen.predict(X)
    at_median = np.array([chosen.predict_survival(X[i : i + 1], median[i])[0, 0] for i in range(20)])
    np.testing.assert_allclose(at_median, 0.5, rtol=1e-9)
    curves = chosen.predict_survival(X, [0.0, 0.5, 1.0, 1e9])
    np.testing.assert_allclose(curves[:, 0], 1.0, rtol=1e-12)
    assert (np.diff(curves[:, :3], axis=1) < 0.0).all()
    assert (curves[:, 3] < 1e-9).all()


def test_average_of_curves(model: BIPSurvival) -> None:
    average = pickle.loads(pickle.dumps(model)).set_params(predict_with="average")
    posterior, times = model.predictive_, np.array([0.3, 1.0, 2.0])
    probability, expected, means = np.exp(posterior.log_probabilities), 0.0, 0.0
    for weight, mask in zip(probability / probability.sum(), posterior.masks, strict=True):
        fit = PiecewiseExponential().bind(DATA).fit(mask)
        expected = expected + weight * fit.baseline.survival(fit.risk(DATA.X[:, mask])[:, None], times)
        means = means + weight * fit.predict(DATA.X[:, mask])
    np.testing.assert_allclose(average.predict_survival(X, times), expected, atol=2e-3)
    settings = {"family": PiecewiseExponential(), "predict_with": "average"}
    expected_times = BIP(**settings).fit(X, DATA.y, environments=SITE, event=DATA.event).predict(X)
    np.testing.assert_allclose(expected_times, means, rtol=5e-3)


def test_finds_the_truth_and_scores_by_concordance(model: BIPSurvival) -> None:
    assert model.selected_features_ == ("x0", "x2")
    assert model.coef_[[0, 2]] == pytest.approx([0.9, -0.7], abs=0.25)
    assert "piecewise exponential" in str(model.summary())
    table = model.new_environments().to_frame()
    assert table["environment"].tolist() == [f"site {e}" for e in range(4)]
    assert table["concordance"].between(0.5, 0.9).all()
    assert model.score(X, DATA.y, DATA.event) == concordance(DATA.y, DATA.event, model.predict(X))
    assert 0.7 < model.score(X, DATA.y, DATA.event) < 0.9
    assert model.score(X, DATA.y) != model.score(X, DATA.y, DATA.event)
    with pytest.raises(DataError, match="event has 3 rows"):
        model.score(X, DATA.y, [1, 0, 1])


def test_concordance_beside_all_pairs() -> None:
    rng = np.random.default_rng(3)
    times, predicted = rng.integers(1, 9, 60).astype(float), rng.integers(1, 6, 60).astype(float)
    event = (rng.random(60) < 0.6).astype(float)
    right = pairs = 0.0
    for i in range(60):
        for j in range(60):
            if event[i] and (times[j] > times[i] or (times[j] == times[i] and not event[j])):
                pairs += 1.0
                right += 1.0 if predicted[j] > predicted[i] else 0.5 * (predicted[j] == predicted[i])
    assert concordance(times, event, predicted) == pytest.approx(right / pairs)
    assert np.isnan(concordance(times, 0.0 * event, predicted))


def test_columns_data_and_clone(model: BIPSurvival) -> None:
    table = X.assign(site=SITE, died=DATA.event.astype(bool))
    named = BIPSurvival(columns=Columns(environment="site")).fit(table, DATA.y, event="died")
    np.testing.assert_array_equal(named.predict(X), model.predict(X))
    np.testing.assert_allclose(BIPSurvival().fit(DATA).coef_, model.coef_, rtol=1e-12)
    settings = BIPSurvival(PiecewiseExponential(4), predict_with="average")
    assert clone(settings).get_params() == settings.get_params()


@pytest.mark.parametrize(("time", "event"), [(1.0, np.nan), (np.nan, 1.0), (np.inf, 1.0), (0.0, 1.0)])
def test_score_is_of_times_and_events_that_are_known(model: BIPSurvival, time: float, event: float) -> None:
    times, events = DATA.y.copy(), DATA.event.astype(float)
    times[5:7], events[5:7] = time, event
    with pytest.raises(DataError, match="in 2 rows"):
        model.score(X, times, events)
    rest = np.delete(np.arange(len(times)), [5, 6])
    known = concordance(DATA.y[rest], DATA.event[rest], model.predict(X)[rest])
    assert model.score(X.iloc[rest], pd.Series(times[rest], dtype="Float64"), events[rest]) == known
