"""What the Gaussian conditionals share: their columns, and how log Λ scatters for an invariant subset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaincc, polygamma

from .._tools.arrays import Floats, Integers, Mask
from ..data.subsets import as_masks
from ..moments.least_squares import least_squares
from ..moments.moments import Moments

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData


# Up to this many subsets are fitted to the rows, as many as engines score again from them.
_MOST_FITTED = 20
# Smallest eigenvalue of scaled second moments from which on rounding cannot hide a dependence.
_INDEPENDENT = 1e-9


class Tails(NamedTuple):
    """expected (S,): mean of log Λ if the subset is invariant; probability (S,): that it is then as low or lower.

    Where nothing can be said (one environment, or no degree of freedom left in one of several): -inf and 1.
    """

    expected: Floats
    probability: Floats


class GaussianConditional:
    """Base of the conditional models whose log Λ is that of linear Gaussian fits to `moments`."""

    moments: Moments
    data: MultiEnvironmentData | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.moments.feature_names

    @property
    def n_features(self) -> int:
        return self.moments.n_features

    @property
    def largest_size(self) -> int:
        return self.moments.largest_size

    def invariance_tails(self, masks: ArrayLike, log_ratios: ArrayLike) -> Tails:
        """What log Λ (S,) of the subsets in masks (S, p) says against their invariance.

        Under invariance −2 log Λ is nearly a gamma variable, and its first two moments have no unknowns: RSS/σ² is
        chi-square in every environment and in the pool, and −2 log Λ is independent of the pooled RSS.
        """
        chosen = as_masks(masks, self.n_features)
        deviance = -2.0 * np.asarray(log_ratios, dtype=float)
        mean, variance = deviance_moments(self.moments.group_counts, self.ranks(chosen))
        known = variance > 0.0
        probability = np.ones(len(chosen))
        mean_known, variance_known = mean[known], variance[known]
        scale = variance_known / mean_known
        probability[known] = gammaincc(mean_known / scale, deviance[known] / scale)
        return Tails(np.where(known, -0.5 * mean, -np.inf), probability)

    def ranks(self, masks: Mask) -> Integers:
        """(S, E + 1) ranks of the fits in each environment and in the pool.

        They are the numbers of features that vary there, as in every subset that second moments can decide. Features
        that are constant in every environment differ between E points only, and have rank E − 1 at most. A few subsets
        with other dependences are fitted to the rows where these are at hand.
        """
        constant = ~self.moments.varies[:, self.moments.features]
        partly = np.flatnonzero(constant.any(axis=0) & masks.any(axis=0))
        settings = constant[:-1].all(axis=0)
        ranks = masks.sum(axis=1)[:, None] - masks[:, partly].astype(np.int64) @ constant[:, partly].T
        ranks[:, -1] -= np.maximum(masks[:, settings].sum(axis=1) - (self.moments.n_environments - 1), 0)
        if self.data is not None and len(masks) <= _MOST_FITTED:
            for row, mask in enumerate(masks):
                if self._may_be_dependent(mask):
                    ranks[row] = _fitted_ranks(self.data, mask)
        return ranks

    def _may_be_dependent(self, mask: Mask) -> bool:
        """Whether second moments leave it open that features of a subset (p,) depend on each other in some group."""
        if not self.moments.scatter.size:
            return True
        columns = self.moments.features[mask]
        grams = self.moments.scatter[:, columns[:, None], columns]
        scales = np.sqrt(np.einsum("gjj->gj", grams))
        absent = ~self.moments.varies[:, columns]
        scales[absent] = np.inf
        scaled = grams / (scales[:, :, None] * scales[:, None, :]) + absent[:, :, None] * np.eye(len(columns))
        return bool(np.linalg.eigvalsh(scaled).min(initial=1.0) < _INDEPENDENT)


def _fitted_ranks(data: MultiEnvironmentData, mask: Mask) -> list[int]:
    """Ranks of the features of a subset (p,) in the rows of each environment and of the pool."""
    groups = [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]
    return [least_squares(data.X[np.ix_(rows, mask)], data.y[rows]).rank for rows in groups]


def deviance_moments(counts: Floats, ranks: Integers) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets, from counts (G,) of rows and ranks (S, G) of the fits in
    each environment and, last, in the pool.

    Both are 0 where some fit has no degree of freedom left, and with one environment, whose log Λ is always 0.
    """
    freedom = counts - 1.0 - ranks
    estimable = (freedom > 0.0).all(axis=1) & (len(counts) > 2)
    halves = freedom[estimable] / 2.0
    signs = np.append(-np.ones(len(counts) - 1), 1.0)
    mean, variance = np.zeros((2, len(ranks)))
    mean[estimable] = (digamma(halves) + np.log(2.0 / counts)) @ (signs * counts)
    variance[estimable] = polygamma(1, halves) @ (-signs * counts**2)
    return mean, variance
