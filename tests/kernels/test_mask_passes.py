"""Passes over masks, and the removal of a row from second moments, against plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.kernels.scatter import fill_pooled, fill_without_row
from invariance.kernels.subset_sums import listed, sizes, sums_over_members, weighted_shares


def random_masks(n: int, p: int, seed: int) -> np.ndarray:
    """Some of them empty, some of them full."""
    rng = np.random.default_rng(seed)
    return rng.random((n, p)) < rng.choice([0.0, 0.1, 0.7, 1.0], (n, 1))


shapes = given(st.integers(1, 30), st.integers(0, 70), st.integers(0, 1000))


@settings(max_examples=50, deadline=None)
@shapes
def test_sizes_and_sums(n: int, p: int, seed: int) -> None:
    masks, rng = random_masks(n, p, seed), np.random.default_rng(seed)
    np.testing.assert_array_equal(sizes(masks), masks.sum(axis=1))
    values, weights = rng.normal(size=p), rng.random(n) + 0.1
    np.testing.assert_allclose(sums_over_members(masks, values), masks @ values, rtol=0, atol=1e-12)
    shares = weighted_shares(masks, weights)
    np.testing.assert_allclose(shares, weights @ masks / weights.sum(), rtol=0, atol=1e-12)
    assert (shares[masks.all(axis=0)] == 1.0).all()
    assert (shares[~masks.any(axis=0)] == 0.0).all()


@settings(max_examples=50, deadline=None)
@shapes
def test_lists(n: int, p: int, seed: int) -> None:
    masks, columns = random_masks(n, p, seed), np.random.default_rng(seed).permutation(3 * p)[:p]
    room = max(int(masks.sum(axis=1).max()), 1)
    members = listed(masks, columns, room)
    assert members.shape == (n, room)
    for row, mask in zip(members, masks, strict=True):
        np.testing.assert_array_equal(row[: mask.sum()], columns[mask])


def test_sums_are_over_rows_whatever_their_order_in_memory() -> None:
    masks = random_masks(40, 9, 1)
    np.testing.assert_array_equal(sizes(np.asfortranarray(masks)), masks.sum(axis=1))
    np.testing.assert_array_equal(sizes(masks[::2, 1:7]), masks[::2, 1:7].sum(axis=1))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 1000))
def test_scatter_without_a_row(n_environments: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scatter = rng.normal(size=(n_environments + 1, d, d))
    loss, deviation, constant = rng.normal(size=d), rng.normal(size=d), rng.random(d) < 0.2
    counts, gaps = rng.integers(2, 90, n_environments), rng.normal(size=(n_environments, d))
    e = int(rng.integers(n_environments))
    expected = scatter.copy()
    expected[e] -= np.outer(loss, deviation)
    expected[e, constant, :] = 0.0
    expected[e, :, constant] = 0.0
    expected[-1] = expected[:-1].sum(axis=0) + (gaps * counts[:, None]).T @ gaps
    before, out = scatter.copy(), np.full_like(scatter, np.nan)
    fill_without_row(scatter, e, loss, deviation, constant, counts, gaps, out)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-10)
    assert (out[e, constant] == 0.0).all()
    np.testing.assert_array_equal(scatter, before)
    out[-1] = np.nan
    fill_pooled(out, counts, gaps)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-10)
