"""Second moments on demand: for data whose matrix of all pairs of columns would not fit in memory.

`gram_row` and `gram_entry` read either a dense array (G, d, d) or a `GramRows`, which computes a row when it is first
asked for and keeps it. Both give the same numbers for the same pair.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .compiled import kernel
from .orthogonal import dot


class GramRows(NamedTuple):
    """Deviations of d columns from their environment's means, and the rows of second moments computed so far.

    centred (d, N): rows sorted by environment; bounds (E+1,): where each begins; gaps (E, d): √n_e · (mean in the
    environment − pooled mean). cache (s, E+1, d): kept rows, the pool last; slot (d,): where, or -1; used (1,).
    """

    centred: np.ndarray
    bounds: np.ndarray
    gaps: np.ndarray
    cache: np.ndarray
    slot: np.ndarray
    used: np.ndarray


class PairedMoments(NamedTuple):
    """Second moments of pairs of columns side by side for all environments, those of the pool left to be added up.

    local (d, d, E); gaps (E, d): √n_e · (mean in the environment − pooled mean). Large subsets of many columns take
    most of their time to read pairs here and there: so one access brings all of a pair.
    """

    local: np.ndarray
    gaps: np.ndarray


def gram_rows(centred: np.ndarray, bounds: np.ndarray, gaps: np.ndarray, kept: int) -> GramRows:
    """With an empty cache for `kept` columns."""
    d = len(centred)
    cache = np.empty((min(kept, d), len(bounds), d))
    return GramRows(centred, bounds, gaps, cache, np.full(d, -1, np.int64), np.zeros(1, np.int64))


@kernel
def _computed_local(gram, e, a, b):
    start, stop = gram.bounds[e], gram.bounds[e + 1]
    return dot(gram.centred[a, start:stop], gram.centred[b, start:stop])


@kernel
def _computed(gram, g, a, b):
    n_environments = gram.bounds.size - 1
    if g < n_environments:
        return _computed_local(gram, g, a, b)
    total = 0.0
    for e in range(n_environments):
        total += _computed_local(gram, e, a, b) + gram.gaps[e, a] * gram.gaps[e, b]
    return total


@kernel
def _slot_of(gram, column):
    """Where the rows of a column are kept, after computing them if need be; a full cache is emptied first."""
    if gram.slot[column] >= 0:
        return gram.slot[column]
    if gram.used[0] == gram.cache.shape[0]:
        gram.slot[:] = -1
        gram.used[0] = 0
    place = gram.used[0]
    gram.used[0] = place + 1
    gram.slot[column] = place
    n_environments, d = gram.gaps.shape
    cache = gram.cache[place]
    for j in range(d):
        pooled = 0.0
        for e in range(n_environments):
            local = _computed_local(gram, e, column, j)
            cache[e, j] = local
            pooled += local + gram.gaps[e, column] * gram.gaps[e, j]
        cache[n_environments, j] = pooled
    return place


def gram_row(scatter, g, column):
    """(d,) second moments of one column with all in group g; to be used before the next call."""
    raise NotImplementedError("only for compiled code")


def gram_entry(scatter, g, a, b):
    """Second moment of two columns in group g."""
    raise NotImplementedError("only for compiled code")


@overload(gram_row)
def _row(scatter, g, column):
    if isinstance(scatter, types.Array):
        return lambda scatter, g, column: scatter[g, column]
    return lambda scatter, g, column: scatter.cache[_slot_of(scatter, column), g]


@overload(gram_entry)
def _entry(scatter, g, a, b):
    if isinstance(scatter, types.Array):
        return lambda scatter, g, a, b: scatter[g, a, b]
    return _paired if scatter.instance_class is PairedMoments else _kept_or_computed


def _paired(scatter, g, a, b):
    n_environments = scatter.gaps.shape[0]
    if g < n_environments:
        return scatter.local[a, b, g]
    total = 0.0
    for e in range(n_environments):
        total += scatter.local[a, b, e] + scatter.gaps[e, a] * scatter.gaps[e, b]
    return total


def _kept_or_computed(scatter, g, a, b):
    if scatter.slot[a] >= 0:
        return scatter.cache[scatter.slot[a], g, b]
    if scatter.slot[b] >= 0:
        return scatter.cache[scatter.slot[b], g, a]
    return _computed(scatter, g, a, b)
