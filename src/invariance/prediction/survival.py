"""Predictions of times to an event: survival curves of a fit, or of an average of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats
from ..conditionals.hazards import PiecewiseHazard
from .predictor import LinearPredictor

# Halvings of an interval of time, after which nothing is left of it.
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class SurvivalPredictor(LinearPredictor):
    """baselines: hazards of each of the members, whose linear predictors are logarithms of relative risks."""

    baselines: tuple[PiecewiseHazard, ...] = ()

    def survival(self, X: Floats, times: Floats) -> Floats:
        """(n, len(times)) the probability that nothing has happened by then"""
        return self._average(X, lambda baseline, risk: baseline.survival(risk[:, None], times))

    def median(self, X: Floats) -> Floats:
        """(n,) when it is as probable as not that the event has occurred"""
        with np.errstate(divide="ignore"):
            each = [baseline.times(np.log(2.0) / risk) for baseline, risk in self._risks(X)]
        low, high = np.min(each, axis=0), np.max(each, axis=0)
        for _ in range(_HALVINGS if len(each) > 1 else 0):
            middle = 0.5 * (low + high)
            alive = self._average(X, lambda baseline, risk, middle=middle: baseline.survival(risk, middle)) > 0.5
            low, high = np.where(alive, middle, low), np.where(alive, high, middle)
        return high

    def _average(self, X: Floats, of_member: Callable[[PiecewiseHazard, Floats], Floats]) -> Floats:
        weights = [member.weight for member in self.members]
        return np.sum([w * of_member(*each) for w, each in zip(weights, self._risks(X), strict=True)], axis=0)

    def _risks(self, X: Floats) -> list[tuple[PiecewiseHazard, Floats]]:
        """The baseline of each member, and how many times that the hazards (n,) of the rows are."""
        with np.errstate(over="ignore"):
            risks = [np.exp(np.take(X, m.at, axis=1) @ m.coefficients + m.intercept) for m in self.members]
        return list(zip(self.baselines, risks, strict=True))

    def _each(self, X: Floats) -> Floats:
        return np.array([baseline.expected_time(risk) for baseline, risk in self._risks(X)])


def concordance(times: Floats, event: Floats, predicted: Floats) -> float:
    """Harrell's: of the pairs of rows of which it is known which event came first, the share that `predicted` times
    (n,) put in this order, ties counting half; NaN without such pairs.

    event (n,): whether the time of a row ended with it, else it is known only to come later
    """
    order = np.lexsort((-event, times))
    times, event, predicted = times[order], event[order], predicted[order]
    right, pairs = 0.0, 0
    for i in np.flatnonzero(event):
        # Of rows with the same time those that are censored come later.
        later = predicted[i + 1 :][(times[i + 1 :] > times[i]) | (event[i + 1 :] == 0.0)]
        right += np.count_nonzero(later > predicted[i]) + 0.5 * np.count_nonzero(later == predicted[i])
        pairs += len(later)
    return right / pairs if pairs else float("nan")
