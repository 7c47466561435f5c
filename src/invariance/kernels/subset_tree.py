"""Residual variances of the outcome for all subsets of a few features, by a tree of Schur complements.

A feature is one column, or several that enter and leave together and are swept out one after the other.
The nodes of one level of the tree lie side by side in memory. With t features decided, the entry (i, k) of the
2**t reduced matrices fills positions 0..2**t-1 of one array; "exclude feature t" leaves them where they are and
"include" writes the updated ones behind them, at 2**t..2**(t+1)-1. So bit t of a position says whether feature t
is in the subset, nothing is copied, and every inner loop runs over contiguous memory.
The first levels have too few nodes for that: there the matrices are reduced one by one, and then laid side by side.
"""

from typing import NamedTuple

import numpy as np

from .compiled import kernel
from .copying import copy_into
from .elementary import add_weighted_log
from .typed import ZERO

# Matrices are reduced one by one while each has more than so many times as many columns as there are matrices.
_COLUMNS_PER_MATRIX = 4


@kernel
def sweep_in_place(matrix, pivot_index, stop, reciprocal):
    """Remove column `pivot_index` by regression from the columns after it up to `stop` (inclusive)."""
    for i in range(pivot_index + 1, stop + 1):
        factor = matrix[pivot_index, i] * reciprocal
        for k in range(i, stop + 1):
            matrix[i, k] -= factor * matrix[pivot_index, k]


@kernel
def reciprocal_pivot(pivot, absent, tolerance):
    """1/pivot; 0 for a column that does not vary in this group; NaN, which poisons the subset, when undecidable."""
    if absent:
        return 0.0
    return 1.0 / pivot if pivot >= tolerance else np.nan


@kernel
def settled(log_ratio, weights):
    """A local fit cannot be worse than the pooled one: rounding above 0 is 0, more than rounding is undecidable.

    Weights that sum to less than 0 reward prediction; then there is no such bound.
    """
    if log_ratio > 0.0 and weights.sum() >= 0.0:
        return 0.0 if log_ratio <= 1e-6 + 1e-9 * abs(weights[-1]) else np.nan
    return log_ratio


@kernel
def settle(log_ratios, weights):
    """`settled` for each entry, in place."""
    for s in range(log_ratios.size):
        log_ratios[s] = settled(log_ratios[s], weights)


@kernel
def sweep_feature(matrix, start, stop, absent, tolerance):
    """Remove the columns start:stop by regression from each other and from all later columns."""
    for c in range(start, stop):
        reciprocal = reciprocal_pivot(matrix[c, c], absent[c], tolerance)
        sweep_in_place(matrix, c, matrix.shape[0] - 1, reciprocal)


@kernel
def widest_feature(starts):
    """The most columns of a feature; starts (f+1,): first column of each feature, and their end."""
    widest = 0
    for j in range(starts.size - 1):
        if starts[j + 1] <= starts[j]:
            raise ValueError("starts must ascend: a feature has at least one column.")
        widest = max(widest, starts[j + 1] - starts[j])
    return widest


@kernel
def tree_starts(starts):
    """First position of each column's row of entries, and their end; starts (f+1,): see `widest_feature`.

    The entry (i, k) of a column i of feature t is needed by 2**t nodes; the outcome, which comes last, by all 2**f.
    """
    f = starts.size - 1
    d = starts[f] + 1
    rows = np.empty(d + 1, np.int64)
    rows[0] = 0
    for t in range(f):
        for i in range(starts[t], starts[t + 1]):
            rows[i + 1] = rows[i] + ((d - i) << t)
    rows[d] = rows[d - 1] + (1 << f)
    return rows


class TreeWork(NamedTuple):
    """Work space of `outcome_shares` for f features of starts[f] = d - 1 columns and the outcome.

    levels (d,): the feature of each column, f for the outcome; rows (d+1,), nodes: see `tree_starts`.
    matrices (2**k, d, d): see `_reduce_one_by_one`; reciprocal, factor (2**f,): of the nodes of one level.
    """

    starts: np.ndarray
    levels: np.ndarray
    rows: np.ndarray
    nodes: np.ndarray
    matrices: np.ndarray
    reciprocal: np.ndarray
    factor: np.ndarray


@kernel
def tree_work(starts):
    f = starts.size - 1
    rows = tree_starts(starts)
    d = rows.size - 1
    levels = np.empty(d, np.int64)
    for t in range(f):
        levels[starts[t] : starts[t + 1]] = t
    levels[d - 1] = f
    n_matrices = 1
    while n_matrices < 1 << f and _COLUMNS_PER_MATRIX * n_matrices < d:
        n_matrices *= 2
    matrices = np.empty((n_matrices, d, d))
    return TreeWork(starts, levels, rows, np.empty(rows[d]), matrices, np.empty(1 << f), np.empty(1 << f))


@kernel
def _reduce_one_by_one(matrices, absent, tolerance, starts):
    """Decide so many of the first features that the first of the n matrices becomes n. Returns their number."""
    n_matrices, d, _ = matrices.shape
    t = 0
    while 1 << t < n_matrices:
        live = 1 << t
        for s in range(live):
            for i in range(starts[t], d):
                for k in range(i, d):
                    matrices[live + s, i, k] = matrices[s, i, k]
            sweep_feature(matrices[live + s], starts[t], starts[t + 1], absent, tolerance)
        t += 1
    return t


@kernel(fastmath={"contract"})
def _outcome_pivots(matrices, n_decided, absent, tolerance, starts, levels, rows, nodes, reciprocal, factor):
    """Fill the outcome's row of `nodes` with its scaled residual variance for each of the 2**f subsets.

    matrices: those of the 2**n_decided subsets of the first features.
    """
    d = levels.size
    for i in range(starts[n_decided], d):
        for k in range(i, d):
            entry = nodes[rows[i] + ((k - i) << levels[i]) :]
            for s in range(matrices.shape[0]):
                entry[s] = matrices[s, i, k]
    for t in range(n_decided, starts.size - 1):
        live = 1 << t
        for c in range(starts[t], starts[t + 1]):
            pivots = nodes[rows[c] : rows[c] + live]
            for s in range(live):
                undecidable = pivots[s] < tolerance
                reciprocal[s] = np.nan if undecidable else 1.0 / pivots[s]
            if absent[c]:
                reciprocal[:live] = 0.0
            for i in range(c + 1, d):
                row_i = nodes[rows[c] + ((i - c) << t) :]
                for s in range(live):
                    factor[s] = row_i[s] * reciprocal[s]
                # The columns of feature t itself are of no use to the nodes that exclude it.
                own = levels[i] == t
                for k in range(i, d):
                    row_k = nodes[rows[c] + ((k - c) << t) :]
                    entry = nodes[rows[i] + ((k - i) << levels[i]) :]
                    if c == starts[t] and not own:
                        for s in range(live):
                            entry[live + s] = entry[s] - factor[s] * row_k[s]
                    else:
                        included = entry if own else entry[live:]
                        for s in range(live):
                            included[s] -= factor[s] * row_k[s]


@kernel
def outcome_shares(absent, tolerance, work):
    """(2**f,) what the subsets of f features leave of the outcome in one group; NaN where undecidable.

    absent (d,): the column does not vary in the group. work: `tree_work` of the features, with the second moments of
    their columns and the outcome (upper triangle) in its first matrix. The result lies in `work` until the next call.
    """
    n_decided = _reduce_one_by_one(work.matrices, absent, tolerance, work.starts)
    _outcome_pivots(
        work.matrices,
        n_decided,
        absent,
        tolerance,
        work.starts,
        work.levels,
        work.rows,
        work.nodes,
        work.reciprocal,
        work.factor,
    )
    shares = work.nodes[work.rows[work.rows.size - 2] :]
    for s in range(shares.size):
        shares[s] = shares[s] if shares[s] >= tolerance else np.nan
    return shares


@kernel
def included_columns(starts, prefix, n_low):
    """Columns of the features beyond the first n_low whose bit is set in `prefix`."""
    columns = np.empty(starts[-1] - starts[n_low], np.int64)
    n = 0
    for j in range(n_low, starts.size - 1):
        if (prefix >> (j - n_low)) & 1:
            for c in range(starts[j], starts[j + 1]):
                columns[n] = c
                n += 1
    return columns[:n]


@kernel
def reduce_to_low(gram, absent, tolerance, high, reduced, absent_low):
    """Second moments of the first columns and the outcome after regression on the columns `high`.

    reduced (c+1, c+1): upper triangle; absent_low (c+1,). NaN where undecidable.
    """
    c, m = reduced.shape[0] - 1, high.size
    order = np.empty(m + c + 1, np.int64)
    copy_into(order[:m], high)
    for i in range(c):
        order[m + i] = i
    order[m + c] = gram.shape[0] - 1
    matrix = np.empty((order.size, order.size))
    for i in range(order.size):
        for k in range(i, order.size):
            matrix[i, k] = gram[order[i], order[k]]
    sweep_feature(matrix, ZERO, m, absent[order], tolerance)
    for i in range(c + 1):
        copy_into(reduced[i], matrix[m + i, m:])
        absent_low[i] = absent[order[m + i]]


@kernel
def score_grouped_block(grams, absent, weights, offset, tolerance, starts, prefix, n_low, out):
    """log Λ of the 2**n_low subsets of features that extend one choice of the last features.

    grams (G, d, d): scaled second moments of [x_low, x_high, y] per environment and pooled, unit diagonal.
    absent (G, d): the column does not vary in that group, or depends there on the others of its feature.
    weights (G,), offset: log Λ = offset + Σ_g weight·log pivot.
    starts (f+1,): feature j is the columns starts[j]:starts[j+1], starts[f] = d - 1.
    prefix: bit j says whether high feature j (feature n_low + j) is included. out (2**n_low,): NaN where undecidable.
    """
    widest_feature(starts)
    c = starts[n_low]
    high = included_columns(starts, prefix, n_low)
    work = tree_work(starts[: n_low + 1])
    absent_low = np.empty(c + 1, np.bool_)
    out[:] = offset
    for g in range(grams.shape[0]):
        reduce_to_low(grams[g], absent[g], tolerance, high, work.matrices[0], absent_low)
        add_weighted_log(out, weights[g], outcome_shares(absent_low, tolerance, work))
    settle(out, weights)
