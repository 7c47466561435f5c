"""How to predict where no subset is invariant: by the subset with the least risk in a new environment."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .._tools.arrays import Floats, Mask
from ..inference.target import Target
from .base import Findings

_MOST_LISTED = 4096


def least_risky(findings: Findings) -> Mask:
    """(p,) the subset in the prior's support with the least risk in a new environment by the random-effects rule: of
    all subsets where these are few, else as adding, dropping and exchanging features finds it. The most probable subset
    where the model knows no such risk."""
    target = findings.target
    if target.prior.support_size() <= _MOST_LISTED:
        masks = _all(target)
        risks = _risks(target, masks)
        if risks is None:
            return findings.posterior.mode_mask
        return masks[int(np.argmin(risks))]
    return _climbed(target, findings.posterior.mode_mask)


def _risks(target: Target, masks: Mask) -> Floats | None:
    inside = np.flatnonzero(target.prior.log_prob(masks) > -np.inf)
    values = target.model.random_effects_risk_many(masks[inside])
    if values is None:
        return None
    risks = np.full(len(masks), np.inf)
    risks[inside] = values
    return risks


def _all(target: Target) -> Mask:
    """Every subset in the prior's support, small ones first."""
    sizes = range(min(target.terms.max_size, len(target.free)) + 1)
    chosen = [members for size in sizes for members in combinations(range(len(target.free)), size)]
    draws = np.zeros((len(chosen), len(target.free)), dtype=bool)
    for row, members in enumerate(chosen):
        draws[row, list(members)] = True
    return target.masks(draws)


def _climbed(target: Target, otherwise: Mask) -> Mask:
    """By steepest descent from the forced features: every single flip, then every exchange."""
    free = target.free
    best, risks = target.start, _risks(target, target.start[None])
    if risks is None:
        return otherwise
    least = risks[0]
    while True:
        flips = np.zeros((len(free), target.n_features), dtype=bool)
        flips[np.arange(len(free)), free] = True
        inside, outside = free[best[free]], free[~best[free]]
        exchanges = np.zeros((len(inside) * len(outside), target.n_features), dtype=bool)
        rows = np.arange(len(exchanges))
        exchanges[rows, np.repeat(inside, len(outside))] = True
        exchanges[rows, np.tile(outside, len(inside))] = True
        for moves in (flips, exchanges):
            risks = _risks(target, best ^ moves)
            if risks is not None and len(risks) and risks.min() < least:
                best, least = best ^ moves[int(np.argmin(risks))], float(risks.min())
                break
        else:
            return best
