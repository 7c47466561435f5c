"""Rows of several environments as likelihoods are evaluated on them."""

from typing import NamedTuple

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from .negative_binomial import NO_COUNTS, Counts

LOGISTIC, POISSON, NEGATIVE_BINOMIAL, PIECEWISE_EXPONENTIAL = range(4)


class Intervals(NamedTuple):
    """Of time, J of them. starts (E, J + 1): rows of environment e that end in interval j are starts[e, j]:starts[e, j
    + 1]; events (E, J): with those of the pseudo-data."""

    starts: Integers
    events: Floats


class Spans(NamedTuple):
    """How time is divided. steps: S of them, in each of which the pooled hazard is constant; widths (E, S): their
    lengths, as often as the rows of the environment count; intervals: J of them, in each of which an environment's own
    hazard is the pooled one times a constant; firsts (J + 1,): steps of interval j are firsts[j]:firsts[j + 1]."""

    steps: Intervals
    widths: Floats
    intervals: Intervals
    firsts: Integers


_NONE = Intervals(np.zeros((0, 1), np.int64), np.zeros((0, 0)))
NO_SPANS = Spans(_NONE, np.zeros((0, 0)), _NONE, np.zeros(1, np.int64))


class Own(NamedTuple):
    """Columns as an environment's own fits take them. columns (q, N): centred and scaled within each environment, 0
    where they do not vary there. A column of `Rows` is shift + ratio · this one (E, q)."""

    columns: Floats
    shift: Floats
    ratio: Floats


NO_OWN = Own(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))


class Rows(NamedTuple):
    """N rows, those of an environment one after the other, with what each environment owns of pseudo-data.

    columns (q, N): centred and scaled; where the model has an intercept, column 0 is 1. starts (E + 1,): environment e
    is rows starts[e]:starts[e + 1]. outcome (N,): Σ of the outcome of a row and its pseudo-data; weight (N,): how much
    the row counts, times its exposure: for times to an event, how long it is watched in the step where it ends; for a
    negative binomial without exposure, which is in counts. own: without it an environment's fits take `columns` too.
    """

    family: int
    columns: Floats
    starts: Integers
    outcome: Floats
    weight: Floats
    counts: Counts = NO_COUNTS
    spans: Spans = NO_SPANS
    own: Own = NO_OWN


def with_columns(rows: Rows, kept: Integers) -> Rows:
    """The same rows with these columns alone, in this order."""
    own = Own(
        *(
            np.ascontiguousarray(part)
            for part in (rows.own.columns[kept], rows.own.shift[:, kept], rows.own.ratio[:, kept])
        )
    )
    return rows._replace(columns=np.ascontiguousarray(rows.columns[kept]), own=own)


class Baseline(NamedTuple):
    """What evaluations of hazards write on, of S steps or of J intervals, the first J then. at_risk (E, S): Σ of time ·
    relative risk; log_hazard, hazard (S,): the latter of the rows with the largest relative risk; sums (S, K): of time
    · relative risk · columns.

    The last evaluation of all environments leaves what the fits of each go by: clock (N,): its cumulative hazard from
    where the last interval of a row begins; lengths (E, J): of the intervals on this clock; shape (E,): Σ of the log
    hazards at events; behind (1,): whether these are still to be found from the hazards."""

    at_risk: Floats
    log_hazard: Floats
    hazard: Floats
    sums: Floats
    clock: Floats
    lengths: Floats
    shape: Floats
    behind: Mask


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
    n_environments, n_rows = len(rows.starts) - 1, len(rows.outcome)
    n_steps, n_intervals = rows.spans.widths.shape[1], rows.spans.firsts.size - 1
    length = max(n_rows if n_steps else 0, BLOCK)
    baseline = Baseline(
        at_risk=np.empty((n_environments, n_steps)),
        log_hazard=np.empty(n_steps),
        hazard=np.empty(n_steps),
        sums=np.empty((n_steps, k)),
        clock=np.empty(n_rows if n_steps else 0),
        lengths=np.empty((n_environments, n_intervals)),
        shape=np.empty(n_environments),
        behind=np.ones(1, dtype=bool),
    )
    return Work(
        eta=np.empty(length),
        residual=np.empty(length),
        curvature=np.empty(length),
        scaled=np.empty(length),
        score=np.empty(k),
        hessian=np.empty((k, k)),
        step=np.empty(k),
        origin=np.empty(k),
        by_environment=np.empty(n_environments),
        reached=np.empty(n_environments),
        baseline=baseline,
    )
