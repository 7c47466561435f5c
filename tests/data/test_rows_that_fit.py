"""How many rows fit into memory, for outcomes that need them all."""

from __future__ import annotations

from invariance.data.sources import RowSize, rows_that_fit

TEN, TWENTY = RowSize.of_numbers(10), RowSize.of_numbers(20)


def test_rows_that_fit_need_no_words() -> None:
    assert rows_that_fit(1_000, TEN, free=240_000) is None
    assert rows_that_fit(1_000, TEN) is None


def test_too_many_rows_are_told_what_they_take_and_how_many_fit() -> None:
    told = rows_that_fit(1_000_000_000, TWENTY, "a logistic model", free=16_000_000_000)
    assert told is not None
    assert told.startswith(
        "a logistic model needs all rows in memory: 1,000,000,000 rows of 20 columns take about 480.0 GB"
    )
    assert "and 16.0 GB are free. About 33,000,000 rows fit: draw so many by chance from every environment" in told
    assert rows_that_fit(33_000_000, TWENTY, free=16_000_000_000) is None


def test_one_row_too_many_is_told() -> None:
    assert rows_that_fit(1_001, TEN, free=240_000) is not None


def test_levels_and_their_words_take_memory() -> None:
    words = RowSize(6, 238, text=100.0)
    assert rows_that_fit(1_000, words, free=8 * 1_000 * (6 + 2 * 238) + 100_000) is None
    told = rows_that_fit(1_000, words, free=8 * 1_000 * (6 + 2 * 238) + 99_999)
    assert told is not None
    assert "1,000 rows of 6 columns, which levels make 238, take about 4.0 MB, and 4.0 MB are free" in told


def test_sizes_in_units_that_show_them() -> None:
    estimated = rows_that_fit(1_604, TEN, free=100_000, counted=False)
    assert estimated is not None
    assert "about 1,600 rows of 10 columns take about 0.4 MB, and 0.1 MB are free. About 410 rows fit" in estimated
    few = rows_that_fit(100, TEN, free=2_000)
    assert few is not None
    assert "100 rows of 10 columns take about less" not in few
    assert "100 rows of 10 columns take less than 0.1 MB, and less than 0.1 MB are free" in few
