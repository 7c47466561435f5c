"""The exponential function in a form that compilers turn into vector instructions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiled import kernel

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
