"""Tiles of 8×8 float64 numbers, row by row, that compiled code holds in registers: eight `Lanes`."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .lanes import LANES, Lanes, everywhere, load_lanes, place_of, store_lanes, without_product

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
