from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Columns, Moments, MultiEnvironmentData, spline
from invariance.datasets import make_example
from invariance.exceptions import PredictionWarning
from invariance.prediction.predictor import Design
from shifted_sites import DATA, NEW, fitted

COLUMNS = ("x0", "x2")


def hat_values(X: np.ndarray, new: np.ndarray) -> np.ndarray:
    design, rows = (np.column_stack([np.ones(len(part)), part]) for part in (X, new))
    return np.einsum("ni,ij,nj->n", rows, np.linalg.inv(design.T @ design), rows)


@pytest.mark.parametrize("source", [DATA, Moments.from_data(DATA)])
def test_leverages(source: MultiEnvironmentData | Moments) -> None:
    design = Design.of(source, COLUMNS)
    np.testing.assert_allclose(
        design.leverage(NEW[:, [0, 2]]), hat_values(DATA.X[:, [0, 2]], NEW[:, [0, 2]]), rtol=1e-9
    )
    assert (design.n_rows, design.rank) == (240, 2)
    np.testing.assert_array_equal(design.minimum, DATA.X[:, [0, 2]].min(axis=0))


def test_the_farthest_row_that_was_fitted() -> None:
    X = DATA.X[:, [0, 2]]
    farthest = hat_values(X, X).max() - 1 / len(X)
    assert Design.of(DATA, COLUMNS).farthest == pytest.approx(farthest, rel=1e-9)
    bound = Design.of(Moments.from_data(DATA), COLUMNS).farthest
    assert farthest * (1 - 1e-9) <= bound < 6 * farthest
    exact = Design.of(DATA, ("x0",)).farthest
    assert Design.of(Moments.from_data(DATA), ("x0",)).farthest == pytest.approx(exact, rel=1e-9)


def test_no_fitted_row_is_far_by_moments() -> None:
    """Columns that are nearly the same, with heavy tails: combinations are farther out than any single value."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=1200)
    X = np.column_stack([common + 0.1 * rng.standard_t(3, size=1200) for _ in range(3)])
    data = MultiEnvironmentData.from_arrays(X, common, np.repeat(list("abcd"), 300).tolist())
    design = Design.of(Moments.from_data(data), ("x0", "x1", "x2"))
    assert design.farthest <= 1 - 1 / 1200
    assert not design.far(X).any()
    assert design.far(X[:1] + np.array([[60.0, -60.0, 0.0]])).all()


def test_columns_that_depend_on_each_other() -> None:
    X = np.column_stack([DATA.X[:, 0], 1e6 * DATA.X[:, 0] - 3, DATA.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, DATA.y, DATA.environment_index)
    design = Design.of(data, ("x0", "x1", "x2"))
    assert design.rank == 2
    np.testing.assert_allclose(design.leverage(X), hat_values(X[:, ::2], X[:, ::2]), rtol=1e-6)


def test_far_is_beyond_twice_the_largest_leverage() -> None:
    design = Design.of(DATA, ("x0",))
    edge = design.centre[0] + np.sqrt(2 * design.farthest) / abs(design.whitening[0, 0])
    X = np.array([[edge * 1.001 - 0.001 * design.centre[0]], [edge * 0.999 + 0.001 * design.centre[0]]])
    assert (design.far(X) > 0).tolist() == [True, False]
    assert not Design.of(DATA, ()).far(np.empty((3, 0))).any()


def test_a_warning_names_the_worst_feature_and_its_range() -> None:
    model, X = fitted(), NEW.copy()
    X[2, 0], X[4, 1] = 60.0, -300.0
    low, high = DATA.X[:, 1].min(), DATA.X[:, 1].max()
    with pytest.warns(PredictionWarning, match=rf"2 of 7 rows .*x1 = -300.* {low:.4g} to {high:.4g}"):
        model.predict_interval(X)
    assert model.extrapolates(X).tolist() == [False, False, True, False, True, False, False]
    X[:, 3] = 1e6  # is not selected
    assert model.extrapolates(X).sum() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", PredictionWarning)
        model.predict(NEW)


def test_a_combination_that_no_row_has() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    X = np.column_stack([x, x + 0.01 * rng.normal(size=120)])
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=120), np.repeat([0, 1, 2], 40))
    said = Design.of(data, ("x0", "x1")).outside(np.array([[1.0, -1.0], [1.0, 1.0]]))
    assert said.startswith("1 of 2 rows")
    assert "x0, x1" in said


def test_curves_are_not_named() -> None:
    data = make_example()
    table = pd.DataFrame(data.X, columns=list(data.feature_names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(columns=Columns(groups=[spline("age", knots=4)])).fit(
            table, data.y, environments=data.environment_index
        )
    with pytest.warns(PredictionWarning, match="age = 900,"):
        model.predict(table[:3].assign(age=[900.0, 50.0, 50.0]))
