"""NumPy twins against the kernels at their limits: thresholds, few rows, many pieces, numbers of other types."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.data.features import as_lists
from invariance.kernels import cholesky as subset_cholesky
from invariance.kernels import elementary, subset_tree
from invariance.kernels import moves as block_gibbs
from invariance.kernels import plain as moments
from invariance.kernels import plain as rows
from invariance.kernels import plain as subsets
from invariance.kernels import plain as sums
from invariance.kernels import plain as tree
from invariance.kernels import row_residuals as group_rows
from invariance.kernels import row_residuals as orthogonal
from invariance.kernels import scatter as centring
from invariance.kernels import subset_sums as reductions
from invariance.kernels import subset_tree as screen
from invariance.kernels.active_set import Scoring
from invariance.kernels.row_residuals import DEPENDENT, residual_powers
from invariance.models.gaussian_fits import group_rows as compressed_rows
from twins import all_masks

TOLERANCE = 1e-9
MASKS = all_masks(4)


def table() -> MultiEnvironmentData:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(3), (12, 9, 15))
    X = rng.normal(size=(len(site), 4)) + 0.3 * site[:, None]
    X[site == 1, 1] = 2.0
    return MultiEnvironmentData.from_arrays(X, X[:, 0] + X[:, 2] * site + rng.normal(size=len(site)), site)


def scoring_with_rows() -> Scoring:
    data = table()
    model = LinearGaussian().bind(data)
    return model.scoring_by_moments()._replace(rows=compressed_rows(data, model.moments))


def same(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------- the tree


@pytest.mark.parametrize("weights", [[1.0, -0.5], [1000.0, -1000.0], [1.0, -2.0]])
def test_what_is_rounding_above_zero(weights):
    values = np.array([[-1.0, 0.0, 5e-7, 1.5e-6, 2.5e-6, 0.5, 40.0, np.nan]] * 2)
    subset_tree.settle(values[0], np.array(weights))
    tree.settle(values[1], np.array(weights))
    np.testing.assert_array_equal(*values)


def test_pivots_at_the_tolerance():
    for pivot in (0.99, 1.0, 1.01, 5.0, 20.0):
        for share in (0.99, 1.0, 5.0):
            grams = np.diag([pivot * TOLERANCE, 1.0, share * TOLERANCE])[None]
            values = np.empty((2, 4))
            arguments = grams, np.zeros((1, 3), dtype=bool), np.array([-1.0]), 0.0, TOLERANCE, np.arange(3), 0, 2
            subset_tree.score_grouped_block(*arguments, values[0])
            tree.score_grouped_block(*arguments, values[1])
            same(*values)
            assert np.isnan(values[1]).tolist() == [share < 1.0, pivot < 1.0 or share < 1.0] * 2


# Rows of the environments: enough, so few that degrees of freedom end at 1, and so few that none are left between.
@pytest.mark.parametrize("counts", [(12, 9, 15), (3, 6, 5), (3, 3, 3), (2, 3, 2)])
@pytest.mark.parametrize("high", [0, 1])
def test_the_screen_at_every_limit(counts, high):
    model = LinearGaussian().bind(table())
    p, groups = model.n_features, len(counts) + 1
    walk = model.subset_walk(np.arange(p), np.arange(0))
    squares = np.ascontiguousarray(model.moments.scatter[:, -1, -1])
    low = np.array([all_masks(p) @ own for own in model.moments.varying_widths])
    every = np.add.outer(np.arange(p + 2), np.arange(p * groups))

    def states(mean_limits, spread_limit):
        found, share = np.empty((2, 1 << p), np.uint8), np.empty(1 << p)
        counted = np.array([*counts, sum(counts)])
        for module, state in zip((screen, tree), found, strict=True):
            module.screen_grouped_block(
                walk.grams, walk.absent, squares, counted, mean_limits, spread_limit, TOLERANCE, walk.starts, 0, p,
                np.full(groups, high), low, share, state,
            )  # fmt: skip
        return found

    for limit in np.geomspace(1e-3, 1e3, 120):
        np.testing.assert_array_equal(*states(np.full(every.shape, limit), np.inf))
        np.testing.assert_array_equal(*states(np.full(every.shape, np.inf), limit))
    for odd in (0, 1):
        # All or none are rejected, by rank and by what is missing of it.
        found = states(np.where(every % 2 == odd, np.inf, -np.inf), np.inf)
        np.testing.assert_array_equal(*found)
        assert set(found[1].tolist()) == {screen.REJECTED, screen.POSSIBLE}


# -------------------------------------------------------------------- lists of subsets


@pytest.mark.parametrize(("fixed", "block"), [([0, 2], [1, 3]), ([3], [0, 1, 2]), ([1], [0, 3])])
def test_fixed_columns_beside_a_block(fixed, block):
    scoring = scoring_with_rows()
    values = np.empty((2, 1 << len(block)))
    arguments = scoring, np.array(fixed), np.arange(len(block) + 1), np.array(block)
    block_gibbs.grouped_block_log_ratios(*arguments, values[0])
    subsets.grouped_block_log_ratios(*arguments, values[1])
    same(*values)


def test_rows_decide_where_second_moments_say_more_than_is_possible():
    scoring = scoring_with_rows()
    wrong = scoring.scatter.copy()
    wrong[-1, scoring.outcome, scoring.outcome] *= 1.0 + 0.4 * np.sign(scoring.weights[-1])
    starts, members = as_lists(MASKS)
    values = np.empty((3, len(MASKS)))
    without = scoring._replace(rows=group_rows.without_values(scoring.rows))
    for used, module, out in zip((scoring, scoring, without), (subset_cholesky, subsets, subsets), values, strict=True):
        module.score_subsets(used._replace(scatter=wrong), np.nan, starts, members, out)
    same(*values[:2])
    unsettled = np.isnan(values[2])
    assert unsettled.any()
    assert not np.isnan(values[1]).any()


def test_columns_that_second_moments_tell_apart_are_independent():
    """Even where rows have to say what is left of the outcome, and would not tell the columns apart."""
    scoring = scoring_with_rows()
    scatter, values = scoring.scatter.copy(), scoring.rows.values.copy()
    scatter[:, scoring.outcome, scoring.outcome] = 0.0
    values[2] = values[0]
    scoring = scoring._replace(scatter=scatter, rows=scoring.rows._replace(values=values))
    starts, members = as_lists(MASKS)
    shares, ranks = np.empty((2, len(MASKS), 4)), np.empty((2, len(MASKS), 4), np.int64)
    subset_cholesky.subset_fits(scoring, starts, members, shares[0], ranks[0])
    subsets.subset_fits(scoring, starts, members, shares[1], ranks[1])
    np.testing.assert_array_equal(*ranks)
    same(*shares)


def test_subsets_in_many_pieces(monkeypatch):
    for module in (subsets, rows):
        monkeypatch.setattr(module, "_MOST_NUMBERS", 250)
    rng, scoring = np.random.default_rng(1), scoring_with_rows()
    starts, members = as_lists(MASKS)
    columns, slopes = rng.normal(size=(5, 60)), np.where(MASKS, rng.normal(size=MASKS.shape), 0.0)
    scores, shares, powers = np.empty((2, 16)), np.empty((2, 16, 4)), np.empty((2, 2, 16))
    ranks = np.empty(shares.shape, np.int64)
    subset_cholesky.score_subsets(scoring, np.nan, starts, members, scores[0])
    subsets.score_subsets(scoring, np.nan, starts, members, scores[1])
    subset_cholesky.subset_fits(scoring, starts, members, shares[0], ranks[0])
    subsets.subset_fits(scoring, starts, members, shares[1], ranks[1])
    for compiled, plain in (scores, shares, ranks):
        same(compiled, plain)
    residual_powers(columns, slopes, starts, members, *powers[0])
    subsets.residual_powers(columns, slopes, starts, members, *powers[1])
    same(*powers)


def test_rows_in_many_pieces(monkeypatch):
    monkeypatch.setattr(rows, "_MOST_NUMBERS", 250)
    unit = np.random.default_rng(2).normal(size=(5, 30))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    starts, members = as_lists(MASKS)
    residual, rank = np.full((2, 16), np.nan), np.full((2, 16), -1)
    rows.relative_residuals(unit, starts, members, DEPENDENT, residual[1], rank[1])
    orthogonal.relative_residuals(unit, starts, members, DEPENDENT, residual[0], rank[0])
    np.testing.assert_array_equal(*rank)
    same(*residual)


# -------------------------------------------------------------------- rows


@pytest.mark.parametrize("squared", [0.99, 1.0, 1.01, 30.0, 200.0])
def test_what_depends_on_others(squared):
    limit = 1e-4
    columns = np.array([[1.0, 0.0, 0.0], [0.0, np.sqrt(squared) * np.sqrt(limit), 0.0], [0.6, 0.6, 0.5]])
    chosen = np.arange(3)
    made = [module.triangular_factor(columns, chosen, limit) for module in (orthogonal, rows)]
    for one, other in zip(*made, strict=True):
        same(one, other)
    small = np.sqrt(squared * DEPENDENT)
    values = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, small, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, small, 0.0]])
    kept = group_rows.GroupRows(values, np.array([0]), np.array([4]), np.array([4]), np.empty((0, 4)))
    for members, outcome in (([0, 1], 2), ([0], 3), ([1], 3), ([0, 2], 3)):
        shares = [module.share_from_rows(kept, 0, np.array(members), outcome) for module in (group_rows, rows)]
        np.testing.assert_allclose(*shares, rtol=1e-2)


# -------------------------------------------------------------------- second moments


@pytest.mark.parametrize("n", [3, 7, 20, 50])
def test_means_far_from_zero_cost_no_digits(n):
    rng = np.random.default_rng(n)
    X = np.column_stack([1e9 + rng.normal(size=(n, 3)), np.full(n, 0.1), np.full(n, 1e9 + 0.1), rng.normal(size=n)])
    y, origin = -1e9 + rng.normal(size=n), np.array([1e9, 1e9, 1e9, 0.5, 1e9, 0.0, -1e9])
    centre, rest, minimum, maximum = np.empty((4, 7))
    centred = moments.centred_rows(X, y, np.arange(n), centre, rest, minimum, maximum)
    exact = np.column_stack([X, y]) - origin
    np.testing.assert_allclose((centre - origin) + rest, exact.mean(axis=0), rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(centred, exact - exact.mean(axis=0), rtol=0.0, atol=1e-13)
    assert (centred[:, 3:5] == 0.0).all()
    assert centre[3:5].tolist() == [0.1, 1e9 + 0.1]
    assert (rest[3:5] == 0.0).all()


@pytest.mark.parametrize("kinds", [(np.float32, np.float32), (np.int64, np.int64), (np.int32, float), (bool, np.int8)])
def test_numbers_of_other_types_are_centred_as_doubles(kinds):
    rng = np.random.default_rng(4)
    X, y = (100.0 * rng.normal(size=(20, 3))).astype(kinds[0]), (100.0 * rng.normal(size=20)).astype(kinds[1])
    made = []
    for module in (centring, moments):
        ends, limits = np.empty((2, 4), np.int64), np.empty((4, 4))
        centred = module.centred_rows(X, y, np.arange(2, 20), *limits, ends)
        made.append((centred, limits[0] + limits[1], limits[2:], ends))
    for one, other in zip(*made, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-12)


# -------------------------------------------------------------------- sums


@pytest.mark.parametrize("shift", [0.0, -np.inf, -1e300])
def test_weights_of_what_is_impossible(shift):
    values, out = np.array([-np.inf, -np.inf, shift, shift - 800.0]), np.empty((2, 4))
    elementary.exp_shifted(values, shift, out[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums.exp_shifted(values, shift, out[1])
    np.testing.assert_array_equal(*out)


def test_listed_inclusion_adds_to_what_is_there():
    weights, members, pairs = np.array([0.5, 0.25]), np.array([[0, 2], [1, -1]], np.int32), np.ones((2, 3, 3))
    reductions.listed_inclusion(weights, members, pairs[0])
    sums.listed_inclusion(weights, members, pairs[1])
    same(*pairs)
