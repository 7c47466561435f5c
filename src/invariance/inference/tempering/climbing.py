"""Steepest ascent of log p(z)Λ(z): single flips, and exchanges where no flip helps."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Floats, Mask
from ...kernels.active_set import ActiveSet, Scoring, flip_scores, load
from ...kernels.chain_moves import SubsetPrior

_LEAST_GAIN = 1e-6


def climb(scoring: Scoring, prior: SubsetPrior, included: Mask, state: ActiveSet, most_steps: int) -> None:
    """Change `included` (d,) for the better, a flip or an exchange at a time, until none helps."""
    for _ in range(most_steps):
        if not load(scoring, state, included):
            return
        change = np.empty(included.size)
        flip_scores(scoring, state, change)
        gains = _flip_gains(prior, included, change)
        column = int(np.argmax(gains))
        if gains[column] > _LEAST_GAIN:
            included[column] = not included[column]
            continue
        leaving, entering, gain = _best_exchange(scoring, prior, state, included, change)
        if not gain > _LEAST_GAIN:
            return
        included[[leaving, entering]] = False, True


def _flip_gains(prior: SubsetPrior, included: Mask, change: Floats) -> Floats:
    """(d,) by how much each flip raises log p(z)Λ(z); change (d,): by how much log Λ."""
    size = int(included.sum())
    up = prior.by_size[size + 1] - prior.by_size[size] if size + 1 < prior.by_size.size else -np.inf
    down = prior.by_size[size - 1] - prior.by_size[size] if size > 0 else -np.inf
    gains = np.full(included.size, -np.inf)
    open_ones = prior.free & ~np.isnan(change)
    for way, sign, columns in ((down, -1.0, open_ones & included), (up, 1.0, open_ones & ~included)):
        gains[columns] = change[columns] + way + sign * prior.log_odds[columns]
    return gains


def _best_exchange(
    scoring: Scoring, prior: SubsetPrior, state: ActiveSet, included: Mask, change: Floats
) -> tuple[int, int, float]:
    """The free member and the free other column whose exchange raises log p(z)Λ(z) most, and by how much.

    change (d,): of the flips of `included` (d,), to which `state` belongs before, and to something else after.
    """
    best, without = (-1, -1, 0.0), np.empty(included.size)
    for leaving in np.flatnonzero(included & prior.free & ~np.isnan(change)):
        rest = included.copy()
        rest[leaving] = False
        if load(scoring, state, rest):
            flip_scores(scoring, state, without)
            others = np.flatnonzero(prior.free & ~included & ~np.isnan(without))
            if len(others):
                gains = without[others] + prior.log_odds[others]
                top = int(np.argmax(gains))
                gain = float(change[leaving] + gains[top] - prior.log_odds[leaving])
                best = max(best, (int(leaving), int(others[top]), gain), key=lambda found: found[2])
    return best
