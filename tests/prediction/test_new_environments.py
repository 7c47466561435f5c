"""Errors in new environments: figures beside statsmodels and scikit-learn, refits without each, and
intervals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import chi2, norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import brier_score_loss, d2_tweedie_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from statsmodels.stats.proportion import proportion_confint

from invariance import BIP, BIPClassifier, BIPSurvival, Moments, MultiEnvironmentData, Poisson
from invariance.decisions.pipeline import Findings
from invariance.exceptions import PredictionWarning, SettingError
from invariance.kinds import CLASS, COUNT, KINDS, NUMBER, TIME, OutcomeKind
from invariance.kinds.classes import log_odds
from invariance.prediction.all_features import regression_on_everything
from invariance.prediction.new_environments import (
    EnvironmentErrors,
    NewEnvironments,
    calibration_groups,
    few_environments,
)
from invariance.prediction.predictor import PredictedOutcome
from line_twins import mixed_by_rows
from shifted_sites import DATA, NEW, as_table, fitted, own_baselines, several
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


def left_out_errors(data: MultiEnvironmentData, **settings) -> list[np.ndarray]:
    """By refitting the whole estimator to a table without each environment."""
    found = []
    for e in range(data.n_environments):
        rest = data.environment_index != e
        own = data.rows(e)
        others = MultiEnvironmentData.from_arrays(
            data.X[rest], data.y[rest], data.environment_index[rest]
        )
        found.append(np.abs(data.y[own] - fitted(others, **settings).predict(data.X[own])))
    return found


def test_half_width_is_the_larger_of_t_and_what_was_missed_elsewhere() -> None:
    model = fitted(predict_with="selected")
    errors = left_out_errors(DATA, predict_with="selected")
    assert model.support_.tolist() == [True, True, False, False]
    for coverage in (0.3, 0.75, 0.9):
        quantiles = np.sort(np.quantile(errors, coverage, axis=1))
        q = quantiles[min(int(np.ceil(coverage * 5 - 1e-12)), 4) - 1]
        expected = np.maximum(t_half_width(DATA.X[:, :2], DATA.y, NEW[:, :2], coverage), q)
        ends = model.predict_interval(NEW, coverage)
        np.testing.assert_allclose(ends.mean(axis=1), model.predict(NEW), rtol=1e-12)
        np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, expected, rtol=1e-9)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(
        model.predict_interval(NEW, ONE_SIGMA), np.column_stack([mean - std, mean + std])
    )


def test_the_rank_among_environments() -> None:
    def width(coverage: float, n: int) -> float:
        errors = [EnvironmentErrors(e, (), np.full(3, float(e + 1))) for e in range(n)]
        return NewEnvironments(OUTCOME, tuple(errors[::-1])).half_width(coverage)

    assert [width(c, 9) for c in (0.05, 0.1, 0.11, 0.5, 0.9, 0.91)] == [
        1.0,
        1.0,
        2.0,
        5.0,
        9.0,
        9.0,
    ]
    assert width(0.8, 4) == 4.0  # 0.8 · 5 = 4, whatever rounding says
    assert width(0.28, 24) == 7.0  # 0.28 · 25 is 7 and a little more
    assert NewEnvironments(OUTCOME, ()).half_width(0.9) == 0.0


def test_many_rows_are_kept_as_quantiles() -> None:
    data = several(3, 1500)
    kept = fitted(data).new_environments().left_out
    errors = left_out_errors(data)
    assert [len(left.absolute_errors) for left in kept] == [1001] * 3
    for coverage in (0.5, 0.9):
        exact = np.quantile(errors, coverage, axis=1)
        np.testing.assert_allclose([left.quantile(coverage) for left in kept], exact, rtol=4e-3)


def test_moments_alone_take_errors_for_normal() -> None:
    model = BIP().fit(Moments.from_data(DATA))
    rows = fitted().new_environments()
    found = model.new_environments()
    assert [left.absolute_errors for left in found.left_out] == [None] * 4
    assert found.to_frame()["features"].tolist() == rows.to_frame()["features"].tolist()
    for figure in ("observed", "predicted", "rmse", "r2"):
        np.testing.assert_allclose(
            found.to_frame()[figure], rows.to_frame()[figure], rtol=1e-8, err_msg=figure
        )
    assert "–" not in str(found)
    ends = model.predict_interval(as_table(NEW), 0.8)
    q = norm.ppf(0.9) * sorted(rows.to_frame()["rmse"])[3]
    t = t_half_width(DATA.X[:, :2], DATA.y, NEW[:, :2], 0.8)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, np.maximum(t, q), rtol=1e-8)


class Drawn:
    """A rule that asks the random numbers only."""

    def select(self, findings: Findings) -> np.ndarray:
        return findings.options.rng.random(findings.target.n_features) < 0.5


def test_a_selection_without_an_environment_is_that_of_a_table_without_it() -> None:
    """With the random numbers of the first one, for each environment anew; a generator goes on as
    after the fit."""
    model = fitted(select=Drawn(), predict_with="selected")
    left_out = model.new_environments().left_out
    assert {left.features for left in left_out} == {model.selected_features_}
    expected = np.quantile(
        left_out_errors(DATA, select=Drawn(), predict_with="selected"), 0.9, axis=1
    )
    np.testing.assert_allclose([left.quantile(0.9) for left in left_out], expected, rtol=1e-9)
    generators = [np.random.default_rng(3) for _ in range(2)]
    models = [BIP(select=Drawn(), random_state=rng).fit(DATA) for rng in generators]
    models[0].predict_interval(as_table(NEW))
    assert generators[0].random() == generators[1].random()


@pytest.mark.parametrize(
    ("n_environments", "told"), [(1, ["cannot be trusted"]), (2, ["cannot be trusted"]), (5, [])]
)
def test_too_few_environments_are_said(n_environments: int, told: list[str]) -> None:
    """The same sentence wherever intervals and errors in new environments are."""
    model = fitted(several(n_environments))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PredictionWarning)
        ends = model.predict_interval(NEW)
    assert len(caught) == len(told)
    assert all(words in str(warning.message) for words, warning in zip(told, caught, strict=True))
    assert all(words in " ".join(str(model.new_environments()).split()) for words in told)
    assert [str(warning.message) for warning in caught] == [few_environments(n_environments)] * len(
        told
    )
    if n_environments == 1:
        assert model.new_environments().to_frame().empty
        t = t_half_width(several(1).X, several(1).y, NEW, 0.9)
        np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, t, rtol=1e-9)


@pytest.mark.parametrize("coverage", [0.0, 1.0, True, float("nan"), "0.9", [0.9]])
def test_coverage_is_a_share(coverage: object) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        fitted().predict_interval(NEW, coverage)


def test_averages_over_compatible_subsets() -> None:
    """By `predict_with`, which may change after fitting."""
    model = fitted()
    selected = model.predict(NEW)
    predictive = model.predictive_
    weights = np.exp(predictive.log_probabilities)
    n = int(np.searchsorted(np.cumsum(weights) / weights.sum(), 0.999)) + 1
    assert n > 1
    weights = weights[:n] / weights[:n].sum()
    masks = predictive.masks[:n]
    fits = [
        LinearRegression().fit(DATA.X[:, mask], DATA.y) if mask.any() else None for mask in masks
    ]
    of_all = np.full(7, DATA.y.mean())
    means = np.array(
        [of_all if f is None else f.predict(NEW[:, m]) for f, m in zip(fits, masks, strict=True)]
    )
    averaged = model.set_params(predict_with="average").predict(NEW)
    np.testing.assert_allclose(averaged, weights @ means, rtol=1e-10)
    np.testing.assert_array_equal(averaged, fitted(predict_with="average").predict(NEW))
    assert not np.array_equal(averaged, selected)
    freedoms = np.array([len(DATA.y) - 1 - mask.sum() for mask in masks])
    halves = np.array([t_half_width(DATA.X[:, mask], DATA.y, NEW[:, mask], 0.9) for mask in masks])
    variances = (halves / student.ppf(0.95, freedoms)[:, None]) ** 2
    between = weights @ (means - weights @ means) ** 2
    half = student.ppf(0.95, min(freedoms)) * np.sqrt(weights @ variances + between)
    used = masks.any(axis=0)
    np.testing.assert_allclose(
        model._predictor("average").half_width(NEW[:, used], 0.9), half, rtol=1e-9
    )
    with pytest.raises(SettingError, match="predict_with='mean'"):
        model.set_params(predict_with="mean").predict(NEW)


def test_a_regressor_predicts_with_the_selected_features() -> None:
    new = 2.0 * NEW
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(0.1))
    model = fitted(regressor=pipeline, predict_with="selected")
    own = clone(pipeline).fit(DATA.X[:, :2], DATA.y)
    np.testing.assert_allclose(model.predict(new), own.predict(new[:, :2]), rtol=1e-12)
    assert model.regressor_ is not pipeline
    assert not hasattr(pipeline, "n_features_in_")
    np.testing.assert_array_equal(model.coef_, fitted().coef_)
    folds = KFold(5, shuffle=True, random_state=0)
    noise = np.mean((DATA.y - cross_val_predict(pipeline, DATA.X[:, :2], DATA.y, cv=folds)) ** 2)
    plain = t_half_width(DATA.X[:, :2], DATA.y, new[:, :2], 0.9)
    residuals = DATA.y - LinearRegression().fit(DATA.X[:, :2], DATA.y).predict(DATA.X[:, :2])
    t = plain * np.sqrt(noise / (residuals @ residuals / (len(DATA.y) - 3)))
    np.testing.assert_allclose(
        model._predictor("selected").half_width(new[:, :2], 0.9), t, rtol=1e-9
    )
    q = np.quantile(
        left_out_errors(DATA, regressor=pipeline, predict_with="selected"), 0.9, axis=1
    ).max()
    ends = model.predict_interval(new)
    nearest = np.clip(new[:, :2], *np.quantile(DATA.X[:, :2], [0.025, 0.975], axis=0))
    line = LinearRegression().fit(DATA.X[:, :2], DATA.y)
    moved = [each.predict(new[:, :2]) - each.predict(nearest) for each in (line, own)]
    apart = np.abs(moved[0] - moved[1])
    assert (apart > 0.0).any()
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, np.maximum(t, q) + apart, rtol=1e-9)


def test_a_regressor_that_stays_flat_has_wider_intervals_far_away() -> None:
    """By what a straight line adds there; one that goes on as the line does has not."""
    far = NEW + np.array([0.0, 40.0, 0.0, 0.0])
    flat = fitted(regressor=DecisionTreeRegressor(max_depth=4))
    line = fitted(regressor=LinearRegression())
    with pytest.warns(
        PredictionWarning, match="7 of 7 rows lie where few training rows do, and the DecisionTree"
    ):
        low, high = flat.predict_interval(far).T
    assert ((low <= fitted().predict(far)) & (fitted().predict(far) <= high)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat.predict(DATA.X)
    with pytest.warns(PredictionWarning) as caught:
        widths = np.diff(line.predict_interval(far)), np.diff(fitted().predict_interval(far))
    assert not any("few training rows" in str(warning.message) for warning in caught)
    np.testing.assert_allclose(*widths, rtol=0.1)


def glm(
    y: np.ndarray, columns: np.ndarray, family: sm.families.Family, offset: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients by statsmodels."""
    return sm.GLM(y, columns, family=family, offset=offset).fit(tol=1e-12).params


def figures_of(kind: Any, *columns: Any) -> dict[str, float]:
    return {name: each.value for name, each in kind.measured(*columns).items()}


def test_figures_of_probabilities() -> None:
    """Too high and too extreme ones."""
    rng = np.random.default_rng(1)
    odds = rng.normal(size=150)
    y = (rng.uniform(size=150) < expit(odds)).astype(float)
    p = expit(0.7 + 1.8 * odds)
    found = figures_of(CLASS, y, p)
    binomial = sm.families.Binomial()
    expected = {
        "observed": y.mean(),
        "predicted": p.mean(),
        "intercept": glm(y, np.ones((150, 1)), binomial, logit(p))[0],
        "slope": glm(y, sm.add_constant(logit(p)), binomial)[1],
        "brier": brier_score_loss(y, p),
        "log_loss": log_loss(y, p),
        "auc": roc_auc_score(y, p),
    }
    assert tuple(found) == CLASS.figures
    assert found == pytest.approx(expected, rel=1e-8)
    assert found["slope"] < 0.8
    assert found["intercept"] < -0.2


def test_figures_of_rates_and_numbers() -> None:
    rng = np.random.default_rng(2)
    logs = rng.normal(size=150)
    exposure = rng.uniform(0.5, 8.0, 150)
    y = rng.poisson(exposure * np.exp(logs)).astype(float)
    rate = np.exp(0.4 + 1.5 * logs)
    poisson = sm.families.Poisson()
    ones = np.ones((150, 1))
    own = exposure * y.sum() / exposure.sum()
    expected = {
        "observed": y.sum() / exposure.sum(),
        "predicted": (rate * exposure).sum() / exposure.sum(),
        "intercept": glm(y, ones, poisson, np.log(rate * exposure))[0],
        "slope": glm(y, sm.add_constant(np.log(rate)), poisson, np.log(exposure))[1],
        "deviance_explained": 1.0 - poisson.deviance(y, rate * exposure) / poisson.deviance(y, own),
    }
    assert figures_of(COUNT, y, rate, exposure) == pytest.approx(expected, rel=1e-8)
    alone = figures_of(COUNT, y, rate)["deviance_explained"]
    assert alone == pytest.approx(d2_tweedie_score(y, rate, power=1), rel=1e-9)
    slope = np.polyfit(rate, logs, 1)[0]
    level = np.mean(logs - rate)
    numbers = [
        logs.mean(),
        rate.mean(),
        level,
        slope,
        np.sqrt(np.mean((logs - rate) ** 2)),
        r2_score(logs, rate),
    ]
    assert list(figures_of(NUMBER, logs, rate).values()) == pytest.approx(numbers, rel=1e-12)


def test_intervals_of_calibration_are_the_sandwich_of_statsmodels() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=120)
    exposure = rng.uniform(0.5, 8.0, 120)
    y = (rng.random(120) < expit(x)).astype(float)
    counts = rng.poisson(exposure * np.exp(0.5 * x)).astype(float)
    event = y
    time = rng.exponential(size=120)
    ones = np.ones((120, 1))
    log = np.log(exposure)
    binomial = sm.families.Binomial()
    poisson = sm.families.Poisson()
    hazard = np.exp(x), time / 3.0, event
    cases = [
        (CLASS.measured(y, expit(2.0 * x)), y, binomial, 2.0 * x, None),
        (COUNT.measured(counts, np.exp(x), exposure), counts, poisson, x, log),
        (
            TIME.measured(time, np.exp(-x), event=event, hazard=hazard),
            event,
            poisson,
            x,
            np.log(time / 3.0),
        ),
    ]
    for found, outcome, family, predictor, offset in cases:
        both = predictor if offset is None else predictor + offset
        level = sm.GLM(outcome, ones, family=family, offset=both).fit(cov_type="HC0", tol=1e-12)
        slope = sm.GLM(outcome, sm.add_constant(predictor), family=family, offset=offset).fit(
            cov_type="HC0", tol=1e-12
        )
        assert found["intercept"] == pytest.approx(
            (level.params[0], *level.conf_int()[0]), rel=1e-6
        )
        assert found["slope"] == pytest.approx((slope.params[1], *slope.conf_int()[1]), rel=1e-6)
    number = x + rng.normal(size=120)
    line = sm.OLS(number, sm.add_constant(x)).fit(cov_type="HC1", use_t=True)
    found = NUMBER.measured(number, x)
    assert found["slope"] == pytest.approx((line.params[1], *line.conf_int()[1]), rel=1e-8)
    level = sm.OLS(number - x, ones).fit()
    assert found["intercept"] == pytest.approx((level.params[0], *level.conf_int()[0]), rel=1e-8)


def jackknife(figure: str, kind: OutcomeKind, *columns: np.ndarray) -> float:
    """Standard error, by leaving out each row."""
    n = len(columns[0])
    without = [
        figures_of(kind, *(np.delete(column, i) for column in columns))[figure] for i in range(n)
    ]
    return float(np.sqrt((n - 1) / n * np.sum((np.array(without) - np.mean(without)) ** 2)))


def test_intervals_of_measures_are_those_of_the_jackknife() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=150)
    one = np.ones(150)
    y = (rng.random(150) < expit(x)).astype(float)
    number = x + rng.normal(size=150)
    count = rng.poisson(np.exp(x)) * 1.0
    times = rng.exponential(np.exp(-x))
    event = (rng.random(150) < 0.7).astype(float)
    for kind, figure, columns, scale in (
        (NUMBER, "rmse", (number, x), np.log),
        (NUMBER, "intercept", (number, x), np.asarray),
        (NUMBER, "slope", (number, x), np.asarray),
        (NUMBER, "r2", (number, x), np.asarray),
        (CLASS, "auc", (y, expit(x)), logit),
        (COUNT, "deviance_explained", (count, np.exp(0.8 * x), one), np.asarray),
        (TIME, "concordance", (times, np.exp(-x), one, event), logit),
    ):
        value, low, high = kind.measured(*columns)[figure]
        width = jackknife(figure, kind, *columns) * abs(scale(value + 1e-6) - scale(value)) / 1e-6
        assert (scale(high) - scale(low)) / 2.0 / 1.96 == pytest.approx(width, rel=0.06), figure
        assert low < value < high


def test_groups_of_calibration_hold_the_rows_and_their_means() -> None:
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.95, 203)
    y = (rng.random(203) < p).astype(float)
    groups = calibration_groups(CLASS, y, p, None, p)
    assert (len(groups), groups[:, 4].sum()) == (5, 203)
    assert (groups[:, 4] @ groups[:, :2] / 203).tolist() == pytest.approx([p.mean(), y.mean()])
    k = round(groups[0, 1] * groups[0, 4])
    n = int(groups[0, 4])
    assert groups[0, 2:4] == pytest.approx(proportion_confint(k, n, method="wilson"))
    assert len(calibration_groups(CLASS, y, np.full(203, 0.5), None, np.full(203, 0.5))) == 1
    weights = rng.uniform(1.0, 4.0, 203)
    (only,) = calibration_groups(COUNT, y, p, weights, np.zeros(203))
    assert only[:2] == pytest.approx([p @ weights / weights.sum(), y.sum() / weights.sum()])


def test_intervals_stay_where_values_can_be() -> None:
    none = np.zeros(30)
    one = np.ones(30)
    (only,) = calibration_groups(COUNT, none, 0.1 * one, 2.0 * one, one)
    assert only[1:4] == pytest.approx([0.0, 0.0, chi2.ppf(0.975, 2) / 2.0 / 60.0])
    event = np.append(0.0, np.ones(19))
    (only,) = calibration_groups(TIME, event, 0.9 * one[:20], None, one[:20])
    assert only[2:4] == pytest.approx(proportion_confint(19, 20, method="wilson"))
    counts = np.array([0.0, 1.0, 40.0])
    explained = COUNT.measured(counts, np.array([1e-3, 2.5, 40.0]))["deviance_explained"]
    assert explained.low < explained.value < explained.high == 1.0
    number = np.array([1.0, -2.0, 0.5])
    value, low, high = NUMBER.measured(number, np.zeros(3))["rmse"]
    wide = student.ppf(0.975, 2) * np.std(number**2, ddof=1) / (2.0 * value**2 * np.sqrt(3))
    assert np.log([low / value, high / value]).tolist() == pytest.approx([-wide, wide])
    assert np.isnan(NUMBER.measured(number[:2], np.zeros(2))["rmse"].high)


def test_calibration_of_times_ends_with_what_others_have_seen() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    site = np.repeat(["a", "b", "c", "long"], 100)
    times = rng.exponential(np.exp(-x))
    end = np.where(site == "long", 6.0, 0.5)
    model = BIPSurvival().fit(
        x[:, None], np.minimum(times, end), environments=site, event=times <= end
    )
    left = model.new_environments().left_out[-1]
    assert left.events == (times <= 6.0)[site == "long"].sum()
    assert left.figures["observed"] == (times <= 0.5)[site == "long"].mean()
    assert left.calibration[:, 1] @ left.calibration[:, 4] == pytest.approx(
        (times <= 0.5)[site == "long"].sum()
    )
    low, high = left.intervals["intercept"]
    assert low < 0.0 < high


@pytest.mark.parametrize(
    ("kind", "y", "predicted", "unknown"),
    [
        ("class", [0, 0, 0], [0.2, 0.4, 0.3], {"intercept", "slope", "auc"}),  # one class
        ("class", [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # separated
        ("class", [1, 1, 0, 0], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # the wrong way round
        ("class", [0, 1, 1, 0], [0.3, 0.3, 0.3, 0.3], {"slope"}),  # nothing to multiply
        ("class", [0, 1, 1, 0], [0.0, 1.0, 0.3, 0.6], set()),  # certain, and right
        ("class", [0, 1, 0, 1], [1.0, 0.0, 0.3, 0.6], set()),  # certain, and wrong
        (
            "count",
            [0, 0, 0],
            [0.2, 0.4, 0.3],
            {"intercept", "slope", "deviance_explained"},
        ),  # no events
        ("count", [0, 0, 3], [0.2, 0.3, 0.4], {"slope"}),  # all at the largest rate
        ("count", [0, 3, 0], [0.2, 0.3, 0.4], set()),
        ("count", [2, 2, 2], [0.2, 0.3, 0.4], {"deviance_explained"}),  # no scatter
        (
            "count",
            [0, 1, 2],
            [0.2, -0.3, 0.4],
            {"intercept", "slope", "deviance_explained"},
        ),  # no rate
    ],
)
def test_what_is_not_defined(
    kind: str, y: list[float], predicted: list[float], unknown: set[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = figures_of(KINDS[kind], np.array(y, float), np.array(predicted, float))
    assert {name for name, value in found.items() if not np.isfinite(value)} == unknown


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.floats(-60.0, 60.0)), min_size=2, max_size=30))
def test_a_slope_and_a_shift_are_where_they_should_be(rows: list[tuple[bool, float]]) -> None:
    y = np.array([row[0] for row in rows], float)
    p = expit(np.array([row[1] for row in rows]))
    found = figures_of(CLASS, y, p)
    if not np.isnan(found["intercept"]):
        np.testing.assert_allclose(
            expit(log_odds(p) + found["intercept"]).mean(), y.mean(), atol=1e-6
        )
    # At the maximum of the likelihood nothing is left that log odds explain.
    odds = log_odds(p) * found["slope"]
    if np.abs(odds).max() < 30.0:  # beyond, expit rounds
        own = figures_of(CLASS, y, expit(odds))["intercept"]
        assert abs(np.mean((y - expit(odds + own)) * odds)) < 1e-4 * max(1.0, np.abs(odds).max())


EXPOSURE = np.random.default_rng(6).uniform(1.0, 9.0, len(X))
VISITS = (
    np.random.default_rng(7)
    .poisson(EXPOSURE * np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1] - 1.0))
    .astype(float)
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "y", "outcome_columns"),
    [
        (BIPClassifier(predict_with="selected"), LABELS, {}),
        (BIPClassifier(predict_with="average"), LABELS, {}),
        (BIP(family=Poisson(), predict_with="selected"), VISITS, {"exposure": EXPOSURE}),
    ],
    ids=["selected", "average", "rates"],
)
def test_figures_in_environments_that_were_left_out(
    model: BIP, y: np.ndarray, outcome_columns: dict
) -> None:
    frame = (
        model.fit(X, y, SITE, **outcome_columns)
        .new_environments()
        .to_frame()
        .set_index("environment")
    )
    assert model.selected_features_ == ("x0", "x1")
    assert list(frame.index) == [0, 1, 2, 3]
    for e in range(4):
        own = e == SITE
        other = clone(model).fit(
            X[~own], y[~own], SITE[~own], **{k: v[~own] for k, v in outcome_columns.items()}
        )
        if outcome_columns:
            expected = figures_of(COUNT, y[own], other.predict(X[own]), EXPOSURE[own])
        else:
            expected = figures_of(CLASS, Y[own].astype(float), other.predict_proba(X[own])[:, 1])
        assert {name: frame.loc[e, name] for name in expected} == pytest.approx(expected, rel=1e-8)
        assert (frame.loc[e, "rows"], frame.loc[e, "features"]) == (100, other.columns_to_predict)


def test_what_a_person_reads() -> None:
    found = classifier().new_environments()
    text = str(found)
    frame = found.to_frame()
    assert max(map(len, text.splitlines())) <= 80
    worst = frame.loc[(frame["observed"] - frame["predicted"]).abs().idxmax()]
    told = f"'{worst['environment']}': {worst['observed']:.3g} observed, {worst['predicted']:.3g}"
    assert told in " ".join(text.split())
    head, *rows = [line.split() for line in text.splitlines()[-5:]]
    assert head == [
        "environment",
        "rows",
        "observed",
        "predicted",
        "intercept",
        "slope",
        "Brier",
        "AUC",
    ]
    shown = frame[["observed", "predicted", "intercept", "slope", "brier", "auc"]]
    np.testing.assert_allclose(
        [[float(cell) for cell in row[2:]] for row in rows], shown, atol=5.1e-4
    )


@pytest.mark.filterwarnings("ignore")
def test_environments_of_one_class_or_that_cannot_be_left_out() -> None:
    found = (
        BIPClassifier()
        .fit(X, np.where(SITE == 2, "no", LABELS), environments=SITE)
        .new_environments()
    )
    row = found.to_frame().set_index("environment").loc[2]
    assert np.isnan([row["intercept"], row["slope"], row["auc"]]).all()
    assert row["observed"] == 0.0
    assert str(found).splitlines()[-2].split()[-1] == "–"
    found = (
        BIPClassifier()
        .fit(X, np.where(SITE == 2, LABELS, "no"), environments=SITE)
        .new_environments()
    )
    assert found.impossible == (2,)
    assert "1 of 4 environments ('2')" in " ".join(str(found).split())


def test_what_cannot_be_fitted_without_an_environment_takes_nothing_from_the_others() -> None:
    """All 8 columns need 40 events, which three of four environments do not have."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(52, 8))
    times = rng.exponential(np.exp(-X[:, 0]))
    site = np.repeat(list("abcd"), 13)
    model = BIPSurvival(predict_with="selected", progress=False).fit(
        X, times, site, event=np.ones(52)
    )
    assert model.decision_.prediction.reason == ""
    price = model.cost_of_invariance()
    assert len(model.new_environments().left_out) == 4
    assert (np.isnan(price.selected).sum(), np.isnan(price.everything).sum()) == (0, 4)
    again = clone(model).fit(X, times, site, event=np.ones(52))
    again.new_environments()
    np.testing.assert_array_equal(again.cost_of_invariance().selected, price.selected)


def test_shrunk_rates_do_not_depend_on_the_unit_of_exposure() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 20))
    exposure = rng.uniform(0.5, 2.0, size=80)
    y = rng.poisson(exposure * np.exp(1.0 + 0.6 * X[:, 0]))
    site = np.repeat(list("abcd"), 20)
    years, days = (
        regression_on_everything(
            Poisson(), MultiEnvironmentData.from_arrays(X, y, site, exposure=unit * exposure)
        )
        for unit in (1.0, 36525.0)
    )
    np.testing.assert_allclose(days.coefficients, years.coefficients, rtol=1e-6)
    assert days.intercept + np.log(36525.0) == pytest.approx(years.intercept, rel=1e-6)


def test_all_features_predict_classes_where_one_environment_has_all_events() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 15))
    y = np.arange(60) < 8
    with pytest.warns(match="no row, or every one, is an event"):
        model = BIPClassifier(progress=False).fit(X, y, np.repeat(list("abc"), 20))
    assert model.decision_.prediction.reason == ""


@pytest.mark.parametrize("baseline", ["auto", "free"])
def test_with_free_baselines_each_is_predicted_as_a_fit_to_the_others_predicts(
    baseline: str,
) -> None:
    """By a line with random intercepts, whichever kind of prediction is asked for first."""
    data = own_baselines()
    env = own_baselines().environment_index
    chosen = np.array([True, True, False, False])
    for kinds in (("selected", "average"), ("average", "selected")):
        model = fitted(data, baseline=baseline)
        assert model.decision_.level == "effects"
        for kind in kinds:
            found = model.set_params(predict_with=kind).new_environments()
            for e, left in enumerate(found.left_out):
                rest = env != e
                own = env == e
                others = fitted(several_of(data, rest), baseline=baseline, predict_with=kind)
                missed = data.y[own] - others.predict(data.X[own])
                assert left.figures["rmse"] == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-9)
                if kind == "selected":
                    line, _ = mixed_by_rows(data.X[rest][:, chosen], data.y[rest], env[rest])
                    missed = data.y[own] - data.X[own][:, chosen] @ line[:-1] - line[-1]
                    assert left.figures["rmse"] == pytest.approx(
                        np.sqrt(np.mean(missed**2)), rel=1e-5
                    )


def several_of(data: MultiEnvironmentData, rows: np.ndarray) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(
        data.X[rows], data.y[rows], data.environment_index[rows]
    )
