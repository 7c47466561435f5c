"""Columns that help only together, such as the parts of a sum that hide it: every one of them alone
looks useless. A clique is a column and those that a regression of it picks. Parts that cancel pick
each other."""

from __future__ import annotations

import numpy as np

from .cholesky import sweep_in_place, to_unit_diagonal
from .compiled import copy_into, kernel
from .mcmc import best_of, score_in_block, write_block
from .row_residuals import gram_entry, share_from_rows, subtract

# Forward selection, except that a column of which little is left must explain much more to enter.
FORWARD = 0.01
# Matching pursuit: whatever is left of a column, its covariance with what is left of the target
# counts.
MATCHING = 1e9


@kernel
def _pursuit(scoring, target, first, last, scale, free, damping, path, given):
    """The columns out of the `free` (d,) that a regression of the column `target` picks; returns
    how many were found. path (n,): receives columns in the order of entering; its first `given` are
    there already. Each has the largest c²/(r + damping), r the share of the column that the earlier
    ones leave, c its covariance, per standard deviations, with what they leave of the target.
    Columns that nearly depend on the earlier ones are passed over. Second moments of groups
    first..last-1 are added up; scale (d,): 1/√ of each column's sum of squares, 0 where it is
    constant."""
    d = free.size
    rows = np.empty((path.size, d))
    gains = np.empty(d)
    remaining = np.ones(d)
    covariance = np.empty(d)
    _scaled_row(scoring, target, first, last, scale, covariance)
    open_ones = free & (scale > 0.0)
    open_ones[target] = False
    for k in range(path.size):
        top = path[k]
        if k >= given:
            top = _most_promising(
                covariance, remaining, damping, scoring.tolerance, open_ones, gains
            )
        if top < 0 or remaining[top] < scoring.tolerance:
            return k
        open_ones[top] = False
        path[k] = top
        new = rows[k]
        _scaled_row(scoring, top, first, last, scale, new)
        for m in range(k):
            subtract(new, rows[m, top], rows[m])
        root = np.sqrt(new[top])
        with_target = new[target] / np.sqrt(new[top])
        for j in range(d):
            new[j] /= root
            remaining[j] -= new[j] * new[j]
            covariance[j] -= with_target * new[j]
    return path.size


@kernel
def _scaled_row(scoring, column, first, last, scale, out):
    """out (d,) = correlations of a column with all, groups first..last-1 added up"""
    out[:] = 0.0
    for g in range(first, last):
        row = scoring.scatter[g, column]
        for j in range(out.size):
            out[j] += row[j]
    for j in range(out.size):
        out[j] *= scale[j] * scale[column]


@kernel
def _most_promising(covariance, remaining, damping, tolerance, open_ones, gains):
    """The open column with the largest gain, -1 if there is none; those of which too little is left
    are closed. Two loops: the compiler vectorises the first. gains (d,): work space"""
    for j in range(gains.size):
        open_ones[j] &= not remaining[j] < tolerance
        gains[j] = covariance[j] ** 2 / (remaining[j] + damping) if open_ones[j] else -1.0
    top = -1
    largest = -1.0
    for j in range(gains.size):
        if gains[j] > largest:
            top = j
            largest = gains[j]
    return top


@kernel
def cliques(scoring, first, last, free, closest, damping, starts, members, given, sizes):
    """members (s, 1 + n): each column of `starts` (s,) and what a regression of it picks; sizes
    (s,): how many. Of what is picked the first `given` are there already. Columns whose squared
    correlation with it is above `closest` are passed over: copies would take all the places."""
    scale = np.zeros(free.size)
    correlations = np.empty(free.size)
    for j in range(free.size):
        for g in range(first, last):
            own = scoring.inverse_scale[g, j]
            scale[j] += 1.0 / (own * own) if own > 0.0 else 0.0
        scale[j] = 1.0 / np.sqrt(scale[j]) if scale[j] > 0.0 else 0.0
    for s in range(starts.size):
        start = starts[s]
        partners = free.copy()
        if closest < 1.0:
            _scaled_row(scoring, start, first, last, scale, correlations)
            partners &= correlations**2 <= closest
        members[s, 0] = start
        sizes[s] = 1 + _pursuit(
            scoring, start, first, last, scale, partners, damping, members[s, 1:], given
        )


@kernel
def synergy(scoring, first, last, clique):
    """R² of the first k columns of `clique` less the sum of R² of each alone, at its largest over
    k; that k; and the share of the outcome that all leave. Second moments of groups first..last-1
    added up; where these cannot tell what a column adds, the rows of the pool, if they are at
    hand."""
    k = clique.size
    columns = np.append(clique, scoring.outcome)
    matrix = np.zeros((k + 1, k + 1))
    for i in range(k + 1):
        for j in range(i, k + 1):
            for g in range(first, last):
                matrix[i, j] += gram_entry(scoring.scatter, g, columns[i], columns[j])
    to_unit_diagonal(matrix, k + 1, k)
    alone = matrix[:k, k] ** 2
    best = 0.0
    best_size = 0
    share = 1.0
    for i in range(k):
        if matrix[i, i] >= scoring.tolerance:
            sweep_in_place(matrix, i, k, 1.0 / matrix[i, i])
            share = matrix[k, k]
        else:
            matrix[i, i] = np.nan
            share = share_from_rows(
                scoring.rows, scoring.weights.size - 1, clique[: i + 1], scoring.outcome
            )
        value = 1.0 - share - alone[: i + 1].sum()
        if value > best:
            best = value
            best_size = i + 1
        if share != share:
            break
    return best, best_size, share


@kernel
def add_synergies(scoring, first, last, members, sizes, synergies, joint, determining):
    """synergies, joint (s,) = `synergy` of each clique; determining (s,): whether it leaves next to
    nothing."""
    for s in range(sizes.size):
        synergies[s], joint[s], share = synergy(scoring, first, last, members[s, : sizes[s]])
        determining[s] = not share >= scoring.tolerance


@kernel
def free_block(prior, clique, most):
    """The first free columns of `clique`, up to `most`, ascending. They are few: np.sort would
    compile for a second."""
    block = np.empty(clique.size, np.int64)
    n = 0
    for column in clique:
        if prior.free[column] and n < most:
            place = n
            while place > 0 and block[place - 1] > column:
                block[place] = block[place - 1]
                place -= 1
            block[place] = column
            n += 1
    return block[:n]


@kernel
def best_in_block(scoring, prior, included, block, found):
    """The best log p(z)Λ(z) over all z that agree with `included` (d,) outside the block; that z is
    written to `found`. -inf, with `found` = included, when none of them is decidable."""
    log_ratios = np.empty(1 << block.size)
    log_prior = np.empty(1 << block.size)
    score_in_block(scoring, prior, included, block, log_ratios, log_prior)
    highest, top = best_of(log_ratios, log_prior)
    copy_into(found, included)
    if top >= 0:
        write_block(found, block, top)
    return highest


@kernel
def scan_cliques(scoring, prior, included, members, sizes, found):
    """The best log p(z)Λ(z) when the columns of one clique may change and others stay as in
    `included` (d,); that z is written to `found`, which is `included` where none is decidable."""
    candidate = np.empty(included.size, np.bool_)
    highest = -np.inf
    copy_into(found, included)
    for s in range(sizes.size):
        block = free_block(prior, members[s, : sizes[s]], sizes[s])
        value = best_in_block(scoring, prior, included, block, candidate)
        if value > highest:
            highest = value
            copy_into(found, candidate)
    return highest
