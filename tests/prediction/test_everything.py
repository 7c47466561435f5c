"""What predicts with all features: least squares and a random intercept, ridge regression, fits of
other outcomes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance
from statsmodels.duration.hazard_regression import PHReg

from invariance import (
    Logistic,
    Moments,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
)
from invariance.exceptions import DataError
from invariance.moments.random_intercept import random_intercept
from invariance.prediction.all_features import (
    least_squares_line,
    line_of_everything,
    mean_deviance,
    regression_on,
    regression_on_everything,
    usable_columns,
)
from line_twins import line_by_rows, mixed_by_rows, shifted
from shifted_sites import several
from two_classes import SITE, X, Y

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("seed", "effect"), [(0, 1.0), (1, 0.0), (2, 30.0)])
def test_the_line_is_half_least_squares_and_half_a_random_intercept(
    seed: int, effect: float
) -> None:
    X, y, env = shifted(seed=seed, effect=effect)
    data = MultiEnvironmentData.from_arrays(X, y, env)
    expected = line_by_rows(X, y, env)
    ratio = mixed_by_rows(X, y, env)[1]
    for source in (data, Moments.from_data(data)):
        line = line_of_everything(source)
        np.testing.assert_allclose(
            np.append(line.coefficients, line.intercept), expected, rtol=1e-5
        )
        left = np.array(
            [np.mean((y - X @ expected[:-1] - expected[-1])[env == e]) for e in range(5)]
        )
        np.testing.assert_allclose(
            line.effects[:, 0], ratio * 30 / (1 + ratio * 30) * left, rtol=1e-4, atol=1e-7
        )
        assert line.freedom == 146.0


@pytest.mark.parametrize(
    ("scale", "shift"), [(1e8, 0.0), (1e-8, 0.0), (np.array([1e8, 1.0, 1e-8]), 0.0), (1.0, 1e8)]
)
def test_units_and_offsets_do_not_matter(scale: Any, shift: float) -> None:
    X, y, env = shifted()
    usual, other = (
        line_of_everything(MultiEnvironmentData.from_arrays(Z, y, env))
        for Z in (X, X * scale + shift)
    )
    np.testing.assert_allclose(other.coefficients * scale, usual.coefficients, rtol=1e-6)
    np.testing.assert_allclose(other.effects, usual.effects, rtol=1e-6)
    thousands = line_of_everything(MultiEnvironmentData.from_arrays(X, 1e3 * y + 1e6, env))
    np.testing.assert_allclose(thousands.effects, 1e3 * usual.effects, rtol=1e-6)


def test_an_outcome_that_is_a_line_is_found_without_noise_below_zero() -> None:
    X, _, env = shifted()
    data = Moments.from_data(MultiEnvironmentData.from_arrays(X, 1e6 + X @ [1.0, -0.5, 0.3], env))
    line = line_of_everything(data)
    np.testing.assert_allclose(line.coefficients, [1.0, -0.5, 0.3], rtol=1e-9)
    assert random_intercept(data, data.feature_columns).noise >= 0.0
    np.testing.assert_allclose(line.effects, 0.0, atol=1e-6)


def test_copies_share_what_their_column_has() -> None:
    X, y, env = shifted()
    doubled = np.column_stack([X, X[:, 0], 3.0 * X[:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = MultiEnvironmentData.from_arrays(doubled, y, env)
    one = line_of_everything(MultiEnvironmentData.from_arrays(X, y, env))
    two = line_of_everything(data)
    np.testing.assert_allclose(
        doubled @ two.coefficients + two.intercept, X @ one.coefficients + one.intercept
    )
    assert (
        two.coefficients[0]
        == pytest.approx(two.coefficients[3])
        == pytest.approx(one.coefficients[0] / 2)
    )


@pytest.mark.parametrize(("n_constant", "n_environments"), [(1, 5), (1, 6), (2, 6), (2, 7)])
def test_features_constant_in_environments_count_where_environments_are_many(
    n_constant: int, n_environments: int
) -> None:
    X, y, env = shifted(n_environments)
    X[:, :n_constant] = np.random.default_rng(1).normal(size=(n_environments, n_constant))[env]
    data = MultiEnvironmentData.from_arrays(X, y, env)
    kept = tuple(f"x{j}" for j in range(0 if n_environments >= n_constant + 5 else n_constant, 3))
    assert usable_columns(data) == usable_columns(Moments.from_data(data)) == kept
    np.testing.assert_array_equal(line_of_everything(data).columns, kept)


@pytest.mark.parametrize(("n_environments", "kept"), [(6, ("x",)), (7, ("word=v", "word=w", "x"))])
def test_each_level_of_a_constant_feature_takes_an_environment(
    n_environments: int, kept: tuple[str, ...]
) -> None:
    X, y, env = shifted(n_environments)
    table = pd.DataFrame(
        {"word": np.array(list("uvwuvwu"))[env], "x": X[:, 0], "y": y, "site": env}
    )
    assert usable_columns(MultiEnvironmentData.from_table(table, "y", "site")) == kept


def test_a_level_that_fills_an_environment_stays_with_its_feature() -> None:
    _, y, env = shifted()
    word = np.where(env == 4, "w", RNG.choice(["u", "v"], len(env)))
    table = pd.DataFrame({"word": word, "y": y, "site": env})
    assert usable_columns(MultiEnvironmentData.from_table(table, "y", "site")) == (
        "word=v",
        "word=w",
    )


# ---------------------------------------------------------------- ridge regression


def ridge_by_rows(X: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Of centred columns with sums of squares 1; the intercept last."""
    mean = X.mean(axis=0)
    centred = X - X.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0))
    unit = centred / scale
    b = (
        np.linalg.solve(unit.T @ unit + penalty * np.eye(X.shape[1]), unit.T @ (y - y.mean()))
        / scale
    )
    return np.append(b, y.mean() - mean @ b)


@pytest.mark.parametrize("k", [25, 130])  # more than a fifth of the rows, more than all of them
def test_ridge_by_dense_algebra_with_its_penalty_by_environments_left_out(k: int) -> None:
    X, y, env = shifted(4, 20, k, effect=0.3)
    X *= np.geomspace(1e-3, 1e3, k)
    y = X[:, 0] * 1e3 - X[:, 1] * 5e2 + 0.5 * np.random.default_rng(4).normal(size=len(y))
    data = MultiEnvironmentData.from_arrays(X, y, env)
    penalties = np.geomspace(1e-4, 1e3, 29)
    errors = []
    for penalty in penalties:
        fits = [ridge_by_rows(X[env != e], y[env != e], penalty) for e in range(4)]
        missed = [(y - X @ b[:-1] - b[-1])[env == e] for e, b in enumerate(fits)]
        errors.append(np.mean([np.mean(each**2) for each in missed]))
    best = int(np.argmin(errors))
    assert 0 < best < 28
    expected = ridge_by_rows(X, y, penalties[best])
    for source in (data, Moments.from_data(data)):
        line = line_of_everything(source)
        np.testing.assert_allclose(
            X @ line.coefficients + line.intercept, X @ expected[:-1] + expected[-1], rtol=1e-6
        )
    unit = (X - X.mean(axis=0)) / np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=0))
    values = np.linalg.svd(unit, compute_uv=False) ** 2
    assert line.freedom == pytest.approx(79.0 - (values / (values + penalties[best])).sum())
    assert line.effects is None


def test_one_environment_alone_chooses_the_penalty_by_its_rows() -> None:
    X, y, _ = shifted(1, 60, 20)
    line = line_of_everything(MultiEnvironmentData.from_arrays(X, y, None))
    penalties = np.geomspace(1e-4, 1e3, 29)
    unit = (X - X.mean(axis=0)) / np.sqrt(60 * X.var(axis=0))
    scores = []
    for penalty in penalties:
        hat = unit @ np.linalg.solve(unit.T @ unit + penalty * np.eye(20), unit.T) + 1 / 60
        scores.append(np.sum((y - hat @ y) ** 2) / (60 - np.trace(hat)) ** 2)
    values = np.linalg.svd(unit, compute_uv=False) ** 2
    best = penalties[int(np.argmin(scores))]
    assert line.freedom == pytest.approx(59.0 - (values / (values + best)).sum())


# ---------------------------------------------------------------- other outcomes


def tiny_environment(y: np.ndarray, **columns: np.ndarray) -> MultiEnvironmentData:
    """The rows of two_classes; the last environment has 4 of them, fewer than features and an
    intercept."""
    env = np.where(np.arange(len(y)) < len(y) - 4, SITE % 3, 3)
    return MultiEnvironmentData.from_arrays(X, y, env, **columns)


def test_classes_are_fitted_as_without_penalty() -> None:
    fit = regression_on_everything(Logistic(pseudo_rows=0), tiny_environment(Y.astype(float)))
    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, Y)
    np.testing.assert_allclose(fit.coefficients, plain.coef_[0], rtol=1e-4)
    assert fit.intercept == pytest.approx(plain.intercept_[0], abs=1e-4)
    usual = regression_on_everything(
        Logistic(), tiny_environment(Y.astype(float))
    )  # one row of 400 is pseudo-data
    np.testing.assert_allclose(usual.coefficients, fit.coefficients, rtol=0.02)


EXPOSURE = np.geomspace(1e-3, 1e4, len(Y))


def test_counts_with_exposures_of_very_different_sizes() -> None:
    y = np.random.default_rng(1).poisson(EXPOSURE * np.exp(0.3 * X[:, 0] - 1.0)).astype(float)
    data = tiny_environment(y, exposure=EXPOSURE)
    fit = regression_on_everything(Poisson(pseudo_rows=0), data)
    plain = sm.GLM(y, sm.add_constant(X), sm.families.Poisson(), exposure=EXPOSURE).fit(tol=1e-12)
    np.testing.assert_allclose(
        np.append(fit.intercept, fit.coefficients), plain.params, rtol=1e-5, atol=1e-7
    )
    rows = np.arange(50, 90)
    expected = sm.families.Poisson().deviance(y[rows], plain.mu[rows]) / 40
    assert mean_deviance(fit, data, rows) == pytest.approx(expected, rel=1e-5)


def test_times_are_fitted_as_by_a_hazard_that_is_constant_between_cuts() -> None:
    rng = np.random.default_rng(2)
    seen = rng.exponential(np.exp(-0.6 * X[:, 0] + 0.4 * X[:, 1]))
    time = np.minimum(seen, 1.5)
    event = (seen < 1.5).astype(float)
    fit: Any = regression_on_everything(
        PiecewiseExponential(intervals=12, pseudo_rows=0), tiny_environment(time, event=event)
    )
    cox = PHReg(time, X, status=event).fit()
    np.testing.assert_allclose(fit.coefficients, cox.params, atol=0.05)
    risk = np.exp(X @ fit.coefficients + fit.intercept)
    # At the maximum the events are as many as expected, in all and weighted by each column.
    expected = fit.baseline.cumulative(time) * risk
    assert expected.sum() == pytest.approx(event.sum(), rel=1e-6)
    np.testing.assert_allclose(X.T @ expected, X.T @ event, rtol=1e-4, atol=1e-3)


def test_one_level_that_is_a_copy_does_not_cost_the_others() -> None:
    level = RNG.integers(0, 3, len(Y))
    table = pd.DataFrame({"is_v": (level == 1).astype(float), "word": np.array(list("uvw"))[level]})
    y = (RNG.random(len(Y)) < 1 / (1 + np.exp(-1.5 * (level == 2)))).astype(float)
    data = MultiEnvironmentData.from_table(table.assign(y=y, site=SITE), "y", "site")
    fit = regression_on_everything(Logistic(pseudo_rows=0), data)
    shares = 1 / (1 + np.exp(-data.X @ fit.coefficients - fit.intercept))
    np.testing.assert_allclose(shares, [y[level == each].mean() for each in level], rtol=1e-5)


def left_out_error(model: Any, X: np.ndarray, y: np.ndarray, env: np.ndarray, error: Any) -> float:
    """Mean over environments, of columns with standard deviation 1 in the others."""
    found = []
    for e in np.unique(env):
        rest = env != e
        own = env == e
        unit = (X - X[rest].mean(axis=0)) / X[rest].std(axis=0)
        other = clone(model)
        if isinstance(other, PoissonRegressor):
            other.set_params(alpha=model.alpha * len(y) / rest.sum())
        other.fit(unit[rest], y[rest])
        predict = other.predict_proba if hasattr(other, "predict_proba") else other.predict
        found.append(error(y[own], predict(unit[own])))
    return float(np.mean(found))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("outcome", ["classes", "counts"])
def test_many_columns_are_penalized(outcome: str) -> None:
    wide = np.random.default_rng(3).normal(size=(80, 30)) * np.geomspace(0.1, 10.0, 30)
    penalties = np.geomspace(1e-3, 1e3, 13)
    rate = np.exp(np.clip(5.0 * wide[:, 0], -2, 2))
    env = np.repeat(range(4), 20)
    unit = (wide - wide.mean(axis=0)) / wide.std(axis=0)
    if outcome == "classes":
        y = (np.random.default_rng(5).random(80) < rate / (1 + rate)).astype(float)
        family = Logistic()
        models = [LogisticRegression(C=1 / each, max_iter=1000) for each in penalties]
        error = log_loss
    else:
        y = np.random.default_rng(5).poisson(rate).astype(float)
        family = NegativeBinomial()
        models = [PoissonRegressor(alpha=each, solver="newton-cholesky") for each in penalties / 80]
        error = mean_poisson_deviance
    fit = regression_on_everything(family, MultiEnvironmentData.from_arrays(wide, y, env))
    predicted = fit.coefficients * wide.std(axis=0)
    apart = [np.abs(np.ravel(model.fit(unit, y).coef_) - predicted).max() for model in models]
    assert min(apart) < 1e-3
    errors = [left_out_error(model, wide, y, env, error) for model in models]
    assert int(np.argmin(apart)) == int(np.argmin(errors)) != 6


def test_too_many_columns_for_the_events_are_refused() -> None:
    data = several(4, 30)
    event = np.zeros(120)
    event[::8] = 1.0
    times = MultiEnvironmentData.from_arrays(
        data.X, np.exp(data.y), data.environment_index, event=event
    )
    with pytest.raises(DataError, match=r"4 columns .* 15 events: use predict_with='selected'"):
        regression_on_everything(PiecewiseExponential(), times)
    assert len(regression_on(PiecewiseExponential(), times, ["x0"]).coefficients) == 1


def test_least_squares_on_some_columns_from_rows_and_moments() -> None:
    data = several()
    for source in (data, Moments.from_data(data)):
        line = least_squares_line(source, ("x3", "x0"))
        expected = np.linalg.lstsq(
            np.column_stack([data.X[:, [3, 0]], np.ones(240)]), data.y, rcond=None
        )[0]
        np.testing.assert_allclose(
            np.append(line.coefficients, line.intercept), expected, rtol=1e-9
        )
        assert least_squares_line(source, ()).intercept == pytest.approx(data.y.mean())
