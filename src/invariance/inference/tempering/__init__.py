"""Parallel tempering over subsets: searches for modes, then samples."""
