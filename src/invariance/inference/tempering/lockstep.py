"""Moves of many chains at once, each of which leaves the law of its chain unchanged.

All chains make the same kind of move at the same time, so that what they propose is scored together. The last axis of
scores is that of the chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Self

import numpy as np
from scipy.special import expit

from ..._tools.arrays import Floats, Integers, Mask
from ...priors.bound import PriorTerms
from ..memory import ScoredSubsets

# Half the gain of a flip that is not possible at all: finite, so that there is one to choose where none is.
_FARTHEST = -1e6


class Scores(NamedTuple):
    """log Λ(z), log p(z) and |z| of subsets, (..., c) each: some for each of c chains."""

    log_ratios: Floats
    log_priors: Floats
    sizes: Integers


@dataclass(frozen=True, eq=False)
class Laws:
    """What each of c chains samples: the exponential of β·log Λ(z) + power·log p(z) − thrift·|z|, up to a constant.

    betas, powers, thrifts: (c,).
    """

    betas: Floats
    powers: Floats
    thrifts: Floats

    @classmethod
    def tempered(cls, betas: Floats) -> Self:
        """π_β(z) ∝ p(z)·Λ(z)^β"""
        return cls(betas, np.ones_like(betas), np.zeros_like(betas))

    def log_weights(self, scores: Scores) -> Floats:
        """(..., c)"""
        decided = scores.log_ratios > -np.inf
        values = self.betas * np.where(decided, scores.log_ratios, 0.0)
        values += self.powers * scores.log_priors - self.thrifts * scores.sizes
        return np.where(decided, values, -np.inf)


class Chains:
    """c chains over f free features. included (c, f), scores (c,): the present subsets.

    best_included (c, f), best (c,): the best subset that each has met and its log p(z)Λ(z).
    flips, blocks (c, f): sums of P(z_j = 1 | others) over flips and over blocks; n_flips, n_blocks (c, f): how many.
    """

    def __init__(self, terms: PriorTerms, memory: ScoredSubsets, laws: Laws, included: Mask) -> None:
        self._terms = terms
        self._memory = memory
        self._every = np.arange(len(included))
        self.included = included.copy()
        self.scores = self.scored(included)
        self.best_included = included.copy()
        self.best = self.scores.log_priors + self.scores.log_ratios
        self.flips, self.n_flips, self.blocks, self.n_blocks = np.zeros((4, *included.shape))
        self.obey(laws)

    def obey(self, laws: Laws) -> None:
        """Sample these laws from now on."""
        self.laws = laws
        self._log_weights = laws.log_weights(self.scores)

    def scored(self, subsets: Mask) -> Scores:
        """Of subsets (..., f); the model is not asked about those outside the prior's support."""
        *shape, f = subsets.shape
        log_priors = self._terms.log_prior(subsets.reshape(prod(shape), f)).reshape(shape)
        log_ratios = np.full(shape, -np.inf)
        inside = log_priors > -np.inf
        log_ratios[inside] = self._memory.values(subsets[inside])
        return Scores(log_ratios, log_priors, subsets.sum(axis=-1))

    def metropolis(self, proposals: Mask, uniforms: Floats) -> Floats:
        """Take proposals (c, f), as probable one way as the other, or stay. Returns the log of how many times more
        weight they have (c,)."""
        scores = self.scored(proposals)
        log_weights = self.laws.log_weights(scores)
        gains = log_weights - self._log_weights
        self._move(np.flatnonzero(uniforms < acceptance(gains)), proposals, scores, log_weights)
        return gains

    def flip(self, features: Integers, uniforms: Floats) -> None:
        """Flip features (c,)."""
        proposals = self.included.copy()
        proposals[self._every, features] ^= True
        gains = self.metropolis(proposals, uniforms)
        entering = proposals[self._every, features]
        self.flips[self._every, features] += expit(np.where(entering, gains, -gains))
        self.n_flips[self._every, features] += 1.0

    def flip_guided(self, guessed: Floats, choice: Floats, uniforms: Floats) -> None:
        """Flip a feature, by the root of how probable the result is if log Λ is as guessed (c, f) after each flip: a
        search, not a draw."""
        subsets = self.included ^ np.eye(self.included.shape[1], dtype=bool)[:, None]
        log_priors = np.stack([self._terms.log_prior(flipped) for flipped in subsets])
        gains = self.laws.log_weights(Scores(guessed.T, log_priors, subsets.sum(axis=-1))) - self._log_weights
        self.flips += expit(np.where(self.included, -gains.T, gains.T))
        self.n_flips += 1.0
        features = drawn_from(block_shares(np.maximum(0.5 * gains, _FARTHEST)), choice)
        proposals = self.included.copy()
        proposals[self._every, features] ^= True
        self.metropolis(proposals, uniforms)

    def exchange(self, keys: Floats, uniforms: Floats) -> None:
        """A member leaves and another feature enters, both uniformly chosen: those with the largest keys (c, f)."""
        self.metropolis(exchanged(self.included, keys), uniforms)

    def draw_block(self, features: Integers, uniforms: Floats) -> None:
        """Draw features (c, b) jointly, given the others; their choice may not depend on z."""
        subsets, choices = block_subsets(self.included, features)
        scores = self.scored(subsets)
        log_weights = self.laws.log_weights(scores)
        shares = block_shares(log_weights)
        drawn = drawn_from(shares, uniforms), self._every
        taken = Scores(scores.log_ratios[drawn], scores.log_priors[drawn], scores.sizes[drawn])
        self._move(self._every, subsets[drawn], taken, log_weights[drawn])
        rows = self._every[:, None]
        self.blocks[rows, features] += shares.T @ choices
        self.n_blocks[rows, features] += 1.0

    def jump(self, differences: Mask, uniforms: Floats) -> None:
        """Flip the features in which two modes differ, differences (c, f), fixed beforehand or drawn whatever z is."""
        self.metropolis(self.included ^ differences, uniforms)

    def swap_acceptance(self, first: Integers) -> Floats:
        """Of exchanging the subsets of chains `first` (...) with those of the chains after them."""
        betas, log_ratios = self.laws.betas, self.scores.log_ratios
        return acceptance((betas[first] - betas[first + 1]) * (log_ratios[first + 1] - log_ratios[first]))

    def swap(self, first: Integers, uniforms: Floats) -> None:
        """Exchange the subsets of chains `first` (m,), no two of them neighbours, with those of the chains after."""
        accepted = first[uniforms < self.swap_acceptance(first)]
        here, there = np.concatenate([accepted, accepted + 1]), np.concatenate([accepted + 1, accepted])
        for array in (self.included, *self.scores):
            array[here] = array[there]
        self.obey(self.laws)

    def climb(self) -> None:
        """Steepest ascent of log p(z)Λ(z) by flips, from the best subset of each chain: a search, not a draw."""
        flips = np.eye(self.included.shape[1], dtype=bool)[:, None]
        climbing = self._every if len(flips) else self._every[:0]
        while len(climbing):
            subsets = self.best_included[climbing] ^ flips
            scores = self.scored(subsets)
            values = scores.log_ratios + scores.log_priors
            better = np.flatnonzero(values.max(axis=0) > self.best[climbing])
            top = values.argmax(axis=0)[better], better
            climbing = climbing[better]
            self.best_included[climbing], self.best[climbing] = subsets[top], values[top]

    def _move(self, moving: Integers, included: Mask, scores: Scores, log_weights: Floats) -> None:
        """Let the chains `moving` (m,) have these subsets, given for all chains."""
        self.included[moving] = included[moving]
        self._log_weights[moving] = log_weights[moving]
        for mine, new in zip(self.scores, scores, strict=True):
            mine[moving] = new[moving]
        values = scores.log_ratios[moving] + scores.log_priors[moving]
        better = values > self.best[moving]
        risen = moving[better]
        self.best_included[risen], self.best[risen] = included[risen], values[better]


def acceptance(gains: Floats) -> Floats:
    """Metropolis: the probability of a move whose target has exp(gains) times the weight."""
    return np.exp(np.minimum(gains, 0.0))


def exchanged(included: Mask, keys: Floats) -> Mask:
    """(c, f) included with the member and the other feature that have the largest keys (c, f) changed; the same where
    it has only members, or none."""
    flipped, every = np.zeros_like(included), np.arange(len(included))
    for group in (included, ~included):
        flipped[every, np.where(group, keys, -1.0).argmax(axis=1)] = True
    mixed = included.any(axis=1, keepdims=True) & ~included.all(axis=1, keepdims=True)
    return included ^ (flipped & mixed)


def chosen_blocks(chances: Floats, uniforms: Floats, size: int) -> Integers:
    """(c, size) distinct features, drawn one after another in proportion to chances (f,), by uniforms (c, f)."""
    # Of independent exponential times with these rates, the first ones are such draws.
    times = -np.log1p(-uniforms) / chances
    return np.argpartition(times, size - 1, axis=1)[:, :size]


def block_subsets(included: Mask, features: Integers) -> tuple[Mask, Mask]:
    """(2**b, c, f) all subsets that agree with included (c, f) outside features (c, b), and which of these features
    each holds (2**b, b)."""
    (c, b), n = features.shape, 1 << features.shape[1]
    choices = (np.arange(n)[:, None] >> np.arange(b) & 1).astype(bool)
    subsets = np.repeat(included[None], n, axis=0)
    subsets[np.arange(n)[:, None, None], np.arange(c)[:, None], features] = choices[:, None]
    return subsets, choices


def block_shares(log_weights: Floats) -> Floats:
    """(n, c) probabilities of n subsets for each chain, in proportion to their weights"""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def drawn_from(shares: Floats, uniforms: Floats) -> Integers:
    """(c,) a number drawn from the probabilities (n, c) of each chain, by uniforms (c,)"""
    last = len(shares) - 1 - (shares[::-1] > 0.0).argmax(axis=0)
    return np.minimum((shares.cumsum(axis=0) <= uniforms).sum(axis=0), last)
