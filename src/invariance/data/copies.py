"""Columns that say the same as another one: equal, or equal in other units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import Message, use
from .checks import listing, warn
from .features import Features

_ROUNDING = 1e-9  # of values, relative to their range
_OF_PRODUCTS = 1e-12  # of squared correlations


def warn_of_equal_columns(features: Features, X: Floats, excluded: Sequence[str] = ()) -> None:
    """Of features that are one column of X (N, q), all of which vary; excluded : what the user left out already"""
    low, weights = X.min(axis=0), np.random.default_rng(0).normal(size=len(X))
    span = X.max(axis=0) - low

    def alike(i: int, j: int) -> str:
        if np.array_equal(X[:, i], X[:, j]):
            return "are equal"
        first, second = ((X[:, k] - low[k]) / span[k] for k in (i, j))
        nearest = min(np.abs(first - second).max(), np.abs(first + second - 1.0).max())
        return "are equal in other units" if nearest < _ROUNDING else ""

    keys = np.abs((weights @ X - weights.sum() * low) / span - weights.sum() / 2)
    _warn(features.columns, features.alone, keys, _ROUNDING * np.sqrt(len(X)), alike, excluded)


def warn_of_equal_moments(names: Sequence[str], alone: Collection[str], scatter: Floats, ranges: Floats) -> None:
    """As `warn_of_equal_columns`, by scatter (d, d) and ranges (2 E, d) of columns whose rows are not there; alone :
    those that are features on their own"""
    deviations = np.sqrt(np.diagonal(scatter))

    def alike(i: int, j: int) -> str:
        if scatter[i, j] ** 2 < (1.0 - _OF_PRODUCTS) * scatter[i, i] * scatter[j, j]:
            return ""
        return "are equal" if np.array_equal(ranges[:, i], ranges[:, j]) else "are equal in other units"

    weights = np.random.default_rng(0).normal(size=len(scatter))
    _warn(names, alone, np.abs((weights / deviations) @ scatter / deviations), _ROUNDING * len(scatter), alike)


def _warn(
    names: Sequence[str],
    alone: Collection[str],
    keys: Floats,
    tolerance: float,
    alike: Callable[[int, int], str],
    excluded: Sequence[str] = (),
) -> None:
    """keys (q,) : differ by no more than the tolerance where columns are alike; alike : how, in words"""
    order = [j for j in np.argsort(keys).tolist() if names[j] in alone]
    groups = [order[:1]]
    for j in order[1:]:
        if keys[j] - keys[groups[-1][-1]] <= tolerance and alike(groups[-1][0], j):
            groups[-1].append(j)
        else:
            groups.append([j])
    pairs = sorted((min(group), j) for group in groups for j in group if j != min(group))
    if pairs:
        told = listing(f"{names[i]!r} and {names[j]!r} {alike(i, j)}" for i, j in pairs)
        warn(Message(f"columns {told}; to leave one out", use(exclude=[*excluded, *(names[j] for _, j in pairs)])))
