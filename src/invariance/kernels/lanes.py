"""Eight float64 numbers that compiled code holds in registers.

The compiler keeps numbers that are stored in arrays there: it cannot know that nothing else points to them. A tile of
eight `Lanes` stays in registers while products are subtracted from it, at several times the speed.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

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
