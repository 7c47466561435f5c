"""How much memory there is."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LINUX = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
# What may be had and what is taken by the group of processes, a container or a job: of version 2, and of version 1.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def free_bytes() -> int | None:
    """Memory that can be had now, what the system keeps of files counted in; None where it does not tell."""
    try:
        if _LINUX.exists():
            found = re.search(r"^MemAvailable:\s*(\d+) kB", _LINUX.read_text(encoding="ascii"), re.MULTILINE)
            known = [free for free in (1024 * int(found[1]) if found else None, _left_to_group()) if free is not None]
            return min(known, default=None)
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _left_to_group() -> int | None:
    """None where there is no limit, which version 2 writes as the word max."""
    for names in _GROUP_FILES:
        limit, taken, told = (_text(_GROUP / name) for name in names)
        if limit.isdigit() and taken.isdigit():
            kept = re.search(r"^inactive_file (\d+)", told, re.MULTILINE)
            return max(int(limit) - int(taken) + (int(kept[1]) if kept else 0), 0)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
