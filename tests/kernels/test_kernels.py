"""Each kernel against its plain NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.inference.enumeration import DenseBlocks, ListedBlocks, all_log_ratios, walk_of
from invariance.kernels.elementary import add_weighted_log, exp_shifted
from invariance.kernels.row_residuals import triangular_factor
from invariance.kernels.subset_sums import fold_inclusion, listed_inclusion
from invariance.models.gaussian import LinearGaussian
from invariance.priors.base import PriorTerms
from twins import all_masks, datasets, simulated


@settings(deadline=None)
@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=40), st.floats(-1e3, 1e3))
def test_log_agrees_with_numpy(values: list[float], weight: float) -> None:
    x = np.array(values)
    total = np.ones_like(x)
    add_weighted_log(total, weight, x)
    np.testing.assert_allclose(total, 1.0 + weight * np.log(x), rtol=1e-13, atol=1e-13 * abs(weight) + 1e-13)


def test_log_keeps_nan() -> None:
    total = np.zeros(3)
    add_weighted_log(total, 2.0, np.array([1.0, np.nan, np.e]))
    assert total[0] == 0.0
    assert np.isnan(total[1])
    assert total[2] == pytest.approx(2.0, rel=1e-15)


@settings(deadline=None)
@given(st.lists(st.floats(-700, 0), min_size=1, max_size=40), st.floats(-1e4, 1e4))
def test_exp_agrees_with_numpy(below: list[float], shift: float) -> None:
    values = np.array(below) + shift
    values = np.minimum(values, shift)
    out = np.empty_like(values)
    exp_shifted(values, shift, out)
    np.testing.assert_allclose(out, np.exp(values - shift), rtol=1e-14)


def test_exp_of_nothing_is_zero() -> None:
    out = np.empty(2)
    exp_shifted(np.array([-np.inf, -5000.0]), 0.0, out)
    assert out.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n_low", [0, 1, 2, 5, 8])
def test_folded_sums_agree_with_plain_sums(n_low: int) -> None:
    rng = np.random.default_rng(n_low)
    weights = rng.random(1 << n_low)
    masks = all_masks(n_low).astype(float)
    pairs = np.zeros((n_low, n_low))
    total = fold_inclusion(weights.copy(), n_low, pairs)
    assert total == pytest.approx(weights.sum(), rel=1e-14)
    np.testing.assert_allclose(pairs, (masks * weights[:, None]).T @ masks, rtol=1e-13)


def test_listed_sums_agree_with_plain_sums() -> None:
    rng = np.random.default_rng(0)
    masks = all_masks(5)
    weights = rng.random(len(masks))
    members = np.full((len(masks), 5), -1, np.int32)
    for s, mask in enumerate(masks):
        members[s, : mask.sum()] = np.flatnonzero(mask)
    pairs = np.zeros((5, 5))
    total = listed_inclusion(weights, members, pairs)
    assert total == pytest.approx(weights.sum(), rel=1e-14)
    expected = (masks * weights[:, None]).T @ masks.astype(float)
    np.testing.assert_allclose(np.triu(pairs), np.triu(expected), rtol=1e-13)


def test_orthogonalisation_agrees_with_lapack() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(5, 40))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    triangle, independent = triangular_factor(rows, np.array([4, 0, 2]), 1e-26)
    expected = np.linalg.qr(rows[[4, 0, 2]].T, mode="r")
    np.testing.assert_allclose(triangle, expected * np.sign(np.diagonal(expected))[:, None], atol=1e-14)
    assert independent.all()


def test_dependent_column_removes_nothing() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(4, 30))
    rows[2] = rows[0] + rows[1]
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    triangle, independent = triangular_factor(rows, np.arange(4), 1e-26)
    assert independent.tolist() == [True, True, False, True]
    without = triangular_factor(rows, np.array([0, 1, 3]), 1e-26)[0]
    assert triangle[3, 3] == pytest.approx(without[2, 2], rel=1e-14)


@settings(max_examples=25, deadline=None)
@given(datasets(), st.integers(0, 5))
def test_dense_and_listed_walks_agree_with_one_factorisation_each(data, max_size: int) -> None:
    p = data.n_features
    model = LinearGaussian().bind(data)
    prior = PriorTerms.flat(p, min(max_size, p))
    walk = walk_of(model, np.arange(p), np.empty(0, np.int64))
    dense, listed = DenseBlocks(walk, prior), ListedBlocks(walk, prior)
    positions = np.arange(listed.n_positions)
    masks = listed.masks(positions)
    assert len(np.unique(masks @ (1 << np.arange(p)))) == listed.n_positions
    expected = model.log_ratio_many(masks)
    scored = np.concatenate([listed.scored(b).log_ratio for b in range(listed.n_blocks)])
    np.testing.assert_allclose(scored, expected, rtol=1e-9, atol=1e-9)
    codes = masks @ (1 << np.arange(p))
    np.testing.assert_allclose(dense.scored(0).log_posterior[codes], expected, rtol=1e-9, atol=1e-9)
    assert (dense.scored(0).log_posterior > -np.inf).sum() == listed.n_positions


def test_listed_walk_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", 10)
    model = LinearGaussian().bind(simulated(9, (30, 40), seed=5))
    prior = PriorTerms.flat(9, 4)
    listed = ListedBlocks(walk_of(model, np.arange(9), np.empty(0, np.int64)), prior)
    assert listed.n_blocks > 50
    masks = listed.masks(np.arange(listed.n_positions))
    scored = np.concatenate([listed.scored(b).log_posterior for b in range(listed.n_blocks)])
    np.testing.assert_allclose(scored, model.log_ratio_many(masks), rtol=1e-9)
    assert masks.sum(axis=1).max() == 4
    assert len(np.unique(masks @ (1 << np.arange(9)))) == sum((1, 9, 36, 84, 126))


def test_dense_walk_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.kernels.subset_tree.LOW_FEATURES", 3)
    model = LinearGaussian().bind(simulated(7, (30, 40), seed=6))
    assert DenseBlocks(walk_of(model, np.arange(7), np.empty(0, np.int64)), PriorTerms.flat(7, 7)).n_blocks == 16
    np.testing.assert_allclose(all_log_ratios(model), model.log_ratio_many(all_masks(7)), rtol=1e-9)
