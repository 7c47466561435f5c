"""Least squares fits behind the Gaussian models, and walks over all subsets.

Residual sums of squares are Schur complements of the centred second moments; if these have too few
digits, they are computed from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, ncfdtr

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.all_subsets import Layout, LogPrior, space_for, sums_for, walk_blocks
from ..kernels.cholesky import score_subsets, subset_slopes
from ..kernels.row_residuals import GroupRows, residual_powers
from ..kernels.subset_tree import Screen, feature_starts, low_features, score_extensions
from ..moments.least_squares import (
    LeastSquares,
    least_squares_of_units,
    unit_columns,
    unit_rows,
)
from ..moments.moments import Moments
from ..moments.random_intercept import whitening_of
from .base import (
    NO_GAIN,
    PIVOT_TOLERANCE,
    Fit,
    NDArray32,
    StandardErrors,
    SubsetWalk,
    Walked,
    in_parts,
    listed_subsets,
    of_interest,
    sums_over_subsets,
)
from .invariance_test import MARGIN, Residuals, Tolerance, smallest_p_value

if TYPE_CHECKING:
    from .gaussian import GaussianFromMoments

# An eigenvalue of scaled second moments that rounding may have made.
_ROUNDING = 1e-12


def group_weights(counts: Floats) -> Floats:
    """Return weights (G,) of log Λ = offset + Σ weights · log(residual share).

    With one environment they cancel.
    """
    if len(counts) == 2:
        return np.zeros(2)
    return 0.5 * counts * np.append(np.ones(len(counts) - 1), -1.0)


def inverse_scales(diagonal: Floats, present: Mask) -> Floats:
    """Return 1 / root of the sums of squares (G, d); 0 if a column is not present."""
    return np.where(present, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)


def row_groups(data: MultiEnvironmentData) -> list[NDArray[np.intp]]:
    """Rows of each environment and, last, all rows."""
    return [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]


def unit_groups(
    data: MultiEnvironmentData | None, moments: Moments, used: Integers, first: int = 0
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield unit columns, lengths and means (k + 1,) of each environment, from the `first` on, and
    the pool.

    Columns `used` (k,) of the features and, last, the outcome are centred and scaled to length 1 (k
    + 1, n).
    """
    if data is not None:
        columns = np.column_stack([data.X[:, used], data.y])
        for g in range(first, data.n_environments + 1):
            yield unit_rows(columns[data.rows(g)] if g < data.n_environments else columns)
        return
    chosen = np.append(moments.feature_columns[used], moments.outcome)
    means = np.vstack([moments.means, moments.pooled_mean])[:, chosen]
    for g in range(first, len(means)):
        products = moments.scatter[g][np.ix_(chosen, chosen)]
        root = _root_of_products(products, moments.present[g, chosen])
        yield *unit_columns(root), means[g]


def _root_of_products(products: Floats, present: Mask) -> Floats:
    """Return a factor (k, k) of centred products (k, k), 0 for columns that are not present."""
    norms = np.where(present, np.sqrt(np.diagonal(products)), 0.0)
    scale = inverse_scales(norms**2, present)
    gram = products * scale[:, None] * scale + np.diag(~present)
    try:
        root = np.linalg.cholesky(gram).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.where(values > _ROUNDING, values, 0.0))[:, None] * vectors.T
    return np.asarray(root * norms)


# ---------------------------------------------------------------- coefficients and their standard
# errors


def group_fits(
    data: MultiEnvironmentData | None, moments: Moments, chosen: Mask, first: int = 0
) -> list[LeastSquares]:
    """Of the columns (q,) of the features, in every environment, from the `first` on, and the
    pool."""
    groups = unit_groups(data, moments, np.flatnonzero(chosen), first)
    return [least_squares_of_units(*group) for group in groups]


def linear_fit(
    data: MultiEnvironmentData | None,
    moments: Moments,
    mask: Mask,
    local: bool = True,
    fits: Sequence[LeastSquares] = (),
) -> Fit:
    """The subset (p,) by least squares; fits : of `group_fits`, where these are known"""
    chosen = moments.features.expand(mask)
    n_local = moments.n_environments if local else 0
    fits = fits or group_fits(data, moments, chosen, moments.n_environments - n_local)
    slopes = np.array([fit.coefficients for fit in fits])
    intercepts = np.array([fit.intercept for fit in fits])
    slopes[:n_local][~moments.varies[:n_local, moments.feature_columns[chosen]]] = np.nan
    names = moments.features.chosen(mask).columns
    return Fit(names, slopes[-1], float(intercepts[-1]), slopes[:n_local], intercepts[:n_local])


def linear_errors(
    data: MultiEnvironmentData | None,
    moments: Moments,
    chosen: Mask,
    common_noise: bool = False,
    fits: Sequence[LeastSquares] = (),
) -> StandardErrors:
    """Return standard errors of the columns (q,) of the features.

    common_noise : of one variance in all environments, from their own fits
    """
    fits = fits or group_fits(data, moments, chosen)
    unscaled = np.array([fit.unscaled_errors for fit in fits])
    squares = np.array([fit.rss for fit in fits])
    freedom = moments.group_counts - 1.0 - np.array([fit.rank for fit in fits])
    if common_noise:
        squares[:] = squares[:-1].sum()
        freedom[:] = freedom[:-1].sum()
    variances = squares / np.where(freedom > 0.0, freedom, np.nan)
    return StandardErrors(unscaled * np.sqrt(variances)[:, None], freedom)


def weighted_errors(
    data: MultiEnvironmentData | None, moments: Moments, chosen: Mask, deviations: Floats
) -> Floats:
    """Return standard errors (k,) of chosen columns (q,) in a fit to all rows.

    deviations (E,) : of the noise; NaN for dependent columns
    """
    used = np.flatnonzero(chosen)
    parts = []
    columns = np.append(moments.feature_columns[used], moments.outcome)
    means = np.insert(moments.gaps[:, columns], 0, 1.0, axis=1)
    for e, (unit, norms, _) in zip(
        range(moments.n_environments), unit_groups(data, moments, used), strict=False
    ):
        own = np.pad((unit * norms[:, None]).T, ((0, 0), (1, 0)))
        parts.append(np.vstack([np.sqrt(moments.counts[e]) * means[e], own]) / deviations[e])
    root, norms = unit_columns(np.vstack(parts))
    errors = least_squares_of_units(root, norms, np.zeros(len(norms))).unscaled_errors
    # Variances by maximum likelihood are too small by N to the degrees of freedom left.
    left = moments.n_rows - np.count_nonzero(~np.isnan(errors))
    return np.asarray(errors[1:] * np.sqrt(moments.n_rows / left))


# ---------------------------------------------------------------- rows for kernels

# With fewer rows to a column than this, a triangular factor saves less than it costs.
_WORTHWHILE = 2


def no_rows(moments: Moments) -> GroupRows:
    nowhere = np.zeros(len(moments.group_counts), np.int64)
    return GroupRows(np.empty((0, 0)), nowhere, nowhere, moments.group_counts)


def group_rows(data: MultiEnvironmentData | None, moments: Moments) -> GroupRows:
    """Unit columns in every environment and the pool or, where rows are many, their triangular
    factor."""
    order = np.argsort(np.append(moments.feature_columns, moments.outcome))
    parts = []
    for unit, _, _ in unit_groups(data, moments, np.arange(len(moments.feature_columns))):
        many = unit.shape[1] > _WORTHWHILE * len(unit)
        parts.append((np.asarray(np.linalg.qr(unit.T, mode="r")).T if many else unit)[order])
    d = len(order)
    ends = np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int64)
    # Kernels are compiled for each order of the entries in memory: of factors alone `concatenate`
    # would make the other.
    values = np.concatenate(parts, axis=1, out=np.empty((d, ends[-1])))
    return GroupRows(values, ends[:-1], ends[1:], moments.group_counts)


def smallest_pivot(moments: Moments, inverse_scale: Floats) -> float:
    """No pivot of any subset is below it: the smallest eigenvalue of all scaled columns of a group;
    0 where columns are as many as rows"""
    if ((inverse_scale > 0.0).sum(axis=1) >= moments.group_counts).any():
        return 0.0
    grams = moments.scatter * inverse_scale[:, :, None] * inverse_scale[:, None, :]
    # Columns that do not vary are no part of it.
    grams += np.where(inverse_scale > 0.0, 0.0, 1.0)[:, :, None] * np.eye(grams.shape[1])
    return float(np.linalg.eigvalsh(grams)[:, 0].min())


# ---------------------------------------------------------------- kurtosis of residuals


def _products_within(moments: Moments, used: Integers) -> Floats:
    """Return the sum (k + 1, k + 1) over environments of the centred products of columns and
    outcome.

    Columns are `used` (k,) and, last, the outcome.
    """
    columns = np.append(moments.feature_columns[used], moments.outcome)
    return np.asarray(moments.scatter[:-1, columns[:, None], columns].sum(axis=0))


def row_weights(moments: Moments, rows: MultiEnvironmentData) -> Floats:
    """Return how many rows of its environment each of these rows stands for, (E,); 1 if they are
    all."""
    return np.asarray(moments.counts / rows.counts)


def kurtosis_from_rows(
    data: MultiEnvironmentData, moments: Moments, masks: Mask, n_jobs: int | None = None
) -> Floats:
    """Return the excess kurtosis (S,) of residuals with common slopes and own intercepts.

    It is for subsets of columns (S, q), from the rows or a sample of them.
    """
    used = np.flatnonzero(masks.any(axis=0))
    start = 0
    within = _products_within(moments, used)
    unit = np.sqrt(within[-1, -1] / moments.n_rows)
    length = moments.n_rows**0.5
    weights = np.repeat(row_weights(moments, data), data.counts)
    columns = np.empty((len(used) + 1, data.n_rows))
    for e in range(data.n_environments):
        rows = data.rows(e)
        part = columns[:, start : start + len(rows)]
        part[:-1], part[-1] = data.X[np.ix_(rows, used)].T, data.y[rows]
        part -= part.mean(axis=1, keepdims=True)
        # Once more: the mean of values far from 0 is rounded to as many digits as these have.
        part -= part.mean(axis=1, keepdims=True)
        part[-1] /= unit
        start += len(rows)
    squares, fourths = np.empty((2, len(masks)))

    def one(part: slice) -> None:
        slopes = _common_slopes(within, columns, length, masks[part][:, used])
        residual_powers(columns, slopes, weights, squares[part], fourths[part])

    in_parts(len(masks), n_jobs, one, fewest=64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squares > 0.0, moments.n_rows * fourths / squares**2 - 3.0, 0.0)


def _common_slopes(within: Floats, columns: Floats, length: float, masks: Mask) -> Floats:
    """Return slopes (S, k) of the last of columns (k + 1, n) on those of subsets (S, k).

    The last column has this length over all rows. They are from products if these are precise.
    """
    scale = inverse_scales(np.diagonal(within), np.diagonal(within) > 0.0)
    starts, members = as_lists(masks & (scale[:-1] > 0.0))
    slopes = subset_slopes(within * scale[:, None] * scale, PIVOT_TOLERANCE, starts, members)
    unknown = np.flatnonzero(np.isnan(slopes).any(axis=1))
    slopes *= scale[:-1] * length
    for s in unknown:
        own = members[starts[s] : starts[s + 1]]
        root = columns[np.append(own, len(columns) - 1)].T
        slopes[s, own] = least_squares_of_units(
            *unit_columns(root), np.zeros(root.shape[1])
        ).coefficients
    return slopes


def equally_many(
    masks: Mask, wanted: Mask, at_once: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield rows (n,) of the wanted (S,) subsets (S, q) with equally many members, and these (n,
    k)."""
    sizes = np.where(wanted, masks.sum(axis=1), -1)
    for size in np.unique(sizes[wanted]):
        alike = np.flatnonzero(sizes == size)
        for rows in np.array_split(alike, -(-len(alike) // at_once)):
            yield rows, np.nonzero(masks[rows])[1].reshape(len(rows), size)


# ---------------------------------------------------------------- new environments

_AT_ONCE = 512


def random_effects_risk(moments: Moments, masks: Mask, rss: Floats, freedom: Floats) -> Floats:
    """Return the expected squared error (S,) in a new environment of subsets of columns (S, q).

    It is s²_pool + (1 + 1/E) · tr(T₊ M̄): T is the covariance between environments of the
    coefficients of (1, x − x̄) beyond their own errors, M̄ the pooled second moment of these.

    rss, freedom (S, G) : of the fits. A column that varies in at most one environment does not have
    slopes to compare: its coefficient is that of the environments' heights on its means, and T is
    the residual of this regression. Environments in which another column is constant are excluded;
    inf if fewer than two remain, or fewer than three more than there are such means, or if columns
    are nearly dependent there.
    """
    varying = moments.present[:-1, moments.feature_columns]
    sloped = varying.sum(axis=0) >= 2
    absent = (sloped & ~varying).T.astype(np.int64)
    telling = (masks.astype(np.int64) @ absent == 0) & (freedom[:, :-1] > 0.0)
    possible = (telling.sum(axis=1) >= 2) & (freedom[:, -1] > 0.0) & ~np.isnan(rss).any(axis=1)
    risks = np.full(len(masks), np.inf)
    kinds = np.hstack([telling, masks & ~sloped])
    for kind in np.unique(kinds[possible], axis=0):
        pattern = kind[: telling.shape[1]]
        steady = moments.feature_columns[kind[telling.shape[1] :]]
        for rows, members in equally_many(
            masks & sloped, possible & (kinds == kind).all(axis=1), _AT_ONCE
        ):
            noise = rss[rows] / freedom[rows]
            columns = moments.feature_columns[members]
            risks[rows] = noise[:, -1] + _between(moments, columns, steady, pattern, noise[:, :-1])
    return risks


def _between(
    moments: Moments,
    columns: NDArray[np.intp],
    steady: NDArray[np.intp],
    telling: Mask,
    noise: Floats,
) -> Floats:
    """Return (1 + 1/E) · tr(T₊ M̄) (S,) of columns (S, k) and `steady` ones (m,), which have means
    alone.

    It is from the environments that are informative; noise (S, E) : variances
    """
    counts = moments.counts[telling].astype(float)
    n = int(telling.sum())
    k = columns.shape[1]
    # Columns are measured in units of their pooled spread, so that products neither overflow nor
    # lose a column.
    unit = np.sqrt(np.diagonal(moments.scatter[-1]) / moments.n_rows)[columns]
    gaps = moments.gaps[telling]
    shifts = gaps[:, columns].swapaxes(0, 1) / unit[:, None]
    pairs = columns[:, :, None], columns[:, None, :]
    units = unit[:, :, None] * unit[:, None, :]
    local = moments.scatter[:-1][telling]
    scatter = local[:, *pairs].swapaxes(0, 1) / units[:, None]
    cross = local[:, columns, moments.outcome].swapaxes(0, 1) / unit[:, None]
    own = np.sqrt(np.einsum("seii->sei", scatter))
    values, vectors = np.linalg.eigh(scatter / (own[:, :, :, None] * own[:, :, None, :]))
    independent = values.min(axis=(1, 2), initial=1.0)
    vectors /= own[:, :, :, None]
    inverse = (vectors / np.maximum(values, PIVOT_TOLERANCE)[:, :, None]) @ vectors.swapaxes(2, 3)
    slopes = np.einsum("seij,sej->sei", inverse, cross)
    heights = gaps[:, moments.outcome] - np.einsum("sei,sei->se", shifts, slopes)
    coefficients = np.concatenate([heights[:, :, None], slopes], axis=2)
    apart = coefficients - coefficients.mean(axis=1, keepdims=True)
    means = gaps[:, steady] - gaps[:, steady].mean(axis=0)
    basis = means @ whitening_of(means.T @ means)
    rank = basis.shape[1]
    wider = 1.0 + 1.0 / n
    if rank:
        if n < rank + 3:
            return np.full(len(columns), np.inf)
        apart[:, :, 0] -= apart[:, :, 0] @ basis @ basis.T
        apart[:, :, 0] *= np.sqrt((n - 1) / (n - 1 - rank))
        # What estimating the coefficients of normal means adds to the error at new ones (Hocking's
        # S_p).
        wider *= (n - 2) / (n - 2 - rank)
    scattered = np.einsum("sei,sej->sij", apart, apart) / (n - 1)
    # Of the inverse of the products of (1, x − x̄), by blocks
    apiece = noise[:, telling] / n
    sent = np.einsum("seij,sej->sei", inverse, shifts)
    errors = np.empty((len(columns), k + 1, k + 1))
    errors[:, 0, 0] = (apiece * (1.0 / counts + np.einsum("sei,sei->se", shifts, sent))).sum(axis=1)
    errors[:, 0, 1:] = errors[:, 1:, 0] = -np.einsum("se,sei->si", apiece, sent)
    errors[:, 1:, 1:] = np.einsum("se,seij->sij", apiece, inverse)
    weight = np.zeros((len(columns), k + 1, k + 1))
    weight[:, 0, 0] = 1.0
    weight[:, 1:, 1:] = moments.scatter[-1][pairs] / moments.n_rows / units
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    between = np.linalg.eigvalsh(root.swapaxes(1, 2) @ (scattered - errors) @ root)
    risks = wider * np.maximum(between, 0.0).sum(axis=1)
    return np.where(independent < PIVOT_TOLERANCE, np.inf, risks)


def separate_gains(moments: Moments, mask: Mask) -> Floats:
    """Return the deviance (p,) that each feature of one subset (p,) explains beyond the others.

    There is a baseline in each environment; NaN outside the subset, 0 if columns are nearly
    dependent. It is freedom · log(RSS without the feature / RSS), which is calibrated also for few
    environments. A column that varies in at most one environment explains differences between
    baselines, one observation an environment.
    """
    chosen = moments.features.expand(mask)
    owners = np.repeat(np.arange(len(mask)), moments.features.widths)
    sloped = moments.present[:-1, moments.feature_columns].sum(axis=0) >= 2
    inside, between = (moments.feature_columns[chosen & part] for part in (sloped, ~sloped))
    outcome = moments.outcome
    E = moments.n_environments
    used = np.append(inside, outcome)
    products = moments.scatter[:-1][:, used[:, None], used].sum(axis=0)
    gains, slopes = _explained_alone(
        products, moments.n_rows - E, owners[chosen & sloped], len(mask)
    )
    baselines = moments.gaps[:, outcome] - moments.gaps[:, inside] @ slopes
    means = np.column_stack([moments.gaps[:, between], baselines])
    means = means - means.mean(axis=0)
    gains += _explained_alone(means.T @ means, E - 1, owners[chosen & ~sloped], len(mask))[0]
    return np.where(mask, gains, np.nan)


def _explained_alone(
    products: Floats, freedom: int, owners: Integers, n_features: int
) -> tuple[Floats, Floats]:
    """Return the deviance (n_features,) of each owner's columns beyond the others, and the slopes
    (k,).

    They are from products (k + 1, k + 1) of columns with owners (k,) and, last, the outcome;
    freedom : without columns
    """
    gains = np.zeros(n_features)
    members = np.unique(owners)
    # Columns of one feature may depend on each other, such as levels that do not occur together.
    parts = [np.flatnonzero(owners == j) for j in members]
    whitening = [whitening_of(products[np.ix_(part, part)]) for part in parts]
    basis = np.zeros((len(owners), sum(part.shape[1] for part in whitening)))
    ends = np.cumsum([part.shape[1] for part in whitening], dtype=np.intp)
    for rows, part, end in zip(parts, whitening, ends, strict=True):
        basis[rows, end - part.shape[1] : end] = part
    values, vectors = np.linalg.eigh(basis.T @ products[:-1, :-1] @ basis)
    freedom -= basis.shape[1]
    if freedom < 1 or values.min(initial=1.0) < PIVOT_TOLERANCE:
        return gains, np.zeros(len(owners))
    inverse = (vectors / values) @ vectors.T
    cross = basis.T @ products[:-1, -1]
    slopes = inverse @ cross
    rss = max(products[-1, -1] - slopes @ cross, _ROUNDING * products[-1, -1])
    for j, part, end in zip(members, whitening, ends, strict=True):
        own = slice(end - part.shape[1], end)
        explained = slopes[own] @ np.linalg.solve(inverse[own, own], slopes[own])
        gains[j] = freedom * np.log1p(explained / rss) if rss > 0.0 else 0.0
    return gains, basis @ slopes


# ---------------------------------------------------------------- all subsets in compiled code

_MOST_SUBSETS = 1 << 16


class GaussianWalk(SubsetWalk):
    """Walk over subsets by second moments, and by the rows if those cannot decide.

    starts (f+1,) : free feature j has the columns starts[j]:starts[j+1] of the columns of all free
    features
    """

    model: GaussianFromMoments

    def __init__(
        self,
        model: GaussianFromMoments,
        free: Integers,
        forced: Integers,
        tolerance: Tolerance | None = None,
    ) -> None:
        super().__init__(model, free, forced, tolerance)
        self.scoring = model.scoring_by_moments()
        widths = model.features.widths[free]
        self._forced, self._free = model.columns_of(forced), model.columns_of(free)
        self.starts, self.n_low = feature_starts(widths), low_features(widths)
        self._rows = model.scoring_by_rows().rows
        self._limits = Limits.of(model, tolerance) if tolerance is not None else Limits.none(model)

    def dense(self, high: Integers, sizes: Mask, least: Floats | None = None) -> Walked:
        n = 1 << self.n_low
        flat = np.zeros((self.n_features - self.n_low + 1, n))
        walk = self.compiled(np.zeros(self.n_features), flat, 0.0, sizes)
        block = int((1 << (np.asarray(high, np.int64) - self.n_low)).sum())
        space = space_for(n)
        sums = sums_for(self.n_features, 0, 0, n, np.empty(1 << (self.n_features - self.n_low)))
        asked = NO_GAIN if least is None else least
        walk(block, block + 1, asked, np.array([np.inf]), np.empty(0), space, sums)
        return Walked(space.log_ratio, NO_GAIN if least is None else space.gain)

    def compiled(
        self, log_odds: Floats, low_log_prior: Floats, constant: float, counted: Mask
    ) -> Callable[..., int]:
        """`walk_blocks` of these subsets; log_odds (f,), low_log_prior (f - n_low + 1, 2**n_low)
        and constant make log p(z); counted (f + 1,): the sizes inside the prior's support"""
        limits = self._limits
        free = self.free
        low = self.n_low
        ranks, missing = (np.append(each[free], each[self.forced].sum()) for each in limits.ranks)
        layout = Layout(
            self._forced,
            self._free,
            self.starts,
            self.starts[: low + 1],
            sums_over_subsets(np.ones(low, np.int64)),
            counted,
            sums_over_subsets(ranks[:low]),
            sums_over_subsets(missing[:low]),
            ranks,
            missing,
        )
        scoring = self.scoring._replace(rows=self._rows)
        return partial(
            walk_blocks, scoring, limits.screen, layout, LogPrior(log_odds, low_log_prior, constant)
        )

    def listed(
        self,
        prefix: Integers,
        max_size: int,
        sizes: Mask,
        members: NDArray32,
        least: Floats | None = None,
    ) -> Walked:
        log_ratio = np.empty(len(members))
        first = int(prefix[-1]) + 1 if len(prefix) else 0
        later = self.starts[first:] - self.starts[first]
        block = self._with_forced(prefix), later, self._free[self.starts[first] :]
        score_extensions(self.scoring, *block, prefix, first, max_size, members, log_ratio)
        unknown = np.flatnonzero(np.isnan(log_ratio))
        unknown = unknown[sizes[(members[unknown] >= 0).sum(axis=1)]]
        if len(unknown) and self.model.has_rows:
            draws = np.repeat(
                listed_subsets(members[unknown], self.n_features), np.diff(self.starts), axis=1
            )
            starts, chosen = as_lists(
                np.pad(draws, ((0, 0), (len(self._forced), 0)), constant_values=True)
            )
            decided = np.empty(len(unknown))
            columns = np.concatenate([self._forced, self._free])[chosen]
            score_subsets(self.model.scoring_by_rows(), np.nan, starts, columns, decided)
            log_ratio[unknown] = decided
        if least is None:
            return Walked(log_ratio, NO_GAIN)
        gain = np.full(len(members), np.nan)
        wanted = np.flatnonzero(~np.isnan(log_ratio) & sizes[(members >= 0).sum(axis=1)])
        for start in range(0, len(wanted), _MOST_SUBSETS):
            part = wanted[start : start + _MOST_SUBSETS]
            gain[part] = self._one_by_one(listed_subsets(members[part], self.n_features), least)
        return Walked(log_ratio, gain)

    def _one_by_one(self, draws: Mask, least: Floats) -> Floats:
        """Return gains (S,) of draws (S, f), from the rows if second moments are not precise."""
        masks = self.of_all_features(draws)
        residuals = self.model.residuals(masks)
        with np.errstate(invalid="ignore"):
            gain = 0.5 * residuals.counts[-1] * np.log(residuals.total / residuals.rss[:, -1])
        gain[~self._limits.allow(residuals)] = np.nan
        return of_interest(gain, masks @ self.model.free_columns, least)

    def _with_forced(self, features: Integers) -> Integers:
        """Columns that are always in, and those of free features"""
        parts = [self._forced, *(self._free[self.starts[j] : self.starts[j + 1]] for j in features)]
        return np.sort(np.concatenate(parts))


# Steps in which a screen knows what is tolerated.
_STEPS = 3


def mean_limits(
    moments: Moments, tolerance: Tolerance, most: float, extra_intercepts: int = 0
) -> Floats:
    """Return the largest F statistic (r, m, j) of a compatible subset.

    It is by pooled rank r, missing ranks m = Σ_e (r − rank_e) and tolerated noncentrality, the j-th
    of those with equal steps of their roots from 0 to `most`; inf if no subset has such ranks, as
    in the last m. The F statistic has as many degrees of freedom as without extra intercepts, which
    kernels do not use.
    """
    environments = moments.n_environments
    widths = moments.varying_widths
    fewer = (widths[-1] - widths[:-1]).sum(axis=0)
    reached = np.zeros((widths[-1].sum() + 1, fewer.sum() + 2), dtype=bool)
    reached[0, 0] = True
    for width, less in zip(widths[-1], fewer, strict=True):
        pooled, missing = np.nonzero(reached)
        reached[pooled + width, missing + less] = True
    pooled, missing = np.nonzero(reached)
    left = moments.n_rows - environments * (1.0 + pooled) + missing
    between = moments.n_rows - 1.0 - pooled - left - extra_intercepts
    tested = (between > 0.0) & (left > 0.0)
    allowed = most * (np.arange(_STEPS + 1 if most > 0.0 else 1) / _STEPS) ** 2
    between = between[tested, None]
    left = left[tested, None]
    smallest = smallest_p_value(tolerance)
    # Patnaik's central law has a slightly longer tail; where it has not, it gives no limit.
    degrees = (between + allowed) ** 2 / (between + 2.0 * allowed)
    found = (1.0 + allowed / between) * fdtri(degrees, left, 1.0 - smallest)
    found[~(1.0 - ncfdtr(between, left, allowed, found) <= 1.001 * smallest)] = np.inf
    limits = np.full((*reached.shape, len(allowed)), np.inf)
    limits[pooled[tested], missing[tested]] = (
        MARGIN * found * between / (between + extra_intercepts)
    )
    return limits


def most_tolerated(model: GaussianFromMoments, tolerance: Tolerance) -> float:
    """The largest noncentrality that is tolerated of any subset: that of all features."""
    everything = np.ones((1, model.n_features), dtype=bool)
    signal = model.residuals(everything).signal
    return (
        float(tolerance.noncentrality(np.nan_to_num(signal, nan=np.inf), model.n_rows)[0])
        if tolerance.rho
        else 0.0
    )


class Limits(NamedTuple):
    """Hold limits of the F statistics of compatible subsets.

    ranks (2, p) : columns that a feature adds to the pooled fit, and how many fewer than E times
    that to the fits of the environments
    """

    screen: Screen
    ranks: Integers

    @classmethod
    def of(cls, model: GaussianFromMoments, tolerance: Tolerance) -> Limits:
        moments = model.moments
        widths = model.moments.varying_widths
        most = most_tolerated(model, tolerance)
        squares = np.ascontiguousarray(moments.scatter[:, moments.outcome, moments.outcome])
        limits = mean_limits(moments, tolerance, most, model.extra_intercepts)
        screen = Screen(squares, moments.group_counts, limits, tolerance.rho**2, most)
        return cls(
            screen,
            np.array([widths[-1], moments.n_environments * widths[-1] - widths[:-1].sum(axis=0)]),
        )

    @classmethod
    def none(cls, model: GaussianFromMoments) -> Limits:
        """Return limits that do not screen any subset."""
        groups = len(model.moments.group_counts)
        screen = Screen(np.zeros(groups), model.moments.group_counts, np.zeros((0, 0, 0)), 0.0, 0.0)
        return cls(screen, np.zeros((2, model.n_features), np.int64))

    def allow(self, residuals: Residuals) -> Mask:
        """Return whether the statistics are within the limits, (S,)."""
        ranks = residuals.ranks
        limits = self.screen.limits
        most = self.screen.most
        statistics, between, _ = residuals.f_test()
        statistics *= between / np.maximum(between + residuals.extra_intercepts, 1.0)
        missing = np.minimum((ranks[:, -1:] - ranks[:, :-1]).sum(axis=1), limits.shape[1] - 1)
        tolerated = np.clip(np.nan_to_num(self.screen.per_signal * residuals.signal), 0.0, most)
        step = (
            np.ceil((limits.shape[2] - 1) * np.sqrt(tolerated / most)).astype(np.intp)
            if most
            else 0
        )
        equal = statistics <= limits[ranks[:, -1], missing, step]
        return np.asarray(equal & ~np.isnan(residuals.rss).any(axis=1))
