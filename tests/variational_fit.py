"""How the tests run variational inference."""

from __future__ import annotations

import numpy as np

from invariance import LinearGaussian, Variational
from invariance.inference.base import RunOptions, Target


def fit(model: LinearGaussian, prior, engine: Variational | None = None, seed: int = 0, n_jobs=None):
    bound = prior.bind(model.feature_names, model.largest_size)
    options = RunOptions(n_jobs=n_jobs, rng=np.random.default_rng(seed))
    return (engine or Variational()).run(Target(model, bound), options)
