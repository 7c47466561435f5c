"""Second moments side by side: read eight pairs at a time, whatever the number of environments."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.inference.base import Target
from invariance.inference.variational import ascent
from invariance.inference.variational.ascent import FreeSpace
from invariance.kernels.row_residuals import PairedMoments


@pytest.mark.parametrize("n_environments", [2, 3, 5])
def test_large_draws_have_the_value_of_least_squares(n_environments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascent, "_OUTGROWS_CACHES", 0)
    rng, rows = np.random.default_rng(n_environments), 150
    environment = np.repeat(np.arange(n_environments), rows)
    X = rng.normal(size=(len(environment), 120)) + 3.0 * rng.normal(size=(n_environments, 120))[environment]
    y = X[:, :3].sum(axis=1) + rng.normal(size=len(X))
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    space = FreeSpace(Target(LinearGaussian().bind(data), UniformPrior(100).bind(data.feature_names, 100)))
    scorer = space.scorer(64, searching=True)
    assert isinstance(scorer.scoring.scatter, PairedMoments)
    draws = rng.random((4, 120)) < np.array([[0.45], [0.5], [0.6], [0.7]])
    values = space.log_ratios(draws, scorer)
    expected = [plain_log_ratio(X[:, draw], y, environment) for draw in draws]
    np.testing.assert_allclose(values, expected, rtol=1e-10)


def plain_log_ratio(X: np.ndarray, y: np.ndarray, environment: np.ndarray) -> float:
    def log_likelihood(rows: np.ndarray) -> float:
        design = np.column_stack([np.ones(rows.sum()), X[rows]])
        left = y[rows] - design @ np.linalg.lstsq(design, y[rows], rcond=None)[0]
        return -0.5 * len(left) * np.log(left @ left / len(left))

    everywhere = np.ones(len(y), bool)
    return log_likelihood(everywhere) - sum(log_likelihood(environment == e) for e in np.unique(environment))
