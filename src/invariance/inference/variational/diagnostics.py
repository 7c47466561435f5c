"""How far draws from an approximation are from the posterior, and what they say about it after reweighting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..._tools.arrays import Floats, Mask
from ...data.features import distinct
from ...kernels.subset_sums import weighted_shares
from ..base import Target
from ..modes import MISSED_SHARE, around
from .ascent import FreeSpace, log_ratios_of
from .mean_field import Approximation, Mixture

POOR_PARETO_K = 0.7
_FEWEST_IN_TAIL = 5
# Log weights this close are the same: draws of one subset, up to rounding.
_TIE = 1e-9
# A few draws above all others do no harm when they hold less than this share of the weight.
_NEGLIGIBLE = 0.01


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Self-normalised importance estimates from draws of q.

    inclusion (p,); masks (k, p): distinct draws, most probable first; log_ratios, log_probabilities (k,)
    pareto_k: tail index of the weights, above 0.7 they cannot be trusted; -inf where the largest weights tie, inf where
    they are too few to tell; ess: effective number of draws
    log_evidence: estimate of log Σ p(z)Λ(z); n_draws; outside (m, p): the distinct draws that cannot be scored;
    undecided: their share
    """

    inclusion: Floats
    masks: Mask
    log_ratios: Floats
    log_probabilities: Floats
    pareto_k: float
    ess: float
    log_evidence: float
    n_draws: int
    outside: Mask
    undecided: float

    @property
    def poor(self) -> bool:
        return self.pareto_k > POOR_PARETO_K


def reweight(masks: Mask, log_ratios: Floats, log_prior: Floats, log_q: Floats, keep: int) -> Reweighted:
    """Weigh draws (S, p) of q by p(z)Λ(z)/q(z). log_q must be normalised over the support the draws come from."""
    log_weights = log_prior + log_ratios - log_q
    k, smoothed = pareto_smoothed(log_weights)
    weights = np.exp(smoothed - logsumexp(smoothed))
    first, group = distinct(masks)
    probability = np.bincount(group, weights=weights)
    order = np.lexsort((first, -probability))[:keep]
    order = order[probability[order] > 0]
    return Reweighted(
        inclusion=weighted_shares(masks, weights),
        masks=masks[first[order]],
        log_ratios=log_ratios[first[order]],
        log_probabilities=np.log(probability[order]),
        pareto_k=k,
        ess=float(1.0 / np.sum(weights**2)),
        log_evidence=float(logsumexp(log_weights) - np.log(len(masks))),
        n_draws=len(masks),
        outside=masks[first[log_ratios[first] == -np.inf]],
        undecided=float(np.mean(log_ratios == -np.inf)),
    )


def pareto_smoothed(log_weights: Floats) -> tuple[float, Floats]:
    """Pareto-k̂ and smoothed log weights (Vehtari, Simpson, Gelman, Yao & Gabry 2024).

    The largest weights are replaced by quantiles of a generalised Pareto distribution fitted to them. Draws of a subset
    have the same weight, so that there may be nothing to fit: k̂ is -inf where the largest weights tie, which have no
    tail, and inf where fewer than five draws stand above the others and hold a share of the weight that matters, or
    where these dwarf the rest of the tail so far that it vanishes in float64.
    """
    n = len(log_weights)
    centred = log_weights - log_weights.max()
    n_tail = min(max(int(min(0.2 * n, 3 * np.sqrt(n))), _FEWEST_IN_TAIL - 1), n - 1)
    order = np.argsort(centred, kind="stable")
    cutoff = centred[order[n - n_tail - 1]]
    tail = order[centred[order] > cutoff + _TIE]
    if len(tail) < _FEWEST_IN_TAIL:
        weights = np.exp(centred)
        return (np.inf if weights[tail].sum() > _NEGLIGIBLE * weights.sum() else -np.inf), log_weights
    if np.ptp(centred[tail]) <= _TIE:
        return -np.inf, log_weights
    excess = np.exp(centred[tail]) - np.exp(cutoff)
    if _lower_quarter(excess) == 0.0:
        return np.inf, log_weights
    k, sigma = _fit_generalised_pareto(excess)
    quantile = (np.arange(1, len(tail) + 1) - 0.5) / len(tail)
    spread = -np.log1p(-quantile) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-quantile)) / k
    smoothed = centred.copy()
    smoothed[tail] = np.minimum(np.log(np.exp(cutoff) + sigma * spread), 0.0)
    return float(k), smoothed + log_weights.max()


def _fit_generalised_pareto(sorted_excess: Floats) -> tuple[float, float]:
    """Shape and scale by the empirical-Bayes estimate of Zhang & Stephens (2009), with its weak prior on the shape."""
    n = len(sorted_excess)
    m = 30 + int(np.sqrt(n))
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    theta = grid / (3.0 * _lower_quarter(sorted_excess)) + 1.0 / sorted_excess[-1]
    shape = np.log1p(-theta[:, None] * sorted_excess).mean(axis=1)
    log_likelihood = n * (-np.log(_scale(theta, shape, sorted_excess)) - shape - 1.0)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    best = float(weight @ theta)
    k = float(np.log1p(-best * sorted_excess).mean())
    sigma = float(_scale(np.array(best), np.array(k), sorted_excess))
    return (n * k + 5.0) / (n + 10.0), sigma


def _lower_quarter(sorted_excess: Floats) -> float:
    return float(sorted_excess[int(len(sorted_excess) / 4 + 0.5) - 1])


def _scale(theta: Floats, shape: Floats, excess: Floats) -> Floats:
    """-shape / theta; at theta = 0, which tied weights hit, the distribution is exponential."""
    return np.divide(-shape, theta, out=np.full_like(theta, excess.mean()), where=theta != 0.0)


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


def missed_in_table(space: FreeSpace, q: Approximation) -> Missed:
    """Exactly, where all subsets are known."""
    known = np.flatnonzero(space.table_log_joint > -np.inf)
    log_joint = space.table_log_joint[known]
    log_posterior = log_joint - logsumexp(log_joint)
    return _missed(q, space.target.masks(space.table_draws[known]), log_posterior, np.exp(log_posterior))


def missed_at_modes(target: Target, q: Approximation, modes: Mask, n_draws: int, rng: np.random.Generator) -> Missed:
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


def _missed(q: Approximation, masks: Mask, log_posterior: Floats, weights: Floats) -> Missed:
    """masks (S, p): distinct; log_posterior (S,): of each; weights (S,): the part of the posterior it stands for"""
    log_q = q.log_prob(masks)
    rare = log_q < log_posterior + np.log(MISSED_SHARE)
    worst = int(np.argmax(np.where(rare, log_posterior, -np.inf)))
    probability, approximate = np.exp(min(log_posterior[worst], 0.0)), np.exp(log_q[worst])
    return Missed(float(weights[rare].sum()), masks[worst], float(probability), float(approximate))
