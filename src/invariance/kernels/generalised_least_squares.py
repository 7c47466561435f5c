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

from .compiled import NO, YES, ZERO, copy_into, kernel
from .row_residuals import DEPENDENT, of_one_size, triangular_factors

# A Newton step that gains so small a share of 1 − log Λ is the last one, and what it gains is
# added: for all subsets, whose log Λ is then right to seven digits, and for those that are looked
# at one by one.
ENOUGH = 1e-6
EXACTLY = 1e-10
_MOST_STEPS = 100


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
    R_e of the columns. factors (E, m, m): row j is column j of R_e; grams (E, m(m+1)/2): R_e'R_e,
    packed (`packed_row`); targets (E, m): the outcome in the same coordinates; rss (m, E), ranks
    (m, E): of the first columns, NaN where undecidable"""

    factors: np.ndarray
    grams: np.ndarray
    targets: np.ndarray
    rss: np.ndarray
    ranks: np.ndarray


class PooledFit(NamedTuple):
    """beta (m,): the common fit; squares (E,): RSS_e(beta); leverages (E,): tr((Σ_f A_f)⁻¹ A_e),
    A_e = weights[e] · R_e'R_e: how many of the m parameters come from environment e. All NaN where
    undecidable. Work space: weights (E,): n_e over squares; matrix (m(m+1)/2,), factor (m, m);
    residuals, scores (E, m); gradient, step, trial (m,)."""

    beta: np.ndarray
    squares: np.ndarray
    leverages: np.ndarray
    weights: np.ndarray
    matrix: np.ndarray
    factor: np.ndarray
    residuals: np.ndarray
    scores: np.ndarray
    gradient: np.ndarray
    step: np.ndarray
    trial: np.ndarray


@kernel(inline="always")
def packed_row(packed, j):
    """Entries 0..j of row j of a lower triangle whose rows follow each other."""
    start = j * (j + 1) // 2
    return packed[start : start + j + 1]


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
        fits.grams[e, 0] = count
        targets[0] = factors[0, 0] * gaps[y]
        fits.rss[0, e] = moments.scatter[e, y, y]
        for j in range(shared + 1, members.size + 1):
            column = members[j - 1]
            scatter = moments.scatter[e, column]
            gap = gaps[column]
            row = factors[j]
            products = packed_row(fits.grams[e], j)
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
def _factorised(matrix, factor, m, tolerance):
    """factor (m, m): lower Cholesky factor of a packed matrix, with the reciprocals of its diagonal
    in the diagonal. False where a pivot is too small a share of its entry."""
    for j in range(m):
        row = packed_row(matrix, j)
        own = factor[j]
        left = row[j]
        for i in range(j):
            other = factor[i]
            entry = row[i]
            for t in range(i):
                entry -= own[t] * other[t]
            entry *= other[i]
            own[i] = entry
            left -= entry * entry
        if not left > tolerance * row[j]:
            return False
        own[j] = 1.0 / np.sqrt(left)
    return True


@kernel(fastmath={"contract", "reassoc"})
def _forward(factor, m, vector):
    """Solve with the lower factor of `_factorised`, in place."""
    for j in range(m):
        left = vector[j]
        for t in range(j):
            left -= factor[j, t] * vector[t]
        vector[j] = left * factor[j, j]


@kernel(fastmath={"contract", "reassoc"})
def _solve(factor, m, right, solution):
    """solution (m,) of factor · factor' · solution = right; returns right · solution."""
    copy_into(solution[:m], right)
    _forward(factor, m, solution)
    product = 0.0
    for j in range(m):
        product += solution[j] * solution[j]
    for j in range(m - 1, -1, -1):
        value = solution[j] * factor[j, j]
        solution[j] = value
        for t in range(j):
            solution[t] -= factor[j, t] * value
    return product


@kernel(fastmath={"contract", "reassoc"})
def excess_at(counts, fits, k, beta, work):
    """½ Σ_e n_e log(RSS_e(beta)/RSS_e); leaves residuals and squares in `work`."""
    total = 0.0
    for e in range(counts.size):
        residual = work.residuals[e]
        factors = fits.factors[e]
        for i in range(k + 1):
            residual[i] = fits.targets[e, i]
        for j in range(k + 1):
            slope = beta[j]
            row = factors[j]
            for i in range(j + 1):
                residual[i] -= row[i] * slope
        distance = 0.0
        for i in range(k + 1):
            distance += residual[i] * residual[i]
        work.squares[e] = fits.rss[k, e] + distance
        total += 0.5 * counts[e] * np.log1p(distance / fits.rss[k, e])
    return total


@kernel(fastmath={"contract", "reassoc"})
def _fill_gradient(counts, fits, m, work):
    """weights, scores[e] = R_e' · residuals[e], and their weighted sum, from residuals and
    squares"""
    work.gradient[:m] = 0.0
    for e in range(counts.size):
        residual = work.residuals[e]
        scores = work.scores[e]
        weight = counts[e] / work.squares[e]
        work.weights[e] = weight
        for j in range(m):
            row = fits.factors[e, j]
            score = 0.0
            for i in range(j + 1):
                score += row[i] * residual[i]
            scores[j] = score
            work.gradient[j] += weight * score


@kernel(fastmath={"contract", "reassoc"})
def _factorised_hessian(fits, m, newton, tolerance, work):
    """Factorise Σ_e weights[e] · R_e'R_e, from which Newton's Hessian takes that weights follow the
    residuals; False where it is not positive."""
    matrix = work.matrix
    n = m * (m + 1) // 2
    matrix[:n] = 0.0
    for e in range(work.weights.size):
        weight = work.weights[e]
        own = fits.grams[e]
        for i in range(n):
            matrix[i] += weight * own[i]
    if newton:
        for e in range(work.weights.size):
            scores = work.scores[e]
            share = 2.0 * work.weights[e] / work.squares[e]
            for j in range(m):
                factor = share * scores[j]
                row = packed_row(matrix, j)
                for i in range(j + 1):
                    row[i] -= factor * scores[i]
    return _factorised(matrix, work.factor, m, tolerance)


@kernel
def _moved(counts, fits, k, work):
    for j in range(k + 1):
        work.trial[j] = work.beta[j] + work.step[j]
    return excess_at(counts, fits, k, work.trial, work)


@kernel
def smallest_excess(counts, fits, k, tolerance, enough, work):
    """−log Λ of the first k columns of the fits: the smallest excess of a common beta; NaN where
    undecidable. enough: see ENOUGH. Newton's step is taken where it leads down, otherwise that of
    weighted least squares, which always does. Only where Newton's is possible may the search end:
    elsewhere small steps may pass a saddle."""
    m = k + 1
    n_environments = counts.size
    for e in range(n_environments):
        work.squares[e] = fits.rss[k, e]
        for j in range(m):
            work.residuals[e, j] = fits.targets[e, j]
    _fill_gradient(counts, fits, m, work)
    if not _factorised_hessian(fits, m, NO, tolerance, work):
        return np.nan
    _solve(work.factor, m, work.gradient, work.beta)
    excess = excess_at(counts, fits, k, work.beta, work)
    if n_environments == 1:
        return 0.0
    for _ in range(_MOST_STEPS):
        _fill_gradient(counts, fits, m, work)
        by_newton = _factorised_hessian(fits, m, YES, tolerance, work)
        if not by_newton and not _factorised_hessian(fits, m, NO, tolerance, work):
            return np.nan
        gain = 0.5 * _solve(work.factor, m, work.gradient, work.step)
        if by_newton and gain <= enough * (1.0 + excess):
            for j in range(m):
                work.beta[j] += work.step[j]
            return max(excess - gain, 0.0)
        after = _moved(counts, fits, k, work)
        if by_newton and not after < excess:
            if not _factorised_hessian(fits, m, NO, tolerance, work):
                return np.nan
            _solve(work.factor, m, work.gradient, work.step)
            after = _moved(counts, fits, k, work)
        excess = after
        copy_into(work.beta[:m], work.trial)
    return excess


@kernel
def _fill_leverages(fits, m, work):
    _factorised_hessian(fits, m, NO, 0.0, work)
    for e in range(work.leverages.size):
        total = 0.0
        for t in range(m):
            for j in range(m):
                work.trial[j] = fits.factors[e, j, t] if j >= t else 0.0
            _forward(work.factor, m, work.trial)
            for j in range(m):
                total += work.trial[j] * work.trial[j]
        work.leverages[e] = work.weights[e] * total


@kernel
def score_fits(moments, fits, k, tolerance, enough, pooled, work):
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
        excess_at(counts, fits, k, work.beta, work)
        _fill_leverages(fits, k + 1, work)
    return -excess, gain


@kernel
def _score_lists(
    moments, starts, members, stacked, given, enough, work, ratios, gains, squares, leverages, betas
):
    """As `score_lists`; stacked: the fits of each subset along a first axis if they are given,
    otherwise room for those of one; betas (S, k + 1): of the pooled fits of subsets of k columns,
    unless it has no rows"""
    pooled = leverages.size > 0
    tolerance = 0.0 if given else moments.tolerance
    before = members[:0]
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        shared = ZERO
        at = s if given else ZERO
        rss = stacked.rss[at]
        ranks = stacked.ranks[at]
        fits = LocalFits(stacked.factors[at], stacked.grams[at], stacked.targets[at], rss, ranks)
        if not given:
            while shared < min(subset.size, before.size) and subset[shared] == before[shared]:
                shared += 1
            fit_environments(moments, subset, shared, fits)
        ratios[s], gains[s] = score_fits(
            moments, fits, subset.size, tolerance, enough, pooled, work
        )
        if pooled:
            copy_into(squares[s], work.squares)
            copy_into(leverages[s], work.leverages)
        if betas.size > 0:
            copy_into(betas[s], work.beta)
        before = subset


def _score(moments, starts, members, fits, enough, *found):
    """`_score_lists` of these fits, or from moments if they are None, with room to work on"""
    n = len(moments.counts)
    m = np.diff(starts).max(initial=0) + 1
    given = fits is not None
    size = m * (m + 1) // 2
    if not given:
        fits = LocalFits(
            np.zeros((1, n, m, m)),
            np.zeros((1, n, size)),
            np.zeros((1, n, m)),
            *np.zeros((2, 1, m, n)),
        )
    beta, *steps = np.zeros((4, m))
    work = PooledFit(
        beta, *np.zeros((3, n)), np.zeros(size), np.zeros((m, m)), *np.zeros((2, n, m)), *steps
    )
    _score_lists(moments, starts, members, fits, given, enough, work, *found)


def score_lists(moments, starts, members, ratios, gains, squares, leverages):
    """As `score_fits`, of each subset members[starts[s]:starts[s+1]]; squares, leverages (S, E): of
    its pooled fit, unless these have no rows. The first columns of a subset that are those of the
    one before it stay, so that subsets in lexicographic order cost least."""
    _score(
        moments, starts, members, None, ENOUGH, ratios, gains, squares, leverages, np.empty((0, 0))
    )


def _fitted(moments, chosen, fits=None):
    """ratios, gains (S,), squares, leverages (S, E) and betas (S, k + 1) of subsets chosen (S, k),
    exactly"""
    n, k = chosen.shape
    found = *np.empty((2, n)), *np.empty((2, n, len(moments.counts))), np.empty((n, k + 1))
    _score(moments, k * np.arange(n + 1), chosen.ravel(), fits, EXACTLY, *found)
    return found


def fit_from_moments(moments, members):
    """The pooled fit of columns `members`: a constant and slopes (k + 1,), and RSS_e there (E,);
    NaN if undecidable."""
    *_, squares, _, beta = _fitted(moments, members[None])
    return beta[0], squares[0]


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
    """factors, targets, rss, ranks of each of the subsets members (S, k), one by one as in
    `LocalFits`"""
    (n_subsets, k), y = members.shape, moments.outcome
    factors = np.zeros((n_subsets, len(moments.counts), k + 1, k + 1))
    targets = np.empty(factors.shape[:3])
    rss, ranks = np.empty((2, *factors.shape[:2]))
    with_outcome = np.column_stack([members, np.full(n_subsets, y)])
    for e, root in enumerate(np.sqrt(moments.counts)):
        values = rows.values[:, rows.starts[e] : rows.stops[e]]
        triangle, independent = triangular_factors(values, with_outcome, DEPENDENT)
        triangle *= np.sqrt(np.diagonal(moments.scatter[e]))[with_outcome][:, None]
        factors[:, e, 0, 0], factors[:, e, 1:, 0] = root, root * moments.gaps[e, members]
        factors[:, e, 1:, 1:] = triangle[:, :k, :k].transpose(0, 2, 1)
        targets[:, e, 0], targets[:, e, 1:] = root * moments.gaps[e, y], triangle[:, :k, k]
        rss[:, e], ranks[:, e] = triangle[:, k, k] ** 2, independent[:, :k].sum(axis=1)
    return factors, targets, rss, ranks


def _searched(rows, moments, starts, members):
    """Of subsets of one size inside the support whose columns are independent: which they are,
    `_fitted` of these, and what brings each beta back to the units of the moments. The search takes
    place in coordinates where Σ_e n_e/RSS_e · R_e'R_e is the identity."""
    counts = moments.counts
    for which, chosen in of_one_size(starts, members, lambda k: (k + 1) * rows.values.shape[1]):
        factors, targets, rss, ranks = _fits_from_rows(rows, moments, chosen)
        inside = ((rss > 0.0) & (counts >= ranks + 2.0)).all(axis=1)
        m = factors.shape[-1]
        factors = factors[inside]
        rss = rss[inside]
        weighted = np.sqrt(counts / rss)[:, :, None, None] * factors
        triangles = np.linalg.qr(
            weighted.transpose(0, 1, 3, 2).reshape(-1, len(counts) * m, m), mode="r"
        )
        factors = np.tril(np.linalg.solve(triangles.transpose(0, 2, 1)[:, None], factors))
        grams = np.ascontiguousarray(
            (factors @ factors.transpose(0, 1, 3, 2))[:, :, *np.tril_indices(m)]
        )
        own = (np.repeat(part[:, None], m, axis=1) for part in (rss, ranks[inside]))
        fits = LocalFits(factors, grams, targets[inside], *own)
        yield which[inside], _fitted(moments, chosen[inside], fits), triangles


def score_lists_from_rows(rows, moments, starts, members, ratios, gains, squares, leverages):
    """As `score_lists`; NaN outside the support."""
    for values in (ratios, gains, squares, leverages):
        values[:] = np.nan
    for which, found, _ in _searched(rows, moments, *_independent(rows, starts, members)):
        ratios[which], gains[which] = found[:2]
        if len(leverages):
            squares[which], leverages[which] = found[2:4]


def fit_from_rows(rows, moments, members):
    """As `fit_from_moments`; slopes of columns that are combinations of those before them are 0."""
    starts, columns = _independent(rows, np.array([0, len(members)]), members)
    beta = np.zeros(len(members) + 1)
    ((_, found, triangles),) = _searched(rows, moments, starts, columns)
    if not len(triangles):
        return np.full_like(beta, np.nan), np.full(len(moments.counts), np.nan)
    beta[np.append(True, np.isin(members, columns))] = np.linalg.solve(triangles[0], found[4][0])
    return beta, found[2][0]
