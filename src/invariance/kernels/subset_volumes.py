"""Determinants of many small blocks of a few matrices, and what the columns of each block leave of the outcome."""

import numpy as np

from .compiled import kernel
from .subset_tree import sweep_in_place


@kernel
def _reduce(matrix, members, outcome, floor, lowest, work):
    """(log determinant of the members' block, what they leave of the outcome); lowest (k + 1,): the pivots of another
    matrix, `floor` times which this one exceeds, so that a pivot below that is one of rounding."""
    k, volume = members.size, 0.0
    for i in range(k + 1):
        a = members[i] if i < k else outcome
        for j in range(i, k + 1):
            work[i, j] = matrix[a, members[j] if j < k else outcome]
    for i in range(k):
        work[i, i] = max(work[i, i], floor * lowest[i])
        volume += np.log(work[i, i])
        sweep_in_place(work, i, k, 1.0 / work[i, i])
    return volume, max(work[k, k], floor * lowest[k])


@kernel
def subset_volumes(matrices, floor, outcome, tolerance, starts, members, volumes, left):
    """volumes[s, g], left[s, g] of the columns members[starts[s]:starts[s+1]] in each of matrices (G, d, d).

    The last matrix has a unit diagonal, and `floor` times it is at most each of the others. NaN where one of its pivots
    is below the tolerance.
    """
    n_groups, largest = len(matrices), 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work, lowest = np.empty((largest + 1, largest + 1)), np.empty(largest + 1)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        lowest[:] = 0.0
        volumes[s, -1], left[s, -1] = _reduce(matrices[-1], subset, outcome, floor, lowest, work)
        for i in range(k + 1):
            lowest[i] = work[i, i]
        if not lowest[: k + 1].min() >= tolerance:
            volumes[s], left[s] = np.nan, np.nan
            continue
        for g in range(n_groups - 1):
            volumes[s, g], left[s, g] = _reduce(matrices[g], subset, outcome, floor, lowest, work)
