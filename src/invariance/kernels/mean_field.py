"""Stochastic gradient ascent of a mean-field ELBO, whole stretches of iterations in compiled code."""

import numpy as np
from numba import njit

from .subset_cholesky import score_members


@njit(cache=True, nogil=True, error_model="numpy")
def score_draw(
    draw,
    table,
    scoring,
    penalty,
    columns,
    words,
    slots,
    values,
    n_forced,
    work,
):
    """log Λ of one draw (f,) over the free features: looked up, remembered or computed; NaN where undecidable.

    table (2**f,): log Λ by bit pattern, or empty. scoring, penalty: as in score_members. columns (f,): columns of the
    scoring. words (f, 2): random; their xor names a subset. slots (m, 2), values (m,), m a power of two: what was
    scored before, where a newer subset takes the place of an older one. work: members (the first n_forced are always
    in) and matrices of score_members, with room for the largest subset.
    """
    if table.size:
        code = 0
        for j in range(draw.size):
            if draw[j]:
                code |= 1 << j
        return table[code]
    members, matrices = work
    first, second = np.uint64(1), np.uint64(2)
    size = n_forced
    for j in range(draw.size):
        if draw[j]:
            first ^= words[j, 0]
            second ^= words[j, 1]
            members[size] = columns[j]
            size += 1
    slot = np.int64(first & np.uint64(values.size - 1))
    if slots[slot, 0] != first or slots[slot, 1] != second:
        slots[slot, 0], slots[slot, 1] = first, second
        values[slot] = score_members(scoring, penalty, members[:size], matrices)
    return values[slot]


@njit(cache=True, nogil=True, error_model="numpy")
def score_draws(draws, max_size, score_arguments, out):
    """out[s] = log Λ of draws[s] (S, f); NaN outside the support."""
    for s in range(draws.shape[0]):
        out[s] = np.nan if draws[s].sum() > max_size else score_draw(draws[s], *score_arguments)


@njit(cache=True, nogil=True, error_model="numpy")
def ascend(
    logits,
    uniforms,
    rates,
    analytic,
    log_odds,
    log_size_weight,
    max_size,
    n_rows,
    infeasible,
    lowest,
    score_arguments,
    objective,
    error,
    feasible,
    history,
):
    """Gradient ascent of (E_q[log Λ + log p] − E_q[log q]) / n_rows by U2G; one entry of `rates` per iteration.

    logits (f,): updated in place. uniforms (T, M, f). analytic (T,): whether the KL term's gradient is the exact one.
    infeasible: the objective, per row, of a draw outside the support; NaN puts it below the lowest seen, kept in
    lowest (1,). objective, error (T,): mean of log Λ + size prior over the draws and its standard error, in nats.
    feasible (T,): share of draws inside the support. history (T, f): logits at which `objective` was measured.
    """
    n_iterations, n_pairs, f = uniforms.shape
    draws = np.empty((2 * n_pairs, f), np.bool_)
    values = np.empty(2 * n_pairs)
    gradient = np.empty(f)
    inclusion = np.empty(f)
    for t in range(n_iterations):
        history[t] = logits
        for j in range(f):
            inclusion[j] = 1.0 / (1.0 + np.exp(-logits[j]))
        n_feasible = 0
        for m in range(n_pairs):
            for j in range(f):
                u = uniforms[t, m, j]
                draws[2 * m, j] = u > 1.0 - inclusion[j]
                draws[2 * m + 1, j] = u < inclusion[j]
            for s in (2 * m, 2 * m + 1):
                size = draws[s].sum()
                value = np.nan if size > max_size else score_draw(draws[s], *score_arguments) + log_size_weight[size]
                values[s] = value
                if value > -np.inf:
                    n_feasible += 1
                    lowest[0] = min(lowest[0], value)
        penalty = infeasible * n_rows
        if penalty != penalty:
            penalty = 1.1 * lowest[0] if lowest[0] < 0.0 else -n_rows
        gradient[:] = 0.0
        total, squares = 0.0, 0.0
        for m in range(n_pairs):
            a = values[2 * m] if values[2 * m] > -np.inf else penalty
            b = values[2 * m + 1] if values[2 * m + 1] > -np.inf else penalty
            total += 0.5 * (a + b)
            squares += 0.25 * (a + b) ** 2
            difference = a - b
            if not analytic[t]:
                for j in range(f):
                    if draws[2 * m, j] != draws[2 * m + 1, j]:
                        sign = 1.0 if draws[2 * m, j] else -1.0
                        difference += sign * (log_odds[j] - logits[j])
            for j in range(f):
                if draws[2 * m, j] != draws[2 * m + 1, j]:
                    larger = max(inclusion[j], 1.0 - inclusion[j])
                    gradient[j] += 0.5 * larger * difference * (1.0 if draws[2 * m, j] else -1.0)
        objective[t] = total / n_pairs
        error[t] = np.sqrt(max(squares / n_pairs - objective[t] ** 2, 0.0) / n_pairs)
        feasible[t] = n_feasible / (2 * n_pairs)
        for j in range(f):
            step = gradient[j] / n_pairs
            if analytic[t]:
                step += inclusion[j] * (1.0 - inclusion[j]) * (log_odds[j] - logits[j])
            logits[j] += rates[t] * step / n_rows
