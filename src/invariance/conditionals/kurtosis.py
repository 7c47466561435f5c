"""How heavy the tails of residuals are, for many subsets at once."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import as_lists
from ..kernels.by_size import residual_powers, subset_slopes
from ..moments.least_squares import least_squares
from .pivots import PIVOT_TOLERANCE

_FEWEST_PER_THREAD = 64


def excess_kurtosis(
    data: MultiEnvironmentData, used: Integers, within: Floats, masks: Mask, n_jobs: int | None = None
) -> Floats:
    """(S,) of the residuals with common slopes and own intercepts of subsets (S, k) of the columns `used` (k,).

    within (k+1, k+1): sum over environments of the centred products of these and, last, the outcome.
    """
    columns = _centred(data, used, np.sqrt(within[-1, -1] / data.n_rows))
    chosen = masks & (np.diagonal(within)[:-1] > 0.0)
    squares, fourths = np.empty((2, len(masks)))
    pieces = min(n_workers(n_jobs), max(1, len(masks) // _FEWEST_PER_THREAD))
    bounds = np.linspace(0, len(masks), pieces + 1).astype(int)

    def one(piece: int) -> None:
        part = slice(bounds[piece], bounds[piece + 1])
        starts, members = as_lists(chosen[part])
        slopes = _common_slopes(within, columns, starts, members)
        residual_powers(columns, slopes, starts, members, squares[part], fourths[part])

    for _ in ordered_map(one, range(pieces), pieces):
        pass
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = data.n_rows * fourths / squares**2 - 3.0
    return np.where(squares > 0.0, excess, 0.0)


def _centred(data: MultiEnvironmentData, used: Integers, unit: float) -> Floats:
    """(k+1, N) the columns and, last, the outcome in this unit, less their means in each environment"""
    centred = np.empty((len(used) + 1, data.n_rows))
    start = 0
    for e in range(data.n_environments):
        rows = data.rows(e)
        part = centred[:, start : start + len(rows)]
        part[:-1], part[-1] = data.X[np.ix_(rows, used)].T, data.y[rows] / unit
        part -= part.mean(axis=1, keepdims=True)
        start += len(rows)
    return centred


def _common_slopes(within: Floats, rows: Floats, starts: Integers, members: Integers) -> Floats:
    """(S, k) least squares slopes of the last of the rows (k+1, N) on those of each subset, 0 for the others; from
    their products `within`, up to units, where these can tell."""
    diagonal = np.diagonal(within)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    gram = within * scale[:, None] * scale
    slopes = np.zeros((len(starts) - 1, len(within) - 1))
    subset_slopes(gram, PIVOT_TOLERANCE, starts, members, slopes)
    unknown = np.flatnonzero(np.isnan(slopes).any(axis=1))
    slopes *= scale[:-1] * np.sqrt(rows.shape[1])
    for s in unknown:
        columns = members[starts[s] : starts[s + 1]]
        slopes[s, columns] = least_squares(rows[columns].T, rows[-1]).coefficients
    return slopes
