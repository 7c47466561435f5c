"""log Λ of single subsets, one factorisation per group: from second moments or, where those cannot tell, rows."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel
from .gram_rows import gram_entry
from .group_rows import rank_from_rows, rows_at_hand, share_from_rows
from .large_subsets import LargeSubset, decided_as_large, large_subset
from .subset_tree import settled, sweep_in_place
from .typed import ZERO


class SubsetWork(NamedTuple):
    """Work space for scoring subsets of up to k members one after another. matrices (G, k+1, k+1)"""

    matrices: np.ndarray
    large: LargeSubset


@kernel
def subset_work(n_groups, largest):
    return SubsetWork(np.empty((n_groups, largest + 1, largest + 1)), large_subset(n_groups, largest))


@kernel
def _fill(scoring, g, members, matrix):
    """matrix (k+1, k+1): scaled second moments of k members and the outcome in group g, upper triangle."""
    scale, k = scoring.inverse_scale[g], members.size
    for i in range(k + 1):
        a = members[i] if i < k else scoring.outcome
        for j in range(i, k + 1):
            b = members[j] if j < k else scoring.outcome
            matrix[i, j] = gram_entry(scoring.scatter, g, a, b) * scale[a] * scale[b]


@kernel
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


@kernel
def log_ratio_from_rows(scoring, members):
    total = scoring.offset
    for g in range(scoring.weights.size):
        total += scoring.weights[g] * np.log(share_from_rows(scoring.rows, g, members, scoring.outcome))
    return settled(total, scoring.weights)


@kernel
def _log_ratio(scoring, members, matrix):
    total = scoring.offset
    for g in range(scoring.weights.size):
        share = _outcome_share(scoring, g, members, matrix)
        if share != share:
            return np.nan
        total += scoring.weights[g] * np.log(share)
    value = settled(total, scoring.weights)
    return value if value == value else log_ratio_from_rows(scoring, members)


@kernel(inline="always")
def subset_log_ratio(scoring, members):
    """log Λ of the columns `members`, ascending, few of them; NaN where undecidable."""
    return _log_ratio(scoring, members, np.empty((members.size + 1, members.size + 1)))


@kernel(inline="always")
def score_members(scoring, penalty, members, work):
    """log Λ of one subset, whose columns are `members`; NaN where undecidable.

    Where second moments cannot decide, the rows do if they are at hand. With a penalty that is not NaN, for searching,
    collinear members are not asked about: those whose pivot is below the tolerance in some group are left out and log Λ
    of the rest is multiplied by 1 + penalty·(number left out), or divided where a reward for prediction makes it > 0.
    """
    if decided_as_large(scoring, members, work.large):
        value = settled(scoring.offset + (scoring.weights * np.log(work.large.shares)).sum(), scoring.weights)
        if value == value:
            return value
    if penalty == penalty:
        value = _penalised(scoring, penalty, members, work.matrices)
        if value == value or not rows_at_hand(scoring.rows):
            return value
    return _log_ratio(scoring, members, work.matrices[0])


@kernel(inline="always")
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
    if left_out == 0:
        return total
    return total * (1.0 + penalty * left_out) if total <= 0.0 else total / (1.0 + penalty * left_out)


@kernel
def score_subsets(scoring, penalty, starts, members, out):
    """out[s] = score_members of subset s, whose columns are members[starts[s]:starts[s+1]]."""
    largest = ZERO
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = subset_work(scoring.weights.size, largest)
    for s in range(starts.size - 1):
        out[s] = score_members(scoring, penalty, members[starts[s] : starts[s + 1]], work)


@kernel
def _rank(scoring, g, members, matrix):
    """Rank of `members` in group g; matrix: as `_outcome_share` leaves it, with all pivots that it came to.

    Columns that second moments can tell apart are independent. Without rows the others count as if they were.
    """
    rank = 0
    for i in range(members.size):
        if scoring.inverse_scale[g, members[i]] > 0.0:
            if not matrix[i, i] >= scoring.tolerance and rows_at_hand(scoring.rows):
                return rank_from_rows(scoring.rows, g, members)
            rank += 1
    return rank


@kernel
def subset_fits(scoring, starts, members, shares, ranks):
    """shares[s, g] = what columns members[starts[s]:starts[s+1]] leave of the outcome in group g, NaN if undecidable;
    ranks[s, g] = their rank there."""
    largest = ZERO
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = subset_work(scoring.weights.size, largest)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        as_large = decided_as_large(scoring, subset, work.large)
        for g in range(scoring.weights.size):
            if as_large:
                shares[s, g] = work.large.shares[g]
                ranks[s, g] = np.count_nonzero(scoring.inverse_scale[g][subset])
            else:
                shares[s, g] = _outcome_share(scoring, g, subset, work.matrices[0])
                ranks[s, g] = _rank(scoring, g, subset, work.matrices[0])


@kernel
def subset_slopes(gram, tolerance, starts, members, slopes):
    """slopes[s, members[starts[s]:starts[s+1]]] = least squares slopes of the last column of gram (d, d) with unit
    diagonal; NaN where a pivot is below the tolerance. Other entries stay as they are."""
    outcome = gram.shape[0] - 1
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        matrix = np.empty((k + 1, k + 1))
        for i in range(k):
            for j in range(i, k):
                matrix[i, j] = gram[subset[i], subset[j]]
            matrix[i, k] = gram[subset[i], outcome]
        for i in range(k):
            sweep_in_place(matrix, i, k, 1.0 / matrix[i, i] if matrix[i, i] >= tolerance else np.nan)
        for i in range(k - 1, -1, -1):
            slope = matrix[i, k]
            for j in range(i + 1, k):
                slope -= matrix[i, j] * slopes[s, subset[j]]
            slopes[s, subset[i]] = slope / matrix[i, i] if matrix[i, i] >= tolerance else np.nan
