"""Logarithm and exponential as arithmetic on the bits of a number, within a few units in the last
place.

`math.log` is an opaque call that keeps a loop scalar; the compiler vectorises these. With k a whole
number, e**x = 2**k·e**r for x = k·log 2 + r, |r| <= ½·log 2, by Taylor's series, and log x =
k·log 2 + 2·artanh(s) for x = 2**k·m, m in [√½, √2), s = (m − 1)/(m + 1).

References
----------
Muller (2016), Elementary Functions, 3rd edition, chapters 5 and 11, doi 10.1007/978-1-4899-7983-4
"""

from __future__ import annotations

import math

import numpy as np

from .compiled import kernel

# log 2 in two parts, the first with so few digits that its products with whole numbers are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634
# 1.5·2**52: adding it to a number below 2**51 rounds that to a whole number, which then stands in
# the lowest bits.
_SHIFT = 6755399441055744.0
_SHIFT_BITS = 0x4338000000000000
# The bits of √½ less 1024 in the exponent's place: other bits less these have, in that place, the
# exponent plus 1024.
_ROOT_BITS = 0x3FE6A09E667F3BCD - (1024 << 52)
# Beyond this e**-x is subnormal.
_LARGEST = 708.0
# Of x**k/k! and of x**(2k)/(2k + 3), the highest power first.
_EXPONENTIAL_SERIES = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
_LOGARITHM_SERIES = tuple(1.0 / k for k in range(21, 1, -2))


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
    bits = (np.float64(shifted).view(np.int64) + 1023) << 52
    return series * np.int64(bits).view(np.float64)


@kernel(fastmath={"contract"})
def logarithm(x):
    """log x, for x from 1e-300 to 1e300; NaN of NaN."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_BITS) >> 52
    mantissa = bits - ((exponent - 1024) << 52)
    # A whole number as a float in the same way: conversions are slower.
    k = np.int64(exponent + _SHIFT_BITS).view(np.float64) - _SHIFT - 1024.0
    f = np.int64(mantissa).view(np.float64) - 1.0
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
