"""A word to those who wait while Python loads its libraries: seconds, and more after an installation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 0.5
_BETWEEN_LOOKS = 0.05
_MESSAGE = "loading libraries …"


@contextmanager
def loading_announced(wanted: bool) -> Iterator[None]:
    """Inside the block: a line on the terminal that is gone when the libraries are there."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    left = threading.Event()
    announcer = threading.Thread(target=_announce, args=(left,), daemon=True)
    announcer.start()
    try:
        yield
    finally:
        left.set()
        announcer.join()


def _announce(left: threading.Event) -> None:
    if left.wait(_PATIENCE) or _loaded():
        return
    sys.stderr.write(_MESSAGE)
    sys.stderr.flush()
    while not (left.wait(_BETWEEN_LOOKS) or _loaded()):
        pass
    sys.stderr.write(f"\r{' ' * len(_MESSAGE)}\r")
    sys.stderr.flush()


def _loaded() -> bool:
    """Whether the last of them is there, with the name that it defines in the end."""
    return hasattr(sys.modules.get("invariance.estimators.bip"), "BIP")
