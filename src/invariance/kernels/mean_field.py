"""Stochastic gradient ascent of a mean-field ELBO by U2G: coupled draws, their scores, a step (Yin
et al. 2020).

One uniform vector gives two draws, z1 = 1[u > 1 − σ(φ)] and z2 = 1[u < σ(φ)], and ½·σ(|φ|)·(f(z1) −
f(z2))·(z1 − z2) has expectation ∇_φ E[f(z)].
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .active_set import Scoring
from .cholesky import SubsetWork, score_members
from .compilation import AS_PART
from .compiled import copy_into, kernel


class Objective(NamedTuple):
    """What is ascended: (E_q[log Λ + log p] − E_q[log q]) / n_rows over f free features. log_odds
    (f,), log_size_weight (f + 1,), max_size: the prior; infeasible: the objective, per row, of a
    draw outside the support; NaN puts it below the lowest one seen."""

    log_odds: np.ndarray
    log_size_weight: np.ndarray
    max_size: int
    n_rows: float
    infeasible: float


class Trace(NamedTuple):
    """Of T iterations. elbo, error (T,): mean of log Λ + size prior over the draws and its standard
    error, in nats; feasible (T,): share of draws inside the support; logits (T, f): where these
    were measured."""

    elbo: np.ndarray
    error: np.ndarray
    feasible: np.ndarray
    logits: np.ndarray


class CompiledScorer(NamedTuple):
    """Scores draws one by one, and remembers them. scoring, penalty: see score_members; columns
    (f,): of the scoring; words (f, 2): random, their xor names a subset; slots (m, 2), values (m,),
    m a power of two: the latest subset of each name; members (k,): the first n_forced are always
    in; work: for the largest subset"""

    scoring: Scoring
    penalty: float
    columns: np.ndarray
    words: np.ndarray
    slots: np.ndarray
    values: np.ndarray
    members: np.ndarray
    n_forced: int
    work: SubsetWork


def score_draw(scorer, draw):
    """log Λ of one draw (f,), NaN where undecidable: by a CompiledScorer, or looked up in a table
    (2**f,) of them by bit pattern."""
    raise NotImplementedError("only for compiled code")


@overload(score_draw, jit_options=AS_PART)
def _score_draw(scorer, draw):
    return _looked_up if isinstance(scorer, types.Array) else _remembered_or_computed


def _looked_up(scorer, draw):
    code = 0
    for j in range(draw.size):
        if draw[j]:
            code |= 1 << j
    return scorer[code]


def _remembered_or_computed(scorer, draw):
    slots = scorer.slots
    values = scorer.values
    members = scorer.members
    first = np.uint64(1)
    second = np.uint64(2)
    size = scorer.n_forced
    for j in range(draw.size):
        if draw[j]:
            first ^= scorer.words[j, 0]
            second ^= scorer.words[j, 1]
            members[size] = scorer.columns[j]
            size += 1
    slot = np.int64(first & np.uint64(values.size - 1))
    if slots[slot, 0] != first or slots[slot, 1] != second:
        slots[slot, 0] = first
        slots[slot, 1] = second
        values[slot] = score_members(scorer.scoring, scorer.penalty, members[:size], scorer.work)
    return values[slot]


@kernel
def draw_pairs(logits, uniforms, inclusion, draws):
    """draws (2M, f): the two draws of each row of uniforms (M, f), one after the other; inclusion
    (f,): σ(logits)."""
    n_pairs, f = uniforms.shape
    for j in range(f):
        inclusion[j] = 1.0 / (1.0 + np.exp(-logits[j]))
    for m in range(n_pairs):
        for j in range(f):
            u = uniforms[m, j]
            draws[2 * m, j] = u > 1.0 - inclusion[j]
            draws[2 * m + 1, j] = u < inclusion[j]


@kernel
def score_draws(draws, max_size, scorer, out):
    """out[s] = log Λ of draws[s] (S, f); NaN outside the support."""
    for s in range(draws.shape[0]):
        out[s] = np.nan if draws[s].sum() > max_size else score_draw(scorer, draws[s])


@kernel
def make_step(logits, inclusion, draws, log_ratios, rate, analytic, objective, lowest, gradient):
    """Move logits (f,) in place by what the draws (2M, f) say, whose log Λ (2M,) is NaN or -inf
    outside the support. analytic: whether the KL term's gradient is the exact one; lowest (1,):
    objective of a draw seen inside the support; gradient (f,): work space. Returns mean and
    standard error of log Λ + size prior, and the share of draws inside."""
    n_pairs = draws.shape[0] // 2
    f = draws.shape[1]
    values = np.empty(2 * n_pairs)
    n_feasible = 0
    for s in range(2 * n_pairs):
        values[s] = log_ratios[s] + objective.log_size_weight[draws[s].sum()]
        if values[s] > -np.inf:
            n_feasible += 1
            lowest[0] = min(lowest[0], values[s])
    penalty = objective.infeasible * objective.n_rows
    if penalty != penalty:
        penalty = 1.1 * lowest[0] if lowest[0] < 0.0 else -objective.n_rows
    gradient[:] = 0.0
    total = 0.0
    squares = 0.0
    for m in range(n_pairs):
        a = values[2 * m] if values[2 * m] > -np.inf else penalty
        b = values[2 * m + 1] if values[2 * m + 1] > -np.inf else penalty
        total += 0.5 * (a + b)
        squares += 0.25 * (a + b) ** 2
        difference = a - b
        if not analytic:
            for j in range(f):
                if draws[2 * m, j] != draws[2 * m + 1, j]:
                    sign = 1.0 if draws[2 * m, j] else -1.0
                    difference += sign * (objective.log_odds[j] - logits[j])
        for j in range(f):
            if draws[2 * m, j] != draws[2 * m + 1, j]:
                larger = max(inclusion[j], 1.0 - inclusion[j])
                gradient[j] += 0.5 * larger * difference * (1.0 if draws[2 * m, j] else -1.0)
    mean = total / n_pairs
    error = np.sqrt(max(squares / n_pairs - mean**2, 0.0) / n_pairs)
    for j in range(f):
        step = gradient[j] / n_pairs
        if analytic:
            step += inclusion[j] * (1.0 - inclusion[j]) * (objective.log_odds[j] - logits[j])
        logits[j] += rate * step / objective.n_rows
    return mean, error, n_feasible / (2 * n_pairs)


@kernel
def ascend(logits, uniforms, rates, analytic, objective, lowest, scorer, trace):
    """Steps from logits (f,), in place, with uniforms (T, M, f), rates (T,) and analytic (T,);
    fills the trace."""
    n_iterations, n_pairs, f = uniforms.shape
    inclusion = np.empty(f)
    gradient = np.empty(f)
    draws = np.empty((2 * n_pairs, f), np.bool_)
    log_ratios = np.empty(2 * n_pairs)
    for t in range(n_iterations):
        copy_into(trace.logits[t], logits)
        draw_pairs(logits, uniforms[t], inclusion, draws)
        score_draws(draws, objective.max_size, scorer, log_ratios)
        trace.elbo[t], trace.error[t], trace.feasible[t] = make_step(
            logits, inclusion, draws, log_ratios, rates[t], analytic[t], objective, lowest, gradient
        )
