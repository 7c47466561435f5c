"""Compiled functions of plain arrays."""

from .._tools.compiling import hold_off_collections

hold_off_collections()
