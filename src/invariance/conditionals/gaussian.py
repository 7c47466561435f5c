"""What the Gaussian conditionals share: their columns, and how log Λ scatters for an invariant subset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaincc, polygamma

from ..least_squares import least_squares
from ..moments import Moments
from ..subsets import as_masks

if TYPE_CHECKING:
    from ..data import MultiEnvironmentData

Floats = NDArray[np.float64]

# Up to this many subsets are ranked by fits to the rows, as many as engines score again from them.
_MOST_FITTED = 20


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
        few = self.data is not None and len(chosen) <= _MOST_FITTED
        mean, variance = deviance_moments(self.moments.group_counts, (self.fitted_ranks if few else self.ranks)(chosen))
        known = variance > 0.0
        probability = np.ones(len(chosen))
        mean_known, variance_known = mean[known], variance[known]
        scale = variance_known / mean_known
        probability[known] = gammaincc(mean_known / scale, deviance[known] / scale)
        return Tails(np.where(known, -0.5 * mean, -np.inf), probability)

    def ranks(self, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(S, E + 1) features that vary in each environment and in the pool: the ranks of the fits of every subset that
        second moments can decide.

        Features that are constant in every environment differ between E points only, and have rank E − 1 at most.
        """
        constant = ~self.moments.varies[:, self.moments.features]
        partly = np.flatnonzero(constant.any(axis=0))
        settings = constant[:-1].all(axis=0)
        ranks = masks.sum(axis=1)[:, None] - masks[:, partly].astype(np.int64) @ constant[:, partly].T
        ranks[:, -1] -= np.maximum(masks[:, settings].sum(axis=1) - (self.moments.n_environments - 1), 0)
        return ranks

    def fitted_ranks(self, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(S, E + 1) ranks of the fits to the rows of each environment and of the pool."""
        data = self.data
        assert data is not None
        groups = [*(data.rows(e) for e in range(data.n_environments)), np.arange(data.n_rows)]
        return np.array(
            [[least_squares(data.X[np.ix_(rows, mask)], data.y[rows]).rank for rows in groups] for mask in masks],
            dtype=np.int64,
        ).reshape(len(masks), len(groups))


def deviance_moments(counts: Floats, ranks: NDArray[np.int64]) -> tuple[Floats, Floats]:
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
