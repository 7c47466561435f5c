"""Compiled functions that do not count the references to arrays, which takes as long as their work on a few rows.

They make no arrays, which would not compile, and whoever calls them holds those that they are given.
"""

from numba.core.options import DefaultOptions

# The option is not a public one: without it functions are as right, and slower.
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
