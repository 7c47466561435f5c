"""The piecewise exponential kernel beside plain NumPy on split rows, and its derivatives beside differences."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import PiecewiseExponential
from invariance.kernels.likelihoods import NO_OWN, Work, evaluate, work_for
from invariance.models.survival import PiecewiseExponentialModel
from survival_twins import hazards_of, log_likelihood, split, survived

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
