"""Compiled functions of plain arrays."""
