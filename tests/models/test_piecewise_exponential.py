"""Times to an event: beside statsmodels on split rows, at the limits, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.integrate import quad

from invariance import MultiEnvironmentData, PiecewiseExponential
from invariance.exceptions import DataError
from invariance.models.base import Level
from invariance.models.survival import PiecewiseHazard
from survival_twins import split, survived
from twins import all_masks

DATA = survived()
EVERY = all_masks(5)


def fitted(
    events: NDArray, watched: NDArray, X: NDArray, dummies: NDArray, offset: NDArray
) -> tuple:
    """Largest log-likelihood, parameters and their errors of statsmodels' Poisson regression on
    split rows"""
    kept = watched.ravel() > 0.0
    design = np.column_stack([np.repeat(X, len(dummies), axis=0), np.tile(dummies, (len(X), 1))])[
        kept
    ]
    y = events.ravel()[kept]
    exposure = watched.ravel()[kept]
    model = sm.GLM(
        y, design, sm.families.Poisson(), exposure=exposure, offset=np.tile(offset, len(X))[kept]
    )
    fit = model.fit(tol=1e-12, tol_criterion="params", maxiter=200)
    return float(np.sum(y * np.log(fit.mu) - fit.mu)), fit.params, fit.bse


@pytest.mark.parametrize("mask", [[0, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]])
@pytest.mark.parametrize(("pseudo_rows", "steps"), [(0.0, 1), (1.0, 16)])
def test_statsmodels_on_split_rows(pseudo_rows: float, steps: int, mask: list[int]) -> None:
    specification = PiecewiseExponential(intervals=3, steps=steps, pseudo_rows=pseudo_rows)
    model = specification.bind(DATA)
    chosen = np.array(mask, dtype=bool)
    X = DATA.X[:, chosen]
    parts = split(DATA, specification)
    k = int(chosen.sum())
    n_steps = len(parts.group)
    pooled, theta, known = fitted(
        parts.events, parts.watched, X, np.eye(n_steps), np.zeros(n_steps)
    )
    intervals = np.eye(3)[parts.group]
    own = [
        fitted(parts.events[rows], parts.watched[rows], X[rows], intervals, theta[k:])
        for rows in (DATA.rows(e) for e in range(3))
    ]
    assert model.log_ratio(chosen) == pytest.approx(
        pooled - sum(value for value, *_ in own), abs=1e-8
    )
    fit = model.fit(chosen)
    errors = model.standard_errors(chosen).values
    np.testing.assert_allclose(errors[-1], known[:k], rtol=1e-5)
    np.testing.assert_allclose(fit.coefficients, theta[:k], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        np.log(fit.baseline.hazards) + fit.intercept, theta[k:], rtol=1e-7, atol=1e-7
    )
    for e, (_, local, known) in enumerate(own):
        np.testing.assert_allclose(fit.local_coefficients[e], local[:k], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(errors[e], known[:k], rtol=1e-5)


FIRST = DATA.environment_index == 0
EARLY = np.quantile(DATA.y, 0.2)
X = DATA.X
Y = DATA.y
EVENT = DATA.event
# {what is awkward: fields of the data that are other ones}
AWKWARD = {
    "no event in an environment": {"event": np.where(FIRST, 0.0, EVENT)},
    "one event in an environment": {
        "event": np.where(FIRST, np.arange(len(Y)) == np.argmax(FIRST), EVENT)
    },
    "one event": {"event": np.arange(len(Y)) == 7.0},
    "ties": {"y": np.ceil(3.0 * Y)},
    "one time": {"y": np.full(len(Y), 2.0)},
    "separated": {"X": np.column_stack([np.argsort(np.argsort(Y)), EVENT, X[:, 2:]])},
    "constant in an environment": {"X": np.where(FIRST[:, None] & (np.arange(5) < 2), 10.0, X)},
    "collinear": {"X": np.column_stack([X[:, 0], X[:, 0] + X[:, 2], X[:, 2], X[:, 0], X[:, 4]])},
    "nearly collinear": {"X": np.column_stack([X[:, 0], X[:, 0] + 1e-9 * X[:, 1], X[:, 2:]])},
    "huge scales": {"X": X * [1e12, 1e-12, 1.0, 1e9, 1e6], "y": 1e12 * Y},
    "far outliers": {
        "X": np.where(np.arange(len(Y))[:, None] == 3, 1e4, X),
        "y": np.where(np.arange(len(Y)) == 5, 1e9 * Y, Y),
    },
    "short follow-up of an environment": {
        "y": np.where(FIRST, np.minimum(Y, EARLY), Y),
        "event": np.where(FIRST & (Y > EARLY), 0.0, EVENT),
    },
}


def awkward(kind: str) -> MultiEnvironmentData:
    return replace(
        DATA, **{name: np.array(values, dtype=float) for name, values in AWKWARD[kind].items()}
    )


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
@pytest.mark.parametrize("level", [Level.full, Level.effects])
@pytest.mark.parametrize("pseudo_rows", [0.0, 1.0])
@pytest.mark.parametrize("kind", AWKWARD)
def test_finite_and_at_most_zero(kind: str, pseudo_rows: float, level: Level) -> None:
    data = awkward(kind)
    specification = PiecewiseExponential(4 if pseudo_rows else "auto", pseudo_rows=pseudo_rows)
    if pseudo_rows == 0.0 and not np.bincount(data.environment_index, data.event).all():
        with pytest.raises(
            DataError, match=r"no event occurs in environment .*: use pseudo_rows=1"
        ):
            specification.bind(data)
        return
    model = specification.bind(data).at_level(level)
    values = model.log_ratio_many(EVERY)
    null = model.null_many(EVERY)
    assert (values <= 0.0).all()
    assert np.isfinite(values).all()
    assert np.isfinite(null.expected[null.degrees > 0.0]).all()
    assert (null.degrees[1:] > 0.0).all() or not pseudo_rows
    if level is Level.effects:
        assert np.isfinite(model.baselines(EVERY[-1])).all()
    fit = model.fit(EVERY[-1])
    assert np.isfinite(fit.baseline.hazards).all()
    assert not np.isnan(
        fit.baseline.survival(fit.risk(data.X)[:, None], np.array([0.0, 1.0, 1e30]))
    ).any()
    walk = model.subset_walk(np.arange(5), np.zeros(0, np.int64))
    assert (walk.dense(np.zeros(0, np.int64), np.ones(6, dtype=bool)).log_ratio <= 0.0).all()


def test_an_environment_that_is_not_watched_has_no_parameter_there() -> None:
    model, full = (
        PiecewiseExponential(4).bind(data)
        for data in (awkward("short follow-up of an environment"), DATA)
    )
    mask = np.zeros((1, 5), dtype=bool)
    assert full.null_many(mask).degrees.tolist() == [8.0]
    assert model.null_many(mask).degrees.tolist() == [8.0 - 3.0]


def test_truth_is_not_rejected_where_hazards_fall() -> None:
    """A baseline that is constant within intervals would reject it in most of these."""
    truth = [[True, False, True, False, False]]
    p_values = {}
    for steps in (1, 16):
        models = [
            PiecewiseExponential(2, steps=steps).bind(survived(150, 8, seed=s, shape=0.5))
            for s in range(12)
        ]
        p_values[steps] = [m.invariance_tails(truth, m.log_ratio_many(truth))[0] for m in models]
    assert np.mean(np.array(p_values[1]) < 0.05) > 0.5
    assert np.mean(np.array(p_values[16]) < 0.05) < 0.3


def test_hazards() -> None:
    hazard = PiecewiseHazard(np.array([1.0, 3.0]), np.array([0.5, 0.1, 2.0]), 4.0)
    times = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(hazard.cumulative(times), [0.0, 0.25, 0.5, 0.6, 0.7, 2.7])
    np.testing.assert_allclose(hazard.times(hazard.cumulative(times)), times, atol=1e-12)
    for risk in (0.3, 1.0, 4.0):
        pieces = [
            quad(lambda t, risk=risk: hazard.survival(risk, t), a, b)[0]
            for a, b in ((0, 1), (1, 3), (3, 3.5))
        ]
        assert hazard.restricted_mean(np.array([risk]), 3.5)[0] == pytest.approx(
            sum(pieces), rel=1e-7
        )
        assert hazard.restricted_mean(np.array([risk]), 1.0)[0] == pytest.approx(
            pieces[0], rel=1e-7
        )
    assert hazard.restricted_mean(np.array([0.0, np.inf]), 3.5).tolist() == [3.5, 0.0]
    assert hazard.times(np.array([2.7, 2.8])).tolist() == [pytest.approx(4.0), np.inf]
    np.testing.assert_allclose(hazard.median(np.log(2.0) / np.array([0.25, 0.7])), [0.5, 3.0])
