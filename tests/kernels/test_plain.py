"""NumPy twins against the kernels: the same numbers, the same ranks, the same subsets that cannot be decided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.data.features import as_lists
from invariance.kernels import (
    cholesky,
    dispatch,
    elementary,
    moves,
    plain,
    row_residuals,
    scatter,
    subset_sums,
    subset_tree,
)
from invariance.kernels.row_residuals import DEPENDENT
from invariance.kernels.subset_tree import feature_starts
from invariance.moments.least_squares import unit_rows
from twins import all_masks

NATS = 1e-9


@st.composite
def tables(draw, largest: int = 5) -> MultiEnvironmentData:
    """Few or many rows in each environment, with columns that are constant in one, copies, sums and nearly sums of
    others, and an outcome that features fit, or nearly."""
    p, counts = draw(st.integers(1, largest)), draw(st.lists(st.integers(3, 14), min_size=2, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    site = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(site), p)) * rng.uniform(0.5, 2.0, (len(counts), p))[site] + rng.normal(size=p)
    for j in range(1, p):
        kind = draw(st.sampled_from(["own"] * 4 + ["constant somewhere", "copy", "sum", "nearly a sum"]))
        if kind == "constant somewhere":
            X[site == 0, j] = -1.0
        elif kind == "copy":
            X[:, j] = X[:, j - 1]
        elif kind.endswith("sum"):
            X[:, j] = X[:, :j].sum(axis=1) + (1e-5 * X[:, j] if kind.startswith("nearly") else 0.0)
    y = X[:, 0] + X[:, -1] * (1.0 + site) + draw(st.sampled_from([1.0, 1.0, 1e-5, 0.0])) * rng.normal(size=len(site))
    return MultiEnvironmentData.from_arrays(X, y, site)


def columns_of_all_subsets(model) -> tuple[np.ndarray, np.ndarray]:
    starts, members = as_lists(all_masks(model.n_features))
    return starts, model.moments.feature_columns[members].astype(np.int64)


def same(one: np.ndarray, other: np.ndarray, slack: np.ndarray | float = 0.0) -> None:
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
    finite = np.isfinite(one)
    allowed = NATS * np.maximum(1.0, np.abs(other)) + slack
    assert (np.abs(one - other)[finite] <= np.broadcast_to(allowed, one.shape)[finite]).all()


def rounding(walk, starts: np.ndarray) -> np.ndarray:
    """(2**f,) how far rounding may move log Λ of each subset: by eps / (its smallest squared pivot) in each group."""
    f, eps = len(starts) - 1, np.finfo(float).eps
    slack = np.zeros(1 << f)
    for subset in range(1 << f):
        columns = [c for j in range(f) if subset >> j & 1 for c in range(starts[j], starts[j + 1])]
        for gram, weight in zip(walk.grams, walk._terms[0], strict=True):
            kept = [*columns, len(gram) - 1]
            left = gram[np.ix_(kept, kept)].copy()
            smallest = 1.0
            for i in range(len(kept)):
                pivot = left[i, i]
                if pivot > 1e-12:
                    smallest = min(smallest, pivot)
                    left -= np.outer(left[:, i], left[i]) / pivot
            slack[subset] += 50.0 * abs(weight) * eps / smallest
    return slack


@settings(max_examples=60, deadline=None)
@given(tables(), st.booleans(), st.sampled_from([0.0, 0.7]))
def test_lists_of_subsets(data, with_rows, reward):
    model = LinearGaussian().bind(data)
    model.prediction = reward
    scoring = model.scoring_by_rows() if with_rows else model.scoring_by_moments()
    starts, members = columns_of_all_subsets(model)
    values = np.empty((2, len(starts) - 1))
    cholesky.score_subsets(scoring, np.nan, starts, members, values[0])
    plain.score_subsets(scoring, np.nan, starts, members, values[1])
    same(*values)
    shares = np.empty((2, len(starts) - 1, len(scoring.weights)))
    ranks = np.empty(shares.shape, np.int64)
    cholesky.subset_fits(scoring, starts, members, shares[0], ranks[0])
    plain.subset_fits(scoring, starts, members, shares[1], ranks[1])
    # Whether a column more than the rows can tell apart is rounding or not is of no consequence.
    np.testing.assert_array_equal(*np.minimum(ranks, scoring.rows.counts - 1))
    same(*shares)


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_walks(data, chosen):
    model = LinearGaussian().bind(data)
    p = model.n_features
    walk = model.subset_walk(np.arange(p), np.arange(0))
    widths = chosen.draw(st.sampled_from([[1] * p, [p], [2] * (p // 2) + [1] * (p % 2)]))
    starts = feature_starts(np.array(widths, np.int64))
    f = len(widths)
    arguments = walk.grams, walk.absent, *walk._terms, starts
    values = np.empty((2, 1 << f))
    subset_tree.score_grouped_block(*arguments, 0, f, values[0])
    plain.score_grouped_block(*arguments, 0, f, values[1])
    slack = rounding(walk, starts)
    same(*values, slack)
    prefix = np.array(sorted(chosen.draw(st.sets(st.integers(0, f - 1)))), np.int64)
    most = chosen.draw(st.integers(len(prefix), f))
    n = len(plain._extensions(tuple(prefix.tolist()), f, most))
    members, listed = np.empty((2, n, max(most, 1)), np.int32), np.empty((2, n))
    subset_tree.score_grouped_extensions(*arguments, prefix, most, members[0], listed[0])
    plain.score_grouped_extensions(*arguments, prefix, most, members[1], listed[1])
    np.testing.assert_array_equal(*members)
    same(*listed, slack.max())
    blocks, fixed = np.empty((2, 1 << f)), np.empty(0, np.int64)
    scoring = model.scoring_by_rows()
    moves.grouped_block_log_ratios(scoring, fixed, starts, walk.free, blocks[0])
    plain.grouped_block_log_ratios(scoring, fixed, starts, walk.free, blocks[1])
    same(*blocks, slack)


@settings(max_examples=60, deadline=None)
@given(tables(), st.floats(0.5, 20.0), st.floats(0.5, 20.0))
def test_the_screen(data, mean_limit, spread_limit):
    model = LinearGaussian().bind(data)
    p, counts = model.n_features, model.moments.group_counts
    walk = model.subset_walk(np.arange(p), np.arange(0))
    low = np.array([all_masks(p) @ own for own in model.moments.varying_widths])
    limits = np.full((p + 1, p * len(counts) + 2), mean_limit)
    squares = np.ascontiguousarray(model.moments.scatter[:, -1, -1])
    shares, states = np.empty((2, 1 << p)), np.empty((2, 1 << p), np.uint8)
    arguments = walk.grams, walk.absent, squares, counts, limits, spread_limit, 1e-9, walk.starts, 0, p
    for screened, share, state in zip((subset_tree, plain), shares, states, strict=True):
        screened.screen_grouped_block(*arguments, np.zeros(len(counts), np.int64), low, share, state)
    np.testing.assert_array_equal(*states)
    same(*shares)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_rows(data):
    unit, _, _ = unit_rows(np.column_stack([data.X, data.y]))
    starts, members = as_lists(all_masks(data.n_features))
    residual, rank = np.empty((2, len(starts) - 1)), np.empty((2, len(starts) - 1), np.int64)
    row_residuals.relative_residuals(unit, starts, members, DEPENDENT, residual[0], rank[0])
    plain.relative_residuals(unit, starts, members, DEPENDENT, residual[1], rank[1])
    np.testing.assert_array_equal(*rank)
    same(*residual)
    everything = np.arange(len(unit))
    for one, other in zip(
        row_residuals.triangular_factor(unit, everything, DEPENDENT),
        plain.triangular_factor(unit, everything, DEPENDENT),
        strict=True,
    ):
        same(one, other)
    model = LinearGaussian().bind(data)
    kept, y = model.scoring_by_rows().rows, model.moments.outcome
    for s in range(len(starts) - 1):
        columns = model.moments.feature_columns[members[starts[s] : starts[s + 1]]].astype(np.int64)
        for g in range(data.n_environments + 1):
            same(row_residuals.share_from_rows(kept, g, columns, y), plain.share_from_rows(kept, g, columns, y))


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(0, 9))
def test_second_moments(data, row):
    p, e = data.n_features, 0
    chosen = data.rows(e)
    made = []
    for module in (scatter, plain):
        ends, (centre, rest, minimum, maximum) = np.empty((2, p + 1), np.int64), np.empty((4, p + 1))
        centred = module.centred_rows(1e4 + data.X, data.y, chosen, centre, rest, minimum, maximum, ends)
        made.append((centred, centre + rest, minimum, maximum, ends))
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-11)
    rng = np.random.default_rng(row)
    counts, gaps, local = np.array([3, 5]), rng.normal(size=(2, p + 1)), rng.normal(size=(3, p + 1, p + 1))
    pools = np.array([local, local])
    scatter.fill_pooled(pools[0], counts, gaps)
    plain.fill_pooled(pools[1], counts, gaps)
    same(*pools)
    loss, deviation, constant = rng.normal(size=p + 1), rng.normal(size=p + 1), rng.random(p + 1) < 0.3
    left = np.empty((2, 3, p + 1, p + 1))
    scatter.fill_without_row(local, 1, loss, deviation, constant, counts, gaps, left[0])
    plain.fill_without_row(local, 1, loss, deviation, constant, counts, gaps, left[1])
    same(*left)


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(0, 99))
def test_slopes_and_powers_of_residuals(data, seed):
    unit, _, _ = unit_rows(np.column_stack([data.X, data.y]))
    starts, members = as_lists(all_masks(data.n_features))
    slopes = np.zeros((2, len(starts) - 1, data.n_features))
    cholesky.subset_slopes(unit @ unit.T, 1e-9, starts, members, slopes[0])
    plain.subset_slopes(unit @ unit.T, 1e-9, starts, members, slopes[1])
    np.testing.assert_allclose(*slopes, rtol=1e-6, atol=1e-9)
    known = np.nan_to_num(slopes[0])
    powers = np.empty((2, 2, len(known)))
    row_residuals.residual_powers(unit, known, starts, members, *powers[0])
    plain.residual_powers(unit, known, starts, members, *powers[1])
    np.testing.assert_allclose(powers[0], powers[1], rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 99))
def test_sums_over_subsets(f, seed):
    rng = np.random.default_rng(seed)
    n = 1 << f
    values = np.where(rng.random(n) < 0.2, -np.inf, rng.normal(scale=300.0, size=n))
    weights = np.empty((2, n))
    elementary.exp_shifted(values, 1000.0, weights[0])
    plain.exp_shifted(values, 1000.0, weights[1])
    np.testing.assert_allclose(*weights, rtol=1e-12)
    weight = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    assert plain.weighted_sum(weight, values) == pytest.approx(subset_sums.weighted_sum(weight, values), rel=1e-12)
    chosen = all_masks(f)
    listed = np.full((n, f), -1, np.int32)
    for s, mask in enumerate(chosen):
        listed[s, : mask.sum()] = np.flatnonzero(mask)
    for name, what in (("fold_inclusion", f), ("listed_inclusion", listed)):
        pairs = np.zeros((2, f, f))
        totals = [
            getattr(module, name)(weight.copy(), what, out)
            for module, out in zip((subset_sums, plain), pairs, strict=True)
        ]
        assert totals[0] == pytest.approx(totals[1], rel=1e-12)
        same(*pairs)
    odds, by_size_, ratio = rng.normal(size=f), np.append(rng.normal(size=f), -np.inf), rng.normal(size=n)
    ratio[0] = np.nan
    priors = np.empty((4, n))
    dense = chosen @ odds, chosen.sum(axis=1), 0.3, by_size_, ratio
    subset_sums.add_dense_prior(*dense, priors[0])
    plain.add_dense_prior(*dense, priors[1])
    subset_sums.add_listed_prior(odds, 0.3, by_size_, listed, ratio, priors[2])
    plain.add_listed_prior(odds, 0.3, by_size_, listed, ratio, priors[3])
    same(priors[1:], priors[:-1])
    np.testing.assert_array_equal(subset_sums.sizes(chosen), plain.sizes(chosen))
    same(subset_sums.sums_over_members(chosen, odds), plain.sums_over_members(chosen, odds))


def test_only_the_size_of_a_problem_chooses(monkeypatch):
    called = []

    def twin(gram):
        called.append("compiled")

    monkeypatch.setattr(plain, "twin", lambda gram: called.append("plain"), raising=False)
    chosen = dispatch._by_size(twin, dispatch._few)
    for groups, columns in ((3, 12), (32, 12), (3, 13), (33, 12)):
        chosen(np.empty((groups, columns + 1, columns + 1)))
    assert called == ["plain", "plain", "compiled", "compiled"]
