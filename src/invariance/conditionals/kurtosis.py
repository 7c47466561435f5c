"""How heavy the tails of residuals are, for many subsets at once."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import as_lists
from ..kernels.residual_powers import residual_powers
from ..kernels.subset_cholesky import subset_slopes

_SINGULAR = 1e-9
_FEWEST_PER_THREAD = 64


def excess_kurtosis(data: MultiEnvironmentData, within: Floats, masks: Mask, n_jobs: int | None = None) -> Floats:
    """(S,) of the residuals with common slopes and own intercepts of subsets, given by their columns (S, q).

    within (q+1, q+1): sum over environments of the centred products of the columns and, last, the outcome.
    """
    used = np.flatnonzero(masks.any(axis=0))
    kept = np.append(used, masks.shape[1])
    columns, gram = _centred(data, used), within[np.ix_(kept, kept)]
    chosen = masks[:, used] & (np.diagonal(gram)[:-1] > 0.0)
    squares, fourths = np.empty((2, len(masks)))
    pieces = min(n_workers(n_jobs), max(1, len(masks) // _FEWEST_PER_THREAD))
    bounds = np.linspace(0, len(masks), pieces + 1).astype(int)

    def one(piece: int) -> None:
        part = slice(bounds[piece], bounds[piece + 1])
        starts, members = as_lists(chosen[part])
        slopes = _common_slopes(gram, starts, members)
        residual_powers(columns, slopes, starts, members, squares[part], fourths[part])

    for _ in ordered_map(one, range(pieces), pieces):
        pass
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = data.n_rows * fourths / squares**2 - 3.0
    return np.where(squares > 0.0, excess, 0.0)


def _centred(data: MultiEnvironmentData, used: Integers) -> Floats:
    """(k+1, N) the columns and, last, the outcome, less their means in each environment"""
    centred = np.empty((len(used) + 1, data.n_rows))
    start = 0
    for e in range(data.n_environments):
        rows = data.rows(e)
        part = centred[:, start : start + len(rows)]
        part[:-1], part[-1] = data.X[np.ix_(rows, used)].T, data.y[rows]
        part -= part.mean(axis=1, keepdims=True)
        start += len(rows)
    return centred


def _common_slopes(within: Floats, starts: Integers, members: Integers) -> Floats:
    """(S, k) least squares slopes of the last column of `within` on the columns of each subset; 0 for the others."""
    diagonal = np.diagonal(within)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    gram = within * scale[:, None] * scale
    slopes = np.zeros((len(starts) - 1, len(within) - 1))
    subset_slopes(gram, _SINGULAR, starts, members, slopes)
    for s in np.flatnonzero(np.isnan(slopes).any(axis=1)):
        columns = members[starts[s] : starts[s + 1]]
        slopes[s, columns] = np.linalg.lstsq(gram[np.ix_(columns, columns)], gram[columns, -1], rcond=1e-12)[0]
    return slopes * scale[:-1] * np.sqrt(diagonal[-1])
