"""Kernels behind names that small problems answer with NumPy, for which nothing has to be compiled.

Whether a problem is small is a matter of shapes alone, so that the same call gives the same digits on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from . import cholesky, elementary, moves, plain, row_residuals, scatter, subset_sums, subset_tree

# The largest number of columns, of groups, of subsets and of numbers in a table of rows of a small problem.
COLUMNS, GROUPS = 12, 32
SUBSETS, NUMBERS = 1 << COLUMNS, 1 << 22


def _by_size(compiled: Any, small: Callable[..., bool]) -> Callable[..., Any]:
    """The kernel, or its twin of the same name in `plain` where `small(*arguments)`."""
    twin = getattr(plain, compiled.__name__)

    @wraps(twin)
    def run(*arguments: Any) -> Any:
        return (twin if small(*arguments) else compiled)(*arguments)

    run.__doc__ = compiled.__doc__
    return run


def _few(second_moments: Any, *_: Any) -> bool:
    """(G, d, d), the outcome among the d columns"""
    known = isinstance(second_moments, np.ndarray)
    return known and len(second_moments) <= GROUPS and second_moments.shape[1] <= COLUMNS + 1


def _few_scored(scoring: Any, *_: Any) -> bool:
    return _few(scoring.scatter)


def _whole(grams: Any, starts: Any, n_low: int) -> bool:
    return _few(grams) and n_low == len(starts) - 1


centred_rows = _by_size(scatter.centred_rows, lambda X, y, rows, *_: rows.size * (X.shape[1] + 1) <= NUMBERS >> 4)
score_grouped_block = _by_size(
    subset_tree.score_grouped_block, lambda grams, *others: _whole(grams, others[4], others[6])
)
score_grouped_extensions = _by_size(subset_tree.score_grouped_extensions, _few)
screen_grouped_block = _by_size(
    subset_tree.screen_grouped_block, lambda grams, *others: _whole(grams, others[6], others[8])
)
score_subsets = _by_size(
    cholesky.score_subsets, lambda scoring, penalty, *_: _few(scoring.scatter) and bool(np.isnan(penalty))
)
subset_fits = _by_size(cholesky.subset_fits, _few_scored)
residual_powers = _by_size(
    row_residuals.residual_powers,
    # As many as all subsets of the columns: how many of them one call is for depends on the number of threads.
    lambda columns, *_: len(columns) <= COLUMNS + 1 and columns.shape[1] << len(columns) - 1 <= NUMBERS << 4,
)
subset_slopes = _by_size(row_residuals.subset_slopes, lambda gram, *_: len(gram) <= COLUMNS + 1)
grouped_block_log_ratios = _by_size(moves.grouped_block_log_ratios, _few_scored)
exp_shifted = _by_size(elementary.exp_shifted, lambda values, *_: len(values) <= SUBSETS)
listed_inclusion = _by_size(
    subset_sums.listed_inclusion, lambda weights, members, pairs: len(pairs) <= COLUMNS and len(members) <= SUBSETS
)
add_listed_prior = _by_size(
    subset_sums.add_listed_prior, lambda odds, *others: len(odds) <= COLUMNS and len(others[2]) <= SUBSETS
)
