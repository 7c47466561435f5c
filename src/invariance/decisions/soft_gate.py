"""A slope that leads a search to subsets that predict well and are compatible with invariance.

The gate of the predictive posterior is open or shut. Here a subset that would not pass pays for what its deviance
T = −2 log Λ is too much: −½ cost(z) − ½κ·max(0, T − allowed). What is allowed is the mean of T plus `width` standard
deviations, for environments that differ by as much as is tolerated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.base import BoundConditional, FlipGuess
from ..conditionals.gaussian import deviance_moments, group_weights
from ..conditionals.tolerance import Tolerance
from ..inference.memory import ScoredSubsets
from ..inference.target import Target
from ..inference.tempering.replicas import CompiledTarget, with_own_cache
from ..kernels.active_set import active_set, flip_log_shares


@dataclass(frozen=True)
class SoftGate:
    """price: of a column, as in the predictive posterior; excess: of the deviance where environments differ by as much
    as is tolerated; width: how many standard deviations are allowed above the mean; kappa: what a unit of deviance
    beyond costs, nothing at an open gate."""

    price: float
    excess: float
    width: float
    kappa: float

    @classmethod
    def of(cls, price: float, tolerance: Tolerance, n_rows: int, width: float, kappa: float) -> Self:
        return cls(price, n_rows * (tolerance.delta + tolerance.tau**2 / 2.0), width, kappa)

    def values(
        self, gain: Floats, columns: Floats | Integers, deviance: Floats, mean: Floats, variance: Floats
    ) -> Floats:
        """(S,) −½ cost and what is to be paid at the gate, from the pooled fits' gain in log likelihood, their columns,
        and the deviance with its mean and variance under invariance; -inf where one of them is not known"""
        allowed = mean + self.excess + self.width * np.sqrt(variance + 4.0 * self.excess)
        with np.errstate(invalid="ignore"):
            paid = 0.5 * self.kappa * np.maximum(deviance - allowed, 0.0)
            values = gain - 0.5 * self.price * columns - paid
        return np.where(np.isnan(values), -np.inf, values)


class Neighbours(ABC):
    """The soft values of subsets one flip away."""

    @abstractmethod
    def flipped(self, mask: Mask) -> Floats:
        """(p,) soft value of the subset (p,) with each feature flipped; -inf outside the support"""


class CompiledNeighbours(Neighbours):
    """From one factorisation of the subset in each group."""

    def __init__(self, target: CompiledTarget, model: BoundConditional, gate: SoftGate) -> None:
        counts = model.describe().counts
        self._gate, self._features = gate, target.features
        self._counts = np.append(counts, counts.sum()).astype(float)
        self._scoring = with_own_cache(target.scoring)
        n_groups, d = self._scoring.inverse_scale.shape
        self._state = active_set(n_groups, d, target.capacity + 1)
        self._logs = np.empty((n_groups, d))
        self._weights = group_weights(self._counts)
        self._offset = float(model.log_ratio_many(np.zeros((1, model.n_features), bool))[0])
        varies = (self._scoring.inverse_scale[:, self._features] > 0.0).T
        self._patterns, self._pattern = np.unique(varies, axis=0, return_inverse=True)
        self._laws: dict[bytes, tuple[Floats, Floats]] = {}

    def flipped(self, mask: Mask) -> Floats:
        included = np.zeros(self._logs.shape[1], dtype=bool)
        included[self._features] = mask
        if not flip_log_shares(self._scoring, self._state, included, self._logs):
            return np.full(len(mask), -np.inf)
        logs = self._logs[:, self._features]
        deviance = -2.0 * (self._offset + self._weights @ logs)
        size = self._state.size
        mean, variance = self._law(size)
        kind = np.where(mask, self._pattern + len(self._patterns), self._pattern)
        columns = size[-1] + np.where(mask, -1.0, 1.0)
        gain = -0.5 * self._counts[-1] * logs[-1]
        return self._gate.values(gain, columns, deviance, mean[kind], variance[kind])

    def _law(self, size: Integers) -> tuple[Floats, Floats]:
        """Mean and variance of the deviance after a feature of each pattern was added, and after it was removed."""
        key = size.tobytes()
        if key not in self._laws:
            ranks = np.vstack([size + self._patterns, size - self._patterns])
            mean, variance = deviance_moments(self._counts, ranks)
            unknown = (self._counts - 1.0 - ranks <= 0.0).any(axis=1)
            self._laws[key] = np.where(unknown, np.nan, mean), np.where(unknown, np.nan, variance)
        return self._laws[key]


class PlainNeighbours(Neighbours):
    """By asking any model about each of them, once."""

    def __init__(self, model: BoundConditional, gate: SoftGate) -> None:
        self._model, self._gate = model, gate
        self._flips = np.eye(model.n_features, dtype=bool)
        self._memory = ScoredSubsets(self._values, model.n_features)

    def flipped(self, mask: Mask) -> Floats:
        return self._memory.values(mask ^ self._flips)

    def _values(self, masks: Mask) -> Floats:
        gain = self._model.prediction_many(masks).gain
        null = self._model.null_many(masks)
        deviance = -2.0 * self._model.log_ratio_many(masks)
        mean = np.where(null.variance > 0.0, -2.0 * null.expected, 0.0)
        return self._gate.values(gain, masks @ self._model.free_columns, deviance, mean, 4.0 * null.variance)


class GuessedNeighbours(Neighbours):
    """As the model guesses them from a fit of the subset itself."""

    def __init__(self, model: BoundConditional, gate: SoftGate) -> None:
        self._model, self._gate = model, gate

    def flipped(self, mask: Mask) -> Floats:
        guess = FlipGuess(*(values[0] for values in self._model.guessed_flips(mask)))
        widths = self._model.free_columns
        columns = int(mask @ widths) + np.where(mask, -widths, widths)
        known = guess.variance > 0.0
        mean = np.where(known, -2.0 * np.where(known, guess.expected, 0.0), 0.0)
        return self._gate.values(guess.gain, columns, -2.0 * guess.log_ratio, mean, 4.0 * guess.variance)


def neighbours_of(target: Target, gate: SoftGate) -> Neighbours:
    compiled = CompiledTarget.of(target)
    if compiled is None and target.model.guesses_flips:
        return GuessedNeighbours(target.model, gate)
    if compiled is None:
        return PlainNeighbours(target.model, gate)
    return CompiledNeighbours(compiled, target.model, gate)
