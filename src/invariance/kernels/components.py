"""Environments compared by shape: pooled least squares on the columns of some features, then, in each environment, an
intercept and one slope on what every feature contributes to that fit."""

import numpy as np

from .cholesky import fill_triangle, solve_swept, sweep_first
from .compiled import kernel


@kernel
def component_shares(grams, owner_starts, varies, tolerance, starts, members, shares, ranks):
    """shares[s, g] = what subset s leaves of the outcome in environment g and, last, in the pool; NaN where second
    moments cannot decide. ranks[s, g] = how many of its features contribute there; in the pool, of its columns.

    grams (G, q+1, q+1): second moments of q columns and the outcome in each environment and, last, in the pool, all
    divided by the pooled scale; 0 for a column that adds nothing to the pool. Feature j is
    owner_starts[j]:owner_starts[j+1]; varies (G − 1, p): whether it does in each environment. Subset s is
    members[starts[s]:starts[s+1]].
    """
    n_local, outcome = grams.shape[0] - 1, grams.shape[1] - 1
    matrix, slopes = np.empty((outcome + 1, outcome + 1)), np.empty(outcome)
    columns, ends = np.empty(outcome, np.int64), np.empty(varies.shape[1] + 1, np.int64)
    used, work = np.empty(varies.shape[1], np.int64), np.empty((varies.shape[1] + 1, varies.shape[1] + 1))
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = _gather(grams[-1], owner_starts, subset, columns, ends)
        shares[s, n_local] = _pooled_share(grams[-1], columns[:k], tolerance, matrix, slopes)
        ranks[s, n_local] = k
        decided = shares[s, n_local] == shares[s, n_local]
        for g in range(n_local):
            n_used = _used(varies[g], subset, used)
            ranks[s, g] = n_used
            shares[s, g] = np.nan
            if decided:
                shares[s, g] = _local_share(grams[g], columns, ends, used[:n_used], slopes, tolerance, work)


@kernel
def _gather(pooled, owner_starts, subset, columns, ends):
    """The columns of a subset that are in the pool, one feature after the other; ends[i]: where those of its i-th
    feature begin. Returns their number."""
    k = 0
    for i in range(subset.size):
        ends[i] = k
        for column in range(owner_starts[subset[i]], owner_starts[subset[i] + 1]):
            if pooled[column, column] > 0.0:
                columns[k] = column
                k += 1
    ends[subset.size] = k
    return k


@kernel
def _pooled_share(pooled, columns, tolerance, matrix, slopes):
    """What the columns leave of the outcome; slopes[:k]: of the fit."""
    k = columns.size
    fill_triangle(pooled, columns, pooled.shape[0] - 1, matrix)
    if not sweep_first(matrix, k, k, tolerance):
        return np.nan
    solve_swept(matrix, slopes[:k])
    return matrix[k, k] if matrix[k, k] >= tolerance else np.nan


@kernel
def _local_share(gram, columns, ends, used, slopes, tolerance, matrix):
    """What the contributions of the features `used` leave of the outcome in one environment."""
    m, outcome = used.size, gram.shape[0] - 1
    for a in range(m):
        first, stop = ends[used[a]], ends[used[a] + 1]
        for b in range(a, m):
            matrix[a, b] = _product(gram, columns, slopes, first, stop, ends[used[b]], ends[used[b] + 1])
        matrix[a, m] = 0.0
        largest = 0.0
        for i in range(first, stop):
            matrix[a, m] += slopes[i] * gram[columns[i], outcome]
            largest += abs(slopes[i]) * np.sqrt(gram[columns[i], columns[i]])
        # Columns that nearly cancel here leave rounding only.
        if not matrix[a, a] >= tolerance * largest * largest or largest == 0.0:
            return np.nan
    matrix[m, m] = gram[outcome, outcome]
    for a in range(m):
        scale = 1.0 / np.sqrt(matrix[a, a])
        for b in range(a, m + 1):
            matrix[a, b] *= scale
        for b in range(a + 1):
            matrix[b, a] *= scale
    whole = matrix[m, m]
    if not sweep_first(matrix, m, m, tolerance):
        return np.nan
    share = matrix[m, m] / whole
    return share if share >= tolerance else np.nan


@kernel
def _product(gram, columns, slopes, first, stop, other_first, other_stop):
    """Of the contributions of two features, whose columns are first:stop and other_first:other_stop."""
    total = 0.0
    for i in range(first, stop):
        row = gram[columns[i]]
        inner = 0.0
        for j in range(other_first, other_stop):
            inner += row[columns[j]] * slopes[j]
        total += slopes[i] * inner
    return total


@kernel
def _used(varies, subset, used):
    """Which features of a subset vary in one environment, by their place in it. Returns their number."""
    n_used = 0
    for i in range(subset.size):
        if varies[subset[i]]:
            used[n_used] = i
            n_used += 1
    return n_used


def component_overlaps(grams, owner_starts, varies, masks):
    """(S, E) how many degrees of freedom of each environment the pooled fit of subsets masks (S, p) takes beyond one
    slope on each component: the trace of its hat matrix there, less that part of it that the components span. Arrays
    are as of `component_shares`, which decides all of these subsets."""
    owners, present = np.repeat(np.arange(masks.shape[1]), np.diff(owner_starts)), np.diagonal(grams[-1])[:-1] > 0.0
    overlaps = np.empty((len(masks), len(varies)))
    for s, mask in enumerate(masks):
        columns = np.flatnonzero(mask[owners] & present)
        inverse = np.linalg.inv(grams[-1][np.ix_(columns, columns)])
        slopes = inverse @ grams[-1, columns, -1]
        components = slopes[:, None] * (owners[columns, None] == np.flatnonzero(mask))
        local, used = grams[:-1, columns[:, None], columns], varies[:, mask]
        products = local @ components * used[:, None]
        inner = components.T @ products
        # Components may differ in size by many digits; those that are constant in an environment span nothing there.
        scale = 1.0 / np.sqrt(np.where(used, np.diagonal(inner, axis1=1, axis2=2), 1.0)) * used
        products *= scale[:, None]
        inner = inner * scale[:, :, None] * scale[:, None] + np.eye(used.shape[1]) * ~used[:, :, None]
        spanned = (inverse @ products) * (products @ np.linalg.inv(inner))
        overlaps[s] = (inverse * local).sum(axis=(1, 2)) - spanned.sum(axis=(1, 2))
    return overlaps
