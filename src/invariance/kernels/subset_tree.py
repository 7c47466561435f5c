"""Residual variances of the outcome for all subsets of a few features, by a tree of Schur complements.

The nodes of one level of the tree lie side by side in memory. With t features decided, the entry (i, k) of the
2**t reduced matrices fills positions 0..2**t-1 of one array; "exclude feature t" leaves them where they are and
"include" writes the updated ones behind them, at 2**t..2**(t+1)-1. So bit t of a position says whether feature t
is in the subset, nothing is copied, and every inner loop runs over contiguous memory.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from .elementary import add_weighted_log


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_in_place(matrix, pivot_index, stop, reciprocal):
    """Remove column `pivot_index` by regression from the columns after it up to `stop` (inclusive)."""
    for i in range(pivot_index + 1, stop + 1):
        factor = matrix[pivot_index, i] * reciprocal
        for k in range(i, stop + 1):
            matrix[i, k] -= factor * matrix[pivot_index, k]


@njit(cache=True, nogil=True, error_model="numpy")
def reciprocal_pivot(pivot, absent, tolerance):
    """1/pivot; 0 for a column that does not vary in this group; NaN, which poisons the subset, when undecidable."""
    if absent:
        return 0.0
    return 1.0 / pivot if pivot >= tolerance else np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def settled(log_ratio, weights):
    """A local fit cannot be worse than the pooled one: rounding above 0 is 0, more than rounding is undecidable."""
    if log_ratio > 0.0:
        return 0.0 if log_ratio <= 1e-6 + 1e-9 * abs(weights[-1]) else np.nan
    return log_ratio


@njit(cache=True, nogil=True, error_model="numpy")
def settle(log_ratios, weights):
    """`settled` for each entry, in place."""
    for s in range(log_ratios.size):
        log_ratios[s] = settled(log_ratios[s], weights)


@njit(cache=True, nogil=True, error_model="numpy")
def tree_starts(n_low):
    """First position of each feature's row of entries: entry (i, k) is needed by 2**i nodes."""
    starts = np.empty(n_low + 2, np.int64)
    starts[0] = 0
    for i in range(n_low + 1):
        starts[i + 1] = starts[i] + (n_low + 1 - i) * (1 << i)
    return starts


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _outcome_pivots(matrix, n_high, n_low, absent, tolerance, starts, nodes, reciprocal, factor):
    """Fill the outcome's row of `nodes` with its scaled residual variance for each of the 2**n_low subsets."""
    for i in range(n_low + 1):
        for k in range(i, n_low + 1):
            nodes[starts[i] + ((k - i) << i)] = matrix[n_high + i, n_high + k]
    for t in range(n_low):
        live = 1 << t
        pivots = nodes[starts[t] : starts[t] + live]
        for s in range(live):
            undecidable = pivots[s] < tolerance
            reciprocal[s] = np.nan if undecidable else 1.0 / pivots[s]
        if absent[n_high + t]:
            reciprocal[:live] = 0.0
        for i in range(t + 1, n_low + 1):
            row_i = nodes[starts[t] + ((i - t) << t) :]
            for s in range(live):
                factor[s] = row_i[s] * reciprocal[s]
            for k in range(i, n_low + 1):
                row_k = nodes[starts[t] + ((k - t) << t) :]
                entry = nodes[starts[i] + ((k - i) << i) :]
                for s in range(live):
                    entry[live + s] = entry[s] - factor[s] * row_k[s]


class TreeWork(NamedTuple):
    """Work space of `outcome_shares` for matrices (d, d); starts (n_low + 2,): see `tree_starts`."""

    starts: np.ndarray
    nodes: np.ndarray
    reciprocal: np.ndarray
    factor: np.ndarray
    matrix: np.ndarray
    absent: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def tree_work(d, n_low):
    starts = tree_starts(n_low)
    size = 1 << n_low
    nodes, reciprocal, factor = np.empty(starts[n_low + 1]), np.empty(size), np.empty(size)
    return TreeWork(starts, nodes, reciprocal, factor, np.empty((d, d)), np.empty(d, np.bool_))


@njit(cache=True, nogil=True, error_model="numpy")
def outcome_shares(gram, absent, tolerance, prefix, n_low, work):
    """(2**n_low,) what the subsets of `score_block` leave of the outcome in one group; NaN where undecidable.

    gram (d, d): upper triangle. The result lies in `work` until the next call.
    """
    d = gram.shape[0]
    n_high = d - 1 - n_low
    order = np.empty(d, np.int64)
    for j in range(n_high):
        order[j] = n_low + j
    for j in range(n_low):
        order[n_high + j] = j
    order[d - 1] = d - 1
    for i in range(d):
        work.absent[i] = absent[order[i]]
        for k in range(i, d):
            work.matrix[i, k] = gram[order[i], order[k]]
    for j in range(n_high):
        if (prefix >> j) & 1:
            sweep_in_place(work.matrix, j, d - 1, reciprocal_pivot(work.matrix[j, j], work.absent[j], tolerance))
    _outcome_pivots(
        work.matrix, n_high, n_low, work.absent, tolerance, work.starts, work.nodes, work.reciprocal, work.factor
    )
    shares = work.nodes[work.starts[n_low] : work.starts[n_low] + (1 << n_low)]
    for s in range(shares.size):
        shares[s] = shares[s] if shares[s] >= tolerance else np.nan
    return shares


@njit(cache=True, nogil=True, error_model="numpy")
def score_block(grams, absent, weights, offset, tolerance, prefix, n_low, out):
    """log Λ of the 2**n_low subsets that extend one choice of the last features.

    grams (G, d, d): scaled second moments of [x_low, x_high, y] per environment and pooled, unit diagonal.
    absent (G, d): the column does not vary in that group. weights (G,), offset: log Λ = offset + Σ_g weight·log pivot.
    prefix: bit j says whether high feature j (column n_low + j) is included. out (2**n_low,): NaN where undecidable.
    """
    work = tree_work(grams.shape[1], n_low)
    out[:] = offset
    for g in range(grams.shape[0]):
        shares = outcome_shares(grams[g], absent[g], tolerance, prefix, n_low, work)
        add_weighted_log(out, weights[g], shares)
    settle(out, weights)
