"""How heavy the tails of residuals are, for many subsets at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import as_lists
from ..kernels.by_size import residual_powers, subset_slopes
from ..moments.fourths import FourthMoments
from ..moments.least_squares import Fit, least_squares, least_squares_of_root
from ..moments.moments import Moments
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

    def by_rows(own: Integers) -> Fit:
        return least_squares(columns[own].T, columns[-1])

    def one(piece: int) -> None:
        part = slice(bounds[piece], bounds[piece + 1])
        starts, members = as_lists(chosen[part])
        slopes = _slopes(within, np.sqrt(data.n_rows), starts, members, by_rows)
        residual_powers(columns, slopes, starts, members, squares[part], fourths[part])

    for _ in ordered_map(one, range(pieces), pieces):
        pass
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = data.n_rows * fourths / squares**2 - 3.0
    return np.where(squares > 0.0, excess, 0.0)


def kurtosis_from_fourths(
    moments: Moments, fourths: FourthMoments, used: Integers, within: Floats, masks: Mask
) -> Floats:
    """The same from sums of fourth powers; 0 for subsets that hold columns of which these are not known."""
    excess = np.zeros(len(masks))
    names = np.array(moments.columns, dtype=object)
    known = np.isin(names[moments.feature_columns[used]], fourths.columns)
    told = np.flatnonzero(~masks[:, ~known].any(axis=1))
    places = fourths.places((*names[moments.feature_columns[used[known]]], moments.outcome_name))
    if places is None or not len(told):
        return excess
    kept = np.append(np.flatnonzero(known), len(used))
    products, chosen = within[np.ix_(kept, kept)], masks[np.ix_(told, known)]
    # The coordinates of all environments together leave the same residuals as the rows less their means.
    columns = fourths.coordinates[:, :, places].reshape(-1, len(places)).T
    starts, members = as_lists(chosen & (np.diagonal(products)[:-1] > 0.0))

    def by_rows(own: Integers) -> Fit:
        root = columns[np.append(own, len(columns) - 1)].T
        return least_squares_of_root(root, np.zeros(root.shape[1]))

    slopes = _slopes(products, np.sqrt(products[-1, -1]), starts, members, by_rows)
    weights = np.zeros((len(told), len(fourths.columns)))
    weights[:, places] = np.column_stack([-slopes, np.ones(len(told))])
    squares, fourth = fourths.power_sums(weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess[told] = np.where(squares > 0.0, moments.n_rows * fourth / squares**2 - 3.0, 0.0)
    return excess


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


def _slopes(
    within: Floats, length: float, starts: Integers, members: Integers, by_rows: Callable[[Integers], Fit]
) -> Floats:
    """(S, k) least squares slopes of the last of k + 1 columns, of this length in the units of the slopes, on those of
    each subset, 0 for the others: from their products `within` where these can tell, else by the rows."""
    diagonal = np.diagonal(within)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    gram = within * scale[:, None] * scale
    slopes = np.zeros((len(starts) - 1, len(within) - 1))
    subset_slopes(gram, PIVOT_TOLERANCE, starts, members, slopes)
    unknown = np.flatnonzero(np.isnan(slopes).any(axis=1))
    slopes *= scale[:-1] * length
    for s in unknown:
        columns = members[starts[s] : starts[s + 1]]
        slopes[s, columns] = by_rows(columns).coefficients
    return slopes
