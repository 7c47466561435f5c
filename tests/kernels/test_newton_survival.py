"""The piecewise exponential kernel beside plain NumPy on split rows, and its derivatives beside differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from invariance import MultiEnvironmentData, PiecewiseExponential
from invariance.kernels.likelihoods import NO_OWN, Work, evaluate, work_for
from invariance.models.survival import PiecewiseExponentialModel
from survival_twins import hazards_of, log_likelihood, split, survived
from twins import all_masks

DATA = survived(n=40)
MEMBERS = np.array([0, 2, 4])
THETA = np.array([0.4, -0.7, 0.2])
K = len(THETA)
settings = pytest.mark.parametrize(("pseudo_rows", "steps"), [(0.0, 1), (1.0, 1), (0.0, 7), (2.5, 7)])


def bound(pseudo_rows: float, steps: int) -> PiecewiseExponentialModel:
    return PiecewiseExponential(intervals=3, steps=steps, pseudo_rows=pseudo_rows).bind(DATA)


def evaluated(
    model: PiecewiseExponentialModel, theta: np.ndarray, e: int | None = None, work: Work | None = None
) -> tuple[float, Work]:
    """Of all environments, or of one, which goes by the hazards of all at THETA"""
    rows = model.problem._replace(own=NO_OWN)
    if work is None:
        work = work_for(rows, K)
        evaluate(rows, 0, 3, MEMBERS, K, THETA, K, False, work)
    first, stop = (0, 3) if e is None else (e, e + 1)
    return evaluate(rows, first, stop, MEMBERS, K, theta, K, True, work), work


def predictor(theta: np.ndarray) -> np.ndarray:
    X = DATA.X[:, MEMBERS]
    return (X - X.mean(axis=0)) / X.std(axis=0) @ theta


def pooled_hazards(model: PiecewiseExponentialModel, theta: np.ndarray) -> np.ndarray:
    parts = split(DATA, model.specification)
    return hazards_of(parts.events, parts.watched, predictor(theta))


def twin(model: PiecewiseExponentialModel, theta: np.ndarray, e: int, own_factors: bool) -> float:
    """Of an environment by the hazards of all at THETA, times its own factor for each interval or not"""
    parts, hazards, rows = split(DATA, model.specification), pooled_hazards(model, THETA), DATA.rows(e)
    events, watched, eta = parts.events[rows], parts.watched[rows], predictor(theta)[rows]
    if own_factors:
        expected = np.exp(eta) @ (watched * hazards)
        factors = np.bincount(parts.group, events.sum(axis=0)) / np.bincount(parts.group, expected)
        hazards = hazards * factors[parts.group]
    return log_likelihood(events, watched, eta, hazards)


def constant(model: PiecewiseExponentialModel) -> np.ndarray:
    """(E,) what kernels add by counting time in pooled rates"""
    events, rates = split(DATA, model.specification).events, model.specification.rates(DATA).hazards
    return np.array([np.sum(events[DATA.rows(e)] * np.log(rates)) for e in range(3)])


@settings
def test_pooled_likelihood(pseudo_rows: float, steps: int) -> None:
    model = bound(pseudo_rows, steps)
    value, work = evaluated(model, THETA)
    expected = np.array([twin(model, THETA, e, own_factors=False) for e in range(3)]) - constant(model)
    np.testing.assert_allclose(work.by_environment, expected, rtol=1e-12)
    assert value == pytest.approx(expected.sum(), rel=1e-12)
    rates = model.specification.rates(DATA).hazards
    np.testing.assert_allclose(np.exp(work.baseline.log_hazard) * rates, pooled_hazards(model, THETA), rtol=1e-12)


@settings
@pytest.mark.parametrize("e", range(3))
def test_own_likelihood(pseudo_rows: float, steps: int, e: int) -> None:
    model = bound(pseudo_rows, steps)
    theta = np.array([0.7, -0.6, -0.2])
    expected = twin(model, theta, e, own_factors=True) - constant(model)[e]
    assert evaluated(model, theta, e)[0] == pytest.approx(expected, rel=1e-12)


@settings
@pytest.mark.parametrize("e", [None, 0, 2])
def test_derivatives(pseudo_rows: float, steps: int, e: int | None) -> None:
    model, h = bound(pseudo_rows, steps), 1e-5
    theta = np.array([0.7, -0.6, -0.2])
    work = evaluated(model, theta, e)[1]
    score, hessian = work.score[:K].copy(), work.hessian[:K, :K].copy()
    for a, direction in enumerate(np.eye(K)):
        # Evaluations of all environments move the clock, those of one do not.
        above, ahead = evaluated(model, theta + h * direction, e)
        gradient = ahead.score[:K].copy()
        below, behind = evaluated(model, theta - h * direction, e)
        assert score[a] == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-6)
        slope = (behind.score[:K] - gradient) / (2 * h)
        np.testing.assert_allclose(hessian[a, : a + 1], slope[: a + 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("e", [None, 1])
def test_risks_beyond_the_largest_float(e: int | None) -> None:
    model = bound(1.0, 7)
    value, work = evaluated(model, 300.0 * THETA, e)
    assert np.isfinite(value)
    assert np.isfinite(work.score[:K]).all()
    assert np.isfinite(work.hessian[np.tril_indices(K)]).all()


def test_a_column_that_is_constant_where_it_is_looked_at() -> None:
    model = bound(1.0, 7)
    model.problem.columns[4] = 1e3 + (np.arange(DATA.n_rows) >= 40)
    diagonal = [np.diagonal(evaluated(model, THETA * [1.0, 1.0, 0.0], e)[1].hessian)[2] for e in (None, 0, 1, 2)]
    assert diagonal[0] > 0.1
    assert all(-0.1 < value < 0.0 for value in diagonal[1:])


def followed(p: int = 7, n: int = 120, n_environments: int = 4) -> MultiEnvironmentData:
    """Three causes, and three features that follow the time closely, differently in each environment"""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), p)) + 0.6 * rng.normal(size=(n_environments, p))[environment]
    times = rng.exponential(size=len(X)) * np.exp(-X[:, :3] @ [0.8, -0.6, 0.4])
    leaves = rng.exponential(2.0 * np.median(times), len(X))
    for j in (3, 4, 5):
        X[:, j] = rng.uniform(-2.0, 3.0, n_environments)[environment] * np.log(times) + 0.3 * rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, np.minimum(times, leaves), environment, event=times <= leaves)


def climbed(events: NDArray, watched: NDArray, X: NDArray) -> tuple[float, NDArray]:
    """Largest log-likelihood and its hazards, by Newton's steps that are told by the score alone"""
    theta, counts = np.zeros(X.shape[1]), events.sum(axis=0)
    for _ in range(40):
        risk, hazards = np.exp(X @ theta), hazards_of(events, watched, X @ theta)
        mean = risk * (watched @ hazards)
        means = (X * risk[:, None]).T @ watched * hazards / counts
        step = np.linalg.solve((X * mean[:, None]).T @ X - counts * means @ means.T, X.T @ (events.sum(axis=1) - mean))
        theta = theta + step / max(1.0, np.abs(X @ step).max() / 2.0)
    hazards = hazards_of(events, watched, X @ theta)
    return log_likelihood(events, watched, X @ theta, hazards), hazards


def test_reported_log_ratios() -> None:
    """Local fits go by the hazards of the pooled one: what rounding hides of its last steps must not matter."""
    data, specification = followed(), PiecewiseExponential()
    parts, masks = split(data, specification), all_masks(7)[1:]
    intervals = np.eye(parts.group.max() + 1)[parts.group]
    found = specification.bind(data).log_ratio_many(masks)
    for mask, value in zip(masks[::3], found[::3], strict=True):
        X = (data.X[:, mask] - data.X[:, mask].mean(axis=0)) / data.X[:, mask].std(axis=0)
        expected, hazards = climbed(parts.events, parts.watched, X)
        for e in range(4):
            rows = data.rows(e)
            events, watched = parts.events[rows], parts.watched[rows] * hazards
            expected -= climbed(events @ intervals, watched @ intervals, X[rows])[0]
            expected -= events.sum(axis=0) @ np.log(hazards)
        assert value == pytest.approx(expected, abs=1e-8)
