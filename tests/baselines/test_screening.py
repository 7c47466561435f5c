"""The Lasso screen, methods behind it, and the selections from pooled rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LassoCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from conformance_cases import StatsmodelsLogistic, table
from invariance import BIP, InclusionPrior
from invariance.baselines import (
    EILLS,
    ICP,
    LassoScreen,
    LassoSelection,
    MarginalSelection,
    Oracle,
    PooledRegression,
    Screened,
)
from invariance.baselines.regression import coefficient_tests
from invariance.data import MultiEnvironmentData
from invariance.datasets import make_example
from invariance.exceptions import DataWarning
from two_classes import LABELS, SITE, X, Y

EXAMPLE = make_example()
SELECTED = {"predict_with": "selected"}


def wide(p: int = 40, n: int = 60, E: int = 3, seed: int = 0) -> MultiEnvironmentData:
    """Features 3 and 7 cause y; feature 11 has enormous units."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    X = rng.normal(size=(n * E, p)) * (1 + 0.5 * env[:, None])
    y = 2 * X[:, 3] - 1.5 * X[:, 7] + rng.normal(size=n * E)
    X[:, 11] *= 1e12
    return MultiEnvironmentData.from_arrays(X, y, env)


def with_columns(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.column_stack([EXAMPLE.X, *columns]), EXAMPLE.y, EXAMPLE.environment_index


@pytest.mark.parametrize(("k", "standardize"), [(1, True), (5, True), (5, False)])
def test_screen_takes_the_largest_lasso_coefficients(k: int, standardize: bool) -> None:
    data = wide()
    if not standardize:
        data.X[:, [3, 11]] *= [1e6, 1e-12]
    screening = LassoScreen(k=k, cv=4, standardize=standardize).screen(data)
    folds = KFold(4, shuffle=True, random_state=0)
    X = StandardScaler(with_std=standardize).fit_transform(data.X)
    wanted = LassoCV(cv=folds).fit(X, data.y).coef_
    np.testing.assert_allclose(screening.coefficients, wanted, atol=1e-6)
    largest = np.argsort(-np.abs(wanted))[:k]
    assert set(np.flatnonzero(screening.kept)) == set(largest[wanted[largest] != 0])
    assert screening.kept[3]
    assert screening.kept[7] == (standardize and k > 1)
    assert not screening.used_fallback


def test_without_any_coefficient_correlation_decides() -> None:
    few = Screened(ICP()).fit(EXAMPLE)
    assert few.screened_.all()
    assert not few.used_fallback_
    rng = np.random.default_rng(3)
    data = MultiEnvironmentData.from_arrays(
        rng.normal(size=(60, 30)), rng.normal(size=60), np.repeat([0, 1], 30)
    )
    screening = LassoScreen(k=4).screen(data)
    assert not screening.coefficients.any()
    assert screening.used_fallback
    correlations = np.abs([np.corrcoef(column, data.y)[0, 1] for column in data.X.T])
    assert set(np.flatnonzero(screening.kept)) == set(np.argsort(-correlations)[:4])


@pytest.mark.parametrize(
    "method", [ICP(), EILLS(), BIP(**SELECTED), BIP(prior="beta-binomial(1,3)", **SELECTED)]
)
def test_screened_method_equals_the_method_on_the_screened_features(method: object) -> None:
    data = wide()
    model = Screened(method, LassoScreen(k=4)).fit(data.X, data.y, data.environment_index)
    kept = np.flatnonzero(model.screened_)
    assert model.screened_features_ == tuple(f"x{j}" for j in kept)
    alone = clone(method).fit(data.X[:, kept], data.y, data.environment_index)
    np.testing.assert_array_equal(kept[alone.support_], np.flatnonzero(model.support_))
    np.testing.assert_allclose(model.predict(data.X), alone.predict(data.X[:, kept]))
    for name in ("p_values_", "inclusion_probabilities_"):
        assert hasattr(model, name) == hasattr(alone, name)
        if hasattr(alone, name):
            np.testing.assert_array_equal(getattr(model, name)[kept], getattr(alone, name))
            np.testing.assert_array_equal(np.isnan(getattr(model, name)), ~model.screened_)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("forced", ["x0", "g"])
def test_a_screened_logistic_model_predicts_probabilities(forced: str) -> None:
    data = table(grouped=forced == "g", binary=True)
    method = BIP(
        StatsmodelsLogistic(), prior=InclusionPrior({forced: 1.0}), engine="exact", **SELECTED
    )
    model = Screened(method, LassoScreen(k=2)).fit(data)
    assert forced in model.selected_features_
    kept = data.features.chosen(np.isin(data.feature_names, model.screened_features_))
    X = pd.DataFrame(data.X, columns=data.features.columns)
    predicted = model.predict(X)
    np.testing.assert_allclose(
        predicted, model.estimator_.predict(X[list(kept.columns)]), rtol=1e-12
    )
    linear = data.X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(predicted, 1.0 / (1.0 + np.exp(-linear)), rtol=1e-12)
    assert np.ptp(predicted) > 0.3


def test_a_screened_logistic_model_scores_words() -> None:
    model = Screened(BIP("logistic"), LassoScreen(k=3)).fit(X, LABELS, environments=SITE)
    residual = Y - model.predict(X)
    assert model.score(X, LABELS) == pytest.approx(1.0 - residual @ residual / (len(Y) * Y.var()))


@pytest.mark.parametrize("near", [False, True])
def test_pooled_regression_is_least_squares(near: bool) -> None:
    """Also where the outcome is nearly determined."""
    sm = pytest.importorskip("statsmodels.api")
    copy = EXAMPLE.y + 1e-5 * np.random.default_rng(0).normal(size=EXAMPLE.n_rows)
    X, y, env = with_columns(*[copy] * near)
    wanted = sm.OLS(y, sm.add_constant(X)).fit().pvalues[1:]
    found, exact = coefficient_tests(X, y, np.ones(X.shape[1], int))
    assert not exact
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if near else 1e-6, atol=1e-300)
    for alpha in (0.05, 1e-12):
        model = PooledRegression(alpha).fit(X, y, env)
        np.testing.assert_array_equal(model.support_, wanted < alpha)
        assert not model.used_lasso_
        assert 0 < model.support_.sum() < X.shape[1]


@pytest.mark.parametrize(
    ("scale", "others", "parts"), [(1.0, 0.0, [8]), (-1e-20, 0.0, [8]), (1.0, 2.0, [0, 8])]
)
def test_what_determines_the_outcome_is_named_and_selected_alone(
    scale: float, others: float, parts: list[int]
) -> None:
    named = ", ".join(f"'x{j}'" for j in parts)
    X, y, env = with_columns(scale * (EXAMPLE.y - others * EXAMPLE.X[:, 0]))
    with pytest.warns(DataWarning, match=f"'y'.* of {named}, "):
        model = PooledRegression().fit(X, y, env)
    assert np.flatnonzero(model.support_).tolist() == parts
    assert model.p_values_.tolist() == [0.0 if j in parts else 1.0 for j in range(9)]
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-9)
    with pytest.warns(DataWarning, match=named):
        assert np.flatnonzero(Oracle([0, 1, 8]).fit(X, y, env).support_).tolist() == parts


def test_pooled_regression_names_redundant_features_and_falls_back_on_the_lasso() -> None:
    with pytest.warns(DataWarning, match="'x8'"):
        model = PooledRegression().fit(*with_columns(EXAMPLE.X[:, 0] + EXAMPLE.X[:, 1]))
    assert np.isnan(model.p_values_[8])
    assert not model.support_[8]
    for p in (59, 90):
        model = PooledRegression().fit(wide(p=p, n=20))
        assert model.used_lasso_
        assert model.support_[[3, 7]].all()
    lasso = LassoSelection().fit(wide())
    np.testing.assert_array_equal(lasso.support_, lasso.lasso_coef_ != 0)
    assert lasso.support_[[3, 7]].all()
    assert lasso.penalty_ > 0


def test_marginal_selection_is_pearson() -> None:
    data = wide()
    model = MarginalSelection().fit(
        np.column_stack([data.X, -data.y]), data.y, data.environment_index
    )
    wanted = [stats.pearsonr(column, data.y) for column in data.X.T]
    np.testing.assert_allclose(model.correlations_[:-1], [r.statistic for r in wanted], atol=1e-12)
    np.testing.assert_allclose(model.p_values_[:-1], [r.pvalue for r in wanted], rtol=1e-8)
    assert model.p_values_[-1] < 1e-100
    assert model.support_[-1]
