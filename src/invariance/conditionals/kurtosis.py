"""How heavy the tails of residuals are, for many subsets at once."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import as_lists
from ..kernels.subset_cholesky import subset_slopes

# Residuals that are held at once: few enough to stay in the cache.
_MOST_VALUES = 1 << 17
_SINGULAR = 1e-9


def excess_kurtosis(data: MultiEnvironmentData, within: Floats, masks: Mask) -> Floats:
    """(S,) of the residuals with common slopes and own intercepts of subsets, given by their columns (S, q).

    within (q+1, q+1): sum over environments of the centred products of the columns and, last, the outcome.
    """
    slopes = _common_slopes(within, masks)
    squares, fourths = np.zeros((2, len(masks)))
    used = np.flatnonzero(masks.any(axis=0))
    for e in range(data.n_environments):
        rows = data.rows(e)
        X, y = data.X[np.ix_(rows, used)], data.y[rows]
        X, y = X - X.mean(axis=0), y - y.mean()
        step = max(1, _MOST_VALUES // len(rows))
        for start in range(0, len(masks), step):
            part = slice(start, start + step)
            residuals = y[:, None] - X @ slopes[part, used].T
            residuals -= residuals.mean(axis=0)
            residuals *= residuals
            squares[part] += residuals.sum(axis=0)
            fourths[part] += np.einsum("ns,ns->s", residuals, residuals)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = data.n_rows * fourths / squares**2 - 3.0
    return np.where(squares > 0.0, excess, 0.0)


def _common_slopes(within: Floats, masks: Mask) -> Floats:
    """(S, q) least squares slopes; 0 for columns outside the subset or constant inside every environment."""
    diagonal = np.diagonal(within)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    gram = within * scale[:, None] * scale
    chosen, slopes = masks & (scale[:-1] > 0.0), np.zeros(masks.shape)
    subset_slopes(gram, _SINGULAR, *as_lists(chosen), slopes)
    for s in np.flatnonzero(np.isnan(slopes).any(axis=1)):
        columns = np.flatnonzero(chosen[s])
        slopes[s, columns] = np.linalg.lstsq(gram[np.ix_(columns, columns)], gram[columns, -1], rcond=1e-12)[0]
    return slopes * scale[:-1] * np.sqrt(diagonal[-1])
