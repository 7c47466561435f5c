"""Kernels are compiled for each order of an array's entries in memory: there is one, whatever the data look like."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import MultiEnvironmentData
from invariance.models.gaussian_fits import group_rows as compressed_rows
from invariance.moments.moments import Moments


def _data(n: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(2 * n, 4))
    return MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=2 * n), np.repeat([0, 1], n))


@pytest.mark.parametrize("n", [6, 60])
def test_rows_of_groups_whether_or_not_factors_stand_for_them(n: int) -> None:
    data = _data(n)
    rows = compressed_rows(data, Moments.from_data(data))
    assert (rows.stops[0] - rows.starts[0] < n) == (n == 60)
    assert rows.values.flags.c_contiguous


def test_second_moments_of_chosen_columns() -> None:
    moments = Moments.from_data(_data(30))
    chosen = moments.of_columns(("x3", "x1", "y"))
    order = [moments.columns.index(name) for name in chosen.columns]
    assert chosen.scatter.flags.c_contiguous
    np.testing.assert_array_equal(chosen.scatter, moments.scatter[:, order][:, :, order])
