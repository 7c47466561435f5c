"""How much memory there is."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LINUX = Path("/proc/meminfo")


def free_bytes() -> int | None:
    """Memory that can be had now, what the system keeps of files counted in; None where it does not tell."""
    try:
        if _LINUX.exists():
            found = re.search(r"^MemAvailable:\s*(\d+) kB", _LINUX.read_text(encoding="ascii"), re.MULTILINE)
            return 1024 * int(found[1]) if found else None
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
