"""log Λ of all subsets up to a given size, visiting only those: for many features and a small size limit."""

import numpy as np
from numba import njit

from .elementary import add_weighted_log
from .subset_tree import reciprocal_pivot, settle, sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_border(matrix, pivot_index, last, reciprocal):
    """As sweep_in_place, but only the diagonal and the outcome's column: enough for subsets that grow no further."""
    for i in range(pivot_index + 1, last):
        factor = matrix[pivot_index, i] * reciprocal
        matrix[i, i] -= factor * matrix[pivot_index, i]
        matrix[i, last] -= factor * matrix[pivot_index, last]
    matrix[last, last] -= matrix[pivot_index, last] ** 2 * reciprocal


@njit(cache=True, nogil=True, error_model="numpy")
def _score_children(matrices, absent, weights, offset, tolerance, first, pivots, scores):
    """scores[j] = log Λ of the node's subset with feature j added, j >= first."""
    n_groups, d, _ = matrices.shape
    last = d - 1
    scores[first:last] = offset
    for g in range(n_groups):
        for j in range(first, last):
            reciprocal = reciprocal_pivot(matrices[g, j, j], absent[g, j], tolerance)
            pivot = matrices[g, last, last] - matrices[g, j, last] ** 2 * reciprocal
            pivots[j] = pivot if pivot >= tolerance else np.nan
        add_weighted_log(scores[first:last], weights[g], pivots[first:last])


@njit(cache=True, nogil=True, error_model="numpy")
def _include(source, target, absent, tolerance, feature, grows):
    """target = source with `feature` swept out of later columns; only the border when the subset grows no further."""
    d = source.shape[1]
    last = d - 1
    for g in range(source.shape[0]):
        for k in range(feature, d):
            target[g, feature, k] = source[g, feature, k]
        for i in range(feature + 1, d):
            if grows:
                for k in range(i, d):
                    target[g, i, k] = source[g, i, k]
            else:
                target[g, i, i] = source[g, i, i]
                target[g, i, last] = source[g, i, last]
        reciprocal = reciprocal_pivot(source[g, feature, feature], absent[g, feature], tolerance)
        if grows:
            sweep_in_place(target[g], feature, last, reciprocal)
        else:
            _sweep_border(target[g], feature, last, reciprocal)


@njit(cache=True, nogil=True, error_model="numpy")
def score_extensions(grams, absent, weights, offset, tolerance, prefix, max_size, members, out):
    """log Λ of `prefix` and of every subset that extends it by features after its last one, up to max_size.

    grams (G, d, d): scaled second moments of [x, y]. prefix (m,): ascending features.
    members (n, >= max_size): filled with the features of each subset, -1 beyond; out (n,): NaN where undecidable.
    """
    n_groups, d, _ = grams.shape
    last = d - 1
    depth_limit = max_size - prefix.size
    levels = max(depth_limit, 1)
    stack = np.empty((levels, n_groups, d, d))
    scores = np.empty((levels, d))
    pivots = np.empty(d)
    child = np.empty(levels + 1, np.int64)

    if prefix.size:
        first = prefix[-1] + 1
        root = grams
        for m in range(prefix.size):
            grows = m + 1 < prefix.size or depth_limit > 1
            _include(root, stack[0], absent, tolerance, prefix[m], grows)
            root = stack[0]
    else:
        first = 0
        stack[0] = grams
    out[0] = offset
    for g in range(n_groups):
        pivot = stack[0, g, last, last]
        out[0] += weights[g] * np.log(pivot) if pivot >= tolerance else np.nan
    members[0, :] = -1
    members[0, : prefix.size] = prefix
    count = 1
    level = 0 if depth_limit > 0 else -1
    child[0] = first
    _score_children(stack[0], absent, weights, offset, tolerance, first, pivots, scores[0])
    while level >= 0:
        j = child[level]
        if j == last:
            level -= 1
            continue
        child[level] = j + 1
        out[count] = scores[level, j]
        members[count, :] = -1
        members[count, : prefix.size] = prefix
        for m in range(level + 1):
            members[count, prefix.size + m] = child[m] - 1
        count += 1
        if level + 1 < depth_limit and j + 1 < last:
            _include(stack[level], stack[level + 1], absent, tolerance, j, level + 2 < depth_limit)
            level += 1
            child[level] = j + 1
            _score_children(stack[level], absent, weights, offset, tolerance, j + 1, pivots, scores[level])
    settle(out, weights)
