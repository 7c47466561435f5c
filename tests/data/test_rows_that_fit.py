"""How many rows fit into memory, for outcomes that need them all."""

from __future__ import annotations

from invariance.data.rows_that_fit import rows_that_fit


def test_rows_that_fit_need_no_words() -> None:
    assert rows_that_fit(1_000, 10, free=240_000) is None
    assert rows_that_fit(1_000, 10) is None


def test_too_many_rows_are_told_what_they_take_and_how_many_fit() -> None:
    told = rows_that_fit(1_000_000_000, 20, "a logistic model", free=16_000_000_000)
    assert told is not None
    assert told.startswith(
        "a logistic model needs all rows in memory: 1,000,000,000 rows of 20 columns take about 480.0 GB"
    )
    assert "and 16.0 GB are free. About 33,000,000 rows fit: draw so many by chance from every environment" in told
    assert rows_that_fit(33_000_000, 20, free=16_000_000_000) is None


def test_one_row_too_many_is_told() -> None:
    assert rows_that_fit(1_001, 10, free=240_000) is not None
