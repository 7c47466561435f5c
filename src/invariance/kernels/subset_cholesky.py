"""log Λ of single subsets, one small factorisation per group: from second moments or, where those cannot tell, rows."""

import numpy as np
from numba import njit

from .gram_rows import gram_entry
from .group_rows import rows_at_hand, share_from_rows
from .subset_tree import settled, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(scoring, g, members, matrix):
    """matrix (k+1, k+1): scaled second moments of k members and the outcome in group g, upper triangle."""
    scale, k = scoring.inverse_scale[g], members.size
    for i in range(k + 1):
        a = members[i] if i < k else scoring.outcome
        for j in range(i, k + 1):
            b = members[j] if j < k else scoring.outcome
            matrix[i, j] = gram_entry(scoring.scatter, g, a, b) * scale[a] * scale[b]


@njit(cache=True, nogil=True, error_model="numpy")
def _outcome_share(scoring, g, members, matrix):
    """What `members` leave of the outcome in group g, from second moments or, where these cannot tell, from rows."""
    _fill(scoring, g, members, matrix)
    k = members.size
    for i in range(k):
        if scoring.inverse_scale[g, members[i]] > 0.0:
            if not matrix[i, i] >= scoring.tolerance:
                return share_from_rows(scoring.rows, g, members, scoring.outcome)
            sweep_in_place(matrix, i, k, 1.0 / matrix[i, i])
    if matrix[k, k] >= scoring.tolerance:
        return matrix[k, k]
    return share_from_rows(scoring.rows, g, members, scoring.outcome)


@njit(cache=True, nogil=True, error_model="numpy")
def log_ratio_from_rows(scoring, members):
    total = scoring.offset
    for g in range(scoring.weights.size):
        total += scoring.weights[g] * np.log(share_from_rows(scoring.rows, g, members, scoring.outcome))
    return settled(total, scoring.weights)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_ratio(scoring, members, matrix):
    total = scoring.offset
    for g in range(scoring.weights.size):
        share = _outcome_share(scoring, g, members, matrix)
        if share != share:
            return np.nan
        total += scoring.weights[g] * np.log(share)
    value = settled(total, scoring.weights)
    return value if value == value else log_ratio_from_rows(scoring, members)


@njit(cache=True, nogil=True, error_model="numpy")
def subset_log_ratio(scoring, members):
    """log Λ of the columns `members`, ascending; NaN where undecidable."""
    return _log_ratio(scoring, members, np.empty((members.size + 1, members.size + 1)))


@njit(cache=True, nogil=True, error_model="numpy")
def score_members(scoring, penalty, members, matrices):
    """log Λ of one subset, whose columns are `members`; NaN where undecidable.

    matrices (G, k+1, k+1): work space for k = members.size.
    Where second moments cannot decide, the rows do if they are at hand. With a penalty that is not NaN, for searching,
    collinear members are not asked about: those whose pivot is below the tolerance in some group are left out and log Λ
    of the rest, which is at most 0, is multiplied by 1 + penalty·(number left out).
    """
    if penalty == penalty:
        value = _penalised(scoring, penalty, members, matrices)
        if value == value or not rows_at_hand(scoring.rows):
            return value
    return _log_ratio(scoring, members, matrices[0])


@njit(cache=True, nogil=True, error_model="numpy")
def _penalised(scoring, penalty, members, matrices):
    n_groups, k = scoring.weights.size, members.size
    inverse_scale, tolerance = scoring.inverse_scale, scoring.tolerance
    for g in range(n_groups):
        _fill(scoring, g, members, matrices[g])
    left_out = 0
    for i in range(k):
        decidable = True
        for g in range(n_groups):
            decidable &= matrices[g, i, i] >= tolerance or inverse_scale[g, members[i]] == 0.0
        if not decidable:
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


@njit(cache=True, nogil=True, error_model="numpy")
def subset_shares(scoring, starts, members, out):
    """out[s, g] = what columns members[starts[s]:starts[s+1]] leave of the outcome in group g, NaN if undecidable"""
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = np.empty((largest + 1, largest + 1))
    for s in range(starts.size - 1):
        for g in range(scoring.weights.size):
            out[s, g] = _outcome_share(scoring, g, members[starts[s] : starts[s + 1]], work)
