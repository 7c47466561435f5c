"""Sums over the weights of subsets: total, inclusion of each feature, inclusion of each pair."""

import numpy as np

from .compiled import kernel
from .copying import copy_into


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
