"""Rows that leave moments, and what merging costs in digits."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import Enumeration, MultiEnvironmentData, UniformPrior
from invariance.exceptions import DataError, DataWarning
from invariance.inference.base import RunOptions, Target
from invariance.models.gaussian import LinearGaussian
from invariance.moments import Moments


def with_a_lonely_value() -> tuple[MultiEnvironmentData, np.ndarray]:
    """x1 is 1 in row 5 of environment 0, and 0 in all other rows; that row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X[:, 1] = 0.0
    X[5, 1] = 1.0
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=40), np.repeat([0, 1], 20))
    return data, np.append(data.X[5], data.y[5])


def test_a_feature_that_no_row_varies_any_more_is_dropped() -> None:
    data, row = with_a_lonely_value()
    with pytest.warns(DataWarning, match="dropped features that are constant over all rows: 'x1'$"):
        remaining = Moments.from_data(data).without_row(0, row)
    assert remaining.columns == ("x0", "y")
    keep = np.delete(np.arange(40), 5)
    fresh = MultiEnvironmentData.from_arrays(data.X[keep, :1], data.y[keep], data.environment_index[keep])
    np.testing.assert_allclose(remaining.scatter, Moments.from_data(fresh).scatter, rtol=1e-12)
    posterior = Enumeration().run(
        Target(LinearGaussian().bind(remaining), UniformPrior().bind(1)), RunOptions(progress=False)
    )
    assert posterior.feature_names == ("x0",)


def test_a_feature_that_was_constant_before_is_kept() -> None:
    """A chunk's moments, to be merged with those of chunks in which it varies."""
    data, row = with_a_lonely_value()
    chunk = Moments.from_data(data).merge(Moments.from_data(data))
    assert chunk.without_row(0, row).columns == (*data.feature_names, "y")
    flat = MultiEnvironmentData(data.X * [1.0, 0.0], data.y, data.environment_index, ("x0", "x1"), data.environments)
    assert Moments.from_data(flat).without_row(0, row * [1.0, 0.0, 1.0]).columns == ("x0", "x1", "y")


def test_the_only_feature_cannot_become_constant() -> None:
    data, row = with_a_lonely_value()
    only = MultiEnvironmentData.from_arrays(data.X[:, 1:], data.y, data.environment_index)
    with pytest.raises(DataError, match="every feature is constant over all rows: 'x0'"):
        Moments.from_data(only).without_row(0, row[1:])


def test_a_row_with_gaps_is_refused_as_such() -> None:
    data, row = with_a_lonely_value()
    row[[0, 2]] = np.nan
    with pytest.raises(DataError, match=r"this row has missing values \(NaN\) in 'x0', 'y', as no row .*: pass"):
        Moments.from_data(data).without_row(0, row)


def test_merging_far_from_the_origin_is_counted_as_rounding() -> None:
    """The origin lies in environment 0; the means of environment 1 are measured from there, and lose digits."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(20):
        X = rng.normal(size=(80, 1))
        X[20:40] += 1e7
        X[60:] += 1e7 + rng.uniform(1, 2)
        data = MultiEnvironmentData.from_arrays(X, rng.normal(size=80), np.tile(np.repeat([0, 1], 20), 2))
        parts = [
            MultiEnvironmentData.from_arrays(X[rows], data.y[rows], data.environment_index[rows])
            for rows in (slice(0, 40), slice(40, 80))
        ]
        merged = Moments.from_data(parts[0]).merge(Moments.from_data(parts[1]))
        near = data.X[data.environment_index == 1, 0] - 1e7  # without rounding
        error = abs(merged.scatter[1, 0, 0] - ((near - near.mean()) ** 2).sum())
        assert merged.rounding is not None
        assert error <= merged.rounding[1, 0]
        worst = max(worst, error / merged.rounding[1, 0])
    assert worst > 0.01  # the bound is not an empty one


def test_an_outcome_that_becomes_constant_is_not_dropped() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.zeros(20)
    y[5] = 1.0
    remaining = Moments.from_data(MultiEnvironmentData.from_arrays(X, y)).without_row("all", [*X[5], 1.0])
    with pytest.raises(DataError, match="outcome 'y' is constant: every row is 0"):
        remaining.check_outcome()


@pytest.mark.parametrize("e", [0, 1])
def test_products_of_the_rows_that_are_left(e: int) -> None:
    """As the plain sums over them; the moments that the row left are as they were."""
    rng = np.random.default_rng(3)
    X, y, site = rng.normal(size=(50, 6)) + 5.0, rng.normal(size=50), np.arange(50) % 2
    data = MultiEnvironmentData.from_arrays(X, y, site)
    moments = Moments.from_data(data)
    before, row = moments.scatter.copy(), 10 + e
    left = moments.without_row(e, [*X[row], y[row]])
    rows, labels = np.delete(np.column_stack([X, y]), row, axis=0), np.delete(site, row)
    for scatter, group in zip(left.scatter, (rows[labels == 0], rows[labels == 1], rows), strict=True):
        centred = group - group.mean(axis=0)
        np.testing.assert_allclose(scatter, centred.T @ centred, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(left.means[e], rows[labels == e].mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(moments.scatter, before)
    assert left.counts.tolist() == [25 - (e == 0), 25 - (e == 1)]
    assert moments.counts.tolist() == [25, 25]
