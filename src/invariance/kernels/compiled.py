"""How every kernel is compiled: kept on disk, without the interpreter's lock, dividing by zero as NumPy does.

Nobody calls kernels from C. The wrappers that numba would write for that are a tenth of the time that compiling takes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit
from numba.core.options import DefaultOptions

kernel = partial(njit, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
ZERO, NO, YES = np.int64(0), np.bool_(False), np.bool_(True)


@kernel
def copy_into(target, source):
    """target (n,) = source (n, or more). `target[:] = source` would compile the words of an error too, for seconds."""
    for i in range(target.size):
        target[i] = source[i]


@kernel
def longest(starts):
    """The most members of a list; starts (S+1,): list s is starts[s]:starts[s+1]."""
    most = ZERO
    for s in range(starts.size - 1):
        most = max(most, starts[s + 1] - starts[s])
    return most


# The option is not a public one: without it functions are as right, and slower.
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
