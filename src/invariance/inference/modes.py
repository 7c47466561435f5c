"""The best subsets that annealed searches find: where an approximation can start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..parallel import ordered_map
from ..priors import BoundPrior
from ..progress import ProgressBar
from .base import RunOptions
from .replicas import Proposals, Replica, Target, block_rules
from .tempering import SEARCH_SWEEPS, Tempering

_MOST_MODES = 8
_RELEVANT_NATS = 15.0


def find_modes(conditional: Any, prior: BoundPrior, options: RunOptions, searches: int = 8) -> NDArray[np.bool_]:
    """(m, p) the best subset of each search that is within 15 nats of the best of all, best first, distinct."""
    target = Target.of(conditional, prior)
    engine = Tempering()
    nothing = np.zeros((0, target.n_columns), bool)
    rules = block_rules(target, np.zeros(target.n_columns), engine.used_block_size(target))
    proposals = Proposals(engine.first_betas(target.n_rows), rules, nothing)
    replicas = [Replica(target, rng) for rng in options.rng.spawn(searches)]
    with ProgressBar("searching subsets", searches, options.progress) as bar:
        for _ in ordered_map(lambda replica: replica.search(proposals, SEARCH_SWEEPS), replicas, options.n_jobs):
            bar.advance()
    found = {replica.best.included.tobytes(): replica.best for replica in replicas}
    ranked = sorted(found.values(), key=lambda best: (-float(best.log_posterior[0]), best.included.tobytes()))
    top = float(ranked[0].log_posterior[0])
    good = [best.included for best in ranked if float(best.log_posterior[0]) > top - _RELEVANT_NATS]
    return np.array(good[:_MOST_MODES])[:, target.features]
