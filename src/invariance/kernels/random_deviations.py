"""Random deviations of coefficients between environments: log Λ and the score test of many subsets,
from moments.

y_e = W_e (β + T u_e) + ε, u_e ~ Normal(0, share · Var ε · I), W = (1, x − x̄) and T such that
(WT)'WT = N/k · I. Of an environment K = T'W_e'W_e T, c = T'W_e'r and q = r'r, r being what the
pooled fit leaves. Environments are the last axis of every array, so that arithmetic runs over all
of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import ZERO, kernel, longest

# The first share that is tried, times what the largest environment says of it; the next is so many
# times as large.
_FIRST = 0.25
_RATIO = 32.0
_MOST_TRIED = 12
_MOST_STEPS = 60
# Of the log-likelihood, what is left to gain.
_ENOUGH = 1e-11
# Share times what an environment says of it, below which it counts as 0.
_NO_SHARE = 1e-8
# Columns of the figures
LOG_RATIO, SHARE, NOISE, GAIN, RANK, SCORE, ONE, TWO, THREE = range(N_FIGURES := 9)


class Sites(NamedTuple):
    """products (d + 1, d + 1, E): of a constant and d columns in each environment, measured from
    the pooled means and scaled to unit length over all rows; pooled (d + 1, d + 1): their sum;
    outcome: its place; n_rows; tolerance: smallest share of a column that others may leave"""

    products: np.ndarray
    pooled: np.ndarray
    outcome: int
    n_rows: int
    tolerance: float


class Work(NamedTuple):
    """Work space for k columns. small (8, k, k): the pooled factor; sums over environments of the
    powers 1 to 4 of whitened; the inverse of the first of these, and its products with the second
    and the third"""

    information: np.ndarray
    factor: np.ndarray
    whitened: np.ndarray
    squared: np.ndarray
    scores: np.ndarray
    moved: np.ndarray
    missed: np.ndarray
    squares: np.ndarray
    line: np.ndarray
    small: np.ndarray
    mean: np.ndarray
    used: np.ndarray


@kernel
def _work(k, n):
    return Work(
        np.empty((k, k, n)),
        np.empty((k, k, n)),
        np.empty((k, k, n)),
        np.empty((k, k, n)),
        np.empty((k, n)),
        np.empty((k, n)),
        np.empty((k, n)),
        np.empty(n),
        np.empty(n),
        np.empty((8, k, k)),
        np.empty(k),
        np.empty(k, np.int64),
    )


@kernel
def _pooled(sites, columns, work):
    """Fills root and used of the columns of a subset, without those that others give. Returns their
    rank and the share of the outcome that they leave, NaN where that is nothing."""
    pooled = sites.pooled
    y = sites.outcome
    root = work.small[0]
    used = work.used
    mean = work.mean
    rank = ZERO
    left = pooled[y, y]
    for place in range(columns.size + 1):
        j = ZERO if place == 0 else columns[place - 1] + 1
        pivot = pooled[j, j]
        for a in range(rank):
            entry = pooled[used[a], j]
            for b in range(a):
                entry -= root[a, b] * root[rank, b]
            root[rank, a] = entry / root[a, a]
            pivot -= root[rank, a] ** 2
        if pivot > sites.tolerance * pooled[j, j]:
            root[rank, rank] = np.sqrt(pivot)
            used[rank] = j
            rank += 1
    for a in range(rank):
        mean[a] = pooled[used[a], y]
        for b in range(a):
            mean[a] -= root[a, b] * mean[b]
        mean[a] /= root[a, a]
        left -= mean[a] ** 2
    return rank, left / pooled[y, y] if left > sites.tolerance * pooled[y, y] else np.nan


@kernel(fastmath={"contract"})
def _bound(sites, work, rank):
    """Fills information, scores and squares of what the pooled fit leaves, after `_pooled`"""
    products = sites.products
    y = sites.outcome
    n = sites.products.shape[2]
    root = work.small[0]
    used = work.used
    # In coordinates where the pooled products are the identity.
    K = work.information
    c = work.scores
    q = work.squares
    mean = work.mean
    for e in range(n):
        q[e] = products[y, y, e]
    for a in range(rank):
        for b in range(rank):
            for e in range(n):
                K[a, b, e] = products[used[a], used[b], e]
        for e in range(n):
            c[a, e] = products[used[a], y, e]
    for a in range(rank):
        for b in range(a):
            for j in range(rank):
                for e in range(n):
                    K[a, j, e] -= root[a, b] * K[b, j, e]
            for e in range(n):
                c[a, e] -= root[a, b] * c[b, e]
        unit = 1.0 / root[a, a]
        for j in range(rank):
            for e in range(n):
                K[a, j, e] *= unit
        for e in range(n):
            c[a, e] *= unit
    for a in range(rank):
        unit = 1.0 / root[a, a]
        for j in range(a, rank):
            for b in range(a):
                for e in range(n):
                    K[j, a, e] -= root[a, b] * K[j, b, e]
            for e in range(n):
                K[j, a, e] *= unit
                K[a, j, e] = K[j, a, e]
    # What the pooled fit leaves.
    for a in range(rank):
        for e in range(n):
            q[e] -= mean[a] * c[a, e]
        for b in range(rank):
            for e in range(n):
                c[a, e] -= K[a, b, e] * mean[b]
        for e in range(n):
            q[e] -= mean[a] * c[a, e]
    unit = sites.n_rows / rank
    for a in range(rank):
        for e in range(n):
            c[a, e] *= np.sqrt(unit)
            for b in range(rank):
                K[a, b, e] *= unit


@kernel(fastmath={"contract"})
def _factorise(work, rank, share, n):
    """Fills factor, below its diagonal that of I + share · K, on it 1 over that; line = log |I +
    share · K| / 2"""
    K = work.information
    L = work.factor
    line = work.line
    for e in range(n):
        line[e] = 1.0
    for a in range(rank):
        for b in range(a + 1):
            for e in range(n):
                L[a, b, e] = share * K[a, b, e]
            for j in range(b):
                for e in range(n):
                    L[a, b, e] -= L[a, j, e] * L[b, j, e]
            if b < a:
                for e in range(n):
                    L[a, b, e] *= L[b, b, e]
        for e in range(n):
            line[e] *= 1.0 + L[a, a, e]
            L[a, a, e] = 1.0 / np.sqrt(1.0 + L[a, a, e])
    for e in range(n):
        line[e] = 0.5 * np.log(line[e])


@kernel(fastmath={"contract"})
def _whiten(work, rank, share, n):
    """Fills whitened = VK = (I − V) / share and moved = Vc, V = (I + share · K)⁻¹; a share is 0, or
    so large that V differs from I"""
    K = work.information
    L = work.factor
    X = work.whitened
    c = work.scores
    moved = work.moved
    inverse = work.squared
    if share == 0.0:
        for a in range(rank):
            for e in range(n):
                moved[a, e] = c[a, e]
            for b in range(rank):
                for e in range(n):
                    X[a, b, e] = K[a, b, e]
        for e in range(n):
            work.line[e] = 0.0
        return
    _factorise(work, rank, share, n)
    unit = 1.0 / share
    for b in range(rank):
        for e in range(n):
            inverse[b, b, e] = L[b, b, e]
        for a in range(b + 1, rank):
            for e in range(n):
                inverse[a, b, e] = 0.0
            for j in range(b, a):
                for e in range(n):
                    inverse[a, b, e] -= L[a, j, e] * inverse[j, b, e]
            for e in range(n):
                inverse[a, b, e] *= L[a, a, e]
    for a in range(rank):
        for e in range(n):
            moved[a, e] = 0.0
    for a in range(rank):
        for b in range(a + 1):
            for e in range(n):
                X[a, b, e] = 0.0
            for j in range(a, rank):
                for e in range(n):
                    X[a, b, e] += inverse[j, a, e] * inverse[j, b, e]
            for e in range(n):
                moved[a, e] += X[a, b, e] * c[b, e]
            own = 1.0
            if b < a:
                own = 0.0
                for e in range(n):
                    moved[b, e] += X[a, b, e] * c[a, e]
            for e in range(n):
                X[a, b, e] = (own - X[a, b, e]) * unit
                X[b, a, e] = X[a, b, e]


@kernel(fastmath={"contract", "reassoc"})
def _sum(values, n):
    total = 0.0
    for e in range(n):
        total += values[e]
    return total


@kernel(fastmath={"contract", "reassoc"})
def _dot(values, others, n):
    total = 0.0
    for e in range(n):
        total += values[e] * others[e]
    return total


@kernel
def _invert(matrix, inverse, rank):
    """Of a positive definite matrix, by Gauss–Jordan steps on its diagonal"""
    for a in range(rank):
        for b in range(rank):
            inverse[a, b] = matrix[a, b]
    for j in range(rank):
        pivot = 1.0 / inverse[j, j]
        inverse[j, j] = 1.0
        for b in range(rank):
            inverse[j, b] *= pivot
        for a in range(rank):
            if a != j:
                factor = inverse[a, j]
                inverse[a, j] = 0.0
                for b in range(rank):
                    inverse[a, b] -= factor * inverse[j, b]


@kernel(fastmath={"contract"})
def _refit(work, rank, share, n):
    """Of generalised least squares at a share: what it leaves, Σ‖moved − whitened · b‖² and Σ log
    |I + share K| / 2, after `_whiten`; fills missed = moved − whitened · b and the inverse of the
    total of whitened"""
    X = work.whitened
    c = work.scores
    moved = work.moved
    missed = work.missed
    mean = work.mean
    total = work.small[1]
    inverse = work.small[5]
    left = _sum(work.squares, n)
    volume = _sum(work.line, n)
    for a in range(rank):
        mean[a] = _sum(moved[a], n)
        left -= share * _dot(c[a], moved[a], n)
        for b in range(a + 1):
            total[a, b] = total[b, a] = _sum(X[a, b], n)
    _invert(total, inverse, rank)
    squares = 0.0
    for a in range(rank):
        for e in range(n):
            missed[a, e] = moved[a, e]
    for b in range(rank):
        shift = 0.0
        for a in range(rank):
            shift += inverse[b, a] * mean[a]
        left -= shift * mean[b]
        for a in range(rank):
            for e in range(n):
                missed[a, e] -= X[a, b, e] * shift
    for a in range(rank):
        squares += _dot(missed[a], missed[a], n)
    return left, squares, volume


@kernel(fastmath={"contract"})
def _traces(work, rank, n):
    """Of C, C² and C³, C being the quadratic form of the score in the residuals, after `_refit`"""
    X = work.whitened
    two = work.squared
    line = work.line
    small = work.small
    inverse = small[5]
    first = small[6]
    second = small[7]
    for a in range(rank):
        for b in range(rank):
            for e in range(n):
                two[a, b, e] = 0.0
            for j in range(rank):
                for e in range(n):
                    two[a, b, e] += X[a, j, e] * X[j, b, e]
    for power in range(2, 5):
        for a in range(rank):
            for b in range(a + 1):
                for e in range(n):
                    line[e] = two[a, b, e] if power == 2 else 0.0
                if power > 2:
                    left = X if power == 3 else two
                    for j in range(rank):
                        for e in range(n):
                            line[e] += left[a, j, e] * two[j, b, e]
                small[power, a, b] = small[power, b, a] = _sum(line, n)
    one = 0.0
    square = 0.0
    cube = 0.0
    # first = P S₂, second = P S₃
    for a in range(rank):
        one += small[1, a, a]
        square += small[2, a, a]
        cube += small[3, a, a]
        for b in range(rank):
            first[a, b] = 0.0
            second[a, b] = 0.0
            for j in range(rank):
                first[a, b] += inverse[a, j] * small[2, j, b]
                second[a, b] += inverse[a, j] * small[3, j, b]
            cube -= 3.0 * inverse[a, b] * small[4, a, b]
    for a in range(rank):
        one -= first[a, a]
        square -= 2.0 * second[a, a]
        for b in range(rank):
            square += first[a, b] * first[b, a]
            cube += 3.0 * first[a, b] * second[b, a]
            for j in range(rank):
                cube -= first[a, b] * first[b, j] * first[j, a]
    return one, square, cube


@kernel
def _profile(work, rank, share, n, n_rows):
    """Log-likelihood at a share, up to a constant, and its derivative by the share"""
    _whiten(work, rank, share, n)
    left, squares, volume = _refit(work, rank, share, n)
    spent = 0.0
    for a in range(rank):
        spent += work.small[1, a, a]
    return -0.5 * n_rows * np.log(left) - volume, 0.5 * (n_rows * squares / left - spent)


@kernel
def _largest_information(work, rank, n):
    """That of an environment, on average over the columns"""
    largest = 0.0
    for e in range(n):
        trace = 0.0
        for a in range(rank):
            trace += work.information[a, a, e]
        largest = max(largest, trace / rank)
    return largest


@kernel
def _best_share(work, rank, n, n_rows):
    """The share of the largest likelihood, and how far this is above that of none. Between a few
    shares, the first by what the largest environment says, the zero of the derivative by t = share
    / (share + scale) is looked for."""
    scale = 1.0 / _largest_information(work, rank, n)
    tried = np.zeros(_MOST_TRIED)
    values = np.empty(_MOST_TRIED)
    slopes = np.empty(_MOST_TRIED)
    k = ZERO
    best = ZERO
    while k < _MOST_TRIED:
        if k > 0:
            tried[k] = _FIRST * scale if k == 1 else _RATIO * tried[k - 1]
        values[k], slopes[k] = _profile(work, rank, tried[k], n, n_rows)
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
    low = tried[a] / (tried[a] + scale)
    high = tried[a + 1] / (tried[a + 1] + scale)
    rises = slopes[a] * scale / (1.0 - low) ** 2
    falls = slopes[a + 1] * scale / (1.0 - high) ** 2
    side = 0
    for _ in range(_MOST_STEPS):
        # False positions, by the Illinois rule.
        t = (low * falls - high * rises) / (falls - rises)
        bend = (rises - falls) / (high - low)
        now = scale * t / (1.0 - t)
        found, slope = _profile(work, rank, now, n, n_rows)
        slope *= scale / (1.0 - t) ** 2
        if found > value:
            share = now
            value = found
        if slope**2 < _ENOUGH * bend:
            break
        if slope > 0.0:
            low = t
            rises = slope
            if side == 1:
                falls *= 0.5
            side = 1
        else:
            high = t
            falls = slope
            if side == -1:
                rises *= 0.5
            side = -1
    return share, value - none


@kernel
def deviation_figures(sites, starts, columns, share, likelihood, out):
    """out (S, 9) of subsets of columns: log Λ, the share that maximises the likelihood and the
    variance of the noise then, in units of the outcome's sum of squares, NaN unless `likelihood`;
    the gain of the pooled fit over the empty one; the rank; the score statistic x'Cx/x'x where
    deviations have the given share (S,), and the traces of C, C² and C³, NaN where the share is.
    NaN where the outcome is determined, or no degree of freedom is left."""
    n = sites.products.shape[2]
    work = _work(longest(starts) + 1, n)
    for s in range(starts.size - 1):
        for j in range(out.shape[1]):
            out[s, j] = np.nan
        rank, left = _pooled(sites, columns[starts[s] : starts[s + 1]], work)
        out[s, RANK] = rank
        freedom = sites.n_rows - rank
        if np.isnan(left) or freedom < 1:
            continue
        out[s, GAIN] = -0.5 * sites.n_rows * np.log(left)
        if likelihood or not np.isnan(share[s]):
            _bound(sites, work, rank)
        if likelihood:
            best, gained = _best_share(work, rank, n, sites.n_rows)
            out[s, SHARE] = best
            out[s, LOG_RATIO] = -max(gained, 0.0)
            _whiten(work, rank, best, n)
            out[s, NOISE] = _refit(work, rank, best, n)[0] / freedom
        if np.isnan(share[s]):
            continue
        given = share[s] if share[s] * _largest_information(work, rank, n) > _NO_SHARE else 0.0
        _whiten(work, rank, given, n)
        residual, squares, _ = _refit(work, rank, given, n)
        out[s, SCORE] = squares / residual
        out[s, ONE], out[s, TWO], out[s, THREE] = _traces(work, rank, n)
