"""What a subset leaves of the outcome once a feature, of one column or several, is added or
removed: from one factorisation of the subset in each group."""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .row_residuals import subtract

# Added to correlations of columns with themselves: more than rounding, less than a pivot that
# second moments can tell.
RIDGE = 1e-12
# A pivot below which a column depends on others, but for the ridge; and the least pivot, of
# rounding alone.
_DEPENDENT = 1e-10
TINY = 1e-15


@kernel
def block_flip_shares(correlations, starts, included, members, shares, ranks):
    """shares, ranks (G, p): of the outcome, and of the fit, with each feature flipped.

    correlations (G, q + 1, q + 1): of q columns and, last, the outcome, with a ridge on the
    diagonal; starts (p + 1,): columns of the features; included (p,): the subset; members (k,): its
    columns, ascending
    """
    n = correlations.shape[1]
    k = members.size
    rows = np.zeros((k, n))
    inverse = np.zeros((k, k))
    widest = np.int64(1)
    for feature in range(included.size):
        widest = max(widest, starts[feature + 1] - starts[feature])
    block = np.empty((widest, widest))
    with_outcome = np.empty(widest)
    for g in range(correlations.shape[0]):
        table = correlations[g]
        left, rank = _factored(table, members, rows, inverse)
        place = 0
        for feature in range(included.size):
            first = starts[feature]
            width = starts[feature + 1] - starts[feature]
            if included[feature]:
                _of_members(rows, inverse, place, width, block, with_outcome)
                explained, own = _explained(block, with_outcome, width, 0.0, 1.0 / _DEPENDENT)
                shares[g, feature] = left + explained
                ranks[g, feature] = rank - own
                place += width
            else:
                _of_others(table, rows, first, width, block, with_outcome)
                explained, own = _explained(block, with_outcome, width, _DEPENDENT, np.inf)
                shares[g, feature] = left - explained
                ranks[g, feature] = rank + own


@kernel
def _factored(table, members, rows, inverse):
    """The share of the outcome that the members leave, and how many do not depend on others.

    rows (k, n): L⁻¹ times their rows of the table; inverse (k, k): L⁻¹, where LL' is the table of
    the members
    """
    last = table.shape[0] - 1
    left = table[last, last]
    rank = 0
    for i in range(members.size):
        column = members[i]
        for j in range(table.shape[0]):
            rows[i, j] = table[column, j]
        for j in range(members.size):
            inverse[i, j] = 1.0 if i == j else 0.0
        for m in range(i):
            factor = rows[m, column]
            subtract(rows[i], factor, rows[m])
            subtract(inverse[i], factor, inverse[m])
        root = np.sqrt(max(rows[i, column], TINY))
        rank += rows[i, column] > _DEPENDENT
        for j in range(table.shape[0]):
            rows[i, j] /= root
        for j in range(i + 1):
            inverse[i, j] /= root
        left -= rows[i, last] ** 2
    return left, rank


@kernel
def _of_members(rows, inverse, place, width, block, with_outcome):
    """The block of the inverse table, and the coefficients, of members from `place` on"""
    last = rows.shape[1] - 1
    for a in range(width):
        total = 0.0
        for i in range(place + a, rows.shape[0]):
            total += inverse[i, place + a] * rows[i, last]
        with_outcome[a] = total
        for b in range(a + 1):
            total = 0.0
            for i in range(place + a, rows.shape[0]):
                total += inverse[i, place + a] * inverse[i, place + b]
            block[a, b] = total


@kernel
def _of_others(table, rows, first, width, block, with_outcome):
    """The table of columns from `first` on, and its column of the outcome, less what members
    explain"""
    last = table.shape[0] - 1
    for a in range(width):
        total = table[first + a, last]
        for i in range(rows.shape[0]):
            total -= rows[i, first + a] * rows[i, last]
        with_outcome[a] = total
        for b in range(a + 1):
            total = table[first + a, first + b]
            for i in range(rows.shape[0]):
                total -= rows[i, first + a] * rows[i, first + b]
            block[a, b] = total


@kernel
def _explained(block, with_outcome, width, least, most):
    """c'B⁻¹c of a block B, of which the lower triangle is given and overwritten, and c,
    overwritten; and how many pivots lie between `least` and `most`"""
    total = 0.0
    own = 0
    for a in range(width):
        for b in range(a + 1):
            value = block[a, b]
            for m in range(b):
                value -= block[a, m] * block[b, m]
            if a == b:
                own += least < value < most
            block[a, b] = np.sqrt(max(value, TINY)) if a == b else value / block[b, b]
        value = with_outcome[a]
        for m in range(a):
            value -= block[a, m] * with_outcome[m]
        with_outcome[a] = value / block[a, a]
        total += with_outcome[a] ** 2
    return total, own
