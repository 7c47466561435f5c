"""The active set of one chain: a Cholesky factor per group that follows single additions and
removals.

For the k active columns of a group, `rows` holds L⁻¹ · (active × all columns) of the scaled second
moments, with L[i, m] = rows[m, active[i]]. Adding or removing (Givens) one of d columns is O(k·d);
all flips of log Λ are O(d + k³).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compiled import kernel
from .elementary import add_weighted_log
from .row_residuals import (
    DEPENDENT,
    GroupRows,
    dot,
    rows_at_hand,
    subtract,
    to_triangle,
    unit_members,
)


class Scoring(NamedTuple):
    """What scoring a subset takes. scatter (G, d, d); inverse_scale (G, d): 0
    where a column does not vary in the group; outcome: its column; weights (G,), offset: log Λ =
    offset + Σ_g weight·log(residual share); tolerance: smallest decidable pivot; rows: what decides
    below it"""

    scatter: Any
    inverse_scale: np.ndarray
    outcome: int
    weights: np.ndarray
    offset: float
    tolerance: float
    rows: GroupRows


class ActiveSet(NamedTuple):
    """Factors of one subset; columns that are constant inside a group are not active there. active
    (G, c): columns in the order they entered; size (G,): how many; rows (G, c, d); remaining (G,
    d): variance share that the active ones leave; covariance (G, d): with the outcome, what they
    leave of it; the rest is work space"""

    active: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    remaining: np.ndarray
    covariance: np.ndarray
    ratio: np.ndarray
    inverse: np.ndarray
    fits: np.ndarray


def active_set(n_groups: int, n_columns: int, capacity: int) -> ActiveSet:
    """Room for subsets of at most `capacity` columns; `load` fills it."""
    return ActiveSet(
        np.zeros((n_groups, capacity), np.int64),
        np.zeros(n_groups, np.int64),
        np.empty((n_groups, capacity, n_columns)),
        np.empty((n_groups, n_columns)),
        np.empty((n_groups, n_columns)),
        np.empty(n_columns),
        np.zeros((capacity, capacity)),
        np.empty((2, capacity)),
    )


@kernel(fastmath={"contract"})
def _add_to_group(scoring, state, g, column):
    scale = scoring.inverse_scale[g]
    rows = state.rows[g]
    k = state.size[g]
    own = scale[column]
    d = scale.size
    if own == 0.0:
        return True
    new = rows[k]
    source = scoring.scatter[g, column]
    for j in range(d):
        new[j] = source[j] * own * scale[j]
    # Four rows at a time, so that the new one is loaded and stored less often.
    fours = k - k % 4
    for m in range(0, fours, 4):
        first = rows[m]
        second = rows[m + 1]
        third = rows[m + 2]
        fourth = rows[m + 3]
        a = first[column]
        b = second[column]
        c = third[column]
        e = fourth[column]
        for j in range(d):
            new[j] -= a * first[j] + b * second[j] + c * third[j] + e * fourth[j]
    for m in range(fours, k):
        subtract(new, rows[m, column], rows[m])
    pivot = new[column]
    if not pivot >= scoring.tolerance:
        return False
    reciprocal = 1.0 / np.sqrt(pivot)
    remaining = state.remaining[g]
    covariance = state.covariance[g]
    with_outcome = new[scoring.outcome] * reciprocal
    for j in range(d):
        value = new[j] * reciprocal
        new[j] = value
        remaining[j] -= value * value
        covariance[j] -= value * with_outcome
    state.active[g, k] = column
    state.size[g] = k + 1
    return True


@kernel
def add_column(scoring, state, column):
    """Add a column that is not active. False, with the state unusable, when a pivot falls under the
    tolerance."""
    decidable = True
    for g in range(scoring.weights.size):
        decidable = decidable and _add_to_group(scoring, state, g, column)
    return decidable


@kernel(fastmath={"contract"})
def remove_column(scoring, state, column):
    """Remove an active column by rotating the rows that came after it."""
    n_groups, d = scoring.inverse_scale.shape
    for g in range(n_groups):
        if scoring.inverse_scale[g, column] == 0.0:
            continue
        rows = state.rows[g]
        active = state.active[g]
        k = state.size[g]
        place = 0
        while active[place] != column:
            place += 1
        for i in range(place, k - 1):
            following = active[i + 1]
            active[i] = following
            upper = rows[i]
            lower = rows[i + 1]
            a = upper[following]
            b = lower[following]
            radius = np.sqrt(a * a + b * b)
            cosine = a / radius
            sine = b / radius
            for j in range(d):
                first = upper[j]
                second = lower[j]
                upper[j] = cosine * first + sine * second
                lower[j] = cosine * second - sine * first
        last = rows[k - 1]
        remaining = state.remaining[g]
        covariance = state.covariance[g]
        with_outcome = last[scoring.outcome]
        for j in range(d):
            remaining[j] += last[j] * last[j]
            covariance[j] += last[j] * with_outcome
        state.size[g] = k - 1


@kernel
def load(scoring, state, included):
    """Start from the columns where `included` (d,) holds. False, with the state unusable, when
    undecidable."""
    y = scoring.outcome
    state.size[:] = 0
    state.remaining[:] = 1.0
    decidable = True
    for g in range(scoring.weights.size):
        scale = scoring.inverse_scale[g]
        for j in range(scale.size):
            state.covariance[g, j] = scoring.scatter[g, y, j] * scale[j] * scale[y]
        for j in range(included.size):
            if included[j]:
                decidable = decidable and _add_to_group(scoring, state, g, j)
    return decidable


@kernel(fastmath={"contract"})
def _invert_factor(rows, active, k, inverse):
    """inverse[:k, :k] = L⁻¹ (lower triangle)."""
    for i in range(k):
        row = inverse[i]
        for j in range(i):
            row[j] = 0.0
        for m in range(i):
            factor = rows[m, active[i]]
            earlier = inverse[m]
            for j in range(m + 1):
                row[j] -= factor * earlier[j]
        reciprocal = 1.0 / rows[i, active[i]]
        for j in range(i):
            row[j] *= reciprocal
        row[i] = reciprocal


@kernel
def _outcome_from_rows(scoring, state, g):
    """Give group g of the state the factor, the outcome's residual and its covariances that the
    rows have."""
    rows = scoring.rows
    y = scoring.outcome
    k = state.size[g]
    columns = np.append(state.active[g, :k], y)
    basis = unit_members(rows, g, columns)
    triangle = to_triangle(basis)
    for i in range(k + 1):
        for m in range(min(i + 1, k)):
            state.rows[g, m, columns[i]] = triangle[i, m]
    root = triangle[k, k]
    direction = basis[k]
    state.remaining[g, y] = root * root
    for j in range(state.covariance.shape[1]):
        other = rows.values[j, rows.starts[g] : rows.stops[g]]
        squares = dot(other, other)
        state.covariance[g, j] = (
            root * dot(other, direction) / np.sqrt(squares) if squares > 0.0 else 0.0
        )


@kernel(fastmath={"contract"})
def _flip_ratios(scoring, state, g):
    """state.ratio[j] = what the subset with column j flipped leaves of the outcome in group g over
    what it leaves now; NaN where undecidable, 1 for the outcome. False when the outcome is
    determined by the active columns."""
    y = scoring.outcome
    tolerance = scoring.tolerance
    scale = scoring.inverse_scale[g]
    ratio = state.ratio
    inverse = state.inverse
    remaining = state.remaining[g]
    covariance = state.covariance[g]
    smallest = tolerance
    highest = np.inf
    if not remaining[y] >= tolerance and rows_at_hand(scoring.rows):
        _outcome_from_rows(scoring, state, g)
        smallest = max(DEPENDENT, tolerance * remaining[y])
        highest = min(1.0 / tolerance, tolerance / remaining[y])
    residual = remaining[y]
    if not residual >= smallest:
        return False
    over_residual = 1.0 / residual
    for j in range(scale.size):
        after = residual - covariance[j] * covariance[j] / remaining[j]
        decidable = remaining[j] >= tolerance and after >= smallest
        value = after * over_residual if decidable else np.nan
        ratio[j] = value if scale[j] > 0.0 else 1.0
    k = state.size[g]
    rows = state.rows[g]
    active = state.active[g]
    _invert_factor(rows, active, k, inverse)
    coefficient = state.fits[0]
    variance = state.fits[1]
    state.fits[:, :k] = 0.0
    for i in range(k):
        row = inverse[i]
        with_outcome = rows[i, y]
        for j in range(i + 1):
            coefficient[j] += row[j] * with_outcome
            variance[j] += row[j] * row[j]
    for j in range(k):
        value = 1.0 + coefficient[j] * coefficient[j] / (variance[j] * residual)
        ratio[active[j]] = value if value < highest else np.nan
    ratio[y] = 1.0
    return True


@kernel(fastmath={"contract"})
def flip_scores(scoring, state, change):
    """change[j] = log Λ with column j flipped minus log Λ now; NaN where undecidable. The outcome's
    entry is NaN. Where the active columns leave less of the outcome than second moments can tell,
    the rows say what they leave; then a flip is decidable when it changes that by a factor within
    1/tolerance and stays below where second moments decide. False, with all of `change` NaN, when
    the outcome is determined by the active columns."""
    change[:] = 0.0
    for g in range(scoring.weights.size):
        if not _flip_ratios(scoring, state, g):
            change[:] = np.nan
            return False
        add_weighted_log(change, scoring.weights[g], state.ratio)
    change[scoring.outcome] = np.nan
    return True


@kernel
def flip_log_shares(scoring, state, included, out):
    """out[g, j] = log of what the subset `included` (d,) with column j flipped leaves of the
    outcome in group g; NaN where undecidable. The outcome's entry is the subset's own. False, with
    all NaN, when that is undecidable."""
    out[:] = np.nan
    if not load(scoring, state, included):
        return False
    for g in range(scoring.weights.size):
        if not _flip_ratios(scoring, state, g):
            out[:] = np.nan
            return False
        out[g] = np.log(state.remaining[g, scoring.outcome])
        add_weighted_log(out[g], 1.0, state.ratio)
    return True


def flip_changes(scoring, state, included):
    """(d,) change of log Λ when each column of the subset `included` (d,) is flipped; NaN for the
    outcome, where undecidable, and everywhere if the subset itself is."""
    logs = np.empty(scoring.inverse_scale.shape)
    flip_log_shares(scoring, state, included, logs)
    change = scoring.weights @ (logs - logs[:, scoring.outcome, None])
    change[scoring.outcome] = np.nan
    return change
