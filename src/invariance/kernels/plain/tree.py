"""Twins of the walks over all subsets of a few features: a tree of Schur complements whose nodes lie side by side."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from ..screen import POSSIBLE, REJECTED, UNDECIDABLE


def settle(log_ratios: Floats, weights: Floats) -> None:
    if weights.sum() >= 0.0:
        rounding = log_ratios <= 1e-6 + 1e-9 * abs(weights[-1])
        log_ratios[:] = np.where(log_ratios > 0.0, np.where(rounding, 0.0, np.nan), log_ratios)


def swept(moments: Floats, absent: Mask, tolerance: float) -> Floats:
    """moments (G, d, d, n) of n nodes without their first column, which is regressed out of the others; absent (G,)"""
    pivot = moments[:, 0, 0]
    with np.errstate(divide="ignore"):
        reciprocal = np.where(absent[:, None], 0.0, np.where(pivot >= tolerance, 1.0 / pivot, np.nan))
    row = moments[:, 0, 1:]
    return moments[:, 1:, 1:] - (row * reciprocal[:, None])[:, :, None] * row[:, None]


def outcome_shares(grams: Floats, absent: Mask, tolerance: float, starts: Integers) -> Floats:
    """(G, 2**f) what each subset of f features leaves of the outcome in each group; NaN where undecidable"""
    nodes = grams[..., None]
    for start, stop in pairwise(starts):
        included = nodes
        for c in range(start, stop):
            included = swept(included, absent[:, c], tolerance)
        nodes = np.concatenate([nodes[:, stop - start :, stop - start :], included], axis=-1)
    shares = nodes[:, 0, 0]
    return np.where(shares >= tolerance, shares, np.nan)


def score_grouped_block(
    grams: Floats,
    absent: Mask,
    weights: Floats,
    offset: float,
    tolerance: float,
    starts: Integers,
    prefix: int,
    n_low: int,
    out: Floats,
) -> None:
    """Of all features: n_low is their number, and prefix 0."""
    out[:] = offset
    for weight, shares in zip(weights, outcome_shares(grams, absent, tolerance, starts), strict=True):
        out += weight * np.log(shares)
    settle(out, weights)


def score_grouped_extensions(
    grams: Floats,
    absent: Mask,
    weights: Floats,
    offset: float,
    tolerance: float,
    starts: Integers,
    prefix: Integers,
    max_size: int,
    members: Integers,
    out: Floats,
) -> None:
    n_features = len(starts) - 1
    scores = np.empty(1 << n_features)
    score_grouped_block(grams, absent, weights, offset, tolerance, starts, 0, n_features, scores)
    members[:] = -1
    for row, subset in enumerate(_extensions(tuple(prefix.tolist()), n_features, max_size)):
        members[row, : len(subset)] = subset
        out[row] = scores[sum(1 << j for j in subset)]


def _extensions(subset: tuple[int, ...], n_features: int, max_size: int) -> list[tuple[int, ...]]:
    """The subset and all that extend it by features after its last one, in the order of a dictionary."""
    found = [subset]
    if len(subset) < max_size:
        for j in range(subset[-1] + 1 if subset else 0, n_features):
            found += _extensions((*subset, j), n_features, max_size)
    return found


def screen_grouped_block(
    grams: Floats,
    absent: Mask,
    squares: Floats,
    counts: Integers,
    mean_limits: Floats,
    spread_limit: float,
    tolerance: float,
    starts: Integers,
    prefix: int,
    n_low: int,
    high: Integers,
    low: Integers,
    share: Floats,
    state: Integers,
) -> None:
    """Of all features: n_low is their number, and prefix 0."""
    shares, ranks = outcome_shares(grams, absent, tolerance, starts), high[:, None] + low
    freedom = np.maximum(counts[:-1, None] - 1.0 - ranks[:-1], 1.0)
    left = freedom.sum(axis=0)
    rss = squares[:, None] * shares
    local = rss[:-1].sum(axis=0)
    share[:] = np.log(shares[-1])
    spread = (freedom * np.log(rss[:-1] / freedom)).sum(axis=0)
    between = counts[-1] - 1.0 - ranks[-1] - left
    missing = (ranks[-1] - ranks[:-1]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(between > 0.0, (rss[-1] - local) / between / (local / left), 0.0)
        bartlett = np.zeros(len(left))
        if len(freedom) > 1:
            correction = 1.0 + ((1.0 / freedom).sum(axis=0) - 1.0 / left) / (3.0 * (len(freedom) - 1))
            bartlett = (left * np.log(local / left) - spread) / correction
    rejected = (statistic > mean_limits[ranks[-1], missing]) | (bartlett > spread_limit)
    state[:] = np.where(rejected, REJECTED, POSSIBLE)
    state[~(share + spread < np.inf)] = UNDECIDABLE
