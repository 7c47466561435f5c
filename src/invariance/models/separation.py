"""Coefficients without a finite maximum likelihood estimate, because features separate the outcome.

See Albert and Anderson (1984), doi:10.1093/biomet/71.1.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from .._tools.arrays import Floats, Integers, Mask
from ..moments.least_squares import independent_columns

# Of columns of standard deviation 1: a row this far on its side of the plane is separated, less is
# rounding.
_APART = 1e-6
# Largest baseline of a separating direction, in largest values of the linear predictor: it has no
# bound of its own.
_MOST_BASELINE = 10.0
# Singular values of columns of standard deviation 1, and entries of directions of length 1, below
# this are 0.
_NOTHING = 1e-7
# Share of the largest value of a column that rounding may leave of it around a mean.
_ROUNDING = 1e-13


class Pulls(NamedTuple):
    """Describe how the likelihood of single rows depends on their linear predictors.

    rows (n,) : of the data, of which one may occur several times; direction (n,) : 1 if it always
    rises, -1 if it always falls, 0 if it has a maximum; baseline (n,) : rows with the same label
    share a free intercept
    """

    rows: Integers
    direction: Floats
    baseline: Integers


def infinite_coefficients(columns: Floats, direction: Floats, baseline: Integers) -> Mask:
    """Return which of k coefficients (k,) have no finite maximum likelihood estimate.

    columns (n, k); direction, baseline (n,) : as in `Pulls`. Columns that those before them give
    count as finite.

    Directions of the coefficients, with changes of the baselines, along which no row loses
    likelihood and some gain without end are found by linear programmes, each for the rows that
    those before did not separate. The coefficients that the remaining rows cannot identify are
    infinite.

    References
    ----------
    Konis (2007), Linear programming algorithms for detecting separated data in binary logistic
    regression models (thesis, Oxford). Albert and Anderson (1984), doi 10.1093/biomet/71.1.1
    """
    if not len(columns):
        return np.ones(columns.shape[1], dtype=bool)
    _, labels = np.unique(baseline, return_inverse=True)
    used = independent_columns(_within(columns, labels))
    infinite = np.zeros(columns.shape[1], dtype=bool)
    if not used.any():
        return infinite
    X = columns[:, used]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    left = np.ones(len(X), dtype=bool)
    while left.any():
        apart = _separated(X[left], direction[left], labels[left])
        if not apart.any():
            break
        left[np.flatnonzero(left)[apart]] = False
    if not left.any():
        infinite[used] = True
    elif not left.all():
        unknown = _null_space(_within(X[left], labels[left]))
        infinite[used] = (np.abs(unknown) > _NOTHING).any(axis=0)
    return infinite


def _separated(X: Floats, direction: Floats, labels: Integers) -> Mask:
    """Return rows (n,) that one direction separates: that along which linear predictors gain most,
    without losses."""
    n_baselines = int(labels.max()) + 1
    design = sparse.hstack(
        [X, sparse.csr_array((np.ones(len(X)), (np.arange(len(X)), labels)), (len(X), n_baselines))]
    )
    design = sparse.csr_array(design)
    open_ended = direction != 0.0
    gains = sparse.diags_array(direction[open_ended]) @ design[open_ended]
    most = _MOST_BASELINE * np.abs(X).sum(axis=1).max()
    bounds = [(-1.0, 1.0)] * X.shape[1] + [(-most, most)] * n_baselines
    held = design[~open_ended]
    equal = (held, np.zeros(held.shape[0])) if held.shape[0] else (None, None)
    total = np.asarray(gains.sum(axis=0)).ravel()
    found = linprog(-total, -gains, np.zeros(gains.shape[0]), *equal, bounds=bounds, method="highs")
    apart = np.zeros(len(X), dtype=bool)
    if found.status == 0:
        apart[open_ended] = gains @ found.x > _APART
    return apart


def _within(X: Floats, labels: Integers) -> Floats:
    """Return the columns (n, k) around their means over rows with the same label."""
    sums = np.zeros((int(labels.max(initial=0)) + 1, X.shape[1]))
    np.add.at(sums, labels, X)
    counts = np.bincount(labels, minlength=len(sums))
    around = X - (sums / np.maximum(counts, 1)[:, None])[labels]
    return np.where(np.abs(around) > _ROUNDING * np.abs(X).max(axis=0, initial=0.0), around, 0.0)


def _null_space(X: Floats) -> Floats:
    """Return directions (m, k) of the coefficients that change no row of X (n, k)."""
    n, k = X.shape
    _, lengths, axes = np.linalg.svd(np.linalg.qr(X, mode="r"))
    return np.asarray(axes[np.pad(lengths, (0, k - len(lengths))) <= _NOTHING * np.sqrt(n)])
