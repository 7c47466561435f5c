"""One function over many tasks: what travels to those who do them, and how it is complained about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..exceptions import InvarianceError


@dataclass(frozen=True, eq=False)
class Work:
    """`function(shared, task)` depends on nothing but its arguments, so that anybody can do any task, and again.

    error, kept : the class of the complaints, and what they say of a run that is broken off
    """

    function: Callable[[Any, Any], Any]
    shared: Any
    error: type[InvarianceError]
    kept: str


def one_thread() -> Any:
    """Hold BLAS to one thread, which the last digits depend on; its libraries have to be loaded to be held."""
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


@cache
def hold_one_thread() -> Any:
    """For processes that do nothing else: BLAS stays at one thread, whatever other tasks end in the meantime."""
    return one_thread()
