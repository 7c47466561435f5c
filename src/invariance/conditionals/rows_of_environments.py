"""Rows sorted by environment: where each begins, and sums over them."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData


def environment_starts(data: MultiEnvironmentData) -> Integers:
    """(E + 1,) where the rows of each environment begin when they are sorted by environment"""
    return np.concatenate([[0], np.cumsum(data.counts)]).astype(np.int64)


def sums_by_environment(values: Floats, starts: Integers) -> Floats:
    """(E,) of values (N,) in that order"""
    return np.add.reduceat(values, starts[:-1])
