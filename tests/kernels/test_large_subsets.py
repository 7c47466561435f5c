"""Large subsets: factored in tiles, against plain NumPy and against sweeping them column by column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import InclusionPrior, LinearGaussian, Moments, MultiEnvironmentData, UniformPrior
from invariance.inference.base import Target
from invariance.inference.variational import ascent
from invariance.inference.variational.ascent import FreeSpace
from invariance.kernels.cholesky import (
    LARGE,
    Ahead,
    block_start,
    decided_as_large,
    factor_block,
    large_subset,
    n_blocks,
    score_subsets,
    subset_fits,
    subset_log_ratio,
)
from invariance.kernels.row_residuals import PairedMoments
from invariance.models.gaussian import GaussianOnDemand

TOLERANCE = 1e-9


def correlated(p: int = 240, counts: tuple[int, ...] = (260, 330), seed: int = 0) -> MultiEnvironmentData:
    """Factors make the features correlated; each environment has its own means and spreads."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(len(counts)), counts)
    factors = rng.normal(size=(len(environment), 5)) @ rng.normal(size=(5, p))
    X = factors + rng.normal(size=factors.shape) * rng.uniform(0.5, 2.0, (len(counts), p))[environment]
    X += rng.normal(size=(len(counts), p))[environment]
    y = X[:, :4].sum(axis=1) + rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, environment)


DATA = correlated()


def subset(k: int, seed: int, p: int = DATA.n_features) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(p, k, replace=False))


def scored(scoring, *subsets: np.ndarray, penalty: float = np.nan) -> np.ndarray:
    starts = np.concatenate([[0], np.cumsum([len(members) for members in subsets])])
    values = np.empty(len(subsets))
    score_subsets(scoring, penalty, starts, np.concatenate(subsets), values)
    return values


def plain_log_ratio(scoring, members: np.ndarray) -> float:
    """By NumPy's Cholesky factors, columns without a scale left out."""
    total = scoring.offset
    for g, weight in enumerate(scoring.weights):
        columns = np.append(members[scoring.inverse_scale[g, members] > 0.0], scoring.outcome)
        scale = scoring.inverse_scale[g, columns]
        gram = scoring.scatter[g][np.ix_(columns, columns)] * scale[:, None] * scale
        total += weight * np.log(np.linalg.cholesky(gram)[-1, -1] ** 2)
    return total


def as_triangle(matrix: np.ndarray) -> np.ndarray:
    """The blocks of eight columns, zeros beyond the matrix."""
    n, blocks = len(matrix), n_blocks(len(matrix))
    padded = np.zeros((8 * blocks, 8 * blocks))
    padded[:n, :n] = matrix
    return np.concatenate([padded[: 8 * b + 8, 8 * b : 8 * b + 8].ravel() for b in range(blocks)])


def upper(triangle: np.ndarray, n: int) -> np.ndarray:
    blocks = n_blocks(n)
    result = np.zeros((8 * blocks, 8 * blocks))
    for b in range(blocks):
        result[: 8 * b + 8, 8 * b : 8 * b + 8] = triangle[block_start(b) : block_start(b + 1)].reshape(-1, 8)
    return np.triu(result)[:n, :n]


def factor(triangles: np.ndarray, scale: np.ndarray, reciprocals: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    """Of triangles (G, t), in place."""
    nothing = Ahead(np.empty(0), np.empty(8, np.int64), np.empty(0, np.int64))
    blocks = range(scale.shape[1] // 8)
    return all(factor_block(triangles, scale, reciprocals, b, tolerance, nothing) for b in blocks)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(0, 1000), st.booleans())
def test_the_factor_is_the_one_of_the_scaled_matrix(n: int, seed: int, absent: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n + 40, n)) * rng.uniform(0.1, 10.0, n)
    gram = rows.T @ rows
    scale = np.zeros(8 * n_blocks(n))
    scale[:n] = 1.0 / np.sqrt(np.diag(gram))
    if absent:
        scale[rng.integers(n)] = 0.0
    expected = gram * scale[:n, None] * scale[:n]
    np.fill_diagonal(expected, 1.0)
    triangles, scales = np.stack([as_triangle(gram), as_triangle(np.eye(n))]), np.stack([scale, np.ones(len(scale))])
    scales[1, n:] = 0.0
    reciprocals = np.empty(scales.shape)
    assert factor(triangles, scales, reciprocals)
    np.testing.assert_allclose(upper(triangles[0], n), np.linalg.cholesky(expected).T, atol=1e-11)
    np.testing.assert_allclose(reciprocals[0, :n], 1.0 / np.diag(upper(triangles[0], n)), rtol=1e-12)
    np.testing.assert_array_equal(upper(triangles[1], n), np.eye(n))


@pytest.mark.parametrize("place", [3, 8, 61, 70])
def test_a_small_pivot_is_found_wherever_it_stands(place: int) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 71))
    rows[:, place] = rows[:, :3].sum(axis=1)
    gram = np.corrcoef(rows.T)
    scale, work = np.tile(np.append(np.ones(71), 0.0), (2, 1)), np.empty((2, 72))
    small, identity = 1e-6 * np.eye(71), as_triangle(np.eye(71))
    for group in (0, 1):

        def triangles(matrix: np.ndarray, last: int = group) -> np.ndarray:
            both = as_triangle(matrix), identity
            return np.stack(both[::-1] if last else both)

        assert not factor(triangles(gram), scale, work)
        assert factor(triangles(gram + small), scale, work)
        assert not factor(triangles(gram + small), scale, work, 1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(40, 200), st.integers(0, 1000))
def test_large_subsets_have_the_value_of_sweeps(k: int, seed: int) -> None:
    scoring, members = LinearGaussian().bind(DATA).scoring(), subset(k, seed)
    value = scored(scoring, members)[0]
    assert decided_as_large(scoring, members, large_subset(3, k)) == (k >= LARGE)
    assert value == pytest.approx(subset_log_ratio(scoring, members), abs=1e-8)
    assert value == pytest.approx(plain_log_ratio(scoring, members), abs=1e-8)


def test_subsets_of_all_sizes_one_after_another() -> None:
    scoring = LinearGaussian().bind(DATA).scoring()
    subsets = [subset(k, k) for k in (200, 3, LARGE - 1, LARGE, 111, 0, 64, 55, 199)]
    swept = np.array([subset_log_ratio(scoring, one) for one in subsets])
    small = np.array([len(one) < LARGE for one in subsets])
    for penalty in (np.nan, 0.05):
        values = scored(scoring, *subsets, penalty=penalty)
        np.testing.assert_allclose(values, swept, atol=1e-8)
        np.testing.assert_array_equal(values[small], swept[small])


def test_a_column_that_is_constant_in_one_environment() -> None:
    X = DATA.X.copy()
    X[np.ix_(DATA.rows(0), [7, 90])] = 2.5
    scoring = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, DATA.y, DATA.environment_index)).scoring()
    members = np.union1d(subset(80, 0), [7, 90])
    shares, ranks = np.empty((1, 3)), np.empty((1, 3), np.int64)
    subset_fits(scoring, np.array([0, len(members)]), members, shares, ranks)
    assert decided_as_large(scoring, members, large_subset(3, len(members)))
    assert scored(scoring, members)[0] == pytest.approx(plain_log_ratio(scoring, members), abs=1e-8)
    assert ranks.tolist() == [[len(members) - 2, len(members), len(members)]]
    assert scoring.offset + scoring.weights @ np.log(shares[0]) == pytest.approx(plain_log_ratio(scoring, members))


def test_shares_are_those_of_least_squares() -> None:
    members = subset(120, 5)
    residuals = (
        LinearGaussian().bind(Moments.from_data(DATA)).residuals(np.isin(np.arange(DATA.n_features), members)[None])
    )
    groups = [*map(DATA.rows, range(2)), np.arange(DATA.n_rows)]
    for g, rows in enumerate(groups):
        design = np.column_stack([np.ones(len(rows)), DATA.X[np.ix_(rows, members)]])
        left = DATA.y[rows] - design @ np.linalg.lstsq(design, DATA.y[rows], rcond=None)[0]
        assert residuals.rss[0, g] == pytest.approx(left @ left, rel=1e-9)
    assert residuals.ranks.tolist() == [[120, 120, 120]]


def test_collinear_members_are_decided_by_rows_or_cost_a_penalty() -> None:
    X = DATA.X.copy()
    X[:, 50] = X[:, 10] - 2.0 * X[:, 20]
    data = MultiEnvironmentData.from_arrays(X, DATA.y, DATA.environment_index)
    mask = np.zeros(DATA.n_features, bool)
    mask[subset(100, 1)] = True
    mask[[10, 20, 50]] = True
    without = mask.copy()
    without[50] = False
    rows, moments = LinearGaussian().bind(data), LinearGaussian().bind(Moments.from_data(data))
    rest = rows.log_ratio_many(without)[0]
    assert not decided_as_large(rows.scoring(), np.flatnonzero(mask), large_subset(3, int(mask.sum())))
    assert rows.log_ratio_many(mask)[0] == pytest.approx(rest, abs=1e-6)
    assert moments.log_ratio_many(mask)[0] == -np.inf
    assert moments.search_ratio_many(mask)[0] == pytest.approx(rest * 1.05, abs=1e-6)
    assert np.isnan(moments.residuals(mask[None]).rss).all()


def test_a_perfect_fit_stays_undecidable() -> None:
    y = DATA.X[:, subset(60, 2)].sum(axis=1)
    data = MultiEnvironmentData.from_arrays(DATA.X, y, DATA.environment_index)
    model = LinearGaussian().bind(Moments.from_data(data))
    assert model.log_ratio_many(np.isin(np.arange(DATA.n_features), subset(60, 2)))[0] == -np.inf


def test_second_moments_on_demand() -> None:
    model, members = GaussianOnDemand(DATA), subset(130, 3)
    expected = subset_log_ratio(LinearGaussian().bind(DATA).scoring(), members)
    scoring = model.scoring()
    assert decided_as_large(scoring, members, large_subset(3, 130))
    assert scored(scoring, members)[0] == pytest.approx(expected, abs=1e-8)
    mask = np.isin(np.arange(DATA.n_features), members)
    assert model.log_ratio_many(mask)[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("bind", [LinearGaussian().bind, GaussianOnDemand], ids=["dense", "on demand"])
@pytest.mark.parametrize("copied_from", [0, 1 << 40], ids=["side by side", "as they are"])
def test_draws_with_forced_features(bind, copied_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascent, "_OUTGROWS_CACHES", copied_from)
    names = DATA.feature_names
    prior = InclusionPrior({name: 1.0 if 5 <= j < 25 else 0.3 for j, name in enumerate(names)}, max_size=140)
    space = FreeSpace(Target(bind(DATA), prior.bind(names, 200)))
    draws = np.random.default_rng(0).random((6, len(space.free))) < 0.3
    expected = LinearGaussian().bind(DATA).log_ratio_many(space.target.masks(draws))
    assert draws.sum(axis=1).min() >= LARGE
    for searching in (True, False):
        values = space.log_ratios(draws, space.scorer(64, searching))
        np.testing.assert_allclose(values, expected, atol=1e-8)


def test_second_moments_side_by_side_are_copied_once_where_subsets_may_be_large(monkeypatch) -> None:
    monkeypatch.setattr(ascent, "_OUTGROWS_CACHES", 0)
    model = LinearGaussian().bind(DATA)
    for max_size, copied in ((LARGE - 1, False), (LARGE, True)):
        space = FreeSpace(Target(model, UniformPrior(max_size).bind(DATA.feature_names)))
        first, second = (space.scorer(64, searching).scoring.scatter for searching in (True, False))
        assert first is second or not copied
        assert isinstance(first, PairedMoments) is copied
        if copied:
            whole = model.scoring().scatter
            np.testing.assert_array_equal(first.local.transpose(2, 0, 1), whole[:-1])
            pool = first.local.sum(axis=2) + first.gaps.T @ first.gaps
            np.testing.assert_allclose(pool, whole[-1], rtol=1e-12, atol=1e-10)
    monkeypatch.setattr(ascent, "_MOST_COPIED", model.scoring().scatter.nbytes - 1)
    space = FreeSpace(Target(model, UniformPrior(LARGE).bind(DATA.feature_names)))
    assert space.scorer(64, True).scoring.scatter is model.scoring().scatter
