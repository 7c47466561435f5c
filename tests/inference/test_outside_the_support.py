"""Probability that an approximation puts where nothing can be scored, and modes that nobody looked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from invariance import LinearGaussian, Moments, MultiEnvironmentData, UniformPrior, Variational
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from twins import simulated


def near_copies() -> LinearGaussian:
    """Moments of two features that only rows could tell apart."""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(4), 100)
    X = rng.normal(size=(400, 4)) + rng.normal(size=(4, 4))[environment]
    X[:, 1] = X[:, 0] + 1e-6 * rng.normal(size=400)
    y = X[:, 0] + 0.5 * rng.normal(size=400)
    return LinearGaussian().bind(Moments.from_data(MultiEnvironmentData.from_arrays(X, y, environment)))


@pytest.mark.parametrize("components", [1, "auto"])
def test_probability_outside_the_support_is_announced(components) -> None:
    model = near_copies()
    prior = UniformPrior().bind(model.feature_names, model.largest_size)
    engine = Variational(components=components)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = engine.run(Target(model, prior), RunOptions(rng=np.random.default_rng(0), progress=False))
    both = posterior.sample(4000, random_state=0).to_numpy()[:, :2].all(axis=1).mean()
    assert posterior.diagnostics["undecided_mass"] == pytest.approx(both, abs=0.05)
    said = [str(one.message) for one in caught if issubclass(one.category, ApproximationWarning)]
    assert any("cannot be scored" in message for message in said) == (both >= 0.05)


def test_modes_that_nobody_looked_for() -> None:
    model = LinearGaussian().bind(simulated(101, (60, 60), seed=3))
    prior = UniformPrior(max_size=6).bind(model.feature_names)
    start = np.full(101, 0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = Variational(initial=start, iterations=50).run(Target(model, prior), RunOptions(progress=False))
        usual = Variational(iterations=50).run(Target(model, prior), RunOptions(progress=False))
    assert given.diagnostics["missed_mass"] is None
    assert any("no search for subsets was made" in note for note in given.notes)
    assert usual.diagnostics["missed_mass"] is not None
    assert not any("no search for subsets was made" in note for note in usual.notes)
