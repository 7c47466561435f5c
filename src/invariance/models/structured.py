"""The linear Gaussian model whose coefficients are compared along a variable, between crossed
factors, or both; noise of sequences is autoregressive.

Coefficients of W = (1, columns of z) may deviate by factors, as fixed effects W ⊗ (their levels),
tested by the F test; and along the variable, as random effects Z = WT ⊗ B of ten cosines B, tested
by a score statistic Q with a three-moment null. With W and the factors swept out, all that is asked
of Z are the eigenvalues of C = Z'Z and the squares of s = Z'y along its eigenvectors: whitened by
deviations of share δ, C has the eigenvalues γ/(1 + δγ).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
from ..moments.moments import Moments
from . import gaussian_fits
from .base import (
    PIVOT_TOLERANCE,
    BoundModel,
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
    Tolerance,
    f_difference,
    joint_p_value,
    mean_p_values,
    score_difference,
    score_p_values,
    standardised,
)
from .random_deviations import DeviationModel

N_COSINES = 10
_ROUNDS = 2
# 1 less the sum of autoregressive coefficients, below which levels are hardly told from noise.
_NEAR_UNIT_ROOT = 0.1
# Share of the rows that deviations of factors may take before their test sees little.
_MOST_SPENT = 0.5
# Numbers that may be held at once while rows are read.
_AT_ONCE = 1 << 22
# Fits that are remembered; a walk asks about each subset several times.
_MOST_KNOWN = 1 << 15
# Shares of the noise at which the likelihood of deviations is looked at first, and rounds that
# close in on the largest.
_SHARES = 33
_LARGEST_SHARE = 1e4
_CLOSER = 7
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
    """values (N, m): 1, the levels but the first of each factor, cosines; factors, along: which
    columns these are"""

    values: Floats
    factors: tuple[slice, ...]
    along: slice

    @classmethod
    def of(cls, design: Design) -> Modulators:
        parts = [np.ones((len(design.units), 1))]
        factors = []
        for _, codes, levels in design.factors:
            start = sum(part.shape[1] for part in parts)
            parts.append((codes[:, None] == np.arange(1, len(levels))).astype(float))
            factors.append(slice(start, start + len(levels) - 1))
        fixed = sum(part.shape[1] for part in parts)
        if design.values is not None:
            parts.append(cosines(design.values))
        values = np.hstack(parts)
        return cls(values, tuple(factors), slice(fixed, values.shape[1]))


class Swept(NamedTuple):
    """What one subset leaves, of n rows. rank, pooled: of the common fit and its residual sum of
    squares; full_rank, full: with the factors' deviations; gammas, squares: eigenvalues of C,
    squares of s along them; share, log_ratio: of deviations along the variable; beta: of the common
    fit (k + 1,); filter (q + 1,): 1 and −a; r2: of the plain fit"""

    rank: int
    pooled: float
    full_rank: int
    full: float
    gammas: Floats
    squares: Floats
    share: float
    log_ratio: float
    beta: Floats
    filter: Floats
    r2: float


class Assembled(NamedTuple):
    """Sums of products of one subset's columns, prewhitened by a filter: of W, of W ⊗ the levels of
    each factor, of W ⊗ the cosines, which are `parts`, and of the outcome; plain: of W and the
    outcome as they are"""

    products: Floats
    parts: tuple[slice, ...]
    filter: Floats
    plain: Floats


class ScoreTest(NamedTuple):
    """Of S subsets. gammas, squares (S, k), 0 beyond those that there are; rss, freedom (S,):
    without deviations"""

    gammas: Floats
    squares: Floats
    rss: Floats
    freedom: Floats

    def standardised(self, share: Floats) -> tuple[Floats, Floats]:
        """(S,) Q less its mean in standard deviations, and its skewness, where deviations explain
        this share (S,)"""
        shrunk = 1.0 / (1.0 + share[:, None] * self.gammas)
        kept = self.gammas * shrunk
        left = self.rss - share * np.sum(self.squares * shrunk, axis=1)
        traces = (np.sum(kept**power, axis=1) for power in (1, 2, 3))
        statistic = np.sum(self.squares * shrunk**2, axis=1) / np.maximum(
            left, np.finfo(float).tiny
        )
        return standardised(statistic, self.freedom, *traces)

    def p_values(self, share: Floats) -> Floats:
        """(S,) that deviations explain no more than this share (S,)"""
        return score_p_values(self.standardised, share)


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


def pivoted(gram: Floats, scale: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Columns that are independent, and the lower factor of their gram matrix; scale (k,): their
    own lengths, of which a pivot must have a share"""
    inverse = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
    factor, order, rank, _ = dpstrf(gram * inverse[:, None] * inverse, tol=PIVOT_TOLERANCE, lower=1)
    kept = order[:rank] - 1
    return kept, np.tril(factor[:rank, :rank]) * scale[kept, None]


def _turned(matrix: Floats, turn: Floats) -> Floats:
    """(k·b, k·b) symmetric, in other coordinates (k, k) of each of the k columns that b cosines
    modulate"""
    half = (turn.T @ matrix.reshape(len(turn), -1)).reshape(matrix.shape)
    return np.asarray((turn.T @ half.T.reshape(len(turn), -1)).reshape(matrix.shape))


def likeliest_share(
    gammas: Floats, squares: Floats, whole: Floats, rss: float, n: int
) -> tuple[float, float]:
    """ω² of the largest likelihood ℓ, and ℓ(0) − ℓ(ω²) ≤ 0; whole: eigenvalues of Z'Z before
    anything is swept out"""

    def gain(logs: Floats) -> Floats:
        share = np.exp(logs)[:, None]
        left = 1.0 - np.sum(share * squares / (1.0 + share * gammas), axis=1) / rss
        return -0.5 * n * np.log(left) - 0.5 * np.sum(np.log1p(share * whole), axis=1)

    logs = np.linspace(np.log(1e-2 / n), np.log(_LARGEST_SHARE), _SHARES)
    share = 0.0
    best = 0.0
    for _ in range(_CLOSER):
        values = gain(logs)
        place = int(np.argmax(values))
        step = logs[1] - logs[0]
        if values[place] > best:
            share = float(np.exp(logs[place]))
            best = float(values[place])
        logs = np.linspace(logs[place] - step, logs[place] + step, _SHARES)
    return share, -best


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
        self.design, self.modulators = rows.design, Modulators.of(rows.design)
        self.windows, self.kind = (
            rows.design.windows,
            f"linear Gaussian, compared {printable(rows.design.in_words)}",
        )
        self.n_windows, self._memory = len(self.windows), Memory(_MOST_KNOWN)
        needed = self.modulators.along.start + 2
        columns = int(self.moments.present[-1].sum())
        if self.n_windows < max(
            needed, columns if self.design.variable is not None and self.design.variable.ar else 0
        ):
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
    def _columns(self) -> Floats:
        """(N, q + 2) 1, the features' columns and the outcome, centred and of unit mean square"""
        means, spread = self._units
        columns = (np.column_stack([self.data.X, self.data.y]) - means) / spread
        return np.column_stack([np.ones(len(columns)), columns])

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Means and standard deviations (q + 1,) of the features' columns and the outcome"""
        columns = np.column_stack([self.data.X, self.data.y])
        spread = columns.std(axis=0)
        return columns.mean(axis=0), np.where(spread > 0.0, spread, 1.0)

    @cached_property
    def _products(self) -> list[tuple[int, int, Floats]]:
        """(i, j, Σ over windows) of lagged columns (1, x) ⊗ modulators and, last, the outcome; both
        orders of i < j"""
        lags, (m, d) = (
            self.windows.shape[1],
            (self.modulators.values.shape[1], self._columns.shape[1] - 1),
        )
        sums = {
            (i, j): np.zeros((d * m + 1, d * m + 1)) for i in range(lags) for j in range(i, lags)
        }
        step = max(1, _AT_ONCE // (d * m * lags))
        for start in range(0, self.n_windows, step):
            rows = self.windows[start : start + step]
            parts = [
                np.column_stack(
                    [np.einsum("nd,nm->ndm", c[:, :-1], b).reshape(len(c), -1), c[:, -1]]
                )
                for c, b in (
                    (self._columns[rows[:, i]], self.modulators.values[rows[:, i]])
                    for i in range(lags)
                )
            ]
            for (i, j), total in sums.items():
                product = parts[i].T @ parts[j]
                total += product if i == j else product + product.T
        return [(i, j, total) for (i, j), total in sums.items()]

    def _filtered(self, filter: Floats, places: Integers) -> Floats:
        """(k, k) products of expanded columns `places` (k,), prewhitened by a filter (q + 1,)"""
        return sum(
            filter[i] * filter[j] * total[np.ix_(places, places)] for i, j, total in self._products
        )

    def _autoregression(self, places: Integers) -> Floats:
        """(q + 1,) 1 and −a of the residuals of a fit to columns and, last, the outcome (k + 1,) of
        all rows"""
        q = self.windows.shape[1] - 1
        filter = np.append(1.0, np.zeros(q))
        for _ in range(_ROUNDS if q else 0):
            products = self._filtered(filter, places)
            weights = np.append(-np.linalg.lstsq(products[:-1, :-1], products[:-1, -1])[0], 1.0)
            lagged = np.zeros((q + 1, q + 1))
            for i, j, total in self._products:
                value = weights @ total[np.ix_(places, places)] @ weights
                lagged[i, j] = lagged[j, i] = value if i == j else 0.5 * value
            filter[1:] = -np.linalg.lstsq(lagged[1:, 1:], lagged[1:, 0])[0]
        return filter

    def _used(self, masks: Mask) -> Mask:
        """(S, q) columns of subsets (S, p), without those that others of their feature give"""
        return np.asarray(
            self.features.expand(masks) & self.moments.present[-1, self.moments.feature_columns]
        )

    def swept(self, masks: Mask) -> list[Swept | None]:
        """Of each of the subsets (S, p), None outside the support"""

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
        m = self.modulators.values.shape[1]
        base = m * np.append(0, 1 + columns)
        of_y = np.array([m * (self._columns.shape[1] - 1)])
        filter = self._autoregression(np.append(base, of_y))
        groups = [slice(0, 1), *self.modulators.factors, self.modulators.along]
        parts = [(base[:, None] + np.arange(part.start, part.stop)).ravel() for part in groups]
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        products = self._filtered(filter, np.concatenate([*parts, of_y]))
        plain = self._filtered(np.eye(len(filter))[0], np.append(base, of_y))
        return Assembled(products, tuple(slice(*pair) for pair in pairwise(ends)), filter, plain)

    def _swept(self, columns: Integers) -> Swept | None:
        assembled = self._assembled(columns)
        products, parts, filter, plain = assembled
        k = len(columns) + 1
        n = self.n_windows
        lengths = np.sqrt(np.diagonal(products))
        kept, root = pivoted(products[:k, :k], lengths[:k])
        if len(kept) < k or n <= k:
            return None
        half = solve_triangular(root, products[kept][:, k:], lower=True)
        left = products[k:, k:] - half.T @ half
        pooled = float(left[-1, -1])
        f = parts[-1].start - k
        beta = solve_triangular(root, half[:, -1], lower=True, trans=1)[np.argsort(kept)]
        missed = (
            plain[-1, -1] - plain[:-1, -1] @ np.linalg.lstsq(plain[:-1, :-1], plain[:-1, -1])[0]
        )
        r2 = 1.0 - float(missed / (plain[-1, -1] - plain[0, -1] ** 2 / n))
        if pooled < PIVOT_TOLERANCE * products[-1, -1]:
            return None
        full = pooled
        full_rank = k
        if f:
            levels, below = pivoted(left[:f, :f], lengths[k : k + f])
            swept = solve_triangular(below, left[levels][:, f:], lower=True)
            left = left[f:, f:] - swept.T @ swept
            full = float(left[-1, -1])
            full_rank = k + len(levels)
            if n <= full_rank or full < PIVOT_TOLERANCE * products[-1, -1]:
                return None
        gammas = np.zeros(0)
        squares = np.zeros(0)
        share = 0.0
        log_ratio = 0.0
        if self.design.variable is not None:
            turn = self._turn(assembled)
            c, whole = (
                _turned(matrix, turn) for matrix in (left[:-1, :-1], products[parts[-1], parts[-1]])
            )
            gammas, vectors = np.linalg.eigh(c)
            gammas = np.where(gammas > PIVOT_TOLERANCE * n, gammas, 0.0)
            s = (turn.T @ left[:-1, -1].reshape(k, -1)).ravel()
            squares = np.where(gammas > 0.0, (vectors.T @ s) ** 2, 0.0)
            whole = np.maximum(np.linalg.eigvalsh(whole), 0.0)
            share, log_ratio = likeliest_share(gammas, squares, whole, full, n)
        return Swept(
            k, pooled, full_rank, full, gammas, squares, share, log_ratio, beta, filter, r2
        )

    def _turn(self, assembled: Assembled) -> Floats:
        """(k, k) coordinates of W in which its products are those of n rows times the identity,
        over k; in sequences of such a length that prewhitened deviations, too, explain the share of
        the noise that they are said to"""
        plain = assembled.plain[:-1, :-1]
        n = self.n_windows
        turn = np.sqrt(n / len(plain)) * np.linalg.inv(np.linalg.cholesky(plain)).T
        if self._in_sequence:
            whole = _turned(assembled.products[assembled.parts[-1], assembled.parts[-1]], turn)
            turn *= np.sqrt(n / np.trace(whole))
        return np.asarray(turn)

    # ---------------------------------------------------------------- log Λ, gains and tests

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        found = self.swept(as_masks(masks, self.n_features))
        half = 0.5 * self.n_windows
        values = np.array(
            [
                -np.inf if f is None else half * np.log(f.full / f.pooled) + f.log_ratio
                for f in found
            ]
        )
        return values + self.prediction * self.gain_many(masks) if self.prediction > 0.0 else values

    def gain_many(self, masks: ArrayLike) -> Floats:
        """Of the fit to prewhitened rows, where noise is autoregressive."""
        found = self.swept(as_masks(masks, self.n_features))
        half = 0.5 * self.n_windows
        return np.array(
            [-np.inf if f is None else half * np.log(self._empty / f.pooled) for f in found]
        )

    def r2_many(self, masks: ArrayLike) -> Floats:
        return np.array(
            [np.nan if f is None else f.r2 for f in self.swept(as_masks(masks, self.n_features))]
        )

    def signal_of(self, gain: Floats) -> Floats:
        return np.asarray(self.n_windows * np.expm1(2.0 * np.maximum(gain, 0.0) / self.n_windows))

    @property
    def n_informative(self) -> int:
        return self.n_windows

    def deviation_shares(self, masks: ArrayLike) -> Floats:
        """Estimates of ω² along the variable."""
        if self.design.factors:
            return super().deviation_shares(masks)
        return np.array(
            [np.nan if f is None else f.share for f in self.swept(as_masks(masks, self.n_features))]
        )

    def null_many(self, masks: ArrayLike) -> Null:
        """Exact for factors; along a variable that of a variance which is 0, for many rows."""
        found = self.swept(as_masks(masks, self.n_features))
        n = float(self.n_windows)
        mean, variance, degrees = np.zeros((3, len(found)))
        for s, f in enumerate(found):
            if f is None:
                continue
            if f.full_rank > f.rank:
                halves = 0.5 * (n - np.array([f.rank, f.full_rank]))
                mean[s] = n * float(digamma(halves) @ [1.0, -1.0])
                variance[s] = n**2 * float(polygamma(1, halves) @ [-1.0, 1.0])
                degrees[s] = f.full_rank - f.rank
            if len(f.gammas):
                mean[s], variance[s], degrees[s] = (
                    mean[s] + _MEAN_RE,
                    variance[s] + _VARIANCE_RE,
                    degrees[s] + 1.0,
                )
        return Null.of_deviance(mean, variance, degrees)

    def tested_means(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """By the F test of factors and the score test along the variable, joined by Fisher's
        rule."""
        found = self.swept(masks)
        inside = np.array([f is not None for f in found], dtype=bool)
        kept = [f for f in found if f is not None]
        p_values = np.full(len(masks), np.nan)
        if kept:
            allowed = self.tolerated_mean(masks[inside], tolerance)
            p_values[inside] = self._joined(self._residuals(kept), self._score_test(kept), allowed)
        return p_values

    def tolerated_mean(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """(S,) noncentrality that is tolerated of coefficients"""
        return tolerance.noncentrality(
            self.signal_of(self.untilted.gain_many(masks)), self.n_windows
        )

    def _joined(self, residuals: Residuals, score: ScoreTest, allowed: Floats) -> Floats:
        """(S,) p-values of factors, along the variable given these, or of both"""
        parts = []
        if self.design.factors:
            parts.append(mean_p_values(residuals, allowed))
        if self.design.variable is not None:
            parts.append(score.p_values(allowed / self.n_windows))
        return parts[0] if len(parts) == 1 else joint_p_value(*parts)

    def _residuals(self, found: list[Swept]) -> Residuals:
        """Of the fits with factors' deviations and, last, without, as if they were an environment
        and the pool"""
        rss = np.array([(f.full, f.pooled) for f in found])
        ranks = np.array([(f.full_rank - 1, f.rank - 1) for f in found])
        return Residuals(rss, ranks, np.full(2, float(self.n_windows)), self._empty)

    def _score_test(self, found: list[Swept]) -> ScoreTest:
        gammas, squares = np.zeros((2, len(found), max((len(f.gammas) for f in found), default=0)))
        for s, f in enumerate(found):
            gammas[s, : len(f.gammas)] = f.gammas
            squares[s, : len(f.gammas)] = f.squares
        rss, rank = np.array([(f.full, f.full_rank) for f in found]).T
        return ScoreTest(gammas, squares, rss, self.n_windows - rank)

    @cached_property
    def _empty(self) -> float:
        """Residual sum of squares of the empty subset"""
        (found,) = self.swept(np.zeros((1, self.n_features), dtype=bool))
        if found is None:
            raise DataError(self._too_few(self.modulators.along.start + 2))
        return found.pooled

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        """Of factors, or along the variable: the larger one."""
        found = self.swept(as_masks(masks, self.n_features))
        inside = [s for s, f in enumerate(found) if f is not None]
        kept = [f for f in found if f is not None]
        shares = np.full((3, len(found)), np.nan)
        residuals = self._residuals(kept)
        score = self._score_test(kept)
        n = float(self.n_windows)
        parts = [f_difference(residuals, ends)] if self.design.factors else []
        if self.design.variable is not None:
            share = np.array([f.share for f in kept])
            parts.append(score_difference(score.standardised, share, n, residuals.signal, ends))
        shares[:, inside] = np.fmax.reduce(np.array(parts))
        return Difference(*shares)

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
        products, parts, *_ = self._assembled(columns)
        allowed = np.append(self.tolerated_mean(mask[None], tolerance), 0.0)
        tests = []
        own = dict(zip((factor.name for factor in self.design.factors), parts[1:], strict=False))

        def fitted(without: Collection[slice]) -> tuple[float, int]:
            """Residual sum of squares, and rank"""
            places = np.concatenate(
                [np.arange(part.start, part.stop) for part in parts[:-1] if part not in without]
            )
            kept, root = pivoted(
                products[np.ix_(places, places)], np.sqrt(np.diagonal(products)[places])
            )
            half = solve_triangular(root, products[places[kept], -1], lower=True)
            return products[-1, -1] - half @ half, len(kept)

        for name, part in own.items():
            nested = [own[inner] for inner, outer in self.design.nested if outer == name]
            (full, rank), (left, rank_left) = fitted(nested), fitted([*nested, part])
            rss = found.full, found.full + left - full
            ranks = found.full_rank - np.array([1.0, 1.0 + rank - rank_left])
            both = Residuals(
                np.tile(rss, (2, 1)), np.tile(ranks, (2, 1)), np.full(2, float(self.n_windows)), 1.0
            )
            p_values = mean_p_values(both, allowed) if rank_left < rank else np.full(2, np.nan)
            tests.append(ComponentTest(name, False, *p_values.tolist()))
        if self.design.variable is not None:
            p_values = self._score_test([found, found]).p_values(allowed / self.n_windows)
            tests.append(ComponentTest(self.design.variable.column, True, *p_values.tolist()))
        return tuple(tests)

    def curves(self, mask: Mask, points: int = 101) -> Curves:
        """Of a subset (p,): level and coefficients along the variable, as a mixed model predicts
        them, at equally many rows apart. They may deviate by the likeliest share of the noise, or
        by that which is tolerated at most."""
        assert self.design.values is not None
        (columns, found), n = self._one(mask), self.n_windows
        assembled = self._assembled(columns)
        k = len(columns) + 1
        products, parts, *_ = assembled
        turn = self._turn(assembled)
        along = parts[-1]
        # Deviations of coefficients in the coordinates in which their prior is simple.
        change = np.eye(len(products))
        change[along, along] = np.kron(turn, np.eye(N_COSINES))
        products = change.T @ products @ change
        share = max(found.share, CAP)
        fixed = slice(0, along.start)
        penalised = products[:-1, :-1] + np.diag(
            np.append(np.zeros(along.start), np.full(k * N_COSINES, 1.0 / share))
        )
        covariance = np.linalg.pinv(penalised, rcond=PIVOT_TOLERANCE, hermitian=True)
        theta = covariance @ products[:-1, -1]
        noise = (products[-1, -1] - theta @ products[:-1, -1]) / (n - found.full_rank)
        order = np.argsort(self.design.values, kind="stable")
        rows = order[np.unique(np.linspace(0, len(order) - 1, points).round().astype(int))]
        weights = np.zeros((len(rows), k, len(theta)))
        average = self.modulators.values[:, : self.modulators.along.start].mean(axis=0)
        starts = [0, *(part.start for part in self.modulators.factors)]
        for part, start in zip(parts[:-1], starts, strict=True):
            width = (part.stop - part.start) // k
            weights[:, :, part] = np.kron(np.eye(k), average[start : start + width])
        basis = self.modulators.values[rows, self.modulators.along]
        weights[:, :, along] = np.einsum("gi,rb->rgib", turn, basis).reshape(len(rows), k, -1)
        estimates = np.einsum("rgt,t->rg", weights, theta)
        errors = np.sqrt(np.einsum("rgt,tu,rgu->rg", weights, noise * covariance, weights))
        common = weights[0][:, fixed] @ theta[fixed]
        (means, sizes), names = self._units, np.array(self.features.columns, dtype=object)[columns]
        scale = sizes[-1] / np.append(1.0, sizes[columns])
        shift = np.append(means[-1], np.zeros(k - 1))
        told = estimates * scale + shift, errors * scale, common * scale + shift
        return Curves(
            ("", *names),
            self.design.values[rows],
            *told,
            self._coefficient_p_values(columns, found),
        )

    def _coefficient_p_values(self, columns: Integers, found: Swept) -> Floats:
        """(k + 1,) of the level and each coefficient, that it alone changes along the variable, by
        the score test with what its column has beyond the others"""
        products, parts, *_ = self._assembled(columns)
        k = len(columns) + 1
        fixed = parts[-1].start
        lengths = np.sqrt(np.diagonal(products))
        kept, root = pivoted(products[:fixed, :fixed], lengths[:fixed])
        half = solve_triangular(root, products[kept][:, fixed:], lower=True)
        left = products[fixed:, fixed:] - half.T @ half
        inverse = np.linalg.inv(products[:k, :k])
        own = inverse * np.sqrt(self.n_windows / np.diagonal(inverse))
        c = np.einsum(
            "gj,gbhd,hj->jbd", own, left[:-1, :-1].reshape(k, N_COSINES, k, N_COSINES), own
        )
        s = np.einsum("gj,gb->jb", own, left[:-1, -1].reshape(k, N_COSINES))
        gammas, vectors = np.linalg.eigh(c)
        squares = np.where(gammas > 0.0, np.einsum("jbd,jb->jd", vectors, s) ** 2, 0.0)
        left_over = np.full(k, found.full)
        freedom = np.full(k, float(self.n_windows - found.full_rank))
        return ScoreTest(np.maximum(gammas, 0.0), squares, left_over, freedom).p_values(np.zeros(k))

    # ---------------------------------------------------------------- spread

    @cached_property
    def _sizes(self) -> tuple[Floats, Floats, NDArray[np.intp], Floats, Floats, Floats]:
        """Of modulators in windows, for absolute residuals: values, factor of those of constant and
        factors, which of these are kept, what they take of the cosines, and eigenvalues and vectors
        of what is left"""
        values = self.modulators.values[self.windows[:, 0]]
        fixed = self.modulators.along.start
        gram = values.T @ values
        kept, root = pivoted(gram[:fixed, :fixed], np.sqrt(np.diagonal(gram)[:fixed]))
        half = solve_triangular(root, gram[kept][:, fixed:], lower=True)
        return values, root, kept, half, *np.linalg.eigh(gram[fixed:, fixed:] - half.T @ half)

    def noise(self, masks: Mask) -> Iterator[tuple[slice, Floats]]:
        """Residuals (s, n) of the common fits of subsets (S, p), prewhitened, of some subsets at a
        time"""
        used = self._used(masks)
        step = max(1, _AT_ONCE // self.data.n_rows)
        for start in range(0, len(masks), step):
            part = slice(start, min(start + step, len(masks)))
            weights = np.zeros((part.stop - start, self._columns.shape[1]))
            filters = []
            for row, (columns, found) in zip(
                weights, zip(used[part], self.swept(masks[part]), strict=True), strict=True
            ):
                assert found is not None
                row[np.append(0, 1 + np.flatnonzero(columns))] = -found.beta
                row[-1] = 1.0
                filters.append(found.filter)
            # No product of matrices: its rows round together.
            errors = np.einsum("sd,nd->sn", weights, self._columns)
            yield part, np.einsum("snq,sq->sn", errors[:, self.windows], np.array(filters))

    def spread_p_values(self, masks: Mask, tau: float) -> Floats:
        """(S,) Levene's test along the variable and between the factors"""
        p_values = np.ones(len(masks))
        n = float(self.n_windows)
        values, root, kept, half, gammas, vectors = self._sizes
        fixed = self.modulators.along.start
        for part, errors in self.noise(masks):
            sizes = np.abs(errors)
            sums = np.einsum("sn,nm->sm", sizes, values)
            squares = np.einsum("sn,sn->s", sizes, sizes)
            pooled = squares - sums[:, 0] ** 2 / n
            swept = solve_triangular(root, sums[:, kept].T, lower=True)
            full = squares - np.sum(swept**2, axis=0)
            allowed = n * tau**2 * (sums[:, 0] / n) ** 2 / (pooled / n)
            rank = np.tile([len(kept) - 1.0, 0.0], (len(sizes), 1))
            residuals = Residuals(np.column_stack([full, pooled]), rank, np.full(2, n), 1.0)
            along = ((sums[:, fixed:].T - half.T @ swept).T @ vectors) ** 2
            score = ScoreTest(
                np.tile(gammas, (len(sizes), 1)), along, full, np.full(len(sizes), n - len(kept))
            )
            p_values[part] = self._joined(residuals, score, allowed)
        return p_values

    # ---------------------------------------------------------------- fits

    def _prewhitened(self, mask: Mask) -> tuple[MultiEnvironmentData, Mask]:
        """Rows with the features of one subset (p,), filtered, and the subset there"""
        (_, found), held = self._one(mask), held_features(mask[None])
        rows = self.data.by_labels.narrowed(held)
        X, y = (
            np.einsum("nq...,q->n...", values[self.windows], found.filter)
            for values in (rows.X, rows.y)
        )
        index = rows.environment_index[self.windows[:, 0]]
        return replace(rows, X=X, y=y, environment_index=index), mask[held]

    @property
    def _in_sequence(self) -> bool:
        return self.windows.shape[1] > 1

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """In sequences slopes are those of prewhitened rows, and intercepts such that residuals
        average 0."""
        mask = as_mask(subset, self.feature_names)
        if not self._in_sequence:
            return super().fit(mask, local)
        rows, chosen = self._prewhitened(mask)
        fit = gaussian_fits.linear_fit(rows, Moments.from_data(rows), chosen, local)
        columns = np.append(
            self.moments.feature_columns[self.features.expand(mask)], self.moments.outcome
        )
        means = np.vstack([self.moments.means, self.moments.pooled_mean])[:, columns]
        slopes = np.vstack([fit.local_coefficients, fit.coefficients])
        levels = means[-len(slopes) :, -1] - np.sum(
            np.nan_to_num(slopes) * means[-len(slopes) :, :-1], axis=1
        )
        return replace(fit, intercept=float(levels[-1]), local_intercepts=levels[:-1])

    def line(self, mask: Mask) -> Fit:
        return super().fit(mask, local=False)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        mask = as_mask(subset, self.feature_names)
        if not self._in_sequence:
            return super().standard_errors(mask)
        rows, chosen = self._prewhitened(mask)
        return gaussian_fits.linear_errors(
            rows, Moments.from_data(rows), rows.features.expand(chosen)
        )

    def own_estimates(self, subset: Subset, printed: Estimates) -> None:
        """Coefficients deviate by factors and along the variable, and not by one label."""
        return

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask]:
        """By environments as tables show them, of prewhitened rows where there are sequences."""
        if not self._in_sequence:
            return self.linear, mask
        rows, chosen = self._prewhitened(mask)
        return GaussianFromMoments(rows, self.n_jobs), chosen

    # ---------------------------------------------------------------- what engines ask

    @property
    def largest_size(self) -> int:
        return largest_size(
            [self.n_windows // self.modulators.along.start], self.moments.varying_widths[-1:]
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
        ) * self.modulators.along.start + 1 > self.n_windows
        return few

    @property
    def steps_per_subset(self) -> int:
        columns = (self.features.n_columns / 2 + 1) * self.modulators.values.shape[1]
        return int(300_000 * max(1.0, (columns / 100) ** 2))

    def without(self, environment: Hashable) -> BoundModel:
        return self.of(
            self.data.choosing([label for label in self.data.environments if label != environment])
        )
