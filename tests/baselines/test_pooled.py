"""Rivals on all features, each against the conditions that its own estimate must meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score

from invariance import BIP, MultiEnvironmentData
from invariance.baselines import (
    ICP,
    LassoScreen,
    LassoSelection,
    Pooled,
    PooledRegression,
    RidgeRegression,
    Screened,
)
from invariance.datasets import make_example
from invariance.exceptions import DataError, DataWarning, SettingError
from invariance.kinds.time import concordance

RNG = np.random.default_rng(1)
N = 300
SITE = np.repeat(["a", "b", "c"], 100)
X = RNG.normal(size=(N, 4)) * np.array([1.0, 30.0, 0.2, 1.0]) + RNG.normal(size=(3, 4)).repeat(
    100, axis=0
)
LINEAR = 0.8 * X[:, 0] - 0.02 * X[:, 1]
EXPOSURE = RNG.uniform(0.5, 4.0, size=N)
DIED = (RNG.random(N) < expit(LINEAR)).astype(float)
FALLS = RNG.poisson(EXPOSURE * np.exp(0.5 * LINEAR)).astype(float)


def classes() -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(X, DIED, SITE)


def counts() -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(X, FALLS, SITE, exposure=EXPOSURE)


UNIT = (X - X.mean(axis=0)) / X.std(axis=0)


def score(model: Any, data: MultiEnvironmentData) -> tuple[np.ndarray, float]:
    """(q,) derivative of the mean log-likelihood by the coefficients of columns with deviation 1;
    by the intercept"""
    expected = model.predict(X) * (1.0 if data.exposure is None else data.exposure)
    left = data.y - expected
    return UNIT.T @ left / N, float(left.mean())


@pytest.mark.parametrize("data", [classes(), counts()], ids=["classes", "counts"])
def test_lasso_meets_its_conditions(data: MultiEnvironmentData) -> None:
    model = LassoSelection().fit(data)
    slopes, intercept = score(model, data)
    kept = model.lasso_coef_ != 0.0
    assert kept.any()
    np.testing.assert_array_equal(model.support_, kept)
    np.testing.assert_allclose(
        slopes[kept], model.penalty_ * np.sign(model.lasso_coef_[kept]), atol=2e-4
    )
    assert (np.abs(slopes[~kept]) <= model.penalty_ + 2e-4).all()
    assert abs(intercept) < 2e-4
    np.testing.assert_allclose(model.coef_, model.lasso_coef_ / X.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    "data", [classes(), counts(), make_example()], ids=["classes", "counts", "numbers"]
)
def test_ridge_meets_its_conditions(data: MultiEnvironmentData) -> None:
    model = RidgeRegression().fit(data)
    assert model.support_.all()
    expected = model.predict(data.X) * (1.0 if data.exposure is None else data.exposure)
    unit = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    slopes = unit.T @ (data.y - expected) / len(data.y)
    np.testing.assert_allclose(
        slopes, model.strength_ * model.coef_ * data.X.std(axis=0), atol=2e-3
    )


def test_the_strength_of_ridge_is_that_of_the_least_error_over_folds() -> None:
    y = 0.3 * UNIT[:, 0] + np.random.default_rng(0).normal(size=N)
    strengths = np.logspace(-4.0, 2.0, 13)
    folds = KFold(5, shuffle=True, random_state=0)
    errors = [
        -cross_val_score(Ridge(N * s), UNIT, y, cv=folds, scoring="neg_mean_squared_error")
        for s in strengths
    ]
    best = int(np.argmin(np.mean(errors, axis=1)))
    assert 0 < best < 12
    assert RidgeRegression().fit(X, y, SITE).strength_ == pytest.approx(strengths[best])


def test_ridge_of_rates_does_not_depend_on_the_unit_of_exposure() -> None:
    days, years = (
        RidgeRegression().fit(
            MultiEnvironmentData.from_arrays(X, FALLS, SITE, exposure=unit * EXPOSURE)
        )
        for unit in (36525.0, 1.0)
    )
    np.testing.assert_allclose(days.coef_, years.coef_, rtol=1e-6)


def test_lasso_of_numbers_predicts_by_its_own_coefficients() -> None:
    data = make_example()
    model = LassoSelection().fit(data)
    np.testing.assert_allclose(model.coef_, model.lasso_coef_ / data.X.std(axis=0), rtol=1e-9)
    assert model.predict(data.X).mean() == pytest.approx(data.y.mean())


def test_regression_of_classes_is_logistic_on_all_features() -> None:
    """Up to the one row among 300 that keeps fits finite."""
    model = PooledRegression().fit(X, DIED, SITE)
    wanted = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(UNIT, DIED)
    np.testing.assert_allclose(model.predict(X), wanted.predict_proba(UNIT)[:, 1], atol=2e-3)

    def log_likelihood(columns: list[int]) -> float:
        fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(UNIT[:, columns], DIED)
        return float(fit.predict_log_proba(UNIT[:, columns])[np.arange(N), DIED.astype(int)].sum())

    full = log_likelihood([0, 1, 2, 3])
    expected = [
        chi2.sf(2 * (full - log_likelihood([k for k in range(4) if k != j])), 1) for j in range(4)
    ]
    np.testing.assert_allclose(np.log(model.p_values_), np.log(expected), rtol=2e-2)
    np.testing.assert_array_equal(model.support_, np.array(expected) < 0.05)
    assert not model.support_.all()
    assert (model.coef_ != 0.0).all()


def test_a_combination_of_features_is_tested_by_no_regression() -> None:
    alone = PooledRegression().fit(X, DIED, SITE)
    with pytest.warns(DataWarning, match="'x4'"):
        model = PooledRegression().fit(np.column_stack([X, X[:, 0] + X[:, 3]]), DIED, SITE)
    np.testing.assert_allclose(model.p_values_, [*alone.p_values_, np.nan], rtol=1e-5)
    np.testing.assert_allclose(model.coef_, [*alone.coef_, 0.0], rtol=1e-5)


def test_regression_of_numbers_predicts_with_all_features() -> None:
    data = make_example()
    model = PooledRegression(alpha=1e-6).fit(data)
    assert not model.support_.all()
    beta = np.linalg.lstsq(np.column_stack([np.ones(len(data.y)), data.X]), data.y, rcond=None)[0]
    np.testing.assert_allclose([model.intercept_, *model.coef_], beta, rtol=1e-8)


def test_regression_of_counts_and_times() -> None:
    model = PooledRegression().fit(counts())
    slopes, _ = score(model, counts())
    assert np.abs(slopes).max() < 0.05
    assert model.support_.tolist() == [True, True, False, False]
    times = RNG.exponential(np.exp(-LINEAR))
    event = (times < 2.0).astype(float)
    data = MultiEnvironmentData.from_arrays(X, np.minimum(times, 2.0), SITE, event=event)
    model = PooledRegression().fit(data)
    np.testing.assert_allclose(model.coef_[:2], [0.8, -0.02], rtol=0.35)
    order = model.predict_restricted_mean(X, 2.0)
    assert concordance(data.y, event, order) == pytest.approx(
        concordance(data.y, event, -(X @ model.coef_))
    )
    median = model.predict(X)
    np.testing.assert_array_equal(
        np.argsort(median[np.isfinite(median)]), np.argsort(order[np.isfinite(median)])
    )
    for method in (
        LassoSelection(),
        RidgeRegression(),
        Pooled("forest"),
        Pooled("boosting"),
        ICP(),
    ):
        with pytest.raises(DataError, match="event"):
            method.fit(data)


def test_an_environment_without_events_does_not_stop_pooled_methods() -> None:
    died = np.where(SITE == "c", 0.0, DIED)
    with pytest.raises(DataError, match="'c'"):
        ICP().fit(X, died, SITE)
    for method in (
        PooledRegression(),
        LassoSelection(),
        RidgeRegression(),
        Pooled("forest"),
        Pooled("boosting"),
    ):
        chances = method.fit(X, died, SITE).predict(X)
        assert ((chances > 0.0) & (chances < 1.0)).all()


@pytest.mark.parametrize("method", [Pooled("forest"), Pooled("boosting")])
def test_trees_know_the_kind_and_find_their_columns(method: Any) -> None:
    table = pd.DataFrame(X, columns=list("wxyz")).assign(ward=np.resize(["m", "n", "o"], N))
    model = method.fit(table, np.where(DIED, "yes", "no"), SITE)
    chances = model.predict(table)
    assert ((chances > 0.0) & (chances < 1.0)).all()
    assert np.mean(DIED * np.log(chances) + (1 - DIED) * np.log(1 - chances)) > -0.6
    np.testing.assert_array_equal(
        chances, method.fit(table, np.where(DIED, "yes", "no"), SITE).predict(table)
    )
    assert np.isnan(model.coef_).all()
    rates = method.fit(counts()).predict(
        pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])[["x3", "x1", "x0", "x2"]]
    )
    assert (rates > 0.0).all()
    assert (EXPOSURE * rates).sum() == pytest.approx(FALLS.sum(), rel=0.1)


def test_an_estimator_of_scikit_learn_predicts_as_it_does() -> None:
    data = make_example()
    model = Pooled(Ridge(3.0)).fit(data)
    np.testing.assert_allclose(
        model.predict(data.X), Ridge(3.0).fit(data.X, data.y).predict(data.X)
    )
    chances = Pooled(LogisticRegression()).fit(X, np.where(DIED, 7, 3), SITE).predict(X)
    wanted = LogisticRegression().fit(X, DIED).predict_proba(X)[:, 1]
    np.testing.assert_allclose(chances, np.clip(wanted, 0.5 / N, 1.0 - 0.5 / N))
    with pytest.raises(DataError, match="Ridge"):
        Pooled(Ridge()).fit(X, DIED, SITE)
    with pytest.raises(SettingError, match="forests"):
        Pooled("forests").fit(X, DIED, SITE)


def test_icp_predicts_classes_by_their_own_model() -> None:
    model = ICP(alpha=0.4).fit(X, np.where(DIED, 7, 3), SITE)
    chosen = X[:, model.support_]
    assert 0 < chosen.shape[1] < 4
    unit = (chosen - chosen.mean(axis=0)) / chosen.std(axis=0)
    wanted = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(unit, DIED)
    np.testing.assert_allclose(model.predict(X), wanted.predict_proba(unit)[:, 1], atol=2e-3)


@pytest.mark.parametrize(
    "inner", [BIP(predict_with="average"), BIP(regressor=RidgeRegression()), Pooled("forest")]
)
def test_a_screened_method_predicts_as_it_does(inner: Any) -> None:
    data = make_example()
    model = Screened(inner, LassoScreen(k=4)).fit(data)
    alone = data.X[:, model.screened_]
    np.testing.assert_allclose(model.predict(data.X), model.estimator_.predict(alone))
