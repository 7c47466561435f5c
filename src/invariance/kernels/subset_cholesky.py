"""log Λ of listed subsets, one small factorisation per subset and group, straight from the full second moments."""

import numpy as np
from numba import njit

from .block_gibbs import subset_log_ratio
from .gram_rows import gram_entry
from .group_rows import rows_at_hand
from .subset_tree import settled, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def score_members(scoring, penalty, members, matrices):
    """log Λ of one subset, whose columns are `members`; NaN where undecidable.

    matrices (G, k+1, k+1): work space for k = members.size.
    Where second moments cannot decide, the rows do if they are at hand. With a penalty that is not NaN, for searching,
    collinear members are not asked about: those whose pivot is below the tolerance in some group are left out and log Λ
    of the rest, which is at most 0, is multiplied by 1 + penalty·(number left out).
    """
    value = _score_from_moments(scoring, penalty, members, matrices)
    return subset_log_ratio(scoring, members) if value != value and rows_at_hand(scoring.rows) else value


@njit(cache=True, nogil=True, error_model="numpy")
def _score_from_moments(scoring, penalty, members, matrices):
    n_groups, k = scoring.weights.size, members.size
    inverse_scale, tolerance = scoring.inverse_scale, scoring.tolerance
    for g in range(n_groups):
        scale, matrix = inverse_scale[g], matrices[g]
        for i in range(k + 1):
            a = members[i] if i < k else scoring.outcome
            for j in range(i, k + 1):
                b = members[j] if j < k else scoring.outcome
                matrix[i, j] = gram_entry(scoring.scatter, g, a, b) * scale[a] * scale[b]
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
    total = scoring.offset
    for g in range(n_groups):
        if not matrices[g, k, k] >= tolerance:
            return np.nan
        total += scoring.weights[g] * np.log(matrices[g, k, k])
    total = settled(total, scoring.weights)
    return total * (1.0 + penalty * left_out) if left_out else total


@njit(cache=True, nogil=True, error_model="numpy")
def score_subsets(scoring, penalty, starts, members, out):
    """out[s] = score_members of subset s, whose columns are members[starts[s]:starts[s+1]]."""
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = np.empty((scoring.weights.size, largest + 1, largest + 1))
    for s in range(starts.size - 1):
        out[s] = score_members(scoring, penalty, members[starts[s] : starts[s + 1]], work)
