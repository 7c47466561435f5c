"""Values of one column that are no measurements: codes of missing values, zeros that stand for
them, other units, levels written as numbers, and values that are constant inside environments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers
from .outcomes import EXPECTED_ABOVE, rows_above

# An environment is in another unit where its median is so many times that of the others, spreads of
# logarithms differ by no more than the second factor, and medians by more than so many spreads.
_OTHER_UNIT = 10.0
_SAME_SPREAD = 2.0
_SPREADS_APART = 2.0
FEWEST_IN_ENVIRONMENT = 5
# Values are far that are beyond all others by so many times the range of these, and that are rare.
_RANGES_AWAY = 3.0
_RARE_SHARE = 0.02
_MOST_FAR = 3
# Fewer different values are levels, a count or a mark.
FEWEST_DIFFERENT = 10
# 0 is no measurement if it is farther from the lowest of the others than half of what lies between
# that and their median, and than so many steps between neighbouring values.
ISOLATED = 0.5
ISOLATED_STEPS = 5.0
# An environment has one value by chance only with this probability.
BY_CHANCE = 1e-6
# Numbers that skip some may be levels: so many different ones, up to so large, those above the gap
# in more than this share of the rows.
MAX_LEVELS = 8
LARGEST_LEVEL = 9.0
RARE_LEVEL = 0.02
ROWS_PER_LEVEL = 10


def _is_code(value: float) -> bool:
    """9, 99, 999.9, −88, −8, −1: what people write for missing values"""
    digits = f"{abs(value):g}".replace(".", "")
    repeated = len(set(digits)) == 1 and digits[0] in "789"
    return (repeated and (len(digits) > 1 or digits == "9" or value < 0.0)) or value == -1.0


def negative_codes(values: Floats) -> list[float]:
    """Codes below 0 in a column (n,) of which no other value is below 0."""
    different, counts = np.unique(values, return_counts=True)
    codes = different[different < 0.0]
    others = different[different >= 0.0]
    if not 0 < len(codes) <= _MOST_FAR or len(others) == 0 or not all(map(_is_code, codes)):
        return []
    if -1.0 in codes and len(others) < FEWEST_DIFFERENT:
        return []
    several = counts[different < 0.0].sum() > 1 or others[0] > 0.0
    return codes.tolist() if several else []


def far_values(values: Floats) -> list[float]:
    """Values of a column (n,) that are far beyond all others, on the scale as it is and on that of
    logarithms; codes such as 999 where they are beyond the range of the others once more, and are
    no tail of single rows."""
    below = negative_codes(values)
    if below:
        return [*far_values(values[values >= 0.0]), *below]
    far: list[float] = []
    for sign in (1.0, -1.0):
        different, counts = np.unique(sign * values, return_counts=True)
        for k in range(1, min(_MOST_FAR, len(different) - 2) + 1):
            rest = different[:-k]
            beyond = different[-k:]
            n = int(counts[-k:].sum())
            with np.errstate(invalid="ignore"):  # of infinite values
                span = rest[-1] - rest[0]
                gap = beyond[0] - rest[-1]
            if all(map(_is_code, sign * beyond)) and 2 * n < len(values):
                found = gap >= _RANGES_AWAY * span or (n > 1 and gap >= span and n > counts[-k - 1])
            else:
                positive = sign > 0 and rest[0] > 0
                ratio = (
                    np.log(beyond[0] / rest[-1]) - np.log(rest[-1] / rest[0])
                    if positive
                    else gap - 10 * span
                )
                found = n <= _RARE_SHARE * len(values) and gap > _RANGES_AWAY * span and ratio > 0
            if found:
                far += (sign * beyond).tolist()
                break
    return far


def has_isolated_zeros(values: Floats) -> bool:
    """Whether 0 stands apart in a column (n,) of which all other values are positive, as a
    cholesterol of 0 does."""
    others = values[values > 0.0]
    different = np.unique(others)
    if len(others) == len(values) or (values < 0.0).any() or len(different) < FEWEST_DIFFERENT:
        return False
    lowest = different[0]
    far = lowest > ISOLATED * (np.median(others) - lowest)
    return bool(far and lowest > ISOLATED_STEPS * np.median(np.diff(different)))


class OneValue(NamedTuple):
    """A value that all rows of these environments have; elsewhere : rows that have it too, too few
    for chance"""

    value: float
    environments: tuple[int, ...]
    elsewhere: int


def _ranges(values: Floats, codes: Integers, n_environments: int) -> tuple[Floats, Floats, Floats]:
    """Count, lowest and highest (E,) of the finite values of each environment, NaN where it has
    none"""
    import pandas as pd

    usable = (codes >= 0) & np.isfinite(values)
    grouped = pd.Series(values[usable]).groupby(codes[usable])
    ranges = grouped.agg(["count", "min", "max"]).reindex(range(n_environments))
    n, low, high = ranges.to_numpy(dtype=np.float64).T
    return np.nan_to_num(n), low, high


def one_value(values: Floats, codes: Integers, n_environments: int) -> list[OneValue]:
    """Values (N,) that all rows of an environment have, if at most half of the environments have a
    single value."""
    n, low, high = _ranges(values, codes, n_environments)
    judged = n >= FEWEST_IN_ENVIRONMENT
    single = judged & (low == high)
    if 2 * single.sum() > judged.sum():
        return []
    found = []
    for value in np.unique(low[single]).tolist():
        environments = np.flatnonzero(single & (low == value))
        others = values[~np.isin(codes, environments) & (codes >= 0) & np.isfinite(values)]
        elsewhere = int((others == value).sum())
        share = (elsewhere + 1) / (len(others) + 2)
        if share ** int(n[environments].min()) < BY_CHANCE:
            found.append(OneValue(value, tuple(environments.tolist()), elsewhere))
    return found


def is_constant_within(values: Floats, codes: Integers, n_environments: int) -> bool:
    """Whether values (N,) vary, but never inside an environment."""
    n, low, high = _ranges(values, codes, n_environments)
    found = n > 0
    enough = found.sum() > 1 and n.sum() >= 2 * found.sum()
    return bool(
        enough and (low[found] == high[found]).all() and low[found].min() < low[found].max()
    )


def skipped_levels(values: Floats) -> tuple[list[float], list[float]]:
    """Few different whole numbers (n,) in unequal steps, as 3, 6, 7; and which may be codes, as 9
    after 1 to 5.

    Both are empty if the steps are equal, or the numbers are double each time, or are the tail of a
    count.
    """
    different, counts = np.unique(values, return_counts=True)
    whole = bool((different == np.rint(different)).all())
    few = 3 <= len(different) <= MAX_LEVELS and len(values) >= ROWS_PER_LEVEL * len(different)
    if not (whole and few and np.abs(different[:-1]).max() <= LARGEST_LEVEL):
        return [], []
    steps = np.diff(different)
    doubles = different[0] > 0 and np.ptp(different[1:] / different[:-1]) == 0.0
    if np.ptp(steps) == 0.0 or doubles:
        return [], []
    last = float(different[-1])
    consecutive = (steps[:-1] == 1.0).all()
    if consecutive and _is_code(last) and counts[-1] >= 3:
        return different.tolist(), [last]
    if last > LARGEST_LEVEL:
        return [], []
    above = int(counts[int(np.argmax(steps > 1.0)) + 1 :].sum())
    return (different.tolist(), []) if above > RARE_LEVEL * len(values) else ([], [])


def consecutive_levels(values: Floats) -> list[float]:
    """Return few different whole numbers (n,) without a gap, from 1 on or, if they do not look
    like a count, from 0: 1, 2, 3, 4."""
    different = np.unique(values)
    few = 3 <= len(different) <= MAX_LEVELS and len(values) >= ROWS_PER_LEVEL * len(different)
    if not few or different[0] not in (0.0, 1.0) or (np.diff(different) != 1.0).any():
        return []
    like_a_count = (
        different[0] == 0.0
        and rows_above(len(values), float(values.mean()), float(values.var()), float(values.max()))
        < EXPECTED_ABOVE
    )
    return [] if like_a_count else different.tolist()


def other_units(values: Floats, codes: Integers, n_environments: int) -> dict[int, float]:
    """{environment: its median, relative to that of most} where values (N,) look as if in another
    unit"""
    quartiles = {}
    for e in range(n_environments):
        inside = values[(codes == e) & np.isfinite(values)]
        if len(inside) >= FEWEST_IN_ENVIRONMENT:
            quartiles[e] = np.quantile(inside, [0.25, 0.5, 0.75])
    if len(quartiles) < 2 or any(low <= 0 for low, *_ in quartiles.values()):
        return {}
    low, middle, high = np.log(np.array(list(quartiles.values()))).T
    spread = high - low
    largest = np.argmax([(codes == e).sum() for e in quartiles])
    off = middle - (np.median(middle) if len(middle) > 2 else middle[largest])
    other = np.abs(off) > np.log(_OTHER_UNIT)
    if not other.any() or 2 * other.sum() > len(other):
        return {}
    usual = np.median(spread[~other])
    alike = (spread[other] <= _SAME_SPREAD * usual) & (usual <= _SAME_SPREAD * spread[other])
    apart = np.abs(off[other]) > _SPREADS_APART * np.maximum(usual, spread[other])
    if not (alike & apart).all() or np.ptp(off[~other]) > np.log(_OTHER_UNIT):
        return {}
    return {e: float(np.exp(off[k])) for k, e in enumerate(quartiles) if other[k]}
