"""Whether rows fit into memory, for outcomes that need them all."""

from __future__ import annotations

from dataclasses import dataclass

from .._tools.memory import free_bytes

_NUMBER = 8  # bytes
# Numbers of a row are there as they are fitted, and once more while they are.
_COPIES = 2
_GIGABYTE, _MEGABYTE = 1e9, 1e6
_FEW = 0.1


@dataclass(frozen=True)
class RowSize:
    """Of a table: n_columns as they are read, n_fitted with one for each level instead of words; text : bytes of the
    words of a row"""

    n_columns: int
    n_fitted: int
    text: float = 0.0

    @classmethod
    def of_numbers(cls, n_columns: int) -> RowSize:
        return cls(n_columns, n_columns)

    @property
    def n_bytes(self) -> float:
        """What a row takes while it is read and fitted"""
        return _NUMBER * (self.n_columns + _COPIES * self.n_fitted) + self.text

    def __str__(self) -> str:
        made = "" if self.n_fitted == self.n_columns else f", which levels make {self.n_fitted:,},"
        return f"{self.n_columns:,} columns{made}"


def rows_that_fit(
    n_rows: int,
    size: RowSize,
    needed_for: str = "this model",
    free: int | None = None,
    moments_do: bool = True,
    counted: bool = True,
) -> str | None:
    """Why so many rows cannot all be fitted, with what to do about it; None where they can, or memory is not known.

    needed_for : what needs them, for the sentence; free : bytes, by default what can be had now; moments_do : whether
    a Gaussian model would do instead; counted : whether n_rows is exact
    """
    free = free_bytes() if free is None else free
    needed = size.n_bytes * n_rows
    if free is None or needed <= free:
        return None
    fitting = _rounded_down(int(free / size.n_bytes))
    rows = f"{n_rows:,}" if counted else f"about {_rounded_down(n_rows):,}"
    instead = (
        " A linear Gaussian model needs no rows in memory: conditional='linear_gaussian' reads any number of them."
    )
    return (
        f"{needed_for} needs all rows in memory: {rows} rows of {size} take {_in_words(needed, 'about ')}, and "
        f"{_in_words(free)} are free. About {fitting:,} rows fit: draw so many by chance from every environment, leave "
        f"out columns, or use a computer with more memory.{instead * moments_do}"
    )


def _in_words(n_bytes: float, about: str = "") -> str:
    if n_bytes < _FEW * _MEGABYTE:
        return f"less than {_FEW} MB"
    unit, name = (_GIGABYTE, "GB") if n_bytes >= _FEW * _GIGABYTE else (_MEGABYTE, "MB")
    return f"{about}{n_bytes / unit:.1f} {name}"


def _rounded_down(count: int) -> int:
    """To two digits, so that nobody takes it for exact."""
    unit = 10 ** max(len(str(count)) - 2, 0)
    return count // unit * unit
