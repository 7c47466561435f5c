"""Sums over subsets of limited size of features that are drawn independently, in log space.

log_in, log_out (f,): log probabilities of in and out; t: the most features that a subset may have.
"""

import numpy as np

from .compiled import kernel


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
