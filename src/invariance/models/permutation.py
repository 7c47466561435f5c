"""Permutation tests of each environment against all others, for noise with heavy tails.

Residuals of the common fit are permuted (Freedman and Lane 1983,
doi:10.1080/07350015.1983.10509354), until enough permutations deviate as much as the data (Besag
and Clifford 1991, doi:10.1093/biomet/78.2.301).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from .._tools.arrays import Floats, Integers, Mask
from ..moments.least_squares import unit_rows

# Permutations, and after how many that deviate as much as the data no more are drawn.
PERMUTATIONS = 999
ENOUGH = 20
_SEED = 20_261_118
# Permuted rows in all, or at least so many of each environment: sums of so many residuals are
# nearly normal.
_MOST_ROWS = 10_000
_FEWEST_ROWS = 200
# A block of permutations has so many at most, of so many numbers, and so many blocks are kept:
# drawing takes most time.
_AT_ONCE = 50
_MOST_NUMBERS = 200_000
_BLOCKS_KEPT = 64
# Eigenvalues of products of orthonormal columns, and relative singular values of columns, that
# count as 0.
_ROUNDING = 1e-12
_DEPENDENT = 1e-9
# Decimals, relative to the largest residual, beyond which residuals differ by rounding alone.
_DIGITS = 9


def sampled_rows(places: Integers) -> Integers:
    """Rows that are permuted, of places (N,) of environments: all, or of each environment as many
    as suffice."""
    counts = np.bincount(places)
    most = max(_FEWEST_ROWS, _MOST_ROWS // len(counts))
    if len(places) <= _MOST_ROWS or counts.max() <= most:
        return np.arange(len(places))
    rng = np.random.default_rng(_SEED)
    own = (np.flatnonzero(places == e) for e in range(len(counts)))
    return np.sort(np.concatenate([rng.permutation(rows)[:most] for rows in own]))


def permutation_p_value(
    X: Floats, y: Floats, places: Integers, smallest: float, within: bool = False
) -> float:
    """Return how often F tests of each environment against the rest have a p-value of at most
    `smallest` when the residuals of the common fit of y (n,) on X (n, k) and a constant are
    permuted over all rows; 0 if never.

    This takes the place of Šidák's rule, which heavy tails break. The residuals keep their
    distribution and lose their environment (Freedman and Lane 1983,
    doi:10.1080/07350015.1983.10509354). Once `ENOUGH` permutations deviate as much as the data, the
    p-value is their share (Besag and Clifford 1991, doi:10.1093/biomet/78.2.301). The order of rows
    does not count, nor, where no residuals are tied, that of environments or the units of y: rows
    are sorted.

    within : X and y are centred within environments, each of which has its own constant"""
    columns, residuals, rows = _arranged(X, y, places, within)
    products = np.array([columns[part].T @ columns[part] for part in rows])
    own, ranks = _inverse_roots(products)
    rest, rest_ranks = _inverse_roots(np.eye(columns.shape[1]) - products)
    left = float(len(residuals) - ranks.sum() - within * len(rows))
    limits = np.full(len(rows), np.inf)
    degrees = ranks + rest_ranks - columns.shape[1]
    tested = degrees > 0
    # What an environment has to save, in units of the residual variance
    with np.errstate(divide="ignore"):
        limits[tested] = left * (
            1.0 / betaincinv(0.5 * left, 0.5 * degrees[tested], smallest) - 1.0
        )
    total = float(residuals @ residuals)

    def deviate(order: Integers) -> Mask:
        drawn = residuals[order]
        scores = np.stack([drawn[:, part] @ columns[part] for part in rows])
        whole = scores.sum(axis=0)
        fitted = _squares(scores, own)
        saved = fitted + _squares(whole - scores, rest) - (whole**2).sum(axis=1)
        varying = total
        if within:
            varying = total - sum(drawn[:, part].mean(axis=1) ** 2 * len(part) for part in rows)
        variance = (varying - fitted.sum(axis=0)) / left
        return np.asarray((saved >= limits[:, None] * variance).any(axis=0))

    return _share_of_permutations(len(residuals), deviate)


def own_coefficients_p_value(
    X: Floats, y: Floats, places: Integers, smallest: float, within: bool = False
) -> float:
    """Return how often F tests of the own intercept or the own slopes of an environment, beside one
    common fit to all rows, have a p-value of at most `smallest` when residuals are permuted as in
    `permutation_p_value`; 0 if never. Environments may have any number of rows."""
    columns, residuals, rows = _arranged(X, y, places, within)
    products = np.array([columns[part].T @ columns[part] for part in rows])
    forms = products - products @ products
    roots, ranks = _inverse_roots(forms)
    n_intercepts = int(not within)
    n_slopes = np.maximum(ranks - n_intercepts, 0)
    freedom = len(residuals) - columns.shape[1] - within * len(rows)
    intercept_roots, _ = _inverse_roots(forms[:, :n_intercepts, :n_intercepts])
    # What own coefficients have to save of the sum of squares
    intercept_limit = 1.0 - betaincinv(0.5 * (freedom - 1.0), 0.5, smallest)
    slope_limits = np.full(len(rows), np.inf)
    varies = n_slopes > 0
    slope_limits[varies] = 1.0 - betaincinv(
        0.5 * (freedom - ranks[varies]), 0.5 * n_slopes[varies], smallest
    )

    def deviate(order: Integers) -> Mask:
        scores, rss = _scores(columns, products, residuals[order], rows, within)
        whole = _squares(scores, roots)
        intercepts = np.minimum(_squares(scores[:, :, :n_intercepts], intercept_roots), whole)
        by_intercept = intercepts >= intercept_limit * rss
        by_slopes = whole - intercepts >= slope_limits[:, None] * (rss - intercepts)
        return np.asarray((by_intercept & (intercepts > 0.0) | by_slopes).any(axis=0))

    return _share_of_permutations(len(residuals), deviate)


def score_p_value(X: Floats, y: Floats, places: Integers, within: bool = False) -> float:
    """Return how often the score statistic of random deviations is at least as large as in the data
    when residuals are permuted as in `permutation_p_value`; 0 if never."""
    columns, residuals, rows = _arranged(X, y, places, within)
    products = np.array([columns[part].T @ columns[part] for part in rows])

    def statistics(drawn: Floats) -> Floats:
        scores, rss = _scores(columns, products, drawn, rows, within)
        return np.asarray((scores**2).sum(axis=(0, 2)) / rss)

    (smallest,) = statistics(residuals[None]) * (1.0 - _ROUNDING)
    return _share_of_permutations(
        len(residuals), lambda order: statistics(residuals[order]) >= smallest
    )


def scatter_p_value(sizes: Floats, places: Integers, smallest: float) -> float:
    """Return how often F tests of the mean of each environment against the rest have a p-value of
    at most `smallest` when absolute residuals `sizes` (n,) are permuted over all rows; 0 if never.

    This is Levene's test of one environment, as `permutation_p_value` is the F test of one."""
    n = len(sizes)
    order = _canonical_order(np.empty((n, 0)), sizes, places)
    centred = (sizes - sizes.mean())[order]
    member = (places[order, None] == np.unique(places)).astype(float)
    counts = member.sum(axis=0)
    # What an own mean has to save of the sum of squares
    limit = float(centred @ centred) * (1.0 - betaincinv(0.5 * n - 1.0, 0.5, smallest))

    def deviate(order: Integers) -> Mask:
        saved = (centred[order] @ member) ** 2 * n / (counts * (n - counts))
        return np.asarray((saved >= limit).any(axis=1))

    return _share_of_permutations(n, deviate)


def _share_of_permutations(n: int, deviate: Callable[[Integers], Mask]) -> float:
    """Return the share of permutations (b, n) that deviate (b,) as much as the data, 0 if none
    does."""
    reached = 0
    at_once = max(1, min(_AT_ONCE, _MOST_NUMBERS // n))
    for first in range(0, PERMUTATIONS, at_once):
        drawn = _permutations(n, first, min(at_once, PERMUTATIONS - first))
        counts = reached + np.cumsum(deviate(drawn))
        if counts[-1] >= ENOUGH:
            return ENOUGH / (first + 1 + int(np.argmax(counts >= ENOUGH)))
        reached = int(counts[-1])
    return (reached + 1) / (PERMUTATIONS + 1) if reached else 0.0


@lru_cache(_BLOCKS_KEPT)
def _permutations(n: int, first: int, count: int) -> Integers:
    """Return permutations (count, n), the same for all subsets of data with this number of rows."""
    places = np.tile(np.arange(n, dtype=np.uint16 if n <= 1 << 16 else np.int64), (count, 1))
    return np.random.default_rng([_SEED, first]).permuted(places, axis=1)


def _arranged(
    X: Floats, y: Floats, places: Integers, within: bool
) -> tuple[Floats, Floats, list[Integers]]:
    """Orthonormal columns (n, r) and residuals (n,) of the common fit, in an order that does not
    depend on the order of the table, and the rows of each environment"""
    columns = _orthonormal(X)[:, int(within) :]
    residuals = y - y.mean()
    residuals = residuals - columns @ (columns.T @ residuals)
    order = _canonical_order(X, residuals, places)
    places = places[order]
    return (
        columns[order],
        residuals[order],
        [np.flatnonzero(places == e) for e in np.unique(places)],
    )


def _scores(
    columns: Floats, products: Floats, residuals: Floats, rows: list[Integers], within: bool
) -> tuple[Floats, Floats]:
    """Scores (E, b, r) of environments by what a common fit leaves of permuted residuals (b, n),
    and its sums of squares (b,)"""
    scores = np.stack([residuals[:, part] @ columns[part] for part in rows])
    totals = scores.sum(axis=0)
    rss = (residuals**2).sum(axis=1) - (totals**2).sum(axis=1)
    if within:
        rss -= sum(residuals[:, part].mean(axis=1) ** 2 * len(part) for part in rows)
    return scores - totals @ products, rss


def _canonical_order(X: Floats, residuals: Floats, places: Integers) -> Integers:
    """Rows by their absolute residual (n,); those that are tied, but for rounding, by what else
    they have."""
    sizes = np.abs(residuals)
    rounded = np.round(sizes / max(sizes.max(initial=0.0), np.finfo(float).tiny), _DIGITS)
    return np.lexsort((places, *X.T, residuals > 0.0, rounded))


def _orthonormal(X: Floats) -> Floats:
    """Return an orthonormal basis (n, r) of the columns of X (n, k) and a constant."""
    unit, _, _ = unit_rows(X)
    vectors, lengths, _ = np.linalg.svd(unit.T, full_matrices=False)
    kept = vectors[:, lengths > _DEPENDENT * lengths.max(initial=0.0)]
    return np.column_stack([np.full(len(X), len(X) ** -0.5), kept])


def _inverse_roots(products: Floats) -> tuple[Floats, Integers]:
    """Return L (E, r, r) with LL' the pseudoinverses of products (E, r, r), and their ranks
    (E,)."""
    values, vectors = np.linalg.eigh(products)
    kept = values > _ROUNDING
    return vectors * np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[
        :, None
    ], kept.sum(axis=1)


def _squares(scores: Floats, roots: Floats) -> Floats:
    """Return s'LL's (E, b) of scores s (E, b, r) and roots L (E, r, r)."""
    return np.asarray(((scores @ roots) ** 2).sum(axis=2))
