"""The best subsets that annealed searches find: where an approximation can start, and what it must not miss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._tools.arrays import Floats, Mask
from ..._tools.progress import ProgressBar
from ...exceptions import DataError
from ..base import RunOptions
from ..target import Target
from ..tempering.engine import Tempering, crew_of
from ..tempering.searching import leading_modes, most_searches
from .mean_field import MeanField

# A subset is missed by a law that gives it less than this share of its probability.
MISSED_SHARE = 1 / 50
_STEEPEST = 10.0
_MOST_PEAKS = 24
_RELEVANT_NATS = 8.0
_ROUNDS, _REPLACEMENTS = 3, 4
_MOST_WORK = 1e10


def find_modes(target: Target, options: RunOptions) -> Mask:
    """(m, p) distinct subsets that searches ended with, within 15 nats of the best of all, best first."""
    engine = Tempering()
    with ProgressBar("searching subsets", most_searches(engine.searches) * engine.chains, options.progress) as bar:
        crew = crew_of(target, engine.chains, options, bar)
        betas, block_size = engine.first_betas(crew.target.n_rows), engine.used_block_size(crew.target)
        searched = crew.search(betas, block_size, engine.searches)
    return crew.target.masks(leading_modes(searched.ends + searched.stepped)[0])


def log_joint_changes(target: Target, mask: Mask) -> Floats:
    """(p,) change of log p(z)Λ(z) when each single feature is added to the subset (p,) or removed; -inf where that, or
    the subset itself, is outside the support."""
    prior = target.prior
    try:
        change = target.model.flip_neighbours(mask)
    except DataError:
        return np.full(len(mask), -np.inf)
    size = int(mask.sum())
    weight = np.append(prior.log_size_weight, -np.inf)
    added = prior.log_odds + weight[size + 1] - weight[size]
    removed = -prior.log_odds + weight[size - 1] - weight[size]
    change += np.where(mask, removed, added)
    change[prior.forced_in | prior.forced_out] = -np.inf
    return change


def with_swaps(target: Target, modes: Mask) -> Mask:
    """(m, p) modes and the subsets that one or a few swaps of a member for one or two other features lead to.

    Searches end with the best subset that they meet. A feature that others nearly give leads to a second one, about as
    probable, that no search ends with. Best first, within 8 nats of the best, without those that are `around` a better
    one. Large subsets of many features are swapped only as far as that is quick.
    """
    leading, swapped = modes, np.zeros_like(modes[:0])
    most = int(_MOST_WORK / _swapping_work(target, modes))
    for _ in range(_ROUNDS):
        fresh = leading[~(leading[:, None] == swapped).all(axis=2).any(axis=1)][: most - len(swapped)]
        if not len(fresh):
            break
        swapped = np.concatenate([swapped, fresh])
        swaps = [mask for mode in fresh for mask in _best_swaps(target, mode)]
        masks = np.unique(np.array([*leading, *swaps]), axis=0)
        leading = _apart(target, masks)
    return leading


def _apart(target: Target, masks: Mask) -> Mask:
    """Those of masks (S, p), best first, that the laws around the better ones do not reach."""
    value = target.log_joint(masks)
    order = np.argsort(-value, kind="stable")
    order = order[value[order] >= value.max() - _RELEVANT_NATS]
    masks, value = masks[order], value[order]
    kept = np.zeros(len(masks), dtype=bool)
    reached = np.full(len(masks), -np.inf)
    for s in range(len(masks)):
        if reached[s] < value[s] + np.log(MISSED_SHARE):
            kept[s] = True
            log_law = around(target, masks[s]).log_prob(masks)
            reached = np.maximum(reached, value[s] - log_law[s] + log_law)
        if kept.sum() == _MOST_PEAKS:
            break
    return masks[kept]


def around(target: Target, mode: Mask) -> MeanField:
    """The product that has the right odds for every single flip of one feature from the mode (p,)."""
    change = np.clip(log_joint_changes(target, mode), -_STEEPEST, _STEEPEST)
    logits = np.where(mode, -change, change)
    logits[target.prior.forced_in], logits[target.prior.forced_out] = np.inf, -np.inf
    return MeanField(logits, target.prior.max_size)


def _best_swaps(target: Target, mode: Mask) -> Iterator[Mask]:
    """For each member of the mode (p,) the best few subsets that have another feature in its place, or two."""
    for member in np.flatnonzero(mode & ~target.prior.forced_in).tolist():
        without = mode.copy()
        without[member] = False
        change = np.where(mode, -np.inf, log_joint_changes(target, without))
        good = np.argsort(-change, kind="stable")[:_REPLACEMENTS]
        for feature in dict.fromkeys([*good, *target.model.alike(member, _REPLACEMENTS)]):
            if change[feature] > -np.inf:
                swapped = without.copy()
                swapped[feature] = True
                yield swapped
                further = np.where(mode | swapped, -np.inf, log_joint_changes(target, swapped))
                if further.max() > -np.inf:
                    swapped = swapped.copy()
                    swapped[further.argmax()] = True
                    yield swapped


def _swapping_work(target: Target, modes: Mask) -> float:
    """Multiplications that the swaps of the largest of modes (m, p) take: one factorisation for each replacement."""
    size = float(modes.sum(axis=1).max()) + 1.0
    return size * (1 + 2 * _REPLACEMENTS) * target.model.flip_steps(size)
