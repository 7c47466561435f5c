"""Logarithm and exponential as arithmetic on the bits of a number, within a few units in the last
place.

`math.log` is an opaque call that keeps a loop scalar; the compiler vectorises these.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import kernel

# log 2 in two parts, the first with so few digits that its products with whole numbers are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634
# 1.5·2**52: adding it to a number below 2**51 rounds that to a whole number, which then stands in
# the lowest bits.
_SHIFT = 6755399441055744.0
_SHIFT_BITS = 0x4338000000000000
# The bits of √½ less 1024 in the exponent's place: what is left of other bits then is the exponent
# plus 1024.
_ROOT_BITS = 0x3FE6A09E667F3BCD - (1024 << 52)
# Beyond this e**-x is subnormal.
_LARGEST = 708.0
_WHOLE = ir.IntType(64)
_REAL = ir.DoubleType()
# Of x**k/k! and of x**(2k)/(2k + 3), the highest power first.
_EXPONENTIAL_SERIES = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
_LOGARITHM_SERIES = tuple(1.0 / k for k in range(21, 1, -2))


def _of_bits(generate):
    """Signature and code of an intrinsic that computes the bits of a number from those of
    another."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(generate(builder, builder.bitcast(arguments[0], _WHOLE)), _REAL)

    return types.float64(types.float64), build


def _shifted_exponent(builder, bits):
    """k + 1024 of a number in [√½, √2)·2**k with these bits"""
    return builder.lshr(builder.sub(bits, _WHOLE(_ROOT_BITS)), _WHOLE(52))


@intrinsic
def _power_of_two(typing_context, shifted):
    """2**k of k + _SHIFT"""
    return _of_bits(lambda builder, bits: builder.shl(builder.add(bits, _WHOLE(1023)), _WHOLE(52)))


@intrinsic
def _exponent(typing_context, x):
    """k of x in [√½, √2)·2**k, plus 1024 + _SHIFT"""
    return _of_bits(
        lambda builder, bits: builder.add(_shifted_exponent(builder, bits), _WHOLE(_SHIFT_BITS))
    )


@intrinsic
def _mantissa(typing_context, x):
    """x·2**-k of x in [√½, √2)·2**k"""

    def generate(builder, bits):
        exponent = builder.sub(_shifted_exponent(builder, bits), _WHOLE(1024))
        return builder.sub(bits, builder.shl(exponent, _WHOLE(52)))

    return _of_bits(generate)


@kernel(fastmath={"contract"})
def exponential(x):
    """e**x, with x taken to lie in ±708."""
    x = min(max(x, -_LARGEST), _LARGEST)
    shifted = x * _LOG2_E + _SHIFT
    k = shifted - _SHIFT
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 0.0
    for coefficient in _EXPONENTIAL_SERIES:
        series = series * r + coefficient
    return series * _power_of_two(shifted)


@kernel(fastmath={"contract"})
def logarithm(x):
    """log x, for x from 1e-300 to 1e300; NaN of NaN."""
    k = _exponent(x) - _SHIFT - 1024.0
    f = _mantissa(x) - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for coefficient in _LOGARITHM_SERIES:
        series = series * z + coefficient
    zero_or_nan = x - x
    return k * _LN2_HIGH + (2.0 * s + 2.0 * s * z * series + k * _LN2_LOW) + zero_or_nan


@kernel(fastmath={"contract"})
def add_weighted_log(total, weight, values):
    """total[i] += weight * log(values[i]) for positive normal values; NaN in gives NaN out."""
    for i in range(values.size):
        total[i] += weight * logarithm(values[i])


@kernel(fastmath={"contract"})
def exp_shifted(values, shift, out):
    """out[i] = exp(values[i] - shift) for values not above shift; zero for -inf and below
    1e-307."""
    for i in range(values.size):
        x = values[i] - shift
        value = exponential(x)
        out[i] = value if x > -_LARGEST else 0.0
