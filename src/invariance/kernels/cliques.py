"""Columns that help only together, such as the parts of a sum that hide it: every one of them alone looks useless.

A clique is a column and those that a regression of it picks. Parts that cancel pick each other, whatever the outcome.
"""

import numpy as np
from numba import njit

from .block_gibbs import block_log_ratios, block_terms
from .chain_moves import members_of
from .gram_rows import gram_entry, gram_row
from .pursuit import FORWARD, pursuit
from .subset_tree import sweep_in_place


@njit(cache=True, nogil=True, error_model="numpy")
def cliques(scoring, first, last, free, closest, starts, members, sizes):
    """members (s, k): each column of `starts` (s,) and what a regression of it picks; sizes (s,): how many.

    Columns whose squared correlation with it is above `closest` are passed over: copies would take all the places.
    """
    d = free.size
    squares = np.zeros(d)
    for g in range(first, last):
        for j in range(d):
            if scoring.inverse_scale[g, j] > 0.0:
                squares[j] += scoring.inverse_scale[g, j] ** -2.0
    for s in range(starts.size):
        start = starts[s]
        covariance = np.zeros(d)
        for g in range(first, last):
            covariance += gram_row(scoring.scatter, g, start)
        partners = free & (covariance**2 <= closest * squares[start] * squares)
        members[s, 0] = start
        sizes[s] = 1 + pursuit(scoring, start, first, last, partners, FORWARD, members[s, 1:], 0)


@njit(cache=True, nogil=True, error_model="numpy")
def synergy(scoring, first, last, clique):
    """How much more the columns of `clique` explain of the outcome together than one by one, and how many of them do.

    R² of its first k columns less the sum of R² of each alone, at its largest over k. Second moments of groups
    first..last-1 added up. Stops at a column that nearly depends on those before it.
    """
    k = clique.size
    columns = np.append(clique, scoring.outcome)
    matrix = np.zeros((k + 1, k + 1))
    for i in range(k + 1):
        for j in range(i, k + 1):
            for g in range(first, last):
                matrix[i, j] += gram_entry(scoring.scatter, g, columns[i], columns[j])
    scale = 1.0 / np.sqrt(np.diag(matrix))
    for i in range(k + 1):
        for j in range(i, k + 1):
            matrix[i, j] *= scale[i] * scale[j]
    alone = matrix[:k, k] ** 2
    best, best_size = 0.0, 0
    for i in range(k):
        if not matrix[i, i] >= scoring.tolerance:
            break
        sweep_in_place(matrix, i, k, 1.0 / matrix[i, i])
        value = 1.0 - matrix[k, k] - alone[: i + 1].sum()
        if value > best:
            best, best_size = value, i + 1
    return best, best_size


@njit(cache=True, nogil=True, error_model="numpy")
def joined_block(prior, included, clique, largest):
    """The free columns of `clique` and, as far as `largest` goes, the free members of `included` (d,); ascending."""
    chosen = np.zeros(included.size, np.bool_)
    size = 0
    for j in clique:
        if prior.free[j] and size < largest:
            chosen[j] = True
            size += 1
    for j in range(included.size):
        if included[j] and prior.free[j] and not chosen[j] and size < largest:
            chosen[j] = True
            size += 1
    return members_of(chosen)


@njit(cache=True, nogil=True, error_model="numpy")
def best_in_block(scoring, prior, included, block, found):
    """The best log p(z)Λ(z) over all z that agree with `included` (d,) outside the block; that z is written to `found`.

    -inf, with `found` = included, when none of them is decidable.
    """
    b = block.size
    found[:] = included
    found[block] = False
    fixed = members_of(found)
    constant = prior.constant
    for j in fixed:
        constant += prior.log_odds[j]
    log_ratios, log_prior = np.empty(1 << b), np.empty(1 << b)
    block_log_ratios(scoring, fixed, block, log_ratios)
    block_terms(prior.log_odds[block], constant + prior.by_size[fixed.size : fixed.size + b + 1], log_prior)
    highest, top = -np.inf, -1
    for s in range(1 << b):
        if log_ratios[s] + log_prior[s] > highest:
            highest, top = log_ratios[s] + log_prior[s], s
    if top < 0:
        found[:] = included
        return highest
    for i in range(b):
        found[block[i]] = (top >> i) & 1 == 1
    return highest


@njit(cache=True, nogil=True, error_model="numpy")
def scan_cliques(scoring, prior, included, members, sizes, largest, values):
    """values (s,) = best log p(z)Λ(z) when the columns of each clique and members of `included` may change together."""
    found = np.empty(included.size, np.bool_)
    for s in range(sizes.size):
        block = joined_block(prior, included, members[s, : sizes[s]], largest)
        values[s] = best_in_block(scoring, prior, included, block, found)
