"""Levels of environments that are maximised out: beside plain optimisation, and where they are hard
to find."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

import count_twins
import survival_twins
from invariance import Logistic, NegativeBinomial, PiecewiseExponential, Poisson
from invariance.kernels.likelihoods import (
    Rows,
    Work,
    dispersion_of,
    evaluate,
    place_pseudo_data,
    work_for,
)
from invariance.models.base import Level
from invariance.models.regression import Regression
from regression_cases import plain_table, regression_data

E = 3


class Case(NamedTuple):
    """Rows of three environments, and slopes of the members, after column 0 if that is 1, with what
    else there is."""

    rows: Rows
    members: NDArray
    theta: NDArray

    @property
    def first(self) -> int:
        return int(self.members[0] == 0)

    def plain(self, e: int, theta: NDArray, pseudo: NDArray | None = None) -> float:
        """Log-likelihood of one environment at theta; pseudo (2, N): outcome and weight in fits of
        some of them"""
        rows = self.rows
        own = slice(*self.rows.starts[e : e + 2])
        k = len(self.members)
        eta = theta[:k] @ rows.columns[self.members, own]
        y = rows.outcome[own]
        weight = rows.weight[own]
        if not rows.counts.exposure.size:
            y, weight = (y, weight) if pseudo is None else pseudo[:, own]
            terms = np.exp(eta) if rows.shares.size else np.logaddexp(0.0, eta)
            return float(y @ eta - weight @ terms)
        alpha = dispersion_of(theta[k], rows.counts.scale)
        exposure = rows.counts.exposure[own]
        mean = exposure * np.exp(eta)
        value = float(
            np.sum(y * (np.log(alpha * mean)) - (y + weight / alpha) * np.log1p(alpha * mean))
        )
        return (
            value if pseudo is None else value + float(pseudo[0, own] @ eta - pseudo[1, own] @ mean)
        )

    def largest(self, e: int, theta: NDArray, pseudo: NDArray | None = None) -> tuple[float, float]:
        """The same at the likeliest level, and this"""
        found = minimize_scalar(
            lambda level: -self.plain(e, np.append(level, theta[1:]), pseudo),
            (-8.0, 4.0),
            options={"xtol": 1e-10},
        )
        return -found.fun, found.x


def evaluated(
    case: Case, theta: NDArray, first: int, stop: int, at: NDArray | None = None
) -> tuple[float, Work]:
    """Of a range of environments, after all of them with pseudo-data `at` a place"""
    rows = case.rows
    k = len(case.members)
    theta = theta.copy()
    work = work_for(rows, len(theta))
    if at is not None:
        place = at.copy()
        evaluate(rows, 0, E, case.members, k, place, len(theta), False, work)
        place_pseudo_data(rows, case.members, k, place, work)
    return evaluate(rows, first, stop, case.members, k, theta, len(theta), True, work), work


def of_counts(specification: Regression) -> Case:
    data = count_twins.counted(exposed=True)
    data.y[data.rows(1)] *= 4.0
    more = [1.7] if isinstance(specification, NegativeBinomial) else []
    rows = specification.bind(data).at_level(Level.effects).problem
    return Case(rows, np.array([0, 1, 3, 4]), np.array([0.0, 0.4, -0.3, 0.2, *more]))


def of_classes() -> Case:
    X, y, environment = plain_table(False, n=600)
    rare = np.where(environment == 1, y * (X[:, 2] > 1.5), y)
    rows = Logistic().bind(regression_data(X, rare, environment)).at_level(Level.effects).problem
    return Case(rows, np.array([0, 2, 5, 1]), np.array([0.0, 0.7, -1.5, 0.3]))


CASES = {
    "logistic": of_classes,
    "poisson": lambda: of_counts(Poisson()),
    "negative binomial": lambda: of_counts(NegativeBinomial()),
}


@pytest.fixture(params=CASES, scope="module")
def case(request) -> Case:
    return CASES[request.param]()


def test_levels_are_the_likeliest(case: Case) -> None:
    value, work = evaluated(case, case.theta, 0, E)
    found = [case.largest(e, case.theta) for e in range(E)]
    np.testing.assert_allclose(work.levels, [level for _, level in found], atol=1e-6)
    if len(case.theta) == len(
        case.members
    ):  # the other one is above that of the same counts at their mean
        np.testing.assert_allclose(
            work.by_environment, [largest for largest, _ in found], rtol=1e-12
        )
        assert value == pytest.approx(work.by_environment.sum(), rel=1e-12)


def test_levels_of_some_environments_go_by_their_pseudo_data(case: Case) -> None:
    """The second and the third, without the first"""
    moved = case.theta + 0.1
    if not case.rows.shares.size:
        return
    _, work = evaluated(case, moved, 1, 0, at=case.theta)
    pseudo = np.array([work.pseudo.outcome, work.pseudo.weight])
    levels = [case.largest(e, moved, pseudo)[1] for e in (1, 2)]
    np.testing.assert_allclose(work.levels[1:], levels, atol=1e-6)


@pytest.mark.parametrize(("first", "stop"), [(0, E), (1, 0), (2, 1)])
def test_derivatives_are_limits_of_differences(case: Case, first: int, stop: int) -> None:
    n = len(case.theta)
    _, work = evaluated(case, case.theta, first, stop, at=case.theta)
    hessian = np.tril(work.hessian) + np.tril(work.hessian, -1).T
    assert work.score[0] == 0.0
    np.testing.assert_array_equal(hessian[0], np.arange(n) == 0)
    for a in range(1, n):
        step = 1e-5 * (np.arange(n) == a)
        (above, ahead), (below, behind) = (
            evaluated(case, case.theta + s * step, first, stop, at=case.theta) for s in (1.0, -1.0)
        )
        assert (above - below) / 2e-5 == pytest.approx(work.score[a], rel=1e-5, abs=1e-4)
        change = (behind.score - ahead.score) / 2e-5
        np.testing.assert_allclose(
            change, hessian[a], rtol=1e-4, atol=1e-5 * np.diag(hessian).max()
        )
        if (first, stop) == (0, E):
            slopes = -work.cross[:, a]
            np.testing.assert_allclose(
                (ahead.levels - behind.levels) / 2e-5, slopes, rtol=1e-4, atol=1e-6
            )


def test_levels_do_not_depend_on_where_they_begin(case: Case) -> None:
    rows = case.rows
    k = len(case.members)
    expected = evaluated(case, case.theta, 0, E)[1].levels
    for start in (-900.0, -60.0, -5.0, 7.0, 60.0, 900.0):
        work = work_for(rows, len(case.theta))
        work.levels[:] = start
        evaluate(rows, 0, E, case.members, k, case.theta.copy(), len(case.theta), False, work)
        np.testing.assert_allclose(work.levels, expected, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_levels_of_rows_that_are_far_apart(scale: float) -> None:
    """Expected events equal those that occurred, also where hardly any row is undecided."""
    case = of_classes()
    theta = scale * of_classes().theta
    _, work = evaluated(case, theta, 0, E)
    for e in range(E):
        own = slice(*case.rows.starts[e : e + 2])
        eta = work.levels[e] + theta[1:] @ case.rows.columns[case.members[1:], own]
        expected = case.rows.weight[own] @ (1.0 / (1.0 + np.exp(-eta)))
        assert expected == pytest.approx(case.rows.outcome[own].sum(), rel=1e-7)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_environment_of_one_class_has_a_level(share: float) -> None:
    X, y, environment = plain_table(False)
    rows = Logistic(0.0).bind(regression_data(X, np.where(environment == 1, share, y), environment))
    case = Case(
        rows.at_level(Level.effects).problem, np.array([0, 2, 3]), np.array([0.0, 0.5, -0.2])
    )
    value, work = evaluated(case, case.theta, 0, E)
    assert np.isfinite([value, *work.levels]).all()
    assert abs(work.levels[1]) > 20.0
    assert abs(work.by_environment[1]) < 1e-9


@pytest.mark.parametrize("range_", [(0, E), (2, 1)])
def test_hazards_of_each_environment_are_the_likeliest(range_: tuple[int, int]) -> None:
    data = survival_twins.survived(40)
    specification = PiecewiseExponential(intervals=3, steps=5, pseudo_rows=0.0)
    data = replace(data, y=data.y * np.array([1.0, 3.0, 0.3])[data.environment_index])
    rows = specification.bind(data).at_level(Level.effects).problem
    theta = np.array([0.4, -0.7, 0.2])
    case = Case(rows, np.array([1, 2, 4]), theta)
    value, work = evaluated(case, theta, *range_)
    X = np.empty((data.n_rows, 3))
    X[specification.order(data, True)] = rows.columns[case.members].T
    expected = np.empty(E)
    for e, (events, watched) in enumerate(survival_twins.split_by_site(data, specification)):
        eta = X[data.rows(e)] @ theta
        time = watched / data.y.mean()
        expected[e] = survival_twins.log_likelihood(
            events, time, eta, survival_twins.hazards_of(events, time, eta)
        )
    asked = [0, 1, 2] if range_ == (0, E) else [2, 0]
    np.testing.assert_allclose(work.by_environment[asked], expected[asked], rtol=1e-10)
    hessian = np.tril(work.hessian) + np.tril(work.hessian, -1).T
    for a in range(3):
        step = 1e-5 * (np.arange(3) == a)
        (above, ahead), (below, behind) = (
            evaluated(case, theta + s * step, *range_) for s in (1.0, -1.0)
        )
        assert (above - below) / 2e-5 == pytest.approx(work.score[a], rel=1e-5, abs=1e-5)
        np.testing.assert_allclose(
            (behind.score - ahead.score) / 2e-5, hessian[a], rtol=1e-4, atol=1e-5
        )
    assert value == pytest.approx(work.by_environment[asked].sum())
