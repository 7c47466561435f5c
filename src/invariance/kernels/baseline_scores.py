"""What ICP tests: means and scatters of pooled residuals per environment, for listed subsets.

A list of subsets is (starts, members): subset s holds the features members[starts[s]:starts[s+1]], ascending.
"""

from __future__ import annotations

import numpy as np

from .compiled import copy_into, kernel, longest
from .row_residuals import dot, triangular_factor


@kernel
def _solve(factor, tolerance, beta):
    """beta (k,) becomes the solution b of A b = beta, A the lower triangle of factor (k, k), which becomes its Cholesky
    factor. Returns whether all pivots are above `tolerance` times their entry of A, and b'A b."""
    k, decided, squares = beta.size, True, 0.0
    for i in range(k):
        smallest = tolerance * factor[i, i]
        for j in range(i + 1):
            value = factor[i, j]
            for m in range(j):
                value -= factor[i, m] * factor[j, m]
            factor[i, j] = value / factor[j, j] if j < i else np.sqrt(value)
            decided &= j < i or value > smallest
    for i in range(k):
        for m in range(i):
            beta[i] -= factor[i, m] * beta[m]
        beta[i] /= factor[i, i]
        squares += beta[i] ** 2
    for i in range(k - 1, -1, -1):
        for m in range(i + 1, k):
            beta[i] -= factor[m, i] * beta[m]
        beta[i] /= factor[i, i]
    return decided, squares


@kernel
def residual_moments(gram, local, means, starts, members, tolerance, mean, scatter):
    """mean, scatter (S, E): of the residuals of the pooled fit in each environment; NaN where a pivot, or what
    cancellation leaves of a scatter, is below `tolerance`.

    gram (d, d): pooled scatter of [x, y] with unit diagonal; local (E, d, d), means (E, d): each environment's scatter
    and its mean's distance from the pooled mean, in the same units
    """
    n_environments, d = means.shape
    y = d - 1
    factor = np.empty((d, d))
    slopes = np.empty(d)
    for s in range(starts.size - 1):
        z = members[starts[s] : starts[s + 1]]
        k = z.size
        mean[s] = np.nan
        scatter[s] = np.nan
        beta = slopes[:k]
        for i in range(k):
            beta[i] = gram[z[i], y]
            for j in range(i + 1):
                factor[i, j] = gram[z[i], z[j]]
        if not _solve(factor, tolerance, beta)[0]:
            continue
        for e in range(n_environments):
            there = local[e]
            shift = means[e, y]
            total = there[y, y]
            size = np.sqrt(there[y, y])
            for i in range(k):
                shift -= beta[i] * means[e, z[i]]
                half = 0.5 * beta[i] * there[z[i], z[i]] - there[z[i], y]
                for j in range(i):
                    half += beta[j] * there[z[i], z[j]]
                total += 2.0 * beta[i] * half
                size += abs(beta[i]) * np.sqrt(there[z[i], z[i]])
            if not total >= tolerance * size * size:
                scatter[s] = np.nan
                break
            mean[s, e] = shift
            scatter[s, e] = total


@kernel
def residual_moments_by_rows(rows, ends, counts, starts, members, dependent, mean, scatter):
    """As residual_moments, by orthogonalising rows (d, m); a column that depends on earlier ones adds nothing.

    Positions ends[e-1]..ends[e]-1 belong to environment e, the last being its mean's distance from the pooled mean
    times the root of its count. Both are zero everywhere when the features determine the outcome.
    """
    d, m = rows.shape
    basis = np.empty((d, m))
    for s in range(starts.size - 1):
        k = 0
        for a in range(starts[s], starts[s + 1] + 1):
            v = basis[k]
            copy_into(v, rows[members[a] if a < starts[s + 1] else d - 1])
            for _ in range(2):
                for i in range(k):
                    projection = dot(basis[i], v)
                    for r in range(m):
                        v[r] -= projection * basis[i, r]
            squared = dot(v, v)
            if a < starts[s + 1] and squared >= dependent:
                v /= np.sqrt(squared)
                k += 1
        if squared < dependent:
            basis[k] = 0.0
        begin = 0
        for e in range(ends.size):
            last = ends[e] - 1
            mean[s, e] = basis[k, last] / np.sqrt(counts[e])
            scatter[s, e] = dot(basis[k, begin:last], basis[k, begin:last])
            begin = ends[e]


@kernel
def contrast_statistics(mean, scatter, counts, t, df, ratio):
    """Each environment's residuals against all others': Welch's t, its degrees of freedom, ratio of variances, (S, E).
    The others' moments are merged from those before and those after: nothing is found by subtraction."""
    n_subsets, n_environments = mean.shape
    total = counts.sum()
    after_mean = np.empty(n_environments + 1)
    after_scatter = np.empty(n_environments + 1)
    for s in range(n_subsets):
        after_count = 0.0
        after_mean[n_environments] = 0.0
        after_scatter[n_environments] = 0.0
        for e in range(n_environments - 1, 0, -1):
            n = after_count + counts[e]
            gap = mean[s, e] - after_mean[e + 1]
            after_mean[e] = after_mean[e + 1] + gap * counts[e] / n
            after_scatter[e] = after_scatter[e + 1] + scatter[s, e] + gap * gap * after_count * counts[e] / n
            after_count = n
        count, before_mean, before_scatter = 0.0, 0.0, 0.0
        for e in range(n_environments):
            here, others = counts[e], total - counts[e]
            rest = others - count
            gap = after_mean[e + 1] - before_mean
            other_mean = before_mean + gap * rest / others
            other_scatter = before_scatter + after_scatter[e + 1] + gap * gap * count * rest / others
            variance = scatter[s, e] / (here - 1.0)
            other_variance = other_scatter / (others - 1.0)
            a, b = variance / here, other_variance / others
            ratio[s, e] = variance / other_variance
            t[s, e] = abs(mean[s, e] - other_mean) / np.sqrt(a + b)
            share = a / (a + b)
            df[s, e] = 1.0 / (share * share / (here - 1.0) + (1.0 - share) ** 2 / (others - 1.0))
            n = count + here
            gap = mean[s, e] - before_mean
            before_mean += gap * here / n
            before_scatter += scatter[s, e] + gap * gap * count * here / n
            count = n


@kernel
def summarise_subsets(p_values, starts, members, alpha, outside, common):
    """outside[j]: raised to the largest p-value of a subset without j; common[j]: cleared by an accepted one."""
    p = outside.size
    inside = np.zeros(p, np.bool_)
    for s in range(p_values.size):
        z = members[starts[s] : starts[s + 1]]
        inside[z] = True
        for j in range(p):
            if not inside[j]:
                outside[j] = max(outside[j], p_values[s])
                if p_values[s] > alpha:
                    common[j] = False
        inside[z] = False


@kernel
def coefficient_hull(rows, n_rows, starts, members, dependent, quantile, lower, upper):
    """Widen lower, upper (p,) to the hull over the subsets of coefficient ± quantile·(standard error).

    rows (d, m): unit-norm columns of [x, y], whose products are the pooled scatter. A feature outside a subset has [0,
    0] there, one in an exact dependence [-inf, inf].
    """
    p = lower.size
    for s in range(starts.size - 1):
        z = members[starts[s] : starts[s + 1]]
        k = z.size
        chosen = np.empty(k + 1, np.int64)
        copy_into(chosen[:k], z)
        chosen[k] = p
        triangle, independent = triangular_factor(rows, chosen, dependent)
        kept = np.flatnonzero(independent[:k])
        rank = kept.size
        inverse = np.zeros((rank, rank))
        for j in range(rank):
            inverse[j, j] = 1.0 / triangle[kept[j], kept[j]]
            for i in range(j - 1, -1, -1):
                value = 0.0
                for m in range(i + 1, j + 1):
                    value += triangle[kept[i], kept[m]] * inverse[m, j]
                inverse[i, j] = -value / triangle[kept[i], kept[i]]
        deviation = abs(triangle[k, k]) / np.sqrt(n_rows - rank - 1.0)
        unbounded = np.zeros(k, np.bool_)
        for j in range(k):
            if not independent[j]:
                unbounded[j] = True
                for i in range(rank):
                    weight = 0.0
                    for m in range(i, rank):
                        weight += inverse[i, m] * triangle[kept[m], j]
                    unbounded[kept[i]] |= abs(weight) > 1e-8
        inside = np.zeros(p, np.bool_)
        inside[z] = True
        for j in range(p):
            if not inside[j]:
                lower[j] = min(lower[j], 0.0)
                upper[j] = max(upper[j], 0.0)
        for i in range(rank):
            beta, squares = 0.0, 0.0
            for m in range(i, rank):
                beta += inverse[i, m] * triangle[kept[m], k]
                squares += inverse[i, m] ** 2
            half = quantile * deviation * np.sqrt(squares)
            j = z[kept[i]]
            lower[j] = min(lower[j], beta - half)
            upper[j] = max(upper[j], beta + half)
        for j in range(k):
            if unbounded[j]:
                lower[z[j]] = -np.inf
                upper[z[j]] = np.inf


@kernel
def subset_losses(quadratic, penalty, linear, slope, constant, starts, members, tolerance, loss, beta):
    """loss[s] = min over β of ½β'Aβ − β'b + ½k of subset s; NaN where a scaled pivot of A is below `tolerance`.

    A subset z has A = quadratic[z, z] + Σ penalty[l][z, z], b = linear[z] + Σ slope[l][z], k = Σ constant[l], each sum
    over l in z. Shapes (p, p), (p, p, p), (p,), (p, p), (p,). beta (largest size,): the last subset's minimiser.
    """
    largest = longest(starts)
    factor = np.empty((largest, largest))
    for s in range(starts.size - 1):
        z = members[starts[s] : starts[s + 1]]
        k = z.size
        b, squares = beta[:k], 0.0
        for i in range(k):
            b[i] = linear[z[i]]
            squares += constant[z[i]]
            for j in range(i + 1):
                factor[i, j] = quadratic[z[i], z[j]]
        for m in range(k):
            added, added_slope = penalty[z[m]], slope[z[m]]
            for i in range(k):
                b[i] += added_slope[z[i]]
                row = added[z[i]]
                for j in range(i + 1):
                    factor[i, j] += row[z[j]]
        decided, fitted = _solve(factor, tolerance, b)
        loss[s] = 0.5 * (squares - fitted) if decided else np.nan
