"""Change of log Λ for adding or removing each single feature, from one factorisation of the active set per group."""

import numpy as np

from .compiled import kernel
from .elementary import add_weighted_log


@kernel(fastmath={"contract"})
def _forward_rows(scatter, scale, active, lower, rows):
    """Cholesky of the active columns' scaled second moments, and rows = L⁻¹ · (active × all columns).

    Returns the smallest squared pivot.
    """
    d = scatter.shape[0]
    smallest = 1.0
    for i in range(active.size):
        a = active[i]
        row = rows[i]
        for j in range(d):
            row[j] = scatter[a, j] * scale[a] * scale[j]
        for m in range(i):
            factor = rows[m, a]
            lower[i, m] = factor
            for j in range(d):
                row[j] -= factor * rows[m, j]
        pivot = row[a]
        smallest = min(smallest, pivot)
        lower[i, i] = np.sqrt(pivot)
        for j in range(d):
            row[j] /= lower[i, i]
    return smallest


@kernel(fastmath={"contract"})
def _invert_lower(lower, k, inverse):
    for j in range(k):
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, k):
            total = 0.0
            for m in range(j, i):
                total += lower[i, m] * inverse[m, j]
            inverse[i, j] = -total / lower[i, i]


@kernel
def flip_changes(scatter, inverse_scale, outcome, weights, tolerance, members, change):
    """change[j] = log Λ after flipping column j minus log Λ of `members`; NaN where undecidable.

    All of `change` is NaN when `members` itself is undecidable. The outcome's own entry is meaningless.
    """
    n_groups, d, _ = scatter.shape
    size = members.size
    rows = np.empty((size, d))
    lower = np.zeros((size, size))
    inverse = np.zeros((size, size))
    remaining = np.empty(d)
    covariance = np.empty(d)
    ratio = np.empty(d)
    change[:] = 0.0
    for g in range(n_groups):
        scale = inverse_scale[g]
        active = members[scale[members] > 0.0]
        k = active.size
        if _forward_rows(scatter[g], scale, active, lower, rows) < tolerance:
            change[:] = np.nan
            return
        for j in range(d):
            remaining[j] = 1.0
            covariance[j] = scatter[g, j, outcome] * scale[j] * scale[outcome]
        for i in range(k):
            for j in range(d):
                remaining[j] -= rows[i, j] * rows[i, j]
                covariance[j] -= rows[i, j] * rows[i, outcome]
        residual = remaining[outcome]
        if not residual >= tolerance:
            change[:] = np.nan
            return
        for j in range(d):
            after = residual - covariance[j] * covariance[j] / remaining[j]
            decidable = remaining[j] >= tolerance and after >= tolerance
            ratio[j] = after / residual if decidable else np.nan
        for j in range(d):
            if scale[j] == 0.0:
                ratio[j] = 1.0
        _invert_lower(lower, k, inverse)
        for j in range(k):
            coefficient = 0.0
            precision = 0.0
            for i in range(j, k):
                coefficient += inverse[i, j] * rows[i, outcome]
                precision += inverse[i, j] * inverse[i, j]
            ratio[active[j]] = 1.0 + coefficient * coefficient / (precision * residual)
        ratio[outcome] = 1.0
        add_weighted_log(change, weights[g], ratio)
