"""Columns that say the same as another one: equal, or equal in other units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import Message, use
from .checks import listing, warn
from .features import Features

_KEYS = 1e-9  # differences that are worth a comparison
_UNITS_ROUNDING = 16 * np.finfo(float).eps  # of values, relative to the largest
_OF_PRODUCTS = 1e-12  # of squared correlations


# (first place, second place, in which way they are alike)
Pairs = list[tuple[int, int, str]]


def warn_of_equal_columns(features: Features, X: Floats, excluded: Sequence[str] = ()) -> None:
    """Of features that are one column of X (N, q), all of which vary; excluded : what the user left
    out already"""
    _warn(features.columns, equal_columns(features.columns, features.alone, X), excluded)


def equal_columns(names: Sequence[str], alone: Collection[str], X: Floats) -> Pairs:
    """Of the columns of X (N, q), all of which vary; alone : those that count"""
    low = X.min(axis=0)
    weights = np.random.default_rng(0).normal(size=len(X))
    high = X.max(axis=0)
    span = high - low
    largest = np.maximum(np.abs(low), np.abs(high)) / span

    def alike(i: int, j: int) -> str:
        if np.array_equal(X[:, i], X[:, j]):
            return "are equal"
        first, second = ((X[:, k] - low[k]) / span[k] for k in (i, j))
        off = min(np.abs(first - second).max(), np.abs(first + second - 1.0).max())
        return (
            "are equal in other units" if off <= _UNITS_ROUNDING * (largest[i] + largest[j]) else ""
        )

    keys = np.abs((weights @ X - weights.sum() * low) / span - weights.sum() / 2)
    return _pairs(names, alone, keys, _KEYS * np.sqrt(len(X)), alike)


def warn_of_equal_moments(
    names: Sequence[str], alone: Collection[str], scatter: Floats, ranges: Floats
) -> None:
    """As `warn_of_equal_columns`, of columns whose rows are not there, by scatter (E + 1, d, d), of
    all rows last, and ranges (2 E, d); alone : columns that are features on their own"""
    squares = np.diagonal(scatter, axis1=1, axis2=2)
    deviations = np.sqrt(squares[-1])

    def alike(i: int, j: int) -> str:
        if (scatter[:, i, j] ** 2 < (1.0 - _OF_PRODUCTS) * squares[:, i] * squares[:, j]).any():
            return ""
        return (
            "are equal"
            if np.array_equal(ranges[:, i], ranges[:, j])
            else "are equal in other units"
        )

    weights = np.random.default_rng(0).normal(size=len(names))
    keys = np.abs((weights / deviations) @ scatter[-1] / deviations)
    _warn(names, _pairs(names, alone, keys, _KEYS * len(names), alike))


def _pairs(
    names: Sequence[str],
    alone: Collection[str],
    keys: Floats,
    tolerance: float,
    alike: Callable[[int, int], str],
) -> Pairs:
    """keys (q,) : differ by no more than the tolerance where columns are alike; alike : how, in
    words"""
    order = [j for j in np.argsort(keys).tolist() if names[j] in alone]
    groups = [order[:1]]
    for j in order[1:]:
        if keys[j] - keys[groups[-1][-1]] <= tolerance and alike(groups[-1][0], j):
            groups[-1].append(j)
        else:
            groups.append([j])
    pairs = sorted((min(group), j) for group in groups for j in group if j != min(group))
    return [(i, j, alike(i, j)) for i, j in pairs]


def _warn(names: Sequence[str], pairs: Pairs, excluded: Sequence[str] = ()) -> None:
    if pairs:
        told = listing(f"{names[i]!r} and {names[j]!r} {how}" for i, j, how in pairs)
        warn(
            Message(
                f"columns {told}; to leave one out",
                use(exclude=[*excluded, *(names[j] for _, j, _ in pairs)]),
            )
        )
