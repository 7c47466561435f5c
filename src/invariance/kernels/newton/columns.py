"""Sums over columns of rows: linear predictors, scores, second derivatives."""

import numpy as np

from ..compiled import kernel

REORDERED = {"reassoc", "contract", "nsz"}

# Indices that might be negative would have to be looked at one by one.
unsigned = np.uint64


@kernel(fastmath=REORDERED)
def add_predictor(columns, members, k, theta, first, n, eta):
    """eta[:n] += Σ_a theta[a]·columns[members[a], first : first + n] over the first k members

    Four columns at a time, so that eta is loaded and stored less often.
    """
    first, n = unsigned(first), unsigned(n)
    a = 0
    while a + 4 <= k:
        c0, c1, c2, c3 = members[a], members[a + 1], members[a + 2], members[a + 3]
        s0, s1, s2, s3 = theta[a], theta[a + 1], theta[a + 2], theta[a + 3]
        for i in range(n):
            at = first + i
            eta[i] += s0 * columns[c0, at] + s1 * columns[c1, at] + s2 * columns[c2, at] + s3 * columns[c3, at]
        a += 4
    while a < k:
        c0, s0 = members[a], theta[a]
        for i in range(n):
            eta[i] += s0 * columns[c0, first + i]
        a += 1


@kernel(fastmath=REORDERED)
def add_score(columns, members, k, first, n, residual, score):
    """score += X'residual over n rows, X the first k members."""
    first, n = unsigned(first), unsigned(n)
    a = 0
    while a + 4 <= k:
        c0, c1, c2, c3 = members[a], members[a + 1], members[a + 2], members[a + 3]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            value, at = residual[i], first + i
            t0 += value * columns[c0, at]
            t1 += value * columns[c1, at]
            t2 += value * columns[c2, at]
            t3 += value * columns[c3, at]
        score[a] += t0
        score[a + 1] += t1
        score[a + 2] += t2
        score[a + 3] += t3
        a += 4
    while a < k:
        c0, t0 = members[a], 0.0
        for i in range(n):
            t0 += columns[c0, first + i] * residual[i]
        score[a] += t0
        a += 1


@kernel(fastmath=REORDERED)
def add_hessian(columns, members, k, first, n, curvature, scaled, hessian):
    """hessian += X'·curvature·X over n rows, in its lower triangle.

    Four columns at a time, so that what is loaded of one row serves several sums.
    """
    first, n = unsigned(first), unsigned(n)
    for a in range(k):
        c = members[a]
        for i in range(n):
            scaled[i] = curvature[i] * columns[c, first + i]
        b = 0
        while b + 3 <= a:
            c0, c1, c2, c3 = members[b], members[b + 1], members[b + 2], members[b + 3]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                value = scaled[i]
                t0 += value * columns[c0, first + i]
                t1 += value * columns[c1, first + i]
                t2 += value * columns[c2, first + i]
                t3 += value * columns[c3, first + i]
            hessian[a, b] += t0
            hessian[a, b + 1] += t1
            hessian[a, b + 2] += t2
            hessian[a, b + 3] += t3
            b += 4
        while b <= a:
            c0, t0 = members[b], 0.0
            for i in range(n):
                t0 += scaled[i] * columns[c0, first + i]
            hessian[a, b] += t0
            b += 1
