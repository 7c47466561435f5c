"""Random deviations of coefficients between environments: log Λ and the score test of many subsets,
from moments.

y_e = W_e (β + T u_e) + ε, u_e ~ Normal(0, share · Var ε · I), W = (1, x − x̄) and T such that
(WT)'WT = N/k · I. Of an environment K = T'W_e'W_e T, c = T'W_e'r and q = r'r, r being what the
pooled fit leaves, in units of r'r. All of them are entries of one symmetric matrix,

    K   c
    c'  q

an array (k + 1, k + 1, E). Environments are its last axis, so that arithmetic runs over all of
them at once. Sweeping (Goodnight 1979, doi 10.2307/2683825) the first
k of its rows gives −K⁻¹, K⁻¹c and q − c'K⁻¹c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import ZERO, copy_into, kernel

# The first share that is tried, times what the largest environment says of it; the next is so many
# times as large.
_FIRST_SHARE = 0.25
_RATIO = 32.0
_MOST_TRIED = 12
_MOST_ROOT_STEPS = 60
# Of the log-likelihood, what is left to gain.
_GAIN_TO_STOP = 1e-11
# Of what the pooled fit leaves: with less, rounding decides between shares.
_LEAST_LEFT = 1e-10
# Share times what an environment says of it, below which it counts as 0.
_NEGLIGIBLE_SHARE = 1e-8
# Columns of the figures
LOG_RATIO, SHARE, NOISE, GAIN, RANK, SCORE, ONE, TWO, THREE = range(N_FIGURES := 9)


class DeviationProducts(NamedTuple):
    """products (d + 1, d + 1, E): of a constant and d columns in each environment, measured from
    the pooled means and scaled to unit length over all rows; pooled (d + 1, d + 1): their sum;
    outcome: its place; n_rows; spent: degrees of freedom that all fits take besides those of their
    rank; tolerance: smallest share of a column that others may leave"""

    products: np.ndarray
    pooled: np.ndarray
    outcome: int
    n_rows: int
    spent: int
    tolerance: float


@kernel(fastmath={"contract", "reassoc"})
def _dot(values, others, k):
    """Of the first k rows of arrays (m, n)"""
    total = 0.0
    for a in range(k):
        for e in range(values.shape[1]):
            total += values[a, e] * others[a, e]
    return total


@kernel(fastmath={"contract"})
def _add(values, factor, others):
    for e in range(values.size):
        values[e] += factor * others[e]


@kernel(fastmath={"contract"})
def sweep_each(matrix, k, volume):
    """Sweep the first k rows of symmetric matrices (m, m, E), of which lower triangles are read;
    volume (E,) is multiplied by the pivots."""
    m = matrix.shape[0]
    row = np.empty(matrix.shape[1:])
    scaled = np.empty(volume.size)
    for j in range(k):
        pivot = matrix[j, j].copy()
        volume *= pivot
        for a in range(m):
            values = matrix[max(a, j), min(a, j)]
            copy_into(row[a], values)
            values *= 0.0
        row[j] = -1.0
        for a in range(m):
            for e in range(volume.size):
                scaled[e] = row[a, e] / pivot[e]
            for b in range(a + 1):
                values = matrix[a, b]
                for e in range(volume.size):
                    values[e] -= scaled[e] * row[b, e]
    for a in range(m):
        for b in range(a):
            copy_into(matrix[b, a], matrix[a, b])


@kernel
def pooled_root(pooled, places, tolerance):
    """Lower triangular factor (r, r) of those columns of products (d, d) that others before them in
    `places` do not give, and their places (r,)"""
    root = np.zeros((places.size, places.size))
    used = np.empty(places.size, np.int64)
    rank = ZERO
    for place in places:
        left = pooled[place, place]
        for a in range(rank):
            entry = pooled[used[a], place]
            for b in range(a):
                entry -= root[a, b] * root[rank, b]
            root[rank, a] = entry / root[a, a]
            left -= root[rank, a] ** 2
        if left > tolerance * pooled[place, place]:
            root[rank, rank] = np.sqrt(left)
            used[rank] = place
            rank += 1
    return root[:rank, :rank].copy(), used[:rank]


@kernel
def pooled_slopes(sites, starts, places):
    """(S, d) of least squares over all rows on the places of each subset, of which the last is that
    of the outcome; 0 for the others"""
    slopes = np.zeros((starts.size - 1, sites.pooled.shape[0]))
    for s in range(starts.size - 1):
        root, used = pooled_root(sites.pooled, places[starts[s] : starts[s + 1]], sites.tolerance)
        for a in range(used.size - 2, -1, -1):
            value = root[-1, a]
            for b in range(a + 1, used.size - 1):
                value -= root[b, a] * slopes[s, used[b]]
            slopes[s, used[a]] = value / root[a, a]
    return slopes


@kernel(fastmath={"contract"})
def _solve_lower(root, rows):
    """Solve with a lower factor (m, m), in place of rows (m, n)."""
    for a in range(root.shape[0]):
        values = rows[a]
        for b in range(a):
            _add(values, -root[a, b], rows[b])
        for e in range(values.size):
            values[e] /= root[a, a]


@kernel
def residual_products(sites, root, used):
    """Matrices (k + 1, k + 1, E) of what the pooled fit leaves, from `pooled_root` of k columns and
    the outcome"""
    n = sites.products.shape[2]
    m = used.size
    k = m - 1
    # In coordinates where the pooled products of the columns are those of all rows over k.
    root[:, :k] *= np.sqrt(k / sites.n_rows)
    bound = np.empty((m, m, n))
    for a in range(m):
        for b in range(m):
            copy_into(bound[a, b], sites.products[used[a], used[b]])
        _solve_lower(root, bound[a])
    _solve_lower(root, bound.reshape(m, m * n))
    return bound


@kernel
def _whitened(bound, share):
    """Matrices of K, c and q after whitening, KV, Vc and q − share · c'Vc with V = (I + share ·
    K)⁻¹, and Σ log |I + share · K|"""
    k = bound.shape[0] - 1
    volume = np.ones(bound.shape[2])
    if share == 0.0:
        return bound.copy(), 0.0
    matrix = share * bound
    for a in range(k):
        matrix[a, a] += 1.0
    sweep_each(matrix, k, volume)
    for a in range(k):
        matrix[a, a] += 1.0
    matrix /= share
    return matrix, np.log(volume).sum()


@kernel
def _generalised_fit(matrix):
    """Of generalised least squares b at a share, after `_whitened`: the total of the matrices with
    its first k rows swept, which has what the fit leaves last, Σ tr K and Σ‖c − Kb‖²"""
    m, _, n = matrix.shape
    k = m - 1
    one = np.ones((1, n))
    total = np.empty((m, m, 1))
    trace = 0.0
    for a in range(m):
        for b in range(m):
            total[a, b, 0] = _dot(matrix[a, b : b + 1], one, 1)
        trace += total[a, a, 0] if a < k else 0.0
    sweep_each(total, k, one[0, :1])
    missed = matrix[k].copy()
    for a in range(k):
        for b in range(k):
            _add(missed[a], -total[k, b, 0], matrix[a, b])
    return total, trace, _dot(missed, missed, k)


@kernel
def _profile(bound, share, n_rows):
    """Log-likelihood at a share, up to a constant, its derivative by the share, and what is left of
    the outcome, in units of the pooled fit's"""
    matrix, volume = _whitened(bound, share)
    total, trace, squares = _generalised_fit(matrix)
    left = total[-1, -1, 0]
    slope = 0.5 * (n_rows * squares / left - trace)
    return -0.5 * (n_rows * np.log(left) + volume), slope, left


@kernel
def _trace(matrix, other):
    """Of the product of matrices (k, k)"""
    total = 0.0
    for a in range(matrix.shape[0]):
        for b in range(matrix.shape[0]):
            total += matrix[a, b] * other[b, a]
    return total


@kernel
def _matrix_product(matrix, other):
    product = np.zeros(matrix.shape)
    for a in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            _add(product[a], matrix[a, j], other[j])
    return product


@kernel(fastmath={"contract"})
def _traces(matrix, total, trace):
    """Of C, C² and C³, C being the quadratic form of the score in the residuals, after
    `_generalised_fit`"""
    k = matrix.shape[0] - 1
    squared = np.zeros(matrix.shape)
    # Sums over the environments of the second to the fourth power.
    sums = np.empty((3, k, k))
    for a in range(k):
        for b in range(k):
            for j in range(k):
                for e in range(matrix.shape[2]):
                    squared[a, b, e] += matrix[a, j, e] * matrix[j, b, e]
    for a in range(k):
        for b in range(k):
            sums[0, a, b] = _dot(matrix[a], matrix[b], k)
            sums[1, a, b] = _dot(squared[a], matrix[b], k)
            sums[2, a, b] = _dot(squared[a], squared[b], k)
    inverse = -total[:k, :k, 0]
    second = _matrix_product(inverse, sums[0])
    third = _matrix_product(inverse, sums[1])
    return (
        trace - _trace(inverse, sums[0]),
        np.trace(sums[0] - 2.0 * third) + _trace(second, second),
        np.trace(sums[1])
        - 3.0 * _trace(inverse, sums[2])
        + 3.0 * _trace(second, third)
        - _trace(_matrix_product(second, second), second),
    )


@kernel
def _largest_information(bound):
    """That of an environment, on average over the columns"""
    k = bound.shape[0] - 1
    trace = np.zeros(bound.shape[2])
    for a in range(k):
        _add(trace, 1.0 / k, bound[a, a])
    return trace.max()


@kernel
def _best_share(bound, n_rows):
    """The share of the largest likelihood, and how far this is above that of none. Between a few
    shares, the first by what the largest environment says, the zero of the derivative by t = share
    / (share + scale) is looked for."""
    scale = 1.0 / _largest_information(bound)
    tried = np.zeros(_MOST_TRIED)
    values = np.empty(_MOST_TRIED)
    slopes = np.empty(_MOST_TRIED)
    k = ZERO
    best = ZERO
    while k < _MOST_TRIED:
        if k > 0:
            tried[k] = _FIRST_SHARE * scale if k == 1 else _RATIO * tried[k - 1]
        values[k], slopes[k], left = _profile(bound, tried[k], n_rows)
        if left < _LEAST_LEFT:
            break
        if values[k] > values[best]:
            best = k
        k += 1
        if slopes[k - 1] < 0.0 and tried[k - 1] > 1.0:
            break
    none = values[0]
    value = values[best]
    share = tried[best]
    # Where the likelihood rises at the best of these, its maximum is above; else below.
    a = best if slopes[best] > 0.0 else best - 1
    if a < 0 or a + 1 == k or not (slopes[a] > 0.0 and slopes[a + 1] < 0.0):
        return share, value - none
    ends = tried[a : a + 2] / (tried[a : a + 2] + scale)
    rises = slopes[a : a + 2] * scale / (1.0 - ends) ** 2
    side = -1
    for _ in range(_MOST_ROOT_STEPS):
        # False positions, by the Illinois rule.
        t = (ends[0] * rises[1] - ends[1] * rises[0]) / (rises[1] - rises[0])
        bend = (rises[0] - rises[1]) / (ends[1] - ends[0])
        now = scale * t / (1.0 - t)
        found, slope, _ = _profile(bound, now, n_rows)
        slope *= scale / (1.0 - t) ** 2
        if found > value:
            share = now
            value = found
        if slope**2 < _GAIN_TO_STOP * bend:
            break
        end = 0 if slope > 0.0 else 1
        if side == end:
            rises[1 - end] *= 0.5
        ends[end] = t
        rises[end] = slope
        side = end
    return share, value - none


@kernel
def score(bound, share):
    """The score statistic x'Cx/x'x where deviations have a share, and the traces of C, C² and
    C³"""
    asked = share if share * _largest_information(bound) > _NEGLIGIBLE_SHARE else 0.0
    matrix, _ = _whitened(bound, asked)
    total, trace, squares = _generalised_fit(matrix)
    return squares / total[-1, -1, 0], *_traces(matrix, total, trace)


@kernel
def deviation_figures(sites, starts, places, share, likelihood, out):
    """out (S, 9) of subsets of places of columns: log Λ, the share that maximises the likelihood
    and the variance of the noise then, in units of the outcome's sum of squares, NaN unless
    `likelihood`; the gain of the pooled fit over the empty one; the rank; the score statistic
    x'Cx/x'x where deviations have the given share (S,), and the traces of C, C² and C³, NaN where
    the share is. NaN where the outcome is determined, or no degree of freedom is left. The last
    place of each subset is that of the outcome."""
    y = sites.outcome
    for s in range(starts.size - 1):
        out[s] = np.nan
        root, used = pooled_root(sites.pooled, places[starts[s] : starts[s + 1]], sites.tolerance)
        decided = used.size > 0 and used[-1] == y
        rank = used.size - 1 if decided else used.size
        out[s, RANK] = rank
        freedom = sites.n_rows - sites.spent - rank
        if not decided or freedom < 1:
            continue
        left = root[-1, -1] ** 2 / sites.pooled[y, y]
        out[s, GAIN] = -0.5 * sites.n_rows * np.log(left)
        if rank == 0:
            # Nothing deviates.
            out[s] = 0.0
            out[s, NOISE] = np.nan
            continue
        if not likelihood and np.isnan(share[s]):
            continue
        bound = residual_products(sites, root, used)
        if likelihood:
            best, gained = _best_share(bound, sites.n_rows)
            out[s, SHARE] = best
            out[s, LOG_RATIO] = -max(gained, 0.0)
            out[s, NOISE] = left * _profile(bound, best, sites.n_rows)[2] / freedom
        if not np.isnan(share[s]):
            out[s, SCORE], out[s, ONE], out[s, TWO], out[s, THREE] = score(bound, share[s])
