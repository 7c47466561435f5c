"""Numbers kept as unevaluated sums of two: means that lie far from zero, or from each other, cost no digits.

Knuth (1969), Dekker (1971): the rounding of a sum of two numbers is a number, and can be had exactly.
"""

from __future__ import annotations

from .._tools.arrays import Floats, Integers


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b, rounded, and what the rounding lost"""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def distance(centre: Floats, rest: Floats, from_centre: Floats, from_rest: Floats) -> Floats:
    """(centre + rest) − (from_centre + from_rest), right to a rounding of the distance itself"""
    apart, lost = two_sum(centre, -from_centre)
    return apart + (lost + (rest - from_rest))


def moved(centre: Floats, rest: Floats, by: Floats) -> tuple[Floats, Floats]:
    """centre + rest + by, as such a sum"""
    total, lost = two_sum(centre, by)
    return two_sum(total, lost + rest)


def gaps_between(counts: Integers, centre: Floats, rest: Floats) -> Floats:
    """(E, d) how far the means centre + rest (E, d) of each environment are from those of all rows"""
    apart, lost = two_sum(centre, -centre[0])
    lost += rest - rest[0]
    pooled = (counts @ apart + counts @ lost) / counts.sum()
    return (apart - pooled) + lost
