"""Which columns a regression would pick, one after the other, from second moments alone."""

import numpy as np

from .compiled import kernel
from .gram_rows import gram_row
from .group_rows import subtract

# Forward selection, except that a column of which little is left must explain much more to enter.
FORWARD = 0.01
# Matching pursuit: whatever is left of a column, its covariance with what is left of the target counts.
MATCHING = 1e9


@kernel
def inverse_scale_of(scoring, first, last):
    """(d,) 1/√ of each column's sum of squares, groups first..last-1 added up; 0 where it is constant."""
    scale = np.zeros(scoring.inverse_scale.shape[1])
    for g in range(first, last):
        for j in range(scale.size):
            own = scoring.inverse_scale[g, j]
            if own > 0.0:
                scale[j] += 1.0 / (own * own)
    for j in range(scale.size):
        scale[j] = 1.0 / np.sqrt(scale[j]) if scale[j] > 0.0 else 0.0
    return scale


@kernel
def pursuit(scoring, target, first, last, scale, free, damping, path, given):
    """The columns out of the `free` (d,) that a regression of the column `target` picks; returns how many were found.

    The first `given` columns of `path` are there already: they enter before the search begins.
    scale (d,): `inverse_scale_of` groups first..last-1, whose second moments are added up: the environments' own
    deviations for (0, E), the pool's for (E, E+1). path (n,) receives columns in the order of entering: each has the
    largest c²/(r + damping), where r is the share of the column that the earlier ones leave and c its covariance, per
    standard deviations, with what they leave of the target. Columns that nearly depend on the earlier ones are passed
    over.
    """
    d = free.size
    rows, gains = np.empty((path.size, d)), np.empty(d)
    remaining = np.ones(d)
    covariance = np.empty(d)
    _scaled_row(scoring, target, first, last, scale, covariance)
    open_ones = free & (scale > 0.0)
    open_ones[target] = False
    for k in range(path.size):
        top = path[k]
        if k >= given:
            top = _most_promising(covariance, remaining, damping, scoring.tolerance, open_ones, gains)
        if top < 0 or remaining[top] < scoring.tolerance:
            return k
        open_ones[top] = False
        path[k] = top
        new = rows[k]
        _scaled_row(scoring, top, first, last, scale, new)
        for m in range(k):
            subtract(new, rows[m, top], rows[m])
        root, with_target = np.sqrt(new[top]), new[target] / np.sqrt(new[top])
        for j in range(d):
            new[j] /= root
            remaining[j] -= new[j] * new[j]
            covariance[j] -= with_target * new[j]
    return path.size


@kernel
def _scaled_row(scoring, column, first, last, scale, out):
    """out (d,) = correlations of a column with all, groups first..last-1 added up"""
    out[:] = 0.0
    for g in range(first, last):
        row = gram_row(scoring.scatter, g, column)
        for j in range(out.size):
            out[j] += row[j]
    for j in range(out.size):
        out[j] *= scale[j] * scale[column]


@kernel
def _most_promising(covariance, remaining, damping, tolerance, open_ones, gains):
    """The open column with the largest gain, -1 if there is none. Columns of which too little is left are closed.

    Two loops: the compiler vectorises the first. gains (d,): work space.
    """
    for j in range(gains.size):
        open_ones[j] &= not remaining[j] < tolerance
        gains[j] = covariance[j] ** 2 / (remaining[j] + damping) if open_ones[j] else -1.0
    top, largest = -1, -1.0
    for j in range(gains.size):
        if gains[j] > largest:
            top, largest = j, gains[j]
    return top
