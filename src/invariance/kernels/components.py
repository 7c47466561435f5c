"""Environments compared by shape: pooled least squares on the columns of some features, then, in each environment, an
intercept and one slope on what every feature contributes to that fit."""

import numpy as np

from .compiled import kernel
from .subset_tree import solve_swept, sweep_first


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
    k, outcome = columns.size, pooled.shape[0] - 1
    for i in range(k):
        for j in range(i, k):
            matrix[i, j] = pooled[columns[i], columns[j]]
        matrix[i, k] = pooled[columns[i], outcome]
    matrix[k, k] = pooled[outcome, outcome]
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
def component_overlaps(grams, owner_starts, varies, starts, members, decided, overlaps):
    """overlaps[s, g] = how many degrees of freedom of environment g the pooled fit of subset s takes beyond one slope
    on each component: the trace of its hat matrix there, less that part of it that the components span. Arrays are as
    of `component_shares`; subsets that are not decided (S,) are left as they are."""
    n_local, outcome, most = grams.shape[0] - 1, grams.shape[1] - 1, varies.shape[1]
    columns, ends, used = np.empty(outcome, np.int64), np.empty(most + 1, np.int64), np.empty(most, np.int64)
    inverse, slopes = np.empty((outcome, outcome)), np.empty(outcome)
    products, inner = np.empty((outcome, most)), np.empty((most, most))
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        if not decided[s]:
            continue
        k = _gather(grams[-1], owner_starts, subset, columns, ends)
        for i in range(k):
            for j in range(k):
                inverse[i, j] = grams[-1, columns[i], columns[j]]
        _invert(inverse, k)
        for i in range(k):
            slopes[i] = 0.0
            for j in range(k):
                slopes[i] += inverse[i, j] * grams[-1, columns[j], outcome]
        for g in range(n_local):
            m, trace = _used(varies[g], subset, used), 0.0
            for i in range(k):
                for j in range(k):
                    trace += inverse[i, j] * grams[g, columns[i], columns[j]]
            spanned = _spanned(inverse, grams[g], columns[:k], ends, used[:m], slopes, products, inner)
            overlaps[s, g] = trace - spanned


@kernel
def _spanned(inverse, gram, columns, ends, used, slopes, products, inner):
    """What the components of the features `used` span of the pooled fit in one environment: of their products with the
    columns, in the metric of the inverse, and of those with each other."""
    k, m = columns.size, used.size
    for a in range(m):
        for i in range(k):
            products[i, a] = 0.0
            for j in range(ends[used[a]], ends[used[a] + 1]):
                products[i, a] += gram[columns[i], columns[j]] * slopes[j]
    for a in range(m):
        for b in range(m):
            inner[a, b] = 0.0
            for i in range(ends[used[a]], ends[used[a] + 1]):
                inner[a, b] += slopes[i] * products[i, b]
    # Components may differ in size by many digits.
    for a in range(m):
        scale = 1.0 / np.sqrt(inner[a, a])
        for i in range(k):
            products[i, a] *= scale
        for b in range(m):
            inner[a, b] *= scale
            inner[b, a] *= scale
    _invert(inner, m)
    total = 0.0
    for i in range(k):
        for j in range(k):
            both = 0.0
            for a in range(m):
                for b in range(m):
                    both += products[i, a] * inner[a, b] * products[j, b]
            total += inverse[i, j] * both
    return total


@kernel
def _invert(matrix, n):
    """The first n rows and columns of a positive definite matrix, in place."""
    for pivot in range(n):
        reciprocal = 1.0 / matrix[pivot, pivot]
        matrix[pivot, pivot] = 1.0
        for j in range(n):
            matrix[pivot, j] *= reciprocal
        for i in range(n):
            if i != pivot:
                factor = matrix[i, pivot]
                matrix[i, pivot] = 0.0
                for j in range(n):
                    matrix[i, j] -= factor * matrix[pivot, j]


@kernel
def _used(varies, subset, used):
    """Which features of a subset vary in one environment, by their place in it. Returns their number."""
    n_used = 0
    for i in range(subset.size):
        if varies[subset[i]]:
            used[n_used] = i
            n_used += 1
    return n_used
