"""The additive model: environments compared by shape, its corners, and how often it rejects the
truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from invariance import BIP, Additive, MultiEnvironmentData, Tolerance
from invariance.datasets import make_example
from invariance.models.additive import AdditiveModel
from invariance.models.registry import with_family_columns
from twins import all_masks


def rows(
    rng: np.random.Generator, n: int = 60, p: int = 3, n_environments: int = 3
) -> tuple[NDArray, NDArray]:
    """Features with means and spreads of their own in each environment, and whose they are."""
    environment = np.repeat(range(n_environments), n)
    X = (
        rng.normal(size=(len(environment), p))
        * rng.uniform(0.7, 1.5, size=(n_environments, p))[environment]
    )
    return X + rng.normal(size=(n_environments, p))[environment], environment


def bound(X: NDArray, y: NDArray, environment: NDArray, **settings: int) -> AdditiveModel:
    model = Additive(**settings).bind(MultiEnvironmentData.from_arrays(X, y, environment))
    assert isinstance(model, AdditiveModel)
    return model


def curved(X: NDArray, rng: np.random.Generator) -> NDArray:
    return np.tanh(X[:, 0]) + 0.5 * X[:, 1] ** 2 + rng.normal(scale=0.3, size=len(X))


def test_features_that_are_constant_or_dependent_somewhere() -> None:
    rng = np.random.default_rng(4)
    X, environment = rows(rng, n=40, p=5, n_environments=4)
    X[environment == 1, 0] = 2.0
    X[:, 2] = 3.0 - 2.0 * X[:, 1]
    X[environment == 3, 3] = X[environment == 3, 1]
    X[:, 4] = np.exp(4.0 * X[:, 4])
    y = curved(X, rng)
    model = bound(X, y, environment)
    masks = all_masks(5)
    log_ratios = model.log_ratio_many(masks)
    assert (np.isfinite(log_ratios) & (log_ratios <= 0.0)).all()
    np.testing.assert_allclose(model.rescore(masks), log_ratios, atol=1e-6)
    tested = model.invariance_test(masks, Tolerance.strict()).joint
    assert ((tested >= 0.0) & (tested <= 1.0)).all()
    assert model.log_ratio(["x1", "x2"]) == pytest.approx(model.log_ratio(["x1"]), abs=1e-6)


def by_hand(model: AdditiveModel, mask: NDArray) -> float:
    """log Λ with a component for each feature that varies in the environment, by NumPy alone"""
    X = model.data.X
    y = model.data.y
    place = model.data.environment_index
    starts = model.features.starts
    parts = [X[:, a:b] - X[:, a:b].mean(axis=0) for a, b in pairwise(starts)]
    chosen = [part for part, flag in zip(parts, mask, strict=True) if flag]

    def left(columns: list[NDArray], rows: NDArray) -> tuple[float, NDArray]:
        design = np.column_stack([np.ones(rows.sum()), *(column[rows] for column in columns)])
        beta = np.linalg.lstsq(design, y[rows], rcond=None)[0]
        return float(np.mean((y[rows] - design @ beta) ** 2)), beta[1:]

    variance, slopes = left(chosen, np.ones(len(y), dtype=bool))
    ends = np.cumsum([0, *(part.shape[1] for part in chosen)])
    components = [part @ slopes[a:b] for part, (a, b) in zip(chosen, pairwise(ends), strict=True)]
    total = -0.5 * len(y) * np.log(variance)
    for e in range(place.max() + 1):
        varying = [
            c
            for part, c in zip(chosen, components, strict=True)
            if np.ptp(part[place == e], axis=0).any()
        ]
        total += 0.5 * (place == e).sum() * np.log(left(varying, place == e)[0])
    return total


@pytest.mark.parametrize("setting", [False, True], ids=["in one environment", "in all"])
def test_a_feature_that_an_environment_holds_constant_is_no_regressor_there(setting: bool) -> None:
    rng = np.random.default_rng(3)
    place = np.repeat(range(4), 60)
    x = rng.normal(size=240) + np.array([-2.0, 0.0, 1.0, 2.0])[place]
    w, noise = rng.normal(size=(2, 240))
    held = (
        np.array([0.3, 0.7, 0.7, 1.1])[place]
        if setting
        else np.where(place == 0, 1.0, rng.normal(size=240))
    )
    y = x**2 + 3.0 * held * setting + 0.5 * noise
    model = bound(np.column_stack([x, w, held]), y, place)
    masks = all_masks(3)
    expected = [by_hand(model, mask) for mask in masks]
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, atol=1e-6)
    np.testing.assert_allclose(model.rescore(masks), expected, atol=1e-6)
    fit = model.fit(["x0", "x2"])
    both = np.array([True, False, True])
    assert np.isnan(fit.local_coefficients[0, 5:]).all()
    assert np.isfinite(fit.local_coefficients[:, :5]).all()
    rows = model.data.rows(0)
    missed = (
        y[rows]
        - fit.local_intercepts[0]
        - model.data.X[rows][:, :5] @ fit.local_coefficients[0, :5]
    )
    assert abs(missed.mean()) < 1e-9
    linear, there = model.compared_by(both)
    np.testing.assert_allclose(linear.log_ratio(there), model.log_ratio(both), atol=1e-6)
    assert linear.ranks(there[None])[0, 0] == 1


def test_curves_of_more_columns_than_rows_are_outside_the_support() -> None:
    rng = np.random.default_rng(7)
    small = bound(rng.normal(size=(16, 4)), rng.normal(size=16), np.resize([0, 1], 16), knots=6)
    assert (
        "16 rows of all rows together are too few"
        in small.outside_support(np.ones((1, 4), bool))[0]
    )


def test_columns_are_made_once() -> None:
    """Rows that are left out later do not move the knots, nor make a curve of what was a line."""
    rng = np.random.default_rng(10)
    X, environment = rows(rng)
    X[environment > 0, 2] = 0.0
    data = MultiEnvironmentData.from_arrays(X, curved(X, rng), environment)
    specification, curves = with_family_columns(Additive(knots=4), data)
    again = specification.bind(curves.choosing([0, 1]))
    assert again.features.columns == curves.features.columns
    np.testing.assert_array_equal(again.data.X, curves.X[environment < 2])


EXAMPLE = make_example()


def test_local_errors_are_those_of_the_slopes_on_the_curves() -> None:
    model = BIP("additive").fit(EXAMPLE).decision_.findings.target.model
    mask = np.isin(model.feature_names, ["age", "exercise"])
    fit = model.fit(mask)
    errors = model.standard_errors(mask)
    widths = model.features.widths[mask]
    curves = model._pooled(mask)[1]
    for e in range(EXAMPLE.n_environments):
        rows = model.data.rows(e)
        design = np.column_stack([np.ones(len(rows)), curves[rows]])
        slopes, (rss,), *_ = np.linalg.lstsq(design, model.data.y[rows])
        freedom = len(rows) - design.shape[1]
        known = np.sqrt(rss / freedom * np.diag(np.linalg.inv(design.T @ design)))
        assert errors.freedom[e] == freedom
        pooled = np.abs(fit.coefficients)
        np.testing.assert_allclose(
            errors.values[e], np.repeat(known[1:], widths) * pooled, rtol=1e-6
        )
        expected = np.repeat(slopes[1:], widths) * fit.coefficients
        np.testing.assert_allclose(fit.local_coefficients[e], expected, rtol=1e-6)
    columns = model.linear.standard_errors(mask)
    np.testing.assert_allclose(errors.values[-1], columns.values[-1])
    assert errors.freedom[-1] == columns.freedom[-1]
