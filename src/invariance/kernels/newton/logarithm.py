"""The logarithm in a form that compilers turn into vector instructions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiled import kernel

_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
# The bits of √½ less 1024 in the exponent's place: what is left of other bits then is the exponent plus 1024.
_ROOT = 0x3FE6A09E667F3BCD - (1024 << 52)
# Bits of 2**52 + 2**51: a whole number in its lowest bits adds that number.
_MAGIC_BITS = 0x4338000000000000
_MAGIC = 6755399441055744.0


def _shifted_exponent(builder, bits):
    """k + 1024 of a number in [√½, √2)·2**k with these bits"""
    whole = ir.IntType(64)
    return builder.lshr(builder.sub(bits, ir.Constant(whole, _ROOT)), ir.Constant(whole, 52))


@intrinsic
def _exponent(typing_context, x):
    """k of x in [√½, √2)·2**k, plus 1024 + _MAGIC"""

    def generate(context, builder, signature, arguments):
        whole = ir.IntType(64)
        exponent = _shifted_exponent(builder, builder.bitcast(arguments[0], whole))
        return builder.bitcast(builder.add(exponent, ir.Constant(whole, _MAGIC_BITS)), ir.DoubleType())

    return types.float64(types.float64), generate


@intrinsic
def _mantissa(typing_context, x):
    """x·2**-k of x in [√½, √2)·2**k"""

    def generate(context, builder, signature, arguments):
        whole = ir.IntType(64)
        bits = builder.bitcast(arguments[0], whole)
        exponent = builder.sub(_shifted_exponent(builder, bits), ir.Constant(whole, 1024))
        return builder.bitcast(builder.sub(bits, builder.shl(exponent, ir.Constant(whole, 52))), ir.DoubleType())

    return types.float64(types.float64), generate


@kernel(fastmath={"contract"}, inline="never")
def logarithm(x):
    """log x to 1e-15, for x from 1e-300 to 1e300."""
    k = _exponent(x) - _MAGIC - 1024.0
    f = _mantissa(x) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    p = p * z + 1.0
    return k * _LOG2_HIGH + (2.0 * s * p + k * _LOG2_LOW)
