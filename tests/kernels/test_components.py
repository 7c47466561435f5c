"""Environments compared by one slope on each feature's component: the kernels beside plain
NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from invariance import Additive, MultiEnvironmentData
from invariance.models.additive import AdditiveModel
from twins import all_masks


def bound(seed: int = 0, n: int = 40, **settings: int) -> AdditiveModel:
    """Four environments; x1 is constant in one of them, x3 takes four values."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(4), n)
    X = rng.normal(size=(4 * n, 4)) + rng.normal(size=(4, 4))[environment]
    X[environment == 2, 1] = 0.5
    X[:, 3] = rng.integers(0, 4, size=4 * n)
    y = np.tanh(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * X[:, 3] + rng.normal(scale=0.4, size=4 * n)
    model = Additive(**settings).bind(MultiEnvironmentData.from_arrays(X, y, environment))
    assert isinstance(model, AdditiveModel)
    return model


def projection(columns: NDArray) -> NDArray:
    return columns @ np.linalg.pinv(columns)


class Twin:
    """One subset by dense projections of the rows."""

    def __init__(self, model: AdditiveModel, mask: NDArray) -> None:
        data = model.data
        n = data.n_rows
        y = data.y
        columns = data.X[:, data.features.expand(mask)]
        hat = projection(np.column_stack([np.ones(n), columns]))
        beta = np.linalg.lstsq(np.column_stack([np.ones(n), columns]), y, rcond=None)[0][1:]
        owners = np.repeat(np.flatnonzero(mask), data.features.widths[mask])
        components = [columns[:, owners == j] @ beta[owners == j] for j in np.flatnonzero(mask)]
        pooled = float(y @ (np.eye(n) - hat) @ y)
        self.log_ratio = -0.5 * n * np.log(pooled / n)
        self.freedom = []
        for e in range(data.n_environments):
            rows = data.rows(e)
            local = projection(
                np.column_stack([np.ones(len(rows)), *(part[rows] for part in components)])
            )
            left = np.eye(len(rows)) - local
            self.log_ratio += 0.5 * len(rows) * np.log(y[rows] @ left @ y[rows] / len(rows))
            self.freedom.append(np.trace(left @ (np.eye(n) - hat)[np.ix_(rows, rows)]))


@pytest.mark.parametrize("knots", [3, 5])
def test_log_ratios_and_degrees_of_freedom(knots: int) -> None:
    model = bound(knots=knots)
    masks = all_masks(4)
    twins = [Twin(model, mask) for mask in masks]
    np.testing.assert_allclose(
        model.log_ratio_many(masks), [twin.log_ratio for twin in twins], atol=1e-8
    )
    freedom = model.residuals(masks).freedom
    np.testing.assert_allclose(freedom[:, :-1], [twin.freedom for twin in twins], atol=1e-8)
    widths = masks.astype(int) @ model.features.widths
    np.testing.assert_array_equal(freedom[:, -1], model.n_rows - 1 - widths)
    np.testing.assert_allclose(model.rescore(masks), model.log_ratio_many(masks), atol=1e-8)
