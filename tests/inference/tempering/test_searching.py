"""Searches for modes: the regressions that guide some of them, when they stop, and what is said when they may fail."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from invariance import BetaBinomialPrior, InclusionPrior, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from invariance.inference.modes import Searched, groupings, leading_modes, regression_path
from invariance.inference.tempering.engine import Tempering
from invariance.inference.tempering.ladders import CompiledTarget
from invariance.inference.tempering.posterior import TemperingPosterior
from invariance.kernels.search import FORWARD, MATCHING, inverse_scale_of, pursuit
from invariance.models.base import BoundModel
from invariance.models.gaussian import GaussianOnDemand
from invariance.simulation import p450
from twins import simulated

Bind = Callable[[MultiEnvironmentData], BoundModel]


def picked(X: np.ndarray, y: np.ndarray, n: int, damping: float, given: tuple[int, ...] = ()) -> list[int]:
    """Plain twin of `pursuit`: residuals of least squares on centred rows of unit length."""
    X = X / np.linalg.norm(X, axis=0)
    path = list(given)
    while len(path) < n:
        rest = np.column_stack([X, y])
        rest = rest - X[:, path] @ np.linalg.lstsq(X[:, path], rest, rcond=None)[0]
        gain = (rest[:, :-1].T @ rest[:, -1]) ** 2 / ((rest[:, :-1] ** 2).sum(axis=0) + damping)
        gain[path] = -1.0
        path.append(int(gain.argmax()))
    return path


def deviations(data: MultiEnvironmentData, within: bool) -> tuple[np.ndarray, np.ndarray]:
    columns = np.column_stack([data.X, data.y])
    if within:
        for e in range(data.n_environments):
            columns[data.rows(e)] -= columns[data.rows(e)].mean(axis=0)
    else:
        columns -= columns.mean(axis=0)
    return columns[:, :-1], columns[:, -1]


@pytest.mark.parametrize("damping", [FORWARD, MATCHING])
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("bind", [LinearGaussian().bind, GaussianOnDemand], ids=["dense", "on demand"])
def test_pursuit_equals_its_twin(bind: Bind, within: bool, damping: float) -> None:
    data = simulated(12, (40, 60, 50), seed=70, scale=100.0)
    scoring = bind(data).scoring()
    free = np.append(np.ones(12, bool), False)
    path = np.empty(6, np.int64)
    groups = (0, 3) if within else (3, 4)
    X, y = deviations(data, within)
    assert pursuit(scoring, 12, *groups, inverse_scale_of(scoring, *groups), free, damping, path, 0) == 6
    assert path.tolist() == picked(X, y, 6, damping)
    path[:2] = 9, 4
    assert pursuit(scoring, 12, *groups, inverse_scale_of(scoring, *groups), free, damping, path, 2) == 6
    assert path.tolist() == picked(X, y, 6, damping, given=(9, 4))
    others = [*range(5), *range(6, 12)]
    assert pursuit(scoring, 5, *groups, inverse_scale_of(scoring, *groups), free, damping, path, 0) == 6
    assert path.tolist() == [others[j] for j in picked(X[:, others], X[:, 5], 6, damping)]


def test_the_two_pursuits_differ() -> None:
    """Given two of three parts of a sum the third has little left, which explains all of the outcome."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 8))
    hidden = rng.normal(size=200)
    X[:, :2] *= 10.0
    X[:, 2] = hidden - X[:, 0] - X[:, 1]
    data = MultiEnvironmentData.from_arrays(X, hidden + 0.1 * rng.normal(size=200), np.repeat([0, 1], 100))
    target = CompiledTarget.of(Target(LinearGaussian().bind(data), UniformPrior().bind(8)))
    given = np.array([0, 1])
    assert regression_path(target, groupings(target)[0], FORWARD, 3, given)[2]
    assert not regression_path(target, groupings(target)[0], MATCHING, 3, given)[2]


def test_pursuit_passes_over_dependent_and_constant_columns() -> None:
    data = simulated(4, (30, 40), seed=71)
    X = np.column_stack([data.X, data.X[:, 0] - data.X[:, 1], data.environment_index.astype(float)])
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    scoring = model.scoring()
    path = np.empty(6, np.int64)
    free = np.append(np.ones(6, bool), False)
    found = pursuit(scoring, 6, 0, 2, inverse_scale_of(scoring, 0, 2), free, MATCHING, path, 0)
    assert found == 4
    assert 5 not in path[:found]
    assert not {0, 1, 4} <= set(path[:found].tolist())
    free[2] = False
    assert pursuit(scoring, 6, 0, 2, inverse_scale_of(scoring, 0, 2), free, MATCHING, path, 0) == 3


def test_regression_paths_hold_free_features_only() -> None:
    small = CompiledTarget.of(Target(LinearGaussian().bind(simulated(20, (60, 70), seed=72)), UniformPrior().bind(20)))
    assert [regression_path(small, groups, MATCHING, 30).sum() for groups in groupings(small)] == [20, 20]
    model = LinearGaussian().bind(simulated(45, (60, 70), seed=73))
    prior = InclusionPrior({"x1": 1.0, "x2": 0.0}, max_size=5).bind(model.feature_names)
    target = CompiledTarget.of(Target(model, prior))
    for groups in groupings(target):
        path = regression_path(target, groups, MATCHING, 30)
        assert path.sum() == 30
        assert not path[[1, 2, 45]].any()


def test_what_the_searches_found() -> None:
    masks = np.eye(6, dtype=bool)
    ends = [(masks[0], -20.0), (masks[1], -1.0), (masks[2], -0.5), (masks[1], -1.0), (masks[3], -9.0)]
    searched = Searched(np.zeros(6), ends)
    assert searched.n_near == 3
    assert not searched.hidden
    assert Searched(np.zeros(6), ends[:3]).hidden
    modes, values = leading_modes(ends)
    assert values.tolist() == [-0.5, -1.0, -9.0]
    np.testing.assert_array_equal(modes, masks[[2, 1, 3]])


def needle() -> MultiEnvironmentData:
    """Ten true features among 450: any nine of them are 190 nats worse, and subsets 60 nats worse are easy to find."""
    rng = np.random.default_rng([31, 10, 50])
    return p450(10, rng).sample(50, rng)


def independent(p: int, n_environments: int = 10, n: int = 60) -> MultiEnvironmentData:
    """The outcome is a sum of three features that shift: one or two of them explain its shifts little better."""
    rng = np.random.default_rng(0)
    environment = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(environment), p))
    X[:, :6] += rng.normal(scale=2.0, size=(n_environments, 6))[environment]
    y = X[:, 0] - X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=len(X))
    X[:, 3] = y * (1 + environment) + rng.normal(size=len(X))
    return MultiEnvironmentData.from_arrays(X, y, environment)


def run(data: MultiEnvironmentData, engine: Tempering, seed: int = 31) -> TemperingPosterior:
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=20).bind(data.feature_names, model.largest_size)
    return engine.run(Target(model, prior), RunOptions(rng=np.random.default_rng(seed), progress=False))


def test_a_needle_is_found() -> None:
    data = needle()
    posterior = run(data, Tempering())
    np.testing.assert_array_equal(posterior.mode_mask, data.truth)
    assert posterior.diagnostics["searches"] % 4 == 0
    assert 1 <= posterior.diagnostics["searches_that_found_the_best"] < posterior.diagnostics["searches"]


def test_features_that_help_only_together_are_found() -> None:
    posterior = run(independent(300), Tempering())
    assert posterior.mode == ("x0", "x1", "x2")
    assert posterior.diagnostics["searches_that_found_the_best"] >= 8


def test_a_needle_that_is_missed_is_announced() -> None:
    data = needle()
    with pytest.warns(ApproximationWarning, match=r"only \d of \d searches came near the best subset"):
        posterior = run(data, Tempering(chains=1, searches=1), seed=8)
    assert "searches=20" in posterior.notes[-1]
    assert not (posterior.mode_mask == data.truth).all()
    with pytest.warns(ApproximationWarning, match="missed a mode"):
        assert posterior.probability(data.truth) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.0 < posterior.probability(posterior.mode_mask) < 1.0


MEMORY_SCRIPT = """
import resource, sys, warnings
sys.path[:0] = {folders!r}
import invariance.models.gaussian as gaussian_rows
from invariance import BIP, BetaBinomialPrior
from test_searching import independent

warnings.simplefilter("ignore")
gaussian_rows.free_bytes = lambda: {free}
data = independent({p}, n_environments={n_environments}, n={n})
model = BIP(engine="tempering", prior=BetaBinomialPrior(max_size=20), random_state=0, n_jobs=2).fit(data)
print(model.posterior_.mode, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "n_environments", "n", "free", "limit"),
    [(6000, 2, 150, 8e9, 1.7), (10_000, 10, 100, 2e9, 2.0)],
    ids=["dense", "on demand"],
)
def test_memory_of_thousands_of_features(p: int, n_environments: int, n: int, free: float, limit: float) -> None:
    """Gigabytes of the whole process. All second moments would take 0.9 and 8.8 GB."""
    script = MEMORY_SCRIPT.format(folders=sys.path, p=p, n_environments=n_environments, n=n, free=free)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    mode, gigabytes = done.stdout.rsplit(" ", 1)
    assert mode == "('x0', 'x1', 'x2')"
    assert float(gigabytes) < limit
