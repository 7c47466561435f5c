"""Sums over subsets: of their weights, of priors over their members, and distributions of their sizes."""

from __future__ import annotations

from functools import cache

import numpy as np

from .compiled import kernel


def fold_inclusion(weights, n_low, pairs):
    """pairs[i, j] = Σ of weights (2**n_low,) over positions with bits i and j (diagonal: bit i); returns the total."""
    n = n_low // 2
    low, high, table = _bits(n), _bits(n_low - n), weights.reshape(-1, 1 << n)
    of_low, of_high, cross = np.ones(len(table)) @ table, table @ np.ones(1 << n), high @ table @ low.T
    pairs[:n, :n] = (low * of_low) @ low.T
    pairs[n:n_low, n:n_low] = (high * of_high) @ high.T
    pairs[n:n_low, :n], pairs[:n, n:n_low] = cross, cross.T
    return of_high.sum()


@cache
def _bits(n):
    """(n, 2**n): column s has the bits of s."""
    return (np.arange(1 << n) >> np.arange(n)[:, None] & 1).astype(float)


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


def weighted_sum(weights, values):
    """Σ weights·values, where 0·(-inf) counts as 0"""
    return weights @ np.maximum(values, np.finfo(float).min)


@kernel
def add_listed_prior(log_odds, constant, log_size_weight, members, log_ratio, out):
    """out (n,) = log_ratio + log prior of subsets given by members (n, k), -1 beyond the last; -inf where NaN"""
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


def size_distribution(log_in, log_out, most):
    """(most + 1,) log probability of each size when features are in with log chances (f,), those of out beside"""
    mass = np.append(0.0, np.full(most, -np.inf))
    for chances in zip(log_in, log_out, strict=True):
        _add_feature(mass, *chances)
    return mass


def _add_feature(mass, log_in, log_out):
    mass[1:] = np.logaddexp(mass[1:] + log_out, mass[:-1] + log_in)
    mass[0] += log_out


def fill_remaining(table, log_in, log_out):
    """table (f + 1, t + 2), whose last row is given: [j, k] is the expected weight of the sizes in it when k of the
    first j features are in; the last column (too many) is -inf."""
    for j in reversed(range(len(log_in))):
        table[j, :-1] = np.logaddexp(log_out[j] + table[j + 1, :-1], log_in[j] + table[j + 1, 1:])


def inclusion_from(table, log_in, log_out):
    """(f,) the probability of each feature, from `fill_remaining`"""
    inclusion, before = np.empty(len(log_in)), np.append(0.0, np.full(table.shape[1] - 2, -np.inf))
    for j in range(len(log_in)):
        inclusion[j] = np.exp(before + log_in[j] + table[j + 1, 1:] - table[0, 0]).sum()
        _add_feature(before, log_in[j], log_out[j])
    return inclusion


def draw_from(table, log_in, uniforms):
    """(n, f) draws, from `fill_remaining` and uniforms (f, n)"""
    draws, held = np.empty(uniforms.T.shape, dtype=bool), np.zeros(uniforms.shape[1], np.int64)
    for j in range(len(log_in)):
        draws[:, j] = uniforms[j] < np.exp(log_in[j] + table[j + 1, held + 1] - table[j, held])
        held += draws[:, j]
    return draws


def sizes(masks):
    """(S,) members of each"""
    return np.bitwise_count(np.packbits(masks, axis=1)).sum(axis=1, dtype=np.int64)


def weighted_shares(masks, weights):
    """(p,) share of weights (S,) of the subsets that hold each feature: exactly 1 of one that all hold"""
    return np.where(masks.all(axis=0), 1.0, weights @ masks / weights.sum())


def listed(masks, columns, room):
    """(S, room) the columns (p,) of the members of each, in front, of masks with at most so many"""
    subset, feature = np.nonzero(masks)
    first = np.cumsum(sizes(masks)) - sizes(masks)
    out = np.zeros((len(masks), room), np.int32)
    out[subset, np.arange(len(subset)) - first[subset]] = columns[feature]
    return out
