"""How every kernel is compiled: kept on disk, without the interpreter's lock, dividing by zero as NumPy does.

Nobody calls kernels from C. The wrappers that numba would write for that are a tenth of the time that compiling takes.
"""

from functools import partial

from numba import njit

kernel = partial(njit, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
