"""All subsets of a block of columns while the others stay as they are: their log Λ, and one joint draw."""

import numpy as np
from numba import njit

from .elementary import exp_shifted
from .gram_rows import gram_entry
from .subset_tree import score_block, settled, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def reduce_to_block(scoring, fixed, block, reduced, absent):
    """Second moments of [block, outcome] after regression on the columns in `fixed`, in every group.

    fixed (m,), block (b,): ascending columns. reduced (G, b+1, b+1): upper triangle; absent (G, b+1).
    False when `fixed` itself is undecidable.
    """
    m, b = fixed.size, block.size
    columns = np.empty(m + b + 1, np.int64)
    matrix = np.empty((m + b + 1, m + b + 1))
    for g in range(scoring.weights.size):
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
            absent[g, i] = scale[columns[k + i]] == 0.0
            for j in range(i, b + 1):
                reduced[g, i, j] = matrix[k + i, k + j]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def subset_log_ratio(scoring, members):
    """log Λ of the columns `members`, ascending: the same arithmetic as `score_subsets`; NaN where undecidable."""
    n_groups = scoring.weights.size
    residual = np.empty((n_groups, 1, 1))
    absent = np.empty((n_groups, 1), np.bool_)
    if not reduce_to_block(scoring, members, np.empty(0, np.int64), residual, absent):
        return np.nan
    total = scoring.offset
    for g in range(n_groups):
        if not residual[g, 0, 0] >= scoring.tolerance:
            return np.nan
        total += scoring.weights[g] * np.log(residual[g, 0, 0])
    return settled(total, scoring.weights)


@njit(cache=True, nogil=True, error_model="numpy")
def block_log_ratios(scoring, fixed, block, out):
    """out (2**b,) = log Λ of `fixed` joined by each subset of `block` (bit i = block[i]); NaN where undecidable."""
    b = block.size
    n_groups = scoring.weights.size
    reduced = np.empty((n_groups, b + 1, b + 1))
    absent = np.empty((n_groups, b + 1), np.bool_)
    if reduce_to_block(scoring, fixed, block, reduced, absent):
        score_block(reduced, absent, scoring.weights, scoring.offset, scoring.tolerance, 0, b, out)
    else:
        out[:] = np.nan


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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
