"""Numbers as people say them."""

from __future__ import annotations

import math

_UNITS = (("year", 31_557_600.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))


def duration(seconds: float) -> str:
    """ "3.2 hours", "8 seconds", "10^371 years"."""
    for unit, length in _UNITS:
        if seconds >= 1.5 * length:
            return f"{_amount(seconds / length)} {unit}s"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"


def approximate_count(count: int) -> str:
    """ "1,024", "about 10^382"."""
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def _amount(value: float) -> str:
    if value >= 1e6:
        return f"10^{math.floor(math.log10(value))}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
