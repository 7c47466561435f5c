"""Rows of several environments as likelihoods are evaluated on them."""

from typing import NamedTuple

import numpy as np

from ..._tools.arrays import Floats, Integers

LOGISTIC, POISSON, NEGATIVE_BINOMIAL, PIECEWISE_EXPONENTIAL = range(4)


class Intervals(NamedTuple):
    """J intervals of time, in each of which the baseline hazard is constant. starts (E, J + 1): rows of environment e
    that end in interval j are starts[e, j]:starts[e, j + 1]; widths (E, J): lengths of the intervals, as often as the
    rows of the environment count; events (E, J): with those of the pseudo-data."""

    starts: Integers
    widths: Floats
    events: Floats


NO_INTERVALS = Intervals(np.zeros((0, 1), np.int64), np.zeros((0, 0)), np.zeros((0, 0)))


class Rows(NamedTuple):
    """N rows, those of an environment one after the other, with what each environment owns of pseudo-data.

    columns (q, N): centred and scaled; where the model has an intercept, column 0 is 1. starts (E + 1,): environment e
    is rows starts[e]:starts[e + 1]. outcome (N,): Σ of the outcome of a row and its pseudo-data; weight (N,): how much
    the row counts, times its exposure: for times to an event, how long it is watched in the interval where it ends.
    """

    family: int
    columns: Floats
    starts: Integers
    outcome: Floats
    weight: Floats
    intervals: Intervals = NO_INTERVALS


class Baseline(NamedTuple):
    """What an evaluation with J intervals writes on. at_risk (E, J): Σ of time · relative risk; log_hazard, hazard
    (J,): of rows with the largest relative risk the latter; means (J, K): sums over the rows at risk, of their columns.
    """

    at_risk: Floats
    log_hazard: Floats
    hazard: Floats
    means: Floats


class Work(NamedTuple):
    """What an evaluation and a maximisation write on. eta, residual, curvature, scaled: of a block of rows, or of all
    where there are intervals; score (K,), hessian (K, K), step, origin (K,); by_environment (E,): log-likelihoods of
    the environments at the last evaluation; reached (E,): those of the pooled fit."""

    eta: Floats
    residual: Floats
    curvature: Floats
    scaled: Floats
    score: Floats
    hessian: Floats
    step: Floats
    origin: Floats
    by_environment: Floats
    reached: Floats
    baseline: Baseline


BLOCK = 512


def work_for(rows: Rows, most_parameters: int) -> Work:
    """Of fits with at most so many parameters."""
    k = max(most_parameters, 1)
    n_environments, n_intervals = len(rows.starts) - 1, rows.intervals.events.shape[1]
    length = max(len(rows.outcome), BLOCK) if n_intervals else BLOCK
    block, vector = [np.empty(length) for _ in range(4)], [np.empty(k) for _ in range(3)]
    own = [np.empty(n_environments) for _ in range(2)]
    hazards = [np.empty(n_intervals) for _ in range(2)]
    baseline = Baseline(np.empty((n_environments, n_intervals)), *hazards, np.empty((n_intervals, k)))
    return Work(*block, vector[0], np.empty((k, k)), *vector[1:], *own, baseline)
