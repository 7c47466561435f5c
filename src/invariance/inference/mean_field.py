"""A product of independent Bernoullis over subsets, restricted to a support of limited size."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_MOST_TRIES = 1000


@dataclass(frozen=True, eq=False)
class MeanField:
    """q(z) = Π_j σ(logits_j)^z_j (1 − σ(logits_j))^(1−z_j) over p features.

    logits (p,): ±inf for features that are forced in or out. max_size: the largest subset in the support.
    """

    logits: Floats
    max_size: int

    @cached_property
    def inclusion(self) -> Floats:
        """(p,) probability of each feature"""
        return expit(self.logits)

    @cached_property
    def entropy(self) -> float:
        q = self.inclusion
        return float(-(xlogy(q, q) + xlogy(1 - q, 1 - q)).sum())

    @cached_property
    def mode(self) -> Mask:
        """(p,) the most probable subset in the support: features above ½, the least probable dropped if too many."""
        mask = self.inclusion > 0.5
        excess = int(mask.sum()) - self.max_size
        if excess > 0:
            mask[np.flatnonzero(mask)[np.argsort(self.inclusion[mask], kind="stable")[:excess]]] = False
        return mask

    @cached_property
    def log_support_mass(self) -> float:
        """log of the probability that a draw has at most max_size features"""
        undecided = self.inclusion[(self.inclusion > 0.0) & (self.inclusion < 1.0)]
        room = self.max_size - int((self.inclusion == 1.0).sum())
        if len(undecided) <= room:
            return 0.0
        sizes = np.zeros(room + 1)
        sizes[0] = 1.0
        for q in undecided:
            sizes[1:] = sizes[1:] * (1.0 - q) + sizes[:-1] * q
            sizes[0] *= 1.0 - q
        return float(np.log(sizes.sum()))

    def log_prob(self, masks: Mask) -> Floats:
        """(S,) log q of masks (S, p), restricted to the support; -inf outside."""
        signed = np.where(masks, self.logits, -self.logits)
        inside = masks.sum(axis=1) <= self.max_size
        return np.where(inside, -np.logaddexp(0.0, -signed).sum(axis=1) - self.log_support_mass, -np.inf)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """(n, p) draws from q restricted to subsets of at most max_size features."""
        draws = np.empty((n, len(self.logits)), dtype=bool)
        missing = np.arange(n)
        for _ in range(_MOST_TRIES):
            draws[missing] = rng.random((len(missing), len(self.logits))) < self.inclusion
            missing = missing[draws[missing].sum(axis=1) > self.max_size]
            if len(missing) == 0:
                return draws
        raise RuntimeError(
            f"fewer than 1 in {_MOST_TRIES} draws has at most {self.max_size} features: q lies outside the support"
        )

    def leading(self, n: int) -> Mask:
        """(up to n, p) the most probable subsets in the support, most probable first."""
        masks = []
        for examined, mask in enumerate(self._in_order()):
            if mask.sum() <= self.max_size:
                masks.append(mask)
            if len(masks) == n or examined >= 20 * n:
                break
        return np.array(masks or [self.mode])

    def _in_order(self) -> Iterator[Mask]:
        """Subsets from the most probable down: sets of flips by growing total cost |logit|."""
        best = self.inclusion > 0.5
        order = np.argsort(np.abs(self.logits), kind="stable")
        costs = np.abs(self.logits)[order]
        yield best.copy()
        heap: list[tuple[float, tuple[int, ...]]] = [(float(costs[0]), (0,))] if len(costs) else []
        while heap and np.isfinite(heap[0][0]):
            cost, flips = heapq.heappop(heap)
            mask = best.copy()
            mask[order[list(flips)]] ^= True
            yield mask
            last = flips[-1]
            if last + 1 < len(costs):
                step = float(costs[last + 1])
                heapq.heappush(heap, (cost + step, (*flips, last + 1)))
                heapq.heappush(heap, (cost - float(costs[last]) + step, (*flips[:-1], last + 1)))
