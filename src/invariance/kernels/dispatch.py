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


def _few_rows(columns: Any, *_: Any) -> bool:
    """(d, n)"""
    return columns.shape[0] <= COLUMNS + 1 and columns.size <= NUMBERS


def _whole(grams: Any, starts: Any, n_low: int) -> bool:
    return _few(grams) and n_low == len(starts) - 1


def _few_listed(n_features: int, listed: Any) -> bool:
    return n_features <= COLUMNS and len(listed) <= SUBSETS


centred_rows = _by_size(
    scatter.centred_rows,
    lambda X, y, rows, *_: rows.size * (X.shape[1] + 1) <= NUMBERS >> 4,
)
fill_pooled = _by_size(scatter.fill_pooled, lambda scatter, *_: scatter.size <= NUMBERS >> 4)

score_grouped_block = _by_size(
    subset_tree.score_grouped_block,
    lambda grams, absent, weights, offset, tolerance, starts, prefix, n_low, out: _whole(grams, starts, n_low),
)
score_grouped_extensions = _by_size(subset_tree.score_grouped_extensions, _few)
screen_grouped_block = _by_size(
    subset_tree.screen_grouped_block,
    lambda grams, *others: _whole(grams, others[5], others[7]),
)

score_subsets = _by_size(
    cholesky.score_subsets,
    lambda scoring, penalty, *_: _few(scoring.scatter) and bool(np.isnan(penalty)),
)
subset_fits = _by_size(cholesky.subset_fits, lambda scoring, *_: _few(scoring.scatter))
grouped_block_log_ratios = _by_size(
    moves.grouped_block_log_ratios,
    lambda scoring, fixed, starts, block, out: _few(scoring.scatter),
)
subset_slopes = _by_size(cholesky.subset_slopes, lambda gram, *_: _few(gram[None]))
residual_powers = _by_size(
    row_residuals.residual_powers,
    # As many as all subsets of the columns: how many of them one call is for depends on the number of threads.
    lambda columns, *_: _few_rows(columns) and columns.shape[1] << len(columns) - 1 <= NUMBERS << 4,
)

triangular_factor = _by_size(row_residuals.triangular_factor, _few_rows)
relative_residuals = _by_size(row_residuals.relative_residuals, _few_rows)
share_from_rows = _by_size(
    row_residuals.share_from_rows, lambda rows, *_: _few_rows(rows.values) and not len(rows.gaps)
)

exp_shifted = _by_size(elementary.exp_shifted, lambda values, shift, out: len(values) <= SUBSETS)
weighted_sum = _by_size(subset_sums.weighted_sum, lambda weights, values: len(weights) <= SUBSETS)
fold_inclusion = _by_size(subset_sums.fold_inclusion, lambda weights, n_low, pairs: len(weights) <= SUBSETS)
listed_inclusion = _by_size(
    subset_sums.listed_inclusion,
    lambda weights, members, pairs: _few_listed(len(pairs), members),
)
add_dense_prior = _by_size(subset_sums.add_dense_prior, lambda *arguments: len(arguments[-1]) <= SUBSETS)
add_listed_prior = _by_size(
    subset_sums.add_listed_prior,
    lambda log_odds, constant, log_size_weight, members, *_: _few_listed(len(log_odds), members),
)
sizes = _by_size(subset_sums.sizes, lambda masks: masks.size <= NUMBERS >> 4)
sums_over_members = _by_size(subset_sums.sums_over_members, lambda masks, values: masks.shape[1] <= COLUMNS)
