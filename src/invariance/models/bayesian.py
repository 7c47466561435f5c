"""The linear Gaussian family with marginal likelihoods: a Bayes factor replaces the ratio.

In equation 7 of the paper (Wu et al. 2025, arXiv:2506.22675) the ratio Λ(z) of maximised
likelihoods is replaced by m(y | x^z) / Π_e m(y_e | x_e^z), with m the likelihood integrated over a
conjugate prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, polygamma

from .._tools.arrays import Floats, Integers
from ..data.features import Subset, as_mask, as_masks
from ..kernels.cholesky import subset_volumes
from .base import PIVOT_TOLERANCE, EnvironmentData, Estimates, Fit, Null, check_number
from .gaussian import MomentModel
from .gaussian_fits import equally_many


def residual_law(seconds: Floats, counts: Floats, prior_rows: float) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of Σ_e ½(n_e + prior_rows)·log t_e of invariant subsets with Gaussian
    noise, t_e the residual sum of squares in environment e, regularised by the prior, over that of
    the pool.

    seconds (S, E + 1, m, m): sums of products of the m columns of each fit, the constant one
    included, in each environment and over all rows; counts (E,). First and second moments of t_e,
    quadratic forms of the noise, are exact; their logarithms are taken as those of gamma variables.
    """
    n_rows = counts.sum()
    m = seconds.shape[-1]
    share = prior_rows / n_rows
    freedom = n_rows - m
    weights = 0.5 * (counts + prior_rows)
    # In coordinates where the products of all rows are the identity.
    root = np.linalg.cholesky(seconds[:, -1])[:, None]
    half = np.swapaxes(np.linalg.solve(root, seconds[:, :-1]), -1, -2)
    spectrum, axes = np.linalg.eigh(np.linalg.solve(root, half))
    spectrum = np.clip(spectrum, 0.0, 1.0)
    forms = (axes * (share * spectrum / (spectrum + share))[..., None, :]) @ np.swapaxes(
        axes, -1, -2
    )
    kept = share * (1.0 - spectrum) / (spectrum + share)
    traces = counts - m + kept.sum(axis=-1)
    products = np.einsum("seij,sfij->sef", forms, forms)
    diagonal = np.arange(len(counts))
    products[:, diagonal, diagonal] = counts - m + (kept**2).sum(axis=-1)
    means = share * freedom + traces
    covariances = 2.0 * (
        share**2 * freedom + share * (traces[:, :, None] + traces[:, None, :]) + products
    )
    variances = covariances[:, diagonal, diagonal]
    shapes = means**2 / variances
    log_means = digamma(shapes) + np.log(variances / means)
    log_covariances = covariances / (means[:, :, None] * means[:, None, :])
    log_covariances[:, diagonal, diagonal] = polygamma(1, shapes)
    mean = log_means @ weights - weights.sum() * (digamma(freedom / 2.0) + np.log(2.0))
    spread = np.einsum("sef,e,f->s", log_covariances, weights, weights)
    return mean, spread - weights.sum() ** 2 * polygamma(1, freedom / 2.0)


_AT_ONCE = 1024


@dataclass(frozen=True)
class BayesianLinearGaussian:
    """Model a number as normal, with parameters integrated over a conjugate prior.

    Λ(z) is replaced by the Bayes factor of one fit for all environments and one for each::

        log Λ(z) = log m(all rows) − Σ_e log m(rows of e)

    It is above 0 if the data favour invariance.

    Parameters
    ----------
    prior_rows : float, default=1.0
        Weight of the prior in rows, positive: each fit is as if it had seen this many more rows
        that look like the average of all rows.

    Raises
    ------
    SettingError
        If the weight is not a positive number.

    Notes
    -----
    The prior is the same in every environment and for the pool. Coefficients of centred columns are
    Normal(b, σ² S⁻¹ N / prior_rows) with b and S those of all rows, the intercept is
    Normal(0, σ² / prior_rows), and σ² is inverse gamma with the weight of prior_rows rows at the
    residual variance of all rows.

    References
    ----------
    Zellner, A. (1986), On assessing prior distributions and Bayesian regression analysis with
    g-prior distributions, in Bayesian Inference and Decision Techniques, 233-243.

    Kass, R. E. and Raftery, A. E. (1995), Bayes factors, Journal of the American Statistical
    Association 90, 773-795, doi:10.1080/01621459.1995.10476572.

    Examples
    --------
    >>> from invariance import BIP, BayesianLinearGaussian
    >>> from invariance.datasets import make_example
    >>> BIP(BayesianLinearGaussian()).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    prior_rows: float = 1.0

    kind: ClassVar[str] = "number"
    link: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        check_number(self, "prior_rows", "weight", positive=True)

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> BayesianGaussian:
        """Tie the model to data, or to moments alone, which are all that it needs."""
        return BayesianGaussian(data, self.prior_rows)


class _Reduced(NamedTuple):
    """Hold the reduced matrices of subsets.

    n_columns (S,), log determinants (S, E + 1), last over all rows, and residuals of the outcome
    (S, E + 1); NaN outside the support.
    """

    n_columns: Integers
    volumes: Floats
    left: Floats


class BayesianGaussian(MomentModel):
    """The model tied to second moments. Over all rows the columns of a subset must be independent
    (smallest scaled pivot at least 1e-9) and leave some of the outcome; in environments they need
    not."""

    name = "Bayesian linear Gaussian"
    fits_each = False

    def __init__(self, data: EnvironmentData, prior_rows: float = 1.0) -> None:
        super().__init__(data)
        self.prior_rows = float(prior_rows)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        reduced = self._reduced(masks)
        # No product of matrices: its rows round together.
        shares = (np.log(reduced.left[:, :-1] / reduced.left[:, -1:]) * self._weights).sum(axis=1)
        ratio = self._agreement(reduced) + shares
        return np.where(np.isnan(ratio), -np.inf, ratio)

    def gain_many(self, masks: ArrayLike) -> Floats:
        gain = -0.5 * self.moments.n_rows * np.log(self._reduced(masks).left[:, -1])
        return np.where(np.isnan(gain), -np.inf, gain)

    def null_many(self, masks: ArrayLike) -> Null:
        """Approximate, and too careful in environments with hardly more rows than columns. The
        ceiling is reached by an outcome with the same fit, and as much left of it by row, in every
        environment."""
        chosen = as_masks(masks, self.n_features)
        reduced = self._reduced(masks)
        known = ~np.isnan(reduced.left[:, -1]) & (self.moments.n_environments > 1)
        mean, variance = np.zeros((2, len(chosen)))
        kept = self.features.expand(chosen) & self.moments.present[-1, self.moments.feature_columns]
        for rows, columns in equally_many(kept, known, _AT_ONCE):
            with_constant = np.insert(columns + 1, 0, 0, axis=1)
            seconds = self._seconds[
                :, with_constant[:, :, None], with_constant[:, None, :]
            ].swapaxes(0, 1)
            mean[rows], variance[rows] = residual_law(
                seconds, self.moments.counts.astype(float), self.prior_rows
            )
        known &= variance > 0.0
        agreement = self._agreement(reduced)
        expected = np.where(known, agreement + mean, -np.inf)
        variance = np.where(known, variance, 0.0)
        local = (chosen.astype(np.int64) @ self.moments.varying_widths[:-1].T + 2).sum(axis=1)
        degrees = np.where(known, local - reduced.n_columns - 2, 0.0)
        best = self._weights @ np.log(2.0 * self._weights / self.moments.n_rows)
        return Null(expected, variance, degrees, ceiling=agreement + best)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Posterior means: least squares in the pool, where the prior stands; between these and its
        own elsewhere."""
        mask = as_mask(subset, self.feature_names)
        self.require(self.log_ratio(mask) > -np.inf, mask)
        moments = self.moments
        groups = slice(0 if local else self.moments.n_environments, None)
        columns = moments.feature_columns[self.features.expand(mask)]
        y = moments.outcome
        slopes = np.array([self._slopes(matrix, columns) for matrix in self._matrices[groups]])
        gaps = np.vstack([self.moments.gaps, np.zeros(len(moments.columns))])[groups]
        seen = np.append(moments.counts / (moments.counts + self.prior_rows), 1.0)[groups]
        shift = seen * (gaps[:, y] - np.einsum("gk,gk->g", gaps[:, columns], slopes))
        intercepts = moments.pooled_mean[y] + shift - slopes @ moments.pooled_mean[columns]
        slopes[~moments.varies[groups][:, columns]] = np.nan
        names = self.features.chosen(mask).columns
        return Fit(
            names, np.nan_to_num(slopes[-1]), float(intercepts[-1]), slopes[:-1], intercepts[:-1]
        )

    def own_estimates(self, subset: Subset, printed: Estimates) -> Estimates | None:
        """Return estimates by least squares, which the prior does not shrink."""
        return super().own_estimates(subset, self.linear.estimates(subset))

    @property
    def steps_per_subset(self) -> int:
        return 30 * (self.moments.n_environments + 1)

    @cached_property
    def _weights(self) -> Floats:
        """Return half the number of rows of each local fit, with those of the prior, (E,)."""
        return 0.5 * (self.moments.counts.astype(float) + self.prior_rows)

    @cached_property
    def _matrices(self) -> Floats:
        """Return scaled scatter (E + 1, d, d) of each environment with the prior; last, of all
        rows."""
        moments = self.moments
        counts = self.moments.counts
        between = counts * self.prior_rows / (counts + self.prior_rows)
        matrices = moments.scatter.copy()
        matrices[:-1] += (
            between[:, None, None] * self.moments.gaps[:, :, None] * self.moments.gaps[:, None, :]
        )
        matrices[:-1] += self.prior_rows / moments.n_rows * moments.scatter[-1]
        return matrices * self.pooled_scale[:, None] * self.pooled_scale

    @cached_property
    def _seconds(self) -> Floats:
        """Return scaled products (E + 1, q + 1, q + 1) of a constant and the columns from pooled
        means."""
        moments = self.moments
        columns = self.moments.feature_columns
        counts = moments.group_counts
        gaps = np.vstack([self.moments.gaps[:, columns], np.zeros(len(columns))])
        scale = np.append(1.0 / np.sqrt(moments.n_rows), self.pooled_scale[columns])
        seconds = np.empty((len(counts), len(columns) + 1, len(columns) + 1))
        seconds[:, 0, 0] = counts
        seconds[:, 0, 1:] = seconds[:, 1:, 0] = counts[:, None] * gaps
        seconds[:, 1:, 1:] = moments.scatter[:, columns[:, None], columns]
        seconds[:, 1:, 1:] += counts[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        return seconds * scale[:, None] * scale

    def _reduced(self, masks: ArrayLike) -> _Reduced:
        starts, columns = self.pooled_lists(as_masks(masks, self.n_features))
        volumes, left = np.empty((2, len(starts) - 1, self.moments.n_environments + 1))
        floor = self.prior_rows / self.moments.n_rows
        subset_volumes(
            self._matrices,
            floor,
            self.moments.outcome,
            PIVOT_TOLERANCE,
            starts,
            columns,
            volumes,
            left,
        )
        return _Reduced(np.diff(starts), volumes, left)

    def _slopes(self, matrix: Floats, columns: NDArray[np.intp]) -> Floats:
        """Return coefficients (k,) of the columns in the units of the data; 0 for redundant
        columns."""
        slopes = np.zeros(len(columns))
        used = self.moments.present[-1, columns]
        inside = columns[used]
        y = self.moments.outcome
        scaled = np.linalg.solve(matrix[np.ix_(inside, inside)], matrix[inside, y])
        slopes[used] = scaled * self.pooled_scale[inside] / self.pooled_scale[y]
        return slopes

    def _agreement(self, reduced: _Reduced) -> Floats:
        """Return the part (S,) of the log Bayes factor that does not depend on the outcome."""
        n_rows = float(self.moments.n_rows)
        prior_rows = self.prior_rows
        seen = 2.0 * self._weights
        share = prior_rows / n_rows
        n_columns = reduced.n_columns
        others = len(seen) - 1
        pooled = np.log1p(n_rows / prior_rows)
        intercept = np.log(seen / prior_rows).sum() - pooled
        slopes = (reduced.volumes[:, :-1] - reduced.volumes[:, -1:]).sum(axis=1)
        slopes -= n_columns * (len(seen) * np.log(share) + pooled)
        variance = gammaln(0.5 * (n_rows + prior_rows)) - gammaln(0.5 * seen).sum()
        variance += others * (gammaln(0.5 * prior_rows) - 0.5 * prior_rows * np.log(share))
        variance -= 0.5 * (n_rows + prior_rows) * np.log1p(share)
        return np.asarray(0.5 * (intercept + slopes) + variance)
