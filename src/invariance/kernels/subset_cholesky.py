"""log Λ of listed subsets, one small factorisation per subset and group, straight from the full second moments."""

import numpy as np
from numba import njit

from .subset_tree import settled, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def score_members(scatter, inverse_scale, outcome, weights, offset, tolerance, penalty, members, matrices):
    """log Λ of one subset, whose columns are `members`.

    scatter (G, d, d); inverse_scale (G, d): 1/sqrt of its diagonal, 0 where a column does not vary in the group.
    matrices (G, k+1, k+1): work space for k = members.size.
    A member whose pivot is below the tolerance in some group makes the subset undecidable: NaN. With a penalty that is
    not NaN, such members are left out instead and log Λ of the rest, which is at most 0, is multiplied by
    1 + penalty·(number left out).
    """
    n_groups, k = scatter.shape[0], members.size
    for g in range(n_groups):
        scale, matrix = inverse_scale[g], matrices[g]
        for i in range(k + 1):
            a = members[i] if i < k else outcome
            row = scatter[g, a]
            for j in range(i, k + 1):
                b = members[j] if j < k else outcome
                matrix[i, j] = row[b] * scale[a] * scale[b]
    left_out = 0
    for i in range(k):
        decidable = True
        for g in range(n_groups):
            decidable &= matrices[g, i, i] >= tolerance or inverse_scale[g, members[i]] == 0.0
        if not decidable:
            if penalty != penalty:
                return np.nan
            left_out += 1
            continue
        for g in range(n_groups):
            if inverse_scale[g, members[i]] > 0.0:
                sweep_in_place(matrices[g], i, k, 1.0 / matrices[g, i, i])
    total = offset
    for g in range(n_groups):
        if not matrices[g, k, k] >= tolerance:
            return np.nan
        total += weights[g] * np.log(matrices[g, k, k])
    total = settled(total, weights)
    return total * (1.0 + penalty * left_out) if left_out else total


@njit(cache=True, nogil=True, error_model="numpy")
def score_subsets(scatter, inverse_scale, outcome, weights, offset, tolerance, penalty, starts, members, out):
    """out[s] = score_members of subset s, whose columns are members[starts[s]:starts[s+1]]."""
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = np.empty((scatter.shape[0], largest + 1, largest + 1))
    for s in range(starts.size - 1):
        chosen = members[starts[s] : starts[s + 1]]
        out[s] = score_members(scatter, inverse_scale, outcome, weights, offset, tolerance, penalty, chosen, work)
