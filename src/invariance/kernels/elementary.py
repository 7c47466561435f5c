"""Logarithm and exponential written so that the compiler vectorises them.

`math.log` is an opaque call that keeps a loop scalar. These are plain arithmetic on the bits of the number and run
several times faster over an array, within a few units in the last place.
"""

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
