"""How far draws from an approximation are from the posterior, and what they say about it after reweighting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..subsets import distinct

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

POOR_PARETO_K = 0.7


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Self-normalised importance estimates from draws of q.

    inclusion (p,); masks (k, p): distinct draws, most probable first; log_ratios, log_probabilities (k,)
    pareto_k: tail index of the weights, above 0.7 they cannot be trusted; ess: effective number of draws
    log_evidence: estimate of log Σ p(z)Λ(z); n_draws
    """

    inclusion: Floats
    masks: Mask
    log_ratios: Floats
    log_probabilities: Floats
    pareto_k: float
    ess: float
    log_evidence: float
    n_draws: int

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
        inclusion=weights @ masks,
        masks=masks[first[order]],
        log_ratios=log_ratios[first[order]],
        log_probabilities=np.log(probability[order]),
        pareto_k=k,
        ess=float(1.0 / np.sum(weights**2)),
        log_evidence=float(logsumexp(log_weights) - np.log(len(masks))),
        n_draws=len(masks),
    )


def pareto_smoothed(log_weights: Floats) -> tuple[float, Floats]:
    """Pareto-k̂ and smoothed log weights (Vehtari, Simpson, Gelman, Yao & Gabry 2024).

    The largest weights are replaced by quantiles of a generalised Pareto distribution fitted to them.
    """
    n = len(log_weights)
    centred = log_weights - log_weights.max()
    n_tail = int(min(0.2 * n, 3 * np.sqrt(n)))
    order = np.argsort(centred, kind="stable")
    tail = order[n - n_tail :]
    cutoff = centred[order[n - n_tail - 1]] if n > n_tail else -np.inf
    excess = np.exp(centred[tail]) - np.exp(cutoff)
    if n_tail < 5 or not np.isfinite(cutoff) or excess[-1] <= 0.0 or np.ptp(excess) < 1e-12 * excess[-1]:
        # Weights that are all alike have no tail; too few finite ones say nothing.
        alike = np.isfinite(centred).sum() > n_tail and np.ptp(centred[np.isfinite(centred)]) < 1e-9
        return (-np.inf if alike or (np.isfinite(cutoff) and excess[-1] <= 0.0) else np.inf), log_weights
    k, sigma = _fit_generalised_pareto(np.sort(excess[excess > 0.0]))
    quantile = (np.arange(1, n_tail + 1) - 0.5) / n_tail
    spread = -np.log1p(-quantile) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-quantile)) / k
    smoothed = centred.copy()
    smoothed[tail] = np.minimum(np.log(np.exp(cutoff) + sigma * spread), 0.0)
    return float(k), smoothed + log_weights.max()


def _fit_generalised_pareto(sorted_excess: Floats) -> tuple[float, float]:
    """Shape and scale by the empirical-Bayes estimate of Zhang & Stephens (2009), with its weak prior on the shape."""
    n = len(sorted_excess)
    m = 30 + int(np.sqrt(n))
    quarter = sorted_excess[int(n / 4 + 0.5) - 1]
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    theta = grid / (3.0 * quarter) + 1.0 / sorted_excess[-1]
    shape = np.log1p(-theta[:, None] * sorted_excess).mean(axis=1)
    log_likelihood = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    best = float(weight @ theta)
    k = float(np.log1p(-best * sorted_excess).mean())
    sigma = -k / best
    return (n * k + 5.0) / (n + 10.0), sigma
