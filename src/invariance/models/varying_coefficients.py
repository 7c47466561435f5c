"""The linear Gaussian model whose coefficients are compared along a variable, between crossed
factors, or both; noise of sequences is autoregressive.

It is the model of `random_coefficients` with another Z. Coefficients of W = (1, columns of z) may
deviate by factors, as fixed effects W ⊗ (their levels), tested by the F test; and along the
variable, as random effects Z = WT ⊗ B of ten cosines B, tested by the score statistic. With W and
the factors swept out, all that is asked of Z are the eigenvalues of C = Z'MZ and the squares of s =
Z'My along its eigenvectors: likelihood and score test are sums over these.

In sequences rows are those of the filter 1 − a₁L − … − a_qL^q, a from the residuals of the subset's
pooled fit (Cochrane and Orcutt 1949, J. Am. Stat. Assoc. 44, 32-61), in two rounds.

References
----------
Hastie and Tibshirani (1993), J. R. Stat. Soc. B 55, 757-796: varying coefficients.
Self and Liang (1987), J. Am. Stat. Assoc. 82, 605-610: the law of −2 log Λ of
a variance that is 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.special import digamma, polygamma
from scipy.stats import rankdata

from .._tools.arrays import Floats, Integers, Mask
from .._tools.text import format_subset, in_quotes, printable
from ..data.checks import SMALLEST_ENVIRONMENT, largest_size
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..data.structure import Design
from ..exceptions import DataError, use
from ..moments.random_intercept import inverse_roots, whitening_of
from .base import (
    PIVOT_TOLERANCE,
    EnvironmentData,
    Estimates,
    Fit,
    Memory,
    Null,
    Remarks,
    StandardErrors,
    in_parts,
    rows_of,
)
from .gaussian import GaussianFromMoments, GaussianModel, held_features
from .invariance_test import (
    CAP,
    Difference,
    Residuals,
    Score,
    Tolerance,
    f_difference,
    joint_p_value,
    mean_p_values,
    score_p_values,
)
from .random_coefficients import DeviationModel, FigureName, score_of_spectrum

N_COSINES = 10
_AR_ROUNDS = 2
# 1 less the sum of autoregressive coefficients, below which levels are hardly told from noise.
_NEAR_UNIT_ROOT = 0.1
# Share of the rows that deviations of factors may take before their test sees little.
_MOST_SPENT = 0.5
# Share of the rows below which a direction of columns is one of rounding; its subset is outside the
# support.
_SMALLEST_SPREAD = 1e-14
# Numbers that may be held at once while rows are read.
_NUMBERS_AT_ONCE = 1 << 22
# Fits that are remembered; a walk asks about each subset several times.
_MAX_FITS_KEPT = 1 << 15
# Shares of the noise at which the likelihood of deviations is looked at first, and rounds that
# close in on the largest.
_SHARES = 33
_LARGEST_VARIANCE_SHARE = 1e4
_SHARE_ROUNDS = 7
# −2 log Λ of a variance that is 0: a half of a chi-square with one degree of freedom, and 0 in the
# other half.
_MEAN_RE = 0.5
_VARIANCE_RE = 1.25


def cosines(values: Floats) -> Floats:
    """(N, 10) √2·cos(πbu), u the mid-ranks of values (N,), weighted by 1/b so that their squares
    average 1 in all."""
    u = (rankdata(values) - 0.5) / len(values)
    b = np.arange(1, N_COSINES + 1)
    weights = (1.0 / b) / np.sqrt(np.sum(1.0 / b**2))
    return np.sqrt(2.0) * weights * np.cos(np.pi * np.outer(u, b))


class Modulators(NamedTuple):
    """values (N, m): 1, the levels but the first of each factor, cosines; groups: which columns are
    the constant, each factor's levels and, last, cosines"""

    values: Floats
    groups: tuple[slice, ...]

    @property
    def n_fixed(self) -> int:
        """Columns that are no cosines"""
        return self.groups[-1].start

    @classmethod
    def of(cls, design: Design) -> Modulators:
        parts = [np.ones((len(design.units), 1))]
        for _, codes, levels in design.factors:
            parts.append((codes[:, None] == np.arange(1, len(levels))).astype(float))
        parts.append(np.empty((len(design.units), 0)))
        if design.variable is not None:
            parts[-1] = cosines(design.values)
        return cls(np.hstack(parts), _consecutive(part.shape[1] for part in parts))


def _consecutive(widths: Iterable[int]) -> tuple[slice, ...]:
    ends = np.cumsum([0, *widths]).tolist()
    return tuple(slice(*pair) for pair in pairwise(ends))


class Swept(NamedTuple):
    """The fits to one subset, of n rows. full, full_rank: residual sum of squares and rank of the
    fit with the factors' deviations; pooled, rank: of the common fit; share: of deviations along
    the variable; r2: of the plain fit; gammas, squares: eigenvalues of C, squares of s along them;
    beta (d + 1,): of the common fit, 0 for columns that it has not; filter (q + 1,): 1 and −a"""

    full: float
    pooled: float
    full_rank: float
    rank: float
    share: float
    log_ratio: float
    r2: float
    gammas: Floats
    squares: Floats
    beta: Floats
    filter: Floats


# Places in `Swept`, and what stands there of a subset outside the support
FULL, POOLED, FULL_RANK, RANK, SHARE, LOG_RATIO, R2 = range(N_FIGURES := 7)
_OUTSIDE = (*[np.nan] * N_FIGURES, (), ())


class Assembled(NamedTuple):
    """Sums of products of one subset's columns, prewhitened by a filter: of W, of W ⊗ the levels of
    each factor, of WT ⊗ the cosines, which are `parts`, and of the outcome; plain: of W and the
    outcome as they are; turn: T"""

    products: Floats
    parts: tuple[slice, ...]
    filter: Floats
    plain: Floats
    turn: Floats


class ComponentTest(NamedTuple):
    """Test whether coefficients differ by a factor, given the other factors that are not nested in
    it, or along the variable, given the factors: up to the tolerance, and at all; NaN of a factor
    that the others determine."""

    name: str
    along: bool
    p_value: float
    p_exact: float


class Curves(NamedTuple):
    """Along r values (r,): the level of the outcome at average features, named "", and the
    coefficients of k columns; estimates and standard errors (r, k + 1), in the units of the data;
    common (k + 1,): where nothing deviates; p_values (k + 1,): that each alone changes"""

    columns: tuple[str, ...]
    values: Floats
    estimates: Floats
    errors: Floats
    common: Floats
    p_values: Floats


def sweep_out(products: Floats, first: slice | Integers, n: int) -> tuple[int, Floats]:
    """Return the rank of some columns, and the products of the columns from the n-th on after the
    first are swept out. A pivot must have a share of the length of its column."""
    gram = products[first][:, first]
    if not len(gram):
        return 0, products[n:, n:]
    scale = inverse_roots(np.diagonal(gram))
    factor, order, rank, _ = dpstrf(gram * scale[:, None] * scale, tol=PIVOT_TOLERANCE, lower=1)
    kept = order[:rank] - 1
    beside = (products[first][:, n:] * scale[:, None])[kept]
    half = solve_triangular(factor[:rank, :rank], beside, lower=True)
    return rank, products[n:, n:] - half.T @ half


def spectrum(gram: Floats, scores: Floats, least: float = 0.0) -> tuple[Floats, Floats]:
    """Return eigenvalues (m,) of products (m, m), 0 up to the least, and squares of scores (m,) or
    (m, S) along their eigenvectors."""
    gammas, vectors = np.linalg.eigh(gram)
    squares = (vectors.T @ scores) ** 2
    none = ~(gammas > least)
    gammas[none] = 0.0
    squares[none] = 0.0
    return gammas, squares


def filtered(products: Floats, filter: Floats) -> Floats:
    """Return products (d, d) of columns prewhitened by a filter (q + 1,), from products of lagged
    columns (q + 1, d, q + 1, d)."""
    return np.asarray(filter @ np.tensordot(filter, products, 1))


def autoregression(products: Floats) -> Floats:
    """Return the filter (q + 1,), 1 and −a, of the residuals of a fit to columns, from products of
    lagged columns and, last, the outcome (q + 1, k + 1, q + 1, k + 1)."""
    filter = np.eye(len(products))[0]
    for _ in range(_AR_ROUNDS if len(filter) > 1 else 0):
        left = filtered(products, filter)
        weights = np.append(-np.linalg.lstsq(left[:-1, :-1], left[:-1, -1])[0], 1.0)
        lagged = np.tensordot(weights, products, (0, 1)) @ weights
        filter[1:] = -np.linalg.lstsq(lagged[1:, 1:], lagged[1:, 0])[0]
    return filter


def likeliest_share(
    gammas: Floats, squares: Floats, whole: Floats, rss: float, n: int
) -> tuple[float, float]:
    """Return ω² of the largest likelihood ℓ, and ℓ(0) − ℓ(ω²) ≤ 0; whole: eigenvalues of Z'Z, of
    which nothing is swept out."""
    logs = np.linspace(np.log(1e-2 / n), np.log(_LARGEST_VARIANCE_SHARE), _SHARES)
    for _ in range(_SHARE_ROUNDS):
        shares = np.exp(logs)[:, None]
        left = 1.0 - np.sum(shares * squares / (1.0 + shares * gammas), axis=1) / rss
        lost = 0.5 * n * np.log(left) + 0.5 * np.sum(np.log1p(shares * whole), axis=1)
        best = int(np.argmin(lost))
        logs = logs[best] + (logs[1] - logs[0]) * np.linspace(-1.0, 1.0, _SHARES)
    return (float(shares[best, 0]), float(lost[best])) if lost[best] < 0.0 else (0.0, 0.0)


class StructuredDeviations(DeviationModel):
    """Data with a design. A subset is outside the support where its columns depend on each other
    over all rows, or where no row is left for the noise beside the deviations of factors; other
    dependent columns are skipped."""

    data: MultiEnvironmentData

    def __init__(
        self, data: EnvironmentData, n_jobs: int | None = None, prediction: float = 0.0
    ) -> None:
        super().__init__(data, n_jobs, prediction)
        rows = rows_of(data)
        assert rows is not None
        assert rows.design is not None
        self.design = rows.design
        self.modulators = Modulators.of(self.design)
        self.windows = self.design.windows
        self.n_windows = len(self.windows)
        self.kind = f"linear Gaussian, compared {printable(self.design.in_words)}"
        self._memory = Memory(_MAX_FITS_KEPT)
        needed = self.modulators.n_fixed + 2
        columns = int(self.moments.present[-1].sum())
        if self.n_windows < max(needed, columns if self._in_sequence else 0):
            raise DataError(self._too_few(needed))
        left = np.bincount(
            rows.environment_index[self.windows[:, 0]], minlength=rows.n_environments
        )
        if left.min() < SMALLEST_ENVIRONMENT:
            label = in_quotes(rows.environments[int(np.argmin(left))])
            q = self.windows.shape[1] - 1
            what = (
                f"environment {label} has {int(left.min())} rows with {q} before them in their "
                "sequence"
            )
            raise DataError(f"{what}, and 3 are needed: leave it out, or use a smaller ar.")

    def _too_few(self, needed: int) -> str:
        parts = [
            f"{len(factor.levels)} levels of {factor.name!r}" for factor in self.design.factors
        ]
        variable = self.design.variable
        if variable is not None and variable.ar:
            parts.append(
                f"ar={variable.ar}"
                + ("" if variable.within is None else f" within {variable.within!r}")
            )
        what = (
            f"{self.n_windows} rows are left for {' and '.join(parts) or 'the fit'}, and "
            f"{needed} are needed"
        )
        return f"{what}: name fewer factors or rows before."

    def of(self, data: EnvironmentData) -> GaussianModel:
        rows = rows_of(data)
        if rows is None or rows.design is None:
            return GaussianFromMoments(data, self.n_jobs)
        return StructuredDeviations(rows, self.n_jobs)

    # ---------------------------------------------------------------- sums of products

    @cached_property
    def _units(self) -> tuple[Floats, Floats, Floats]:
        """Means and standard deviations (q + 1,) of the features' columns and the outcome, and (N,
        q + 2) 1 and these columns, centred and of unit mean square"""
        columns = np.column_stack([self.data.X, self.data.y])
        means = columns.mean(axis=0)
        spread = columns.std(axis=0)
        spread[spread == 0.0] = 1.0
        return means, spread, np.insert((columns - means) / spread, 0, 1.0, axis=1)

    @property
    def _columns(self) -> Floats:
        return self._units[-1]

    @cached_property
    def _products(self) -> Floats:
        """(q + 1, d, q + 1, d) sums over windows of lagged columns, (1, x) ⊗ modulators and, last,
        the outcome"""
        lags = self.windows.shape[1]
        size = (self._columns.shape[1] - 1) * self.modulators.values.shape[1] + 1
        total = np.zeros((lags * size, lags * size))
        step = max(1, _NUMBERS_AT_ONCE // (size * lags))
        for start in range(0, self.n_windows, step):
            rows = self.windows[start : start + step]
            columns = self._columns[rows]
            expanded = columns[:, :, :-1, None] * self.modulators.values[rows][:, :, None]
            expanded = expanded.reshape(*rows.shape, size - 1)
            lagged = np.concatenate([expanded, columns[:, :, -1:]], axis=2).reshape(len(rows), -1)
            total += lagged.T @ lagged
        return total.reshape(lags, size, lags, size)

    def _used(self, masks: Mask) -> Mask:
        """(S, q) columns of subsets (S, p), without those that others of their feature give"""
        return np.asarray(
            self.features.expand(masks) & self.moments.present[-1, self.moments.feature_columns]
        )

    def swept(self, masks: Mask) -> list[Swept | None]:
        """Return the fits to each of the subsets (S, p), None outside the support."""

        def computed(used: Mask) -> list[Swept | None]:
            found: list[Swept | None] = [None] * len(used)

            def part(rows: slice) -> None:
                found[rows] = [self._swept(np.flatnonzero(row)) for row in used[rows]]

            in_parts(len(used), self.n_jobs, part, fewest=16)
            return found

        return self._memory.of(self._used(masks), computed)

    def _one(self, mask: Mask) -> tuple[Integers, Swept]:
        """The columns (k,) of one subset (p,), and what it leaves; DataError outside the support"""
        (found,) = self.swept(mask[None])
        self.require(found is not None, mask)
        assert found is not None
        return np.flatnonzero(self._used(mask[None])[0]), found

    def _assembled(self, columns: Integers) -> Assembled:
        """Of the common fit of columns (k,), deviations by factors and along the variable, and the
        outcome"""
        k = len(columns) + 1
        n = self.n_windows
        m = self.modulators.values.shape[1]
        base = m * np.append(0, 1 + columns)
        places = [
            (base[:, None] + np.arange(part.start, part.stop)).ravel()
            for part in self.modulators.groups
        ]
        *_, along = parts = _consecutive(map(len, places))
        at = np.concatenate([*places, [m * (self._columns.shape[1] - 1)]])
        lagged = self._products[:, at][:, :, :, at]
        common = np.append(np.arange(k), -1)
        of_common = lagged[:, common][:, :, :, common]
        filter = autoregression(of_common)
        products = filtered(lagged, filter)
        plain = of_common[0, :, 0]
        # Coordinates of W in which its products are those of n rows times the identity, over k; in
        # sequences of such a length that prewhitened deviations, too, explain the share of the
        # noise that they are said to.
        values, vectors = np.linalg.eigh(plain[:-1, :-1])
        turn = vectors * np.sqrt(n / k / np.maximum(values, _SMALLEST_SPREAD * n))
        for view in (products, products.T):
            rows = view[along]
            view[along] = (turn.T @ rows.reshape(k, -1)).reshape(rows.shape)
        if self._in_sequence:
            factor = np.sqrt(n / np.trace(products[along, along]))
            turn = factor * turn
            products[along] *= factor
            products[:, along] *= factor
        return Assembled(products, parts, filter, plain, turn)

    def _swept(self, columns: Integers) -> Swept | None:
        products, (*_, along), filter, plain, _ = self._assembled(columns)
        k = len(columns) + 1
        n = self.n_windows
        (rank, common), (full_rank, left) = (
            sweep_out(products, slice(stop), stop) for stop in (k, along.start)
        )
        pooled = float(common[-1, -1])
        full = float(left[-1, -1])
        if rank < k or n <= full_rank or min(full, pooled) < PIVOT_TOLERANCE * products[-1, -1]:
            return None
        beta = np.zeros(self._columns.shape[1] - 1)
        beta[np.append(0, 1 + columns)] = np.linalg.solve(products[:k, :k], products[:k, -1])
        missed = sweep_out(plain, slice(k), k)[1][0, 0]
        r2 = 1.0 - float(missed / (plain[-1, -1] - plain[0, -1] ** 2 / n))
        gammas, squares = spectrum(left[:-1, :-1], left[:-1, -1], PIVOT_TOLERANCE * n)
        share = 0.0
        gained = 0.0
        if len(gammas):
            whole = np.maximum(np.linalg.eigvalsh(products[along, along]), 0.0)
            share, gained = likeliest_share(gammas, squares, whole, full, n)
        log_ratio = 0.5 * n * np.log(full / pooled) + gained
        return Swept(
            full, pooled, full_rank, rank, share, log_ratio, r2, gammas, squares, beta, filter
        )

    # ---------------------------------------------------------------- log Λ, gains and tests

    def _figures(self, masks: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """(S, 7) figures of `Swept`, NaN outside the support, and (S, k) gammas and squares"""
        swept = self.swept(as_masks(masks, self.n_features))
        rows: list[Any] = [_OUTSIDE if each is None else each for each in swept]
        gammas, squares = (
            np.array([*zip_longest(*(row[place] for row in rows), fillvalue=0.0)]).T
            for place in (N_FIGURES, N_FIGURES + 1)
        )
        return np.array([row[:N_FIGURES] for row in rows]).reshape(-1, N_FIGURES), gammas, squares

    def figure(self, masks: ArrayLike, name: FigureName) -> Floats:
        """The gain is that of the fit to prewhitened rows."""
        figures = self._figures(masks)[0]
        if name == "gain":
            return np.asarray(0.5 * self.n_windows * np.log(self._empty / figures[:, POOLED]))
        return figures[:, SHARE if name == "share" else LOG_RATIO]

    def r2_many(self, masks: ArrayLike) -> Floats:
        return self._figures(masks)[0][:, R2]

    @property
    def n_informative(self) -> int:
        return self.n_windows

    def deviation_shares(self, masks: ArrayLike) -> Floats:
        """Estimates of ω² along the variable; NaN beside deviations of factors."""
        share = super().deviation_shares(masks)
        return np.full_like(share, np.nan) if self.design.factors else share

    def null_many(self, masks: ArrayLike) -> Null:
        """Exact for factors; along a variable that of a variance which is 0, for many rows."""
        n = self.n_windows
        ranks = self._figures(masks)[0][:, [FULL_RANK, RANK]]
        along = self.design.variable is not None
        full, less = 0.5 * (n - ranks).T
        mean = n * (digamma(less) - digamma(full)) + _MEAN_RE * along
        variance = n**2 * (polygamma(1, full) - polygamma(1, less)) + _VARIANCE_RE * along
        return Null.of_deviance(mean, np.nan_to_num(variance), -np.diff(ranks)[:, 0] + along)

    def score(self, masks: Mask) -> Score:
        figures, gammas, squares = self._figures(masks)
        freedom = self.n_windows - figures[:, FULL_RANK]
        return score_of_spectrum(gammas, squares, figures[:, FULL], freedom)

    def tested_means(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """By the F test of factors and the score test along the variable, joined by Fisher's
        rule."""
        residuals = self._residuals(masks)
        allowed = self.tolerated_mean(masks, tolerance)
        p_values = self._joined(residuals, self.score(masks), allowed)
        return np.where(np.isnan(residuals.rss[:, 0]), np.nan, p_values)

    def _joined(self, residuals: Residuals, score: Score, allowed: Floats) -> Floats:
        """(S,) p-values of factors, along the variable given these, or of both"""
        parts = []
        if self.design.factors:
            parts.append(mean_p_values(residuals, allowed))
        if self.design.variable is not None:
            parts.append(score_p_values(score, allowed / self.n_windows))
        return parts[0] if len(parts) == 1 else joint_p_value(*parts)

    def _residuals(self, masks: Mask) -> Residuals:
        """Return residuals of the fits with factors' deviations and, last, without."""
        figures = self._figures(masks)[0]
        full, pooled, full_rank, rank = figures.T[: RANK + 1]
        return self._nested(full, full_rank, pooled, rank, self._empty)

    def _nested(
        self, full: Floats, full_rank: Floats, pooled: Floats, rank: Floats, total: float = 1.0
    ) -> Residuals:
        """Return residuals of fits (S,) and of others that are nested in them, as if they were an
        environment and the pool."""
        counts = np.full(2, float(self.n_windows))
        ranks = np.column_stack([full_rank, rank]) - 1.0
        return Residuals(np.column_stack([full, pooled]), ranks, counts, total)

    @cached_property
    def _empty(self) -> float:
        """Residual sum of squares of the empty subset"""
        (found,) = self.swept(np.zeros((1, self.n_features), dtype=bool))
        if found is None:
            raise DataError(self._too_few(self.modulators.n_fixed + 2))
        return found.pooled

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        """Of factors, or along the variable: the larger one."""
        chosen = as_masks(masks, self.n_features)
        parts = [f_difference(self._residuals(chosen), ends)] if self.design.factors else []
        if self.design.variable is not None:
            parts.append(super().difference(chosen, ends))
        return Difference(*np.fmax.reduce(np.array(parts)))

    # ---------------------------------------------------------------- what differs, of one subset

    def remarks(self, masks: ArrayLike) -> Remarks:
        first = as_masks(masks, self.n_features)[:1]
        (found, *_) = self.swept(first)
        if found is None:
            return Remarks()
        if found.full_rank > _MOST_SPENT * self.n_windows:
            spent = (
                f"deviations {self.design.in_words} take {found.full_rank:,} of "
                f"{self.n_windows:,} rows"
            )
            remedy = (
                "the test sees little: name fewer factors, or one as labels with "
                "deviations='random'"
            )
            return Remarks(alarms=(f"{spent}: {remedy}.",))
        if found.filter.sum() > _NEAR_UNIT_ROOT:
            return Remarks()
        sums = f"coefficients add up to {1.0 - found.filter.sum():.2f}"
        given = format_subset(self.features.chosen(first[0]).names)
        told = f"given {given}, noise follows that of rows before almost entirely ({sums})"
        remedy = (
            "differences of level cannot be seen. Consider changes from row to row as "
            "outcome and features"
        )
        return Remarks((f"{told}: {remedy}.",))

    def component_tests(self, mask: Mask, tolerance: Tolerance) -> tuple[ComponentTest, ...]:
        """Of a subset (p,): each factor given the others but those nested in it, and the variable
        given the factors."""
        columns, found = self._one(mask)
        products, (base, *others, _), *_ = self._assembled(columns)
        allowed = np.append(self.tolerated_mean(mask[None], tolerance), 0.0)
        tests = []
        own = {factor.name: part for factor, part in zip(self.design.factors, others, strict=True)}

        def fitted(without: Collection[slice]) -> tuple[float, int]:
            """Residual sum of squares, and rank"""
            places = [np.r_[part] for part in (base, *others) if part not in without]
            rank, left = sweep_out(products, np.concatenate(places), len(products) - 1)
            return float(left[0, 0]), rank

        for name, part in own.items():
            nested = [own[inner] for inner, outer in self.design.nested if outer == name]
            (full, rank), (left, rank_left) = fitted(nested), fitted([*nested, part])
            p_values = np.full(2, np.nan)
            if rank_left < rank:
                without = found.full + left - full, found.full_rank + rank_left - rank
                fits = np.tile([found.full, found.full_rank, *without], (2, 1))
                both = self._nested(*fits.T)
                p_values = mean_p_values(both, allowed)
            tests.append(ComponentTest(name, False, *p_values.tolist()))
        if self.design.variable is not None:
            twice = self.score(np.tile(mask, (2, 1)))
            p_values = score_p_values(twice, allowed / self.n_windows)
            tests.append(ComponentTest(self.design.variable.column, True, *p_values.tolist()))
        return tuple(tests)

    def curves(self, mask: Mask, points: int = 101) -> Curves:
        """Of a subset (p,): level and coefficients along the variable, as a mixed model predicts
        them, at equally many rows apart. They may deviate by the likeliest share of the noise, or
        by that which is tolerated at most."""
        columns, found = self._one(mask)
        assembled = self._assembled(columns)
        products = assembled.products
        fixed = assembled.parts[-1].start
        penalty = np.zeros(len(products) - 1)
        penalty[fixed:] = 1.0 / max(found.share, CAP)
        covariance = np.linalg.pinv(
            products[:-1, :-1] + np.diag(penalty), rcond=PIVOT_TOLERANCE, hermitian=True
        )
        theta = covariance @ products[:-1, -1]
        left = products[-1, -1] - theta @ products[:-1, -1]
        noise = left / (self.n_windows - found.full_rank)
        order = np.argsort(self.design.values, kind="stable")
        rows = order[np.unique(np.linspace(0, len(order) - 1, points).round().astype(int))]
        # Of the level and each coefficient, on average over the levels of factors
        average = self.modulators.values.mean(axis=0)
        k = len(columns) + 1
        *fixed_groups, along = self.modulators.groups
        usual = np.hstack([np.kron(np.eye(k), average[part]) for part in fixed_groups])
        basis = self.modulators.values[rows, None, along]
        weights = np.concatenate(
            [np.tile(usual, (len(rows), 1, 1)), np.kron(assembled.turn, basis)], axis=2
        )
        variances = np.einsum("rgt,tu,rgu->rg", weights, noise * covariance, weights, optimize=True)
        means, sizes, _ = self._units
        scale = sizes[-1] / np.append(1.0, sizes[columns])
        shift = np.append(means[-1], np.zeros(k - 1))
        return Curves(
            columns=("", *np.array(self.features.columns, dtype=object)[columns]),
            values=self.design.values[rows],
            estimates=weights @ theta * scale + shift,
            errors=np.sqrt(variances) * scale,
            common=usual @ theta[:fixed] * scale + shift,
            p_values=self._coefficient_p_values(assembled, found),
        )

    def _coefficient_p_values(self, assembled: Assembled, found: Swept) -> Floats:
        """(k + 1,) of the level and each coefficient, that it alone changes along the variable, by
        the score test with what its column has beyond the others"""
        products = assembled.products
        k = len(assembled.turn)
        fixed = assembled.parts[-1].start
        _, left = sweep_out(products, slice(fixed), fixed)
        inverse = np.linalg.inv(products[:k, :k])
        own = inverse * np.sqrt(self.n_windows / np.diagonal(inverse))
        own = np.linalg.solve(assembled.turn, own)
        square = left[:-1, :-1].reshape(k, N_COSINES, k, N_COSINES)
        c = np.einsum("gj,gbhd,hj->jbd", own, square, own)
        s = own.T @ left[:-1, -1].reshape(k, N_COSINES)
        gammas, squares = np.array([*map(spectrum, c, s)]).swapaxes(0, 1)
        left_over = np.full(k, found.full)
        freedom = np.full(k, float(self.n_windows - found.full_rank))
        score = score_of_spectrum(gammas, squares, left_over, freedom)
        return score_p_values(score, np.zeros(k))

    # ---------------------------------------------------------------- spread

    @cached_property
    def _spread_basis(self) -> tuple[Floats, Floats]:
        """Of modulators in windows, for absolute residuals: an orthonormal basis (n, r) of constant
        and factors, and what these leave of the cosines"""
        values = self.modulators.values[self.windows[:, 0]]
        fixed = values[:, : self.modulators.n_fixed]
        basis = fixed @ whitening_of(fixed.T @ fixed)
        beside = values[:, self.modulators.groups[-1]]
        return basis, beside - basis @ (basis.T @ beside)

    def noise(self, masks: Mask) -> Iterator[tuple[slice, Floats]]:
        """Residuals (s, n) of the common fits of subsets (S, p), prewhitened, of some subsets at a
        time"""
        step = max(1, _NUMBERS_AT_ONCE // self.data.n_rows)
        for start in range(0, len(masks), step):
            part = slice(start, min(start + step, len(masks)))
            found = [each for each in self.swept(masks[part]) if each is not None]
            weights = np.array([np.append(-each.beta, 1.0) for each in found])
            # No product of matrices: its rows round together.
            errors = np.einsum("sd,nd->sn", weights, self._columns)
            filters = np.array([each.filter for each in found])
            yield part, np.einsum("snq,sq->sn", errors[:, self.windows], filters)

    def levene(self, sizes: Floats, tau: float) -> Floats:
        """Along the variable and between the factors"""
        n = float(self.n_windows)
        basis, beside = self._spread_basis
        rank = np.full(len(sizes), float(basis.shape[1]))
        squares = np.einsum("sn,sn->s", sizes, sizes)
        full = squares - np.sum(np.einsum("sn,nr->sr", sizes, basis) ** 2, axis=1)
        means = sizes.mean(axis=1)
        pooled = squares - n * means**2
        gammas, along = spectrum(beside.T @ beside, np.einsum("sn,nb->bs", sizes, beside))
        score = score_of_spectrum(gammas, along.T, full, n - rank)
        residuals = self._nested(full, rank, pooled, np.ones(len(sizes)))
        return self._joined(residuals, score, n * tau**2 * means**2 / (pooled / n))

    # ---------------------------------------------------------------- fits

    @property
    def _in_sequence(self) -> bool:
        return self.windows.shape[1] > 1

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """In sequences slopes are those of prewhitened rows, and intercepts such that residuals
        average 0."""
        mask = as_mask(subset, self.feature_names)
        model, chosen = self.compared_by(mask)
        fit = model.fit(chosen, local)
        if not self._in_sequence:
            return fit
        columns = self.moments.feature_columns[self.features.expand(mask)]
        means = np.vstack([self.moments.means, self.moments.pooled_mean])
        slopes = np.vstack([fit.local_coefficients, fit.coefficients])
        means = means[-len(slopes) :]
        levels = means[:, self.moments.outcome] - np.sum(
            np.nan_to_num(slopes) * means[:, columns], axis=1
        )
        return replace(fit, intercept=float(levels[-1]), local_intercepts=levels[:-1])

    def line(self, mask: Mask) -> Fit:
        return super().fit(mask, local=False)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        model, chosen = self.compared_by(as_mask(subset, self.feature_names))
        return model.standard_errors(chosen)

    def own_estimates(self, subset: Subset, printed: Estimates) -> None:
        """Coefficients deviate by factors and along the variable, and not by one label."""
        return

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask]:
        """By environments as tables show them, of prewhitened rows where there are sequences."""
        if not self._in_sequence:
            return self.linear, mask
        _, found = self._one(mask)
        held = held_features(mask[None])
        rows = self.data.by_labels.narrowed(held)
        filtered = replace(
            rows,
            X=np.einsum("nqk,q->nk", rows.X[self.windows], found.filter),
            y=rows.y[self.windows] @ found.filter,
            environment_index=rows.environment_index[self.windows[:, 0]],
        )
        return GaussianFromMoments(filtered, self.n_jobs), mask[held]

    # ---------------------------------------------------------------- what engines ask

    @property
    def largest_size(self) -> int:
        return largest_size(
            [self.n_windows // self.modulators.n_fixed], self.moments.varying_widths[-1:]
        )

    def check_max_size(self, max_size: int) -> None:
        if max_size > self.largest_size:
            what = (
                f"{self.n_windows} rows are too few for deviations of {max_size} features "
                f"{self.design.in_words}"
            )
            raise DataError(what, use(" at most", max_size=self.largest_size))

    def too_few_rows(self, masks: Mask) -> Mask:
        few = super().too_few_rows(masks)
        few[:, -1] = (
            masks @ self.moments.varying_widths[-1] + 1
        ) * self.modulators.n_fixed + 1 > self.n_windows
        return few

    @property
    def steps_per_subset(self) -> int:
        columns = (self.features.n_columns / 2 + 1) * self.modulators.values.shape[1]
        return int(300_000 * max(1.0, (columns / 100) ** 2))
