"""log Λ of all subsets of a few features, joined by given columns, and of those up to a size: a
tree of Schur complements.

A feature is one column, or several that enter together. With t features decided, the entry (i, k)
of the 2**t reduced matrices fills positions 0..2**t-1 of one array: "exclude feature t" leaves them
there, "include" writes the updated ones behind them. So bit t of a position says whether feature t
is in the subset, and every inner loop runs over contiguous memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cholesky import fill_scaled, log_ratio_from_rows, settled, sweep_first, sweep_in_place
from .compiled import ZERO, copy_into, kernel, longest
from .elementary import add_weighted_log, logarithm
from .row_residuals import fill_shares_from_rows, rows_at_hand, share_from_rows


@kernel
def tree_starts(starts):
    """First position of each column's row of entries, and their end; starts (f+1,): first column of
    each feature, and their end. The entry (i, k) of a column i of feature t is needed by 2**t
    nodes; the outcome, the last, by all."""
    f = starts.size - 1
    d = starts[f] + 1
    rows = np.zeros(d + 1, np.int64)
    for t in range(f):
        for i in range(starts[t], starts[t + 1]):
            rows[i + 1] = rows[i] + ((d - i) << t)
    rows[d] = rows[d - 1] + (1 << f)
    return rows


class TreeWork(NamedTuple):
    """Work space of `outcome_shares` for f features of starts[f] = d - 1 columns and the outcome.
    levels (d,): the feature of each column, f for the outcome; rows (d+1,), nodes: see
    `tree_starts`; matrix (d, d); reciprocal, factor (2**f,)"""

    starts: np.ndarray
    levels: np.ndarray
    rows: np.ndarray
    nodes: np.ndarray
    matrix: np.ndarray
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
    return TreeWork(
        starts,
        levels,
        rows,
        np.empty(rows[d]),
        np.empty((d, d)),
        np.empty(1 << f),
        np.empty(1 << f),
    )


# How many of the last columns are included or not without a return to memory, and of how many nodes
# together.
_LAST = 3
_TOGETHER = 64


@kernel
def _reciprocal(pivot, tolerance):
    return 1.0 / pivot if pivot >= tolerance else np.nan


@kernel(fastmath={"contract"})
def _fill_last(entries, tolerance, shares):
    """shares (8, 64): what is left of the outcome y by the subsets of columns a, b, c (the bits of
    the first index) at 64 nodes. entries (10, 64): aa, ab, ac, ay, bb, bc, by, cc, cy, yy of each.
    Both flat, so that the compiler knows that they do not overlap."""
    n = _TOGETHER
    for s in range(n):
        ab = entries[n + s]
        ac = entries[2 * n + s]
        ay = entries[3 * n + s]
        bb = entries[4 * n + s]
        bc = entries[5 * n + s]
        by = entries[6 * n + s]
        cc = entries[7 * n + s]
        cy = entries[8 * n + s]
        yy = entries[9 * n + s]
        pivot = _reciprocal(entries[s], tolerance)
        factor = ab * pivot
        bb_a = bb - factor * ab
        bc_a = bc - factor * ac
        by_a = by - factor * ay
        factor = ac * pivot
        cc_a = cc - factor * ac
        cy_a = cy - factor * ay
        yy_a = yy - (ay * pivot) * ay
        pivot = _reciprocal(bb, tolerance)
        factor = bc * pivot
        cc_b = cc - factor * bc
        cy_b = cy - factor * by
        yy_b = yy - (by * pivot) * by
        pivot = _reciprocal(bb_a, tolerance)
        factor = bc_a * pivot
        cc_ab = cc_a - factor * bc_a
        cy_ab = cy_a - factor * by_a
        yy_ab = yy_a - (by_a * pivot) * by_a
        shares[s] = yy
        shares[n + s] = yy_a
        shares[2 * n + s] = yy_b
        shares[3 * n + s] = yy_ab
        shares[4 * n + s] = yy - (cy * _reciprocal(cc, tolerance)) * cy
        shares[5 * n + s] = yy_a - (cy_a * _reciprocal(cc_a, tolerance)) * cy_a
        shares[6 * n + s] = yy_b - (cy_b * _reciprocal(cc_b, tolerance)) * cy_b
        shares[7 * n + s] = yy_ab - (cy_ab * _reciprocal(cc_ab, tolerance)) * cy_ab


@kernel
def _last_shares(tolerance, work):
    """Include the last three columns, each a feature, in all nodes of the features before them."""
    rows = work.rows
    nodes = work.nodes
    d = work.levels.size
    live = 1 << (work.starts.size - 1 - _LAST)
    shares = nodes[rows[d - 1] :]
    entries = np.empty(10 * _TOGETHER)
    found = np.empty(8 * _TOGETHER)
    for first in range(0, live, _TOGETHER):
        at = 0
        for i in range(d - 1 - _LAST, d):
            for k in range(i, d):
                start = rows[i] + ((k - i) << work.levels[i]) + first
                copy_into(entries[at : at + _TOGETHER], nodes[start : start + _TOGETHER])
                at += _TOGETHER
        _fill_last(entries, tolerance, found)
        for subset in range(1 << _LAST):
            start = subset * live + first
            copy_into(shares[start : start + _TOGETHER], found[subset * _TOGETHER :])


@kernel(fastmath={"contract"})
def outcome_shares(absent, tolerance, work):
    """(2**f,) what the subsets of f features leave of the outcome in one group; NaN where
    undecidable. absent (d,): the column does not vary in the group. work: `tree_work` of the
    features, with the second moments of their columns and the outcome (upper triangle) in its
    matrix. The result lies in `work` until the next call."""
    starts = work.starts
    levels = work.levels
    rows = work.rows
    nodes = work.nodes
    reciprocal = work.reciprocal
    factor = work.factor
    d = work.levels.size
    f = work.starts.size - 1
    for i in range(d):
        for k in range(i, d):
            # A column that does not vary has nothing to take from others, whatever its pivot is.
            unit = absent[i] and i == k and i < d - 1
            nodes[rows[i] + ((k - i) << levels[i])] = 1.0 if unit else work.matrix[i, k]
    single = f >= _LAST and starts[f] - starts[f - _LAST] == _LAST and 1 << (f - _LAST) >= _TOGETHER
    for t in range(f - _LAST if single else f):
        live = 1 << t
        for c in range(starts[t], starts[t + 1]):
            pivots = nodes[rows[c] : rows[c] + live]
            for s in range(live):
                reciprocal[s] = _reciprocal(pivots[s], tolerance)
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
    if single:
        _last_shares(tolerance, work)
    shares = nodes[rows[d - 1] :]
    for s in range(shares.size):
        shares[s] = shares[s] if shares[s] >= tolerance else np.nan
    return shares


@kernel
def reduce_to_block(scoring, g, fixed, block, reduced, absent):
    """Second moments of [block, outcome] in group g after regression on the columns `fixed`:
    reduced (b+1, b+1), upper triangle, NaN where those are undecidable; absent (b+1,): columns that
    do not vary there"""
    b = block.size
    scale = scoring.inverse_scale[g]
    k = ZERO
    columns = np.empty(fixed.size + b, np.int64)
    for i in range(fixed.size):
        if scale[fixed[i]] > 0.0:
            columns[k] = fixed[i]
            k += 1
    columns = columns[: k + b]
    copy_into(columns[k:], block)
    matrix = np.empty((k + b + 1, k + b + 1))
    fill_scaled(scoring, g, columns, matrix)
    decidable = sweep_first(matrix, k, k + b, scoring.tolerance)
    for i in range(b + 1):
        absent[i] = scale[block[i] if i < b else scoring.outcome] == 0.0
        for j in range(i, b + 1):
            reduced[i, j] = matrix[k + i, k + j] if decidable else np.nan


@kernel
def joined_columns(fixed, starts, block, code):
    """The columns `fixed` and those of the features of `block` whose bit is set."""
    members = np.empty(fixed.size + block.size, np.int64)
    n = fixed.size
    copy_into(members[:n], fixed)
    for i in range(starts.size - 1):
        if (code >> i) & 1:
            for c in range(starts[i], starts[i + 1]):
                members[n] = block[c]
                n += 1
    return members[:n]


@kernel
def score_block(scoring, fixed, starts, block, out):
    """out (2**b,) = log Λ of the columns `fixed` joined by each subset of b features; NaN where
    undecidable. Bit i stands for feature i, the columns block[starts[i]:starts[i+1]]; starts
    (b+1,)."""
    absent = np.empty(block.size + 1, np.bool_)
    work = tree_work(starts)
    out[:] = scoring.offset
    for g in range(scoring.weights.size):
        reduce_to_block(scoring, g, fixed, block, work.matrix, absent)
        shares = outcome_shares(absent, scoring.tolerance, work)
        if longest(starts) == 1:
            fill_shares_from_rows(scoring.rows, g, fixed, block, work.rows, scoring.outcome, shares)
        else:
            for s in range(shares.size if rows_at_hand(scoring.rows) else 0):
                if np.isnan(shares[s]):
                    members = joined_columns(fixed, starts, block, s)
                    shares[s] = share_from_rows(scoring.rows, g, members, scoring.outcome)
        add_weighted_log(out, scoring.weights[g], shares)
    for s in range(out.size):
        if out[s] > 0.0:
            value = settled(out[s], scoring.weights)
            out[s] = (
                value
                if value == value
                else log_ratio_from_rows(scoring, joined_columns(fixed, starts, block, s))
            )


MOST_LOW = 14
# Entries of the tree of a block, 16 MB: more would leave the cache for less and less gain.
_LARGEST_TREE = 1 << 21


def feature_starts(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f+1,) first column of each feature of widths (f,), and their end."""
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def low_features(widths: NDArray[np.int64]) -> int:
    """How many of the first features make a good block for `score_block`; widths (f,): columns of
    each."""
    n_low = min(len(widths), MOST_LOW)
    # Interpreted: these are a few additions.
    while tree_starts.py_func(feature_starts(widths[:n_low]))[-1] > _LARGEST_TREE:
        n_low -= 1
    return n_low


def walk_order(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(f,) features in the order that is cheapest to walk: the narrowest make the block, the widest
    of them first; the others follow as high features. As they are, where all have the same
    width."""
    ascending = np.argsort(widths, kind="stable")
    n_low = min(len(widths), MOST_LOW)
    while True:
        low = ascending[:n_low]
        low = low[np.argsort(-widths[low], kind="stable")]
        if low_features(widths[low]) == n_low:
            return np.concatenate([low, ascending[n_low:]])
        n_low -= 1


@kernel
def tolerated_step(n_steps, tolerated, most):
    """The first of n_steps, whose roots are equally far apart, that is at least what is tolerated,
    at most `most`."""
    return (
        int(np.ceil(n_steps * np.sqrt(min(tolerated, most) / most)))
        if tolerated > 0.0 and n_steps > 0
        else 0
    )


class Screen(NamedTuple):
    """By which second moments reject subsets. squares, counts (G,): sums of squares of the outcome,
    and rows. limits (r, m, j): of the F statistic of common coefficients, by the rank in the pool,
    by how much less the ranks in the E environments are in sum than E times that, and by
    `tolerated_step` of per_signal times the signal, N·R²/(1 − R²), up to `most`."""

    squares: np.ndarray
    counts: np.ndarray
    limits: np.ndarray
    per_signal: float
    most: float


@kernel(fastmath={"contract"})
def add_environment(weight, square, shares, out, local):
    """Adds weight · log(share) and the residual sums of squares."""
    for s in range(shares.size):
        out[s] += weight * logarithm(shares[s])
        local[s] += square * shares[s]


@kernel
def block_shares(scoring, g, fixed, block, absent, work):
    """(2**b,) what the columns `fixed`, joined by each subset of b features, leave of the outcome
    in group g, NaN where undecidable; block: their columns; absent (d,), work: as in
    `outcome_shares`, and written to"""
    reduce_to_block(scoring, g, fixed, block, work.matrix, absent)
    return outcome_shares(absent, scoring.tolerance, work)


@kernel
def screen_block(screen, pooled, local, ranks, missing, first_rank, first_missing, least, gain):
    """gain (2**b,): of the pooled fits in nats, NaN where it is below `least` (r,) of its rank or
    undecidable, and where the screen rejects. pooled (2**b,): what these fits leave of the outcome;
    local (2**b,): sums over environments of the residual sums of squares.

    ranks, missing (2**b,): rank in the pool of each subset of the block, and by how much less the
    environments' are in sum than E times that; first_rank, first_missing: of columns that are
    always in, to be added."""
    last = screen.counts.size - 1
    total = screen.counts[last]
    gain[:] = 0.0
    add_weighted_log(gain, -0.5 * total, pooled)
    for s in range(gain.size):
        rank = first_rank + ranks[s]
        gained = gain[s]
        gain[s] = np.nan
        if not gained >= least[rank] or local[s] != local[s]:
            continue
        lacking = first_missing + missing[s]
        left = total - last * (1.0 + rank) + lacking
        between = total - 1.0 - rank - left
        statistic = (
            (screen.squares[last] * pooled[s] - local[s]) / between / (local[s] / left)
            if between > 0.0
            else 0.0
        )
        signal = total * (1.0 / pooled[s] - 1.0)
        step = tolerated_step(screen.limits.shape[2] - 1, screen.per_signal * signal, screen.most)
        if not statistic > screen.limits[rank, lacking, step]:
            gain[s] = gained


@kernel
def reciprocal_pivot(pivot, absent, tolerance):
    """1/pivot; 0 for a column that does not vary in this group; NaN, which poisons the subset, when
    undecidable."""
    if absent:
        return 0.0
    return 1.0 / pivot if pivot >= tolerance else np.nan


@kernel
def _outcome_pivot(matrix, start, stop, absent, tolerance, work):
    """What the columns start:stop leave of the outcome, the last column; work (m+1, m+1) for m
    columns or more."""
    last = matrix.shape[0] - 1
    m = stop - start
    for i in range(m):
        for k in range(i, m):
            work[i, k] = matrix[start + i, start + k]
        work[i, m] = matrix[start + i, last]
    work[m, m] = matrix[last, last]
    for c in range(m):
        sweep_in_place(work, c, m, reciprocal_pivot(work[c, c], absent[start + c], tolerance))
    return work[m, m]


@kernel
def _score_children(scoring, matrices, absent, starts, first, work, pivots, scores):
    """scores[j] = log Λ of the node's subset with feature j added, j >= first; work: as in
    `_outcome_pivot`."""
    f = starts.size - 1
    last = matrices.shape[1] - 1
    tolerance = scoring.tolerance
    scores[first:f] = scoring.offset
    for g in range(matrices.shape[0]):
        for j in range(first, f):
            c = starts[j]
            if starts[j + 1] == c + 1:
                reciprocal = reciprocal_pivot(matrices[g, c, c], absent[g, c], tolerance)
                pivot = matrices[g, last, last] - matrices[g, c, last] ** 2 * reciprocal
            else:
                pivot = _outcome_pivot(matrices[g], c, starts[j + 1], absent[g], tolerance, work)
            pivots[j] = pivot if pivot >= tolerance else np.nan
        add_weighted_log(scores[first:f], scoring.weights[g], pivots[first:f])


@kernel
def _include(source, target, absent, tolerance, starts, feature, grows):
    """target = source with `feature` swept out of later columns. Of a subset that grows no further
    only what is within one feature, and the outcome's column."""
    f = starts.size - 1
    last = source.shape[1] - 1
    for g in range(source.shape[0]):
        before = source[g]
        after = target[g]
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
def score_extensions(scoring, fixed, starts, block, prefix, first, max_size, members, out):
    """log Λ of `fixed`, the columns of the features `prefix` among them, and of every subset that
    extends it by later features, up to max_size, by second moments alone. Feature first + i is the
    columns block[starts[i]:starts[i+1]]. members (n, >= max_size): filled with the features of each
    subset, -1 beyond; out (n,): NaN where undecidable."""
    n_groups = scoring.weights.size
    f = starts.size - 1
    d = block.size + 1
    levels = max_size - prefix.size
    stack = np.empty((max(levels, 1), n_groups, d, d))
    absent = np.empty((n_groups, d), np.bool_)
    scores = np.empty((max(levels, 1), f))
    pivots = np.empty(f)
    widest = longest(starts)
    work = np.empty((widest + 1, widest + 1))
    child = np.empty(levels + 1, np.int64)
    out[0] = scoring.offset
    for g in range(n_groups):
        reduce_to_block(scoring, g, fixed, block, stack[0, g], absent[g])
        share = stack[0, g, d - 1, d - 1]
        out[0] += scoring.weights[g] * np.log(share) if share >= scoring.tolerance else np.nan
    members[:, :] = -1
    for s in range(members.shape[0]):
        copy_into(members[s, : prefix.size], prefix)
    count = 1
    level = 0 if levels > 0 else -1
    child[0] = 0
    _score_children(scoring, stack[0], absent, starts, ZERO, work, pivots, scores[0])
    while level >= 0:
        j = child[level]
        if j == f:
            level -= 1
            continue
        child[level] = j + 1
        out[count] = scores[level, j]
        for m in range(level + 1):
            members[count, prefix.size + m] = first + child[m] - 1
        count += 1
        if level + 1 < levels and j + 1 < f:
            _include(
                stack[level],
                stack[level + 1],
                absent,
                scoring.tolerance,
                starts,
                j,
                level + 2 < levels,
            )
            level += 1
            child[level] = j + 1
            _score_children(
                scoring, stack[level], absent, starts, j + 1, work, pivots, scores[level]
            )
    for s in range(out.size):
        out[s] = settled(out[s], scoring.weights)
