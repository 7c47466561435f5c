"""How predictions compare with what was observed in rows that they were not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, xlogy
from scipy.stats import rankdata

from .._tools.arrays import Floats
from ..conditionals.predicts import Predicts
from .survival import concordance

# {what is predicted: names of the figures}
FIGURES: dict[Predicts, tuple[str, ...]] = {
    Predicts.number: ("observed", "predicted", "rmse", "r2"),
    Predicts.probability: ("observed", "predicted", "intercept", "slope", "brier", "log_loss", "auc"),
    Predicts.rate: ("observed", "predicted", "intercept", "slope", "deviance_explained"),
    Predicts.time: ("concordance",),
}
# Probabilities are kept so far from 0 and 1 where odds are taken of them.
_LEAST = 2.0**-53
_MOST_STEPS = 100
_ENOUGH = 1e-12


class _Law(NamedTuple):
    """Of outcomes at linear predictors (n,): what a log-likelihood subtracts from outcome · predictor, and its first
    and second derivative, mean and variance."""

    cumulant: Callable[[Floats], Floats]
    mean: Callable[[Floats], Floats]
    variance: Callable[[Floats], Floats]


def log_odds(probability: Floats) -> Floats:
    """(n,) finite ones, also of 0 and 1"""
    return np.asarray(logit(np.clip(probability, _LEAST, 1.0 - _LEAST)))


def figures_of(
    predicts: Predicts,
    observed: Floats,
    predicted: Floats,
    exposure: Floats | None = None,
    event: Floats | None = None,
) -> dict[str, float]:
    """Of outcomes (n,), where classes are 0 and 1, and predictions (n,), which are per unit of exposure (n,); event
    (n,): which times ended with it.

    observed, predicted : means, or totals over the total exposure
    intercept : what is to be added to all log odds, or logarithms of rates, for these two to be equal
    slope : by which these are to be multiplied, beside an intercept, to fit best; below 1 predictions are too extreme
    rmse, brier, log_loss : means over rows; auc : share of pairs of the two classes in the right order
    r2, deviance_explained : share of the scatter around the environment's own mean that predictions explain, by squares
        or by Poisson deviances
    concordance : share of pairs of times in the right order
    NaN where something is not defined, as with one class only.
    """
    values: tuple[Any, ...] = ()
    match predicts:
        case Predicts.probability:
            values = _of_probabilities(observed, predicted)
        case Predicts.rate:
            values = _of_rates(observed, predicted, np.ones(len(observed)) if exposure is None else exposure)
        case Predicts.time:
            assert event is not None
            values = (concordance(observed, event, predicted),)
        case Predicts.number:
            values = _of_numbers(observed, predicted)
    return dict(zip(FIGURES[predicts], map(float, values), strict=True))


def _of_numbers(y: Floats, predicted: Floats) -> tuple[Any, ...]:
    missed = float(np.mean((y - predicted) ** 2))
    return y.mean(), predicted.mean(), np.sqrt(missed), share_explained(missed, float(y.var()))


def _of_probabilities(y: Floats, predicted: Floats) -> tuple[Any, ...]:
    odds = log_odds(predicted)
    log_loss = np.mean(np.logaddexp(0.0, odds) - y * odds)
    brier = np.mean((y - predicted) ** 2)
    large = _shift(y, odds) if 0.0 < y.mean() < 1.0 else np.nan
    slope = _slope(y, odds, _bernoulli(), logit(y.mean())) if _overlap(y, odds) else np.nan
    return y.mean(), predicted.mean(), large, slope, brier, log_loss, _auc(y, predicted)


def _of_rates(y: Floats, rate: Floats, exposure: Floats) -> tuple[Any, ...]:
    expected, total = rate * exposure, exposure.sum()
    known = bool(y.any() and (rate > 0.0).all())
    slope = np.nan
    if known:
        logs = np.log(rate)
        own = y.sum() / total
        slope = _slope(y, logs, _poisson(exposure), np.log(own)) if _spread_events(y, logs) else np.nan
    large = np.log(y.sum() / expected.sum()) if known else np.nan
    explained = share_explained(_deviance(y, expected), _deviance(y, exposure * y.sum() / total)) if known else np.nan
    return y.sum() / total, expected.sum() / total, large, slope, explained


def _bernoulli() -> _Law:
    return _Law(lambda eta: np.logaddexp(0.0, eta), expit, lambda eta: expit(eta) * expit(-eta))


def _poisson(exposure: Floats) -> _Law:
    def mean(eta: Floats) -> Floats:
        return exposure * np.exp(eta)

    return _Law(mean, mean, mean)


def _shift(y: Floats, odds: Floats) -> float:
    """What makes the mean of the probabilities that of y, in which both classes occur."""
    own = float(logit(y.mean()))
    lowest, highest = own - odds.max(), own - odds.min()
    if lowest == highest:
        return lowest
    return float(brentq(lambda shift: np.mean(expit(odds + shift)) - y.mean(), lowest, highest))


def _slope(y: Floats, predictor: Floats, law: _Law, empty: float) -> float:
    """Of y on the predictor, beside an intercept, by maximum likelihood, which must exist; empty : the intercept of the
    fit without a slope."""
    centre, scale = predictor.mean(), predictor.std()
    design = np.column_stack([np.ones(len(y)), (predictor - centre) / scale])

    def log_likelihood(theta: Floats) -> float:
        eta = design @ theta
        return float(y @ eta - law.cumulant(eta).sum())

    theta = np.array([empty, 0.0])
    value = log_likelihood(theta)
    for _ in range(_MOST_STEPS):
        eta = design @ theta
        score = design.T @ (y - law.mean(eta))
        try:
            step = np.linalg.solve((design * law.variance(eta)[:, None]).T @ design, score)
        except np.linalg.LinAlgError:
            return np.nan
        if step @ score < _ENOUGH:
            return float(theta[1] / scale)
        while not (new := log_likelihood(theta + step)) >= value and np.abs(step).max() > _ENOUGH:
            step = 0.5 * step
        theta, value = theta + step, new
    return np.nan


def _overlap(y: Floats, odds: Floats) -> bool:
    """Whether log odds leave both classes on both sides of any threshold: else the best slope is infinite."""
    events, others = odds[y == 1.0], odds[y == 0.0]
    return bool(len(events) and len(others) and events.min() < others.max() and others.min() < events.max())


def _spread_events(y: Floats, logs: Floats) -> bool:
    """Whether no slope, however large, makes events certain where they are and impossible elsewhere."""
    at = logs[y > 0.0]
    return bool(at.min() < at.max() or logs.min() < at[0] < logs.max())


def _auc(y: Floats, predicted: Floats) -> float:
    events = y == 1.0
    n, others = int(events.sum()), int((~events).sum())
    if not n or not others:
        return np.nan
    return float((rankdata(predicted)[events].sum() - 0.5 * n * (n + 1)) / (n * others))


def _deviance(y: Floats, mean: Floats) -> float:
    return float(2.0 * (xlogy(y, y / mean) - (y - mean)).sum())


def share_explained(missed: float, scatter: float) -> float:
    """NaN where nothing scatters"""
    return 1.0 - missed / scatter if scatter > 0.0 else np.nan
