"""Large subsets: factored in tiles, against plain NumPy and against sweeping them column by
column."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import InclusionPrior, LinearGaussian, Moments, MultiEnvironmentData
from invariance.inference import mean_field
from invariance.inference.base import Target
from invariance.inference.mean_field import FreeSpace
from invariance.kernels.cholesky import (
    LARGE,
    decided_as_large,
    score_subsets,
    subset_fits,
    subset_log_ratio,
    subset_work,
)


def correlated(p: int, counts: tuple[int, ...], seed: int = 0) -> MultiEnvironmentData:
    """Factors make the features correlated; each environment has its own means and spreads."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(len(counts)), counts)
    factors = rng.normal(size=(len(environment), 5)) @ rng.normal(size=(5, p))
    X = (
        factors
        + rng.normal(size=factors.shape) * rng.uniform(0.5, 2.0, (len(counts), p))[environment]
    )
    X += rng.normal(size=(len(counts), p))[environment]
    y = X[:, :4].sum(axis=1) + rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, environment)


DATA = correlated(240, (260, 330))


def with_columns(X: np.ndarray, y: np.ndarray = DATA.y) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(X, y, DATA.environment_index)


def subset(k: int, seed: int, p: int = DATA.n_features) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(p, k, replace=False))


def scored(scoring, *subsets: np.ndarray, penalty: float = np.nan) -> np.ndarray:
    starts = np.concatenate([[0], np.cumsum([len(members) for members in subsets])])
    values = np.empty(len(subsets))
    score_subsets(scoring, penalty, starts, np.concatenate(subsets), values)
    return values


def decided(scoring, members: np.ndarray) -> bool:
    return decided_as_large(scoring, members, subset_work(len(scoring.weights), len(members)))


def plain_log_ratio(scoring, members: np.ndarray) -> float:
    """By NumPy's Cholesky factors, columns without a scale left out."""
    total = scoring.offset
    for g, weight in enumerate(scoring.weights):
        columns = np.append(members[scoring.inverse_scale[g, members] > 0.0], scoring.outcome)
        scale = scoring.inverse_scale[g, columns]
        gram = scoring.scatter[g][np.ix_(columns, columns)] * scale[:, None] * scale
        total += weight * np.log(np.linalg.cholesky(gram)[-1, -1] ** 2)
    return total


def test_subsets_of_all_sizes_one_after_another() -> None:
    scoring = LinearGaussian().bind(DATA).scoring()
    subsets = [subset(k, k) for k in (200, 3, LARGE - 1, LARGE, 111, 0, 64, 55, 199)]
    swept = np.array([subset_log_ratio(scoring, one) for one in subsets])
    small = np.array([len(one) < LARGE for one in subsets])
    assert [decided(scoring, one) for one in subsets] == (~small).tolist()
    np.testing.assert_allclose(swept, [plain_log_ratio(scoring, one) for one in subsets], atol=1e-8)
    for penalty in (np.nan, 0.05):
        values = scored(scoring, *subsets, penalty=penalty)
        np.testing.assert_allclose(values, swept, atol=1e-8)
        np.testing.assert_array_equal(values[small], swept[small])


@pytest.mark.parametrize("place", [3, 8, 61, 70])
@pytest.mark.parametrize("e", [0, 1])
def test_a_small_pivot_is_found_wherever_it_stands(place: int, e: int) -> None:
    X = DATA.X.copy()
    rows = DATA.rows(e)
    members = np.arange(71)
    X[rows, place] = X[rows, :3].sum(axis=1)
    scoring = LinearGaussian().bind(with_columns(X)).scoring()
    assert not decided(scoring, members)
    assert decided(scoring, np.delete(members, place))


def test_a_pivot_near_the_tolerance_is_left_to_sweeps() -> None:
    X = DATA.X[:, :LARGE].copy()
    X[:, -1] = X[:, :3].sum(axis=1) + 0.01 * np.random.default_rng(0).normal(size=len(X))
    scoring = LinearGaussian().bind(with_columns(X)).scoring()
    columns = np.arange(LARGE + 1)
    scaled = scoring.scatter * scoring.inverse_scale[:, :, None] * scoring.inverse_scale[:, None, :]
    least = min(np.diag(np.linalg.cholesky(group)).min() ** 2 for group in scaled)
    for share, expected in ((2.1, True), (1.9, False), (1.1, False)):
        assert decided(scoring._replace(tolerance=least / share), columns[:-1]) is expected


def test_a_column_that_is_constant_in_one_environment() -> None:
    X = DATA.X.copy()
    X[np.ix_(DATA.rows(0), [7, 90])] = 2.5
    scoring = LinearGaussian().bind(with_columns(X)).scoring()
    members = np.union1d(subset(80, 0), [7, 90])
    shares = np.empty((1, 3))
    ranks = np.empty((1, 3), np.int64)
    subset_fits(scoring, np.array([0, len(members)]), members, shares, ranks)
    assert decided(scoring, members)
    assert scored(scoring, members)[0] == pytest.approx(plain_log_ratio(scoring, members), abs=1e-8)
    assert ranks.tolist() == [[len(members) - 2, len(members), len(members)]]
    assert scoring.offset + scoring.weights @ np.log(shares[0]) == pytest.approx(
        plain_log_ratio(scoring, members)
    )


def test_collinear_members_are_decided_by_rows_or_cost_a_penalty() -> None:
    X = DATA.X.copy()
    X[:, 50] = X[:, 10] - 2.0 * X[:, 20]
    data = with_columns(X)
    mask = np.isin(np.arange(DATA.n_features), [*subset(100, 1), 10, 20, 50])
    without = mask & (np.arange(len(mask)) != 50)
    rows = LinearGaussian().bind(data)
    moments = LinearGaussian().bind(Moments.from_data(data))
    rest = rows.log_ratio_many(without)[0]
    assert not decided(rows.scoring(), np.flatnonzero(mask))
    assert rows.log_ratio_many(mask)[0] == pytest.approx(rest, abs=1e-6)
    assert moments.log_ratio_many(mask)[0] == -np.inf
    assert moments.search_ratio_many(mask)[0] == pytest.approx(rest * 1.05, abs=1e-6)
    assert np.isnan(moments.residuals(mask[None]).rss).all()


@pytest.mark.parametrize(
    ("counts", "copied_from"),
    [((150, 150, 150, 150, 160), 0), ((150, 160), 1 << 40)],
    ids=["side by side", "not copied"],
)
def test_draws_with_forced_features(
    counts, copied_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mean_field, "_OUTGROWS_CACHES", copied_from)
    data = correlated(160, counts, len(counts))
    names = data.feature_names
    prior = InclusionPrior(
        {name: 1.0 if 5 <= j < 25 else 0.3 for j, name in enumerate(names)}, max_size=130
    )
    space = FreeSpace(Target(LinearGaussian().bind(data), prior.bind(names, 140)))
    draws = np.random.default_rng(0).random((4, len(space.target.prior.free))) < 0.45
    scoring = LinearGaussian().bind(data).scoring()
    expected = [
        plain_log_ratio(scoring, np.flatnonzero(mask)) for mask in space.target.masks(draws)
    ]
    assert draws.sum(axis=1).min() >= LARGE
    for searching in (True, False):
        np.testing.assert_allclose(
            space.log_ratios(draws, space.scorer(64, searching)), expected, atol=1e-8
        )
