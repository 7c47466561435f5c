"""Sums of squares and of fourth powers of the residuals of many subsets."""

import numpy as np

from .compiled import kernel
from .copying import copy_into

# Rows that are looked at together: their residuals stay in the nearest cache.
_ROWS = 1024


@kernel(fastmath={"contract", "reassoc"})
def residual_powers(columns, slopes, starts, members, squares, fourths):
    """squares[s], fourths[s] of the last row of columns (d, n) less slopes[s, j] times row j, for the rows j in
    members[starts[s]:starts[s+1]]."""
    outcome, n = columns.shape[0] - 1, columns.shape[1]
    work = np.empty(_ROWS)
    squares[:] = 0.0
    fourths[:] = 0.0
    for first in range(0, n, _ROWS):
        stop = min(first + _ROWS, n)
        y = columns[outcome, first:stop]
        residual = work[: stop - first]
        for s in range(starts.size - 1):
            copy_into(residual, y)
            for j in members[starts[s] : starts[s + 1]]:
                x, slope = columns[j, first:stop], slopes[s, j]
                for i in range(residual.size):
                    residual[i] -= slope * x[i]
            second, fourth = 0.0, 0.0
            for i in range(residual.size):
                square = residual[i] * residual[i]
                second += square
                fourth += square * square
            squares[s] += second
            fourths[s] += fourth
