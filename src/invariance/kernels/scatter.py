"""Centred sums of products (E + 1, d, d) of E environments and of all their rows, filled row by row."""

import numpy as np

from .compiled import kernel
from .copying import copy_into


@kernel
def _fill_pooled_row(scatter, i, weighted, gaps):
    local, pooled = scatter[:-1, i], scatter[-1, i]
    pooled[:] = 0.0
    for e in range(len(local)):
        for j in range(pooled.size):
            pooled[j] += weighted[e, i] * gaps[e, j]
    for e in range(len(local)):
        for j in range(pooled.size):
            pooled[j] += local[e, j]


@kernel
def fill_pooled(scatter, counts, gaps):
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and the pooled one."""
    weighted = np.expand_dims(counts, 1) * gaps
    for i in range(scatter.shape[1]):
        _fill_pooled_row(scatter, i, weighted, gaps)


@kernel
def fill_without_row(scatter, e, loss, deviation, constant, counts, gaps, out):
    """Into out what is left of scatter (E + 1, d, d) when environment e loses loss (d,) · deviation (d,)', and has
    nothing left of the columns that are constant (d,) there; counts, gaps: of the rows that are left."""
    weighted = np.expand_dims(counts, 1) * gaps
    for i in range(scatter.shape[1]):
        for other in range(len(scatter) - 1):
            copy_into(out[other, i], scatter[other, i])
        row = out[e, i]
        for j in range(row.size):
            row[j] = 0.0 if constant[i] or constant[j] else row[j] - loss[i] * deviation[j]
        _fill_pooled_row(out, i, weighted, gaps)
