"""Parallel tempering over subsets: searches for modes, then samples."""

from .engine import Tempering

__all__ = ["Tempering"]
