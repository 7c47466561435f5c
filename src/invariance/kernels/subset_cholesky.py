"""log Λ of listed subsets, one small factorisation per subset and group, straight from the full second moments."""

import numpy as np
from numba import njit

from .subset_tree import reciprocal_pivot, settle, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def score_subsets(scatter, inverse_scale, outcome, weights, offset, tolerance, starts, members, out):
    """out[s] = log Λ of subset s, whose columns are members[starts[s]:starts[s+1]]; NaN where undecidable.

    scatter (G, d, d); inverse_scale (G, d): 1/sqrt of its diagonal, 0 where a column does not vary in the group.
    """
    n_groups = scatter.shape[0]
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    matrix = np.empty((largest + 1, largest + 1))
    column = np.empty(largest + 1, np.int64)
    for s in range(starts.size - 1):
        size = starts[s + 1] - starts[s]
        total = offset
        for g in range(n_groups):
            scale = inverse_scale[g]
            k = 0
            for i in range(size):
                if scale[members[starts[s] + i]] > 0.0:
                    column[k] = members[starts[s] + i]
                    k += 1
            column[k] = outcome
            for i in range(k + 1):
                for j in range(i, k + 1):
                    matrix[i, j] = scatter[g, column[i], column[j]] * scale[column[i]] * scale[column[j]]
            for i in range(k):
                sweep_in_place(matrix, i, k, reciprocal_pivot(matrix[i, i], False, tolerance))
            if not matrix[k, k] >= tolerance:
                total = np.nan
                break
            total += weights[g] * np.log(matrix[k, k])
        out[s] = total
    settle(out, weights)
