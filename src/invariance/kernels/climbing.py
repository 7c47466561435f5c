"""Steepest ascent of log p(z)Λ(z): single flips, and exchanges where no flip helps."""

import numpy as np
from numba import njit

from .active_set import flip_scores, load

_LEAST_GAIN = 1e-6


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def best_flip(scoring, prior, state, included, size):
    """The free column whose flip raises log p(z)Λ(z) most, and by how much; `state` belongs to `included` (d,)."""
    change = np.empty(included.size)
    flip_scores(scoring, state, change)
    up = prior.by_size[size + 1] - prior.by_size[size] if size + 1 < prior.by_size.size else -np.inf
    down = prior.by_size[size - 1] - prior.by_size[size] if size > 0 else -np.inf
    column, highest = -1, 0.0
    for j in range(included.size):
        if prior.free[j] and change[j] == change[j]:
            gain = change[j] + (down - prior.log_odds[j] if included[j] else up + prior.log_odds[j])
            if gain > highest:
                column, highest = j, gain
    return column, highest


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def best_exchange(scoring, prior, state, included):
    """The free member and the free other column whose exchange raises log p(z)Λ(z) most, and by how much.

    `state` belongs to `included` (d,) before, and to something else after.
    """
    d = included.size
    change, without = np.empty(d), np.empty(d)
    flip_scores(scoring, state, change)
    leaving, entering, highest = -1, -1, 0.0
    for out in range(d):
        if not (included[out] and prior.free[out] and change[out] == change[out]):
            continue
        included[out] = False
        if load(scoring, state, included):
            flip_scores(scoring, state, without)
            for j in range(d):
                if prior.free[j] and not included[j] and j != out and without[j] == without[j]:
                    gain = change[out] + without[j] + prior.log_odds[j] - prior.log_odds[out]
                    if gain > highest:
                        leaving, entering, highest = out, j, gain
        included[out] = True
    return leaving, entering, highest


@njit(cache=True, nogil=True, error_model="numpy")
def climb(scoring, prior, included, state, most_steps):
    """Change `included` (d,) for the better, a flip or an exchange at a time, until none helps."""
    for _ in range(most_steps):
        if not load(scoring, state, included):
            return
        column, gain = best_flip(scoring, prior, state, included, included.sum())
        if gain > _LEAST_GAIN:
            included[column] = not included[column]
            continue
        leaving, entering, gain = best_exchange(scoring, prior, state, included)
        if not gain > _LEAST_GAIN:
            return
        included[leaving] = False
        included[entering] = True
