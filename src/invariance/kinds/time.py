"""Times to an event that may be censored: some are known only to be longer."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats
from .base import CALIBRATION, OutcomeKind, interval_of_share
from .count import COUNT
from .figures import UNKNOWN, Figure, share


class TimeToEvent(OutcomeKind):
    """Times above 0 with a column of events; linear predictors are logarithms of hazard ratios."""

    name = "time"
    predicts = "time"
    ratio = "hazard ratio"
    baseline_unit = "log hazard"
    baselines = "baseline hazards"
    error_name = "1 − concordance"
    price_figure = "concordance"
    price_name = "share of pairs in the wrong order"
    figures = (*CALIBRATION, "concordance")
    measure = "concordance"
    measure_does = "order the times with a concordance of"
    measure_is = (
        "Concordance: of pairs of which it is known which event came first, the share in the "
        "right order. Calibration is up to the longest time seen in the other environments."
    )
    scale = "logarithms of hazards"
    group_mean = "share of rows with the event"
    mean_name = "share of rows with the event"
    of_shares = True
    censored = True
    pseudo_data = "with events at the pooled rate"

    def inverse_link(self, linear: Floats) -> Floats:
        """Return logarithms of relative risks, which have a baseline besides."""
        return np.asarray(linear)

    def error(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
    ) -> float:
        """Return 1 − concordance of the predicted order; NaN if no pair of times can be ordered."""
        assert event is not None
        return 1.0 - concordance(observed, event, predicted)

    def measured(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
        hazard: tuple[Floats, Floats, Floats] | None = None,
    ) -> dict[str, Figure]:
        assert event is not None
        figures = dict.fromkeys(CALIBRATION, UNKNOWN)
        if hazard is not None:
            risk, time, seen = hazard
            rates = COUNT.measured(seen, risk, time)
            figures = {
                "observed": Figure(seen.mean()),
                "predicted": Figure(float(np.mean(risk * time))),
                "intercept": rates["intercept"],
                "slope": rates["slope"],
            }
        return {**figures, "concordance": concordance_with_interval(observed, event, predicted)}

    def price_error(self, figure: float) -> float:
        return 1.0 - figure

    def interval_of_mean(self, observed: Floats, weight: Floats) -> tuple[float, float, float]:
        return interval_of_share(observed)


TIME = TimeToEvent()


def concordance(times: Floats, event: Floats, predicted: Floats) -> float:
    """Return Harrell's: of the pairs of rows of which it is known which event came first, the share
    that `predicted` times (n,) put in this order, ties counting half; NaN without such pairs. event
    (n,): whether the time of a row ended with it, else it is known only to come later"""
    right, pairs = concordant_pairs(times, event, predicted)
    return float(right.sum() / pairs.sum()) if pairs.any() else float("nan")


def concordance_with_interval(times: Floats, event: Floats, predicted: Floats) -> Figure:
    """Return it with an interval by what each row contributes to the pairs (infinitesimal
    jackknife)."""
    right, pairs = concordant_pairs(times, event, predicted)
    if not pairs.any():
        return UNKNOWN
    value = float(right.sum() / pairs.sum())
    error = 2.0 * float(np.sqrt(np.sum((right - value * pairs) ** 2))) / float(pairs.sum())
    return share(value, error)


def concordant_pairs(times: Floats, event: Floats, predicted: Floats) -> tuple[Floats, Floats]:
    """Return (n,) of each row, in the order of times: pairs with other rows in the right order, and
    all its pairs."""
    order = np.lexsort((-event, times))
    times = times[order]
    event = event[order]
    predicted = predicted[order]
    right = np.zeros(len(times))
    pairs = np.zeros(len(times))
    for i in np.flatnonzero(event):
        # Of rows with the same time those that are censored come later.
        later = i + 1 + np.flatnonzero((times[i + 1 :] > times[i]) | (event[i + 1 :] == 0.0))
        share_right = (predicted[later] > predicted[i]) + 0.5 * (predicted[later] == predicted[i])
        right[later] += share_right
        pairs[later] += 1.0
        right[i] += share_right.sum()
        pairs[i] += len(later)
    return right, pairs
