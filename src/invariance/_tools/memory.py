"""How much memory there is."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LINUX = Path("/proc/meminfo")
# What rows take, in copies of their numbers: as they are read, in columns that a model fits, and while it does.
_COPIES = 4


def free_bytes() -> int | None:
    """Memory that can be had now, what the system keeps of files counted in; None where it does not tell."""
    try:
        if _LINUX.exists():
            found = re.search(r"^MemAvailable:\s*(\d+) kB", _LINUX.read_text(encoding="ascii"), re.MULTILINE)
            return 1024 * int(found[1]) if found else None
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def rows_that_fit(n_rows: int, n_columns: int) -> str | None:
    """None where so many rows can be read into memory and fitted; else a clause that says how many can."""
    free, row = free_bytes(), 8 * _COPIES * max(1, n_columns)
    if free is None or n_rows * row <= free:
        return None
    return (
        f"its {n_rows:,} rows of {n_columns:,} columns take {size_text(n_rows * row)}, and {size_text(free)} are free: "
        f"{_rounded(free // row):,} rows fit"
    )


def _rounded(n: int) -> int:
    """Down to two digits"""
    step = 10 ** max(0, len(str(n)) - 2)
    return n // step * step


def size_text(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"
