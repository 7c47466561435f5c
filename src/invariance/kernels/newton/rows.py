"""Rows of several environments as likelihoods are evaluated on them."""

from typing import NamedTuple

import numpy as np

from ..._tools.arrays import Floats, Integers
from .negative_binomial import NO_COUNTS, Counts

LOGISTIC, POISSON, NEGATIVE_BINOMIAL, PIECEWISE_EXPONENTIAL = range(4)


class Rows(NamedTuple):
    """N rows, those of an environment one after the other, with what each environment owns of pseudo-data.

    columns (q, N): centred and scaled; where the model has an intercept, column 0 is 1. starts (E + 1,): environment e
    is rows starts[e]:starts[e + 1]. outcome (N,): Σ of the outcome of a row and its pseudo-data; weight (N,): how much
    the row counts, times its exposure. counts: of a negative binomial, whose weights are without exposure.
    """

    family: int
    columns: Floats
    starts: Integers
    outcome: Floats
    weight: Floats
    counts: Counts = NO_COUNTS


class Work(NamedTuple):
    """What an evaluation and a maximisation write on. eta, curvature, scaled: of a block of rows; score (K,), hessian
    (K, K), step, origin (K,); by_environment (E,): log-likelihoods of the environments at the last evaluation; reached
    (E,): those of the pooled fit."""

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


BLOCK = 512


def work_for(rows: Rows, most_parameters: int) -> Work:
    """Of fits with at most so many parameters."""
    k = max(most_parameters, 1)
    block, vector = [np.empty(BLOCK) for _ in range(4)], [np.empty(k) for _ in range(3)]
    own = [np.empty(len(rows.starts) - 1) for _ in range(2)]
    return Work(*block, vector[0], np.empty((k, k)), *vector[1:], *own)
