"""Numba's cache of compiled kernels, where several test processes fill it at once.

Of two processes that save two signatures of one kernel, numba may let the index name the code of the other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
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
        folder = os.open(cache._cache_path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            return method(cache, *arguments)
        finally:
            os.close(folder)

    return locked
