"""Random numbers that depend on names only: the same wherever, whenever and in whatever order work is done."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_sequence(*path: object) -> np.random.SeedSequence:
    """A seed from names and numbers, the same on every machine and in every version of Python."""
    digest = hashlib.sha256("/".join(str(part) for part in path).encode()).digest()
    return np.random.SeedSequence(np.frombuffer(digest[:16], dtype="<u4").tolist())


def seed_number(*path: object) -> int:
    """The same as one whole number below 2**31."""
    return int(np.random.default_rng(seed_sequence(*path)).integers(2**31))
