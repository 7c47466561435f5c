"""Numbers in cells, to be read and to be sorted by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..posterior.summary import format_p_value, format_probability, format_share
from .parts import Cell


def number(value: float) -> Cell:
    """Four digits; "–" where it is not known."""
    return _cell(value, lambda known: f"{known:.4g}" if abs(known) < 1e4 or abs(known) >= 1e7 else f"{known:,.0f}")


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
