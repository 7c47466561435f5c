"""Numbers in cells, to be read and to be sorted by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from ..posterior.summary import format_p_value, format_probability, format_share
from .parts import Cell


def number(value: float) -> Cell:
    """Four digits; "–" where it is not known."""
    return numbers([value])[0]


def numbers(values: Iterable[float]) -> list[Cell]:
    """A column whose largest number has four digits, and all others as many decimals; "–" where one is not known."""
    column = np.asarray(list(values), dtype=float)
    written = _as_the_largest(np.abs(column[np.isfinite(column)]).max(initial=0.0))
    return [_cell(value, written) for value in column]


def _as_the_largest(value: float) -> Callable[[float], str]:
    if not 1e-4 <= value < 1e7:
        return lambda known: f"{known:.4g}"
    decimals = max(0, 3 - math.floor(math.log10(value)))
    return lambda known: f"{known:z,.{decimals}f}"


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
