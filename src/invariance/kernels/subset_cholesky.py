"""log Λ of listed subsets, one small factorisation per subset and group, straight from the full second moments."""

import numpy as np
from numba import njit

from .subset_tree import settled, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def score_members(scatter, inverse_scale, outcome, weights, offset, tolerance, ridge, members, matrix, column):
    """log Λ of one subset, whose columns are `members`; NaN where undecidable.

    scatter (G, d, d); inverse_scale (G, d): 1/sqrt of its diagonal, 0 where a column does not vary in the group.
    ridge: added to the unit diagonal of the features. With the same multiple of each group's own diagonal, the local
    fits stay at least as good as the pooled one, so that log Λ stays at most 0.
    matrix (k+1, k+1) and column (k+1,) are work space for k = members.size.
    """
    total = offset
    for g in range(scatter.shape[0]):
        scale = inverse_scale[g]
        k = 0
        for member in members:
            if scale[member] > 0.0:
                column[k] = member
                k += 1
        column[k] = outcome
        for i in range(k + 1):
            row = scatter[g, column[i]]
            factor = scale[column[i]]
            for j in range(i, k + 1):
                matrix[i, j] = row[column[j]] * factor * scale[column[j]]
        for i in range(k):
            pivot = matrix[i, i] + ridge
            if not pivot >= tolerance:
                return np.nan
            sweep_in_place(matrix, i, k, 1.0 / pivot)
        if not matrix[k, k] >= tolerance:
            return np.nan
        total += weights[g] * np.log(matrix[k, k])
    return settled(total, weights)


@njit(cache=True, nogil=True, error_model="numpy")
def score_for_search(scatter, inverse_scale, outcome, weights, offset, tolerance, ridge, members, matrix, column):
    """As score_members without a ridge; where that is undecidable, with it: to find a way, never to be reported."""
    value = score_members(scatter, inverse_scale, outcome, weights, offset, tolerance, 0.0, members, matrix, column)
    if value != value and ridge > 0.0:
        value = score_members(
            scatter, inverse_scale, outcome, weights, offset, 0.1 * ridge, ridge, members, matrix, column
        )
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def score_subsets(scatter, inverse_scale, outcome, weights, offset, tolerance, ridge, starts, members, out):
    """out[s] = log Λ of subset s, whose columns are members[starts[s]:starts[s+1]], by score_for_search."""
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    matrix = np.empty((largest + 1, largest + 1))
    column = np.empty(largest + 1, np.int64)
    for s in range(starts.size - 1):
        chosen = members[starts[s] : starts[s + 1]]
        out[s] = score_for_search(
            scatter, inverse_scale, outcome, weights, offset, tolerance, ridge, chosen, matrix, column
        )
