"""When numba compiles, which makes people wait once after an installation."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

COMPILING = "compiling, once after an installation"


def compilation_watched(tell: Callable[[bool], None]) -> AbstractContextManager[Any]:
    """Inside the block: tell(True) whenever numba begins to compile, tell(False) when it is through."""
    from numba.core import event

    return event.install_listener("numba:compile", _watch(tell))


def hold_off_collections() -> None:
    """From here on: Python looks for no garbage while numba compiles.

    Every look goes through all that numba has made so far, a tenth of the time in all.
    """
    from numba.core import event

    held_off = False

    def tell(begun: bool) -> None:
        nonlocal held_off
        if begun and gc.isenabled():
            gc.disable()
            held_off = True
        elif not begun and held_off:
            gc.enable()
            held_off = False

    watch = _watch(tell)

    def go_on_alone() -> None:
        """In a forked process, which has no other thread that would come to the end of what it compiles."""
        watch.begin_anew()
        tell(False)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=go_on_alone)
    event.register("numba:compile", watch)


def _watch(tell: Callable[[bool], None]) -> Any:
    from numba.core import event

    class Watch(event.Listener):
        def __init__(self) -> None:
            self.begin_anew()

        def begin_anew(self) -> None:
            self._running = 0
            self._lock = threading.Lock()

        def on_start(self, event: Any) -> None:
            self._count(1, 1)

        def on_end(self, event: Any) -> None:
            self._count(-1, 0)

        def _count(self, change: int, told_at: int) -> None:
            """What is compiled first compiles what it calls."""
            with self._lock:
                self._running += change
                turned = self._running == told_at
            if turned:
                tell(bool(told_at))

    return Watch()
