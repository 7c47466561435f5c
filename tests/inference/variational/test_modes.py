from __future__ import annotations

import numpy as np

from invariance import Enumeration, InclusionPrior, LinearGaussian, UniformPrior
from invariance.inference.base import RunOptions, Target
from invariance.inference.tempering.engine import find_modes
from twins import simulated


def test_the_search_finds_the_exact_mode() -> None:
    model = LinearGaussian().bind(simulated(18, (60, 70, 80), seed=60))
    for prior in (UniformPrior(max_size=6), InclusionPrior({"x3": 1.0, "x0": 0.0}, max_size=5)):
        target = Target(model, prior.bind(model.feature_names))
        modes = find_modes(target, RunOptions(rng=np.random.default_rng(0), progress=False))
        exact = Enumeration().run(target, RunOptions())
        np.testing.assert_array_equal(modes[0], exact.mode_mask)
        value = target.log_joint(modes)
        assert (np.diff(value) <= 0).all()
        assert value[0] - value[-1] < 15
        assert len(np.unique(modes, axis=0)) == len(modes)


def test_the_same_modes_for_any_number_of_threads() -> None:
    model = LinearGaussian().bind(simulated(20, (60, 70), seed=61))
    target = Target(model, UniformPrior(max_size=8).bind(model.feature_names))
    one, two = (find_modes(target, RunOptions(n, np.random.default_rng(1), False)) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
