"""The best subsets that annealed searches find: where an approximation can start, and what it must not miss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import DataError
from ..priors import BoundPrior
from ..progress import ProgressBar
from .base import RunOptions
from .replicas import Replica, Target
from .searching import leading_modes, most_searches, search_modes
from .tempering import Crew, Tempering

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_MOST_PEAKS = 24
_RELEVANT_NATS = 8.0
_ROUNDS, _REPLACEMENTS = 3, 3


def find_modes(conditional: Any, prior: BoundPrior, options: RunOptions) -> Mask:
    """(m, p) distinct subsets that searches ended with, within 15 nats of the best of all, best first."""
    target, engine = Target.of(conditional, prior), Tempering()
    betas, block_size = engine.first_betas(target.n_rows), engine.used_block_size(target)
    replicas = [Replica(target, rng) for rng in options.rng.spawn(engine.chains)]
    with ProgressBar("searching subsets", most_searches(engine.searches) * engine.chains, options.progress) as bar:
        crew = Crew(target, replicas, options.n_jobs, bar)
        searched = search_modes(target, replicas, betas, block_size, crew.each, engine.searches)
    return leading_modes(searched.ends)[0][:, target.features]


def log_joint_changes(conditional: Any, prior: BoundPrior, mask: Mask) -> Floats:
    """(p,) change of log p(z)Λ(z) when each single feature is added to the subset (p,) or removed; -inf where that, or
    the subset itself, is outside the support."""
    try:
        change = conditional.flip_neighbours(mask)
    except DataError:
        return np.full(len(mask), -np.inf)
    size = int(mask.sum())
    weight = np.append(prior.log_size_weight, -np.inf)
    added = prior.log_odds + weight[size + 1] - weight[size]
    removed = -prior.log_odds + weight[size - 1] - weight[size]
    change += np.where(mask, removed, added)
    change[prior.forced_in | prior.forced_out] = -np.inf
    return change


def with_swaps(conditional: Any, prior: BoundPrior, modes: Mask) -> Mask:
    """(m, p) modes and the subsets that one or a few swaps of a member for another feature lead to.

    Searches end with the best subset that they meet. A feature that nearly doubles another gives a second one, about as
    probable, that no search ends with. Best first, within 8 nats of the best.
    """
    leading, swapped = modes, np.zeros_like(modes[:0])
    for _ in range(_ROUNDS):
        fresh = leading[~(leading[:, None] == swapped).all(axis=2).any(axis=1)]
        if not len(fresh):
            break
        swapped = np.concatenate([swapped, fresh])
        swaps = [mask for mode in fresh for mask in _best_swaps(conditional, prior, mode)]
        masks = np.unique(np.array([*leading, *swaps]), axis=0)
        value = conditional.log_ratio_many(masks) + prior.log_prob(masks)
        order = np.argsort(-value, kind="stable")[:_MOST_PEAKS]
        leading = masks[order[value[order] >= value.max() - _RELEVANT_NATS]]
    return leading


def _best_swaps(conditional: Any, prior: BoundPrior, mode: Mask) -> Iterator[Mask]:
    """For each member of the mode (p,) the best few subsets that have another feature in its place."""
    for member in np.flatnonzero(mode & ~prior.forced_in):
        without = mode.copy()
        without[member] = False
        change = np.where(mode, -np.inf, log_joint_changes(conditional, prior, without))
        for feature in np.argsort(-change, kind="stable")[:_REPLACEMENTS]:
            if change[feature] > -np.inf:
                swapped = without.copy()
                swapped[feature] = True
                yield swapped
