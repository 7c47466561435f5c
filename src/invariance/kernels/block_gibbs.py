"""All subsets of a block of columns while the others stay as they are: their log Λ, and one joint draw."""

import numpy as np

from .compiled import kernel
from .copying import copy_into
from .elementary import add_weighted_log, exp_shifted
from .gram_rows import gram_entry
from .group_rows import fill_shares_from_rows, rows_at_hand, share_from_rows
from .subset_cholesky import log_ratio_from_rows
from .subset_tree import outcome_shares, settled, sweep_in_place, tree_work, widest_feature


@kernel
def reduce_to_block(scoring, g, fixed, block, reduced, absent):
    """Second moments of [block, outcome] in group g after regression on the columns in `fixed`.

    fixed (m,), block (b,): ascending columns. reduced (b+1, b+1): upper triangle; absent (b+1,).
    False when `fixed` itself is undecidable.
    """
    m, b = fixed.size, block.size
    columns = np.empty(m + b + 1, np.int64)
    matrix = np.empty((m + b + 1, m + b + 1))
    scale = scoring.inverse_scale[g]
    k = 0
    for column in fixed:
        if scale[column] > 0.0:
            columns[k] = column
            k += 1
    for i in range(b):
        columns[k + i] = block[i]
    columns[k + b] = scoring.outcome
    last = k + b
    for i in range(last + 1):
        one = columns[i]
        for j in range(i, last + 1):
            other = columns[j]
            matrix[i, j] = gram_entry(scoring.scatter, g, one, other) * scale[one] * scale[other]
    for i in range(k):
        if not matrix[i, i] >= scoring.tolerance:
            return False
        sweep_in_place(matrix, i, last, 1.0 / matrix[i, i])
    for i in range(b + 1):
        absent[i] = scale[columns[k + i]] == 0.0
        for j in range(i, b + 1):
            reduced[i, j] = matrix[k + i, k + j]
    return True


@kernel(inline="always")
def block_log_ratios(scoring, fixed, block, out):
    """out (2**b,) = log Λ of `fixed` joined by each subset of `block` (bit i = block[i]); NaN where undecidable."""
    grouped_block_log_ratios(scoring, fixed, np.arange(block.size + 1), block, out)


@kernel
def grouped_block_log_ratios(scoring, fixed, starts, block, out):
    """out (2**b,) = log Λ of the columns `fixed` joined by each subset of b features; NaN where undecidable.

    Bit i stands for feature i, the columns block[starts[i]:starts[i+1]]; starts (b+1,).
    """
    widest = widest_feature(starts)
    absent = np.empty(block.size + 1, np.bool_)
    work = tree_work(starts)
    shares = np.empty(out.size)
    out[:] = scoring.offset
    for g in range(scoring.weights.size):
        if reduce_to_block(scoring, g, fixed, block, work.matrices[0], absent):
            shares = outcome_shares(absent, scoring.tolerance, work)
        elif rows_at_hand(scoring.rows):
            shares[:] = np.nan
        else:
            out[:] = np.nan
            return
        if widest > 1:
            _fill_one_by_one(scoring.rows, g, fixed, starts, block, scoring.outcome, shares)
        else:
            fill_shares_from_rows(scoring.rows, g, fixed, block, scoring.outcome, shares)
        add_weighted_log(out, scoring.weights[g], shares)
    for s in range(out.size):
        if out[s] > 0.0:
            value = settled(out[s], scoring.weights)
            out[s] = value if value == value else log_ratio_from_rows(scoring, _joined(fixed, starts, block, s))


@kernel
def _fill_one_by_one(rows, g, fixed, starts, block, outcome, shares):
    """As `fill_shares_from_rows`, for features of several columns: each NaN by a factorisation of its own."""
    for s in range(shares.size):
        if shares[s] != shares[s]:
            shares[s] = share_from_rows(rows, g, _joined(fixed, starts, block, s), outcome)


@kernel
def _joined(fixed, starts, block, code):
    """The columns of `fixed` and those of the features of `block` whose bit is set."""
    members = np.empty(fixed.size + block.size, np.int64)
    copy_into(members[: fixed.size], fixed)
    k = fixed.size
    for i in range(starts.size - 1):
        if (code >> i) & 1:
            for c in range(starts[i], starts[i + 1]):
                members[k] = block[c]
                k += 1
    return members[:k]


@kernel
def block_terms(odds, by_size, sums):
    """sums (2**b,) = Σ of odds (b,) over the members of each subset, plus by_size[number of members] (b+1,)."""
    b = odds.size
    sizes = np.empty(1 << b, np.int64)
    sums[0] = 0.0
    sizes[0] = 0
    for i in range(b):
        half = 1 << i
        for s in range(half):
            sums[half + s] = sums[s] + odds[i]
            sizes[half + s] = sizes[s] + 1
    for s in range(1 << b):
        sums[s] += by_size[sizes[s]]


@kernel
def normalised(log_weights, weights):
    """weights = exp(log_weights), scaled to sum to 1; entries that are NaN get 0. False when nothing is left."""
    highest = -np.inf
    for s in range(log_weights.size):
        if log_weights[s] > highest:
            highest = log_weights[s]
        elif log_weights[s] != log_weights[s]:
            log_weights[s] = -np.inf
    if highest == -np.inf:
        return False
    exp_shifted(log_weights, highest, weights)
    total = 0.0
    for s in range(weights.size):
        total += weights[s]
    for s in range(weights.size):
        weights[s] /= total
    return True


@kernel
def draw_index(weights, u):
    """Index with probability weights[index] (summing to 1) at the uniform number u; never one of weight 0."""
    below = 0.0
    last = 0
    for s in range(weights.size):
        if weights[s] > 0.0:
            last = s
            below += weights[s]
            if u < below:
                return s
    return last


@kernel
def block_inclusion(weights, b, out):
    """out[i] = sum of weights (2**b,) over the subsets with bit i. Overwrites weights."""
    half = weights.size
    for i in range(b - 1, -1, -1):
        half >>= 1
        total = 0.0
        for s in range(half):
            total += weights[half + s]
            weights[s] += weights[half + s]
        out[i] = total
