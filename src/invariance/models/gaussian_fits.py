"""Least squares fits behind the Gaussian models: coefficients, standard errors, residuals' kurtosis, errors in left-out
environments, and why a subset cannot be fitted.

Each has three sources: the rows, factors of them (`roots`, from a second pass over the rows), or second moments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import quoted
from ..data.features import as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.dispatch import residual_powers, subset_slopes, triangular_factor
from ..kernels.row_residuals import DEPENDENT, GroupRows
from ..moments.fourth_moments import FourthMoments
from ..moments.least_squares import (
    Fit as LeastSquares,
)
from ..moments.least_squares import (
    distance,
    gaps_between,
    least_squares,
    least_squares_of_root,
    least_squares_of_units,
    root_of,
    roots_of_groups,
    unit_columns,
    unit_rows,
)
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, Fit, StandardErrors, chosen_names, in_parts


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
    assert roots is not None
    means = np.vstack([moments.means, moments.pooled_mean])[:, chosen]
    for root, mean in zip(roots_of_groups(moments, roots, chosen)[first:], means[first:], strict=True):
        yield *unit_columns(root), mean


# ---------------------------------------------------------------- coefficients


def linear_fit(data: MultiEnvironmentData | None, moments: Moments, mask: Mask, local: bool = True) -> Fit:
    """The subset (p,) by least squares, from the best source there is."""
    chosen = moments.features.expand(mask)
    columns = moments.feature_columns[chosen]
    if data is not None or roots_in(moments) is not None:
        groups = unit_groups(data, moments, np.flatnonzero(chosen), 0 if local else moments.n_environments)
        fits = [least_squares_of_units(*group) for group in groups]
        slopes = np.array([fit.coefficients for fit in fits])
        intercepts = np.array([fit.intercept for fit in fits])
    else:
        means = np.vstack([moments.means, moments.pooled_mean])
        slopes = np.array([_slopes_from_moments(moments, g, columns) for g in range(len(means))])
        intercepts = means[:, moments.outcome] - np.einsum("gk,gk->g", means[:, columns], slopes)
    n_local = moments.n_environments if local else 0
    slopes[:n_local][~moments.varies[:n_local, columns]] = np.nan
    names = chosen_names(moments.features.columns, chosen)
    return Fit(names, slopes[-1], float(intercepts[-1]), slopes[:n_local], intercepts[:n_local])


def _slopes_from_moments(moments: Moments, g: int, columns: NDArray[np.intp]) -> Floats:
    """(k,) in one group; 0 for columns that are not present there."""
    slopes = np.zeros(len(columns))
    varying = moments.present[g, columns]
    used = columns[varying]
    gram = moments.scatter[g][np.ix_(used, used)]
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    cross = moments.scatter[g][used, moments.outcome] * scale
    slopes[varying] = np.linalg.lstsq(gram * scale[:, None] * scale, cross, rcond=None)[0] * scale
    return slopes


# ---------------------------------------------------------------- standard errors


def linear_errors(data: MultiEnvironmentData | None, moments: Moments, chosen: Mask) -> StandardErrors:
    """Of the columns (q,) of the features."""
    if data is not None or roots_in(moments) is not None:
        units = unit_groups(data, moments, np.flatnonzero(chosen))
        factors = [(*_triangle(unit), norms) for unit, norms, _ in units]
    else:
        members = np.append(moments.feature_columns[chosen], moments.outcome)
        factors = [_factor_of_moments(moments, g, members) for g in range(moments.n_environments + 1)]
    each = zip(factors, moments.group_counts, strict=True)
    values, freedom = zip(*(_group_errors(*factor, int(n)) for factor, n in each), strict=True)
    return StandardErrors(np.array(values), np.array(freedom))


def _triangle(unit: Floats) -> tuple[Floats, Mask]:
    return triangular_factor(unit, np.arange(len(unit)), DEPENDENT)


def _factor_of_moments(moments: Moments, g: int, members: NDArray[np.intp]) -> tuple[Floats, Mask, Floats]:
    present = moments.present[g, members]
    norms = np.where(present, np.sqrt(np.diagonal(moments.scatter[g])[members]), 1.0)
    gram = moments.scatter[g][np.ix_(members, members)] / (norms[:, None] * norms)
    return _cholesky(gram, present), present, norms


def _cholesky(gram: Floats, kept: Mask) -> Floats:
    """Upper factor of the kept columns, 0 for the others"""
    triangle, inside = np.zeros(gram.shape), np.ix_(kept, kept)
    triangle[inside] = np.linalg.cholesky(gram[inside]).T
    return triangle


def _group_errors(triangle: Floats, independent: Mask, norms: Floats, n_rows: int) -> tuple[Floats, float]:
    """From R of the unit columns and, last, the outcome (k + 1, k + 1), which of them are independent, their lengths"""
    k = len(norms) - 1
    kept = np.flatnonzero(independent[:k])
    freedom = n_rows - 1.0 - len(kept)
    values = np.full(k, np.nan)
    if freedom > 0.0 and len(kept):
        inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
        sigma = triangle[k, k] * norms[k] / np.sqrt(freedom)
        values[kept] = sigma * np.sqrt((inverse**2).sum(axis=1)) / norms[kept]
    return values, freedom


def weighted_errors(data: MultiEnvironmentData | None, moments: Moments, chosen: Mask, deviations: Floats) -> Floats:
    """(k,) of the columns (q,) of one fit to all rows, whose noise has a standard deviation (E,) in each environment;
    NaN where a column is constant or given by the others."""
    if data is not None:
        X = data.X[:, chosen]
        design = np.column_stack([np.ones(data.n_rows), X - X.mean(axis=0)])
        weighted = design / deviations[data.environment_index, None]
        norms = np.sqrt(np.einsum("nk,nk->k", weighted, weighted))
        norms[norms == 0.0] = 1.0
        triangle, independent = _triangle(np.ascontiguousarray((weighted / norms).T))
    else:
        used = moments.feature_columns[chosen]
        design = np.insert(moments.gaps[:, used], 0, 1.0, axis=1)
        precision = 1.0 / deviations**2
        gram = np.einsum("e,ei,ej->ij", precision * moments.counts, design, design)
        gram[1:, 1:] += np.einsum("e,eij->ij", precision, moments.scatter[:-1][:, used[:, None], used])
        independent = np.insert(moments.present[-1, used], 0, True)
        norms = np.where(independent, np.sqrt(np.diagonal(gram)), 1.0)
        triangle = _cholesky(gram / (norms[:, None] * norms), independent)
    kept, n_rows = np.flatnonzero(independent), moments.n_rows
    values = np.full(len(norms), np.nan)
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    # Variances by maximum likelihood are too small by N to the degrees of freedom left.
    values[kept] = np.sqrt((inverse**2).sum(axis=1) * n_rows / (n_rows - len(kept))) / norms[kept]
    return values[1:]


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
    chosen = masks & (np.diagonal(within)[:-1] > 0.0)
    squares, fourths = np.empty((2, len(masks)))

    def by_rows(own: Integers) -> LeastSquares:
        return least_squares(columns[own].T, columns[-1])

    def one(part: slice) -> None:
        starts, members = as_lists(chosen[part])
        slopes = _common_slopes(within, np.sqrt(data.n_rows), starts, members, by_rows)
        residual_powers(columns, slopes, starts, members, squares[part], fourths[part])

    in_parts(len(masks), n_jobs, one, fewest=64)
    return _excess(data.n_rows, squares, fourths)


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
    products, chosen = within[np.ix_(kept, kept)], masks[np.ix_(told, known)]
    # The coordinates of all environments together leave the same residuals as the rows less their means.
    columns = fourths.coordinates[:, :, places].reshape(-1, len(places)).T
    starts, members = as_lists(chosen & (np.diagonal(products)[:-1] > 0.0))

    def by_rows(own: Integers) -> LeastSquares:
        root = columns[np.append(own, len(columns) - 1)].T
        return least_squares_of_root(root, np.zeros(root.shape[1]))

    slopes = _common_slopes(products, np.sqrt(products[-1, -1]), starts, members, by_rows)
    weights = np.zeros((len(told), len(fourths.columns)))
    weights[:, places] = np.column_stack([-slopes, np.ones(len(told))])
    excess[told] = _excess(moments.n_rows, *fourths.power_sums(weights))
    return excess


def _excess(n_rows: int, squares: Floats, fourths: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squares > 0.0, n_rows * fourths / squares**2 - 3.0, 0.0)


def _common_slopes(
    within: Floats, length: float, starts: Integers, members: Integers, by_rows: Callable[[Integers], LeastSquares]
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
    keys = np.column_stack([masks.sum(axis=1), telling])
    for key in np.unique(keys[possible], axis=0):
        alike = np.flatnonzero(possible & (keys == key).all(axis=1))
        for rows in np.array_split(alike, -(-len(alike) // _AT_ONCE)):
            members = np.nonzero(masks[rows])[1].reshape(len(rows), int(key[0]))
            columns = moments.feature_columns[members]
            noise = rss[rows] / freedom[rows]
            risks[rows] = noise[:, -1] + _between(moments, columns, key[1:].astype(bool), noise[:, :-1])
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


def left_out_errors(data: MultiEnvironmentData | None, moments: Moments, masks: Mask) -> Floats:
    """(S, E) sums of squared errors in each environment of the fit to the others, of subsets of columns (S, q); NaN
    where columns nearly depend on each other, and only second moments are there."""
    held = masks.any(axis=0)
    others = _OtherEnvironments(moments, np.append(moments.feature_columns[held], moments.outcome))
    errors = np.array([others.errors(np.flatnonzero(mask)) for mask in masks[:, held]]).reshape(len(masks), -1)
    unknown = np.flatnonzero(np.isnan(errors).any(axis=1))
    roots = _factors(data, moments) if len(unknown) else None
    if roots is not None:
        for s in unknown:
            errors[s] = _left_out_from_factors(moments, roots, masks[s])
    return errors


def _factors(data: MultiEnvironmentData | None, moments: Moments) -> Floats | list[Floats] | None:
    """(n, d) factors of the centred products in each environment: the rows less their means, or those of a second
    pass"""
    if data is None:
        return roots_in(moments)
    columns = np.column_stack([data.X, data.y])
    return [columns[data.rows(e)] - moments.centre[e] - moments.rest[e] for e in range(data.n_environments)]


def _left_out_from_factors(moments: Moments, roots: Floats | list[Floats], chosen: Mask) -> Floats:
    used = np.append(moments.feature_columns[chosen], moments.outcome)
    errors, gaps = np.empty(moments.n_environments), _OtherEnvironments(moments, used).gaps
    for e in range(moments.n_environments):
        others = np.delete(np.arange(moments.n_environments), e)
        fit = least_squares_of_root(root_of(moments, roots, others, used), np.zeros(len(used)))
        weights = np.append(-fit.coefficients, 1.0)
        own = root_of(moments, roots, [e], used) @ weights
        errors[e] = own @ own + moments.counts[e] * (gaps[e] @ weights) ** 2
    return errors


class _OtherEnvironments:
    """scatter, others (E, d, d): centred products in each environment, and over all rows of the others; gaps (E, d):
    mean of the environment minus that of the others; the outcome is the last of the d columns."""

    def __init__(self, moments: Moments, columns: NDArray[np.intp]) -> None:
        self.scatter = moments.scatter[:-1, columns[:, None], columns]
        self.counts = counts = moments.counts.astype(float)
        centre, remainder = moments.centre[:, columns], moments.rest[:, columns]
        self.others, self.gaps = np.zeros_like(self.scatter), np.zeros_like(centre)
        for e in range(len(counts)):
            rest = np.arange(len(counts)) != e
            apart = gaps_between(counts[rest], centre[rest], remainder[rest])
            self.others[e] = self.scatter[rest].sum(axis=0) + (apart * counts[rest][:, None]).T @ apart
            first = int(np.argmax(rest))
            self.gaps[e] = distance(centre[e], remainder[e], centre[first], remainder[first]) + apart[0]

    def errors(self, members: NDArray[np.intp]) -> Floats:
        """(E,) of the columns `members`"""
        outcome = self.others.shape[-1] - 1
        slopes = self._slopes(members, outcome)
        cross = self.scatter[:, members, outcome]
        own = np.einsum("ei,eij,ej->e", slopes, self.scatter[:, members[:, None], members], slopes)
        missed = self.gaps[:, outcome] - np.einsum("ei,ei->e", self.gaps[:, members], slopes)
        errors = self.scatter[:, outcome, outcome] - 2.0 * np.einsum("ei,ei->e", cross, slopes) + own
        return np.maximum(errors, 0.0) + self.counts * missed**2

    def _slopes(self, members: NDArray[np.intp], outcome: int) -> Floats:
        """(E, k) of the fit to the others; 0 for a column that is constant there"""
        grams = self.others[:, members[:, None], members]
        diagonal = np.einsum("eii->ei", grams)
        scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
        unit = grams * scale[:, :, None] * scale[:, None, :]
        unit += (scale == 0.0)[:, :, None] * np.eye(len(members))
        right = self.others[:, members, outcome] * scale
        if not len(members):
            return right
        if np.linalg.eigvalsh(unit).min() < PIVOT_TOLERANCE:
            return np.full(right.shape, np.nan)
        return np.asarray(np.linalg.solve(unit, right[:, :, None])[:, :, 0] * scale)


# ---------------------------------------------------------------- outside the support

# Subsets that are examined for causes, the smallest first.
_EXAMPLES = 64
_MOST_SENTENCES = 3
BEYOND_MOMENTS = "more than second moments can resolve"
WITH_ROWS = "pass the data, or read their rows in a second pass"


def smallest_outside(masks: Mask, supported: Callable[[Mask], bool]) -> list[Mask]:
    """Sets of features (p,) that put subsets (S, p) outside the support, and of which no smaller one does."""
    causes: list[Mask] = []
    for mask in masks[np.argsort(masks.sum(axis=1), kind="stable")[:_EXAMPLES]]:
        if any((mask >= cause).all() for cause in causes):
            continue
        smallest = mask.copy()
        for j in np.flatnonzero(mask):
            smallest[j] = False
            smallest[j] = supported(smallest[None])
        causes.append(smallest)
    return causes


def few_rows_reason(moments: Moments, few: Mask, local: str) -> list[str]:
    """A sentence on the smallest of the groups whose rows are too few, (S, G), for some subsets; local: what
    environments fit."""
    if not few.any():
        return []
    counts = moments.group_counts
    g = int(np.argmin(np.where(few.any(axis=0), counts, np.inf)))
    if g == moments.n_environments:
        return [f"{counts[g]:.0f} rows in all are too few to fit more than {max(counts[g] - 2, 0):.0f} columns"]
    return [too_few_in(moments.environments[g], int(counts[g]), int(counts[g]) - 2, local)]


def too_few_in(environment: object, n_rows: int, room: int, what: str) -> str:
    return (
        f"environment {environment!r} has {n_rows} rows, too few to fit more than {max(room, 0)} {what} that vary there"
    )


def undecidable_reasons(moments: Moments, causes: list[tuple[Mask, Integers]], remedy: str) -> list[str]:
    """One sentence for all collinear features, and one for each set that determines the outcome, from sets of features
    (p,) and the groups where they do. remedy: empty where rows decided."""
    collinear = [cause for cause in causes if remedy and any(_collinear(moments, g, cause[0]) for g in cause[1])]
    joint = np.any([features for features, _ in collinear], axis=0)
    reasons = []
    if collinear:
        groups = sorted({int(g) for _, where in collinear for g in where})
        named = quoted(chosen_names(moments.feature_names, joint))
        reasons.append(f"{named} are too collinear {_where(groups, moments)}, {BEYOND_MOMENTS}: {remedy}")
    others = [cause for cause in causes if not any(cause is other for other in collinear)]
    for features, where in others[:_MOST_SENTENCES]:
        names = chosen_names(moments.feature_names, features)
        verb = "determines" if len(names) == 1 else "together determine"
        how, do = (" as far as second moments can tell", remedy) if remedy else ("", "remove it, or one of them")
        reasons.append(f"{quoted(names)} {verb} the outcome exactly {_where(where, moments)}{how}: {do}")
    if len(others) > _MOST_SENTENCES:
        reasons.append(f"likewise for {len(others) - _MOST_SENTENCES} more sets of features")
    return reasons


def _collinear(moments: Moments, g: int, features: Mask) -> bool:
    """Whether second moments cannot tell the columns of features (p,) apart in a group."""
    columns = moments.feature_columns[moments.features.expand(features)]
    columns = columns[moments.present[g, columns]]
    gram = moments.scatter[g][np.ix_(columns, columns)]
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    return bool(np.linalg.eigvalsh(gram * scale[:, None] * scale).min(initial=1.0) < PIVOT_TOLERANCE)


def _where(groups: Iterable[int], moments: Moments) -> str:
    labels = [moments.environments[g] for g in groups if g < moments.n_environments]
    if not labels:
        return "over all rows"
    return f"in environment{'s' if len(labels) > 1 else ''} {quoted(labels)}"
