"""How the largest log-likelihoods change when a feature is added to a fitted subset or removed, to second order."""

import numpy as np

from ..compiled import kernel
from ..copying import copy_into
from ..typed import NO, YES, ZERO
from .evaluation import evaluate
from .maximise import DEPENDENT, invert, score_fits
from .walk import begin, columns_of

# Columns that are tried together: their second derivatives among each other are computed for nothing.
_TOGETHER = 8


@kernel
def _half_quadratic(matrix, vector, n, scale):
    """½·v'M⁻¹v of the positive definite M, in place, without entries that depend on earlier ones, by scale (n,)."""
    total = 0.0
    for j in range(n):
        pivot = matrix[j, j]
        if not pivot > DEPENDENT * scale[j]:
            continue
        total += 0.5 * vector[j] * vector[j] / pivot
        for a in range(j + 1, n):
            factor = matrix[a, j] / pivot
            vector[a] -= factor * vector[j]
            for b in range(j + 1, n):
                matrix[a, b] -= factor * matrix[j, b]
    return total


@kernel
def _lost(theta, inverse, first, width, matrix, vector, scale):
    """What a fit loses when the parameters first:first + width become 0; those that depend on others are 0 already."""
    n = ZERO
    for a in range(first, first + width):
        if inverse[a, a] > 0.0:
            m = 0
            for b in range(first, first + width):
                if inverse[b, b] > 0.0:
                    matrix[n, m] = inverse[a, b]
                    m += 1
            vector[n], scale[n] = theta[a], inverse[a, a]
            n += 1
    return _half_quadratic(matrix, vector, n, scale)


@kernel
def _gained(work, inverse, k, more, n, first, width, matrix, vector, scale):
    """What a fit of n parameters, k of them slopes, gains by the columns first:first + width of `more` that stand after
    its own in work.score and work.hessian."""
    for i in range(width):
        a = k + first + i
        scale[i] = work.hessian[a, a]
        vector[i] = work.score[a]
        for j in range(i + 1):
            matrix[i, j] = work.hessian[a, k + first + j]
        for u in range(n):
            wide_u = u if u < k else u + more
            towards = 0.0
            for v in range(n):
                wide_v = v if v < k else v + more
                towards += inverse[u, v] * work.hessian[max(a, wide_v), min(a, wide_v)]
            vector[i] -= towards * work.score[wide_u]
            for j in range(i + 1):
                b = k + first + j
                matrix[i, j] -= towards * work.hessian[max(b, wide_u), min(b, wide_u)]
        for j in range(i):
            matrix[j, i] = matrix[i, j]
    return _half_quadratic(matrix, vector, width, scale)


@kernel
def flip_gains(rows, chosen, starts, always, thetas, inverses, extra, work, gains):
    """gains (E + 1, f): change of the largest log-likelihood in each environment and the pool when each feature is
    added to the chosen ones (f,) or removed.

    thetas (E + 1, ·), inverses (E + 1, ·, ·): of the fits of `chosen`; extra: parameters without a column. Features
    have the columns starts[j]:starts[j + 1]; always: columns of every subset. work: for all columns.
    """
    pool, f = rows.starts.size - 1, chosen.size
    members = np.empty(rows.columns.shape[0], np.int64)
    k = columns_of(chosen, starts, always, members)
    n, widest = k + extra, 1
    for j in range(f):
        widest = max(widest, starts[j + 1] - starts[j])
    theta = np.empty(n + max(widest, _TOGETHER))
    matrix, vector, scale = np.empty((widest, widest)), np.empty(widest), np.empty(widest)
    place = always.size
    for j in range(f):
        if chosen[j]:
            width = starts[j + 1] - starts[j]
            for g in range(pool + 1):
                gains[g, j] = -_lost(thetas[g], inverses[g], place, width, matrix, vector, scale)
            place += width
    j = 0
    while j < f:
        stop, more = j, ZERO
        while stop < f and (more == 0 or chosen[stop] or more + starts[stop + 1] - starts[stop] <= _TOGETHER):
            if not chosen[stop]:
                for c in range(starts[stop], starts[stop + 1]):
                    members[k + more] = c
                    more += 1
            stop += 1
        for g in range(pool + 1):
            copy_into(theta[:k], thetas[g])
            theta[k : k + more] = 0.0
            copy_into(theta[k + more : n + more], thetas[g, k:])
            first_environment, stop_environment = (g, g + 1) if g < pool else (ZERO, pool)
            evaluate(rows, first_environment, stop_environment, members, k + more, theta, n + more, YES, work)
            first = ZERO
            for i in range(j, stop):
                if not chosen[i]:
                    width = starts[i + 1] - starts[i]
                    gains[g, i] = _gained(work, inverses[g], k, more, n, first, width, matrix, vector, scale)
                    first += width
        j = stop


@kernel
def guess_flips(rows, masks, starts, always, beginning, tolerance, work, log_ratio, pooled, ranks, gains):
    """As `score_lists`, and gains (S, E + 1, f) as in `flip_gains`."""
    n_groups, extra = rows.starts.size, beginning.shape[1] - always.size
    members = np.empty(rows.columns.shape[0], np.int64)
    most = rows.columns.shape[0] + extra
    thetas, inverses = np.empty((n_groups, most)), np.empty((n_groups, most, most))
    for s in range(masks.shape[0]):
        k = columns_of(masks[s], starts, always, members)
        begin(beginning, always.size, k, thetas)
        log_ratio[s], pooled[s] = score_fits(
            rows, members, k, thetas, k + extra, inverses, NO, tolerance, ranks[s], work
        )
        for g in range(n_groups):
            first, stop = (g, g + 1) if g < n_groups - 1 else (ZERO, g)
            evaluate(rows, first, stop, members, k, thetas[g], k + extra, YES, work)
            invert(work.hessian, k, k + extra, inverses[g])
        flip_gains(rows, masks[s], starts, always, thetas, inverses, extra, work, gains[s])
