"""The best subsets that annealed searches find: where an approximation can start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..priors import BoundPrior
from ..progress import ProgressBar
from .base import RunOptions
from .replicas import Replica, Target
from .searching import leading_modes, most_searches, search_modes
from .tempering import Crew, Tempering


def find_modes(conditional: Any, prior: BoundPrior, options: RunOptions) -> NDArray[np.bool_]:
    """(m, p) distinct subsets that searches ended with, within 15 nats of the best of all, best first."""
    target, engine = Target.of(conditional, prior), Tempering()
    betas, block_size = engine.first_betas(target.n_rows), engine.used_block_size(target)
    replicas = [Replica(target, rng) for rng in options.rng.spawn(engine.chains)]
    with ProgressBar("searching subsets", most_searches(engine.searches) * engine.chains, options.progress) as bar:
        crew = Crew(target, replicas, options.n_jobs, bar)
        searched = search_modes(target, replicas, betas, block_size, crew.each, engine.searches)
    return leading_modes(searched.ends + searched.stepped)[0][:, target.features]
