"""Maximum likelihood by Newton's method, beside plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from invariance.kernels.likelihoods import BLOCK, LOGISTIC, POISSON, Rows, evaluate, work_for
from invariance.kernels.newton import flip_gains, invert, score_dense, score_lists

FAMILIES = pytest.mark.parametrize("family", [LOGISTIC, POISSON], ids=["logistic", "poisson"])


def rows_of(family: int, counts: tuple[int, ...] = (150, 700, 90), q: int = 5, seed: int = 0) -> Rows:
    """With an intercept and q other columns; an environment of more than one block of rows."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(counts)])
    columns = np.vstack([np.ones(starts[-1]), rng.normal(size=(q, starts[-1]))])
    predictor = 0.7 * columns[1] - 0.5 * columns[2]
    y = rng.poisson(np.exp(predictor)) if family == POISSON else rng.random(starts[-1]) < 1 / (1 + np.exp(-predictor))
    weight = 1.0 + np.repeat(1.0 / np.array(counts), counts)
    return Rows(family, columns, starts, y + (weight - 1.0) * y.mean(), weight)


def twin(rows: Rows, first: int, stop: int, members: NDArray, theta: NDArray) -> tuple[float, NDArray, NDArray]:
    """Log-likelihood, score and information of the rows of environments first:stop."""
    chosen = slice(rows.starts[first], rows.starts[stop])
    X, y, w = rows.columns[members, chosen].T, rows.outcome[chosen], rows.weight[chosen]
    eta = X @ theta
    if rows.family == POISSON:
        mean = w * np.exp(eta)
        return float(y @ eta - mean.sum()), X.T @ (y - mean), (X * mean[:, None]).T @ X
    chance = 1.0 / (1.0 + np.exp(-eta))
    value = float(y @ eta - w @ np.logaddexp(0.0, eta))
    return value, X.T @ (y - w * chance), (X * (w * chance * (1.0 - chance))[:, None]).T @ X


def climbed(rows: Rows, first: int, stop: int, members: NDArray) -> float:
    """The largest log-likelihood, by another optimiser."""

    def loss(theta: NDArray) -> tuple[float, NDArray]:
        value, score, _ = twin(rows, first, stop, members, theta)
        return -value, -score

    found = minimize(loss, np.zeros(len(members)), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500})
    return -float(found.fun)


def starting(rows: Rows) -> NDArray:
    return np.zeros((len(rows.starts), 1))


@FAMILIES
@pytest.mark.parametrize("environments", [(0, 3), (1, 2), (2, 3)])
def test_evaluation_beside_its_twin(family: int, environments: tuple[int, int]) -> None:
    rows, members = rows_of(family), np.array([0, 2, 5, 1, 3, 4])
    assert rows.starts[2] - rows.starts[1] > BLOCK
    theta = np.random.default_rng(1).normal(size=6) * 0.4
    work = work_for(rows, 6)
    value = evaluate(rows, *environments, members, 6, theta, 6, True, work)
    expected, score, information = twin(rows, *environments, members, theta)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(work.score, score, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.tril(work.hessian), np.tril(information), rtol=1e-12)
    own = [twin(rows, e, e + 1, members, theta)[0] for e in range(*environments)]
    np.testing.assert_allclose(work.by_environment[slice(*environments)], own, rtol=1e-12)


@FAMILIES
def test_extreme_predictors_stay_finite(family: int) -> None:
    rows, work = rows_of(family), work_for(rows_of(family), 1)
    for slope in (-600.0, 600.0):
        value = evaluate(rows, 0, 3, np.array([0]), 1, np.array([slope]), 1, True, work)
        assert np.isfinite(value)
        assert np.isfinite(work.score[0])
        assert np.isfinite(work.hessian[0, 0])


def test_inverse_leaves_out_dependent_columns() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 4))
    X = np.column_stack([X[:, :2], X[:, 0] - 2.0 * X[:, 1], X[:, 2:]])
    information, inverse = X.T @ X, np.empty((5, 5))
    assert invert(information, 5, 5, inverse) == 4
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(inverse[np.ix_(kept, kept)], np.linalg.inv(information[np.ix_(kept, kept)]), rtol=1e-9)
    assert not inverse[2].any()
    assert not inverse[:, 2].any()


def listed(rows: Rows, masks: NDArray, starts: NDArray, tolerance: float) -> tuple[NDArray, NDArray, NDArray]:
    n, groups, most = len(masks), len(rows.starts), len(rows.columns)
    log_ratio, pooled, ranks = np.empty(n), np.empty(n), np.empty((n, groups), np.int64)
    work, thetas = work_for(rows, most), np.empty((n, groups, most))
    score_lists(rows, masks, starts, np.array([0]), starting(rows), tolerance, work, log_ratio, pooled, ranks, thetas)
    return log_ratio, pooled, ranks


@FAMILIES
def test_lists_and_walks_agree(family: int) -> None:
    rows, starts = rows_of(family), np.array([1, 2, 4, 5, 6])
    masks = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(bool)
    log_ratio, pooled, ranks = listed(rows, masks, starts, 1e-10)
    for mask, value, best in zip(masks[[0, 5, 15]], log_ratio[[0, 5, 15]], pooled[[0, 5, 15]], strict=True):
        members = np.concatenate([[0], *(np.arange(starts[j], starts[j + 1]) for j in np.flatnonzero(mask))])
        members = members.astype(np.int64)
        local = sum(climbed(rows, e, e + 1, members) for e in range(3))
        assert best == pytest.approx(climbed(rows, 0, 3, members), abs=1e-8)
        assert value == pytest.approx(best - local, abs=1e-7)
    walked = np.empty(8), np.empty(8), np.empty((8, 4), np.int64)
    work, tolerance = work_for(rows, 6), 1e-4
    for high, codes in (([], range(8)), ([3], range(8, 16))):
        score_dense(rows, np.array(high, np.int64), 3, starts, np.array([0]), starting(rows), tolerance, work, *walked)
        np.testing.assert_allclose(walked[0], log_ratio[list(codes)], atol=5e-4)
        np.testing.assert_allclose(walked[1], pooled[list(codes)], atol=5e-4)
        np.testing.assert_array_equal(walked[2], ranks[list(codes)])


def quadratic_changes(rows: Rows, chosen: list[int], feature: list[int], first: int, stop: int) -> float:
    """What adding the columns `feature` to the maximum of `chosen` gains, or removing them loses, to second order."""
    without = [c for c in chosen if c not in feature]
    wide = np.array(without + feature)
    own = np.array(chosen)
    found = minimize(lambda t: -twin(rows, first, stop, own, t)[0], np.zeros(len(own)), method="BFGS", tol=1e-8)
    theta = np.zeros(len(wide))
    for place, c in enumerate(own):
        theta[list(wide).index(c)] = found.x[place]
    _, score, information = twin(rows, first, stop, wide, theta)
    inverse, at = np.linalg.inv(information), [list(wide).index(c) for c in feature]
    if len(without) < len(chosen):
        return -0.5 * float(theta[at] @ np.linalg.solve(inverse[np.ix_(at, at)], theta[at]))
    return 0.5 * float(score[at] @ inverse[np.ix_(at, at)] @ score[at])


@FAMILIES
def test_guessed_flips_beside_their_twin(family: int) -> None:
    """Twelve features, one of two columns, so that they are tried in several parts."""
    rows = rows_of(family, q=13)
    starts = np.concatenate([[1, 2, 4], np.arange(5, 15)])
    chosen = np.zeros((1, 12), dtype=bool)
    chosen[0, [0, 4]] = True
    work, thetas, gains = work_for(rows, 14), np.empty((1, 4, 14)), np.empty((4, 12))
    out = np.empty(1), np.empty(1), np.empty((1, 4), np.int64), thetas
    score_lists(rows, chosen, starts, np.array([0]), starting(rows), 1e-12, work, *out)
    flip_gains(rows, chosen[0], starts, np.array([0]), thetas[0], 0, work, gains)
    own = [0, 1, 6]
    for j in (0, 1, 3, 4, 9, 11):
        feature = list(range(starts[j], starts[j + 1]))
        for g, environments in enumerate([(0, 1), (1, 2), (2, 3), (0, 3)]):
            expected = quadratic_changes(rows, own, feature, *environments)
            assert gains[g, j] == pytest.approx(expected, rel=1e-3, abs=1e-6)
