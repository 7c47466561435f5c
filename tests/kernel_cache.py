"""Numba's cache of compiled kernels, where several test processes fill it at once.

Of two processes that save two signatures of one kernel, numba may let the index name the code of the other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from numba.core.caching import IndexDataCacheFile


def keep_in_order() -> None:
    """One process at a time reads or writes an entry: from here on, in this process."""
    for name in ("save", "load"):
        setattr(IndexDataCacheFile, name, _alone(getattr(IndexDataCacheFile, name)))


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def locked(cache: IndexDataCacheFile, *arguments: Any) -> Any:
        with _lock(cache._cache_path):
            return method(cache, *arguments)

    return locked


@contextmanager
def _lock(folder: str) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
