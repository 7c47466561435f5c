"""log Λ of single subsets, one factorisation per group: from second moments or, where those cannot
tell, rows."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .compilation import AS_PART
from .compiled import copy_into, kernel, longest
from .row_residuals import PairedMoments, gram_entry, rank_from_rows, rows_at_hand, share_from_rows

# Subsets from so many members on are factorised in tiles of LANES × LANES entries that stay in
# vector registers. Smaller ones are swept: their log Λ is the same to the last bit wherever it is
# computed.
LARGE = 48
LANES = 8
_TILE = LANES * LANES
# Pivots this many times above the tolerance: whether one reaches it must not depend on the order of
# operations.
_CLEAR = 2.0
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INDEX = ir.IntType(32)


def _entry(context, builder, array_type, array, *indices):
    """Pointer to the entry of a contiguous array that stands at the sum of the indices, flat."""
    index, *others = indices
    for other in others:
        index = builder.add(index, other if isinstance(other, ir.Value) else index.type(other))
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _lanes(builder, entry):
    """Pointer to the eight numbers from an entry on"""
    return builder.bitcast(entry, _VECTOR.as_pointer())


def _everywhere(builder, value):
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, _INDEX(0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
    )


def _less(builder, lanes, factor, others):
    """lanes − factor · others, one rounding where the processor can"""
    removed = builder.fmul(_everywhere(builder, factor), others, flags=("contract",))
    return builder.fsub(lanes, removed, flags=("contract",))


@intrinsic
def _less_products(typing_context, array, tile, left, right, n, scale, across):
    """Row i of the tile at array[tile], flat, times scale[n + i] and, by columns, scale[across :
    across + 8]; then less Σ_m array[left + 8m + i] · array[right + 8m : right + 8m + 8] over m <
    n."""

    def generate(context, builder, signature, arguments):
        array, tile, left, right, n, scale, across = arguments
        entry, scale_entry = (
            partial(_entry, context, builder, *pair)
            for pair in ((signature.args[0], array), (signature.args[5], scale))
        )
        places = [_lanes(builder, entry(tile, LANES * i)) for i in range(LANES)]
        by = builder.load(_lanes(builder, scale_entry(across)), align=8)
        rows = []
        for i, place in enumerate(places):
            own = _everywhere(builder, builder.load(scale_entry(n, i)))
            scaled = builder.fmul(builder.fmul(builder.load(place, align=8), by), own)
            rows.append(cgutils.alloca_once_value(builder, scaled))
        with cgutils.for_range(builder, n) as loop:
            shift = builder.mul(loop.index, loop.index.type(LANES))
            others = builder.load(_lanes(builder, entry(right, shift)), align=8)
            for i, row in enumerate(rows):
                factor = builder.load(entry(left, shift, i))
                builder.store(_less(builder, builder.load(row), factor, others), row)
        for place, row in zip(places, rows, strict=True):
            builder.store(builder.load(row), place, align=8)
        return context.get_dummy_value()

    return types.void(array, *[types.intp] * 4, scale, types.intp), generate


@intrinsic
def _solve_tile(typing_context, array, tile, triangle, reciprocals, first):
    """Solve with the transpose of the upper triangle at array[triangle] for the tile at
    array[tile], in place;
    reciprocals[first : first + 8]: of the triangle's diagonal."""

    def generate(context, builder, signature, arguments):
        array, tile, triangle, reciprocals, first = arguments
        entry = partial(_entry, context, builder, signature.args[0], array)
        places = [_lanes(builder, entry(tile, LANES * i)) for i in range(LANES)]
        rows = [builder.load(place, align=8) for place in places]
        for m in range(LANES):
            own = builder.load(_entry(context, builder, signature.args[3], reciprocals, first, m))
            rows[m] = builder.fmul(rows[m], _everywhere(builder, own))
            for i in range(m + 1, LANES):
                rows[i] = _less(
                    builder, rows[i], builder.load(entry(triangle, LANES * m + i)), rows[m]
                )
        for place, row in zip(places, rows, strict=True):
            builder.store(row, place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, reciprocals, types.intp), generate


@intrinsic
def _prefetch(typing_context, array, index):
    """Bring array[index] of a contiguous array, flat, into the second cache, without waiting for
    it"""

    def generate(context, builder, signature, arguments):
        place = _entry(context, builder, signature.args[0], *arguments)
        place = builder.bitcast(place, ir.IntType(8).as_pointer())
        takes = ir.FunctionType(ir.VoidType(), [place.type, _INDEX, _INDEX, _INDEX])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], takes)
        to_read = _INDEX(0)
        in_second_cache = _INDEX(2)
        data = _INDEX(1)
        builder.call(prefetch, [place, to_read, in_second_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


class SubsetWork(NamedTuple):
    """Work space for subsets of up to k members and the outcome. matrices (G, k+1, k+1); the others
    are for large ones, in b blocks of eight columns. order (8b,): columns, then the outcome; gaps
    (E, 8b): of pairs; scale (G, 8b): 0 after the outcome; triangles (G, t): second
    moments, then Cholesky factors, the upper triangle block after block, each by rows; reciprocals
    (G, 8b): of the factors' diagonals; shares (G,): of the outcome"""

    matrices: np.ndarray
    order: np.ndarray
    gaps: np.ndarray
    scale: np.ndarray
    triangles: np.ndarray
    reciprocals: np.ndarray
    shares: np.ndarray


@kernel
def block_start(b):
    """Where block b begins; what b blocks take."""
    return _TILE * (b * (b + 1) // 2)


@kernel
def subset_work(n_groups, largest):
    blocks = largest // LANES + 1 if largest >= LARGE else 0
    n = LANES * blocks
    scale = np.empty((n_groups, n))
    triangles = np.empty((n_groups, block_start(blocks)))
    gaps = np.empty((n_groups - 1, n))
    reciprocals = np.empty((n_groups, n))
    order = np.empty(n, np.int64)
    matrices = np.empty((n_groups, largest + 1, largest + 1))
    return SubsetWork(matrices, order, gaps, scale, triangles, reciprocals, np.empty(n_groups))


@kernel(fastmath={"contract"})
def _factor_diagonal(triangle, scale, reciprocals, b, tolerance):
    """The factor of the diagonal tile of block b; False as soon as a pivot is below the
    tolerance."""
    tile = block_start(b) + _TILE * b
    for i in range(LANES):
        row = tile + LANES * i
        pivot = triangle[row + i] if scale[LANES * b + i] > 0.0 else 1.0
        if not pivot >= tolerance:
            return False
        root = np.sqrt(pivot)
        reciprocal = 1.0 / root
        reciprocals[LANES * b + i] = reciprocal
        for c in range(i, LANES):
            triangle[row + c] *= reciprocal
        triangle[row + i] = root
        for m in range(i + 1, LANES):
            factor = triangle[row + m]
            for c in range(m, LANES):
                triangle[tile + LANES * m + c] -= factor * triangle[row + c]
    return True


@kernel
def factor_block(scatter, work, b, n_ahead, tolerance):
    """Block b of the Cholesky factors, in its place, after those before it; whether all pivots
    reach the tolerance. A column of scale 0 has a diagonal of 1. Groups take turns: the processor
    begins with the next while it waits for a tile. The first n_ahead entries of the next block are
    sent for along the way."""
    n_groups = work.scale.shape[0]
    right = block_start(b)
    sent = 0
    each = n_ahead // max(n_groups * (b * (b + 1) // 2), 1) + 1
    for a in range(b + 1):
        left = block_start(a)
        tile = right + _TILE * a
        row = LANES * a
        for g in range(n_groups):
            triangle = work.triangles[g]
            reciprocals = work.reciprocals[g]
            until = min(sent + each * a, n_ahead)
            send_for(scatter, work.order, b + 1, sent, until)
            sent = until
            _less_products(triangle, tile, left, right, row, work.scale[g], LANES * b)
            if a < b:
                _solve_tile(triangle, tile, left + LANES * row, reciprocals, row)
            elif not _factor_diagonal(triangle, work.scale[g], reciprocals, b, tolerance):
                return False
    return True


@kernel
def decided_as_large(scoring, members, work):
    """Whether a subset is large and clearly decidable from second moments in all groups; then
    work.shares has it."""
    if members.size < LARGE:
        return False
    n_groups = scoring.weights.size
    k = members.size
    blocks = members.size // LANES + 1
    copy_into(work.order[:k], members)
    work.order[k : LANES * blocks] = scoring.outcome
    for g in range(n_groups):
        if not scoring.inverse_scale[g, scoring.outcome] > 0.0:
            return False
        for i in range(LANES * blocks):
            work.scale[g, i] = scoring.inverse_scale[g, work.order[i]] if i <= k else 0.0
    for b in range(blocks):
        gather(scoring.scatter, work, b)
        n_ahead = _TILE * (b + 2) if b + 1 < blocks else 0
        if not factor_block(scoring.scatter, work, b, n_ahead, _CLEAR * scoring.tolerance):
            return False
    for g in range(n_groups):
        work.shares[g] = 1.0 / (work.reciprocals[g, k] * work.reciprocals[g, k])
    return True


def gather(scatter, work, b):
    """Block b of the triangles: second moments of the columns in order, in each group."""
    raise NotImplementedError("only for compiled code")


def send_for(scatter, order, b, first, stop):
    """Bring entries first:stop of block b near the processor, where they lie far apart in
    memory."""
    raise NotImplementedError("only for compiled code")


def _is_paired(scatter):
    return isinstance(scatter, types.BaseNamedTuple) and scatter.instance_class is PairedMoments


@overload(gather, jit_options=AS_PART)
def _gather(scatter, work, b):
    return _gather_paired if _is_paired(scatter) else _gather_entries


@overload(send_for, jit_options=AS_PART)
def _send_for(scatter, order, b, first, stop):
    return _send_for_pairs if _is_paired(scatter) else lambda scatter, order, b, first, stop: None


def _send_for_pairs(scatter, order, b, first, stop):
    _, d, n_environments = scatter.local.shape
    for q in range(first, stop):
        _prefetch(
            scatter.local, n_environments * (d * order[LANES * b + q % LANES] + order[q // LANES])
        )


def _gather_paired(scatter, work, b):
    n_environments, d = scatter.gaps.shape
    flat = scatter.local.reshape(-1)
    # Indices that might be negative would be looked at one by one.
    start = np.uint64(block_start(b))
    first = np.uint64(LANES * b)
    for c in range(np.uint64(LANES)):
        column = np.uint64(n_environments * d * work.order[first + c])
        for i in range(np.uint64(LANES * (b + 1))):
            pair = column + np.uint64(n_environments * work.order[i])
            for e in range(np.uint64(n_environments)):
                work.triangles[e, start + np.uint64(LANES) * i + c] = flat[pair + e]
    _pool_pairs(scatter.gaps, work, b)


@kernel(fastmath={"contract"})
def _pool_pairs(gaps, work, b):
    """Block b of the last triangle: the sum of the others, with products of gaps"""
    n_environments = gaps.shape[0]
    n = _TILE * (b + 1)
    start = block_start(b)
    pool = work.triangles[n_environments, start : start + n]
    pool[:] = 0.0
    for e in range(n_environments):
        for i in range(LANES * b, LANES * (b + 1)):
            work.gaps[e, i] = gaps[e, work.order[i]]
        own = work.triangles[e, start : start + n]
        across = work.gaps[e, LANES * b : LANES * (b + 1)]
        for i in range(LANES * (b + 1)):
            for c in range(LANES):
                at = LANES * i + c
                pool[at] = pool[at] + own[at] + work.gaps[e, i] * across[c]


def _gather_entries(scatter, work, b):
    first = np.uint64(LANES * b)
    for g in range(work.triangles.shape[0]):
        for i in range(LANES * (b + 1)):
            # Indices that might be negative would be looked at one by one.
            row = np.uint64(work.order[i])
            at = np.uint64(block_start(b) + LANES * i)
            for c in range(np.uint64(LANES)):
                column = np.uint64(work.order[first + c])
                work.triangles[g, at + c] = gram_entry(scatter, g, row, column)


@kernel
def sweep_in_place(matrix, pivot_index, stop, reciprocal):
    """Remove column `pivot_index` by regression from the columns after it up to `stop`
    (inclusive)."""
    # indices that might be negative are slow
    row = np.uint64(pivot_index)
    end = np.uint64(stop + 1)
    for i in range(np.uint64(pivot_index + 1), end):
        factor = matrix[row, i] * reciprocal
        for k in range(i, end):
            matrix[i, k] -= factor * matrix[row, k]


@kernel
def sweep_first(matrix, n, stop, tolerance):
    """Sweep out the first n columns, up to one whose pivot is below the tolerance. Whether there is
    none."""
    for i in range(n):
        if not matrix[i, i] >= tolerance:
            return False
        sweep_in_place(matrix, i, stop, 1.0 / matrix[i, i])
    return True


@kernel
def fill_triangle(moments, members, outcome, matrix):
    """matrix (k+1, k+1): moments of k members and the outcome, upper triangle"""
    k = members.size
    for i in range(k + 1):
        a = members[i] if i < k else outcome
        for j in range(i, k + 1):
            matrix[i, j] = moments[a, members[j] if j < k else outcome]


@kernel
def to_unit_diagonal(matrix, n, stop):
    """Scale the first n columns of a matrix, upper triangle up to column `stop` (inclusive)."""
    for i in range(n):
        scale = 1.0 / np.sqrt(matrix[i, i])
        for j in range(i):
            matrix[j, i] *= scale
        matrix[i, i] = 1.0
        for j in range(i + 1, stop + 1):
            matrix[i, j] *= scale


@kernel
def solve_swept(matrix, slopes):
    """slopes (k,) of the regression on the first k columns of a matrix whose `sweep_first` is
    done"""
    k = slopes.size
    for i in range(k - 1, -1, -1):
        slope = matrix[i, k]
        for j in range(i + 1, k):
            slope -= matrix[i, j] * slopes[j]
        slopes[i] = slope / matrix[i, i]


@kernel
def settled(log_ratio, weights):
    """log Λ is at most 0: rounding above is 0, more is undecidable. Not so where weights, which
    then reward prediction, sum to less than 0."""
    if log_ratio > 0.0 and weights.sum() >= 0.0:
        return 0.0 if log_ratio <= 1e-6 + 1e-9 * abs(weights[-1]) else np.nan
    return log_ratio


def settle(log_ratios, weights):
    """The same of each, in place"""
    if weights.sum() >= 0.0:
        rounding = log_ratios <= 1e-6 + 1e-9 * abs(weights[-1])
        log_ratios[:] = np.where(log_ratios > 0.0, np.where(rounding, 0.0, np.nan), log_ratios)


@kernel
def fill_scaled(scoring, g, members, matrix):
    """matrix (k+1, k+1): scaled second moments of k members and the outcome in group g, upper
    triangle."""
    scale = scoring.inverse_scale[g]
    k = members.size
    for i in range(k + 1):
        a = members[i] if i < k else scoring.outcome
        for j in range(i, k + 1):
            b = members[j] if j < k else scoring.outcome
            matrix[i, j] = gram_entry(scoring.scatter, g, a, b) * scale[a] * scale[b]


@kernel
def _outcome_share(scoring, g, members, matrix):
    """What `members` leave of the outcome in group g, from second moments or, where these cannot
    tell, from rows."""
    fill_scaled(scoring, g, members, matrix)
    k = members.size
    for i in range(k):
        if scoring.inverse_scale[g, members[i]] > 0.0:
            if not matrix[i, i] >= scoring.tolerance:
                return share_from_rows(scoring.rows, g, members, scoring.outcome)
            sweep_in_place(matrix, i, k, 1.0 / matrix[i, i])
    if matrix[k, k] >= scoring.tolerance:
        return matrix[k, k]
    return share_from_rows(scoring.rows, g, members, scoring.outcome)


@kernel
def log_ratio_from_rows(scoring, members):
    total = scoring.offset
    for g in range(scoring.weights.size):
        total += scoring.weights[g] * np.log(
            share_from_rows(scoring.rows, g, members, scoring.outcome)
        )
    return settled(total, scoring.weights)


@kernel
def _log_ratio(scoring, members, matrix):
    total = scoring.offset
    for g in range(scoring.weights.size):
        share = _outcome_share(scoring, g, members, matrix)
        if share != share:
            return np.nan
        total += scoring.weights[g] * np.log(share)
    value = settled(total, scoring.weights)
    return value if value == value else log_ratio_from_rows(scoring, members)


@kernel
def subset_log_ratio(scoring, members):
    """log Λ of the columns `members`, ascending, few of them; NaN where undecidable."""
    return _log_ratio(scoring, members, np.empty((members.size + 1, members.size + 1)))


@kernel
def score_members(scoring, penalty, members, work):
    """log Λ of the columns `members`; NaN where neither second moments nor rows at hand decide.
    With a penalty that is not NaN, for searching, members whose pivot is below the tolerance in
    some group are left out and log Λ of the rest is multiplied by 1 + penalty·(number left out), or
    divided where it is above 0."""
    if decided_as_large(scoring, members, work):
        value = settled(
            scoring.offset + (scoring.weights * np.log(work.shares)).sum(), scoring.weights
        )
        if value == value:
            return value
    if penalty == penalty:
        value = _penalised(scoring, penalty, members, work.matrices)
        if value == value or not rows_at_hand(scoring.rows):
            return value
    return _log_ratio(scoring, members, work.matrices[0])


@kernel
def _penalised(scoring, penalty, members, matrices):
    n_groups = scoring.weights.size
    k = members.size
    inverse_scale = scoring.inverse_scale
    tolerance = scoring.tolerance
    for g in range(n_groups):
        fill_scaled(scoring, g, members, matrices[g])
    left_out = 0
    for i in range(k):
        decidable = True
        for g in range(n_groups):
            decidable &= matrices[g, i, i] >= tolerance or inverse_scale[g, members[i]] == 0.0
        if not decidable:
            left_out += 1
            continue
        for g in range(n_groups):
            if inverse_scale[g, members[i]] > 0.0:
                sweep_in_place(matrices[g], i, k, 1.0 / matrices[g, i, i])
    total = scoring.offset
    for g in range(n_groups):
        if not matrices[g, k, k] >= tolerance:
            return np.nan
        total += scoring.weights[g] * np.log(matrices[g, k, k])
    total = settled(total, scoring.weights)
    if left_out == 0:
        return total
    return (
        total * (1.0 + penalty * left_out) if total <= 0.0 else total / (1.0 + penalty * left_out)
    )


@kernel
def score_subsets(scoring, penalty, starts, members, out):
    """out[s] = score_members of subset s, whose columns are members[starts[s]:starts[s+1]]."""
    work = subset_work(scoring.weights.size, longest(starts))
    for s in range(starts.size - 1):
        out[s] = score_members(scoring, penalty, members[starts[s] : starts[s + 1]], work)


@kernel
def _rank(scoring, g, members, matrix):
    """Rank of `members` in group g; matrix: as `_outcome_share` leaves it. Columns that second
    moments can tell apart are independent; without rows the others count as if they were."""
    rank = 0
    for i in range(members.size):
        if scoring.inverse_scale[g, members[i]] > 0.0:
            if not matrix[i, i] >= scoring.tolerance and rows_at_hand(scoring.rows):
                return rank_from_rows(scoring.rows, g, members)
            rank += 1
    return rank


@kernel
def subset_fits(scoring, starts, members, shares, ranks):
    """shares[s, g] = what columns members[starts[s]:starts[s+1]] leave of the outcome in group g,
    NaN if undecidable; ranks[s, g] = their rank there."""
    work = subset_work(scoring.weights.size, longest(starts))
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        as_large = decided_as_large(scoring, subset, work)
        for g in range(scoring.weights.size):
            if as_large:
                shares[s, g] = work.shares[g]
                ranks[s, g] = np.count_nonzero(scoring.inverse_scale[g][subset])
            else:
                shares[s, g] = _outcome_share(scoring, g, subset, work.matrices[0])
                ranks[s, g] = _rank(scoring, g, subset, work.matrices[0])


@kernel
def subset_slopes(gram, tolerance, starts, members):
    """(S, d - 1) least squares slopes of the last column of gram (d, d) with unit diagonal on those
    of each subset members[starts[s]:starts[s+1]], NaN where a pivot is below the tolerance; 0 for
    the others"""
    outcome = gram.shape[0] - 1
    largest = longest(starts)
    slopes = np.zeros((starts.size - 1, outcome))
    found = np.empty(largest)
    matrix = np.empty((largest + 1, largest + 1))
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        fill_triangle(gram, subset, outcome, matrix)
        found[:k] = np.nan
        if sweep_first(matrix, k, k, tolerance):
            solve_swept(matrix, found[:k])
        for i in range(k):
            slopes[s, subset[i]] = found[i]
    return slopes


@kernel
def _reduce(matrix, members, outcome, floor, lowest, work):
    """(log determinant of the members' block, what they leave of the outcome); lowest (k + 1,): the
    pivots of another matrix, `floor` times which this one exceeds, so that a pivot below that is
    one of rounding."""
    k = members.size
    volume = 0.0
    fill_triangle(matrix, members, outcome, work)
    for i in range(k):
        work[i, i] = max(work[i, i], floor * lowest[i])
        volume += np.log(work[i, i])
        sweep_in_place(work, i, k, 1.0 / work[i, i])
    return volume, max(work[k, k], floor * lowest[k])


@kernel
def subset_volumes(matrices, floor, outcome, tolerance, starts, members, volumes, left):
    """volumes[s, g], left[s, g] of the columns members[starts[s]:starts[s+1]] in each of matrices
    (G, d, d); NaN where a pivot of the last is below the tolerance. That one has a unit diagonal,
    and `floor` times it is at most each of the others."""
    n_groups = len(matrices)
    largest = longest(starts)
    work = np.empty((largest + 1, largest + 1))
    lowest = np.empty(largest + 1)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        lowest[:] = 0.0
        volumes[s, -1], left[s, -1] = _reduce(matrices[-1], subset, outcome, floor, lowest, work)
        for i in range(k + 1):
            lowest[i] = work[i, i]
        if not lowest[: k + 1].min() >= tolerance:
            volumes[s] = np.nan
            left[s] = np.nan
            continue
        for g in range(n_groups - 1):
            volumes[s, g], left[s, g] = _reduce(matrices[g], subset, outcome, floor, lowest, work)
