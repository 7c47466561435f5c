"""Numbers keep digits that say something, also beside much larger ones."""

from __future__ import annotations

import numpy as np

from invariance.report.page import number, numbers, rows_of_numbers, without_rounding
from invariance.report.sections import _cells


def test_a_column_has_the_decimals_of_its_largest_number() -> None:
    assert [cell.text for cell in numbers([12.3456, -0.5, 0.0, np.nan])] == ["12.35", "-0.50", "0.00", "–"]
    assert [cell.text for cell in numbers([123456.0, 42.0])] == ["123,456", "42"]
    assert number(0.0312).text == "0.03120"


def test_small_numbers_beside_a_large_one_keep_their_digits() -> None:
    assert [cell.text for cell in numbers([15234.0, 0.0312, 9.87, 1e-9])] == ["15,234", "0.03120", "9.870", "1e-09"]
    assert [cell.text for cell in numbers([3e12, 0.0312])] == ["3e+12", "0.0312"]


def test_an_estimate_and_its_interval_have_the_same_decimals() -> None:
    (wide, narrow), columns = rows_of_numbers([(1.0, -20000.0, 30000.0), (0.0312, 0.0, 0.0625)]), np.array
    assert [cell.text for cell in wide] == ["1", "-20,000", "30,000"]
    assert [cell.text for cell in narrow] == ["0.03120", "0.00000", "0.06250"]
    ends = columns([-20000.0, 0.0299]), columns([30000.0, 0.0325])
    cells = _cells(columns([1.0, 0.0312]), *ends, columns(["", ""], dtype=object))
    assert [cell.text for cell in cells] == ["1 (-20,000 to 30,000)", "0.03120 (0.02990 to 0.03250)"]


def test_rounding_is_no_number() -> None:
    assert without_rounding(2.5e-15, 1.0) == 0.0
    assert without_rounding(2.5e-15, 1e-12) == 2.5e-15
    assert without_rounding(-0.1, 100.0) == -0.1
