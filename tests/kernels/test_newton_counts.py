"""Negative binomial terms beside plain NumPy, and their derivatives beside differences."""

from __future__ import annotations

import numpy as np
import pytest

from count_twins import counted, log_density, log_likelihood
from invariance import NegativeBinomial
from invariance.kernels.likelihoods import NO_OWN, Work, at_centre, evaluate, work_for
from invariance.kernels.newton import invert
from invariance.models.counts import log_rising
from invariance.models.regression import RegressionModel

MEMBERS = np.array([0, 1, 3])
K = len(MEMBERS)
N = K + 1
DISPERSIONS = [0.0, 1e-9, 1e-4, 0.003, 0.02, 0.4, 5.0, 3e3]


def theta_at(model: RegressionModel, alpha: float) -> np.ndarray:
    return np.array([1.1, 0.3, -0.2, np.log1p(alpha * model.problem.counts.scale)])


def evaluated(model: RegressionModel, theta: np.ndarray, e: int | None = None) -> tuple[float, Work]:
    rows = model.problem._replace(own=NO_OWN)
    work = work_for(rows, N)
    first, stop = (0, len(rows.starts) - 1) if e is None else (e, e + 1)
    return evaluate(rows, first, stop, MEMBERS, K, theta, N, True, work), work


def twin(model: RegressionModel, theta: np.ndarray, alpha: float, e: int) -> float:
    rows, data = model.problem, model.data
    own = slice(rows.starts[e], rows.starts[e + 1])
    exposure = rows.counts.exposure
    rate = data.y.sum() / exposure.sum()
    share = model.specification.pseudo_rows / data.counts[e]
    # counted() has its rows by environment already
    X = rows.columns[MEMBERS][:, own].T
    return log_likelihood(X, data.y[own], exposure[own], rate, share, theta[:K], alpha)


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("pseudo_rows", [0.0, 1.0])
@pytest.mark.parametrize("alpha", DISPERSIONS)
def test_values_are_those_of_numpy(alpha: float, pseudo_rows: float, exposed: bool) -> None:
    model = NegativeBinomial(pseudo_rows).bind(counted(exposed=exposed))
    theta = theta_at(model, alpha)
    expected = np.array([twin(model, theta, alpha if alpha > 1e-7 else 0.0, e) for e in range(3)])
    total, work = evaluated(model, theta)
    tolerance = 1e-7 if 0.0 < alpha < 1e-7 else 1e-11
    np.testing.assert_allclose(work.by_environment, expected, rtol=tolerance if alpha != 1e-4 else 1e-10)
    assert total == pytest.approx(expected.sum(), rel=1e-7)
    for e in range(3):
        assert evaluated(model, theta, e)[0] == pytest.approx(work.by_environment[e], rel=1e-13)


@pytest.mark.parametrize("alpha", DISPERSIONS[1:])
def test_derivatives_are_limits_of_differences(alpha: float) -> None:
    model = NegativeBinomial().bind(counted(exposed=True))
    theta = theta_at(model, alpha)
    _, work = evaluated(model, theta)
    score, hessian = work.score.copy(), np.tril(work.hessian)
    hessian += np.tril(hessian, -1).T
    shift = 1e-5
    for a in range(N):
        step = np.zeros(N)
        step[a] = shift if a < K else min(shift, 0.5 * theta[-1])
        up, down = evaluated(model, theta + step), evaluated(model, theta - step)
        slope = (up[0] - down[0]) / (2 * step[a])
        assert slope == pytest.approx(score[a], rel=1e-5, abs=1e-5 if a < K else max(1e-4, 1e-12 / step[a]))
        bend = -(up[1].score - down[1].score) / (2 * step[a])
        np.testing.assert_allclose(hessian[a], bend, rtol=1e-4, atol=1e-4 * np.abs(np.diag(hessian)).max())


def test_both_branches_agree_where_they_meet() -> None:
    """Below and above the dispersion at which series take over nothing jumps."""
    model = NegativeBinomial().bind(counted())
    results = []
    for alpha in np.linspace(2e-4, 4e-4, 400):
        total, work = evaluated(model, theta_at(model, alpha))
        results.append([total, work.score[-1], work.hessian[-1, -1], work.hessian[-1, 0]])
    second_differences = np.diff(results, 2, axis=0)
    assert np.abs(second_differences).max(axis=0) == pytest.approx(np.zeros(4), abs=2e-6)


@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 0.01, 0.7, 40.0, 1e5])
def test_sums_of_log_gamma(alpha: float) -> None:
    whole = [sum(np.log1p(alpha * j) for j in range(y)) for y in (0, 1, 7, 3000)]
    found = log_rising(np.array([0.0, 1.0, 7.0, 3000.0]), np.array([alpha, 1.0]))
    np.testing.assert_allclose(found[0], whole, rtol=1e-11, atol=3e-12)


@pytest.mark.parametrize("alpha", [2e-5, 0.01, 0.7, 40.0, 9e5])
def test_table(alpha: float) -> None:
    model = NegativeBinomial().bind(counted(mean=40.0))
    rows, y = model.problem, model.data.y
    phi = float(np.log1p(alpha * rows.counts.scale))
    own = slice(0, rows.starts[1])
    centre = np.array([y.mean()])
    pseudo = log_density(np.array([y.mean()]), centre, alpha)[0]
    expected = log_density(y[own], centre, alpha).sum() + pseudo
    assert at_centre(rows.counts, 0, phi)[0] == pytest.approx(expected, rel=1e-9 if alpha < 1e-3 else 1e-12)


def test_dispersion_is_held_where_the_likelihood_would_have_it_pass_a_limit() -> None:
    data = counted()
    data.y[:] = np.round(3.0 * np.exp(0.5 * data.X[:, 0] - 0.4 * data.X[:, 2]))
    data.y[data.rows(2)] = 0.0
    model = NegativeBinomial(0.0).bind(data)
    theta = model.scores(np.array([[True, False, True, False]])).thetas[0, 0]
    assert theta[K] == 0.0
    for phi, e, sign in ((0.0, 0, -1.0), (model.problem.counts.limit, 2, 1.0)):
        at = np.append(theta[:K], phi)
        _, work = evaluated(model, at, e)
        assert work.score[-1] == 0.0
        np.testing.assert_array_equal(work.hessian[-1], 0.0)
        at[-1] -= sign * 1e-3
        assert sign * evaluated(model, at, e)[1].score[-1] > 0.0


@pytest.mark.parametrize("alpha", [0.0, 0.4, 3e3])
def test_values_far_away_are_finite_and_low(alpha: float) -> None:
    """Where means are beyond all floats, no gain is found."""
    model = NegativeBinomial().bind(counted())
    largest = model.scores(np.array([[True, False, True, False]])).pooled[0]
    theta = theta_at(model, alpha)
    for slope in (-1e5, -300.0, 300.0, 1e5):
        theta[1] = slope
        value, work = evaluated(model, theta)
        assert np.isfinite([value, *work.score]).all()
        assert value < largest - 100.0


def test_inverse_is_positive_definite_where_the_likelihood_is_not_concave() -> None:
    rng = np.random.default_rng(0)
    part = rng.normal(size=(20, 3))
    for last in (-5.0, -1e-3, 1e-3, 5.0):
        hessian = np.zeros((4, 4))
        hessian[:3, :3] = part.T @ part
        hessian[3] = [1.0, -2.0, 0.5, last]
        inverse = np.empty((4, 4))
        assert invert(hessian, 3, 4, inverse) == 4
        assert np.linalg.eigvalsh(inverse).min() > 0.0
        changed = np.linalg.inv(inverse)
        np.testing.assert_allclose(np.tril(changed)[:3, :3], np.tril(hessian)[:3, :3], atol=1e-9)
        np.testing.assert_allclose(changed[3, :3], hessian[3, :3], atol=1e-9)
    hessian[3] = 0.0
    assert invert(hessian, 3, 4, inverse) == 4
    assert invert(hessian, 4, 4, inverse) == 3
    np.testing.assert_array_equal(inverse[3], 0.0)
