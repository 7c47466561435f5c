"""What large subsets leave of the outcome, from second moments: one blocked factorisation per group."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .blocked_cholesky import Ahead, block_start, factor_block, n_blocks
from .compiled import kernel
from .copying import copy_into
from .gram_rows import PairedMoments, gram_entry
from .lanes import LANES, less, load, picked, store, total

# From so many members on. Smaller subsets are swept: their log Λ is the same to the last bit wherever it is computed.
LARGE = 48
# Pivots this many times above the tolerance: whether one reaches it must not depend on the order of operations.
_CLEAR = 2.0


class LargeSubset(NamedTuple):
    """Work space for one subset of up to k members, with the outcome and up to seven more in b blocks of eight columns.

    order (8b,): columns; starts, shifts (8b,): where they stand, of `PairedMoments`; gaps (E, 8b): theirs;
    scale (G, 8b); triangles (G, t): as `blocked_cholesky` has them; reciprocals (G, 8b);
    shares (G,): what the members leave of the outcome
    """

    order: np.ndarray
    starts: np.ndarray
    shifts: np.ndarray
    gaps: np.ndarray
    scale: np.ndarray
    triangles: np.ndarray
    reciprocals: np.ndarray
    shares: np.ndarray


@kernel
def large_subset(n_groups, largest):
    """Room for subsets of up to `largest` members; none where all are small."""
    blocks = n_blocks(largest + 1) if largest >= LARGE else 0
    n = LANES * blocks
    return LargeSubset(
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty((n_groups - 1, n)),
        np.empty((n_groups, n)),
        np.empty((n_groups, block_start(blocks))),
        np.empty((n_groups, n)),
        np.empty(n_groups),
    )


@kernel
def decided_as_large(scoring, members, work):
    """Whether a subset is large and clearly decidable from second moments in all groups; then work.shares has it."""
    if members.size < LARGE:
        return False
    n_groups, k, blocks = scoring.weights.size, members.size, n_blocks(members.size + 1)
    copy_into(work.order[:k], members)
    work.order[k : LANES * blocks] = scoring.outcome
    for g in range(n_groups):
        if not scoring.inverse_scale[g, scoring.outcome] > 0.0:
            return False
        for i in range(LANES * blocks):
            work.scale[g, i] = scoring.inverse_scale[g, work.order[i]] if i <= k else 0.0
    source, tolerance = prepare(scoring.scatter, work, LANES * blocks), _CLEAR * scoring.tolerance
    for b in range(blocks):
        gather(scoring.scatter, work, b)
        rows = LANES * (b + 2) if b + 1 < blocks and source.size > 0 else 0
        ahead = Ahead(source, work.starts[LANES * (b + 1) : LANES * (b + 2)], work.shifts[:rows])
        if not factor_block(work.triangles, work.scale, work.reciprocals, b, tolerance, ahead):
            return False
    for g in range(n_groups):
        work.shares[g] = 1.0 / (work.reciprocals[g, k] * work.reciprocals[g, k])
    return True


def prepare(scatter, work, n):
    """What `gather` has to know of the first n columns of the order. Returns the array that is read here and there;
    an empty one where nothing need be sent for."""
    raise NotImplementedError("only for compiled code")


def gather(scatter, work, b):
    """Block b of the triangles: second moments of the columns in order, in each group."""
    raise NotImplementedError("only for compiled code")


def _is_paired(scatter):
    if not isinstance(scatter, types.BaseNamedTuple) or scatter.instance_class is not PairedMoments:
        return False
    return scatter.types[0].layout == "C"


def _is_dense(scatter):
    return isinstance(scatter, types.Array) and scatter.layout == "C"


@overload(prepare)
def _prepare(scatter, work, n):
    if _is_paired(scatter):
        return _prepare_pairs
    return _prepare_dense if _is_dense(scatter) else lambda scatter, work, n: work.gaps[:0]


@overload(gather)
def _gather(scatter, work, b):
    if _is_paired(scatter):
        return _gather_pairs
    return _gather_dense if _is_dense(scatter) else _gather_entries


def _prepare_pairs(scatter, work, n):
    n_environments, d = scatter.gaps.shape
    for i in range(n):
        column = work.order[i]
        work.starts[i], work.shifts[i] = n_environments * d * column, n_environments * column
        for e in range(n_environments):
            work.gaps[e, i] = scatter.gaps[e, column]
    return scatter.local


def _gather_pairs(scatter, work, b):
    gaps, triangles, n_environments = work.gaps, work.triangles, work.gaps.shape[0]
    first, at, width, across = LANES * b, block_start(b), triangles.shape[1], gaps.shape[1]
    for i in range(LANES * (b + 1)):
        pool = picked(scatter.local, work.starts, first, work.shifts[i])
        store(triangles, at + LANES * i, pool)
        pool = less(pool, -gaps[0, i], load(gaps, first))
        for e in range(1, n_environments):
            entries = picked(scatter.local, work.starts, first, work.shifts[i] + e)
            store(triangles, e * width + at + LANES * i, entries)
            pool = total(less(pool, -gaps[e, i], load(gaps, e * across + first)), entries)
        store(triangles, n_environments * width + at + LANES * i, pool)


def _prepare_dense(scatter, work, n):
    for i in range(n):
        work.starts[i], work.shifts[i] = scatter.shape[2] * work.order[i], work.order[i]
    return work.gaps[:0]


def _gather_dense(scatter, work, b):
    width = work.triangles.shape[1]
    for g in range(scatter.shape[0]):
        group = scatter.shape[1] * scatter.shape[2] * g
        for i in range(LANES * (b + 1)):
            entries = picked(scatter, work.starts, LANES * b, group + work.shifts[i])
            store(work.triangles, g * width + block_start(b) + LANES * i, entries)


def _gather_entries(scatter, work, b):
    for g in range(work.triangles.shape[0]):
        for i in range(LANES * (b + 1)):
            for c in range(LANES):
                entry = gram_entry(scatter, g, work.order[i], work.order[LANES * b + c])
                work.triangles[g, block_start(b) + LANES * i + c] = entry
