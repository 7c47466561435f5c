"""What the Gaussian conditionals share: their columns, and whether a subset is invariant at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, digamma

from ..moments import Moments

_FAR_FROM_INVARIANT = 1e-9


class GaussianConditional:
    """Base of the conditional models whose log Λ is that of linear Gaussian fits to `moments`."""

    moments: Moments

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.moments.feature_names

    @property
    def n_features(self) -> int:
        return self.moments.n_features

    @property
    def largest_size(self) -> int:
        return self.moments.largest_size

    def expected_log_ratio(self, size: int) -> float:
        """Mean of log Λ of an invariant subset of `size` features: RSS/σ² is chi-square with n − size − 1 degrees.

        About −(E − 1)(size + 2)/2 in large environments, lower in small ones.
        """
        counts = self.moments.group_counts
        means = 0.5 * counts * (digamma((counts - size - 1) / 2) + np.log(2.0 / counts))
        return float(means[:-1].sum() - means[-1])

    def judgement(self, mask: ArrayLike, log_ratio: float) -> str | None:
        """A sentence when log Λ of the subset is far below what an invariant one of its size would have, else None.

        −2 log Λ of an invariant subset, scaled to its exact mean, is about chi-square with (|z| + 2)(E − 1) degrees of
        freedom (Bartlett 1937); "far" is a tail probability under 1e-9.
        """
        size = int(np.sum(mask))
        degrees = (size + 2) * (self.moments.n_environments - 1)
        if degrees == 0 or log_ratio == -np.inf:
            return None
        expected = self.expected_log_ratio(size)
        if chdtrc(degrees, degrees * log_ratio / expected) > _FAR_FROM_INVARIANT:
            return None
        return (
            f"even the most probable subset is far from invariant: its log ratio is {log_ratio:.1f}, where about "
            f"{expected:.1f} is expected. The environments differ in ways that these features cannot account for in a "
            "linear Gaussian model, and the probabilities only rank subsets that all fail."
        )
