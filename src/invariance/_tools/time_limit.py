"""A limit on how long a command may take: what can be left out ends early or is left out once it
has passed, and is listed. Without a limit nothing depends on the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_limits: list[_Limit] = []


class _Limit:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.perf_counter() + seconds
        self.unfinished: list[str] = []


@contextmanager
def limited(seconds: float | None) -> Iterator[list[str]]:
    """Inside the block, whatever the thread: `out_of_time` once so many seconds have passed. Gives
    what was left out, which grows; None: no limit"""
    limit = _Limit(float("inf") if seconds is None else seconds)
    _limits.append(limit)
    try:
        yield limit.unfinished
    finally:
        _limits.remove(limit)


def out_of_time(what: str) -> bool:
    """Return whether a limit has passed; list `what`, which is then not finished, once."""
    passed = [limit for limit in _limits if time.perf_counter() > limit.end]
    for limit in passed:
        if what not in limit.unfinished:
            limit.unfinished.append(what)
    return bool(passed)


def ended_early() -> str:
    """Return what limits on the time have ended early so far, in a sentence; "" without any."""
    told = (
        f"{', '.join(limit.unfinished)} (after {limit.seconds:g} s)"
        for limit in _limits
        if limit.unfinished
    )
    listed = "; ".join(told)
    return (
        f"ended early by the limit on the time: {listed}. Allow more seconds to finish."
        if listed
        else ""
    )
