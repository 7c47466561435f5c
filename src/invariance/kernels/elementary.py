"""Logarithm and exponential written so that the compiler vectorises them.

`math.log` is an opaque call that keeps a loop scalar. These are plain arithmetic on the bits of the number and run
several times faster over an array, within a few units in the last place.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import kernel

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_INVERSE_LN2 = 1.44269504088896338700
_SQRT2 = 1.41421356237309504880
_MANTISSA = np.int64((1 << 52) - 1)
_BITS_OF_ONE = np.int64(1023 << 52)
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_LOWEST_EXPONENT = -708.0  # exp below this is subnormal: returned as zero


@intrinsic
def _bits_of(typing_context, value):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _float_of(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@kernel(fastmath={"contract"})
def add_weighted_log(total, weight, values):
    """total[i] += weight * log(values[i]) for positive normal values; NaN in gives NaN out."""
    for i in range(values.size):
        word = _bits_of(values[i])
        exponent = np.float64((word >> 52) - 1023)
        m = _float_of((word & _MANTISSA) | _BITS_OF_ONE)
        large = m > _SQRT2
        m = 0.5 * m if large else m
        exponent = exponent + 1.0 if large else exponent
        f = (m - 1.0) / (m + 1.0)
        s = f * f
        series = 1.0 / 21.0
        series = series * s + 1.0 / 19.0
        series = series * s + 1.0 / 17.0
        series = series * s + 1.0 / 15.0
        series = series * s + 1.0 / 13.0
        series = series * s + 1.0 / 11.0
        series = series * s + 1.0 / 9.0
        series = series * s + 1.0 / 7.0
        series = series * s + 1.0 / 5.0
        series = series * s + 1.0 / 3.0
        log_m = 2.0 * f + 2.0 * f * s * series
        zero_or_nan = values[i] - values[i]
        total[i] += weight * (exponent * _LN2_HIGH + (log_m + exponent * _LN2_LOW) + zero_or_nan)


@kernel(fastmath={"contract"})
def exp_shifted(values, shift, out):
    """out[i] = exp(values[i] - shift) for values not above shift; zero for -inf and below 1e-307."""
    for i in range(values.size):
        x = values[i] - shift
        inside = x > _LOWEST_EXPONENT
        x = x if inside else 0.0
        k = (x * _INVERSE_LN2 + _ROUNDER) - _ROUNDER
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        series = series * r + 1.0
        power = _float_of((np.int64(k) + 1023) << 52)
        out[i] = series * power if inside else 0.0


_LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with so few digits that its products with whole numbers are exact.
_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
# Adding this to a number below 2**51 rounds it to a whole number, which then stands in the lowest bits.
_MAGIC = 6755399441055744.0
_LARGEST = 708.0


@intrinsic
def _power_of_two(typing_context, shifted):
    """2**k of k + _MAGIC"""

    def generate(context, builder, signature, arguments):
        whole = ir.IntType(64)
        bits = builder.bitcast(arguments[0], whole)
        return builder.bitcast(
            builder.shl(builder.add(bits, ir.Constant(whole, 1023)), ir.Constant(whole, 52)), ir.DoubleType()
        )

    return types.float64(types.float64), generate


@kernel(fastmath={"contract"}, inline="never")
def exponential(x):
    """e**x to 1e-15, with x taken to lie in ±708."""
    x = min(max(x, -_LARGEST), _LARGEST)
    shifted = x * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _power_of_two(shifted)


# The bits of √½ less 1024 in the exponent's place: what is left of other bits then is the exponent plus 1024.
_ROOT = 0x3FE6A09E667F3BCD - (1024 << 52)
# Bits of 2**52 + 2**51: a whole number in its lowest bits adds that number.
_MAGIC_BITS = 0x4338000000000000


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
