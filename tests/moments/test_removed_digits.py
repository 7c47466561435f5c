"""What is left when a row leaves must serve pivots as small as second moments may decide by."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import LinearGaussian, Moments, MultiEnvironmentData
from invariance.exceptions import DataError


@pytest.mark.parametrize("far", [1e2, 1e3, 1e4, 1e5])
def test_log_ratios_after_a_far_row_left(far: float) -> None:
    """Two columns that differ by 5e-5: right to a twentieth of a nat, or refused."""
    rng = np.random.default_rng(0)
    n = 800
    X = rng.normal(size=(2 * n, 3))
    u = rng.normal(size=2 * n)
    X[:, 1] = X[:, 0] + 5e-5 * u
    y = u + rng.normal(size=2 * n)
    X[-1] = far * np.array([1.0, 0.7, 0.1])
    site = np.repeat([0, 1], n)
    whole = Moments.from_data(MultiEnvironmentData.from_arrays(X, y, site))
    remaining = LinearGaussian().bind(Moments.from_data(MultiEnvironmentData.from_arrays(X[:-1], y[:-1], site[:-1])))
    mask = np.array([[True, True, False]])
    if far >= 1e4:
        with pytest.raises(DataError, match="to be known to ten digits"):
            whole.without_row(1, [*X[-1], y[-1]])
        return
    left = LinearGaussian().bind(whole.without_row(1, [*X[-1], y[-1]]))
    assert left.log_ratio_many(mask)[0] == pytest.approx(remaining.log_ratio_many(mask)[0], abs=0.05)


def test_a_row_of_words() -> None:
    data = MultiEnvironmentData.from_arrays(
        np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0), [0] * 10 + [1] * 10
    )
    with pytest.raises(DataError, match=r"a row has 3 numbers \('x0', …\), not \['a', 'b', 'c'\]"):
        Moments.from_data(data).without_row(0, ["a", "b", "c"])
