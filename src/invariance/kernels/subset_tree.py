"""Residual variances of the outcome for all subsets of a few features, by a tree of Schur complements.

A feature is one column, or several that enter together. With t features decided, the entry (i, k) of the 2**t reduced
matrices fills positions 0..2**t-1 of one array: "exclude feature t" leaves them there, "include" writes the updated
ones behind them. So bit t of a position says whether feature t is in the subset, and every inner loop runs over
contiguous memory. The first levels have too few nodes for that: there the matrices are reduced one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compiled import ZERO, copy_into, kernel, longest
from .elementary import add_weighted_log

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
def sweep_first(matrix, n, stop, tolerance):
    """Sweep out the first n columns, up to one whose pivot is below the tolerance. Whether there is none."""
    for i in range(n):
        if not matrix[i, i] >= tolerance:
            return False
        sweep_in_place(matrix, i, stop, 1.0 / matrix[i, i])
    return True


@kernel
def solve_swept(matrix, slopes):
    """slopes (k,) of the regression on the first k columns of a matrix whose `sweep_first` is done"""
    k = slopes.size
    for i in range(k - 1, -1, -1):
        slope = matrix[i, k]
        for j in range(i + 1, k):
            slope -= matrix[i, j] * slopes[j]
        slopes[i] = slope / matrix[i, i]


@kernel
def reciprocal_pivot(pivot, absent, tolerance):
    """1/pivot; 0 for a column that does not vary in this group; NaN, which poisons the subset, when undecidable."""
    if absent:
        return 0.0
    return 1.0 / pivot if pivot >= tolerance else np.nan


@kernel
def settled(log_ratio, weights):
    """A local fit cannot be worse than the pooled one: rounding above 0 is 0, more than rounding is undecidable.
    Weights that sum to less than 0 reward prediction; then there is no such bound."""
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
def tree_starts(starts):
    """First position of each column's row of entries, and their end; starts (f+1,): first column of each feature, and
    their end. The entry (i, k) of a column i of feature t is needed by 2**t nodes; the outcome, the last, by all."""
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

    levels (d,): the feature of each column, f for the outcome; rows (d+1,), nodes: see `tree_starts`;
    matrices (2**k, d, d); reciprocal, factor (2**f,)
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
def _outcome_pivots(n_decided, absent, tolerance, work):
    """Fill the outcome's row of work.nodes with its scaled residual variance for each of the 2**f subsets, from
    work.matrices of the 2**n_decided subsets of the first features."""
    matrices, starts, levels, rows, nodes = work.matrices, work.starts, work.levels, work.rows, work.nodes
    reciprocal, factor, d = work.reciprocal, work.factor, work.levels.size
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
    _outcome_pivots(n_decided, absent, tolerance, work)
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
    """Second moments of the first columns and the outcome after regression on the columns `high`: reduced (c+1, c+1),
    upper triangle, NaN where undecidable; absent_low (c+1,)"""
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
    c = starts[n_low]
    high = included_columns(starts, prefix, n_low)
    work = tree_work(starts[: n_low + 1])
    absent_low = np.empty(c + 1, np.bool_)
    out[:] = offset
    for g in range(grams.shape[0]):
        reduce_to_low(grams[g], absent[g], tolerance, high, work.matrices[0], absent_low)
        add_weighted_log(out, weights[g], outcome_shares(absent_low, tolerance, work))
    settle(out, weights)


LOW_FEATURES = 14
# Entries of the tree of a block, 16 MB: more would leave the cache for less and less gain.
_LARGEST_TREE = 1 << 21


def feature_starts(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f+1,) first column of each feature of widths (f,), and their end."""
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def low_features(widths: NDArray[np.int64]) -> int:
    """How many of the first features make a good block for `score_grouped_block`; widths (f,): columns of each."""
    n_low = min(len(widths), LOW_FEATURES)
    # Interpreted: these are a few additions.
    while tree_starts.py_func(feature_starts(widths[:n_low]))[-1] > _LARGEST_TREE:
        n_low -= 1
    return n_low


def walk_order(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f,) features in the order that is cheapest to walk: the narrowest make the block, the widest of them first; the
    others follow as high features. As they are, where all have the same width."""
    ascending = np.argsort(widths, kind="stable")
    n_low = min(len(widths), LOW_FEATURES)
    while True:
        low = ascending[:n_low]
        low = low[np.argsort(-widths[low], kind="stable")]
        if low_features(widths[low]) == n_low:
            return np.concatenate([low, ascending[n_low:]])
        n_low -= 1


REJECTED, POSSIBLE, UNDECIDABLE = 0, 1, 2


@kernel
def screen_grouped_block(
    grams, absent, squares, counts, limits, spread_limit, tolerance, starts, prefix, n_low, high, low, share, state
):
    """Of the 2**n_low subsets of features that extend one choice of the last features (see `score_grouped_block`):
    share (2**n_low,): log of what the pooled fit leaves of the outcome; state (2**n_low,): REJECTED where the F
    statistic of common coefficients or Bartlett's is above its limit, UNDECIDABLE where second moments do not tell.

    squares, counts (G,): sums of squares of the outcome, and rows. high (G,), low (G, 2**n_low): ranks of the features
    in the choice, and of each subset of the first features. limits (r, m): of the F statistic, by the rank in the pool
    and by how much less those in the E environments are in sum than E times that; spread_limit: of Bartlett's.
    """
    n, last = share.size, grams.shape[0] - 1
    columns = included_columns(starts, prefix, n_low)
    work = tree_work(starts[: n_low + 1])
    absent_low = np.empty(starts[n_low] + 1, np.bool_)
    local, left, spread, inverse = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    freedom, variance, logs = np.empty(n), np.empty(n), np.empty(n)
    for g in range(last):
        reduce_to_low(grams[g], absent[g], tolerance, columns, work.matrices[0], absent_low)
        shares = outcome_shares(absent_low, tolerance, work)
        for s in range(n):
            freedom[s] = max(counts[g] - 1.0 - high[g] - low[g, s], 1.0)
            variance[s] = squares[g] * shares[s] / freedom[s]
        logs[:] = 0.0
        add_weighted_log(logs, 1.0, variance)
        for s in range(n):
            local[s] += squares[g] * shares[s]
            left[s] += freedom[s]
            spread[s] += freedom[s] * logs[s]
            inverse[s] += 1.0 / freedom[s]
    reduce_to_low(grams[last], absent[last], tolerance, columns, work.matrices[0], absent_low)
    shares = outcome_shares(absent_low, tolerance, work)
    share[:] = 0.0
    add_weighted_log(share, 1.0, shares)
    for s in range(n):
        if not share[s] + local[s] < np.inf:
            state[s] = UNDECIDABLE
            continue
        pooled_rank = high[last] + low[last, s]
        missing = 0
        for g in range(last):
            missing += pooled_rank - high[g] - low[g, s]
        between = counts[last] - 1.0 - pooled_rank - left[s]
        statistic = (squares[last] * shares[s] - local[s]) / between / (local[s] / left[s]) if between > 0.0 else 0.0
        correction = 1.0 + (inverse[s] - 1.0 / left[s]) / (3.0 * max(last - 1, 1))
        bartlett = (left[s] * np.log(local[s] / left[s]) - spread[s]) / correction
        rejected = statistic > limits[pooled_rank, missing] or bartlett > spread_limit
        state[s] = REJECTED if rejected else POSSIBLE


@kernel
def _outcome_pivot(matrix, start, stop, absent, tolerance, work):
    """What the columns start:stop leave of the outcome, the last column; work (m+1, m+1) for m columns or more."""
    last, m = matrix.shape[0] - 1, stop - start
    for i in range(m):
        for k in range(i, m):
            work[i, k] = matrix[start + i, start + k]
        work[i, m] = matrix[start + i, last]
    work[m, m] = matrix[last, last]
    for c in range(m):
        sweep_in_place(work, c, m, reciprocal_pivot(work[c, c], absent[start + c], tolerance))
    return work[m, m]


@kernel
def _score_children(matrices, absent, weights, offset, tolerance, starts, first, work, pivots, scores):
    """scores[j] = log Λ of the node's subset with feature j added, j >= first; work: as in `_outcome_pivot`."""
    f, last = starts.size - 1, matrices.shape[1] - 1
    scores[first:f] = offset
    for g in range(matrices.shape[0]):
        for j in range(first, f):
            c = starts[j]
            if starts[j + 1] == c + 1:
                reciprocal = reciprocal_pivot(matrices[g, c, c], absent[g, c], tolerance)
                pivot = matrices[g, last, last] - matrices[g, c, last] ** 2 * reciprocal
            else:
                pivot = _outcome_pivot(matrices[g], c, starts[j + 1], absent[g], tolerance, work)
            pivots[j] = pivot if pivot >= tolerance else np.nan
        add_weighted_log(scores[first:f], weights[g], pivots[first:f])


@kernel
def _include(source, target, absent, tolerance, starts, feature, grows):
    """target = source with `feature` swept out of later columns. Of a subset that grows no further only what is within
    one feature, and the outcome's column."""
    f, last = starts.size - 1, source.shape[1] - 1
    for g in range(source.shape[0]):
        before, after = source[g], target[g]
        for c in range(starts[feature], starts[feature + 1]):
            reciprocal = reciprocal_pivot(before[c, c], absent[g, c], tolerance)
            for j in range(feature, f):
                stop = last if grows or j == feature else starts[j + 1]
                for i in range(max(starts[j], c + 1), starts[j + 1]):
                    factor = before[c, i] * reciprocal
                    after[i, i] = before[i, i] - factor * before[c, i]
                    after[i, last] = before[i, last] - factor * before[c, last]
                    for k in range(i + 1, stop):
                        after[i, k] = before[i, k] - factor * before[c, k]
            after[last, last] = before[last, last] - before[c, last] ** 2 * reciprocal
            before = after


@kernel
def score_grouped_extensions(grams, absent, weights, offset, tolerance, starts, prefix, max_size, members, out):
    """log Λ of `prefix` and of every subset that extends it by features after its last one, up to max_size.

    grams (G, d, d): scaled second moments of [x, y]. prefix (m,): ascending features.
    members (n, >= max_size): filled with the features of each subset, -1 beyond; out (n,): NaN where undecidable.
    """
    n_groups, d, _ = grams.shape
    f, last = starts.size - 1, d - 1
    depth_limit = max_size - prefix.size
    levels = max(depth_limit, 1)
    stack = np.empty((levels, n_groups, d, d))
    scores = np.empty((levels, f))
    pivots = np.empty(f)
    widest = longest(starts)
    work = np.empty((widest + 1, widest + 1))
    child = np.empty(levels + 1, np.int64)

    if prefix.size:
        first = prefix[-1] + 1
        root = grams
        for m in range(prefix.size):
            grows = m + 1 < prefix.size or depth_limit > 1
            _include(root, stack[0], absent, tolerance, starts, prefix[m], grows)
            root = stack[0]
    else:
        first = ZERO
        stack[0] = grams
    out[0] = offset
    for g in range(n_groups):
        pivot = stack[0, g, last, last]
        out[0] += weights[g] * np.log(pivot) if pivot >= tolerance else np.nan
    members[0, :] = -1
    copy_into(members[0, : prefix.size], prefix)
    count = 1
    level = 0 if depth_limit > 0 else -1
    child[0] = first
    _score_children(stack[0], absent, weights, offset, tolerance, starts, first, work, pivots, scores[0])
    while level >= 0:
        j = child[level]
        if j == f:
            level -= 1
            continue
        child[level] = j + 1
        out[count] = scores[level, j]
        members[count, :] = -1
        copy_into(members[count, : prefix.size], prefix)
        for m in range(level + 1):
            members[count, prefix.size + m] = child[m] - 1
        count += 1
        if level + 1 < depth_limit and j + 1 < f:
            _include(stack[level], stack[level + 1], absent, tolerance, starts, j, level + 2 < depth_limit)
            level += 1
            child[level] = j + 1
            _score_children(
                stack[level], absent, weights, offset, tolerance, starts, j + 1, work, pivots, scores[level]
            )
    settle(out, weights)
