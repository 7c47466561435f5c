"""Errors in new environments: figures beside statsmodels and scikit-learn, refits without each, and intervals."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import brier_score_loss, d2_tweedie_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from invariance import BIP, BIPClassifier, Moments, MultiEnvironmentData, Poisson
from invariance.decisions.pipeline import Findings
from invariance.exceptions import PredictionWarning, SettingError
from invariance.models.base import Predicts
from invariance.prediction.new_environments import FIGURES, EnvironmentErrors, NewEnvironments, figures_of, log_odds
from invariance.prediction.predictor import PredictedOutcome
from shifted_sites import DATA, NEW, as_table, fitted, several
from two_classes import LABELS, SITE, X, Y, classifier

ONE_SIGMA = 0.6826894921370859

OUTCOME = PredictedOutcome("y")


def t_half_width(X: np.ndarray, y: np.ndarray, new: np.ndarray, coverage: float) -> np.ndarray:
    """Textbook prediction interval of least squares with an intercept."""
    design = np.column_stack([np.ones(len(X)), X])
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    freedom = len(y) - design.shape[1]
    noise = np.sum((y - design @ beta) ** 2) / freedom
    rows = np.column_stack([np.ones(len(new)), new])
    leverage = np.einsum("ni,ij,nj->n", rows, np.linalg.inv(design.T @ design), rows)
    return student.ppf(0.5 + coverage / 2, freedom) * np.sqrt(noise * (1 + leverage))


def left_out_quantiles(data: MultiEnvironmentData, coverage: float, **settings) -> np.ndarray:
    """By refitting the whole estimator to a table without each environment."""
    found = []
    for e in range(data.n_environments):
        rest, own = data.environment_index != e, data.rows(e)
        model = fitted(
            MultiEnvironmentData.from_arrays(data.X[rest], data.y[rest], data.environment_index[rest]), **settings
        )
        found.append(np.quantile(np.abs(data.y[own] - model.predict(data.X[own])), coverage))
    return np.sort(found)


@pytest.mark.parametrize("coverage", [0.3, 0.75, 0.9])
def test_half_width_is_the_larger_of_t_and_what_was_missed_elsewhere(coverage: float) -> None:
    model = fitted()
    assert model.support_.tolist() == [True, True, False, False]
    quantiles = left_out_quantiles(DATA, coverage)
    q = quantiles[min(int(np.ceil(coverage * 5 - 1e-12)), 4) - 1]
    expected = np.maximum(t_half_width(DATA.X[:, :2], DATA.y, NEW[:, :2], coverage), q)
    ends = model.predict_interval(NEW, coverage)
    assert ends.shape == (7, 2)
    np.testing.assert_allclose(ends.mean(axis=1), model.predict(NEW), rtol=1e-12)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, expected, rtol=1e-9)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(model.predict_interval(NEW, ONE_SIGMA), np.column_stack([mean - std, mean + std]))


def test_the_rank_among_environments() -> None:
    def width(coverage: float, n: int) -> float:
        errors = [EnvironmentErrors(e, (), 1.0, np.full(3, float(e + 1))) for e in range(n)]
        return NewEnvironments(OUTCOME, tuple(errors[::-1])).half_width(coverage)

    assert [width(c, 9) for c in (0.05, 0.1, 0.11, 0.5, 0.9, 0.91)] == [1.0, 1.0, 2.0, 5.0, 9.0, 9.0]
    assert width(0.8, 4) == 4.0  # 0.8 · 5 = 4, whatever rounding says
    assert width(0.28, 24) == 7.0  # 0.28 · 25 is 7 and a little more
    assert NewEnvironments(OUTCOME, ()).half_width(0.9) == 0.0


def test_many_rows_are_kept_as_quantiles() -> None:
    data = several(3, 1500)
    model = fitted(data)
    model.predict_interval(NEW)
    kept = model._elsewhere["selected"].left_out
    assert [len(errors.absolute_errors) for errors in kept] == [1001] * 3
    for coverage in (0.5, 0.9):
        exact = left_out_quantiles(data, coverage)
        np.testing.assert_allclose(np.sort([errors.quantile(coverage) for errors in kept]), exact, rtol=4e-3)


def test_moments_alone_take_errors_for_normal() -> None:
    model, rows = BIP().fit(Moments.from_data(DATA)), fitted()
    ends = model.predict_interval(as_table(NEW), 0.8)
    rows.predict_interval(NEW)
    found, expected = model._elsewhere["selected"].left_out, rows._elsewhere["selected"].left_out
    assert [errors.absolute_errors for errors in found] == [None] * 4
    assert [errors.features for errors in found] == [errors.features for errors in expected]
    np.testing.assert_allclose([e.rmse for e in found], [e.rmse for e in expected], rtol=1e-9)
    q = norm.ppf(0.9) * sorted(errors.rmse for errors in expected)[3]
    t = t_half_width(DATA.X[:, :2], DATA.y, NEW[:, :2], 0.8)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, np.maximum(t, q), rtol=1e-8)


class Drawn:
    """A rule that asks the random numbers only."""

    def select(self, findings: Findings) -> np.ndarray:
        return findings.options.rng.random(findings.target.n_features) < 0.5


def test_a_selection_without_an_environment_is_that_of_a_table_without_it() -> None:
    """With the random numbers of the first one, for each environment anew."""
    model = fitted(select=Drawn())
    model.predict_interval(NEW)
    left_out = model._elsewhere["selected"].left_out
    assert {errors.features for errors in left_out} == {model.selected_features_}
    found = sorted(errors.quantile(0.9) for errors in left_out)
    np.testing.assert_allclose(found, left_out_quantiles(DATA, 0.9, select=Drawn()), rtol=1e-9)


def test_a_generator_goes_on_as_if_no_interval_were_asked_for() -> None:
    generators = [np.random.default_rng(3) for _ in range(2)]
    models = [BIP(select=Drawn(), random_state=rng).fit(DATA) for rng in generators]
    models[0].predict_interval(as_table(NEW))
    assert generators[0].random() == generators[1].random()


@pytest.mark.parametrize("n_environments", [1, 2, 3])
def test_too_few_environments_are_said(n_environments: int) -> None:
    model = fitted(several(n_environments))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PredictionWarning)
        ends = model.predict_interval(NEW)
    assert len(caught) == (n_environments < 3)
    assert all(("one environment", "two environments")[n_environments - 1] in str(w.message) for w in caught)
    if n_environments == 1:
        t = t_half_width(several(1).X[:, model.support_], several(1).y, NEW[:, model.support_], 0.9)
        np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, t, rtol=1e-9)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, True, float("nan"), "0.9", None, [0.9]])
def test_coverage_is_a_share(coverage: object) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        fitted().predict_interval(NEW, coverage)


# ---------------------------------------------------------------- averages


def test_averages_over_compatible_subsets() -> None:
    model = fitted(predict_with="average")
    predictive = model.predictive_
    weights = np.exp(predictive.log_probabilities)
    n = int(np.searchsorted(np.cumsum(weights) / weights.sum(), 0.999)) + 1
    assert n > 1
    weights = weights[:n] / weights[:n].sum()
    fits = [LinearRegression().fit(DATA.X[:, mask], DATA.y) if mask.any() else None for mask in predictive.masks[:n]]
    means = np.array(
        [f.predict(NEW[:, m]) if f else np.full(7, DATA.y.mean()) for f, m in zip(fits, predictive.masks, strict=False)]
    )
    np.testing.assert_allclose(model.predict(NEW), weights @ means, rtol=1e-10)
    halves = [t_half_width(DATA.X[:, m], DATA.y, NEW[:, m], 0.9) for m in predictive.masks[:n]]
    freedoms = [len(DATA.y) - 1 - m.sum() for m in predictive.masks[:n]]
    variances = np.array([(h / student.ppf(0.95, f)) ** 2 for h, f in zip(halves, freedoms, strict=True)])
    used = predictive.masks[:n].any(axis=0)
    between = weights @ (means - weights @ means) ** 2
    half = student.ppf(0.95, min(freedoms)) * np.sqrt(weights @ variances + between)
    np.testing.assert_allclose(model._predictor("average").half_width(NEW[:, used], 0.9), half, rtol=1e-9)


def test_predict_with_may_change_after_fitting() -> None:
    model = fitted()
    selected = model.predict(NEW)
    averaged = model.set_params(predict_with="average").predict(NEW)
    np.testing.assert_array_equal(averaged, fitted(predict_with="average").predict(NEW))
    assert not np.array_equal(averaged, selected)
    with pytest.raises(SettingError, match="predict_with='mean'"):
        model.set_params(predict_with="mean").predict(NEW)


# ---------------------------------------------------------------- regressors


def test_a_regressor_predicts_with_the_selected_features() -> None:
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(0.1))
    model = fitted(regressor=pipeline)
    own = clone(pipeline).fit(DATA.X[:, :2], DATA.y)
    np.testing.assert_allclose(model.predict(NEW), own.predict(NEW[:, :2]), rtol=1e-12)
    assert model.regressor_ is not pipeline
    assert not hasattr(pipeline, "n_features_in_")
    np.testing.assert_array_equal(model.coef_, fitted().coef_)
    folds = KFold(5, shuffle=True, random_state=0)
    noise = np.mean((DATA.y - cross_val_predict(pipeline, DATA.X[:, :2], DATA.y, cv=folds)) ** 2)
    plain = t_half_width(DATA.X[:, :2], DATA.y, NEW[:, :2], 0.9)
    residuals = DATA.y - LinearRegression().fit(DATA.X[:, :2], DATA.y).predict(DATA.X[:, :2])
    t = plain * np.sqrt(noise / (residuals @ residuals / (len(DATA.y) - 3)))
    np.testing.assert_allclose(model._predictor("selected").half_width(NEW[:, :2], 0.9), t, rtol=1e-9)
    q = left_out_quantiles(DATA, 0.9, regressor=pipeline)[-1]
    ends = model.predict_interval(NEW)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, np.maximum(t, q), rtol=1e-9)


def classes(n: int = 150, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes, and probabilities that are too high and too extreme."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=n)
    return (rng.uniform(size=n) < expit(odds)).astype(float), expit(0.7 + 1.8 * odds)


def counts(n: int = 150, seed: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, rates that are too high and too extreme, and exposures."""
    rng = np.random.default_rng(seed)
    logs, exposure = rng.normal(size=n), rng.uniform(0.5, 8.0, n)
    return rng.poisson(exposure * np.exp(logs)).astype(float), np.exp(0.4 + 1.5 * logs), exposure


def test_probabilities() -> None:
    y, p = classes()
    found = figures_of(Predicts.probability, y, p)
    odds = logit(p)
    slope = sm.GLM(y, sm.add_constant(odds), family=sm.families.Binomial()).fit(tol=1e-12).params[1]
    large = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Binomial(), offset=odds).fit(tol=1e-12).params[0]
    expected = {
        "observed": y.mean(),
        "predicted": p.mean(),
        "intercept": large,
        "slope": slope,
        "brier": brier_score_loss(y, p),
        "log_loss": log_loss(y, p),
        "auc": roc_auc_score(y, p),
    }
    assert tuple(found) == FIGURES[Predicts.probability]
    np.testing.assert_allclose(list(found.values()), [expected[name] for name in found], rtol=1e-8)
    assert found["slope"] < 0.8
    assert found["intercept"] < -0.2


def test_rates() -> None:
    y, rate, exposure = counts()
    found = figures_of(Predicts.rate, y, rate, exposure)
    poisson = {"family": sm.families.Poisson(), "offset": np.log(exposure)}
    slope = sm.GLM(y, sm.add_constant(np.log(rate)), **poisson).fit(tol=1e-12).params[1]
    large = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Poisson(), offset=np.log(rate * exposure)).fit(tol=1e-12)
    own = sm.GLM(y, np.ones((len(y), 1)), **poisson).fit(tol=1e-12)
    missed = sm.families.Poisson().deviance(y, rate * exposure)
    expected = {
        "observed": y.sum() / exposure.sum(),
        "predicted": (rate * exposure).sum() / exposure.sum(),
        "intercept": large.params[0],
        "slope": slope,
        "deviance_explained": 1.0 - missed / own.deviance,
    }
    np.testing.assert_allclose(list(found.values()), [expected[name] for name in found], rtol=1e-8)
    alone = figures_of(Predicts.rate, y, rate)
    np.testing.assert_allclose(alone["deviance_explained"], d2_tweedie_score(y, rate, power=1), rtol=1e-9)


def test_numbers() -> None:
    rng = np.random.default_rng(3)
    y, predicted = rng.normal(size=(2, 40))
    found = figures_of(Predicts.number, y, predicted)
    expected = [y.mean(), predicted.mean(), np.sqrt(np.mean((y - predicted) ** 2)), r2_score(y, predicted)]
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("predicts", "y", "predicted", "unknown"),
    [
        ("probability", [0, 0, 0], [0.2, 0.4, 0.3], {"intercept", "slope", "auc"}),  # one class
        ("probability", [1, 1, 1], [0.2, 0.4, 0.3], {"intercept", "slope", "auc"}),
        ("probability", [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # separated
        ("probability", [0, 1, 1, 1], [0.1, 0.1, 0.6, 0.9], {"slope"}),  # but for one value
        ("probability", [1, 1, 0, 0], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # the wrong way round
        ("probability", [0, 1, 1, 0], [0.3, 0.3, 0.3, 0.3], {"slope"}),  # nothing to multiply
        ("probability", [0, 1, 1, 0], [0.0, 1.0, 0.3, 0.6], set()),  # certain, and right
        ("probability", [0, 1, 0, 1], [1.0, 0.0, 0.3, 0.6], set()),  # certain, and wrong
        ("rate", [0, 0, 0], [0.2, 0.4, 0.3], {"intercept", "slope", "deviance_explained"}),  # no events
        ("rate", [0, 0, 3], [0.2, 0.3, 0.4], {"slope"}),  # all at the largest rate
        ("rate", [0, 3, 0], [0.2, 0.3, 0.4], set()),
        ("rate", [1, 3, 2], [0.3, 0.3, 0.3], {"slope"}),
        ("rate", [2, 2, 2], [0.2, 0.3, 0.4], {"deviance_explained"}),  # no scatter
        ("rate", [0, 1, 2], [0.2, -0.3, 0.4], {"intercept", "slope", "deviance_explained"}),  # no rate
    ],
)
def test_what_is_not_defined(predicts: str, y: list[float], predicted: list[float], unknown: set[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = figures_of(Predicts(predicts), np.array(y, float), np.array(predicted, float))
    assert {name for name, value in found.items() if not np.isfinite(value)} == unknown


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(-60.0, 60.0)), min_size=2, max_size=30))
def test_a_slope_and_a_shift_are_where_they_should_be(rows: list[tuple[bool, float]]) -> None:
    y, p = np.array([row[0] for row in rows], float), expit(np.array([row[1] for row in rows]))
    found = figures_of(Predicts.probability, y, p)
    if not np.isnan(found["intercept"]):
        np.testing.assert_allclose(expit(log_odds(p) + found["intercept"]).mean(), y.mean(), atol=1e-6)
    # At the maximum of the likelihood nothing is left that log odds explain.
    if not np.isnan(found["slope"]):
        odds = log_odds(p) * found["slope"]
        own = figures_of(Predicts.probability, y, expit(odds))["intercept"]
        assert abs(np.mean((y - expit(odds + own)) * odds)) < 1e-4 * max(1.0, np.abs(odds).max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["selected", "average"])
def test_probabilities_in_environments_that_were_left_out(kind: str) -> None:
    found = classifier(predict_with=kind).new_environments()
    frame = found.to_frame().set_index("environment")
    assert list(frame.index) == [0, 1, 2, 3]
    for e in range(4):
        own = e == SITE
        model = BIPClassifier(predict_with=kind).fit(X[~own], LABELS[~own], environments=SITE[~own])
        p = model.predict_proba(X[own])[:, 1]
        expected = figures_of(Predicts.probability, Y[own].astype(float), p)
        assert {name: frame.loc[e, name] for name in expected} == pytest.approx(expected, rel=1e-9)
        assert frame.loc[e, "rows"] == 100
        assert frame.loc[e, "features"] == model.selected_features_
    assert found.to_frame().drop(columns="features").notna().all(axis=None)


@pytest.mark.filterwarnings("ignore")
def test_rates_in_environments_that_were_left_out() -> None:
    rng = np.random.default_rng(6)
    exposure = rng.uniform(1.0, 9.0, len(X))
    y = rng.poisson(exposure * np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1] - 1.0)).astype(float)
    model = BIP(family=Poisson()).fit(X, y, environments=SITE, exposure=exposure)
    assert model.selected_features_ == ("x0", "x1")
    frame = model.new_environments().to_frame()
    for e in range(4):
        own = e == SITE
        other = BIP(family=Poisson()).fit(X[~own], y[~own], environments=SITE[~own], exposure=exposure[~own])
        expected = figures_of(Predicts.rate, y[own], other.predict(X[own]), exposure[own])
        assert {name: frame.loc[e, name] for name in expected} == pytest.approx(expected, rel=1e-8)
        missed = y[own] - other.predict(X[own]) * exposure[own]
        assert model.new_environments().left_out[e].rmse == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert (frame["deviance_explained"] > 0.1).all()


def test_numbers_and_second_moments() -> None:
    rows, moments = fitted(DATA).new_environments(), BIP().fit(Moments.from_data(DATA)).new_environments()
    np.testing.assert_allclose(rows.to_frame()["rmse"], [left.rmse for left in rows.left_out])
    for figure in ("observed", "predicted", "rmse", "r2"):
        np.testing.assert_allclose(moments.to_frame()[figure], rows.to_frame()[figure], rtol=1e-8, err_msg=figure)
    assert "–" not in str(moments)
    assert rows.to_plain()["predicts"] == "number"


def test_what_a_person_reads() -> None:
    found = classifier().new_environments()
    text, frame = str(found), found.to_frame()
    assert max(map(len, text.splitlines())) <= 80
    worst = frame.loc[(frame["observed"] - frame["predicted"]).abs().idxmax()]
    told = f"{worst['environment']}: {worst['observed']:.3g} observed, {worst['predicted']:.3g}"
    assert told in " ".join(text.split())
    head, *rows = [line.split() for line in text.splitlines()[-5:]]
    assert head == ["environment", "rows", "observed", "predicted", "intercept", "slope", "Brier", "AUC"]
    shown = frame[["observed", "predicted", "intercept", "slope", "brier", "auc"]]
    np.testing.assert_allclose([[float(cell) for cell in row[2:]] for row in rows], shown, atol=5.1e-4)
    plain = json.loads(json.dumps(found.to_plain(), allow_nan=False))
    assert plain["classes"] == ["no", "yes"]
    assert [row["brier"] for row in plain["environments"]] == frame["brier"].tolist()


@pytest.mark.filterwarnings("ignore")
def test_an_environment_with_one_class_has_no_slope() -> None:
    y = np.where(SITE == 2, "no", LABELS)
    found = BIPClassifier().fit(X, y, environments=SITE).new_environments()
    row = found.to_frame().set_index("environment").loc[2]
    assert np.isnan([row["intercept"], row["slope"], row["auc"]]).all()
    assert row["observed"] == 0.0
    assert found.to_plain()["environments"][2]["auc"] is None
    assert str(found).splitlines()[-2].split()[-1] == "–"


@pytest.mark.filterwarnings("ignore")
def test_environments_that_cannot_be_left_out() -> None:
    y = np.where(SITE == 2, LABELS, "no")
    found = BIPClassifier().fit(X, y, environments=SITE).new_environments()
    assert found.to_plain()["not_left_out"] == ["2"]
    assert "1 of 4 environments (2)" in " ".join(str(found).split())
    alone = BIPClassifier().fit(X, LABELS).new_environments()
    assert "one environment" in str(alone)
    assert alone.to_frame().empty
    two = BIPClassifier().fit(X, LABELS, environments=SITE // 2).new_environments()
    assert "two environments" in str(two)
