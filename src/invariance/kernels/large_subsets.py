"""What large subsets leave of the outcome, from second moments: one blocked factorisation per group."""

from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from .blocked_cholesky import block_start, factor, n_blocks
from .copying import copy_into
from .gram_rows import PairedMoments, gram_entry
from .lanes import LANES

# From so many members on. Smaller subsets are swept: their log Λ is the same to the last bit wherever it is computed.
LARGE = 48
# Pivots this many times above the tolerance: whether one reaches it must not depend on the order of operations.
_CLEAR = 2.0


class LargeSubset(NamedTuple):
    """Work space for one subset of up to k members, with the outcome and up to seven more in b blocks of eight columns.

    order (8b,): columns; scale (8b,): of one group; triangles (G, t): of each group, as `blocked_cholesky` has them;
    reciprocals (8b,); shares (G,): what the members leave of the outcome
    """

    order: np.ndarray
    scale: np.ndarray
    triangles: np.ndarray
    reciprocals: np.ndarray
    shares: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def large_subset(n_groups, largest):
    """Room for subsets of up to `largest` members; none where all are small."""
    blocks = n_blocks(largest + 1) if largest >= LARGE else 0
    n = LANES * blocks
    triangles = np.empty((n_groups, block_start(blocks)))
    return LargeSubset(np.empty(n, np.int64), np.empty(n), triangles, np.empty(n), np.empty(n_groups))


@njit(cache=True, nogil=True, error_model="numpy")
def decided_as_large(scoring, members, work):
    """Whether a subset is large and clearly decidable from second moments in all groups; then work.shares has it."""
    if members.size < LARGE:
        return False
    k, blocks = members.size, n_blocks(members.size + 1)
    order = work.order[: LANES * blocks]
    copy_into(order[:k], members)
    order[k:] = scoring.outcome
    gather(scoring.scatter, order, work.triangles)
    for g in range(scoring.weights.size):
        if not scoring.inverse_scale[g, scoring.outcome] > 0.0:
            return False
        for i in range(order.size):
            work.scale[i] = scoring.inverse_scale[g, order[i]] if i <= k else 0.0
        if not factor(work.triangles[g], work.scale, work.reciprocals, blocks, _CLEAR * scoring.tolerance):
            return False
        work.shares[g] = 1.0 / (work.reciprocals[k] * work.reciprocals[k])
    return True


def gather(scatter, order, triangles):
    """triangles (G, t): second moments of the columns `order` (8b,) in each group."""
    raise NotImplementedError("only for compiled code")


@overload(gather)
def _gather(scatter, order, triangles):
    paired = isinstance(scatter, types.BaseNamedTuple) and scatter.instance_class is PairedMoments
    return _paired if paired else _entries


def _entries(scatter, order, triangles):
    blocks = order.size // LANES
    for i in range(order.size):
        for b in range(i // LANES, blocks):
            at = block_start(b) + LANES * i
            for g in range(triangles.shape[0]):
                for c in range(LANES):
                    triangles[g, at + c] = gram_entry(scatter, g, order[i], order[LANES * b + c])


def _paired(scatter, order, triangles):
    local, gaps, n_environments = scatter.local, scatter.gaps, scatter.gaps.shape[0]
    blocks, touched = order.size // LANES, 0.0
    for i in range(order.size):
        if i + 1 < order.size:
            # Memory is far away: the next row is sent for while this one is written.
            for j in range(i + 1, order.size):
                touched += local[order[i + 1], order[j], 0]
        for b in range(i // LANES, blocks):
            at = block_start(b) + LANES * i
            for c in range(LANES):
                column, pool = order[LANES * b + c], 0.0
                for e in range(n_environments):
                    entry = local[order[i], column, e]
                    triangles[e, at + c] = entry
                    pool += entry + gaps[e, order[i]] * gaps[e, column]
                triangles[n_environments, at + c] = pool
    # Used, so that the compiler does not leave out what touched it: no NaN is ever equal to itself.
    if touched != touched:
        triangles[0, 0] = np.nan
