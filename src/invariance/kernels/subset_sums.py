"""Sums over the weights of subsets: total, inclusion of each feature, inclusion of each pair."""

from __future__ import annotations

import numpy as np

from .compiled import copy_into, kernel


@kernel(fastmath={"reassoc"})
def _single_sums(weights, n_low, work, sums):
    """sums[j] = Σ of weights over positions with bit j; returns the total. Folds the highest bit first."""
    copy_into(work[: 1 << n_low], weights)
    for j in range(n_low - 1, -1, -1):
        half = 1 << j
        upper = 0.0
        for s in range(half):
            upper += work[half + s]
            work[s] += work[half + s]
        sums[j] = upper
    return work[0]


@kernel
def fold_inclusion(weights, n_low, pairs):
    """pairs[i, j] = Σ of weights over positions with bits i and j (diagonal: bit i); returns the total.

    `weights` (2**n_low,) is overwritten.
    """
    work = np.empty(1 << n_low)
    sums = np.empty(n_low)
    for j in range(n_low - 1, -1, -1):
        half = 1 << j
        upper = weights[half : 2 * half]
        pairs[j, j] = _single_sums(upper, j, work, sums)
        for i in range(j):
            pairs[i, j] = sums[i]
            pairs[j, i] = sums[i]
        for s in range(half):
            weights[s] += upper[s]
    return weights[0]


@kernel
def listed_inclusion(weights, members, pairs):
    """As fold_inclusion for subsets given by their members (n, k), -1 beyond the last; fills the upper triangle."""
    total = 0.0
    for s in range(weights.size):
        w = weights[s]
        total += w
        for a in range(members.shape[1]):
            i = members[s, a]
            if i < 0:
                break
            for b in range(a + 1):
                pairs[members[s, b], i] += w
    return total


@kernel
def weighted_sum(weights, values):
    """Σ weights·values over positive weights, so that 0·(-inf) counts as 0."""
    total = 0.0
    for s in range(weights.size):
        if weights[s] > 0.0:
            total += weights[s] * values[s]
    return total


@kernel
def add_dense_prior(low_log_odds, low_sizes, constant, log_size_weight, log_ratio, out):
    """out[s] = log_ratio[s] + log prior of the subset at position s; undecidable (NaN) becomes -inf."""
    for s in range(log_ratio.size):
        value = log_ratio[s] + low_log_odds[s] + constant + log_size_weight[low_sizes[s]]
        out[s] = value if value == value else -np.inf


@kernel
def add_listed_prior(log_odds, constant, log_size_weight, members, log_ratio, out):
    """As add_dense_prior for subsets given by their members."""
    for s in range(log_ratio.size):
        value = log_ratio[s] + constant
        size = 0
        for a in range(members.shape[1]):
            j = members[s, a]
            if j < 0:
                break
            value += log_odds[j]
            size += 1
        value += log_size_weight[size]
        out[s] = value if value == value else -np.inf


@kernel
def _log_of_sum(a, b):
    larger, smaller = (a, b) if a > b else (b, a)
    return larger if smaller == -np.inf else larger + np.log1p(np.exp(smaller - larger))


@kernel
def add_feature(mass, j, log_in, log_out):
    """Extend, in place, the log size distribution (t + 1,) of the first j features by one more."""
    for k in range(min(j + 1, mass.size - 1), 0, -1):
        mass[k] = _log_of_sum(mass[k] + log_out, mass[k - 1] + log_in)
    mass[0] += log_out


@kernel
def add_features(mass, log_in, log_out):
    """Extend, in place, the log size distribution (t + 1,) of no feature by all f."""
    for j in range(log_in.size):
        add_feature(mass, j, log_in[j], log_out[j])


@kernel
def fill_remaining(table, log_in, log_out):
    """table (f + 1, t + 2), whose last row is given: [j, k] is the expected weight of the sizes in it when k of the
    first j features are in; the last column (too many) is -inf."""
    for j in range(log_in.size - 1, -1, -1):
        for k in range(table.shape[1] - 1):
            table[j, k] = _log_of_sum(log_out[j] + table[j + 1, k], log_in[j] + table[j + 1, k + 1])


@kernel
def inclusion_from(table, log_in, log_out, inclusion):
    """inclusion (f,): the probability of each feature, from `fill_remaining`"""
    before = np.full(table.shape[1] - 1, -np.inf)
    before[0] = 0.0
    for j in range(log_in.size):
        total = 0.0
        for k in range(min(j + 1, before.size)):
            total += np.exp(before[k] + log_in[j] + table[j + 1, k + 1] - table[0, 0])
        inclusion[j] = total
        add_feature(before, j, log_in[j], log_out[j])


@kernel
def draw_from(table, log_in, uniforms, draws):
    """draws (n, f), from `fill_remaining` and uniforms (f, n)"""
    for s in range(draws.shape[0]):
        held = 0
        for j in range(log_in.size):
            draws[s, j] = uniforms[j, s] < np.exp(log_in[j] + table[j + 1, held + 1] - table[j, held])
            held += draws[s, j]


@kernel
def sizes(masks):
    """(S,) members of each"""
    out = np.empty(masks.shape[0], np.int64)
    for s in range(masks.shape[0]):
        count = 0
        for j in range(masks.shape[1]):
            count += masks[s, j]
        out[s] = count
    return out


@kernel
def _find(mask, places):
    """Into places (p + 1,) those of the members of a mask (p,), and how many these are. A branch at each entry, hard to
    foresee, would take four times as long."""
    found = 0
    for j in range(mask.size):
        places[found] = j
        found += mask[j]
    return found


@kernel
def sums_over_members(masks, values):
    """(S,) Σ of values (p,) over the members of each"""
    out, places = np.empty(masks.shape[0]), np.empty(masks.shape[1] + 1, np.int32)
    for s in range(masks.shape[0]):
        total = 0.0
        for i in range(_find(masks[s], places)):
            total += values[places[i]]
        out[s] = total
    return out


@kernel
def weighted_shares(masks, weights):
    """(p,) share of weights (S,) of the subsets that hold each feature: exactly 1 of one that all hold"""
    out, places, total = np.zeros(masks.shape[1]), np.empty(masks.shape[1] + 1, np.int32), 0.0
    for s in range(masks.shape[0]):
        total += weights[s]
        for i in range(_find(masks[s], places)):
            out[places[i]] += weights[s]
    return out / total


@kernel
def listed(masks, columns, room):
    """(S, room) the columns (p,) of the members of each, in front, of masks with at most so many"""
    out, places = np.zeros((masks.shape[0], room), np.int32), np.empty(masks.shape[1] + 1, np.int32)
    for s in range(masks.shape[0]):
        for i in range(_find(masks[s], places)):
            out[s, i] = columns[places[i]]
    return out
