"""As `feasible_least_squares`, from the rows: for subsets that second moments cannot decide, and to check those that
they can.

The rows give the triangular factors of the environments. In coordinates where their weighted sum is the identity the
search for the pooled fit then loses no digits, however collinear the columns are.
"""

import numpy as np

from .compiled import kernel
from .feasible_least_squares import (
    EXACTLY,
    excess_at,
    fill_leverages,
    local_fits,
    packed_row,
    pooled_work,
    smallest_excess,
    supported,
)
from .orthogonal import DEPENDENT, dot, triangular_factor


@kernel
def _independent(rows, members):
    """Those of the columns `members` that are no combination of the ones before them over all rows."""
    pool = rows.starts.size - 1
    values = rows.values[:, rows.starts[pool] : rows.stops[pool]]
    return members[triangular_factor(values, members, DEPENDENT)[1]]


@kernel
def _fill(rows, moments, members, fits):
    """The local fits of the columns `members`, in the units of the moments."""
    k, y = members.size, moments.outcome
    with_outcome = np.append(members, y)
    for e in range(moments.counts.size):
        triangle, independent = triangular_factor(
            rows.values[:, rows.starts[e] : rows.stops[e]], with_outcome, DEPENDENT
        )
        root = np.sqrt(moments.counts[e])
        fits.factors[e, 0, 0] = root
        fits.targets[e, 0] = root * moments.gaps[e, y]
        outcome = np.sqrt(moments.scatter[e, y, y])
        for j in range(k):
            norm = np.sqrt(moments.scatter[e, members[j], members[j]])
            fits.factors[e, j + 1, 0] = root * moments.gaps[e, members[j]]
            for i in range(j + 1):
                fits.factors[e, j + 1, i + 1] = triangle[i, j] * norm
            fits.targets[e, j + 1] = triangle[j, k] * outcome
        fits.ranks[k, e] = np.count_nonzero(independent[:k])
        fits.rss[k, e] = (triangle[k, k] * outcome) ** 2


@kernel
def _whiten(counts, fits, k):
    """Change to coordinates where Σ_e n_e/RSS_e · R_e'R_e is the identity. Returns what brings a fit back."""
    m, n_environments = k + 1, counts.size
    stacked = np.zeros((m, n_environments * m))
    for e in range(n_environments):
        root = np.sqrt(counts[e] / fits.rss[k, e])
        for j in range(m):
            for t in range(j + 1):
                stacked[j, e * m + t] = root * fits.factors[e, j, t]
    norms = np.empty(m)
    for j in range(m):
        norms[j] = np.sqrt(dot(stacked[j], stacked[j]))
        stacked[j] /= norms[j]
    triangle = triangular_factor(stacked, np.arange(m), 0.0)[0] * norms
    for e in range(n_environments):
        factors = fits.factors[e]
        for j in range(m):
            for t in range(j + 1):
                for i in range(t, j):
                    factors[j, t] -= factors[i, t] * triangle[i, j]
                factors[j, t] /= triangle[j, j]
            products = packed_row(fits.grams[e], j)
            for i in range(j + 1):
                products[i] = dot(factors[j, : i + 1], factors[i, : i + 1])
    return triangle


@kernel
def _searched(rows, moments, members):
    """log Λ of columns that are independent over all rows, NaN outside the support; the local fits, the work space of
    the search and what brings its fit back to the units of the moments."""
    k = members.size
    fits, work = local_fits(moments.counts.size, k), pooled_work(moments.counts.size, k)
    _fill(rows, moments, members, fits)
    if not supported(moments, fits, k):
        return np.nan, fits, work, np.empty((0, 0))
    triangle = _whiten(moments.counts, fits, k)
    return -smallest_excess(moments.counts, fits, k, 0.0, EXACTLY, work), fits, work, triangle


@kernel
def score_lists_from_rows(rows, moments, starts, members, ratios, gains, squares, leverages):
    """As `score_lists`; NaN outside the support."""
    y = moments.outcome
    for s in range(starts.size - 1):
        columns = _independent(rows, members[starts[s] : starts[s + 1]])
        ratios[s], fits, work, _ = _searched(rows, moments, columns)
        gains[s], squares[s], leverages[s] = np.nan, np.nan, np.nan
        if ratios[s] == ratios[s]:
            excess_at(moments.counts, fits, columns.size, work.beta, work)
            gains[s], squares[s] = 0.0, work.squares
            for e in range(moments.counts.size):
                share = fits.rss[columns.size, e] / moments.scatter[e, y, y]
                gains[s] -= 0.5 * moments.counts[e] * np.log(share)
            fill_leverages(fits, columns.size, work, leverages[s])


@kernel
def fit_from_rows(rows, moments, members):
    """As `fit_from_moments`; slopes of columns that are combinations of those before them are 0."""
    columns = _independent(rows, members)
    ratio, fits, work, triangle = _searched(rows, moments, columns)
    beta = np.zeros(members.size + 1)
    if ratio != ratio:
        return np.full_like(beta, np.nan), work.squares
    excess_at(moments.counts, fits, columns.size, work.beta, work)
    slopes = work.beta.copy()
    for j in range(columns.size, -1, -1):
        slopes[j] /= triangle[j, j]
        for i in range(j):
            slopes[i] -= triangle[i, j] * slopes[j]
    beta[0] = slopes[0]
    place = 0
    for j in range(members.size):
        if place < columns.size and members[j] == columns[place]:
            place += 1
            beta[j + 1] = slopes[place]
    return beta, work.squares
