"""All subsets of some features, each fit beginning where that of the next larger subset ended."""

import numpy as np

from ..compiled import kernel
from ..copying import copy_into
from ..typed import NO, ZERO
from .maximise import score_fits, without_parameter

_FEW_FOLLOW = 3


@kernel
def columns_of(chosen, starts, always, members):
    """Fill members with the columns `always` and those of the chosen features (f,); returns how many."""
    k = always.size
    copy_into(members[:k], always)
    for j in range(chosen.size):
        if chosen[j]:
            for c in range(starts[j], starts[j + 1]):
                members[k] = c
                k += 1
    return k


@kernel
def begin(beginning, n_always, k, thetas):
    """thetas (E + 1, ·) of k slopes where those of the empty subset are, `beginning` as in `score_lists`"""
    extra = beginning.shape[1] - n_always
    thetas[:] = 0.0
    for g in range(len(thetas)):
        copy_into(thetas[g, :n_always], beginning[g])
        copy_into(thetas[g, k : k + extra], beginning[g, n_always:])


@kernel
def score_lists(rows, masks, starts, always, beginning, tolerance, work, log_ratio, pooled, ranks, thetas):
    """Of the subsets in masks (S, f), each from the start: log Λ, pooled log-likelihood (S,), ranks (S, E + 1) and
    thetas (S, E + 1, K), 0 beyond the parameters of the subset. always (k,): columns of every subset; feature j has the
    columns starts[j]:starts[j + 1]; beginning (E + 1, k + r): parameters of the empty subset, those without a column
    last."""
    n_groups = rows.starts.size
    members = np.empty(rows.columns.shape[0], np.int64)
    extra = beginning.shape[1] - always.size
    most = thetas.shape[2]
    inverses = np.empty((n_groups, most, most))
    for s in range(masks.shape[0]):
        k = columns_of(masks[s], starts, always, members)
        begin(beginning, always.size, k, thetas[s])
        log_ratio[s], pooled[s] = score_fits(
            rows, members, k, thetas[s], k + extra, inverses, NO, tolerance, ranks[s], work
        )


@kernel
def score_dense(rows, high, n_low, starts, always, beginning, tolerance, work, log_ratio, pooled, ranks):
    """Of the features `high` joined by each subset of the first n_low: log Λ, pooled log-likelihood (2**n_low,) and
    ranks (2**n_low, E + 1). Other arguments as in `score_lists`.

    The walk begins with all of the first n_low, and a child lacks one more of them, which comes before all that its
    parent lacks. Fits that come to no end from those of the parent begin as in `score_lists`.
    """
    n_groups, extra = rows.starts.size, beginning.shape[1] - always.size
    chosen = np.zeros(starts.size - 1, np.bool_)
    chosen[:n_low] = True
    chosen[high] = True
    members = np.empty((n_low + 1, rows.columns.shape[0]), np.int64)
    most = columns_of(chosen, starts, always, members[0]) + extra
    sizes = np.empty(n_low + 1, np.int64)
    sizes[0] = most - extra
    thetas = np.empty((n_low + 1, n_groups, most))
    inverses = np.empty((n_low + 1, n_groups, most, most))
    begin(beginning, always.size, sizes[0], thetas[0])
    codes, following = np.empty(n_low + 1, np.int64), np.zeros(n_low + 1, np.int64)
    codes[0] = (1 << n_low) - 1
    log_ratio[codes[0]], pooled[codes[0]] = score_fits(
        rows, members[0], sizes[0], thetas[0], most, inverses[0], NO, tolerance, ranks[codes[0]], work
    )
    # The feature that the subset at each depth lacks last: it may lack any before that.
    lacking = np.empty(n_low + 1, np.int64)
    lacking[0] = n_low
    depth = 0
    while depth >= 0:
        j = following[depth]
        if j == lacking[depth]:
            depth -= 1
            continue
        following[depth] += 1
        child = depth + 1
        codes[child], lacking[child], following[child] = codes[depth] ^ (1 << j), j, 0
        k = sizes[depth]
        place = ZERO
        while members[depth, place] != starts[j] or place < always.size:
            place += 1
        width = starts[j + 1] - starts[j]
        copy_into(members[child, :place], members[depth])
        copy_into(members[child, place : k - width], members[depth, place + width :])
        sizes[child] = k - width
        n = k + extra
        independent = True
        for g in range(n_groups):
            for a in range(n):
                thetas[child, g, a] = thetas[depth, g, a]
                independent &= inverses[depth, g, a, a] > 0.0
                for b in range(n):
                    inverses[child, g, a, b] = inverses[depth, g, a, b]
            for c in range(width):
                without_parameter(thetas[child, g], inverses[child, g], n - c, place)
        # Where many subsets follow, and where a column depended on another, second derivatives are computed anew.
        inherited = independent and j < _FEW_FOLLOW
        code, k = codes[child], sizes[child]
        log_ratio[code], pooled[code] = score_fits(
            rows, members[child], k, thetas[child], k + extra, inverses[child], inherited, tolerance, ranks[code], work
        )
        if np.isnan(log_ratio[code]):
            begin(beginning, always.size, k, thetas[child])
            log_ratio[code], pooled[code] = score_fits(
                rows, members[child], k, thetas[child], k + extra, inverses[child], NO, tolerance, ranks[code], work
            )
        depth = child
