"""Predictions of times to an event: survival curves of a fit, or of an average of several."""

from __future__ import annotations

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
        return self._survival(X, times[None])

    def median(self, X: Floats) -> Floats:
        """(n,) when it is as probable as not that the event has occurred"""
        with np.errstate(divide="ignore"):
            each = [baseline.times(np.log(2.0) / risk) for baseline, risk in self._risks(X)]
        low, high = np.min(each, axis=0), np.max(each, axis=0)
        for _ in range(_HALVINGS if len(each) > 1 else 0):
            middle = 0.5 * (low + high)
            alive = self._survival(X, middle[:, None])[:, 0] > 0.5
            low, high = np.where(alive, middle, low), np.where(alive, high, middle)
        return high

    def _survival(self, X: Floats, times: Floats) -> Floats:
        """(n, T) by times (1, T), or (n, T) of the rows' own"""
        curves = [baseline.survival(risk[:, None], times) for baseline, risk in self._risks(X)]
        return np.einsum("m,mnt->nt", [member.weight for member in self.members], np.array(curves))

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
