"""Approximations of the posterior: products of independent Bernoullis over subsets of limited size, and mixtures of
them, one for each mode."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, expit, logsumexp, softmax

from .._tools.arrays import Floats, Mask
from ..kernels.subset_sums import sizes
from ..priors import BoundPrior

# So many stay in a processor's cache until they are compared.
_UNIFORMS_AT_A_TIME = 1 << 18
_ENTROPY_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class MeanField:
    """q(z) ∝ Π_j σ(logits_j)^z_j (1 − σ(logits_j))^(1−z_j) over subsets of at most max_size of p features.

    logits (p,): ±inf for features that are forced in or out. Everything below is of the restricted law.
    """

    logits: Floats
    max_size: int

    @cached_property
    def _law(self) -> BoundPrior:
        """As a prior, which can sum over subsets of limited size."""
        p = len(self.logits)
        return BoundPrior(
            feature_names=tuple(map(str, range(p))),
            max_size=self.max_size,
            log_odds=np.where(np.isfinite(self.logits), self.logits, 0.0),
            log_size_weight=np.where(np.arange(p + 1) <= self.max_size, 0.0, -np.inf),
            forced_in=self.logits == np.inf,
            forced_out=self.logits == -np.inf,
            name="mean field",
        )

    @cached_property
    def inclusion(self) -> Floats:
        """(p,) probability of each feature"""
        return self._law.inclusion_probabilities()

    @cached_property
    def entropy(self) -> float:
        free = self._law.free
        logits, inside = self.logits[free], self.inclusion[free]
        surprise = inside * np.logaddexp(0.0, -logits) + (1.0 - inside) * np.logaddexp(0.0, logits)
        return max(0.0, float(surprise.sum()) + self.log_support_mass)

    @cached_property
    def mode(self) -> Mask:
        """(p,) the most probable subset: features above ½ before the restriction, the smallest dropped if too many."""
        return self.leading(1)[0]

    @cached_property
    def log_support_mass(self) -> float:
        """log of the probability that a draw from the unrestricted product has at most max_size features"""
        law = self._law
        return min(0.0, law.log_normalizer - float(np.logaddexp(0.0, law.log_odds[law.free]).sum()))

    def log_prob(self, masks: Mask) -> Floats:
        """(S,) log q of masks (S, p); -inf outside the support."""
        return self._law.log_prob(masks)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """(n, p) draws: as `sample_from`, with uniforms of a few rows at a time"""
        p, chances = len(self.logits), expit(self.logits)
        step = max(1, _UNIFORMS_AT_A_TIME // max(p, 1))
        parts = [rng.random((min(step, n - start), p)) < chances for start in range(0, n, step)]
        return self._inside(np.concatenate(parts), rng)

    def sample_from(self, uniforms: Floats, rng: np.random.Generator) -> Mask:
        """(n, p) draws from the product, by uniforms (n, p); those that are too large again, from the restricted law"""
        return self._inside(uniforms < expit(self.logits), rng)

    def _inside(self, draws: Mask, rng: np.random.Generator) -> Mask:
        too_large = np.flatnonzero(sizes(draws) > self.max_size)
        if len(too_large):
            draws[too_large] = self._law.sample(len(too_large), rng)
        return draws

    def leading(self, n: int) -> Mask:
        """(up to n, p) the most probable subsets in the support, most probable first."""
        law = self._law
        order = law.free[np.argsort(-self.logits[law.free], kind="stable")]
        room = self.max_size - int(law.forced_in.sum())
        chosen = list(islice(_largest_sums(self.logits[order], room), n))
        masks = np.tile(law.forced_in, (len(chosen), 1))
        for mask, positions in zip(masks, chosen, strict=True):
            mask[order[list(positions)]] = True
        return masks


def _largest_sums(values: Floats, room: int) -> Iterator[tuple[int, ...]]:
    """Positions in descending `values`, at most `room` of them: all choices, from the largest sum down.

    From the best choice, the first positions, every other one is reached by changes that do not raise the sum: one
    position more or less at the end, while they are the first ones, and one position moved to the next.
    """
    first = min(int((values > 0.0).sum()), room)
    waiting = [(-float(values[:first].sum()), tuple(range(first)))]
    seen = {waiting[0][1]}
    while waiting:
        cost, chosen = heapq.heappop(waiting)
        yield chosen
        size, changes = len(chosen), []
        if chosen == tuple(range(size)):
            changes += [(cost + values[size - 1], chosen[:-1])] if 0 < size <= first else []
            changes += [(cost - values[size], (*chosen, size))] if first <= size < min(room, len(values)) else []
        for i, (position, following) in enumerate(zip(chosen, (*chosen[1:], len(values)), strict=False)):
            if position + 1 < following:
                moved = (*chosen[:i], position + 1, *chosen[i + 1 :])
                changes.append((cost + values[position] - values[position + 1], moved))
        for change in changes:
            if change[1] not in seen:
                seen.add(change[1])
                heapq.heappush(waiting, change)


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
        """Within components exactly, and what a draw tells about its component by a fixed sample."""
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


# Lower bound of the log evidence, in nats, and its Monte-Carlo standard error.
Elbo = tuple[float, float]


def share_variance(n_inside: int, n_draws: int) -> float:
    """n_inside times the variance of the logarithm of the share n_inside / n_draws"""
    return 1.0 - n_inside / n_draws


def fit_mixture(
    components: tuple[MeanField, ...], log_joint: Callable[[Mask], Floats], n_draws: int, rng: np.random.Generator
) -> tuple[Mixture, Elbo]:
    """Weights that maximise the ELBO over draws from each component.

    log_joint maps masks (S, p) to log p(z)Λ(z), -inf where undecidable; components are restricted to where it is
    finite. Single components are corners of the simplex of weights: the mixture cannot do worse than the best one.
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
        pairs = zip(values, densities, strict=True)
        return [value - logsumexp(density + log_weights, axis=0) for value, density in pairs]

    def elbo(weights: Floats) -> float:
        means = terms(weights)
        return float(sum(weights[c] * means[c].mean() for c in np.flatnonzero(weights > 0.0)))

    candidates = [*np.eye(len(components))]
    if len(components) > 1:
        single = np.array([elbo(corner) for corner in candidates])
        start = np.clip(single - single.max(), -20.0, 0.0)
        found = minimize(lambda x: -elbo(softmax(x)), start, method="Nelder-Mead", options={"maxiter": 400})
        candidates.append(softmax(found.x))
    best = max(candidates, key=elbo)
    parts = terms(best)
    variance = sum(
        best[c] ** 2 * (parts[c].var() + share_variance(len(parts[c]), n_draws)) / len(parts[c])
        for c in np.flatnonzero(best > 0.0)
    )
    return Mixture(components, best), (elbo(best), float(np.sqrt(variance)))


Approximation = MeanField | Mixture
