"""Passes over masks (S, p), one row for each subset, that make no array of their size: most of their entries are False.

Each is one call without the interpreter lock, for threads that work on thousands of outcomes side by side.
"""

import numpy as np

from .compiled import kernel


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
