"""The Lasso screen, methods behind it, and the pooled selections."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LassoCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from invariance import BIP
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
from invariance.exceptions import DataError, DataWarning


def wide(p: int = 40, n: int = 60, E: int = 3, seed: int = 0) -> MultiEnvironmentData:
    """Features 3 and 7 cause y; feature 11 has enormous units."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    X = rng.normal(size=(n * E, p)) * (1 + 0.5 * env[:, None])
    y = 2 * X[:, 3] - 1.5 * X[:, 7] + rng.normal(size=n * E)
    X[:, 11] *= 1e12
    return MultiEnvironmentData.from_arrays(X, y, env)


def test_screen_takes_the_largest_standardised_lasso_coefficients() -> None:
    data = wide()
    screening = LassoScreen(k=5, cv=4).screen(data)
    folds = KFold(4, shuffle=True, random_state=0)
    wanted = LassoCV(cv=folds).fit(StandardScaler().fit_transform(data.X), data.y).coef_
    np.testing.assert_allclose(screening.coefficients, wanted, atol=1e-6)
    largest = np.argsort(-np.abs(wanted))[:5]
    assert set(np.flatnonzero(screening.kept)) == set(largest[wanted[largest] != 0])
    assert screening.kept[[3, 7]].all()
    assert not screening.used_fallback


def test_screen_cuts_to_k_features() -> None:
    assert LassoScreen(k=1).screen(wide()).kept.sum() == 1


def test_without_any_coefficient_correlation_decides() -> None:
    rng = np.random.default_rng(3)
    data = MultiEnvironmentData.from_arrays(rng.normal(size=(60, 30)), rng.normal(size=60), np.repeat([0, 1], 30))
    screening = LassoScreen(k=4).screen(data)
    assert not screening.coefficients.any()
    assert screening.used_fallback
    correlations = np.abs([np.corrcoef(column, data.y)[0, 1] for column in data.X.T])
    assert set(np.flatnonzero(screening.kept)) == set(np.argsort(-correlations)[:4])
    model = Screened(ICP(), LassoScreen(k=4)).fit(data)
    assert model.used_fallback_


def test_unstandardised_screen_is_misled_by_units() -> None:
    data = wide()
    units = np.where(np.arange(40) == 3, 1e6, np.where(np.arange(40) == 11, 1e-12, 1.0))
    mixed = MultiEnvironmentData.from_arrays(data.X * units, data.y, data.environment_index)
    assert LassoScreen().screen(mixed).kept[7]
    assert not LassoScreen(standardize=False).screen(mixed).kept[7]


@pytest.mark.parametrize("method", [ICP(), EILLS(), BIP()])
def test_screened_method_equals_the_method_on_the_screened_features(method: object) -> None:
    data = wide()
    model = Screened(method, LassoScreen(k=4)).fit(data.X, data.y, data.environment_index)
    kept = np.flatnonzero(model.screened_)
    assert model.screened_features_ == tuple(f"x{j}" for j in kept)
    alone = type(method)().fit(data.X[:, kept], data.y, data.environment_index)
    np.testing.assert_array_equal(kept[alone.support_], np.flatnonzero(model.support_))
    np.testing.assert_allclose(model.predict(data.X), alone.predict(data.X[:, kept]))
    for name in ("p_values_", "inclusion_probabilities_"):
        assert hasattr(model, name) == hasattr(alone, name)
        if hasattr(alone, name):
            np.testing.assert_array_equal(getattr(model, name)[kept], getattr(alone, name))
            np.testing.assert_array_equal(np.isnan(getattr(model, name)), ~model.screened_)


def test_few_features_all_pass_without_a_lasso() -> None:
    model = Screened(ICP()).fit(make_example())
    assert model.screened_.all()
    assert not model.used_fallback_


@pytest.mark.parametrize("parameters", [{"k": 0}, {"k": 2.5}, {"cv": 1}])
def test_bad_screens(parameters: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        LassoScreen(**parameters).screen(wide())


def test_too_few_rows_for_the_folds() -> None:
    with pytest.raises(DataError, match=r"use LassoScreen\(cv=6\)\."):
        LassoScreen(cv=10).screen(wide(n=4))


def test_coefficient_p_values_are_those_of_least_squares() -> None:
    sm = pytest.importorskip("statsmodels.api")
    data = make_example()
    wanted = sm.OLS(data.y, sm.add_constant(data.X)).fit().pvalues[1:]
    np.testing.assert_allclose(
        coefficient_tests(data.X, data.y, np.ones(data.n_features, int))[0], wanted, rtol=1e-6, atol=1e-300
    )


@pytest.mark.parametrize("alpha", [0.05, 1e-12])
def test_pooled_regression_selects_by_significance(alpha: float) -> None:
    sm = pytest.importorskip("statsmodels.api")
    data = make_example()
    model = PooledRegression(alpha).fit(data)
    wanted = sm.OLS(data.y, sm.add_constant(data.X)).fit().pvalues[1:] < alpha
    assert 0 < wanted.sum() < 8
    np.testing.assert_array_equal(model.support_, wanted)
    assert not model.used_lasso_


def test_pooled_regression_names_redundant_features() -> None:
    data = make_example()
    doubled = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    with pytest.warns(DataWarning, match="'x8'"):
        model = PooledRegression().fit(doubled, data.y, data.environment_index)
    assert np.isnan(model.p_values_[8])
    assert not model.support_[8]


@pytest.mark.parametrize("p", [59, 60, 90])
def test_pooled_regression_turns_to_the_lasso_without_residual_rows(p: int) -> None:
    model = PooledRegression().fit(wide(p=p, n=20))
    assert model.used_lasso_
    assert model.support_[[3, 7]].all()


def test_lasso_selection() -> None:
    model = LassoSelection().fit(wide())
    np.testing.assert_array_equal(model.support_, model.lasso_coef_ != 0)
    assert model.support_[[3, 7]].all()
    assert model.penalty_ > 0


def test_marginal_selection_is_pearson() -> None:
    data = wide()
    model = MarginalSelection().fit(data)
    wanted = [stats.pearsonr(column, data.y) for column in data.X.T]
    np.testing.assert_allclose(model.correlations_, [r.statistic for r in wanted], atol=1e-12)
    np.testing.assert_allclose(model.p_values_, [r.pvalue for r in wanted], rtol=1e-8)


def test_marginal_selection_of_a_copy_of_the_outcome() -> None:
    data = wide()
    model = MarginalSelection().fit(np.column_stack([data.X, -data.y]), data.y, data.environment_index)
    assert model.p_values_[-1] < 1e-100
    assert model.support_[-1]


@pytest.mark.parametrize("support", [["age", "exercise", "smoking"], [0, 2, 3], np.isin(np.arange(8), [0, 2, 3]), None])
def test_oracle_takes_names_positions_masks_or_the_truth(support: object) -> None:
    data = make_example()
    model = Oracle(support).fit(data)
    assert list(model.get_feature_names_out()) == ["age", "exercise", "smoking"]
    assert np.isnan(model.p_values_[~data.truth]).all()


def test_oracle_without_truth_and_with_wrong_positions() -> None:
    data = wide()
    with pytest.raises(DataError, match="true features"):
        Oracle().fit(data)
    with pytest.raises(DataError, match=r"\[99\]"):
        Oracle([99]).fit(data)
    with pytest.raises(DataError, match="did you mean 'x3'"):
        Oracle(["x3 "]).fit(data)


@pytest.mark.filterwarnings("ignore")
def test_three_rows_are_too_few_for_any_folds() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3, 500)), rng.normal(size=3)
    for model in (LassoSelection(), Screened(ICP(), LassoScreen(k=1, cv=2))):
        with pytest.raises(DataError, match="a cross-validated Lasso needs 4 rows or more"):
            model.fit(X, y)
    with pytest.raises(DataError, match=r"Screened\(ICP\(\), screen=LassoScreen\(k=1, cv=2\)\)"):
        ICP().fit(X, y)
