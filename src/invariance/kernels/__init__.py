"""Compiled functions of plain arrays."""

from .._tools.progress import hold_off_collections

hold_off_collections()
