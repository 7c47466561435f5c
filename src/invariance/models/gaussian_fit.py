"""One subset fitted by least squares, pooled and in each environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.dispatch import triangular_factor
from ..kernels.row_residuals import DEPENDENT, GroupRows
from ..moments.least_squares import least_squares, least_squares_of_root, roots_of_groups, unit_columns, unit_rows
from ..moments.moments import Moments


@dataclass(frozen=True, eq=False)
class LinearFit:
    """columns: k names; coefficients (k,), intercept: pooled; local_coefficients (E, k), local_intercepts (E,).

    A column that adds nothing to those before it has coefficient 0; one that is constant in an environment, NaN there.
    """

    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats

    def mean(self, predictor: Floats) -> Floats:
        return predictor

    def predict(self, X: Floats) -> Floats:
        return self.mean(X @ self.coefficients + self.intercept)


def fit_from_rows(data: MultiEnvironmentData, mask: Mask, local: bool = True) -> LinearFit:
    """The subset (p,) fitted to the rows, those of each environment too if `local`."""
    features = data.features.chosen(mask)
    X = data.X[:, data.features.expand(mask)]
    pooled = least_squares(X, data.y)
    groups = [data.rows(e) for e in range(data.n_environments if local else 0)]
    fits = [least_squares(X[rows], data.y[rows]) for rows in groups]
    slopes = np.array([fit.coefficients for fit in fits]).reshape(len(groups), X.shape[1])
    constant = np.array([np.ptp(X[rows], axis=0) == 0.0 for rows in groups], dtype=bool).reshape(slopes.shape)
    slopes[constant] = np.nan
    intercepts = np.array([fit.intercept for fit in fits])
    return LinearFit(features.columns, pooled.coefficients, pooled.intercept, slopes, intercepts)


def fit_from_roots(moments: Moments, roots: Floats, mask: Mask) -> LinearFit:
    """The subset (p,) from factors (E, m, d) of the rows."""
    features = moments.features.chosen(mask)
    columns = moments.feature_columns[moments.features.expand(mask)]
    used = np.append(columns, moments.outcome)
    means = np.vstack([moments.means, moments.pooled_mean])[:, used]
    fits = [
        least_squares_of_root(root, mean)
        for root, mean in zip(roots_of_groups(moments, roots, used), means, strict=True)
    ]
    slopes, intercepts = np.array([fit.coefficients for fit in fits]), np.array([fit.intercept for fit in fits])
    slopes[:-1][~moments.varies[:-1, columns]] = np.nan
    return LinearFit(features.columns, slopes[-1], float(intercepts[-1]), slopes[:-1], intercepts[:-1])


def fit_from_moments(moments: Moments, mask: Mask) -> LinearFit:
    """The subset (p,) from second moments alone."""
    features = moments.features.chosen(mask)
    columns = moments.feature_columns[moments.features.expand(mask)]
    slopes = np.array([_solved(moments, g, columns) for g in range(moments.n_environments + 1)])
    means = np.vstack([moments.means, moments.pooled_mean])
    intercepts = means[:, moments.outcome] - np.einsum("gk,gk->g", means[:, columns], slopes)
    slopes[:-1][~moments.varies[:-1, columns]] = np.nan
    return LinearFit(features.columns, slopes[-1], float(intercepts[-1]), slopes[:-1], intercepts[:-1])


def _solved(moments: Moments, g: int, columns: NDArray[np.intp]) -> Floats:
    """(k,) coefficients in one group; 0 for columns that are not present there."""
    slopes = np.zeros(len(columns))
    varying = moments.present[g, columns]
    used = columns[varying]
    gram = moments.scatter[g][np.ix_(used, used)]
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    cross = moments.scatter[g][used, moments.outcome] * scale
    slopes[varying] = np.linalg.lstsq(gram * scale[:, None] * scale, cross, rcond=None)[0] * scale
    return slopes


class StandardErrors(NamedTuple):
    """values (E + 1, k): of the coefficients of k columns in each environment and, last, in the pool; NaN where a
    column is constant or given by the others. freedom (E + 1,): degrees of freedom that the fits leave."""

    values: Floats
    freedom: Floats


class _Factor(NamedTuple):
    """triangle (k + 1, k + 1): R of the unit columns and, last, the outcome; independent (k + 1,): which of them stand
    on their own; norms (k + 1,); n_rows."""

    triangle: Floats
    independent: Mask
    norms: Floats
    n_rows: int

    def errors(self) -> tuple[Floats, float]:
        k = len(self.norms) - 1
        kept = np.flatnonzero(self.independent[:k])
        freedom = self.n_rows - 1.0 - len(kept)
        values = np.full(k, np.nan)
        if freedom > 0.0 and len(kept):
            inverse = np.linalg.inv(self.triangle[np.ix_(kept, kept)])
            sigma = self.triangle[k, k] * self.norms[k] / np.sqrt(freedom)
            values[kept] = sigma * np.sqrt((inverse**2).sum(axis=1)) / self.norms[kept]
        return values, freedom


def errors_from_rows(data: MultiEnvironmentData, columns: Mask) -> StandardErrors:
    """Of the columns (q,) fitted to the rows."""
    groups = [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]
    return _collected([_factor_of_rows(data.X[np.ix_(rows, columns)], data.y[rows]) for rows in groups])


def errors_from_roots(moments: Moments, roots: Floats, columns: Mask) -> StandardErrors:
    """Of the columns (q,) of the features, from factors (E, m, d) of the rows."""
    used = np.append(moments.feature_columns[columns], moments.outcome)
    each = zip(roots_of_groups(moments, roots, used), moments.group_counts, strict=True)
    return _collected([_factor_of_unit(*unit_columns(root), int(n)) for root, n in each])


def errors_from_moments(moments: Moments, columns: Mask) -> StandardErrors:
    """Of the columns (q,) of the features, from second moments alone."""
    used = moments.feature_columns[columns]
    return _collected([_factor_of_moments(moments, g, used) for g in range(moments.n_environments + 1)])


def weighted_errors_from_rows(data: MultiEnvironmentData, columns: Mask, deviations: Floats) -> Floats:
    """(k,) of the columns (q,) of one fit to all rows, whose noise has a standard deviation (E,) in each environment;
    NaN where a column is constant or given by the others."""
    X = data.X[:, columns]
    weighted = np.column_stack([np.ones(data.n_rows), X - X.mean(axis=0)]) / deviations[data.environment_index, None]
    norms = np.sqrt(np.einsum("nk,nk->k", weighted, weighted))
    norms[norms == 0.0] = 1.0
    unit = np.ascontiguousarray((weighted / norms).T)
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    return _weighted_errors(triangle, independent, norms, data.n_rows)


def weighted_errors_from_moments(moments: Moments, columns: Mask, deviations: Floats) -> Floats:
    """The same from second moments alone."""
    used = moments.feature_columns[columns]
    gaps = moments.gaps[:, used]
    design = np.insert(gaps, 0, 1.0, axis=1)
    precision = 1.0 / deviations**2
    gram = np.einsum("e,ei,ej->ij", precision * moments.counts, design, design)
    gram[1:, 1:] += np.einsum("e,eij->ij", precision, moments.scatter[:-1][:, used[:, None], used])
    independent = np.insert(moments.present[-1, used], 0, True)
    norms = np.where(independent, np.sqrt(np.diagonal(gram)), 1.0)
    triangle, kept = np.zeros(gram.shape), np.flatnonzero(independent)
    triangle[np.ix_(kept, kept)] = np.linalg.cholesky((gram / (norms[:, None] * norms))[np.ix_(kept, kept)]).T
    return _weighted_errors(triangle, independent, norms, moments.n_rows)


def _weighted_errors(triangle: Floats, independent: Mask, norms: Floats, n_rows: int) -> Floats:
    """Of all columns but the first, a constant. Variances by maximum likelihood are too small by N to the degrees of
    freedom left."""
    kept = np.flatnonzero(independent)
    values = np.full(len(norms), np.nan)
    inverse = np.linalg.inv(triangle[np.ix_(kept, kept)])
    values[kept] = np.sqrt((inverse**2).sum(axis=1) * n_rows / (n_rows - len(kept))) / norms[kept]
    return values[1:]


def _collected(factors: list[_Factor]) -> StandardErrors:
    values, freedom = zip(*(factor.errors() for factor in factors), strict=True)
    return StandardErrors(np.array(values), np.array(freedom))


def _factor_of_rows(X: Floats, y: Floats) -> _Factor:
    unit, norms, _ = unit_rows(np.column_stack([X, y]))
    return _factor_of_unit(unit, norms, len(y))


def _factor_of_unit(unit: Floats, norms: Floats, n_rows: int) -> _Factor:
    triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
    return _Factor(triangle, independent, norms, n_rows)


def _factor_of_moments(moments: Moments, g: int, columns: NDArray[np.intp]) -> _Factor:
    members = np.append(columns, moments.outcome)
    present = moments.present[g, members]
    norms = np.where(present, np.sqrt(np.diagonal(moments.scatter[g])[members]), 1.0)
    gram = moments.scatter[g][np.ix_(members, members)] / (norms[:, None] * norms)
    triangle, kept = np.zeros(gram.shape), np.flatnonzero(present)
    triangle[np.ix_(kept, kept)] = np.linalg.cholesky(gram[np.ix_(kept, kept)]).T
    return _Factor(triangle, present, norms, int(moments.group_counts[g]))


# With fewer rows to a column than this, a triangular factor saves less than it costs.
_WORTHWHILE = 2


def no_rows(moments: Moments) -> GroupRows:
    counts = moments.group_counts
    nowhere = np.zeros(len(counts), np.int64)
    return GroupRows(np.empty((0, 0)), nowhere, nowhere, counts, np.empty((0, len(moments.columns))))


def compressed_rows(data: MultiEnvironmentData, moments: Moments) -> GroupRows:
    """Unit columns in every environment and the pool, or, where these have many rows, the triangular factor of them:
    any of its columns leave the same residuals as the rows.
    """
    columns = np.column_stack([data.X, data.y])
    parts: list[Floats] = []
    for rows in [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]:
        unit, _, _ = unit_rows(columns[rows])
        if unit.shape[1] > _WORTHWHILE * len(unit):
            unit = np.asarray(np.linalg.qr(unit.T, mode="r")).T
        parts.append(unit)
    return _assembled(parts, moments)


def group_rows(data: MultiEnvironmentData | None, moments: Moments) -> GroupRows:
    """Of the rows or, without them, of the factors that a second look at them left in the moments."""
    if data is not None:
        return compressed_rows(data, moments)
    assert moments.second is not None
    assert moments.second.roots is not None
    return _rows_of_roots(moments, moments.second.roots)


def _rows_of_roots(moments: Moments, roots: Floats) -> GroupRows:
    every = np.arange(len(moments.columns))
    return _assembled([unit_columns(_narrow(root))[0] for root in roots_of_groups(moments, roots, every)], moments)


def unit_groups(moments: Moments, roots: Floats, columns: Integers) -> list[Floats]:
    """The columns in every environment and the pool, scaled to unit length (k, m)"""
    return [unit_columns(root)[0] for root in roots_of_groups(moments, roots, columns)]


def _narrow(root: Floats) -> Floats:
    return root if len(root) <= root.shape[1] else np.asarray(np.linalg.qr(root, mode="r"))


def _assembled(parts: list[Floats], moments: Moments) -> GroupRows:
    d, ends = len(parts[0]), np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int64)
    # Kernels are compiled for each order of the entries in memory: of factors alone `concatenate` would make the other.
    values = np.concatenate(parts, axis=1, out=np.empty((d, ends[-1])))
    return GroupRows(values, ends[:-1], ends[1:], moments.group_counts, np.empty((0, d)))


def always_decidable(moments: Moments, inverse_scale: Floats, tolerance: float) -> bool:
    """Whether second moments can decide every subset.

    Every pivot of every subset is at least the smallest eigenvalue of the scaled second moments of all columns.
    """
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


# Subsets that are looked at for causes, the smallest first.
_EXAMPLES = 64
_MOST_SENTENCES = 3
_FROM_ROWS = (
    "more than second moments can resolve: build LinearGaussian from the data, or let fit(moments, rows=...) "
    "read the rows again"
)


@dataclass(frozen=True, eq=False)
class Cause:
    """Features that, once a subset holds all of them, put it outside the support, and the groups where they do.

    shares: what they leave of the outcome's variance in these groups, or NaN where they are themselves collinear.
    """

    features: Mask
    groups: tuple[int, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Unsupported:
    """Subsets with log ratio -inf. too_large, undecidable (S,): bool; features: the names involved; reasons: sentences.

    too_large: an environment has too few rows for them; undecidable: any other cause.
    """

    too_large: Mask
    undecidable: Mask
    features: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def count(self) -> int:
        return int((self.too_large | self.undecidable).sum())

    def __str__(self) -> str:
        subsets = "1 subset" if self.count == 1 else f"{self.count:,} subsets"
        return f"{subsets} outside the support" + (": " + "; ".join(self.reasons) if self.reasons else "")


def without_value(masks: Mask, outside: Mask, names: Sequence[str]) -> Unsupported:
    """The subsets where `outside` (S,) holds, of which nothing is known but that the model has no value for them."""
    smallest = min((mask for mask in masks[outside]), key=np.sum, default=np.zeros(len(names), dtype=bool))
    involved = tuple(name for name, flag in zip(names, smallest, strict=True) if flag)
    subset = f"{{{', '.join(involved)}}}"
    reasons = (f"the model has no value for {subset}",) if outside.any() else ()
    return Unsupported(np.zeros_like(outside), outside, involved, reasons)


def find_causes(
    masks: Mask, decidable: Callable[[Mask], Mask], places: Callable[[Mask], tuple[tuple[int, ...], tuple[float, ...]]]
) -> list[Cause]:
    """The smallest undecidable subsets inside some of the undecidable `masks` (S, p), small ones first."""
    causes: list[Cause] = []
    smallest_first = np.argsort(masks.sum(axis=1), kind="stable")
    for mask in masks[smallest_first[:_EXAMPLES]]:
        if any((mask & cause.features).sum() == cause.features.sum() for cause in causes):
            continue
        smallest = mask.copy()
        for j in np.flatnonzero(mask):
            smallest[j] = False
            smallest[j] = decidable(smallest[None])[0]
        causes.append(Cause(smallest, *places(smallest)))
    return causes


def too_few_rows(moments: Moments, masks: Mask) -> list[str]:
    """A sentence where some of masks (S, p) have more columns than an environment's rows can fit."""
    needed = masks.astype(float) @ moments.varying_widths[:-1].T
    room = moments.counts - 2
    short = np.flatnonzero((needed > room).any(axis=0))
    if not len(short):
        return []
    e = int(short[np.argmin(room[short])])
    label, n = moments.environments[e], moments.counts[e]
    what = "columns of features" if moments.features.grouped else "features"
    return [f"environment {label!r} has {n} rows, too few to fit more than {max(room[e], 0)} {what} that vary there"]


def reasons_of(causes: Iterable[Cause], moments: Moments, from_rows: bool, remedy: str = _FROM_ROWS) -> list[str]:
    """One sentence for all collinear features, and one for each set that explains the outcome too well."""
    causes = list(causes)
    collinear = [cause for cause in causes if np.isnan(cause.shares).any()]
    reasons = []
    if collinear:
        names = _names(np.any([cause.features for cause in collinear], axis=0), moments)
        groups = sorted({g for cause in collinear for g in cause.groups})
        reasons.append(f"{quoted(names)} are too collinear {_where(groups, moments)}, {remedy}")
    explaining = [cause for cause in causes if not np.isnan(cause.shares).any()]
    leading = explaining[:_MOST_SENTENCES]
    reasons += [_determined(cause, moments) if from_rows else _explained(cause, moments, remedy) for cause in leading]
    if len(explaining) > _MOST_SENTENCES:
        reasons.append(f"likewise for {len(explaining) - _MOST_SENTENCES} more sets of features")
    return reasons


def _determined(cause: Cause, moments: Moments) -> str:
    names = _names(cause.features, moments)
    everywhere = moments.n_environments in cause.groups
    place = "" if everywhere else f"{_where(cause.groups, moments)} "
    if len(names) == 1:
        return (
            f"{place}{names[0]!r} determines the outcome exactly (a copy, or an exact linear function of it): subsets "
            "that hold it have no residual and are left out. Remove it from the features"
        )
    return (
        f"{place}{quoted(names)} together determine the outcome exactly: subsets that hold them all have no residual "
        "and are left out. Remove one of them from the features"
    )


def _explained(cause: Cause, moments: Moments, remedy: str) -> str:
    names = _names(cause.features, moments)
    verb = "explains" if len(names) == 1 else "together explain"
    share = max(cause.shares)
    rest = f"{share:.0e}" if share > 1e-14 else "rounding"
    return (
        f"{_where(cause.groups, moments)} {quoted(names)} {verb} all but {rest} of the outcome's variance (a strong "
        f"intervention, or a copy of the outcome), {remedy}"
    )


def _names(features: Mask, moments: Moments) -> list[str]:
    return [moments.feature_names[j] for j in np.flatnonzero(features)]


def _where(groups: Iterable[int], moments: Moments) -> str:
    labels = [moments.environments[g] for g in groups if g < moments.n_environments]
    if not labels:
        return "over all rows"
    return f"in environment{'s' if len(labels) > 1 else ''} {quoted(labels)}"
