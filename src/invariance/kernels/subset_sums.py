"""Sums over subsets: of their weights, of priors over their members, and distributions of their
sizes."""

from __future__ import annotations

from functools import cache

import numpy as np

from .compiled import kernel


def fold_inclusion(weights, n_low, pairs):
    """pairs[i, j] = Σ of weights (2**n_low,) over positions with bits i and j (diagonal: bit i);
    returns the total."""
    n = n_low // 2
    low = _bits(n)
    high = _bits(n_low - n)
    table = weights.reshape(-1, 1 << n)
    of_low = np.ones(len(table)) @ table
    of_high = table @ np.ones(1 << n)
    cross = high @ table @ low.T
    pairs[:n, :n] = (low * of_low) @ low.T
    pairs[n:n_low, n:n_low] = (high * of_high) @ high.T
    pairs[n:n_low, :n] = cross
    pairs[:n, n:n_low] = cross.T
    return of_high.sum()


@cache
def _bits(n):
    """(n, 2**n): column s has the bits of s."""
    return (np.arange(1 << n) >> np.arange(n)[:, None] & 1).astype(float)


@kernel
def listed_inclusion(weights, members, pairs):
    """As fold_inclusion for subsets given by their members (n, k), -1 beyond the last; fills the
    upper triangle."""
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


def weighted_sum(weights, values):
    """Σ weights·values, where 0·(-inf) counts as 0"""
    return weights @ np.maximum(values, np.finfo(float).min)


@kernel
def add_listed_prior(log_odds, constant, log_size_weight, members, log_ratio, out):
    """out (n,) = log_ratio + log prior of subsets given by members (n, k), -1 beyond the last; -inf
    where NaN"""
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
    """Return log(exp(a) + exp(b))."""
    larger, smaller = (a, b) if a > b else (b, a)
    return larger if smaller == -np.inf else larger + np.log1p(np.exp(smaller - larger))


@kernel
def _add_feature(mass, log_in, log_out):
    """Extend, in place, the log distribution of sizes (t + 1,) by one more feature."""
    for k in range(mass.size - 1, 0, -1):
        mass[k] = _log_of_sum(mass[k] + log_out, mass[k - 1] + log_in)
    mass[0] += log_out


@kernel
def fill_remaining(table, log_in, log_out):
    """Fill table (f + 1, t + 2), whose last row and last column (too many: -inf) are given: [j, k]
    is the expected weight of the sizes when k of the first j features are in."""
    for j in range(log_in.size - 1, -1, -1):
        for k in range(table.shape[1] - 1):
            table[j, k] = _log_of_sum(log_out[j] + table[j + 1, k], log_in[j] + table[j + 1, k + 1])


@kernel
def inclusion_from(table, log_in, log_out, before, inclusion):
    """Fill inclusion (f,), the probability of each feature, from `fill_remaining`; before (t + 1,):
    the log distribution of the size of no feature, overwritten."""
    for j in range(log_in.size):
        total = 0.0
        for k in range(before.size):
            total += np.exp(before[k] + log_in[j] + table[j + 1, k + 1] - table[0, 0])
        inclusion[j] = total
        _add_feature(before, log_in[j], log_out[j])


@kernel
def draw_from(table, log_in, uniforms, draws):
    """Fill draws (n, f), from `fill_remaining` and uniforms (f, n)."""
    for s in range(draws.shape[0]):
        held = 0
        for j in range(log_in.size):
            chance = np.exp(log_in[j] + table[j + 1, held + 1] - table[j, held])
            draws[s, j] = uniforms[j, s] < chance
            held += draws[s, j]


@kernel
def sums_over_members(masks, values, out):
    """Fill out (S,): the sum of values (p,) over the members of each mask (S, p)."""
    for s in range(out.size):
        total = 0.0
        for j in range(values.size):
            if masks[s, j]:
                total += values[j]
        out[s] = total


def sizes(masks):
    """(S,) members of each"""
    return np.bitwise_count(np.packbits(masks, axis=1)).sum(axis=1, dtype=np.int64)


def weighted_shares(masks, weights):
    """(p,) share of weights (S,) of the subsets that hold each feature: exactly 1 of one that all
    hold"""
    totals = np.zeros(masks.shape[1])
    _add_to_members(masks, weights, totals)
    return np.where(masks.all(axis=0), 1.0, totals / weights.sum())


@kernel
def _add_to_members(masks, weights, totals):
    """Add the weight (S,) of each mask (S, p) to the totals (p,) of its members."""
    for s in range(weights.size):
        for j in range(totals.size):
            if masks[s, j]:
                totals[j] += weights[s]


def listed(masks, columns, room):
    """(S, room) the columns (p,) of the members of each, in front, of masks with at most so many"""
    out = np.zeros((len(masks), room), np.int32)
    _list_members(masks, columns, out)
    return out


@kernel
def _list_members(masks, columns, out):
    for s in range(out.shape[0]):
        place = 0
        for j in range(columns.size):
            if masks[s, j]:
                out[s, place] = columns[j]
                place += 1
