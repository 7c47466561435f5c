"""Linear Gaussian models whose coefficients deviate at random.

Model
-----
y = Wβ + Zu + ε with W = (1, x − x̄), ε ~ Normal(0, σ²I) and u ~ Normal(0, ω²σ²I). The matrix Z says
how coefficients deviate:

- between environments, of any size: y_e = W_e(β + T u_e) + ε, with T such that (WT)'WT = N/k · I.
  Then ω² is the share of the variance of the noise that deviations explain, whatever the units and
  reference levels of the columns are. `GaussianRandomDeviations`, in this file.
- along a variable: Z = WT ⊗ B of ten cosines B of its ranks. Between crossed factors deviations are
  fixed effects, W ⊗ (their levels), and in sequences W, Z and y are prewhitened by lags.
  `StructuredDeviations`, in `varying_coefficients`.
- in the intercept alone: `moments.random_intercept`, with ψ for ω² by restricted likelihood (REML),
  where each environment has a baseline of its own.

Likelihood
----------
With V = I + ω²ZZ' the profile log-likelihood of ω² is ℓ(ω²) = −(N/2) log RSS − ½ log|V| (of the
restricted likelihood, (N − k) log RSS, and log|W'V⁻¹W| is added), RSS the weighted residual sum of
squares of generalised least squares. log Λ = ℓ(0) − max ℓ ≤ 0.

Score test
----------
Let M project onto the orthogonal complement of W, C = Z'MZ and s = Z'My. Deviations of a tolerated
share δ are swept out by C_δ = C(I + δC)⁻¹, s_δ = (I + δC)⁻¹s and RSS_δ = RSS − δs's_δ. The score
statistic is Q = s_δ's_δ/RSS_δ, a ratio of quadratic forms in ν = N − k normal variables. From t_j =
tr C_δ^j follow

    E Q = t₁/ν,  Var Q = 2(νt₂ − t₁²)/(ν²(ν + 2)),  E Q³ = (t₁³ + 6t₁t₂ + 8t₃)/(ν(ν + 2)(ν + 4)),

and a p-value by a gamma law with these three moments (Pearson III): `standardised` and
`pearson_tails` in `invariance_test`. Between environments traces are sums of k × k matrices,
compiled in `kernels.random_deviations`; along a variable C has few eigenvalues:
`score_of_spectrum`. Absolute residuals are tested in the same way for differences of the spread
(Levene's test).

Predictor
---------
Coefficients of an environment are β̂ + Tû_e with û = ω²Z'V⁻¹(y − Wβ̂) (best linear unbiased
prediction, BLUP). In a new environment the variance of w'(β + Tu) is w'(TDT' + Cov β̂)w, D with a
variance for each coefficient: `Blups.uncertainty`.

References
----------
Laird and Ware (1982), Biometrics 38, 963-974, doi 10.2307/2529876: the model and its REML by EM.
Goeman, van de Geer and van Houwelingen (2006), J. R. Stat. Soc. B 68, 477-493, doi
10.1111/j.1467-9868.2006.00551.x: the score test of a random effect.
Robinson (1991), Statist. Sci. 6, 15-32, doi 10.1214/ss/1177011926: BLUP.
Bell and McCaffrey (2002), Survey Methodology 28, 169-181: errors by leaving out clusters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

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
    DeviationProducts,
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
    Score,
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
_MAX_FIGURES_KEPT = 1 << 18
# Of fewer rows, kurtosis does not show whether noise is normal.
_ROWS_FOR_KURTOSIS = 60
# Beyond these, variances of deviations change little.
_STEPS_OF_EM = 20

FigureName = Literal["log_ratio", "share", "gain"]


def score_of_spectrum(gammas: Floats, squares: Floats, rss: Floats, freedom: Floats) -> Score:
    """Return the score test of S subsets, from eigenvalues of C and squares of s along its
    eigenvectors (S, k), 0 beyond those that there are, and residual sums of squares without
    deviations and their degrees of freedom (S,)."""

    def at(share: Floats) -> tuple[Floats, Floats]:
        shrunk = 1.0 / (1.0 + share[:, None] * gammas)
        kept = gammas * shrunk
        left = rss - share * np.sum(squares * shrunk, axis=1)
        statistic = np.sum(squares * shrunk**2, axis=1) / np.maximum(left, np.finfo(float).tiny)
        traces = (np.sum(kept**power, axis=1) for power in (1, 2, 3))
        return standardised(statistic, freedom, *traces)

    return at


class DeviationModel(GaussianModel):
    """Base of the models whose coefficients deviate at random, which takes no fits of single
    environments: by a test of the coefficients and, if the rows are at hand, Levene's test of
    the spread, joined by Fisher's rule."""

    fits_each = False

    @abstractmethod
    def figure(self, masks: ArrayLike, name: FigureName) -> Floats:
        """Return (S,) log Λ, ω² of the largest likelihood, or the gain of the pooled fit; NaN
        outside the support."""

    @abstractmethod
    def score(self, masks: Mask) -> Score:
        """Return the score test of subsets (S, p); NaN outside the support."""

    def tested_means(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """Return (S,) p-values of coefficients that differ by no more than is tolerated; NaN
        outside the support."""
        return self.mean_p_values(masks, self.tolerated_mean(masks, tolerance) / self.n_informative)

    @abstractmethod
    def noise(self, masks: Mask) -> Iterator[tuple[slice, Floats]]:
        """Yield residuals (s, n) of pooled fits of subsets (S, p) inside the support, of some
        subsets at a time."""

    @abstractmethod
    def levene(self, sizes: Floats, tau: float) -> Floats:
        """Return (s,) p-values that means of absolute residuals (s, n) differ by no more than the
        share tau of themselves."""

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        values = self.figure(masks, "log_ratio")
        values = np.where(np.isnan(values), -np.inf, values)
        return values + self.prediction * self.gain_many(masks) if self.prediction > 0.0 else values

    def gain_many(self, masks: ArrayLike) -> Floats:
        gain = self.figure(masks, "gain")
        return np.where(np.isnan(gain), -np.inf, gain)

    def deviation_shares(self, masks: ArrayLike) -> Floats:
        """Estimates of ω²."""
        return self.figure(masks, "share")

    def tolerated_mean(self, masks: Mask, tolerance: Tolerance) -> Floats:
        """Return (S,) tolerated noncentrality of the test of coefficients."""
        signal = self.signal_of(self.untilted.gain_many(masks))
        return tolerance.noncentrality(signal, self.n_informative)

    def mean_p_values(self, masks: ArrayLike, share: Floats) -> Floats:
        """Return (S,) p-values that coefficients deviate by no more than explains this share (S,)
        of the noise; NaN outside the support."""
        return score_p_values(self.score(as_masks(masks, self.n_features)), share)

    def spread_p_values(self, masks: Mask, tau: float) -> Floats:
        """Return (S,) p-values of absolute residuals, of subsets (S, p) inside the support; NaN
        without the rows."""
        found = np.full(len(masks), np.nan)
        if self.data is not None:
            for part, errors in self.noise(masks):
                found[part] = self.levene(np.abs(errors), tau)
        return found

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        chosen = as_masks(masks, self.n_features)
        share, gain = (np.nan_to_num(self.figure(chosen, name)) for name in ("share", "gain"))
        signal = self.signal_of(gain)
        return score_difference(self.score(chosen), share, self.n_informative, signal, ends)

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
        inside = ~np.isnan(mean)
        spread = np.full(len(mean), np.nan)
        spread[inside] = self.spread_p_values(masks[inside], tolerance.tau)
        joint = (
            without_spread(mean, tolerance) if self.data is None else joint_p_value(mean, spread)
        )
        each = np.full(len(mean), np.nan)
        return InvarianceTest(np.nan_to_num(mean), spread, each, np.where(inside, joint, 0.0))


class _OfAnyEnvironments(GaussianFromMoments):
    """For fits to all rows together."""

    def check_environments(self) -> None:
        """They may have a single row."""


class GaussianRandomDeviations(DeviationModel):
    """Environments of any size, from second moments; the spread of the noise is compared if the
    rows are at hand."""

    kind = "linear Gaussian, random deviations"

    judged: tuple[str, ...] = ("invariance, by random deviations,", "rho", "tau")

    def __init__(self, data: EnvironmentData, n_jobs: int | None = None) -> None:
        super().__init__(data, n_jobs)
        self._memory = Memory(_MAX_FIGURES_KEPT)
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

    # ---------------------------------------------------------------- likelihood and tests

    def figure(self, masks: ArrayLike, name: FigureName) -> Floats:
        if name == "gain":
            return self._figures(masks)[:, GAIN]
        return self._figures(masks, likelihood=True)[:, SHARE if name == "share" else LOG_RATIO]

    def null_many(self, masks: ArrayLike) -> Null:
        """Not known: log Λ is often exactly 0."""
        n = len(as_masks(masks, self.n_features))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def invariance_tails(self, masks: ArrayLike, log_ratios: ArrayLike) -> Floats:
        """By the score test"""
        return self.mean_p_values(masks, np.zeros(len(as_masks(masks, self.n_features))))

    def score(self, masks: Mask) -> Score:
        def at(share: Floats) -> tuple[Floats, Floats]:
            figures = self._figures(masks, share)
            freedom = self.n_rows - self.spent - figures[:, RANK]
            return standardised(figures[:, SCORE], freedom, *figures[:, ONE : THREE + 1].T)

        return at

    # ---------------------------------------------------------------- spread

    def noise(self, masks: Mask) -> Iterator[tuple[slice, Floats]]:
        """Environment by environment"""
        X, y, _ = self._rows_by_environment
        columns = self.moments.feature_columns
        scale = self.pooled_scale[columns] / self.pooled_scale[self.moments.outcome]
        step = max(1, _RESIDUALS_AT_ONCE // self.n_rows)
        for start in range(0, len(masks), step):
            part = slice(start, min(start + step, len(masks)))
            slopes = pooled_slopes(self._sites, *self._places(masks[part]))[:, columns + 1] * scale
            # One product for each subset: one for all would round differently with their number.
            yield part, np.array([y - own @ X for own in slopes])

    def levene(self, sizes: Floats, tau: float) -> Floats:
        """Test random deviations of the mean: K = n_e, c = Σ_e |r| − n_e · mean |r|."""
        counts = self.moments.counts.astype(float)
        n = float(self.n_rows)
        sums = self._sums(sizes)
        means = sums.sum(axis=1) / n
        scatter = np.maximum((sizes**2).sum(axis=1) - n * means**2, np.finfo(float).tiny)
        found = np.empty((4, len(sizes)))
        bound = np.zeros((2, 2, len(counts)))
        bound[0, 0] = counts
        bound[1, 1, 0] = 1.0
        shares = tau**2 * n * means**2 / scatter
        for s, share in enumerate(shares):
            bound[1, 0] = bound[0, 1] = (sums[s] - means[s] * counts) / np.sqrt(scatter[s])
            found[:, s] = score(bound, share)
        return pearson_tails(*standardised(found[0], n - 1.0, *found[1:]))

    def absolute_p_values(self, mask: Mask) -> Floats | None:
        """Return p-values (E,) of the same mean of absolute residuals of a subset (p,) in an
        environment as in all others; None without the rows."""
        if self.data is None:
            return None
        sizes = self._sizes(mask)
        n = float(self.n_rows)
        own = self.moments.counts.astype(float)
        apart = sizes - sizes.mean()
        saved = self._sums(apart) ** 2 / (own * (1.0 - own / n))
        left = np.maximum(apart @ apart - saved, np.finfo(float).tiny)
        return np.asarray(fdtrc(1.0, n - 2.0, saved / left * (n - 2.0)))

    def has_heavy_tails(self, mask: Mask, apart: int | None = None) -> bool:
        """Return whether residuals of a subset (p,) have heavier tails than normal noise.

        apart : place of the environment that deviates most: if there are enough others, so must
            have their residuals alone"""
        if self.data is None:
            return False
        sizes = self._sizes(mask)
        heavy = _excess_kurtosis(sizes) > HEAVY * np.sqrt(24.0 / self.n_rows)
        others = np.repeat(np.arange(self.n_environments) != apart, self.moments.counts)
        if apart is None or others.sum() < _ROWS_FOR_KURTOSIS:
            return bool(heavy)
        return bool(heavy and _excess_kurtosis(sizes[others]) > 0.0)

    def permuted_spread(self, mask: Mask, smallest: float) -> float:
        """Return how often permuted absolute residuals of a subset (p,) give an environment so
        small a p-value (`scatter_p_value`)."""
        places = np.repeat(np.arange(self.n_environments), self.moments.counts)
        rows = sampled_rows(places)
        return scatter_p_value(self._sizes(mask)[rows], places[rows], smallest)

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

    def _sizes(self, mask: Mask) -> Floats:
        """Return absolute residuals (N,) of a subset (p,), environment by environment."""
        ((_, errors),) = self.noise(mask[None])
        return np.abs(errors[0])

    def _sums(self, values: Floats) -> Floats:
        """Return sums (..., E) over the rows (..., N) of each environment."""
        return np.asarray(np.add.reduceat(values, self._rows_by_environment[2], axis=-1))

    @cached_property
    def _rows_by_environment(self) -> tuple[Floats, Floats, Integers]:
        """Columns (q, N) and outcome (N,) less their means, environment by environment, and the
        first row of each (E,)"""
        assert self.data is not None
        order = np.argsort(self.data.environment_index, kind="stable")
        X = self.data.X[order].T
        y = self.data.y[order]
        starts = np.cumsum(self.moments.counts) - self.moments.counts
        return np.ascontiguousarray(X - X.mean(axis=1, keepdims=True)), y - y.mean(), starts

    # ---------------------------------------------------------------- fits

    def blups(self, subset: Subset) -> Blups:
        """Return generalised least squares of a subset at the estimated ω², and the predicted
        deviations of environments."""
        mask = as_mask(subset, self.feature_names)
        share = float(self.deviation_shares(mask[None])[0])
        self.require(not np.isnan(share), mask)
        at = coordinates(self, mask)
        n, k = at.scores.shape
        V, whitened, moved = at.at(share)
        inverse = np.linalg.inv(whitened.sum(axis=0))
        b = inverse @ moved.sum(axis=0)
        freedom = float(self.n_rows - self.spent - k)
        left = at.squares.sum() - share * (at.scores * moved).sum() - b @ moved.sum(axis=0)
        scaled = float(left) / freedom
        noise = scaled * at.unit**2
        own = b + at.deviations(share, b)
        # The uncertainty of u_e given b, and the share of b's uncertainty that counts there.
        of_mean = at.jackknife(share, b)
        of_mean = scaled * inverse if of_mean is None else of_mean
        covariances = np.concatenate(
            [noise * (share * V + V @ inverse @ V), at.unit**2 * of_mean[None]]
        )
        found = at.unit * (np.vstack([own, b]) + at.pooled) @ at.basis.T
        spread = at.basis @ covariances @ at.basis.T
        errors = np.sqrt(np.einsum("eii->ei", spread))[:, 1:]
        errors[:, ~at.basis[1:].any(axis=1)] = np.nan
        at_means = np.pad(np.insert(at.gaps, 0, 1.0, axis=1), ((0, 1), (0, 0)))
        at_means[-1, 0] = 1.0
        deviations, of_estimate = at.spread(share, scaled)
        return Blups(
            coefficients=found[:, 1:],
            errors=errors,
            intercepts=at.middle + found[:, 0] - found[:, 1:] @ at.centre,
            levels=at.middle + (at_means * found).sum(axis=1),
            level_errors=np.sqrt(np.einsum("ei,eij,ej->e", at_means, spread, at_means)),
            usual=at.middle + at_means @ found[-1],
            share=share,
            noise=noise,
            freedom=freedom,
            freedom_mean=min(n - 1.0, freedom) or freedom,
            uncertainty=at.basis @ (deviations + of_estimate) @ at.basis.T,
        )

    def effects_about(self, mask: Mask, coefficients: Floats, intercept: float) -> Floats:
        """Return predicted differences (E, 1 + k) of the intercepts and coefficients of
        environments from a line on the columns (k,) of a subset (p,), from its residuals."""
        at = coordinates(self, mask)
        share = float(self.deviation_shares(mask[None])[0])
        columns = self.columns_of_mask(mask)
        level = self.n_rows * (intercept + coefficients @ at.centre - at.middle)
        onto = np.append(level, self.moments.scatter[-1][np.ix_(columns, columns)] @ coefficients)
        line = onto @ at.basis * len(at.pooled) / self.n_rows / at.unit - at.pooled
        effects = at.unit * at.deviations(share, line) @ at.basis.T
        effects[:, 0] -= effects[:, 1:] @ at.centre
        return effects

    def columns_of_mask(self, mask: Mask) -> Integers:
        """Return the columns (k,) of the moments of a subset (p,)."""
        return self.moments.feature_columns[self.features.expand(mask)]

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Generalised least squares; coefficients of an environment are its own predicted ones
        (BLUP)."""
        found = self.blups(subset)
        mask = as_mask(subset, self.feature_names)
        n_local = self.n_environments * local
        varies = self.moments.present[:n_local, self.columns_of_mask(mask)]
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
        chosen = as_masks(masks, self.n_features)
        shares = self.deviation_shares(chosen)
        found = np.full(len(chosen), np.nan)
        for s in np.flatnonzero(~np.isnan(shares) & (self.n_environments > 1)):
            at = coordinates(self, chosen[s])
            found[s] = 1.0 - at.missed_without_each(float(shares[s])).sum()
        return found

    # ---------------------------------------------------------------- moments

    @cached_property
    def _scale(self) -> Floats:
        """(d + 1,) 1 / root of the pooled sums of squares of a constant and the columns"""
        return np.append(1.0 / np.sqrt(self.n_rows), self.pooled_scale)

    @cached_property
    def _sites(self) -> DeviationProducts:
        moments = self.moments
        gaps = np.insert(moments.gaps, 0, 1.0, axis=1)
        products = np.einsum("e,ei,ej->ije", moments.counts.astype(float), gaps, gaps)
        products[1:, 1:] += np.moveaxis(moments.scatter[:-1], 0, 2)
        products *= (self._scale[:, None] * self._scale)[:, :, None]
        return DeviationProducts(
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
        used = self.features.expand(masks) & moments.present[-1, columns]
        starts, members = as_lists(np.pad(used, ((0, 0), (1, 1)), constant_values=True))
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


# ---------------------------------------------------------------- the predictor


class Coordinates(NamedTuple):
    """Of one subset of rank k, its columns and a constant in coordinates in which their pooled
    products are N/k · I: information (E, k, k), scores (E, k) and squares (E,) of what the pooled
    fit (k,) leaves of the outcome; basis (1 + m, k): the constant and the m columns of the subset,
    measured from their pooled means, times it are the coordinates; rows of a constant with free
    baselines and of columns that others give are 0. unit: root of the outcome's sum of squares,
    which is 1 here; middle and centre (m,): pooled means of the outcome and the columns, and gaps
    (E, m): the environments' means less these"""

    information: Floats
    scores: Floats
    squares: Floats
    pooled: Floats
    basis: Floats
    unit: float
    middle: float
    centre: Floats
    gaps: Floats

    def at(self, share: float) -> tuple[Floats, Floats, Floats]:
        """V = (I + share · K)⁻¹ (E, k, k), VK (E, k, k) and Vc (E, k)"""
        V = np.asarray(
            np.linalg.inv(np.eye(self.scores.shape[1]) + share * self.information), dtype=float
        )
        return V, V @ self.information, np.asarray(np.einsum("eij,ej->ei", V, self.scores))

    def deviations(self, share: float, line: Floats) -> Floats:
        """Return deviations (E, k) predicted from the residuals of a line (k,), which is given
        relative to the pooled fit."""
        V, *_ = self.at(share)
        return share * np.asarray(np.einsum("eij,ej->ei", V, self.scores - self.information @ line))

    def without_each(self, share: float) -> Floats:
        """Return (E, k) generalised least squares without each environment; NaN if the others alone
        cannot be fitted."""
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
        freedom (of clusters: Bell and McCaffrey 2002). None where one cannot be left out."""
        apart = self.without_each(share) - b
        n = len(apart)
        return (
            None if n < 2 or np.isnan(apart).any() else np.asarray((n - 1.0) / n * apart.T @ apart)
        )

    def spread(self, share: float, noise: float) -> tuple[Floats, Floats]:
        """Covariances (k, k) of the deviations of a new environment, each coefficient with its own
        variance, and of the estimate of their mean, over that of the noise (in units of the
        outcome's sum of squares): by restricted maximum likelihood, some steps of expectation and
        maximisation from ω² on (Laird and Ware 1982)"""
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
    moments = model.moments
    _, places = model._places(mask[None])
    root, used = pooled_root(sites.pooled, places, PIVOT_TOLERANCE)
    *_, left = root[-1]
    bound = np.moveaxis(residual_products(sites, root, used), 2, 0)
    columns = model.columns_of_mask(mask)
    basis = np.zeros((1 + len(columns), len(used) - 1))
    rows = np.searchsorted(columns + 1, used[:-1], side="right")
    basis[rows] = model._scale[used[:-1], None] * np.linalg.inv(root[:-1, :-1]).T
    means = moments.pooled_mean
    return Coordinates(
        bound[:, :-1, :-1],
        left * bound[:, -1, :-1],
        left**2 * bound[:, -1, -1],
        root[-1, :-1],
        basis,
        float(1.0 / model.pooled_scale[moments.outcome]),
        float(means[moments.outcome]),
        means[columns],
        moments.gaps[:, columns],
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
