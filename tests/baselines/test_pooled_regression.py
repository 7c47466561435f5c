"""Pooled regression where features determine the outcome exactly: no noise is left to test by."""

from __future__ import annotations

import numpy as np
import pytest

from invariance.baselines import Oracle, PooledRegression
from invariance.baselines.regression import coefficient_tests
from invariance.data import MultiEnvironmentData
from invariance.datasets import make_example
from invariance.exceptions import DataWarning

EXAMPLE = make_example()


def with_columns(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.column_stack([EXAMPLE.X, *columns]), EXAMPLE.y, EXAMPLE.environment_index


@pytest.mark.parametrize("copy", [EXAMPLE.y, -EXAMPLE.y, 3.7 * EXAMPLE.y + 1e3, EXAMPLE.y * 1e-20])
def test_a_copy_of_the_outcome_is_named_and_selected_alone(copy: np.ndarray) -> None:
    with pytest.warns(DataWarning, match=r"'y' is an exact linear function of 'x8' \(a copy of it\?\)"):
        model = PooledRegression().fit(*with_columns(copy))
    assert model.support_.tolist() == [False] * 8 + [True]
    assert model.p_values_.tolist() == [1.0] * 8 + [0.0]
    np.testing.assert_allclose(model.predict(with_columns(copy)[0]), EXAMPLE.y, rtol=1e-9)


def test_the_parts_of_the_outcome_are_named() -> None:
    half = EXAMPLE.X[:, 0] * 2.0
    rest = EXAMPLE.y - half
    with pytest.warns(DataWarning, match="exact linear function of 'x0', 'x8'"):
        model = PooledRegression().fit(*with_columns(rest))
    assert np.flatnonzero(model.support_).tolist() == [0, 8]


def test_an_outcome_that_is_only_nearly_determined_is_tested_as_ever() -> None:
    sm = pytest.importorskip("statsmodels.api")
    noise = np.random.default_rng(0).normal(size=EXAMPLE.n_rows)
    X, y, _ = with_columns(EXAMPLE.y + 1e-5 * noise)
    wanted = sm.OLS(y, sm.add_constant(X)).fit().pvalues[1:]
    np.testing.assert_allclose(coefficient_tests(X, y, np.ones(X.shape[1], int))[0], wanted, rtol=1e-4, atol=1e-300)
    model = PooledRegression().fit(MultiEnvironmentData.from_arrays(X, y, EXAMPLE.environment_index))
    assert model.support_[8]


def test_the_oracle_says_it_too() -> None:
    with pytest.warns(DataWarning, match="exact linear function of 'x8'"):
        model = Oracle([0, 8]).fit(*with_columns(EXAMPLE.y))
    assert np.flatnonzero(model.support_).tolist() == [8]
