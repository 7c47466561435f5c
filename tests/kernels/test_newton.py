"""Log-likelihoods of each family, their derivatives, and what Newton's method makes of them, beside
plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import count_twins
import survival_twins
from invariance import MultiEnvironmentData, NegativeBinomial, PiecewiseExponential
from invariance.kernels.likelihoods import (
    BLOCK,
    LOGISTIC,
    NO_OWN,
    POISSON,
    Rows,
    Work,
    at_centre,
    evaluate,
    place_pseudo_data,
    work_for,
)
from invariance.kernels.newton import flip_gains, invert, score_dense, score_lists
from regression_cases import GUARD
from twins import all_masks

FAMILIES = pytest.mark.parametrize("family", [LOGISTIC, POISSON], ids=["logistic", "poisson"])


class Case(NamedTuple):
    """twin(theta, e, alone): log-likelihood of environment e, in a fit of it alone or of all; k:
    slopes of theta"""

    rows: Rows
    members: NDArray
    theta: NDArray
    k: int
    twin: Callable[[NDArray, int, bool], float]


def rows_of(
    family: int, counts: tuple[int, ...] = (150, 700, 90), q: int = 5, seed: int = 0
) -> Rows:
    """With an intercept and q other columns; an environment of more than one block of rows."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(counts)])
    columns = np.vstack([np.ones(starts[-1]), rng.normal(size=(q, starts[-1]))])
    predictor = 0.7 * columns[1] - 0.5 * columns[2]
    y = (
        rng.poisson(np.exp(predictor))
        if family == POISSON
        else rng.random(starts[-1]) < 1 / (1 + np.exp(-predictor))
    )
    weight = 1.0 + np.repeat(1.0 / np.array(counts), counts)
    return Rows(family, columns, starts, y + (weight - 1.0) * y.mean(), weight)


def plain(family: int, share: float = 0.0) -> Case:
    """share: of pseudo-data at the case's theta"""
    rows = rows_of(family)
    members = np.array([0, 2, 5, 1, 3, 4])
    theta = 0.4 * np.random.default_rng(1).normal(size=6)
    rows = rows._replace(shares=np.array([share, 2.0 * share, 0.0])) if share else rows
    assert np.diff(rows.starts).max() > BLOCK

    def twin(at: NDArray, e: int, alone: bool) -> float:
        X, y, w = (
            values[..., rows.starts[e] : rows.starts[e + 1]]
            for values in (rows.columns[members], *rows[3:5])
        )
        if alone and share:
            y = y + rows.shares[e] * w * np.exp(theta @ X)
            w = (1.0 + rows.shares[e]) * w
        return float(
            y @ (at @ X) - w @ (np.exp(at @ X) if family == POISSON else np.logaddexp(0.0, at @ X))
        )

    return Case(rows, members, theta, 6, twin)


def dispersed(alpha: float, pseudo_rows: float, exposed: bool) -> Case:
    model = NegativeBinomial(pseudo_rows).bind(count_twins.counted(exposed=exposed))
    data = model.data
    rows = model.problem._replace(own=NO_OWN)
    members = np.array([0, 1, 3])
    exposure = rows.counts.exposure
    phi = np.log1p(alpha * rows.counts.scale)
    rate = data.y.sum() / exposure.sum()

    theta = np.array([1.1, 0.3, -0.2, phi])
    guard = GUARD if pseudo_rows else 0.0

    def twin(at: NDArray, e: int, alone: bool) -> float:
        own = data.rows(e)
        nearly = alpha if alpha > 1e-7 else 0.0
        given = (
            rows.columns[members][:, own].T,
            data.y[own],
            exposure[own],
            rate,
            guard,
            np.zeros((2, len(own))),
        )
        group = count_twins.Group(*given)
        group = group.pulled(pseudo_rows / data.counts[e], theta[:3], alpha) if alone else group
        return group.log_likelihood(at[:3], nearly)

    return Case(rows, members, theta, 3, twin)


def timed(pseudo_rows: float, steps: int) -> Case:
    """An environment alone goes by the hazards of all at theta, times its own factor for each
    interval."""
    data = survival_twins.survived(n=40)
    members = np.array([0, 2, 4])
    theta = np.array([0.4, -0.7, 0.2])
    specification = PiecewiseExponential(intervals=3, steps=steps, pseudo_rows=pseudo_rows)
    parts = survival_twins.split(data, specification)
    X = data.X[:, members]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    pooled = survival_twins.hazards_of(parts.events, parts.watched, X @ theta)
    rates = specification.rates(data).hazards

    def twin(at: NDArray, e: int, alone: bool) -> float:
        own = data.rows(e)
        hazards = pooled
        events = parts.events[own]
        watched = parts.watched[own]
        eta = X[own] @ at
        if alone:
            expected = np.bincount(parts.group, np.exp(eta) @ (watched * hazards))
            hazards = (
                hazards * (np.bincount(parts.group, events.sum(axis=0)) / expected)[parts.group]
            )
        # Kernels count time in pooled rates.
        return survival_twins.log_likelihood(events, watched, eta, hazards) - np.sum(
            events * np.log(rates)
        )

    return Case(specification.bind(data).problem._replace(own=NO_OWN), members, theta, 3, twin)


DISPERSED = [
    (1e-9, 0, True),
    (1e-4, 1, True),
    (0.003, 0, False),
    (0.02, 1, True),
    (0.4, 0, True),
    (5.0, 1, False),
]
CASES = {
    "logistic": partial(plain, LOGISTIC),
    "poisson": partial(plain, POISSON),
    "poisson, pseudo-data": partial(plain, POISSON, 0.3),
    **{
        f"negative binomial {how}": partial(dispersed, *how)
        for how in (*DISPERSED, (3e3, 0, True), (0.0, 1, False))
    },
    **{f"times {how}": partial(timed, *how) for how in ((0.0, 1), (1.0, 1), (0.0, 7), (2.5, 7))},
}


@pytest.fixture(params=CASES, scope="module")
def case(request) -> Case:
    return CASES[request.param]()


def evaluated(case: Case, theta: NDArray, e: int | None = None) -> tuple[float, Work]:
    """Of all environments, or of one, after an evaluation of all at the case's theta"""
    rows = case.rows
    n = len(case.theta)
    work = work_for(rows, n)
    every = len(rows.starts) - 1
    evaluate(rows, 0, every, case.members, case.k, case.theta, n, False, work)
    place_pseudo_data(rows, case.members, case.k, case.theta, work)
    first, stop = (0, every) if e is None else (e, e + 1)
    return evaluate(rows, first, stop, case.members, case.k, theta, n, True, work), work


def moved(case: Case) -> NDArray:
    return case.theta + 0.2 * (np.arange(len(case.theta)) < case.k)


def test_values(case: Case) -> None:
    nearly_poisson = case.k < len(case.theta) and 0.0 < case.theta[-1] < 1e-6
    rtol = 1e-7 if nearly_poisson else 1e-10
    value, work = evaluated(case, case.theta)
    np.testing.assert_allclose(
        work.by_environment, [case.twin(case.theta, e, False) for e in range(3)], rtol=rtol
    )
    assert value == pytest.approx(work.by_environment.sum(), rel=1e-12)
    for e in range(3):
        assert evaluated(case, moved(case), e)[0] == pytest.approx(
            case.twin(moved(case), e, True), rel=rtol
        )


@pytest.mark.parametrize("alpha", [0.01, 0.7, 40.0, 9e5])
def test_log_likelihoods_at_the_mean_are_tabulated(alpha: float) -> None:
    model = NegativeBinomial().bind(count_twins.counted(mean=40.0))
    counts = model.problem.counts
    y = model.data.y
    own = model.data.rows(0)
    guard = GUARD * len(own) * count_twins.log_density(y.mean(), y.mean(), alpha)
    values = count_twins.log_density(y[own], y.mean(), alpha).sum() + guard
    assert at_centre(counts, 0, float(np.log1p(alpha * counts.scale)))[0] == pytest.approx(
        values, rel=1e-12
    )


@pytest.mark.parametrize("e", [None, 1])
def test_derivatives_are_limits_of_differences(case: Case, e: int | None) -> None:
    theta = moved(case)
    k = case.k
    if theta[k:].any() or k == len(theta):
        _, work = evaluated(case, theta, e)
        hessian = np.tril(work.hessian) + np.tril(work.hessian, -1).T
        for a in range(len(theta)):
            step = np.zeros(len(theta))
            step[a] = 1e-5 if a < k else min(1e-5, 0.5 * theta[a])
            (above, ahead), (below, behind) = (
                evaluated(case, theta + step, e),
                evaluated(case, theta - step, e),
            )
            error = 1e-5 if a < k else max(1e-4, 1e-12 / step[a])
            assert (above - below) / (2 * step[a]) == pytest.approx(
                work.score[a], rel=1e-5, abs=error
            )
            error = (1e-6 if k == len(theta) else 1e-4) * np.diag(hessian).max()
            np.testing.assert_allclose(
                (behind.score - ahead.score) / (2 * step[a]), hessian[a], rtol=1e-4, atol=error
            )


@pytest.mark.parametrize("e", [None, 1])
def test_values_far_away_are_finite_and_low(case: Case, e: int | None) -> None:
    near = evaluated(case, case.theta, e)[0]
    for far in (-600.0, 600.0):
        value, work = evaluated(case, np.append(far, case.theta[1:]), e)
        assert np.isfinite(
            [value, *work.score, *work.hessian[np.tril_indices(len(case.theta))]]
        ).all()
        assert value < near


def test_dispersion_is_held_where_the_likelihood_would_have_it_pass_a_limit() -> None:
    data = count_twins.counted()
    data.y[:] = np.round(3.0 * np.exp(0.5 * data.X[:, 0] - 0.4 * data.X[:, 2]))
    data.y[data.rows(2)] = 0.0
    model = NegativeBinomial(0.0).bind(data)
    theta = model.scores(np.array([[True, False, True, False]])).thetas[0, 0, :4]
    assert theta[-1] == 0.0
    case = dispersed(0.0, 0.0, False)._replace(rows=model.problem._replace(own=NO_OWN), theta=theta)
    for phi, e, sign in ((0.0, 0, -1.0), (model.problem.counts.limit, 2, 1.0)):
        _, work = evaluated(case, np.append(theta[:-1], phi), e)
        assert work.score[-1] == 0.0
        np.testing.assert_array_equal(work.hessian[-1], 0.0)
        assert (
            sign * evaluated(case, np.append(theta[:-1], phi - sign * 1e-3), e)[1].score[-1] > 0.0
        )


def test_a_column_that_is_constant_where_it_is_looked_at() -> None:
    case = timed(1.0, 7)
    case.rows.columns[4] = 1e3 + (np.arange(case.rows.columns.shape[1]) >= 40)
    at = case.theta * [1.0, 1.0, 0.0]
    diagonal = [np.diagonal(evaluated(case, at, e)[1].hessian)[2] for e in (None, 0, 1, 2)]
    assert diagonal[0] > 0.1
    assert all(-0.1 < value < 0.0 for value in diagonal[1:])


# ---------------------------------------------------------------- Newton's method


def test_inverse_leaves_out_dependent_columns() -> None:
    X = np.random.default_rng(2).normal(size=(30, 4))
    X = np.column_stack([X[:, :2], X[:, 0] - 2.0 * X[:, 1], X[:, 2:]])
    information = X.T @ X
    inverse = np.empty((5, 5))
    assert invert(information, 5, 5, inverse) == 4
    kept = np.ix_([0, 1, 3, 4], [0, 1, 3, 4])
    np.testing.assert_allclose(inverse[kept], np.linalg.inv(information[kept]), rtol=1e-9)
    assert not inverse[2].any()
    assert not inverse[:, 2].any()


@pytest.mark.parametrize("last", [-5.0, -1e-3, 1e-3, 5.0, 0.0])
def test_inverse_is_positive_definite_where_the_likelihood_is_not_concave(last: float) -> None:
    part = np.random.default_rng(0).normal(size=(20, 3))
    hessian = np.zeros((4, 4))
    inverse = np.empty((4, 4))
    hessian[:3, :3] = part.T @ part
    hessian[3] = [1.0, -2.0, 0.5, last] if last else 0.0
    assert invert(hessian, 3, 4, inverse) == 4
    if last:
        assert np.linalg.eigvalsh(inverse).min() > 0.0
        changed = np.linalg.inv(inverse)
        np.testing.assert_allclose(
            changed[:, :3], np.vstack([part.T @ part, hessian[3, :3]]), atol=1e-9
        )
    else:
        assert invert(hessian, 4, 4, inverse) == 3
        np.testing.assert_array_equal(inverse[3], 0.0)


def listed(rows: Rows, masks: NDArray, starts: NDArray, tolerance: float) -> tuple[NDArray, ...]:
    """log Λ, pooled log-likelihood, ranks and parameters"""
    n = len(masks)
    groups = len(rows.starts)
    most = len(rows.columns)
    out = np.empty(n), np.empty(n), np.empty((n, groups), np.int64), np.empty((n, groups, most))
    score_lists(
        rows,
        masks,
        starts,
        np.array([0]),
        np.zeros((groups, 1)),
        tolerance,
        work_for(rows, most),
        *out,
    )
    return out


@FAMILIES
def test_lists_and_walks_agree(family: int) -> None:
    """With a feature of two columns"""
    rows = rows_of(family)
    starts = np.array([1, 2, 4, 5, 6])
    expected = listed(rows, all_masks(4), starts, 1e-10)
    walked = (np.empty(8), np.empty(8), np.empty((8, 4), np.int64))
    layout = starts, np.array([0]), np.zeros((4, 1))
    for high, codes in (([], slice(8)), ([3], slice(8, 16))):
        score_dense(rows, np.array(high, np.int64), 3, *layout, 1e-4, work_for(rows, 6), *walked)
        for found, values in zip(walked, expected, strict=False):
            np.testing.assert_allclose(found, values[codes], atol=5e-4)


def derivatives(
    rows: Rows, group: slice, members: list[int], theta: NDArray
) -> tuple[NDArray, NDArray]:
    """Score and information of the rows of a group"""
    X = rows.columns[members, group].T
    weight = rows.weight[group]
    mean = np.exp(X @ theta) if rows.family == POISSON else 1.0 / (1.0 + np.exp(-X @ theta))
    variance = mean if rows.family == POISSON else mean * (1.0 - mean)
    return X.T @ (rows.outcome[group] - weight * mean), (X * (weight * variance)[:, None]).T @ X


@FAMILIES
def test_guessed_flips_beside_plain_numpy(family: int) -> None:
    """Twelve features, one of two columns, so that they are tried in several parts."""
    rows = rows_of(family, q=13)
    starts = np.concatenate([[1, 2, 4], np.arange(5, 15)])
    chosen = np.zeros((1, 12), bool)
    chosen[0, [0, 4]] = True
    thetas = listed(rows, chosen, starts, 1e-12)[-1][0]
    gains = np.empty((4, 12))
    own = [0, 1, 6]
    flip_gains(rows, chosen[0], starts, np.array([0]), thetas, 0, work_for(rows, 14), gains)
    for j in (0, 1, 3, 4, 9, 11):
        feature = list(range(starts[j], starts[j + 1]))
        members = [c for c in own if c not in feature] + feature
        for g, ends in enumerate([(0, 1), (1, 2), (2, 3), (0, 3)]):
            theta = np.array([thetas[g, own.index(c)] if c in own else 0.0 for c in members])
            score, information = derivatives(rows, slice(*rows.starts[list(ends)]), members, theta)
            inverse = np.linalg.inv(information)[-len(feature) :, -len(feature) :]
            beta = theta[-len(feature) :]
            removed = -0.5 * beta @ np.linalg.solve(inverse, beta)
            added = 0.5 * score[-len(feature) :] @ inverse @ score[-len(feature) :]
            assert gains[g, j] == pytest.approx(
                removed if chosen[0, j] else added, rel=1e-6, abs=1e-9
            )


def followed(p: int = 7, n: int = 120, n_environments: int = 4) -> MultiEnvironmentData:
    """Three causes, and three features that follow the time closely, differently in each
    environment"""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(n_environments), n)
    X = (
        rng.normal(size=(len(environment), p))
        + 0.6 * rng.normal(size=(n_environments, p))[environment]
    )
    times = rng.exponential(size=len(X)) * np.exp(-X[:, :3] @ [0.8, -0.6, 0.4])
    leaves = rng.exponential(2.0 * np.median(times), len(X))
    for j in (3, 4, 5):
        X[:, j] = rng.uniform(-2.0, 3.0, n_environments)[environment] * np.log(
            times
        ) + 0.3 * rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(
        X, np.minimum(times, leaves), environment, event=times <= leaves
    )


def climbed(events: NDArray, watched: NDArray, X: NDArray) -> tuple[float, NDArray]:
    """Largest log-likelihood and its hazards, by Newton's steps that are told by the score alone"""
    theta = np.zeros(X.shape[1])
    counts = events.sum(axis=0)
    for _ in range(40):
        risk = np.exp(X @ theta)
        hazards = survival_twins.hazards_of(events, watched, X @ theta)
        mean = risk * (watched @ hazards)
        means = (X * risk[:, None]).T @ watched * hazards / counts
        step = np.linalg.solve(
            (X * mean[:, None]).T @ X - counts * means @ means.T, X.T @ (events.sum(axis=1) - mean)
        )
        theta = theta + step / max(1.0, np.abs(X @ step).max() / 2.0)
    hazards = survival_twins.hazards_of(events, watched, X @ theta)
    return survival_twins.log_likelihood(events, watched, X @ theta, hazards), hazards


def test_reported_log_ratios() -> None:
    """Local fits go by the hazards of the pooled one: what rounding hides of its last steps must
    not matter."""
    data = followed()
    specification = PiecewiseExponential()
    parts = survival_twins.split(data, specification)
    masks = all_masks(7)[1:]
    intervals = np.eye(parts.group.max() + 1)[parts.group]
    found = specification.bind(data).log_ratio_many(masks)
    for mask, value in zip(masks[::3], found[::3], strict=True):
        X = (data.X[:, mask] - data.X[:, mask].mean(axis=0)) / data.X[:, mask].std(axis=0)
        expected, hazards = climbed(parts.events, parts.watched, X)
        for e in range(4):
            rows = data.rows(e)
            events = parts.events[rows]
            watched = parts.watched[rows] * hazards
            expected -= climbed(events @ intervals, watched @ intervals, X[rows])[0]
            expected -= events.sum(axis=0) @ np.log(hazards)
        assert value == pytest.approx(expected, abs=1e-8)
