"""Triangular factors of the rows of each environment: they tell what second moments are too coarse for.

Any columns of R, with R'R the centred products, leave the same residuals as the rows do, and R is found without forming
the products: block by block, from what the factor of the rows before and the next rows leave (TSQR).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers
from .two_sum import gaps_between

if TYPE_CHECKING:
    from .moments import Moments

# Rows of an environment that are factored together, at least.
_FEWEST_ROWS = 256


class RootSum:
    """Collects, of k columns in E environments, the factors (E, k, k)."""

    def __init__(self, n_environments: int, k: int) -> None:
        self._k = k
        self._kept: list[list[Floats]] = [[] for _ in range(n_environments)]

    def add(self, e: int, values: Floats, deviations: Floats) -> None:
        self._take(e, [deviations])

    def merge(self, other: RootSum) -> None:
        for e, parts in enumerate(other._kept):
            self._take(e, [_factor(parts, self._k)] if parts else [])

    def _take(self, e: int, parts: list[Floats]) -> None:
        kept = self._kept[e]
        kept += parts
        if sum(map(len, kept)) > max(_FEWEST_ROWS, 4 * self._k):
            kept[:] = [_factor(kept, self._k)]

    @property
    def roots(self) -> Floats:
        return np.array([_factor(parts, self._k) for parts in self._kept])


def _factor(parts: list[Floats], k: int) -> Floats:
    found = np.linalg.qr(np.vstack([np.zeros((k, k)), *parts]), mode="r")
    return np.asarray(found)


def root_of(moments: Moments, roots: Floats, places: Sequence[int] | Integers, columns: Integers) -> Floats:
    """(m, k) a factor of the centred products of the columns over all rows of the environments at these places"""
    at = np.asarray(places, dtype=np.intp)
    parts = [roots[e][:, columns] for e in at]
    varying = (moments.maximum[at].max(axis=0) > moments.minimum[at].min(axis=0))[columns]
    if len(at) > 1:
        gaps = gaps_between(moments.counts[at], moments.centre[at][:, columns], moments.rest[at][:, columns])
        parts.append(np.sqrt(moments.counts[at])[:, None] * gaps)
    return np.vstack(parts) * varying


def roots_of_groups(moments: Moments, roots: Floats, columns: Integers) -> list[Floats]:
    """Those of each environment and, last, of all rows."""
    everywhere = range(moments.n_environments)
    return [root_of(moments, roots, places, columns) for places in (*([e] for e in everywhere), everywhere)]


def unit_columns(root: Floats) -> tuple[Floats, Floats]:
    """The columns (m, k) scaled to unit length, as rows (k, m), and their lengths (k,)"""
    norms = np.sqrt(np.einsum("mk,mk->k", root, root))
    return np.ascontiguousarray((root / np.where(norms > 0.0, norms, 1.0)).T), norms
