"""Environments compared by shape: pooled least squares on the columns of some features, then, in
each environment, an intercept and one slope on what every feature contributes to that fit."""

import numpy as np

from .cholesky import fill_triangle, solve_swept, sweep_first, to_unit_diagonal
from .compiled import kernel


@kernel
def component_shares(grams, owner_starts, varies, tolerance, starts, members, shares, ranks):
    """shares[s, g] = what subset s leaves of the outcome in environment g and, last, in the pool;
    NaN where second moments cannot decide. ranks[s, g] = how many of its features contribute there;
    in the pool, of its columns. grams (G, q+1, q+1): second moments of q columns and the outcome in
    each environment and, last, in the pool, all divided by the pooled scale; 0 for a column that
    adds nothing to the pool. Feature j is owner_starts[j]:owner_starts[j+1]; varies (G − 1, p):
    whether it does in each environment. Subset s is members[starts[s]:starts[s+1]]."""
    n_local = grams.shape[0] - 1
    outcome = grams.shape[1] - 1
    matrix = np.empty((outcome + 1, outcome + 1))
    slopes = np.empty(outcome + 1)
    columns = np.empty(outcome + 1, np.int64)
    ends = np.empty(varies.shape[1] + 2, np.int64)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = _gather(grams[-1], owner_starts, subset, columns, ends)
        shares[s] = np.nan
        ranks[s, n_local] = k
        fill_triangle(grams[-1], columns[:k], outcome, matrix)
        decided = sweep_first(matrix, k, k, tolerance) and matrix[k, k] >= tolerance
        if decided:
            solve_swept(matrix, slopes[:k])
            slopes[k] = 1.0
            shares[s, n_local] = matrix[k, k]
        for g in range(n_local):
            ranks[s, g] = np.count_nonzero(varies[g][subset])
            if decided:
                shares[s, g] = _local_share(
                    grams[g], columns, ends, varies[g], subset, slopes, tolerance, matrix
                )


@kernel
def _gather(pooled, owner_starts, subset, columns, ends):
    """The columns of a subset that are in the pool, one feature after the other, and the outcome;
    ends[i]: where those of its i-th feature begin. Returns their number, without the outcome."""
    k = 0
    for i in range(subset.size):
        ends[i] = k
        for column in range(owner_starts[subset[i]], owner_starts[subset[i] + 1]):
            if pooled[column, column] > 0.0:
                columns[k] = column
                k += 1
    columns[k] = pooled.shape[0] - 1
    ends[subset.size] = k
    ends[subset.size + 1] = k + 1
    return k


@kernel
def _local_share(gram, columns, ends, varies, subset, slopes, tolerance, matrix):
    """What the contributions of the features that vary in one environment leave of the outcome
    there."""
    m = 0
    used = np.empty(subset.size + 1, np.int64)
    for i in range(subset.size):
        if varies[subset[i]]:
            used[m] = i
            m += 1
    used[m] = subset.size
    for a in range(m + 1):
        first = ends[used[a]]
        stop = ends[used[a] + 1]
        for b in range(a, m + 1):
            matrix[a, b] = 0.0
            for i in range(first, stop):
                inner = 0.0
                for j in range(ends[used[b]], ends[used[b] + 1]):
                    inner += gram[columns[i], columns[j]] * slopes[j]
                matrix[a, b] += slopes[i] * inner
        largest = 0.0
        for c in range(first, stop):
            largest += abs(slopes[c]) * np.sqrt(gram[columns[c], columns[c]])
        # Columns that nearly cancel here leave rounding only.
        if not matrix[a, a] >= tolerance * largest * largest or largest == 0.0:
            return np.nan
    to_unit_diagonal(matrix, m + 1, m)
    return (
        matrix[m, m]
        if sweep_first(matrix, m, m, tolerance) and matrix[m, m] >= tolerance
        else np.nan
    )


def component_overlaps(grams, owner_starts, varies, masks):
    """(S, E) how many degrees of freedom of each environment the pooled fit of subsets masks (S, p)
    takes beyond one slope on each component: the trace of its hat matrix there, less that part of
    it that the components span. Arrays are as of `component_shares`, which decides all of these
    subsets."""
    owners = np.repeat(np.arange(masks.shape[1]), np.diff(owner_starts))
    present = np.diagonal(grams[-1])[:-1] > 0.0
    overlaps = np.empty((len(masks), len(varies)))
    for s, mask in enumerate(masks):
        columns = np.flatnonzero(mask[owners] & present)
        inverse = np.linalg.inv(grams[-1][np.ix_(columns, columns)])
        slopes = inverse @ grams[-1, columns, -1]
        components = slopes[:, None] * (owners[columns, None] == np.flatnonzero(mask))
        local = grams[:-1, columns[:, None], columns]
        used = varies[:, mask]
        products = local @ components * used[:, None]
        inner = components.T @ products
        # Components may differ in size by many digits; those that are constant in an environment
        # span nothing there.
        scale = 1.0 / np.sqrt(np.where(used, np.diagonal(inner, axis1=1, axis2=2), 1.0)) * used
        products *= scale[:, None]
        inner = (
            inner * scale[:, :, None] * scale[:, None] + np.eye(used.shape[1]) * ~used[:, :, None]
        )
        spanned = (inverse @ products) * (products @ np.linalg.inv(inner))
        overlaps[s] = (inverse * local).sum(axis=(1, 2)) - spanned.sum(axis=(1, 2))
    return overlaps
