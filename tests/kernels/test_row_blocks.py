"""Rows by group, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from invariance.kernels import dispatch as by_size
from invariance.kernels import plain
from invariance.kernels import scatter as row_blocks
from invariance.kernels.scatter import add_products

GROUPS = [
    np.array([2, 0, 2, 2, 4, 0, 4]),
    np.zeros(5, int),
    np.array([3]),
    np.random.default_rng(0).integers(0, 9, 400),
]


def groups_of(codes: np.ndarray, n_groups: int = 10) -> tuple[np.ndarray, np.ndarray]:
    starts, places = np.full(n_groups + 1, -1, np.int64), np.full(len(codes), -1, np.int64)
    row_blocks.sort_groups(codes, starts, places)
    return starts, places


@pytest.mark.parametrize("codes", GROUPS)
def test_groups_are_sorted_and_rows_keep_their_order(codes: np.ndarray) -> None:
    starts, places = groups_of(codes)
    order = np.argsort(codes, kind="stable")
    np.testing.assert_array_equal(np.argsort(places), order)
    np.testing.assert_array_equal(starts, np.searchsorted(codes[order], np.arange(11)))
    values, sorted_values = np.arange(len(codes)) * 1.5, np.empty(len(codes))
    row_blocks.put(values, places, sorted_values[None], 0)
    np.testing.assert_array_equal(sorted_values, values[order])


@pytest.mark.parametrize("codes", GROUPS)
@pytest.mark.parametrize("kernels", [row_blocks, by_size])
def test_groups_are_described_and_centred(codes: np.ndarray, kernels: object) -> None:
    rng = np.random.default_rng(1)
    block = rng.integers(-3, 4, (3, len(codes))) + 0.25
    block[2] = 0.1
    starts, _ = groups_of(np.sort(codes))
    centre, rest, minimum, maximum = np.full((4, 10, 3), 7.0)
    at_ends = np.full((10, 2, 3), 7, np.int64)
    given = block.copy()
    assert kernels.describe_groups(block, starts, centre, minimum, maximum)
    kernels.centre_groups(block, starts, centre, minimum, maximum, rest, at_ends)
    for g in range(10):
        values = given[:, starts[g] : starts[g + 1]]
        if not values.size:
            assert (np.stack([centre[g], rest[g], minimum[g], maximum[g], *at_ends[g]]) == 7.0).all()
            continue
        np.testing.assert_array_equal(minimum[g], values.min(axis=1))
        np.testing.assert_array_equal(maximum[g], values.max(axis=1))
        np.testing.assert_array_equal(at_ends[g, 0], (values == minimum[g][:, None]).sum(axis=1))
        np.testing.assert_array_equal(at_ends[g, 1], (values == maximum[g][:, None]).sum(axis=1))
        np.testing.assert_allclose(centre[g] + rest[g], values.mean(axis=1), rtol=1e-14)
        np.testing.assert_array_equal(block[:, starts[g] : starts[g + 1]], values - centre[g][:, None])
        assert centre[g, 2] == 0.1  # of a constant, to the last bit
        assert rest[g, 2] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 57, 99])
def test_one_value_that_is_not_finite_is_noticed(bad: float, place: int) -> None:
    block = np.random.default_rng(2).normal(size=(2, 100))
    starts = np.array([0, 40, 40, 100])
    centre, minimum, maximum = np.zeros((3, 3, 2))
    assert row_blocks.describe_groups(block, starts, centre, minimum, maximum)
    block[1, place] = bad
    assert not row_blocks.describe_groups(block, starts, centre, minimum, maximum)


def test_infinities_of_both_signs_do_not_cancel() -> None:
    block = np.array([[np.inf, -np.inf, 1.0]])
    centre, minimum, maximum = np.zeros((3, 1, 1))
    assert not row_blocks.describe_groups(block, np.array([0, 3]), centre, minimum, maximum)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_products_go_below_the_diagonal(d: int) -> None:
    rng = np.random.default_rng(3)
    block, scatter = rng.normal(size=(d, 50)), rng.normal(size=(d, d))
    lower, above = np.tril_indices(d), np.triu_indices(d, 1)
    rows = block[:, 11:31]
    expected = scatter + rows @ rows.T - 2.5 * block[:, 3:5] @ block[:, 3:5].T
    found = scatter.copy()
    add_products(block, 11, 31, found)
    add_products(block, 3, 5, found, -2.5)
    np.testing.assert_allclose(found[lower], expected[lower], rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found[above], scatter[above])


@pytest.mark.parametrize("d", [1, 2, 31, 32, 33, 100])
def test_what_is_below_the_diagonal_is_mirrored(d: int) -> None:
    scatter = np.random.default_rng(d).normal(size=(d, d))
    expected = np.tril(scatter) + np.tril(scatter, -1).T
    for module in (row_blocks, plain):
        found = scatter.copy()
        module.mirror(found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kernels", [row_blocks, by_size])
def test_what_the_rounding_of_a_mean_lost_is_kept(kernels: object) -> None:
    block = np.random.default_rng(4).normal(size=(2, 90)) + 1e9
    starts = np.array([0, 30, 90])
    centre, rest, minimum, maximum = np.zeros((4, 2, 2))
    given = block.astype(np.longdouble)
    kernels.describe_groups(block, starts, centre, minimum, maximum)
    kernels.centre_groups(block, starts, centre, minimum, maximum, rest, np.zeros((2, 2, 2), np.int64))
    for g, rows in enumerate((slice(0, 30), slice(30, 90))):
        lost = (given[:, rows] - centre[g][:, None]).mean(axis=1)
        assert (np.abs(lost) > 1e-10).any()
        np.testing.assert_allclose(rest[g], lost.astype(float), atol=1e-15)
