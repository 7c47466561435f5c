"""Kernels behind names that small problems answer with NumPy, for which nothing has to be compiled.

Whether a problem is small is a matter of shapes alone, so that the same call gives the same digits on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from . import cholesky as subset_cholesky
from . import elementary, scatter, subset_tree
from . import moves as block_gibbs
from . import plain as moments
from . import plain as plain_blocks
from . import plain as rows
from . import plain as subsets
from . import plain as sums
from . import plain as tree
from . import row_residuals as group_rows
from . import row_residuals as orthogonal
from . import scatter as centring
from . import scatter as row_blocks
from . import subset_sums as masks
from . import subset_sums as reductions
from . import subset_tree as combinations
from . import subset_tree as screen
from .row_residuals import residual_powers as powers_of_residuals

# The largest number of columns, of groups, of subsets and of numbers in a table of rows of a small problem.
COLUMNS, GROUPS = 12, 32
SUBSETS, NUMBERS = 1 << COLUMNS, 1 << 22


def _by_size(compiled: Any, plain: Callable[..., Any], small: Callable[..., bool]) -> Callable[..., Any]:
    @wraps(plain)
    def run(*arguments: Any) -> Any:
        return (plain if small(*arguments) else compiled)(*arguments)

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


def _few_in_blocks(block: Any, starts: Any, *_: Any) -> bool:
    return block.size <= NUMBERS >> 4 and len(starts) <= GROUPS


centred_rows = _by_size(
    centring.centred_rows,
    moments.centred_rows,
    lambda X, y, rows, *_: rows.size * (X.shape[1] + 1) <= NUMBERS >> 4,
)
sort_groups = _by_size(row_blocks.sort_groups, plain_blocks.sort_groups, lambda codes, *_: codes.size <= NUMBERS >> 8)
put = _by_size(row_blocks.put, plain_blocks.put, lambda values, places, block, j: block.size <= NUMBERS >> 4)
describe_groups = _by_size(row_blocks.describe_groups, plain_blocks.describe_groups, _few_in_blocks)
mirror = _by_size(row_blocks.mirror, plain_blocks.mirror, lambda scatter: len(scatter) <= 4 * COLUMNS)
centre_groups = _by_size(row_blocks.centre_groups, plain_blocks.centre_groups, _few_in_blocks)
fill_pooled = _by_size(scatter.fill_pooled, moments.fill_pooled, lambda scatter, *_: scatter.size <= NUMBERS >> 4)
fill_without_row = _by_size(scatter.fill_without_row, moments.fill_without_row, _few)

score_grouped_block = _by_size(
    subset_tree.score_grouped_block,
    tree.score_grouped_block,
    lambda grams, absent, weights, offset, tolerance, starts, prefix, n_low, out: _whole(grams, starts, n_low),
)
score_grouped_extensions = _by_size(combinations.score_grouped_extensions, tree.score_grouped_extensions, _few)
screen_grouped_block = _by_size(
    screen.screen_grouped_block,
    tree.screen_grouped_block,
    lambda grams, *others: _whole(grams, others[6], others[8]),
)

score_subsets = _by_size(
    subset_cholesky.score_subsets,
    subsets.score_subsets,
    lambda scoring, penalty, *_: _few(scoring.scatter) and bool(np.isnan(penalty)),
)
subset_fits = _by_size(subset_cholesky.subset_fits, subsets.subset_fits, lambda scoring, *_: _few(scoring.scatter))
grouped_block_log_ratios = _by_size(
    block_gibbs.grouped_block_log_ratios,
    subsets.grouped_block_log_ratios,
    lambda scoring, fixed, starts, block, out: _few(scoring.scatter),
)
subset_slopes = _by_size(subset_cholesky.subset_slopes, subsets.subset_slopes, lambda gram, *_: _few(gram[None]))
residual_powers = _by_size(
    powers_of_residuals,
    subsets.residual_powers,
    # As many as all subsets of the columns: how many of them one call is for depends on the number of threads.
    lambda columns, *_: _few_rows(columns) and columns.shape[1] << len(columns) - 1 <= NUMBERS << 4,
)

triangular_factor = _by_size(orthogonal.triangular_factor, rows.triangular_factor, _few_rows)
relative_residuals = _by_size(orthogonal.relative_residuals, rows.relative_residuals, _few_rows)
share_from_rows = _by_size(
    group_rows.share_from_rows, rows.share_from_rows, lambda rows, *_: _few_rows(rows.values) and not len(rows.gaps)
)

exp_shifted = _by_size(elementary.exp_shifted, sums.exp_shifted, lambda values, shift, out: len(values) <= SUBSETS)
weighted_sum = _by_size(reductions.weighted_sum, sums.weighted_sum, lambda weights, values: len(weights) <= SUBSETS)
fold_inclusion = _by_size(
    reductions.fold_inclusion, sums.fold_inclusion, lambda weights, n_low, pairs: len(weights) <= SUBSETS
)
listed_inclusion = _by_size(
    reductions.listed_inclusion,
    sums.listed_inclusion,
    lambda weights, members, pairs: _few_listed(len(pairs), members),
)
add_dense_prior = _by_size(
    reductions.add_dense_prior, sums.add_dense_prior, lambda *arguments: len(arguments[-1]) <= SUBSETS
)
add_listed_prior = _by_size(
    reductions.add_listed_prior,
    sums.add_listed_prior,
    lambda log_odds, constant, log_size_weight, members, *_: _few_listed(len(log_odds), members),
)
sizes = _by_size(masks.sizes, sums.sizes, lambda masks: masks.size <= NUMBERS >> 4)
sums_over_members = _by_size(
    masks.sums_over_members, sums.sums_over_members, lambda masks, values: masks.shape[1] <= COLUMNS
)
