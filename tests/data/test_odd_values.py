"""Values that are no measurements are found, and ordinary ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from invariance.data.odd_values import (
    far_values,
    has_isolated_zeros,
    is_constant_within,
    negative_codes,
    one_value,
    skipped_levels,
)

RNG = np.random.default_rng(0)
BMI = RNG.normal(27.0, 4.0, 300).round(1)
COUNT = RNG.poisson(0.7, 300).astype(float)


@pytest.mark.parametrize(
    ("others", "codes", "found"),
    [
        (BMI, [-9.0], [-9.0]),
        (BMI, [-1.0, -1.0], [-1.0]),
        (BMI, [-9.0, -8.0, -1.0], [-9.0, -8.0, -1.0]),
        (BMI, [-5.0, -5.0], []),  # no code
        (BMI - 27.0, [-9.0, -9.0], []),  # other values are below 0
        (COUNT, [-9.0, -9.0], [-9.0]),
        (COUNT, [-9.0], []),  # a single one below 0
        (COUNT, [-1.0, -1.0], []),  # from -1 on, perhaps
        (np.array([0.0, 1.0] * 50), [-9.0] * 200, [-9.0]),
    ],
)
def test_codes_below_zero(others: np.ndarray, codes: list[float], found: list[float]) -> None:
    assert sorted(negative_codes(np.append(others, codes))) == sorted(found)
    assert set(found) <= set(far_values(np.append(others, codes)))


def test_codes_at_both_ends() -> None:
    assert sorted(far_values(np.append(BMI, [-9.0, -9.0, 999.0, 999.0]))) == [-9.0, 999.0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.append(BMI, 0.0), True),
        (BMI, False),
        (np.append(BMI - 27.0, 0.0), False),
        (COUNT, False),
        (RNG.poisson(3.0, 300).astype(float), False),
        (np.append(RNG.exponential(10.0, 300).round(1), [0.0] * 30), False),
        (np.array([0.0, 5.0, 10.0, 20.0] * 50), False),
        (np.append(RNG.choice([0.1, 0.2, 0.3, 0.4, 0.5], 300), [0.0] * 90), False),
    ],
)
def test_zeros_far_below_all_others(values: np.ndarray, found: bool) -> None:
    assert has_isolated_zeros(values) is found


def test_one_value_in_an_environment() -> None:
    codes = np.repeat(np.arange(4), 60)
    values = RNG.normal(size=240).round(1)
    values[codes == 2] = 0.5
    (one,) = one_value(values, codes, 4)
    assert (one.value, one.environments) == (0.5, (2,))
    assert one.elsewhere == (values[codes != 2] == 0.5).sum()
    assert one_value(np.where(codes == 2, np.nan, values), codes, 4) == []
    dummy = (RNG.random(240) < 0.97).astype(float)
    dummy[codes == 1] = 1.0  # as happens by chance
    assert one_value(dummy, codes, 4) == []
    mostly = np.where(codes == 3, values, 1.0)  # constant in three of four
    assert one_value(mostly, codes, 4) == []


def test_constant_within_every_environment() -> None:
    codes = np.repeat(np.arange(3), 5)
    beds = np.array([10.0, 20.0, 20.0])[codes]
    assert is_constant_within(beds, codes, 3)
    assert is_constant_within(np.where(np.arange(15) % 5 == 0, np.nan, beds), codes, 3)
    changed = beds.copy()
    changed[0] = 11.0
    assert not is_constant_within(changed, codes, 3)
    assert not is_constant_within(np.full(15, 2.0), codes, 3)  # constant everywhere
    assert not is_constant_within(np.arange(3.0), np.arange(3), 3)  # a row of each


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ([3, 6, 7], [3, 6, 7]),
        ([1, 2, 3], []),
        ([0, 10, 20], []),
        ([1, 2, 4, 8], []),
        ([3, 4, 5, 6, 8], [3, 4, 5, 6, 8]),
        ([0.5, 1, 3], []),
        ([1990, 1995, 2003], []),
        ([0, 1], []),
        (list(range(0, 40, 3)), []),
    ],
)
def test_whole_numbers_that_skip_some(levels: list[float], found: list[float]) -> None:
    assert skipped_levels(np.repeat(np.array(levels, float), 40)) == (found, [])


def test_a_code_after_marks() -> None:
    marks = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 40)
    assert skipped_levels(np.append(marks, [9.0] * 3)) == ([1, 2, 3, 4, 5, 9], [9])
    assert skipped_levels(np.append(marks, [99.0] * 3)) == ([1, 2, 3, 4, 5, 99], [99])
    assert skipped_levels(np.append(marks, [7.0])) == ([], [])  # a tail
