"""The best subsets that annealed searches find: where an approximation can start, and what it must not miss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._tools.arrays import Floats, Mask
from ..._tools.progress import ProgressBar
from ...exceptions import DataError
from ...priors.bound import BoundPrior
from ..base import RunOptions
from ..tempering.engine import Crew, Tempering
from ..tempering.replicas import Replica, Target
from ..tempering.searching import leading_modes, most_searches, search_modes
from .mean_field import MeanField

# A subset is missed by a law that gives it less than this share of its probability.
MISSED_SHARE = 1 / 50
_STEEPEST = 10.0
_MOST_PEAKS = 24
_RELEVANT_NATS = 8.0
_ROUNDS, _REPLACEMENTS = 3, 4
_MOST_WORK = 1e10


def find_modes(conditional: Any, prior: BoundPrior, options: RunOptions) -> Mask:
    """(m, p) distinct subsets that searches ended with, within 15 nats of the best of all, best first."""
    target, engine = Target.of(conditional, prior), Tempering()
    betas, block_size = engine.first_betas(target.n_rows), engine.used_block_size(target)
    replicas = [Replica(target, rng) for rng in options.rng.spawn(engine.chains)]
    with ProgressBar("searching subsets", most_searches(engine.searches) * engine.chains, options.progress) as bar:
        crew = Crew(target, replicas, options.n_jobs, bar)
        searched = search_modes(target, replicas, betas, block_size, crew.each, engine.searches, options.n_jobs)
    return leading_modes(searched.ends + searched.stepped)[0][:, target.features]


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
    """(m, p) modes and the subsets that one or a few swaps of a member for one or two other features lead to.

    Searches end with the best subset that they meet. A feature that others nearly give leads to a second one, about as
    probable, that no search ends with. Best first, within 8 nats of the best, without those that are `around` a better
    one. Large subsets of many features are swapped only as far as that is quick.
    """
    leading, swapped = modes, np.zeros_like(modes[:0])
    most = int(_MOST_WORK / _swapping_work(conditional, modes))
    for _ in range(_ROUNDS):
        fresh = leading[~(leading[:, None] == swapped).all(axis=2).any(axis=1)][: most - len(swapped)]
        if not len(fresh):
            break
        swapped = np.concatenate([swapped, fresh])
        swaps = [mask for mode in fresh for mask in _best_swaps(conditional, prior, mode)]
        masks = np.unique(np.array([*leading, *swaps]), axis=0)
        leading = _apart(conditional, prior, masks)
    return leading


def _apart(conditional: Any, prior: BoundPrior, masks: Mask) -> Mask:
    """Those of masks (S, p), best first, that the laws around the better ones do not reach."""
    value = conditional.log_ratio_many(masks) + prior.log_prob(masks)
    order = np.argsort(-value, kind="stable")
    order = order[value[order] >= value.max() - _RELEVANT_NATS]
    masks, value = masks[order], value[order]
    kept = np.zeros(len(masks), dtype=bool)
    reached = np.full(len(masks), -np.inf)
    for s in range(len(masks)):
        if reached[s] < value[s] + np.log(MISSED_SHARE):
            kept[s] = True
            log_law = around(conditional, prior, masks[s]).log_prob(masks)
            reached = np.maximum(reached, value[s] - log_law[s] + log_law)
        if kept.sum() == _MOST_PEAKS:
            break
    return masks[kept]


def around(conditional: Any, prior: BoundPrior, mode: Mask) -> MeanField:
    """The product that has the right odds for every single flip of one feature from the mode (p,)."""
    change = np.clip(log_joint_changes(conditional, prior, mode), -_STEEPEST, _STEEPEST)
    logits = np.where(mode, -change, change)
    logits[prior.forced_in], logits[prior.forced_out] = np.inf, -np.inf
    return MeanField(logits, prior.max_size)


def _best_swaps(conditional: Any, prior: BoundPrior, mode: Mask) -> Iterator[Mask]:
    """For each member of the mode (p,) the best few subsets that have another feature in its place, or two."""
    for member in np.flatnonzero(mode & ~prior.forced_in).tolist():
        without = mode.copy()
        without[member] = False
        change = np.where(mode, -np.inf, log_joint_changes(conditional, prior, without))
        good = np.argsort(-change, kind="stable")[:_REPLACEMENTS]
        for feature in dict.fromkeys([*good, *_most_alike(conditional, member)]):
            if change[feature] > -np.inf:
                swapped = without.copy()
                swapped[feature] = True
                yield swapped
                further = np.where(mode | swapped, -np.inf, log_joint_changes(conditional, prior, swapped))
                if further.max() > -np.inf:
                    swapped = swapped.copy()
                    swapped[further.argmax()] = True
                    yield swapped


def _most_alike(conditional: Any, feature: int) -> NDArray[np.intp]:
    """The features most correlated with one of them over all rows: two that give it together may each look bad."""
    columns = conditional.moments.features
    pooled = conditional.moments.scatter[-1]
    products = np.abs(pooled[columns[feature], columns]) / np.sqrt(np.diagonal(pooled)[columns])
    products[feature] = 0.0
    return np.argsort(-products, kind="stable")[:_REPLACEMENTS]


def _swapping_work(conditional: Any, modes: Mask) -> float:
    """Multiplications that the swaps of the largest of modes (m, p) take: one factorisation for each replacement."""
    size, groups = float(modes.sum(axis=1).max()) + 1.0, conditional.moments.n_environments + 1
    return size * (1 + 2 * _REPLACEMENTS) * groups * size**2 * modes.shape[1]
