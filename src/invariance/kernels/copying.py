"""Copies between arrays in compiled code."""

from .compiled import kernel


@kernel
def copy_into(target, source):
    """target (n,) = source (n, or more). `target[:] = source` would compile the words of an error too, for seconds."""
    for i in range(target.size):
        target[i] = source[i]
