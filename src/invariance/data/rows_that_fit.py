"""Whether rows fit into memory, for outcomes that need them all."""

from __future__ import annotations

from .._tools.memory import free_bytes

# What a row takes while it is read and fitted, in units of its numbers: as it was read, as it is fitted, and a copy.
_COPIES = 3
_GIGABYTE = 1e9


def rows_that_fit(
    n_rows: int, n_columns: int, needed_for: str = "this model", free: int | None = None, moments_do: bool = True
) -> str | None:
    """Why so many rows cannot all be fitted, with what to do about it; None where they can, or memory is not known.

    needed_for : what needs them, for the sentence; free : bytes, by default what can be had now; moments_do : whether
    a Gaussian model would do instead
    """
    free = free_bytes() if free is None else free
    needed = 8 * _COPIES * n_rows * n_columns
    if free is None or needed <= free:
        return None
    fitting = _rounded_down(free // (8 * _COPIES * n_columns))
    instead = (
        " A linear Gaussian model needs no rows in memory: conditional='linear_gaussian' reads any number of them."
    )
    return (
        f"{needed_for} needs all rows in memory: {n_rows:,} rows of {n_columns:,} columns take about "
        f"{needed / _GIGABYTE:.1f} GB, and {free / _GIGABYTE:.1f} GB are free. About {fitting:,} rows fit: draw so "
        f"many by chance from every environment, leave out columns, or use a computer with more memory."
        f"{instead * moments_do}"
    )


def _rounded_down(count: int) -> int:
    """To two digits, so that nobody takes it for exact."""
    unit = 10 ** max(len(str(count)) - 2, 0)
    return count // unit * unit
