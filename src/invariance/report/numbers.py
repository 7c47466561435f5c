"""Numbers in cells, to be read and to be sorted by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from .._tools.arrays import Floats, Integers
from ..posterior.summary import format_p_value, format_probability, format_share
from .parts import Cell


def number(value: float) -> Cell:
    """Four digits; "–" where it is not known."""
    return numbers([value])[0]


def numbers(values: Iterable[float]) -> list[Cell]:
    """A column whose largest number has four digits, and all others as many decimals, but four digits too where these
    would show one at most; "–" where one is not known."""
    return [cells[0] for cells in rows_of_numbers([value] for value in values)]


def rows_of_numbers(values: Iterable[Iterable[float]]) -> list[list[Cell]]:
    """The same for numbers that are read together, such as an estimate and its interval: all those of a row have as
    many decimals."""
    rows = [[float(value) for value in row] for row in values]
    largest = [max((abs(value) for value in row if math.isfinite(value)), default=0.0) for row in rows]
    column = _decimals(max(largest, default=0.0))
    each = (column if column is None or _shows(value, column) else _decimals(value) for value in largest)
    return [[_cell(value, _written(decimals)) for value in row] for row, decimals in zip(rows, each, strict=True)]


def sample_sd(squares: Floats, counts: Integers) -> Floats:
    """Standard deviations (E,) of so many numbers whose squares around their mean sum to this; 0 of one number."""
    return np.asarray(np.sqrt(squares / np.maximum(counts - 1, 1)))


def without_rounding(value: float, scale: float) -> float:
    """0 where a value, computed from numbers as large as `scale`, is their rounding only."""
    return 0.0 if abs(value) < 1e-12 * scale else value


def _shows(value: float, decimals: int) -> bool:
    """Whether two digits of it are seen."""
    return value == 0.0 or value >= 10.0 ** (1 - decimals)


def _decimals(value: float) -> int | None:
    """With which a number has four digits; None where it is too large or too small to be written so."""
    return max(0, 3 - math.floor(math.log10(value))) if 1e-4 <= value < 1e7 else None


def _written(decimals: int | None) -> Callable[[float], str]:
    return (lambda known: f"{known:.4g}") if decimals is None else (lambda known: f"{known:z,.{decimals}f}")


def probability(value: float) -> Cell:
    return _cell(value, format_probability)


def p_value(value: float) -> Cell:
    return _cell(value, format_p_value)


def share(value: float) -> Cell:
    return _cell(value, format_share)


def change(value: float) -> Cell:
    return _cell(value, lambda known: f"{known:+z.3f}")


def _cell(value: float, written: Callable[[float], str]) -> Cell:
    value = float(value)
    return Cell(written(value), value) if np.isfinite(value) else Cell("–")
