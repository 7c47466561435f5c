"""How much is kept of rows that are read again."""

from __future__ import annotations

import pytest

from invariance.moments.fourth_moments import most_columns
from invariance.moments.second_pass import rows_to_keep


@pytest.mark.parametrize(("n_environments", "columns"), [(2, 25), (10, 25), (1_000, 9), (1_000_000, 2)])
def test_columns_whose_fourth_powers_are_summed(n_environments: int, columns: int) -> None:
    assert most_columns(n_environments) == columns


@pytest.mark.parametrize(("n_environments", "k", "rows"), [(4, 21, 10_000), (100, 20, 2_000), (1_000, 1_000, 100)])
def test_rows_that_are_kept_of_an_environment(n_environments: int, k: int, rows: int) -> None:
    assert rows_to_keep(n_environments, k) == rows
