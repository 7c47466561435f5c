"""A mixture of mean-field distributions, one for each mode: says what one product of coins cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, logsumexp, softmax

from ..._tools.arrays import Floats, Mask
from .ascent import share_variance
from .mean_field import MeanField

_ENTROPY_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class Mixture:
    """q(z) = Σ_c weights_c · q_c(z), each component restricted to the support."""

    components: tuple[MeanField, ...]
    weights: Floats

    @cached_property
    def inclusion(self) -> Floats:
        """(p,) probability of each feature"""
        return self.weights @ np.array([q.inclusion for q in self.components])

    @cached_property
    def entropy(self) -> float:
        """That within components, exactly, and what a draw tells about its component, by draws: the same every time."""
        rng = np.random.default_rng(0)
        within = told = 0.0
        for c in np.flatnonzero(self.weights > 0.0):
            q, weight = self.components[c], self.weights[c]
            draws = q.sample(_ENTROPY_DRAWS, rng)
            within += weight * q.entropy
            told += weight * float((q.log_prob(draws) - self.log_prob(draws)).mean())
        return within + min(max(told, 0.0), float(entr(self.weights).sum()))

    def log_prob(self, masks: Mask) -> Floats:
        """(S,)"""
        with np.errstate(divide="ignore"):
            terms = np.array([q.log_prob(masks) for q in self.components]) + np.log(self.weights)[:, None]
        return logsumexp(terms, axis=0)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """(n, p)"""
        counts = rng.multinomial(n, self.weights)
        draws = [q.sample(int(count), rng) for q, count in zip(self.components, counts, strict=True) if count]
        return rng.permutation(np.concatenate(draws))

    def leading(self, n: int) -> Mask:
        """(up to n, p) the most probable of the components' leading subsets."""
        masks = np.unique(np.concatenate([q.leading(n) for q in self.components]), axis=0)
        return masks[np.argsort(-self.log_prob(masks), kind="stable")[:n]]


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """mixture, its ELBO and standard error."""

    mixture: Mixture
    elbo: float
    error: float


def fit_mixture(
    components: tuple[MeanField, ...], log_joint: Callable[[Mask], Floats], n_draws: int, rng: np.random.Generator
) -> MixtureFit:
    """Weights that maximise the ELBO over draws from each component.

    log_joint maps masks (S, p) to log p(z)Λ(z), -inf where undecidable; components are restricted to where it is
    finite. On fixed draws the ELBO is concave in the weights and a single component is a corner of their simplex, so
    that the mixture cannot do worse than the best one.
    """
    values, densities = [], []
    for q in components:
        draws = q.sample(n_draws, rng)
        value = log_joint(draws)
        decidable = np.isfinite(value)
        values.append(value[decidable])
        densities.append(np.array([other.log_prob(draws[decidable]) for other in components]))
    alive = [c for c, value in enumerate(values) if len(value)]
    components = tuple(components[c] for c in alive)
    log_share = np.log([len(values[c]) / n_draws for c in alive])
    values = [values[c] for c in alive]
    densities = [densities[c][alive] - log_share[:, None] for c in alive]

    def terms(weights: Floats) -> list[Floats]:
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None]
        return [
            value - logsumexp(density + log_weights, axis=0) for value, density in zip(values, densities, strict=True)
        ]

    def elbo(weights: Floats) -> float:
        used = np.flatnonzero(weights > 0.0)
        means = terms(weights)
        return float(sum(weights[c] * means[c].mean() for c in used))

    single = np.array([elbo(corner) for corner in np.eye(len(components))])
    candidates = [*np.eye(len(components))]
    if len(components) > 1:
        start = np.clip(single - single.max(), -20.0, 0.0)
        found = minimize(lambda x: -elbo(softmax(x)), start, method="Nelder-Mead", options={"maxiter": 400})
        candidates.append(softmax(found.x))
    best = max(candidates, key=elbo)
    parts = terms(best)
    variance = sum(
        best[c] ** 2 * (parts[c].var() + share_variance(len(parts[c]), n_draws)) / len(parts[c])
        for c in np.flatnonzero(best > 0.0)
    )
    return MixtureFit(Mixture(components, best), elbo(best), float(np.sqrt(variance)))
