"""Large subsets are decided from second moments only where every pivot is clearly above the tolerance."""

from __future__ import annotations

import numpy as np

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.kernels.cholesky import LARGE, decided_as_large, large_subset


def test_a_pivot_near_the_tolerance_is_left_to_sweeps() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, LARGE))
    X[:, -1] = X[:, :3].sum(axis=1) + 0.01 * rng.normal(size=400)
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=400), np.repeat([0, 1], 200))
    scoring, members = LinearGaussian().bind(data).scoring(), np.arange(LARGE)
    columns = np.append(members, scoring.outcome)
    scaled = scoring.scatter * scoring.inverse_scale[:, :, None] * scoring.inverse_scale[:, None, :]
    least = min(np.diag(np.linalg.cholesky(group[np.ix_(columns, columns)])).min() ** 2 for group in scaled)

    def decided(tolerance: float) -> bool:
        return decided_as_large(scoring._replace(tolerance=tolerance), members, large_subset(3, LARGE))

    assert decided(least / 2.1)
    assert not decided(least / 1.9)
    assert not decided(least / 1.1)
