"""Least squares fits behind the Gaussian models, from the rows, factors of them (`roots`, from a second pass over the
rows) or second moments alone: coefficients, standard errors, residuals' kurtosis, errors in new environments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.dispatch import residual_powers, subset_slopes
from ..kernels.row_residuals import DEPENDENT, GroupRows, triangular_factor
from ..moments.fourth_moments import FourthMoments
from ..moments.least_squares import (
    least_squares_of_root,
    least_squares_of_units,
    root_of,
    roots_of_groups,
    unit_columns,
    unit_rows,
)
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, Fit, StandardErrors, in_parts

# An eigenvalue of scaled second moments that rounding may have made.
_ROUNDING = 1e-12


def group_weights(counts: Floats) -> Floats:
    """(G,) log Λ = offset + Σ weights · log(residual share); with one environment everything cancels."""
    if len(counts) == 2:
        return np.zeros(2)
    return 0.5 * counts * np.append(np.ones(len(counts) - 1), -1.0)


def inverse_scales(diagonal: Floats, present: Mask) -> Floats:
    """(G, d) 1 / root of the sums of squares (G, d); 0 where a column is not present."""
    return np.where(present, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)


def roots_in(moments: Moments) -> Floats | None:
    """(E, m, d) factors of the rows, where a second pass computed them"""
    return None if moments.second is None else moments.second.roots


def row_groups(data: MultiEnvironmentData) -> list[NDArray[np.intp]]:
    """Rows of each environment and, last, all rows."""
    return [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]


def unit_groups(
    data: MultiEnvironmentData | None, moments: Moments, used: Integers, first: int = 0
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """In every environment, from the `first` on, and the pool: columns `used` (k,) of the features and, last, the
    outcome, centred and scaled to unit length (k + 1, n), their lengths and their means (k + 1,)."""
    if data is not None:
        columns = np.column_stack([data.X[:, used], data.y])
        for rows in row_groups(data)[first:]:
            yield unit_rows(columns[rows])
        return
    roots, chosen = roots_in(moments), np.append(moments.feature_columns[used], moments.outcome)
    means = np.vstack([moments.means, moments.pooled_mean])[:, chosen]
    for g in range(first, len(means)):
        if roots is None:
            root = _root_of_products(moments.scatter[g][np.ix_(chosen, chosen)], moments.present[g, chosen])
        else:
            root = root_of(moments, roots, [g] if g < moments.n_environments else range(g), chosen)
        yield *unit_columns(root), means[g]


def _root_of_products(products: Floats, present: Mask) -> Floats:
    """(k, k) a factor of centred products (k, k), 0 for columns that are not present"""
    norms = np.where(present, np.sqrt(np.diagonal(products)), 0.0)
    scale = inverse_scales(norms**2, present)
    gram = products * scale[:, None] * scale + np.diag(~present)
    try:
        root = np.linalg.cholesky(gram).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.where(values > _ROUNDING, values, 0.0))[:, None] * vectors.T
    return np.asarray(root * norms)


# ---------------------------------------------------------------- coefficients and their standard errors


def linear_fit(data: MultiEnvironmentData | None, moments: Moments, mask: Mask, local: bool = True) -> Fit:
    """The subset (p,) by least squares."""
    chosen, n_local = moments.features.expand(mask), moments.n_environments if local else 0
    groups = unit_groups(data, moments, np.flatnonzero(chosen), moments.n_environments - n_local)
    fits = [least_squares_of_units(*group) for group in groups]
    slopes = np.array([fit.coefficients for fit in fits])
    intercepts = np.array([fit.intercept for fit in fits])
    slopes[:n_local][~moments.varies[:n_local, moments.feature_columns[chosen]]] = np.nan
    names = moments.features.chosen(mask).columns
    return Fit(names, slopes[-1], float(intercepts[-1]), slopes[:n_local], intercepts[:n_local])


def linear_errors(data: MultiEnvironmentData | None, moments: Moments, chosen: Mask) -> StandardErrors:
    """Of the columns (q,) of the features."""
    k, n_groups = int(chosen.sum()), moments.n_environments + 1
    values, freedom = np.full((n_groups, k), np.nan), np.empty(n_groups)
    for g, (unit, norms, _) in enumerate(unit_groups(data, moments, np.flatnonzero(chosen))):
        unscaled, rest = _unscaled_errors(unit, norms, k)
        freedom[g] = moments.group_counts[g] - 1.0 - np.count_nonzero(~np.isnan(unscaled))
        if freedom[g] > 0.0:
            values[g] = unscaled * rest * norms[k] / np.sqrt(freedom[g])
    return StandardErrors(values, freedom)


def weighted_errors(data: MultiEnvironmentData | None, moments: Moments, chosen: Mask, deviations: Floats) -> Floats:
    """(k,) of the columns (q,) of one fit to all rows, whose noise has a standard deviation (E,) in each environment;
    NaN where a column is constant or given by the others."""
    used, parts = np.flatnonzero(chosen), []
    means = np.insert(moments.gaps[:, moments.feature_columns[used]], 0, 1.0, axis=1)
    for e, (unit, norms, _) in zip(range(moments.n_environments), unit_groups(data, moments, used), strict=False):
        own = np.pad((unit * norms[:, None])[:-1].T, ((0, 0), (1, 0)))
        parts.append(np.vstack([np.sqrt(moments.counts[e]) * means[e], own]) / deviations[e])
    errors, _ = _unscaled_errors(*unit_columns(np.vstack(parts)), len(used) + 1)
    # Variances by maximum likelihood are too small by N to the degrees of freedom left.
    left = moments.n_rows - np.count_nonzero(~np.isnan(errors))
    return np.asarray(errors[1:] * np.sqrt(moments.n_rows / left))


def _unscaled_errors(unit: Floats, norms: Floats, k: int) -> tuple[Floats, float]:
    """(k,) standard errors with noise of variance 1 of the first k unit columns of these lengths, NaN where one depends
    on those before it; and the length that they leave of the last column"""
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    kept = np.flatnonzero(independent[:k])
    errors = np.full(k, np.nan)
    errors[kept] = np.sqrt((np.linalg.inv(triangle[np.ix_(kept, kept)]) ** 2).sum(axis=1)) / norms[kept]
    return errors, float(triangle[-1, -1])


# ---------------------------------------------------------------- rows for kernels

# With fewer rows to a column than this, a triangular factor saves less than it costs.
_WORTHWHILE = 2


def no_rows(moments: Moments) -> GroupRows:
    nowhere = np.zeros(len(moments.group_counts), np.int64)
    empty = np.empty((0, len(moments.columns)))
    return GroupRows(np.empty((0, 0)), nowhere, nowhere, moments.group_counts, empty)


def group_rows(data: MultiEnvironmentData | None, moments: Moments) -> GroupRows:
    """Unit columns in every environment and the pool or, where these have many rows, the triangular factor of them: any
    of its columns leave the same residuals as the rows."""
    parts: list[Floats] = []
    if data is not None:
        for unit, _, _ in unit_groups(data, moments, np.arange(data.X.shape[1])):
            many = unit.shape[1] > _WORTHWHILE * len(unit)
            parts.append(np.asarray(np.linalg.qr(unit.T, mode="r")).T if many else unit)
    else:
        roots = roots_in(moments)
        assert roots is not None
        for root in roots_of_groups(moments, roots, np.arange(len(moments.columns))):
            square = root if len(root) <= root.shape[1] else np.asarray(np.linalg.qr(root, mode="r"))
            parts.append(unit_columns(square)[0])
    d, ends = len(parts[0]), np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int64)
    # Kernels are compiled for each order of the entries in memory: of factors alone `concatenate` would make the other.
    values = np.concatenate(parts, axis=1, out=np.empty((d, ends[-1])))
    return GroupRows(values, ends[:-1], ends[1:], moments.group_counts, np.empty((0, d)))


def always_decidable(moments: Moments, inverse_scale: Floats, tolerance: float) -> bool:
    """Whether second moments can decide every subset: every pivot of every subset is at least the smallest eigenvalue
    of the scaled second moments of all columns."""
    for g, scatter in enumerate(moments.scatter):
        varying = np.flatnonzero(inverse_scale[g])
        if len(varying) >= moments.group_counts[g]:
            return False
        scale = inverse_scale[g, varying]
        gram = scatter[np.ix_(varying, varying)] * scale[:, None] * scale
        gram[np.diag_indices_from(gram)] -= 2.0 * tolerance
        try:
            np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return False
    return True


# ---------------------------------------------------------------- kurtosis of residuals


def kurtosis_from_rows(
    data: MultiEnvironmentData, used: Integers, within: Floats, masks: Mask, n_jobs: int | None = None
) -> Floats:
    """(S,) excess kurtosis of the residuals with common slopes and own intercepts of subsets (S, k) of the columns
    `used` (k,). within (k + 1, k + 1): sum over environments of the centred products of these and the outcome."""
    unit, start = np.sqrt(within[-1, -1] / data.n_rows), 0
    columns = np.empty((len(used) + 1, data.n_rows))
    for e in range(data.n_environments):
        rows = data.rows(e)
        part = columns[:, start : start + len(rows)]
        part[:-1], part[-1] = data.X[np.ix_(rows, used)].T, data.y[rows] / unit
        part -= part.mean(axis=1, keepdims=True)
        start += len(rows)
    squares, fourths = np.empty((2, len(masks)))

    def one(part: slice) -> None:
        slopes = _common_slopes(within, columns, masks[part])
        residual_powers(columns, slopes, squares[part], fourths[part])

    in_parts(len(masks), n_jobs, one, fewest=64)
    return _excess(data.n_rows, squares, fourths)


def largest_excess_kurtosis(data: MultiEnvironmentData | None, moments: Moments) -> float:
    """At least that of any subset; inf where columns nearly depend on each other, or fourth powers alone are known.

    Residuals are r = Zb, with Z'Z = I, of the columns and the outcome; then r_i² ≤ h_i ‖b‖², h_i = ‖z_i‖², and
    Σ r_i⁴ ≤ ‖b‖² · b'(Σ h_i z_i z_i')b.
    """
    if data is None:
        return 0.0 if moments.second is None or moments.second.fourths is None else np.inf
    columns = np.append(moments.feature_columns, moments.outcome)
    within = moments.scatter[:-1, columns[:, None], columns].sum(axis=0)
    varying = np.flatnonzero(np.diagonal(within) > 0.0)
    scale = 1.0 / np.sqrt(np.diagonal(within)[varying])
    values, vectors = np.linalg.eigh(within[np.ix_(varying, varying)] * scale[:, None] * scale)
    if values[0] < PIVOT_TOLERANCE:
        return np.inf
    whiten, weighted = scale[:, None] * vectors / np.sqrt(values), np.zeros((len(varying), len(varying)))
    for e in range(data.n_environments):
        rows = data.rows(e)
        Z = np.column_stack([data.X[rows], data.y[rows]])[:, varying]
        Z = (Z - Z.mean(axis=0)) @ whiten
        weighted += (Z * np.einsum("nk,nk->n", Z, Z)[:, None]).T @ Z
    return max(0.0, data.n_rows * float(np.linalg.eigvalsh(weighted)[-1]) - 3.0)


def kurtosis_from_fourths(
    moments: Moments, fourths: FourthMoments, used: Integers, within: Floats, masks: Mask
) -> Floats:
    """The same from sums of fourth powers; 0 for subsets with columns of which these are not known."""
    excess = np.zeros(len(masks))
    names = np.array(moments.columns, dtype=object)
    known = np.isin(names[moments.feature_columns[used]], fourths.columns)
    told = np.flatnonzero(~masks[:, ~known].any(axis=1))
    places = fourths.places((*names[moments.feature_columns[used[known]]], moments.outcome_name))
    if places is None or not len(told):
        return excess
    kept = np.append(np.flatnonzero(known), len(used))
    # The coordinates of all environments together leave the same residuals as the rows less their means.
    columns = fourths.coordinates[:, :, places].reshape(-1, len(places)).T
    slopes = _common_slopes(within[np.ix_(kept, kept)], columns, masks[np.ix_(told, known)])
    weights = np.zeros((len(told), len(fourths.columns)))
    weights[:, places] = np.column_stack([-slopes, np.ones(len(told))])
    excess[told] = _excess(moments.n_rows, *fourths.power_sums(weights))
    return excess


def _excess(n_rows: int, squares: Floats, fourths: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squares > 0.0, n_rows * fourths / squares**2 - 3.0, 0.0)


def _common_slopes(within: Floats, columns: Floats, masks: Mask) -> Floats:
    """(S, k) least squares slopes of the last of k + 1 columns (k + 1, n) on those of each subset (S, k), 0 for the
    others: from their products `within`, in any unit of the last, where these can tell"""
    scale = inverse_scales(np.diagonal(within), np.diagonal(within) > 0.0)
    starts, members = as_lists(masks & (scale[:-1] > 0.0))
    slopes = subset_slopes(within * scale[:, None] * scale, PIVOT_TOLERANCE, starts, members)
    unknown = np.flatnonzero(np.isnan(slopes).any(axis=1))
    slopes *= scale[:-1] * np.linalg.norm(columns[-1])
    for s in unknown:
        own = members[starts[s] : starts[s + 1]]
        root = columns[np.append(own, len(columns) - 1)].T
        slopes[s, own] = least_squares_of_root(root, np.zeros(root.shape[1])).coefficients
    return slopes


def equally_many(masks: Mask, wanted: Mask, at_once: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Of the wanted (S,) among subsets (S, q): rows (n,) of such with equally many members (n, k), and these"""
    sizes = np.where(wanted, masks.sum(axis=1), -1)
    for size in np.unique(sizes[wanted]):
        alike = np.flatnonzero(sizes == size)
        for rows in np.array_split(alike, -(-len(alike) // at_once)):
            yield rows, np.nonzero(masks[rows])[1].reshape(len(rows), size)


# ---------------------------------------------------------------- new environments

_AT_ONCE = 512


def random_effects_risk(moments: Moments, masks: Mask, rss: Floats, freedom: Floats) -> Floats:
    """(S,) expected squared error in a new environment, s²_pool + (1 + 1/E) · tr(T₊ M̄), of subsets of columns (S, q):
    T is the covariance between environments of the coefficients of (1, x − x̄) beyond their own errors, M̄ the pooled
    second moment of these.

    rss, freedom (S, G): of the fits. Environments in which some column is constant are left out; inf where fewer than
    two remain, or where columns nearly depend on each other there.
    """
    absent = ~moments.present[:-1, moments.feature_columns]
    telling = (masks.astype(np.int64) @ absent.T.astype(np.int64) == 0) & (freedom[:, :-1] > 0.0)
    possible = (telling.sum(axis=1) >= 2) & (freedom[:, -1] > 0.0) & ~np.isnan(rss).any(axis=1)
    risks = np.full(len(masks), np.inf)
    for pattern in np.unique(telling[possible], axis=0):
        for rows, members in equally_many(masks, possible & (telling == pattern).all(axis=1), _AT_ONCE):
            noise = rss[rows] / freedom[rows]
            risks[rows] = noise[:, -1] + _between(moments, moments.feature_columns[members], pattern, noise[:, :-1])
    return risks


def _between(moments: Moments, columns: NDArray[np.intp], telling: Mask, noise: Floats) -> Floats:
    """(S,) (1 + 1/E) · tr(T₊ M̄) of columns (S, k), from the environments that are telling; noise (S, E): variances"""
    counts, n, k = moments.counts[telling].astype(float), int(telling.sum()), columns.shape[1]
    # Columns are measured in units of their pooled spread, so that products neither overflow nor lose a column.
    unit = np.sqrt(np.diagonal(moments.scatter[-1]) / moments.n_rows)[columns]
    gaps = moments.gaps[telling]
    shifts = gaps[:, columns].swapaxes(0, 1) / unit[:, None]
    pairs = columns[:, :, None], columns[:, None, :]
    units = unit[:, :, None] * unit[:, None, :]
    local = moments.scatter[:-1][telling]
    scatter = local[:, *pairs].swapaxes(0, 1) / units[:, None]
    cross = local[:, columns, moments.outcome].swapaxes(0, 1) / unit[:, None]
    own = np.sqrt(np.einsum("seii->sei", scatter))
    independent = np.linalg.eigvalsh(scatter / (own[:, :, :, None] * own[:, :, None, :])).min(axis=(1, 2), initial=1.0)
    slopes = np.einsum("seij,sej->sei", np.linalg.pinv(scatter, hermitian=True) if k else scatter, cross)
    heights = gaps[:, moments.outcome] - np.einsum("sei,sei->se", shifts, slopes)
    coefficients = np.concatenate([heights[:, :, None], slopes], axis=2)
    apart = coefficients - coefficients.mean(axis=1, keepdims=True)
    scattered = np.einsum("sei,sej->sij", apart, apart) / (n - 1)
    products = np.empty((len(columns), n, k + 1, k + 1))
    products[:, :, 0, 0] = counts
    products[:, :, 0, 1:] = products[:, :, 1:, 0] = counts[:, None] * shifts
    products[:, :, 1:, 1:] = scatter + counts[:, None, None] * shifts[:, :, :, None] * shifts[:, :, None, :]
    inverse = np.linalg.pinv(products, hermitian=True)
    errors = np.einsum("se,seij->sij", noise[:, telling], inverse) / n
    weight = np.zeros((len(columns), k + 1, k + 1))
    weight[:, 0, 0] = 1.0
    weight[:, 1:, 1:] = moments.scatter[-1][pairs] / moments.n_rows / units
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    between = np.linalg.eigvalsh(root.swapaxes(1, 2) @ (scattered - errors) @ root)
    risks = (1.0 + 1.0 / n) * np.maximum(between, 0.0).sum(axis=1)
    return np.where(independent < PIVOT_TOLERANCE, np.inf, risks)
