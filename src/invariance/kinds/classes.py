"""One of two classes, as 0 and 1; predictions are probabilities of the second."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import rankdata

from .._tools.arrays import Floats, Mask
from .base import CALIBRATION, OutcomeKind, interval_of_share
from .figures import UNKNOWN, Figure, Law, around, calibration_slope, share

BERNOULLI: Law = (
    lambda eta: np.logaddexp(0.0, eta),
    expit,
    lambda eta: expit(eta) * expit(-eta),
)


class TwoClasses(OutcomeKind):
    """0 or 1, with the probability of 1."""

    name = "class"
    predicts = "probability"
    ratio = "ratio of probabilities"
    baseline_unit = "log odds"
    error_name = "log loss"
    price_figure = "log_loss"
    price_name = "log loss"
    figures = (*CALIBRATION, "brier", "log_loss", "auc")
    measure = "auc"
    measure_does = "tell the classes apart with an AUC of"
    measure_is = (
        "AUC: probability that a random row of the class ranks above a random row of the "
        "other class."
    )
    scale = "log odds"
    group_mean = "probability"
    mean_name = "mean"
    of_shares = True
    classifies = True
    coding = "classes, coded as 0 and 1"

    def inverse_link(self, linear: Floats) -> Floats:
        return np.asarray(expit(linear))

    def error(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
    ) -> float:
        """Return the log loss."""
        return log_loss(observed, log_odds(predicted))

    def measured(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
        hazard: tuple[Floats, Floats, Floats] | None = None,
    ) -> dict[str, Figure]:
        y = observed
        odds = log_odds(predicted)
        prevalence = float(y.mean())
        intercept = slope = auc = UNKNOWN
        if 0.0 < prevalence < 1.0:
            events = odds[y == 1.0]
            others = odds[y == 0.0]
            intercept = calibration_in_the_large(y, odds)
            # Where log odds of the classes do not overlap, the best slope is infinite.
            if events.min() < others.max() and others.min() < events.max():
                slope = calibration_slope(y, odds, BERNOULLI, float(logit(prevalence)))
            auc = area_under_curve(events, others)
        return {
            "observed": Figure(prevalence),
            "predicted": Figure(float(predicted.mean())),
            "intercept": intercept,
            "slope": slope,
            "brier": Figure(float(np.mean((y - predicted) ** 2))),
            "log_loss": Figure(log_loss(y, odds)),
            "auc": auc,
        }

    def interval_of_mean(self, observed: Floats, weight: Floats) -> tuple[float, float, float]:
        return interval_of_share(observed)

    def within_range(self, predicted: Floats, least: float) -> Floats:
        return np.clip(predicted, least, 1.0 - least)

    def ridge(self, penalty: float, y: Floats) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1.0 / penalty, max_iter=1000)

    def link(self, mean: float) -> float:
        return float(logit(mean))

    def variance(self, mean: Floats) -> Floats:
        return mean * (1.0 - mean)

    def fits(self, y: Floats) -> Mask:
        return np.isin(y, (0.0, 1.0))


CLASS = TwoClasses()


def log_odds(probability: Floats) -> Floats:
    """Return finite log odds (n,), also of 0 and 1."""
    least = 2.0**-53
    return np.asarray(logit(np.clip(probability, least, 1.0 - least)))


def log_loss(y: Floats, odds: Floats) -> float:
    """Return the mean over rows, of classes (n,) as 0 and 1 and of log odds (n,)."""
    return float(np.mean(np.logaddexp(0.0, odds) - y * odds))


def calibration_in_the_large(y: Floats, odds: Floats) -> Figure:
    """Return calibration-in-the-large: the shift of log odds that gives the mean probability of y.

    y must have both classes.
    """
    prevalence = float(y.mean())
    shift = float(logit(prevalence)) - odds.max()
    if odds.min() < odds.max():
        ends = shift, float(logit(prevalence)) - odds.min()
        shift = brentq(lambda shift: np.mean(expit(odds + shift)) - prevalence, *ends)
    own = expit(odds + shift)
    return around(shift, float(np.sqrt(np.sum((y - own) ** 2)) / np.sum(own * (1.0 - own))))


def area_under_curve(events: Floats, others: Floats) -> Figure:
    """Return the AUC by the midranks of the scores of both classes, with DeLong's variance."""
    m = len(events)
    n = len(others)
    ranks = rankdata(np.concatenate([events, others]))
    above = (ranks[:m] - rankdata(events)) / n
    below = 1.0 - (ranks[m:] - rankdata(others)) / m
    variance = above.var(ddof=1) / m + below.var(ddof=1) / n if min(m, n) > 1 else np.nan
    return share(float(above.mean()), float(np.sqrt(variance)))
