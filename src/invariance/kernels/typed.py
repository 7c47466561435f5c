"""Numbers that have a type for numba but no value: a kernel that is called with a literal is compiled for it alone."""

import numpy as np

ZERO, NO, YES = np.int64(0), np.bool_(False), np.bool_(True)
