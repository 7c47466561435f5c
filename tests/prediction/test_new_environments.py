from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.decisions.rules import Findings
from invariance.exceptions import PredictionWarning, SettingError
from invariance.prediction.new_environments import EnvironmentErrors, NewEnvironments
from invariance.prediction.predictor import PredictedOutcome
from shifted_sites import DATA, NEW, as_table, fitted, several

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
