"""What ICP and EILLS compute of listed subsets.

A list of subsets is (starts, members): subset s holds the columns members[starts[s]:starts[s+1]],
ascending.
"""

from __future__ import annotations

import numpy as np

from .cholesky import solve_swept, subset_slopes, sweep_first, to_unit_diagonal
from .compiled import kernel, longest
from .row_residuals import of_one_size, triangular_factor, triangular_factors


def residual_moments(gram, local, means, starts, members, tolerance):
    """mean, scatter (S, E): of the residuals of the pooled fit in each environment; NaN where a
    pivot, or what cancellation leaves of a scatter, is below `tolerance`. gram (d, d): pooled
    scatter of [x, y] with unit diagonal; local (E, d, d), means (E, d): each environment's scatter
    and its mean's distance from the pooled mean, in the same units"""
    slopes = subset_slopes(gram, tolerance, starts, members)
    outcome = len(gram) - 1
    spread = np.sqrt(np.diagonal(local, axis1=1, axis2=2))
    mean, scatter = np.empty((2, len(slopes), len(local)))
    for which, chosen in of_one_size(starts, members, lambda k: len(local) * (k + 1) ** 2):
        columns = np.column_stack([chosen, np.full(len(chosen), outcome)])
        residual = np.column_stack([-slopes[which[:, None], chosen], np.ones(len(chosen))])
        # No products of matrices: their rows round together.
        mean[which] = np.einsum("si,esi->se", residual, means[:, columns])
        products = np.einsum(
            "esij,sj->esi", local[:, columns[:, :, None], columns[:, None]], residual
        )
        scatter[which] = np.einsum("si,esi->se", residual, products)
        lengths = np.einsum("si,esi->se", np.abs(residual), spread[:, columns])
        unknown = which[~(scatter[which] >= tolerance * lengths**2).all(axis=1)]
        mean[unknown] = np.nan
        scatter[unknown] = np.nan
    return mean, scatter


def residual_moments_by_rows(rows, ends, counts, starts, members, dependent):
    """As residual_moments, by orthogonalising rows (d, m); a column that depends on earlier ones
    adds nothing. Places ends[e-1]..ends[e]-1 belong to environment e, the last being its mean's
    distance from the pooled mean times the root of its count. Both are zero everywhere when the
    features determine the outcome."""
    mean, scatter = np.empty((2, len(starts) - 1, len(ends)))
    begins = np.concatenate([[0], ends[:-1]])
    for s in range(len(starts) - 1):
        chosen = members[starts[s] : starts[s + 1]]
        basis = np.linalg.qr(rows[chosen[triangular_factor(rows, chosen, dependent)[1]]].T)[0]
        residual = rows[-1]
        for _ in range(2):
            residual = residual - basis @ (basis.T @ residual)
        if residual @ residual < dependent:
            residual = np.zeros_like(residual)
        mean[s] = residual[ends - 1] / np.sqrt(counts)
        scatter[s] = [
            residual[a : b - 1] @ residual[a : b - 1] for a, b in zip(begins, ends, strict=True)
        ]
    return mean, scatter


def contrast_statistics(mean, scatter, counts):
    """Each environment's residuals against all others': Welch's t, its degrees of freedom, ratio of
    variances, (S, E). Nothing is found by subtraction from the moments of all."""
    t, df, ratio = np.empty((3, *mean.shape))
    for e, here in enumerate(counts):
        rest = np.delete(np.arange(len(counts)), e)
        others = counts[rest].sum()
        other_mean = sum(counts[f] * mean[:, f] for f in rest) / others
        squares = sum(scatter[:, f] + counts[f] * (mean[:, f] - other_mean) ** 2 for f in rest)
        variance = scatter[:, e] / (here - 1.0)
        other_variance = squares / (others - 1.0)
        a = variance / here
        b = other_variance / others
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio[:, e] = variance / other_variance
            t[:, e] = np.abs(mean[:, e] - other_mean) / np.sqrt(a + b)
            share = a / (a + b)
        df[:, e] = 1.0 / (share**2 / (here - 1.0) + (1.0 - share) ** 2 / (others - 1.0))
    return t, df, ratio


def coefficient_hull(rows, n_rows, starts, members, dependent, quantile):
    """(2, p) hull over the subsets of coefficient ± quantile·(standard error). rows (d, m):
    unit-norm columns of [x, y], whose products are the pooled scatter. A feature outside a subset
    has [0, 0] there, one in an exact dependence [-inf, inf]."""
    d, m = rows.shape
    lower = np.full(d - 1, np.inf)
    upper = np.full(d - 1, -np.inf)
    held = np.bincount(members, minlength=d - 1)
    lower[held < len(starts) - 1] = upper[held < len(starts) - 1] = 0.0
    for _, chosen in of_one_size(starts, members, lambda k: (k + 1) * m):
        k = chosen.shape[1]
        with_outcome = np.column_stack([chosen, np.full(len(chosen), d - 1)])
        triangle, independent = triangular_factors(rows, with_outcome, dependent)
        kept = independent[:, :k]
        columns = triangle[:, :k, :k]
        own = np.where(kept[:, None], columns, 0.0) + np.eye(k) * ~kept[:, None]
        inverse = np.linalg.inv(own) * kept[:, None]
        beta = (inverse @ triangle[:, :k, k:])[:, :, 0]
        deviation = np.abs(triangle[:, k, k]) / np.sqrt(n_rows - kept.sum(axis=1) - 1.0)
        half = quantile * deviation[:, None] * np.sqrt((inverse**2).sum(axis=2))
        # Combinations of others, and what they are combinations of.
        weights = inverse @ np.where(kept[:, None], 0.0, columns)
        half[~kept | (np.abs(weights) > 1e-8).any(axis=2)] = np.inf
        np.minimum.at(lower, chosen, beta - half)
        np.maximum.at(upper, chosen, beta + half)
    return lower, upper


@kernel
def subset_losses(
    quadratic, penalty, linear, slope, constant, starts, members, tolerance, loss, beta
):
    """loss[s] = min over β of ½β'Aβ − β'b + ½k of subset s; NaN where a scaled pivot of A is below
    `tolerance`. A subset z has A = quadratic[z, z] + Σ penalty[l][z, z], b = linear[z] + Σ
    slope[l][z], k = Σ constant[l], each sum over l in z. Shapes (p, p), (p, p, p), (p,), (p, p),
    (p,). beta (largest size,): the last subset's minimiser."""
    matrix = np.empty((longest(starts) + 1, longest(starts) + 1))
    scale = np.empty(longest(starts))
    for s in range(starts.size - 1):
        z = members[starts[s] : starts[s + 1]]
        k = z.size
        matrix[k, k] = 0.0
        for i in range(k):
            matrix[i, k] = linear[z[i]]
            matrix[k, k] += constant[z[i]]
            for j in range(i, k):
                matrix[i, j] = quadratic[z[i], z[j]]
        for m in range(k):
            added = penalty[z[m]]
            added_slope = slope[z[m]]
            for i in range(k):
                matrix[i, k] += added_slope[z[i]]
                for j in range(i, k):
                    matrix[i, j] += added[z[i], z[j]]
        for i in range(k):
            scale[i] = np.sqrt(matrix[i, i])
        to_unit_diagonal(matrix, k, k)
        decided = sweep_first(matrix, k, k, tolerance)
        loss[s] = 0.5 * matrix[k, k] if decided else np.nan
        solve_swept(matrix, beta[:k])
        for i in range(k):
            beta[i] /= scale[i]
