"""log Λ of single subsets, one factorisation per group: from second moments or, where those cannot tell, rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from .compiled import ZERO, copy_into, kernel
from .row_residuals import PairedMoments, gram_entry, rank_from_rows, rows_at_hand, share_from_rows
from .subset_tree import settled, sweep_in_place

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INDEX = ir.IntType(32)
_BYTE = ir.IntType(8)
# One rounding for a product and a sum, where the processor can.
_CONTRACT = ("contract",)


class Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


def place_of(context, builder, array_type, array, index):
    """Pointer to the entry of a contiguous array that stands at `index` of it, flat."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def everywhere(builder, value):
    """A vector that holds `value` in all lanes."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))


def load_lanes(context, builder, array_type, array, start):
    place = place_of(context, builder, array_type, array, start)
    return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)


def store_lanes(context, builder, array_type, array, start, lanes):
    place = place_of(context, builder, array_type, array, start)
    builder.store(lanes, builder.bitcast(place, _VECTOR.as_pointer()), align=8)


def without_product(builder, lanes, factor, others):
    """lanes − factor · others, one rounding where the processor can"""
    removed = builder.fmul(everywhere(builder, factor), others, flags=_CONTRACT)
    return builder.fsub(lanes, removed, flags=_CONTRACT)


@intrinsic
def load(typing_context, array, start):
    """array[start : start + 8] of a contiguous array, flat"""

    def generate(context, builder, signature, arguments):
        return load_lanes(context, builder, signature.args[0], *arguments)

    return _LANES(array, types.intp), generate


@intrinsic
def store(typing_context, array, start, lanes):
    """array[start : start + 8] = lanes"""

    def generate(context, builder, signature, arguments):
        store_lanes(context, builder, signature.args[0], *arguments)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def picked(typing_context, array, places, first, shift):
    """array[places[first + c] + shift], c = 0 … 7, of contiguous arrays, flat"""

    def generate(context, builder, signature, arguments):
        array, places, first, shift = arguments
        lanes = ir.Constant(_VECTOR, ir.Undefined)
        for c in range(LANES):
            at = builder.add(first, ir.Constant(first.type, c))
            place = builder.load(place_of(context, builder, signature.args[1], places, at))
            value = builder.load(place_of(context, builder, signature.args[0], array, builder.add(place, shift)))
            lanes = builder.insert_element(lanes, value, ir.Constant(_INDEX, c))
        return lanes

    return _LANES(array, places, types.intp, types.intp), generate


@intrinsic
def send_for(typing_context, array, index):
    """Bring array[index] of a contiguous array, flat, near the processor, without waiting for it.

    Into the second cache: what fills the first one keeps other numbers waiting that are on their way there.
    """

    def generate(context, builder, signature, arguments):
        place = builder.bitcast(place_of(context, builder, signature.args[0], *arguments), _BYTE.as_pointer())
        takes = ir.FunctionType(ir.VoidType(), [place.type, _INDEX, _INDEX, _INDEX])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], takes)
        to_read, in_second_cache, data = (ir.Constant(_INDEX, code) for code in (0, 2, 1))
        builder.call(prefetch, [place, to_read, in_second_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def scaled(typing_context, lanes, factor):
    """lanes · factor"""

    def generate(context, builder, signature, arguments):
        return builder.fmul(arguments[0], everywhere(builder, arguments[1]))

    return lanes(lanes, types.float64), generate


@intrinsic
def total(typing_context, lanes, others):
    """lanes + others, one by one"""
    return lanes(lanes, others), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def less(typing_context, lanes, factor, others):
    """lanes − factor · others"""

    def generate(context, builder, signature, arguments):
        return without_product(builder, *arguments)

    return lanes(lanes, types.float64, others), generate


_TILE = types.UniTuple(Lanes(), LANES)


def _shifted(builder, index, by):
    return builder.add(index, ir.Constant(index.type, by))


def _rows(builder, tile):
    return [builder.extract_value(tile, i) for i in range(LANES)]


def _tile(context, builder, rows):
    tile = ir.Constant(context.get_value_type(_TILE), ir.Undefined)
    for i, row in enumerate(rows):
        tile = builder.insert_value(tile, row, i)
    return tile


def _entry(context, builder, array_type, array, index):
    return builder.load(place_of(context, builder, array_type, array, index))


@intrinsic
def load_tile(typing_context, array, start):
    """array[start : start + 64] of a contiguous array, flat"""

    def generate(context, builder, signature, arguments):
        array, start = arguments
        rows = [
            load_lanes(context, builder, signature.args[0], array, _shifted(builder, start, LANES * i))
            for i in range(LANES)
        ]
        return _tile(context, builder, rows)

    return _TILE(array, types.intp), generate


@intrinsic
def store_tile(typing_context, array, start, tile):
    """array[start : start + 64] = tile"""

    def generate(context, builder, signature, arguments):
        array, start, tile = arguments
        for i, row in enumerate(_rows(builder, tile)):
            store_lanes(context, builder, signature.args[0], array, _shifted(builder, start, LANES * i), row)
        return context.get_dummy_value()

    return types.void(array, types.intp, tile), generate


@intrinsic
def scaled_tile(typing_context, tile, across, array, start):
    """Row i times array[start + i], column by column times `across`"""

    def generate(context, builder, signature, arguments):
        tile, across, array, start = arguments
        rows = []
        for i, row in enumerate(_rows(builder, tile)):
            down = _entry(context, builder, signature.args[2], array, _shifted(builder, start, i))
            rows.append(builder.fmul(builder.fmul(row, across), everywhere(builder, down)))
        return _tile(context, builder, rows)

    return tile(tile, across, array, types.intp), generate


@intrinsic
def less_outer(typing_context, tile, array, start, lanes):
    """Row i less array[start + i] · lanes"""

    def generate(context, builder, signature, arguments):
        tile, array, start, lanes = arguments
        rows = []
        for i, row in enumerate(_rows(builder, tile)):
            down = _entry(context, builder, signature.args[1], array, _shifted(builder, start, i))
            rows.append(without_product(builder, row, down, lanes))
        return _tile(context, builder, rows)

    return tile(tile, array, types.intp, lanes), generate


@intrinsic
def solved_tile(typing_context, tile, array, start, reciprocals, first):
    """The tile that, times the transpose of the upper triangle at array[start : start + 64] from the left, is `tile`;
    reciprocals[first : first + 8]: of the triangle's diagonal."""

    def generate(context, builder, signature, arguments):
        tile, array, start, reciprocals, first = arguments
        rows = _rows(builder, tile)
        for m in range(LANES):
            own = _entry(context, builder, signature.args[3], reciprocals, _shifted(builder, first, m))
            rows[m] = builder.fmul(rows[m], everywhere(builder, own))
            for i in range(m + 1, LANES):
                right = _entry(context, builder, signature.args[1], array, _shifted(builder, start, LANES * m + i))
                rows[i] = without_product(builder, rows[i], right, rows[m])
        return _tile(context, builder, rows)

    return tile(tile, array, types.intp, reciprocals, types.intp), generate


class Ahead(NamedTuple):
    """Entries of the next block: source[starts[c] + shifts[i]], flat, in its column c < 8 and row i."""

    source: np.ndarray
    starts: np.ndarray
    shifts: np.ndarray


@kernel
def n_blocks(n):
    return (n + LANES - 1) // LANES


@kernel
def block_start(b):
    """Where block b begins; what b blocks take."""
    return LANES * LANES * (b * (b + 1) // 2)


@kernel
def _factor_diagonal(triangle, scale, reciprocals, b, tolerance):
    """The factor of the diagonal tile of block b; False as soon as a pivot is below the tolerance."""
    tile = block_start(b) + LANES * LANES * b
    for i in range(LANES):
        at = tile + (LANES + 1) * i
        pivot = triangle[at] if scale[LANES * b + i] > 0.0 else 1.0
        if not pivot >= tolerance:
            return False
        root = np.sqrt(pivot)
        reciprocal = 1.0 / root
        reciprocals[LANES * b + i] = reciprocal
        own = scaled(load(triangle, tile + LANES * i), reciprocal)
        store(triangle, tile + LANES * i, own)
        triangle[at] = root
        for m in range(i + 1, LANES):
            place = tile + LANES * m
            store(triangle, place, less(load(triangle, place), triangle[tile + LANES * i + m], own))
    return True


@kernel
def factor_block(triangles, scale, reciprocals, b, tolerance, ahead):
    """Block b of the Cholesky factors of triangles (G, t) times scale (G, n) on both sides, in their place.

    Blocks before it come first. A column of scale 0 counts as one that nothing depends on, with a diagonal of 1.
    Returns whether all pivots reach the tolerance. reciprocals (G, n): those of the factors' diagonals. Groups take
    turns: the processor begins with the next while it waits for a tile. Entries of the block ahead are sent for along
    the way: when it is read, they are near.
    """
    n_groups, right = triangles.shape[0], block_start(b)
    source, starts, shifts = ahead
    n_ahead, sent = LANES * shifts.size, 0
    each = n_ahead // max(n_groups * (b * (b + 1) // 2), 1) + 1
    for a in range(b + 1):
        left, row, place = block_start(a), LANES * a, right + LANES * LANES * a
        for g in range(n_groups):
            triangle = triangles[g]
            tile = scaled_tile(load_tile(triangle, place), load(scale[g], LANES * b), scale[g], row)
            for rows in range(0, LANES * row, LANES * LANES):
                until = min(sent + each, n_ahead)
                for q in range(sent, until):
                    send_for(source, starts[q % LANES] + shifts[q // LANES])
                sent = until
                for m in range(rows, rows + LANES * LANES, LANES):
                    tile = less_outer(tile, triangle, left + m, load(triangle, right + m))
            if a < b:
                tile = solved_tile(tile, triangle, left + LANES * row, reciprocals[g], row)
            store_tile(triangle, place, tile)
            if a == b and not _factor_diagonal(triangle, scale[g], reciprocals[g], b, tolerance):
                return False
    return True


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


class SubsetWork(NamedTuple):
    """Work space for scoring subsets of up to k members one after another. matrices (G, k+1, k+1)"""

    matrices: np.ndarray
    large: LargeSubset


@kernel
def subset_work(n_groups, largest):
    return SubsetWork(np.empty((n_groups, largest + 1, largest + 1)), large_subset(n_groups, largest))


@kernel
def _fill(scoring, g, members, matrix):
    """matrix (k+1, k+1): scaled second moments of k members and the outcome in group g, upper triangle."""
    scale, k = scoring.inverse_scale[g], members.size
    for i in range(k + 1):
        a = members[i] if i < k else scoring.outcome
        for j in range(i, k + 1):
            b = members[j] if j < k else scoring.outcome
            matrix[i, j] = gram_entry(scoring.scatter, g, a, b) * scale[a] * scale[b]


@kernel
def _outcome_share(scoring, g, members, matrix):
    """What `members` leave of the outcome in group g, from second moments or, where these cannot tell, from rows."""
    _fill(scoring, g, members, matrix)
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
        total += scoring.weights[g] * np.log(share_from_rows(scoring.rows, g, members, scoring.outcome))
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


@kernel(inline="always")
def subset_log_ratio(scoring, members):
    """log Λ of the columns `members`, ascending, few of them; NaN where undecidable."""
    return _log_ratio(scoring, members, np.empty((members.size + 1, members.size + 1)))


@kernel(inline="always")
def score_members(scoring, penalty, members, work):
    """log Λ of one subset, whose columns are `members`; NaN where undecidable.

    Where second moments cannot decide, the rows do if they are at hand. With a penalty that is not NaN, for searching,
    collinear members are not asked about: those whose pivot is below the tolerance in some group are left out and log Λ
    of the rest is multiplied by 1 + penalty·(number left out), or divided where a reward for prediction makes it > 0.
    """
    if decided_as_large(scoring, members, work.large):
        value = settled(scoring.offset + (scoring.weights * np.log(work.large.shares)).sum(), scoring.weights)
        if value == value:
            return value
    if penalty == penalty:
        value = _penalised(scoring, penalty, members, work.matrices)
        if value == value or not rows_at_hand(scoring.rows):
            return value
    return _log_ratio(scoring, members, work.matrices[0])


@kernel(inline="always")
def _penalised(scoring, penalty, members, matrices):
    n_groups, k = scoring.weights.size, members.size
    inverse_scale, tolerance = scoring.inverse_scale, scoring.tolerance
    for g in range(n_groups):
        _fill(scoring, g, members, matrices[g])
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
    return total * (1.0 + penalty * left_out) if total <= 0.0 else total / (1.0 + penalty * left_out)


@kernel
def score_subsets(scoring, penalty, starts, members, out):
    """out[s] = score_members of subset s, whose columns are members[starts[s]:starts[s+1]]."""
    largest = ZERO
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = subset_work(scoring.weights.size, largest)
    for s in range(starts.size - 1):
        out[s] = score_members(scoring, penalty, members[starts[s] : starts[s + 1]], work)


@kernel
def _rank(scoring, g, members, matrix):
    """Rank of `members` in group g; matrix: as `_outcome_share` leaves it, with all pivots that it came to.

    Columns that second moments can tell apart are independent. Without rows the others count as if they were.
    """
    rank = 0
    for i in range(members.size):
        if scoring.inverse_scale[g, members[i]] > 0.0:
            if not matrix[i, i] >= scoring.tolerance and rows_at_hand(scoring.rows):
                return rank_from_rows(scoring.rows, g, members)
            rank += 1
    return rank


@kernel
def subset_fits(scoring, starts, members, shares, ranks):
    """shares[s, g] = what columns members[starts[s]:starts[s+1]] leave of the outcome in group g, NaN if undecidable;
    ranks[s, g] = their rank there."""
    largest = ZERO
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work = subset_work(scoring.weights.size, largest)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        as_large = decided_as_large(scoring, subset, work.large)
        for g in range(scoring.weights.size):
            if as_large:
                shares[s, g] = work.large.shares[g]
                ranks[s, g] = np.count_nonzero(scoring.inverse_scale[g][subset])
            else:
                shares[s, g] = _outcome_share(scoring, g, subset, work.matrices[0])
                ranks[s, g] = _rank(scoring, g, subset, work.matrices[0])


@kernel
def subset_slopes(gram, tolerance, starts, members, slopes):
    """slopes[s, members[starts[s]:starts[s+1]]] = least squares slopes of the last column of gram (d, d) with unit
    diagonal; NaN where a pivot is below the tolerance. Other entries stay as they are."""
    outcome = gram.shape[0] - 1
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        matrix = np.empty((k + 1, k + 1))
        for i in range(k):
            for j in range(i, k):
                matrix[i, j] = gram[subset[i], subset[j]]
            matrix[i, k] = gram[subset[i], outcome]
        for i in range(k):
            sweep_in_place(matrix, i, k, 1.0 / matrix[i, i] if matrix[i, i] >= tolerance else np.nan)
        for i in range(k - 1, -1, -1):
            slope = matrix[i, k]
            for j in range(i + 1, k):
                slope -= matrix[i, j] * slopes[s, subset[j]]
            slopes[s, subset[i]] = slope / matrix[i, i] if matrix[i, i] >= tolerance else np.nan


@kernel
def _reduce(matrix, members, outcome, floor, lowest, work):
    """(log determinant of the members' block, what they leave of the outcome); lowest (k + 1,): the pivots of another
    matrix, `floor` times which this one exceeds, so that a pivot below that is one of rounding."""
    k, volume = members.size, 0.0
    for i in range(k + 1):
        a = members[i] if i < k else outcome
        for j in range(i, k + 1):
            work[i, j] = matrix[a, members[j] if j < k else outcome]
    for i in range(k):
        work[i, i] = max(work[i, i], floor * lowest[i])
        volume += np.log(work[i, i])
        sweep_in_place(work, i, k, 1.0 / work[i, i])
    return volume, max(work[k, k], floor * lowest[k])


@kernel
def subset_volumes(matrices, floor, outcome, tolerance, starts, members, volumes, left):
    """volumes[s, g], left[s, g] of the columns members[starts[s]:starts[s+1]] in each of matrices (G, d, d).

    The last matrix has a unit diagonal, and `floor` times it is at most each of the others. NaN where one of its pivots
    is below the tolerance.
    """
    n_groups, largest = len(matrices), 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    work, lowest = np.empty((largest + 1, largest + 1)), np.empty(largest + 1)
    for s in range(starts.size - 1):
        subset = members[starts[s] : starts[s + 1]]
        k = subset.size
        lowest[:] = 0.0
        volumes[s, -1], left[s, -1] = _reduce(matrices[-1], subset, outcome, floor, lowest, work)
        for i in range(k + 1):
            lowest[i] = work[i, i]
        if not lowest[: k + 1].min() >= tolerance:
            volumes[s], left[s] = np.nan, np.nan
            continue
        for g in range(n_groups - 1):
            volumes[s, g], left[s, g] = _reduce(matrices[g], subset, outcome, floor, lowest, work)
