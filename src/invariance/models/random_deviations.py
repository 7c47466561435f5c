"""The linear Gaussian model whose coefficients deviate at random between environments, which may
have any number of rows: log Λ compares no deviations with those of the largest likelihood, a score
test tells whether there are more than is tolerated.

y = W(β + T u_e) + ε, W = (1, x − x̄), u_e ~ Normal(0, ω²·Var ε·I), T such that ω² is the share of
the noise's variance that deviations explain, whatever the units and reference levels of the columns
are."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

from .._tools.arrays import Floats, Integers, Mask
from .._tools.text import in_quotes
from ..data.checks import rows_text
from ..data.features import Subset, as_lists, as_mask, as_masks
from ..kernels.random_deviations import (
    GAIN,
    LOG_RATIO,
    N_FIGURES,
    NOISE,
    ONE,
    RANK,
    SCORE,
    SHARE,
    THREE,
    Sites,
    deviation_figures,
    pooled_root,
    pooled_slopes,
    residual_products,
    score,
)
from .base import (
    IN_MEAN,
    PIVOT_TOLERANCE,
    BoundModel,
    EnvironmentData,
    Estimates,
    Fit,
    Level,
    Memory,
    Null,
    Remarks,
    StandardErrors,
    in_parts,
)
from .gaussian import GaussianFromMoments, GaussianModel
from .gaussian_fits import linear_errors, linear_fit
from .invariance_test import (
    HEAVY,
    Difference,
    InvarianceTest,
    Residuals,
    Tolerance,
    joint_p_value,
    pearson_tails,
    score_difference,
    score_p_values,
    smallest_p_value,
    standardised,
    without_spread,
)
from .permutation import own_coefficients_p_value, sampled_rows, scatter_p_value, score_p_value

# Numbers of a block of residuals that are held together.
_RESIDUALS_AT_ONCE = 1 << 22
# Subsets whose figures are kept: walks over the same ones are repeated at other tolerances.
_MOST_KNOWN = 1 << 18
# Of fewer rows, kurtosis does not show whether noise is normal.
_ROWS_FOR_KURTOSIS = 60
# Beyond these, variances of deviations change little.
_STEPS_OF_EM = 20


class DeviationModel(GaussianModel):
    """Base of the models whose coefficients deviate at random, which takes no fits of single
    environments: by a test of the coefficients and, where the rows are at hand, Levene's test of
    the spread, joined by Fisher's rule."""

    fits_each = False

    @abstractmethod
    def tested_means(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """(S,) p-values of coefficients that differ by no more than is tolerated; NaN outside the
        support"""

    @abstractmethod
    def spread_p_values(self, masks: Mask, tau: float) -> Floats:
        """(S,) of absolute residuals, of subsets (S, p) inside the support; NaN without the rows"""

    def tolerated_mean(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """(S,) noncentrality that is tolerated of coefficients"""
        signal = self.signal_of(self.untilted.gain_many(masks))
        return tolerance.noncentrality(signal, self.n_informative)

    def determined_by(self, mask: Mask, locally: bool, spare: int = 1) -> Integers:
        linear = _OfAnyEnvironments(self.moments, self.n_jobs)
        linear.data = self.data
        return linear.determined(mask, locally, spare)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        chosen = as_masks(masks, self.n_features)
        return self._tested(chosen, self.tested_means(chosen, tolerance), tolerance)

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        chosen = as_masks(masks, self.n_features)
        mean = self.tested_means(chosen, tolerance)
        passed = mean >= smallest_p_value(tolerance)
        passed[passed] = (
            self._tested(chosen[passed], mean[passed], tolerance).joint >= tolerance.level
        )
        return passed

    def _tested(self, masks: Mask, mean: Floats, tolerance: Tolerance) -> InvarianceTest:
        inside, (spread, each) = ~np.isnan(mean), np.full((2, len(mean)), np.nan)
        spread[inside] = self.spread_p_values(masks[inside], tolerance.tau)
        joint = (
            without_spread(mean, tolerance) if self.data is None else joint_p_value(mean, spread)
        )
        return InvarianceTest(np.nan_to_num(mean), spread, each, np.where(inside, joint, 0.0))


class _OfAnyEnvironments(GaussianFromMoments):
    """For fits to all rows together."""

    def check_environments(self) -> None:
        """They may have a single row."""


class GaussianRandomDeviations(DeviationModel):
    """Environments of any size, from second moments; the spread of the noise is compared where the
    rows are at hand."""

    kind = "linear Gaussian, random deviations"

    judged: tuple[str, ...] = ("invariance, by random deviations,", "rho", "tau")

    def __init__(self, data: EnvironmentData, n_jobs: int | None = None) -> None:
        super().__init__(data, n_jobs)
        self._memory = Memory(_MOST_KNOWN)
        if self.data is None:
            self.compares, self.judged = IN_MEAN, self.judged[:-1]

    def remarks(self, masks: ArrayLike) -> Remarks:
        told = (
            "coefficients deviate at random between environments: "
            f"{too_small_for_free(self.moments) or 'as asked'}."
        )
        unseen = (
            "how the noise's spread differs was not looked at: that takes the rows, not "
            "moments alone."
        )
        return Remarks((told,) if self.data is not None else (told, unseen))

    def of(self, data: EnvironmentData) -> GaussianRandomDeviations:
        return GaussianRandomDeviations(data, self.n_jobs)

    def check_environments(self) -> None:
        """They may have a single row."""

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return (Level.effects,) if 1 < self.n_environments < self.n_rows - 1 else ()

    def at_level(self, level: Level) -> BoundModel:
        from .free_baselines import FreeBaselineRandomDeviations

        return (
            FreeBaselineRandomDeviations(self)
            if level in self.lower_levels
            else super().at_level(level)
        )

    @property
    def spent(self) -> int:
        """Degrees of freedom that all fits take besides those of their rank."""
        return self.extra_intercepts + 1 if self.extra_intercepts else 0

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        values = self._figures(masks, likelihood=True)[:, LOG_RATIO]
        return np.where(np.isnan(values), -np.inf, values)

    def gain_many(self, masks: ArrayLike) -> Floats:
        gain = self._figures(masks)[:, GAIN]
        return np.where(np.isnan(gain), -np.inf, gain)

    def null_many(self, masks: ArrayLike) -> Null:
        """Not known: log Λ is often exactly 0."""
        n = len(as_masks(masks, self.n_features))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def invariance_tails(self, masks: ArrayLike, log_ratios: ArrayLike) -> Floats:
        """By the score test"""
        return self.mean_p_values(masks, np.zeros(len(as_masks(masks, self.n_features))))

    def deviation_shares(self, masks: ArrayLike) -> Floats:
        """Estimates of ω²."""
        return self._figures(masks, likelihood=True)[:, SHARE]

    def mean_p_values(self, masks: ArrayLike, share: Floats) -> Floats:
        """(S,) that coefficients deviate by no more than explains this share (S,) of the noise; NaN
        outside the support"""
        return score_p_values(lambda each: self._score(masks, each), share)

    def _score(self, masks: ArrayLike, share: Floats) -> tuple[Floats, Floats]:
        figures = self._figures(masks, share)
        freedom = self.n_rows - self.spent - figures[:, RANK]
        return standardised(figures[:, SCORE], freedom, *figures[:, ONE : THREE + 1].T)

    def tested_means(self, masks: Mask, tolerance: Tolerance) -> Floats:
        return self.mean_p_values(masks, self.tolerated_mean(masks, tolerance) / self.n_rows)

    def spread_p_values(self, masks: Mask, tau: float) -> Floats:
        """(S,) of Levene's test: random deviations of the mean of absolute residuals; NaN without
        the rows"""
        found = np.full(len(masks), np.nan)
        if self.data is None:
            return found
        at_once = max(1, _RESIDUALS_AT_ONCE // self.n_rows)
        for start in range(0, len(masks), at_once):
            part = slice(start, start + at_once)
            sums, squares = self._absolute_residuals(masks[part])
            found[part] = levene_p_values(sums, squares, self.moments.counts.astype(float), tau)
        return found

    def absolute_p_values(self, mask: Mask) -> Floats | None:
        """Return p-values (E,) of the same mean of absolute residuals of a subset (p,) in an
        environment as in all others; None without the rows."""
        if self.data is None:
            return None
        (sums,), (squares,) = self._absolute_residuals(mask[None])
        n = float(self.n_rows)
        own = self.moments.counts.astype(float)
        gaps = sums - sums.sum() * own / n
        saved = gaps**2 / (own * (1.0 - own / n))
        left = np.maximum(squares - sums.sum() ** 2 / n - saved, np.finfo(float).tiny)
        return np.asarray(fdtrc(1.0, n - 2.0, saved / left * (n - 2.0)))

    def has_heavy_tails(self, mask: Mask, apart: int | None = None) -> bool:
        """Return whether residuals of a subset (p,) have heavier tails than normal noise.

        apart : place of the environment that deviates most: if there are enough others, so must
            have their residuals alone"""
        if self.data is None:
            return False
        sizes = self._absolutes(mask[None])[0]
        heavy = _excess_kurtosis(sizes) > HEAVY * np.sqrt(24.0 / self.n_rows)
        others = np.repeat(np.arange(self.n_environments) != apart, self.moments.counts)
        if apart is None or others.sum() < _ROWS_FOR_KURTOSIS:
            return bool(heavy)
        return bool(heavy and _excess_kurtosis(sizes[others]) > 0.0)

    def permuted_spread(self, mask: Mask, smallest: float) -> float:
        """Return how often permuted absolute residuals of a subset (p,) give an environment so
        small a p-value (`scatter_p_value`)."""
        (sizes,) = self._absolutes(mask[None])
        places = np.repeat(np.arange(self.n_environments), self.moments.counts)
        rows = sampled_rows(places)
        return scatter_p_value(sizes[rows], places[rows], smallest)

    def permuted_coefficients(self, mask: Mask, smallest: float) -> float:
        """Return how often permuted residuals of a subset (p,) give the coefficients of an
        environment so small a p-value (`own_coefficients_p_value`)."""
        return own_coefficients_p_value(
            *self._sampled(mask), smallest=smallest, within=self.extra_intercepts > 0
        )

    def permuted_score(self, mask: Mask) -> float:
        """Return how often permuted residuals of a subset (p,) deviate as much as the data
        (`score_p_value`)."""
        return score_p_value(*self._sampled(mask), within=self.extra_intercepts > 0)

    def _sampled(self, mask: Mask) -> tuple[Floats, Floats, Integers]:
        """Return columns, outcome and environments of the rows that are permuted."""
        assert self.data is not None
        rows = sampled_rows(self.data.environment_index)
        X = self.data.X[np.ix_(rows, self.features.expand(mask))]
        return X, self.data.y[rows], self.data.environment_index[rows]

    def _absolute_residuals(self, masks: Mask) -> tuple[Floats, Floats]:
        """Sums (S, E) of the absolute residuals of pooled fits of subsets (S, p), and of their
        squares (S,)"""
        absolute = self._absolutes(masks)
        starts = self._rows_by_environment[2]
        return np.add.reduceat(absolute, starts, axis=1), (absolute**2).sum(axis=1)

    def _absolutes(self, masks: Mask) -> Floats:
        """Return absolute residuals (S, N) of pooled fits of subsets (S, p), environment by
        environment."""
        X, y, _ = self._rows_by_environment
        columns = self.moments.feature_columns
        slopes = pooled_slopes(self._sites, *self._places(masks))[:, columns + 1]
        slopes *= self.pooled_scale[columns] / self.pooled_scale[self.moments.outcome]
        # One product for each subset: one for all would round differently with their number.
        return np.abs(y - np.array([own @ X for own in slopes]).reshape(len(slopes), len(y)))

    @cached_property
    def _rows_by_environment(self) -> tuple[Floats, Floats, Integers]:
        """Columns (q, N) and outcome (N,) less their means, environment by environment, and where
        each begins (E,)"""
        assert self.data is not None
        order = np.argsort(self.data.environment_index, kind="stable")
        X = self.data.X[order].T
        y = self.data.y[order]
        starts = np.concatenate([[0], np.cumsum(self.moments.counts)[:-1]])
        return np.ascontiguousarray(X - X.mean(axis=1, keepdims=True)), y - y.mean(), starts

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        chosen = as_masks(masks, self.n_features)
        figures = self._figures(chosen, likelihood=True)
        inside = ~np.isnan(figures[:, SHARE])
        share, gain = (np.where(inside, figures[:, which], 0.0) for which in (SHARE, GAIN))
        signal = np.where(inside, self.signal_of(gain), 0.0)
        return score_difference(
            lambda each: self._score(chosen, each), share, self.n_rows, signal, ends
        )

    # ---------------------------------------------------------------- fits

    def blups(self, subset: Subset) -> Blups:
        """Generalised least squares of a subset at the estimated ω², and the predicted deviations
        of environments."""
        mask = as_mask(subset, self.feature_names)
        share = float(self.deviation_shares(mask[None])[0])
        self.require(not np.isnan(share), mask)
        return blups_of(self, mask, share)

    def effects_about(self, mask: Mask, coefficients: Floats, intercept: float) -> Floats:
        """(E, 1 + k) by what intercept and coefficients of environments differ from a line on the
        columns (k,) of a subset (p,), predicted from what this line leaves"""
        moments = self.moments
        at = coordinates(self, mask)
        y = moments.outcome
        columns = moments.feature_columns[self.features.expand(mask)]
        middle = moments.pooled_mean
        unit = 1.0 / self.pooled_scale[y]
        n = self.n_rows
        level = n * (intercept + coefficients @ middle[columns] - middle[y])
        onto = np.append(level, moments.scatter[-1][np.ix_(columns, columns)] @ coefficients)
        line = onto @ at.basis * len(at.pooled) / n - unit * at.pooled
        share = float(self.deviation_shares(mask[None])[0])
        effects = unit * at.deviations(share, line / unit) @ at.basis.T
        effects[:, 0] -= effects[:, 1:] @ middle[columns]
        return effects

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Generalised least squares; coefficients of an environment are its own predicted ones
        (BLUP)."""
        found = self.blups(subset)
        mask = as_mask(subset, self.feature_names)
        n_local = self.n_environments * local
        varies = self.moments.present[
            :n_local, self.moments.feature_columns[self.features.expand(mask)]
        ]
        each = np.where(varies, found.coefficients[:n_local], np.nan), found.intercepts[:n_local]
        columns = self.features.chosen(mask).columns
        return Fit(columns, found.coefficients[-1], float(found.intercepts[-1]), *each)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        found = self.blups(subset)
        freedom = np.full(len(found.errors), found.freedom)
        freedom[-1] = found.freedom_mean
        return StandardErrors(found.errors, freedom)

    def own_estimates(self, subset: Subset, printed: Estimates) -> Estimates | None:
        """By least squares in each environment, with one noise variance: small ones could not
        estimate theirs."""
        mask = as_mask(subset, self.feature_names)
        fit = linear_fit(self.data, self.moments, mask)
        errors = linear_errors(
            self.data, self.moments, self.features.expand(mask), common_noise=True
        )
        values = np.vstack([fit.local_coefficients, fit.coefficients])
        own = printed._replace(values=values, errors=errors.values, freedom=errors.freedom)
        return super().own_estimates(mask, own)

    # ---------------------------------------------------------------- what engines ask

    @property
    def steps_per_subset(self) -> int:
        return int(60 * self.n_environments * (1.0 + 0.5 * self.features.n_columns))

    def ranks(self, masks: Mask) -> Integers:
        """(S, 1) of the pooled fits"""
        return self._figures(masks)[:, [RANK]].astype(np.int64) - 1

    def residuals(self, masks: Mask) -> Residuals:
        """Of the pooled fits alone."""
        figures = self._figures(masks)
        y = self.moments.outcome
        total = float(self.moments.scatter[-1, y, y])
        rss = total * np.exp(-2.0 * figures[:, [GAIN]] / self.n_rows)
        return Residuals(rss, figures[:, [RANK]] - 1.0, self.moments.group_counts[-1:], total)

    # ---------------------------------------------------------------- new environments

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        """Noise, and what deviations add to it."""
        figures = self._figures(masks, likelihood=True)
        y = self.moments.outcome
        risk = self.moments.scatter[-1, y, y] * figures[:, NOISE] * (1.0 + figures[:, SHARE])
        return np.where(np.isnan(risk), np.inf, risk)

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        """By generalised least squares to the other environments, at the ω² of all."""
        found = np.full(len(as_masks(masks, self.n_features)), np.nan)
        for s, mask in enumerate(as_masks(masks, self.n_features)):
            share = float(self.deviation_shares(mask[None])[0])
            if not np.isnan(share) and self.n_environments > 1:
                found[s] = 1.0 - coordinates(self, mask).missed_without_each(share).sum()
        return found

    @cached_property
    def _scale(self) -> Floats:
        """(d + 1,) 1 / root of the pooled sums of squares of a constant and the columns"""
        return np.append(1.0 / np.sqrt(self.n_rows), self.pooled_scale)

    @cached_property
    def _sites(self) -> Sites:
        moments = self.moments
        gaps = np.insert(moments.gaps, 0, 1.0, axis=1)
        products = np.einsum("e,ei,ej->ije", moments.counts.astype(float), gaps, gaps)
        products[1:, 1:] += np.moveaxis(moments.scatter[:-1], 0, 2)
        products *= (self._scale[:, None] * self._scale)[:, :, None]
        return Sites(
            products,
            products.sum(axis=2),
            moments.outcome + 1,
            self.n_rows,
            self.spent,
            PIVOT_TOLERANCE,
        )

    def _places(self, masks: Mask) -> tuple[Integers, Integers]:
        """Places in the products of the constant, the columns of subsets (S, p) and the outcome, as
        lists"""
        moments = self.moments
        columns = moments.feature_columns
        always = np.ones((len(masks), 1), dtype=bool)
        used = self.features.expand(masks) & moments.present[-1, columns]
        starts, members = as_lists(np.hstack([always, used, always]))
        return starts, np.concatenate([[0], columns + 1, [moments.outcome + 1]])[members]

    def _figures(
        self, masks: ArrayLike, share: Floats | None = None, likelihood: bool = False
    ) -> Floats:
        """(S, 9) of `deviation_figures`; those of the likelihood are remembered."""
        chosen = as_masks(masks, self.n_features)
        if likelihood:
            rows = self._memory.of(chosen, lambda new: self._computed(new, None, True))
            return np.array(rows).reshape(-1, N_FIGURES)
        return self._computed(chosen, share, False)

    def _computed(self, masks: Mask, share: Floats | None, likelihood: bool) -> Floats:
        asked = np.full(len(masks), np.nan) if share is None else np.asarray(share, dtype=float)
        out = np.empty((len(masks), N_FIGURES))

        def one(part: slice) -> None:
            lists = self._places(masks[part])
            deviation_figures(self._sites, *lists, asked[part], likelihood, out[part])

        in_parts(len(masks), self.n_jobs, one, fewest=64)
        return out


def _excess_kurtosis(residuals: Floats) -> float:
    """Return the excess kurtosis of residuals (n,) with mean 0, or of their sizes."""
    squares = residuals**2
    return float((squares**2).mean() / squares.mean() ** 2) - 3.0


# Free deviations of so many features, or of all if these are fewer, must leave every environment a
# degree of freedom, and take no more than this share of all rows; else deviations are random.
FREE_FEATURES = 8
FREE_SHARE = 0.25


def too_small_for_free(data: EnvironmentData) -> str:
    """Why environments, three or more, have too few rows for fits of their own; empty where they
    have enough."""
    columns = min(data.features.n_columns, FREE_FEATURES)
    counts = np.asarray(data.counts)
    needed = columns + 2
    e = int(np.argmin(counts))
    spent = (columns + 1) * (len(counts) - 1) / counts.sum()
    fits = f"of {columns} column{'' if columns == 1 else 's'}"
    if len(counts) > 2 and counts[e] < needed:
        return (
            f"{in_quotes(data.environments[e])} has {rows_text(int(counts[e]))}, and a fit "
            f"{fits} takes {needed}"
        )
    taken = f"fits {fits} in each would take {spent:.0%} of the degrees of freedom"
    return taken if len(counts) > 2 and spent > FREE_SHARE else ""


def levene_p_values(sums: Floats, squares: Floats, counts: Floats, tau: float) -> Floats:
    """(S,) that means of absolute residuals differ between environments by no more than the share
    tau of themselves, from their sums (S, E), sums of squares (S,) and counts (E,) of rows"""
    n = counts.sum()
    means = sums.sum(axis=1) / n
    scatter = np.maximum(squares - n * means**2, np.finfo(float).tiny)
    bound = np.zeros((len(sums), 2, 2, len(counts)))
    bound[:, 0, 0] = counts
    bound[:, 1, 0] = bound[:, 0, 1] = (sums - np.outer(means, counts)) / np.sqrt(scatter)[:, None]
    bound[:, 1, 1, 0] = 1.0
    shares = tau**2 * n * means**2 / scatter
    statistic, *traces = np.array([score(*each) for each in zip(bound, shares, strict=True)]).T
    return pearson_tails(*standardised(statistic, n - 1.0, *traces))


class Coordinates(NamedTuple):
    """Of one subset of rank k, its columns and a constant in coordinates in which their pooled
    products are N/k · I: information (E, k, k), scores (E, k) and squares (E,) of what the pooled
    fit (k,) leaves of the outcome; basis (1 + m, k): the constant and the m columns of the subset,
    measured from their pooled means, times it are the coordinates; rows of a constant with free
    baselines and of columns that others give are 0"""

    information: Floats
    scores: Floats
    squares: Floats
    pooled: Floats
    basis: Floats

    def at(self, share: float) -> tuple[Floats, Floats, Floats]:
        """V = (I + share · K)⁻¹ (E, k, k), VK (E, k, k) and Vc (E, k)"""
        V = np.asarray(
            np.linalg.inv(np.eye(self.scores.shape[1]) + share * self.information), dtype=float
        )
        return V, V @ self.information, np.asarray(np.einsum("eij,ej->ei", V, self.scores))

    def deviations(self, share: float, line: Floats) -> Floats:
        """(E, k) predicted from what a line (k,), about the pooled fit, leaves"""
        V, *_ = self.at(share)
        return share * np.asarray(np.einsum("eij,ej->ei", V, self.scores - self.information @ line))

    def without_each(self, share: float) -> Floats:
        """(E, k) generalised least squares without each environment; NaN where the others alone
        cannot be fitted"""
        _, whitened, moved = self.at(share)
        left = whitened.sum(axis=0) - whitened
        values = np.linalg.eigvalsh(left)
        possible = (values[:, :1] > PIVOT_TOLERANCE * values[:, -1:]).all(axis=1)
        found = np.full(moved.shape, np.nan)
        rest = (moved.sum(axis=0) - moved)[possible]
        found[possible] = np.linalg.solve(left[possible], rest[:, :, None])[:, :, 0]
        return found

    def missed_without_each(self, share: float) -> Floats:
        """(E,) squared errors in each environment of the fit to all others, in units of the
        outcome's sum of squares; NaN where these have too few rows"""
        b = self.without_each(share)
        fitted = np.einsum("ei,eij,ej->e", b, self.information, b)
        return np.asarray(self.squares - 2.0 * (b * self.scores).sum(axis=1) + fitted)

    def jackknife(self, share: float, b: Floats) -> Floats | None:
        """(k, k) covariance of generalised least squares b (k,), by leaving out each environment in
        turn: right however coefficients deviate, and for few environments with E − 1 degrees of
        freedom (of clusters: Bell and McCaffrey 2002, Survey Methodology 28, 169-181). None where
        one cannot be left out."""
        apart = self.without_each(share) - b
        n = len(apart)
        return (
            None if n < 2 or np.isnan(apart).any() else np.asarray((n - 1.0) / n * apart.T @ apart)
        )

    def spread(self, share: float, noise: float) -> tuple[Floats, Floats]:
        """Covariances (k, k) of the deviations of a new environment, each coefficient with its own
        variance, and of the estimate of their mean, over that of the noise (in units of the
        outcome's sum of squares): by restricted maximum likelihood, some steps of expectation and
        maximisation from ω² on (Laird and Ware 1982, doi 10.2307/2529876)"""
        K = self.information
        c = self.scores
        k = self.scores.shape[1]
        deviations = share * np.eye(k)
        for step in range(_STEPS_OF_EM + 1):
            V = np.linalg.inv(np.eye(k) + deviations @ K)
            whitened = K @ V
            moved = np.einsum("eji,ej->ei", V, c)
            inverse = np.linalg.inv(whitened.sum(axis=0))
            if step == _STEPS_OF_EM or share == 0.0:
                break
            own = (moved - whitened @ (inverse @ moved.sum(axis=0))) @ deviations
            carried = deviations @ whitened
            unknown = V @ deviations + carried @ inverse @ np.swapaxes(carried, 1, 2)
            deviations = (own.T @ own / noise + unknown.sum(axis=0)) / len(c)
            deviations = 0.5 * (deviations + deviations.T)
        return deviations, inverse


def coordinates(model: GaussianRandomDeviations, mask: Mask) -> Coordinates:
    sites = model._sites
    _, places = model._places(mask[None])
    root, used = pooled_root(sites.pooled, places, PIVOT_TOLERANCE)
    *_, left = root[-1]
    bound = np.moveaxis(residual_products(sites, root, used), 2, 0)
    columns = model.moments.feature_columns[model.features.expand(mask)]
    basis = np.zeros((1 + len(columns), len(used) - 1))
    rows = np.searchsorted(columns + 1, used[:-1], side="right")
    basis[rows] = model._scale[used[:-1], None] * np.linalg.inv(root[:-1, :-1]).T
    return Coordinates(
        bound[:, :-1, :-1],
        left * bound[:, -1, :-1],
        left**2 * bound[:, -1, -1],
        root[-1, :-1],
        basis,
    )


class Blups(NamedTuple):
    """Of k columns in E environments and, last, of a new one: coefficients and their standard
    errors (E + 1, k), 0 and NaN for columns that others give; intercepts (E + 1,); levels and their
    errors (E + 1,): what is expected at the means of an environment's own columns, and usual, by
    the coefficients of a new one; share: ω²; noise: Var ε; freedom: its degrees of freedom. Errors
    of an environment are those of predicting its own coefficients; of the new one those of the
    mean, by leaving out each environment, or by ω² where one cannot be left out; freedom_mean: of
    these. uncertainty (1 + k, 1 + k): w'·it·w · Var ε is the variance of what is predicted in a new
    environment at w = (1, x − x̄), from how environments deviate, each coefficient by itself, and
    from the estimate of their mean"""

    coefficients: Floats
    errors: Floats
    intercepts: Floats
    levels: Floats
    level_errors: Floats
    usual: Floats
    share: float
    noise: float
    freedom: float
    freedom_mean: float
    uncertainty: Floats


def blups_of(model: GaussianRandomDeviations, mask: Mask, share: float) -> Blups:
    """Of a subset (p,) where deviations explain this share of the noise's variance."""
    moments = model.moments
    at = coordinates(model, mask)
    columns = moments.feature_columns[model.features.expand(mask)]
    y = moments.outcome
    n, k = at.scores.shape
    V, whitened, moved = at.at(share)
    inverse = np.linalg.inv(whitened.sum(axis=0))
    b = inverse @ moved.sum(axis=0)
    freedom = float(model.n_rows - model.spent - k)
    left = at.squares.sum() - share * (at.scores * moved).sum() - b @ moved.sum(axis=0)
    unit = 1.0 / model.pooled_scale[y]
    scaled = float(left) / freedom
    noise = scaled * unit**2
    own = b + at.deviations(share, b)
    # What the data leave open of u_e where b is known, and what b, as far as it counts there,
    # leaves open.
    of_mean = at.jackknife(share, b)
    of_mean = scaled * inverse if of_mean is None else of_mean
    covariances = np.concatenate([noise * (share * V + V @ inverse @ V), unit**2 * of_mean[None]])
    found = unit * (np.vstack([own, b]) + at.pooled) @ at.basis.T
    spread = at.basis @ covariances @ at.basis.T
    errors = np.sqrt(np.einsum("eii->ei", spread))[:, 1:]
    errors[:, ~at.basis[1:].any(axis=1)] = np.nan
    at_means = np.ones((n + 1, 1 + len(columns)))
    at_means[:, 1:] = np.vstack([moments.gaps[:, columns], np.zeros(len(columns))])
    deviations, of_estimate = at.spread(share, scaled)
    middle = float(moments.pooled_mean[y])
    return Blups(
        coefficients=found[:, 1:],
        errors=errors,
        intercepts=middle + found[:, 0] - found[:, 1:] @ moments.pooled_mean[columns],
        levels=middle + (at_means * found).sum(axis=1),
        level_errors=np.sqrt(np.einsum("ei,eij,ej->e", at_means, spread, at_means)),
        usual=middle + at_means @ found[-1],
        share=share,
        noise=noise,
        freedom=freedom,
        freedom_mean=min(n - 1.0, freedom) or freedom,
        uncertainty=at.basis @ (deviations + of_estimate) @ at.basis.T,
    )
