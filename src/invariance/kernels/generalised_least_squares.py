"""One linear fit for all environments, each with a variance of its own: feasible generalised least
squares.

The pooled log-likelihood, less that of the environments' own fits, is −½ Σ_e n_e log(1 +
q_e(β)/RSS_e), where RSS_e is what environment e's own fit leaves and q_e(β) ≥ 0 how far β is from
it. It is never above 0, whatever β is. The search for β starts from the weights n_e/RSS_e, so that
its result does not depend on the order of columns or subsets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cholesky import solve_swept, sweep_in_place
from .compiled import NO, YES, ZERO, copy_into, kernel
from .random_deviations import sweep_each
from .row_residuals import DEPENDENT, of_one_size, triangular_factors

# A Newton step that gains so small a share of 1 − log Λ is the last one, and what it gains is
# added: for all subsets, whose log Λ is then right to seven digits, and for those that are looked
# at one by one.
ENOUGH_OF_MANY = 1e-6
ENOUGH_OF_ONE = 1e-10
_MOST_NEWTON_STEPS = 100


class LocalMoments(NamedTuple):
    """What fits in E environments take of the rows, in common units. scatter (E, d, d): centred
    products; gaps (E, d): means, measured from those of all rows; present (E, d): whether a column
    varies there and is not given by the others of its feature; counts (E,); outcome: its column;
    tolerance: smallest decidable share of a column that others leave."""

    scatter: np.ndarray
    gaps: np.ndarray
    present: np.ndarray
    counts: np.ndarray
    outcome: int
    tolerance: float


class LocalFits(NamedTuple):
    """The fits of m - 1 columns, and a constant first, in each environment, as triangular factors
    R_e of the columns. factors (E, m, m): row j is column j of R_e; grams (E, m, m): R_e'R_e, of
    which lower triangles are read; targets (E, m): the outcome in the same coordinates; rss (m, E),
    ranks (m, E): of the first columns, NaN where undecidable"""

    factors: np.ndarray
    grams: np.ndarray
    targets: np.ndarray
    rss: np.ndarray
    ranks: np.ndarray


class PooledFit(NamedTuple):
    """squares (E,): RSS_e(beta); leverages (E,): tr((Σ_f A_f)⁻¹ A_e), A_e = weights[e] · R_e'R_e:
    how many of the m parameters come from environment e; beta (m,): the common fit. All NaN where
    undecidable. Work space: weights (E,): n_e over squares; expected (m, m): Σ_e A_e, and hessian
    (m, m): Newton's, from which is taken that weights follow the residuals, lower triangles;
    gradient, step, trial, residual, score (m,)."""

    squares: np.ndarray
    leverages: np.ndarray
    weights: np.ndarray
    expected: np.ndarray
    hessian: np.ndarray
    beta: np.ndarray
    gradient: np.ndarray
    step: np.ndarray
    trial: np.ndarray
    residual: np.ndarray
    score: np.ndarray


def _room(n_environments, m):
    """Return room for the fits of m - 1 columns and a constant, and for the pooled fit."""
    fits = LocalFits(
        *np.zeros((2, n_environments, m, m)),
        np.zeros((n_environments, m)),
        *np.zeros((2, m, n_environments)),
    )
    work = PooledFit(*np.zeros((3, n_environments)), *np.zeros((2, m, m)), *np.zeros((6, m)))
    return fits, work


@kernel(fastmath={"contract", "reassoc"})
def fit_environments(moments, members, shared, fits):
    """Fill the fits with those of the columns `members`, whose first `shared` they have already. A
    column that is not present in an environment has no pivot there."""
    y = moments.outcome
    for e in range(moments.counts.size):
        factors = fits.factors[e]
        targets = fits.targets[e]
        count = moments.counts[e]
        gaps = moments.gaps[e]
        factors[0, 0] = np.sqrt(count)
        fits.grams[e, 0, 0] = count
        targets[0] = factors[0, 0] * gaps[y]
        fits.rss[0, e] = moments.scatter[e, y, y]
        for j in range(shared + 1, members.size + 1):
            column = members[j - 1]
            scatter = moments.scatter[e, column]
            gap = gaps[column]
            row = factors[j]
            products = fits.grams[e, j]
            row[0] = factors[0, 0] * gap
            products[0] = count * gap
            left = scatter[column]
            target = scatter[y]
            for i in range(1, j):
                other = factors[i]
                product = scatter[members[i - 1]]
                products[i] = product + count * gap * gaps[members[i - 1]]
                for t in range(1, i):
                    product -= row[t] * other[t]
                row[i] = product / other[i] if other[i] > 0.0 else 0.0
                left -= row[i] * row[i]
                target -= row[i] * targets[i]
            products[j] = scatter[column] + count * gap * gap
            row[j] = 0.0
            targets[j] = 0.0
            fits.ranks[j, e] = fits.ranks[j - 1, e]
            if moments.present[e, column]:
                row[j] = np.sqrt(left) if left >= moments.tolerance * scatter[column] else np.nan
                targets[j] = target / row[j]
                fits.ranks[j, e] += 1.0
            rss = fits.rss[j - 1, e] - targets[j] * targets[j]
            fits.rss[j, e] = rss if rss >= moments.tolerance * moments.scatter[e, y, y] else np.nan


@kernel(fastmath={"contract", "reassoc"})
def evaluate_excess(counts, fits, k, beta, own, work):
    """½ Σ_e n_e log(RSS_e(beta)/RSS_e); leaves squares, weights, gradient and second derivatives at
    beta in `work`. own: with the weights of the environments' own fits, n_e/RSS_e"""
    m = k + 1
    excess = 0.0
    for j in range(m):
        work.gradient[j] = 0.0
        for i in range(j + 1):
            work.expected[j, i] = 0.0
            work.hessian[j, i] = 0.0
    residual = work.residual
    score = work.score
    for e in range(counts.size):
        factors = fits.factors[e]
        grams = fits.grams[e]
        for i in range(m):
            residual[i] = fits.targets[e, i]
        for j in range(m):
            slope = beta[j]
            row = factors[j]
            for i in range(j + 1):
                residual[i] -= row[i] * slope
        distance = 0.0
        for i in range(m):
            distance += residual[i] * residual[i]
        square = fits.rss[k, e] + (0.0 if own else distance)
        weight = counts[e] / square
        share = 2.0 * weight / square
        excess += 0.5 * counts[e] * np.log1p(distance / fits.rss[k, e])
        work.squares[e] = square
        work.weights[e] = weight
        for j in range(m):
            row = factors[j]
            total = 0.0
            for i in range(j + 1):
                total += row[i] * residual[i]
            score[j] = total
            work.gradient[j] += weight * total
            factor = share * total
            products = grams[j]
            expected = work.expected[j]
            hessian = work.hessian[j]
            for i in range(j + 1):
                entry = weight * products[i]
                expected[i] += entry
                hessian[i] += entry - factor * score[i]
    return excess


@kernel
def _solve_positive(matrix, right, m, tolerance, solution):
    """solution (m,) of matrix · solution = right, of a lower triangle; returns ½ right · solution,
    NaN where a pivot is too small a share of its entry."""
    upper = np.zeros((m + 1, m + 1))
    for j in range(m):
        upper[j, m] = right[j]
        for i in range(j + 1):
            upper[i, j] = matrix[j, i]
    for j in range(m):
        if not upper[j, j] > tolerance * matrix[j, j]:
            return np.nan
        sweep_in_place(upper, j, m, 1.0 / upper[j, j])
    solve_swept(upper, solution[:m])
    return -0.5 * upper[m, m]


@kernel
def _excess_after_step(counts, fits, m, work):
    """The excess after a step"""
    for j in range(m):
        work.trial[j] = work.beta[j] + work.step[j]
    return evaluate_excess(counts, fits, m - 1, work.trial, NO, work)


@kernel
def smallest_excess(counts, fits, k, tolerance, enough, work):
    """−log Λ of the first k columns of the fits: the smallest excess of a common beta; NaN where
    undecidable. enough: see ENOUGH_OF_MANY. Newton's step is taken where it leads down, otherwise
    that of weighted least squares, which always does. Only where Newton's is possible may the
    search end: elsewhere small steps may pass a saddle."""
    m = k + 1
    work.beta[:] = 0.0
    evaluate_excess(counts, fits, k, work.beta, YES, work)
    gain = _solve_positive(work.expected, work.gradient, m, tolerance, work.beta)
    if counts.size == 1 or gain != gain:
        return 0.0 * gain
    excess = evaluate_excess(counts, fits, k, work.beta, NO, work)
    for _ in range(_MOST_NEWTON_STEPS):
        gain = _solve_positive(work.hessian, work.gradient, m, tolerance, work.step)
        by_newton = gain == gain
        if by_newton and gain <= enough * (1.0 + excess):
            for j in range(m):
                work.beta[j] += work.step[j]
            return max(excess - gain, 0.0)
        after = _excess_after_step(counts, fits, m, work) if by_newton else excess
        if not after < excess:
            if by_newton:
                evaluate_excess(counts, fits, k, work.beta, NO, work)
            gain = _solve_positive(work.expected, work.gradient, m, tolerance, work.step)
            if gain != gain:
                return np.nan
            after = _excess_after_step(counts, fits, m, work)
        excess = after
        copy_into(work.beta[:m], work.trial)
    return excess


@kernel
def _fill_leverages(fits, m, work):
    inverse = np.empty((m, m, 1))
    for j in range(m):
        for i in range(j + 1):
            inverse[j, i, 0] = work.expected[j, i]
    sweep_each(inverse, m, np.ones(1))
    for e in range(work.leverages.size):
        total = 0.0
        for j in range(m):
            total += fits.grams[e, j, j] * inverse[j, j, 0]
            for i in range(j):
                total += 2.0 * fits.grams[e, j, i] * inverse[j, i, 0]
        work.leverages[e] = -work.weights[e] * total


@kernel
def score_local_fits(moments, fits, k, tolerance, enough, pooled, work):
    """log Λ, and what the environments' own fits of k columns gain over their means: ½ Σ_e n_e
    log(scatter/RSS_e). NaN where an environment has too few rows, or no decidable fit. If `pooled`,
    the pooled fit is in `work`."""
    counts = moments.counts
    y = moments.outcome
    gain = 0.0
    excess = np.nan
    for e in range(counts.size):
        decided = fits.rss[k, e] > 0.0 and counts[e] >= fits.ranks[k, e] + 2.0
        gain -= (
            0.5 * counts[e] * np.log(fits.rss[k, e] / moments.scatter[e, y, y])
            if decided
            else np.nan
        )
    if gain == gain:
        excess = smallest_excess(counts, fits, k, tolerance, enough, work)
    if excess != excess:
        work.beta[:] = np.nan
        work.squares[:] = np.nan
        work.leverages[:] = np.nan
        return np.nan, np.nan
    if pooled:
        _fill_leverages(fits, k + 1, work)
        evaluate_excess(counts, fits, k, work.beta, NO, work)
    return -excess, gain


@kernel
def _score_common_fits(moments, starts, members, fits, work, ratios, gains, squares, leverages):
    """As `score_common_fits`"""
    pooled = leverages.size > 0
    before = members[:0]
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        shared = ZERO
        while shared < min(subset.size, before.size) and subset[shared] == before[shared]:
            shared += 1
        fit_environments(moments, subset, shared, fits)
        ratios[s], gains[s] = score_local_fits(
            moments, fits, subset.size, moments.tolerance, ENOUGH_OF_MANY, pooled, work
        )
        if pooled:
            copy_into(squares[s], work.squares)
            copy_into(leverages[s], work.leverages)
        before = subset


def score_common_fits(moments, starts, members, *found):
    """As `score_local_fits`, of each subset members[starts[s]:starts[s+1]], in found: ratios, gains
    (S,), squares and leverages (S, E) of its pooled fit, unless these have no rows. The first
    columns of a subset that are those of the one before it stay, so that subsets in lexicographic
    order cost least."""
    room = _room(len(moments.counts), np.diff(starts).max(initial=0) + 1)
    _score_common_fits(moments, starts, members, *room, *found)


def fit_from_moments(moments, members):
    """The pooled fit of columns `members`: a constant and slopes (k + 1,), and RSS_e there (E,);
    NaN if undecidable."""
    k = len(members)
    fits, work = _room(len(moments.counts), k + 1)
    fit_environments(moments, members, ZERO, fits)
    score_local_fits(moments, fits, k, moments.tolerance, ENOUGH_OF_ONE, YES, work)
    return work.beta, work.squares


# ---------------------------------------------------------------- from rows


def _independent(rows, starts, members):
    """Lists of columns without those that are combinations of the ones before them over all
    rows."""
    values = rows.values[:, rows.starts[-1] : rows.stops[-1]]
    kept = np.zeros(len(members), dtype=bool)
    for which, chosen in of_one_size(starts, members, lambda k: k * values.shape[1]):
        kept[starts[which][:, None] + np.arange(chosen.shape[1])] = triangular_factors(
            values, chosen, DEPENDENT
        )[1]
    return np.concatenate([[0], np.cumsum(kept)])[starts], members[kept]


def _fits_from_rows(rows, moments, members):
    """Triangular factors (S, E, k + 2, k + 2) of a constant, the columns of each of the subsets
    members (S, k) and the outcome in each environment, and ranks (S, E)"""
    n_subsets, k = members.shape
    with_outcome = np.column_stack([members, np.full(n_subsets, moments.outcome)])
    factors = np.zeros((n_subsets, len(moments.counts), k + 2, k + 2))
    ranks = np.empty(factors.shape[:2])
    factors[:, :, 0, 0] = 1.0
    for e, gaps in enumerate(moments.gaps):
        values = rows.values[:, rows.starts[e] : rows.stops[e]]
        triangle, independent = triangular_factors(values, with_outcome, DEPENDENT)
        scale = np.sqrt(np.diagonal(moments.scatter[e]))
        factors[:, e, 0, 1:] = gaps[with_outcome]
        factors[:, e, 1:, 1:] = triangle * scale[with_outcome][:, None]
        ranks[:, e] = independent[:, :k].sum(axis=1)
    factors[:, :, 0] *= np.sqrt(moments.counts)[:, None]
    return factors, ranks


def _searches_from_rows(rows, moments, starts, members):
    """Yield of each subset inside the support whose columns are independent: its place, log Λ and
    gain, the pooled fit as by `score_local_fits`, exactly, and what brings its beta back to the
    units of the moments. The search takes place in coordinates where Σ_e n_e/RSS_e · R_e'R_e is the
    identity."""
    counts = moments.counts
    for which, chosen in of_one_size(starts, members, lambda k: (k + 1) * rows.values.shape[1]):
        factors, ranks = _fits_from_rows(rows, moments, chosen)
        rss = factors[:, :, -1, -1] ** 2
        inside = np.flatnonzero(((rss > 0.0) & (counts >= ranks + 2.0)).all(axis=1))
        m = factors.shape[-1] - 1
        roots = factors[inside, :, :m, :m]
        weighted = np.sqrt(counts / rss[inside])[:, :, None, None] * roots
        triangles = np.linalg.qr(weighted.reshape(len(inside), len(counts) * m, m), mode="r")
        across = triangles.transpose(0, 2, 1)[:, None]
        columns = np.tril(np.linalg.solve(across, roots.transpose(0, 1, 3, 2)))
        grams = columns @ columns.transpose(0, 1, 3, 2)
        for place, s in enumerate(inside):
            fits, work = _room(len(counts), m)
            fits.factors[:] = columns[place]
            fits.grams[:] = grams[place]
            fits.targets[:] = factors[s, :, :m, m]
            fits.rss[:] = rss[s]
            fits.ranks[:] = ranks[s]
            score = score_local_fits(moments, fits, m - 1, 0.0, ENOUGH_OF_ONE, YES, work)
            yield which[s], score, work, triangles[place]


def score_common_fits_from_rows(rows, moments, starts, members, *found):
    """As `score_common_fits`; NaN outside the support."""
    for values in found:
        values[:] = np.nan
    for s, score, work, _ in _searches_from_rows(
        rows, moments, *_independent(rows, starts, members)
    ):
        for values, own in zip(found, (*score, work.squares, work.leverages), strict=True):
            values[s : s + 1] = own


def fit_from_rows(rows, moments, members):
    """As `fit_from_moments`; slopes of columns that are combinations of those before them are 0."""
    starts, columns = _independent(rows, np.array([0, len(members)]), members)
    for _, _, work, triangle in _searches_from_rows(rows, moments, starts, columns):
        beta = np.zeros(len(members) + 1)
        beta[np.append(True, np.isin(members, columns))] = np.linalg.solve(triangle, work.beta)
        return beta, work.squares
    return np.full(len(members) + 1, np.nan), np.full(len(moments.counts), np.nan)
