"""log Λ of all subsets up to a given size, visiting only those: for many features and a small size limit.

A feature is one column, or several that enter and leave together; starts (f+1,): feature j is the columns
starts[j]:starts[j+1], and the outcome comes last.
"""

import numpy as np

from .compiled import kernel
from .copying import copy_into
from .elementary import add_weighted_log
from .subset_tree import reciprocal_pivot, settle, sweep_in_place, widest_feature
from .typed import ZERO


@kernel
def _sweep_border_of_columns(matrix, pivot_index, last, reciprocal):
    """As sweep_in_place, but only the diagonal and the outcome's column: enough for subsets that grow no further."""
    for i in range(pivot_index + 1, last):
        factor = matrix[pivot_index, i] * reciprocal
        matrix[i, i] -= factor * matrix[pivot_index, i]
        matrix[i, last] -= factor * matrix[pivot_index, last]
    matrix[last, last] -= matrix[pivot_index, last] ** 2 * reciprocal


@kernel
def _score_columns(matrices, absent, weights, offset, tolerance, first, pivots, scores):
    """scores[j] = log Λ of the node's subset with column j added, j >= first."""
    n_groups, d, _ = matrices.shape
    last = d - 1
    scores[first:last] = offset
    for g in range(n_groups):
        for j in range(first, last):
            reciprocal = reciprocal_pivot(matrices[g, j, j], absent[g, j], tolerance)
            pivot = matrices[g, last, last] - matrices[g, j, last] ** 2 * reciprocal
            pivots[j] = pivot if pivot >= tolerance else np.nan
        add_weighted_log(scores[first:last], weights[g], pivots[first:last])


@kernel
def _include_column(source, target, absent, tolerance, column, grows):
    """target = source with `column` swept out of later columns; only the border when the subset grows no further."""
    d = source.shape[1]
    last = d - 1
    for g in range(source.shape[0]):
        for k in range(column, d):
            target[g, column, k] = source[g, column, k]
        for i in range(column + 1, d):
            if grows:
                for k in range(i, d):
                    target[g, i, k] = source[g, i, k]
            else:
                target[g, i, i] = source[g, i, i]
                target[g, i, last] = source[g, i, last]
        reciprocal = reciprocal_pivot(source[g, column, column], absent[g, column], tolerance)
        if grows:
            sweep_in_place(target[g], column, last, reciprocal)
        else:
            _sweep_border_of_columns(target[g], column, last, reciprocal)


@kernel
def _outcome_pivot(matrix, start, stop, absent, tolerance, work):
    """What the columns start:stop leave of the outcome, the last column; work (m+1, m+1) for m columns or more."""
    last, m = matrix.shape[0] - 1, stop - start
    for i in range(m):
        for k in range(i, m):
            work[i, k] = matrix[start + i, start + k]
        work[i, m] = matrix[start + i, last]
    work[m, m] = matrix[last, last]
    for c in range(m):
        sweep_in_place(work, c, m, reciprocal_pivot(work[c, c], absent[start + c], tolerance))
    return work[m, m]


@kernel
def _score_features(matrices, absent, weights, offset, tolerance, starts, widest, first, pivots, scores):
    """scores[j] = log Λ of the node's subset with feature j added, j >= first."""
    f = starts.size - 1
    work = np.empty((widest + 1, widest + 1))
    scores[first:f] = offset
    for g in range(matrices.shape[0]):
        for j in range(first, f):
            pivot = _outcome_pivot(matrices[g], starts[j], starts[j + 1], absent[g], tolerance, work)
            pivots[j] = pivot if pivot >= tolerance else np.nan
        add_weighted_log(scores[first:f], weights[g], pivots[first:f])


@kernel
def _sweep_border_of_features(matrix, c, starts, feature, reciprocal):
    """As sweep_in_place of a column of `feature`, but of later ones only what is within a feature or the outcome's."""
    last = matrix.shape[0] - 1
    for j in range(feature, starts.size - 1):
        for i in range(max(starts[j], c + 1), starts[j + 1]):
            factor = matrix[c, i] * reciprocal
            for k in range(i, last if j == feature else starts[j + 1]):
                matrix[i, k] -= factor * matrix[c, k]
            matrix[i, last] -= factor * matrix[c, last]
    matrix[last, last] -= matrix[c, last] ** 2 * reciprocal


@kernel
def _include_feature(source, target, absent, tolerance, starts, feature, grows):
    """As `_include_column`, for several columns."""
    d = source.shape[1]
    for g in range(source.shape[0]):
        for i in range(starts[feature], d):
            for k in range(i, d):
                target[g, i, k] = source[g, i, k]
        for c in range(starts[feature], starts[feature + 1]):
            reciprocal = reciprocal_pivot(target[g, c, c], absent[g, c], tolerance)
            if grows:
                sweep_in_place(target[g], c, d - 1, reciprocal)
            else:
                _sweep_border_of_features(target[g], c, starts, feature, reciprocal)


@kernel(inline="always")
def _score_children(matrices, absent, weights, offset, tolerance, starts, widest, first, pivots, scores):
    """scores[j] = log Λ of the node's subset with feature j added, j >= first."""
    if widest > 1:
        _score_features(matrices, absent, weights, offset, tolerance, starts, widest, first, pivots, scores)
    else:
        _score_columns(matrices, absent, weights, offset, tolerance, first, pivots, scores)


@kernel(inline="always")
def _include(source, target, absent, tolerance, starts, widest, feature, grows):
    """target = source with `feature` swept out of later columns; only the border when the subset grows no further."""
    if widest > 1:
        _include_feature(source, target, absent, tolerance, starts, feature, grows)
    else:
        _include_column(source, target, absent, tolerance, feature, grows)


@kernel
def score_grouped_extensions(grams, absent, weights, offset, tolerance, starts, prefix, max_size, members, out):
    """log Λ of `prefix` and of every subset that extends it by features after its last one, up to max_size.

    grams (G, d, d): scaled second moments of [x, y]. prefix (m,): ascending features.
    members (n, >= max_size): filled with the features of each subset, -1 beyond; out (n,): NaN where undecidable.
    """
    n_groups, d, _ = grams.shape
    f, last = starts.size - 1, d - 1
    depth_limit = max_size - prefix.size
    levels = max(depth_limit, 1)
    stack = np.empty((levels, n_groups, d, d))
    scores = np.empty((levels, f))
    pivots = np.empty(f)
    widest = widest_feature(starts)
    child = np.empty(levels + 1, np.int64)

    if prefix.size:
        first = prefix[-1] + 1
        root = grams
        for m in range(prefix.size):
            grows = m + 1 < prefix.size or depth_limit > 1
            _include(root, stack[0], absent, tolerance, starts, widest, prefix[m], grows)
            root = stack[0]
    else:
        first = ZERO
        stack[0] = grams
    out[0] = offset
    for g in range(n_groups):
        pivot = stack[0, g, last, last]
        out[0] += weights[g] * np.log(pivot) if pivot >= tolerance else np.nan
    members[0, :] = -1
    copy_into(members[0, : prefix.size], prefix)
    count = 1
    level = 0 if depth_limit > 0 else -1
    child[0] = first
    _score_children(stack[0], absent, weights, offset, tolerance, starts, widest, first, pivots, scores[0])
    while level >= 0:
        j = child[level]
        if j == f:
            level -= 1
            continue
        child[level] = j + 1
        out[count] = scores[level, j]
        members[count, :] = -1
        copy_into(members[count, : prefix.size], prefix)
        for m in range(level + 1):
            members[count, prefix.size + m] = child[m] - 1
        count += 1
        if level + 1 < depth_limit and j + 1 < f:
            _include(stack[level], stack[level + 1], absent, tolerance, starts, widest, j, level + 2 < depth_limit)
            level += 1
            child[level] = j + 1
            _score_children(
                stack[level], absent, weights, offset, tolerance, starts, widest, j + 1, pivots, scores[level]
            )
    settle(out, weights)
