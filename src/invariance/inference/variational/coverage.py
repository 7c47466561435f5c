"""How much of the posterior an approximation misses: what its own draws, and their weights, cannot show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..._tools.arrays import Floats, Mask
from ..target import Target
from .ascent import FreeSpace
from .importance import reweight
from .mean_field import MeanField
from .mixture import Mixture
from .modes import MISSED_SHARE, around
from .scored_draws import log_ratios_of


@dataclass(frozen=True, eq=False)
class Missed:
    """What q misses.

    mass: posterior probability of all subsets to which q gives less than a fiftieth of theirs
    mask (p,): the most probable of them; probability, approximate: of that one, in the posterior and under q
    """

    mass: float
    mask: Mask
    probability: float
    approximate: float


def missed_in_table(space: FreeSpace, q: MeanField | Mixture) -> Missed:
    """Exactly, where all subsets are known."""
    known = np.flatnonzero(space.table_log_joint > -np.inf)
    log_joint = space.table_log_joint[known]
    log_posterior = log_joint - logsumexp(log_joint)
    return _missed(q, space.target.masks(space.table_draws[known]), log_posterior, np.exp(log_posterior))


def missed_at_modes(
    target: Target, q: MeanField | Mixture, modes: Mask, n_draws: int, rng: np.random.Generator
) -> Missed:
    """Estimated by draws from q and from around each of modes (m, p), which see what draws from q alone do not."""
    components, weights = (q.components, q.weights) if isinstance(q, Mixture) else ((q,), np.ones(1))
    local = [around(target, mode) for mode in modes]
    shares = np.concatenate([0.5 * weights, np.full(len(local), 0.5 / len(local))])
    wide = Mixture((*components, *local), shares)
    masks = wide.sample(n_draws, rng)
    log_ratios = log_ratios_of(target.model, masks)
    seen = reweight(masks, log_ratios, target.prior.log_prob(masks), wide.log_prob(masks), len(masks))
    log_posterior = target.log_joint(seen.masks, seen.log_ratios) - seen.log_evidence
    return _missed(q, seen.masks, log_posterior, np.exp(seen.log_probabilities))


def _missed(q: MeanField | Mixture, masks: Mask, log_posterior: Floats, weights: Floats) -> Missed:
    """masks (S, p): distinct; log_posterior (S,): of each; weights (S,): the part of the posterior it stands for"""
    log_q = q.log_prob(masks)
    rare = log_q < log_posterior + np.log(MISSED_SHARE)
    worst = int(np.argmax(np.where(rare, log_posterior, -np.inf)))
    probability, approximate = np.exp(min(log_posterior[worst], 0.0)), np.exp(log_q[worst])
    return Missed(float(weights[rare].sum()), masks[worst], float(probability), float(approximate))
