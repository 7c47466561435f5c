"""How heavy tails are does not depend on the number of threads, to the last digit."""

from __future__ import annotations

import numpy as np

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.kernels import dispatch as by_size
from twins import all_masks


def test_threads_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    n, p = 20_000, 8
    # All subsets are too many for NumPy, half of them were not.
    assert n << p - 1 <= by_size.NUMBERS < n << p
    X = rng.normal(size=(n, p))
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.standard_t(5, size=n), np.repeat([0, 1], n // 2))
    one, two = (LinearGaussian().bind(data, n_jobs=n_jobs).excess_kurtosis(all_masks(p)) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
