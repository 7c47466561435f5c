"""Residual shares from the rows: for subsets that second moments cannot decide.

Modified Gram-Schmidt with the outcome as the last column finds the residual as if the columns had
been changed by a few units in their last place (Björck 1967). So do the triangular factors that
stand for the rows here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .compilation import AS_PART
from .compiled import ZERO, copy_into, kernel

# Squared, scaled pivot below which float64 rows cannot tell a column from a combination of those
# before it.
DEPENDENT = 1e-26


@kernel(fastmath={"contract", "reassoc"})
def dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


# Numbers in the bases of subsets that are worked on together.
_MOST_NUMBERS = 1 << 21


def triangular_factor(columns, members, dependent):
    """QR by Gram-Schmidt, each column orthogonalised twice, over `members` of the unit-norm rows of
    columns (d, n): R (k, k) and which columns stand on their own. One whose squared pivot is below
    `dependent` is a combination of those before it, gets a zero row and removes nothing from later
    ones."""
    triangles, independent = triangular_factors(columns, members[None], dependent)
    return triangles[0], independent[0]


def triangular_factors(columns, members, dependent):
    """(S, k, k), (S, k): the same of each of the subsets members (S, k)"""
    n_subsets, k = members.shape
    basis = np.zeros((n_subsets, k, columns.shape[1]))
    triangle = np.zeros((n_subsets, k, k))
    independent = np.zeros((n_subsets, k), dtype=bool)
    for j in range(k):
        rest = columns[members[:, j]]
        earlier = basis[:, :j]
        for _ in range(2):
            # Dependent columns have a basis vector of zeros, which removes nothing.
            projections = np.einsum("sin,sn->si", earlier, rest)
            triangle[:, :j, j] += projections
            rest -= np.einsum("sin,si->sn", earlier, projections)
        squared = np.einsum("sn,sn->s", rest, rest)
        own = independent[:, j] = squared >= dependent
        norm = np.sqrt(squared[own])
        triangle[own, j, j] = norm
        basis[own, j] = rest[own] / norm[:, None]
    return triangle, independent


def of_one_size(starts, members, numbers):
    """Subsets members[starts[s]:starts[s+1]] of the same size together, so many that each taking
    numbers(k) of them is no burden: (which (S,), their members (S, k))"""
    sizes = np.diff(starts)
    for k in np.unique(sizes):
        which = np.flatnonzero(sizes == k)
        together = max(1, _MOST_NUMBERS // max(1, numbers(k)))
        for cut in range(0, len(which), together):
            part = which[cut : cut + together]
            yield part, members[starts[part][:, None] + np.arange(k)]


def relative_residuals(columns, starts, members, outcome, dependent):
    """(S,) share of the squares of row `outcome` of columns (d, n) that the rows
    members[starts[s]:starts[s+1]] leave; (S,) their ranks"""
    if columns.shape[1] > columns.shape[0]:
        columns = np.ascontiguousarray(np.linalg.qr(columns.T, mode="r").T)
    shares = np.empty(len(starts) - 1)
    ranks = np.empty(len(starts) - 1, np.int64)
    for which, chosen in of_one_size(starts, members, lambda k: (k + 1) * columns.shape[1]):
        with_outcome = np.column_stack([chosen, np.full(len(chosen), outcome)])
        triangle, independent = triangular_factors(columns, with_outcome, dependent)
        shares[which] = triangle[:, -1, -1] ** 2
        ranks[which] = independent[:, :-1].sum(axis=1)
    return shares, ranks


# Share of a unit vector's squares of which rounding is no part worth naming.
_MUCH = 0.25


class GroupRows(NamedTuple):
    """Deviations of d columns from their means in G groups, the pool last. values (d, n): of each
    column, where group g takes starts[g]:stops[g], none without rows; counts (G,): rows of each
    group, more than stops - starts where a triangular factor stands for them."""

    values: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    counts: np.ndarray


def without_values(rows: GroupRows) -> GroupRows:
    """As if there were no rows."""
    return rows._replace(values=rows.values[:0])


@kernel
def rows_at_hand(rows):
    return rows.values.size > 0


@kernel
def subtract(target, factor, direction):
    """target -= factor · direction"""
    for i in range(target.size):
        target[i] -= factor * direction[i]


@kernel
def _orthogonalise(v, basis, rank):
    """Remove the first `rank` rows of the basis from the unit vector v; returns the squares that
    are left. A second time where little is left, most of which may be rounding: a column that
    depends on others must not look like one of its own."""
    squared = 1.0
    for _ in range(2):
        for i in range(rank):
            subtract(v, dot(basis[i], v), basis[i])
        squared = dot(v, v)
        if squared >= _MUCH:
            break
    return squared


@kernel
def unit_members(rows, g, members):
    """(k, n) deviations of columns `members` in group g, scaled to unit length; 0 where they are
    constant"""
    columns = np.empty((members.size, rows.stops[g] - rows.starts[g]))
    for k in range(members.size):
        column = columns[k]
        deviations = rows.values[members[k], rows.starts[g] : rows.stops[g]]
        norm = np.sqrt(dot(deviations, deviations))
        reciprocal = 1.0 / norm if norm > 0.0 else 0.0
        for i in range(column.size):
            column[i] = deviations[i] * reciprocal
    return columns


@kernel
def _residual_columns(rows, g, fixed, others):
    """(k, n) unit columns `others` (k,) less what `fixed` explain of them in group g, and the rank
    of `fixed`."""
    basis = unit_members(rows, g, fixed)
    remains = unit_members(rows, g, others)
    rank = ZERO
    for k in range(fixed.size):
        v = basis[rank]
        copy_into(v, basis[k])
        squared = _orthogonalise(v, basis, rank)
        if squared >= DEPENDENT:
            v *= 1.0 / np.sqrt(squared)
            rank += 1
    for k in range(others.size):
        _orthogonalise(remains[k], basis, rank)
    return remains, rank


@kernel
def _supported(share, count, rank):
    """NaN where a perfect fit leaves nothing of the outcome, or where `count` rows are too few for
    the rank."""
    return share if share >= DEPENDENT and count >= rank + 2 else np.nan


@kernel
def share_from_rows(rows, g, members, outcome):
    """Share of the outcome's variance in group g that `members` leave; NaN outside the support, or
    without rows."""
    if not rows_at_hand(rows):
        return np.nan
    remains, rank = _residual_columns(rows, g, members, np.array([outcome]))
    return _supported(dot(remains[0], remains[0]), rows.counts[g], rank)


@kernel
def rank_from_rows(rows, g, members):
    """Rank of the columns `members` in group g."""
    return _residual_columns(rows, g, members, np.empty(0, np.int64))[1]


@kernel
def to_triangle(columns):
    """(k, k) by rows: the coordinates of columns (k, n) in the orthonormal basis that overwrites
    them"""
    triangle = np.zeros((columns.shape[0], columns.shape[0]))
    for j in range(columns.shape[0]):
        v = columns[j]
        for i in range(j):
            triangle[j, i] = dot(columns[i], v)
            subtract(v, triangle[j, i], columns[i])
        triangle[j, j] = np.sqrt(dot(v, v))
        if triangle[j, j] > 0.0:
            v *= 1.0 / triangle[j, j]
    return triangle


@kernel(fastmath={"contract"})
def _outcome_roots(b, starts, nodes, ranks):
    """Leave in the outcome's row of `nodes` what each subset of b columns leaves of it; add to
    ranks (2**b,). As `subset_tree`, with triangular factors R for second moments R'R, so that small
    pivots keep their digits: "include" drops the first row and column, "exclude" drops the column
    alone and rotates the first row into the others. A column that depends on the included ones adds
    nothing: including it is excluding it."""
    cosine = np.empty(1 << b)
    sine = np.empty(1 << b)
    for t in range(b):
        live = 1 << t
        pivots = nodes[starts[t] : starts[t] + live]
        n_dependent = 0
        for s in range(live):
            dependent = pivots[s] * pivots[s] < DEPENDENT
            n_dependent += dependent
            ranks[live + s] = ranks[s] + 1 - dependent
        for i in range(t + 1, b + 1):
            diagonal = nodes[starts[i] : starts[i] + live]
            first = nodes[starts[t] + ((i - t) << t) :]
            for s in range(live):
                radius = np.sqrt(diagonal[s] * diagonal[s] + first[s] * first[s])
                # Nothing to rotate, as for a column that is constant in the group: the rows stay as
                # they are.
                cosine[s] = diagonal[s] / radius if radius > 0.0 else 1.0
                sine[s] = first[s] / radius if radius > 0.0 else 0.0
            for k in range(i, b + 1):
                row = nodes[starts[i] + ((k - i) << i) :]
                first = nodes[starts[t] + ((k - t) << t) :]
                included = row[live:]
                for s in range(live):
                    old = row[s]
                    included[s] = old
                    row[s] = cosine[s] * old + sine[s] * first[s]
                    first[s] = cosine[s] * first[s] - sine[s] * old
                if n_dependent:
                    for s in range(live):
                        if ranks[live + s] == ranks[s]:
                            included[s] = row[s]


@kernel
def fill_shares_from_rows(rows, g, fixed, block, starts, outcome, shares):
    """Where shares (2**b,) is NaN: the share of the outcome's variance that `fixed` and a subset of
    `block` leave. Bit i of a position stands for block[i]; starts: `tree_starts` of single
    columns."""
    if not rows_at_hand(rows) or not np.isnan(shares).any():
        return
    b = block.size
    nodes = np.empty(starts[b + 1])
    ranks = np.empty(1 << b, np.int64)
    remains, ranks[0] = _residual_columns(rows, g, fixed, np.append(block, outcome))
    triangle = to_triangle(remains)
    for k in range(b + 1):
        for i in range(k + 1):
            nodes[starts[i] + ((k - i) << i)] = triangle[k, i]
    _outcome_roots(b, starts, nodes, ranks)
    roots = nodes[starts[b] :]
    for s in range(shares.size):
        if shares[s] != shares[s]:
            shares[s] = _supported(roots[s] * roots[s], rows.counts[g], ranks[s])


def centred_rows(X, y, rows, centre, rest, minimum, maximum):
    """Deviations (n, p + 1) of [X, y] at `rows` from their means; fills centre, rest, minimum,
    maximum (p + 1,). The mean is centre + rest: the rounding of the first mean is found in the
    deviations and kept. A constant column deviates by exactly 0."""
    centred = np.concatenate([X[rows], y[rows, None]], axis=1, dtype=float)
    # Of the columns the order may be any other: the kernel knows one.
    _centre(np.ascontiguousarray(centred), centre, rest, minimum, maximum)
    return centred


@kernel
def _centre(centred, centre, rest, minimum, maximum):
    n, d = centred.shape
    centre[:] = 0.0
    rest[:] = 0.0
    minimum[:] = np.inf
    maximum[:] = -np.inf
    for i in range(n):
        for j in range(d):
            value = centred[i, j]
            centre[j] += value
            minimum[j] = min(minimum[j], value)
            maximum[j] = max(maximum[j], value)
    for j in range(d):
        centre[j] = minimum[j] if minimum[j] == maximum[j] else centre[j] / n
    for i in range(n):
        for j in range(d):
            centred[i, j] -= centre[j]
            rest[j] += centred[i, j]
    for j in range(d):
        rest[j] /= n
    for i in range(n):
        for j in range(d):
            centred[i, j] -= rest[j]


# Rows whose residuals stay in the processor's cache.
_ROWS = 2048


@kernel(fastmath={"contract", "reassoc"})
def residual_powers(columns, slopes, weights, squares, fourths):
    """squares, fourths (S,): sums, weighted (n,), of powers of the last row of columns (d, n) less
    slopes (S, d - 1) · others"""
    outcome = columns.shape[0] - 1
    n = columns.shape[1]
    work = np.empty(_ROWS)
    squares[:] = 0.0
    fourths[:] = 0.0
    for first in range(0, n, _ROWS):
        stop = min(first + _ROWS, n)
        residual = work[: stop - first]
        weight = weights[first:stop]
        for s in range(slopes.shape[0]):
            copy_into(residual, columns[outcome, first:stop])
            for j in range(outcome):
                slope = slopes[s, j]
                if slope != 0.0:
                    x = columns[j, first:stop]
                    for i in range(residual.size):
                        residual[i] -= slope * x[i]
            second = 0.0
            fourth = 0.0
            for i in range(residual.size):
                square = residual[i] * residual[i]
                weighted = weight[i] * square
                second += weighted
                fourth += weighted * square
            squares[s] += second
            fourths[s] += fourth


class PairedMoments(NamedTuple):
    """Second moments of pairs of columns side by side for all environments, those of the pool left
    to be added up: one access brings all of a pair. local (d, d, E); gaps (E, d): √n_e · (mean in
    the environment − pooled mean)"""

    local: np.ndarray
    gaps: np.ndarray


def gram_entry(scatter, g, a, b):
    """Second moment of two columns in group g."""
    raise NotImplementedError("only for compiled code")


@overload(gram_entry, jit_options=AS_PART)
def _entry(scatter, g, a, b):
    if isinstance(scatter, types.Array):
        return lambda scatter, g, a, b: scatter[g, a, b]
    return _paired


def _paired(scatter, g, a, b):
    n_environments = scatter.gaps.shape[0]
    if g < n_environments:
        return scatter.local[a, b, g]
    total = 0.0
    for e in range(n_environments):
        total += scatter.local[a, b, e] + scatter.gaps[e, a] * scatter.gaps[e, b]
    return total
