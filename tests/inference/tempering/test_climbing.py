"""Gains of flips and exchanges, against log p(z)Λ(z) of every subset."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import InclusionPrior, LinearGaussian
from invariance.inference.base import Target
from invariance.inference.modes import _best_exchange, _flip_gains
from invariance.inference.tempering.ladders import CompiledTarget
from invariance.kernels.active_set import active_set, flip_scores, load
from twins import simulated

P = 8
PRIOR = InclusionPrior([0.3, 0.2, 0.5, 0.4, 0.1, 1.0, 0.6, 0.0], max_size=4)


@pytest.mark.parametrize("members", [[5], [0, 5], [1, 3, 5], [0, 2, 4, 5], [1, 2, 5, 6]])
def test_gains_are_differences(members: list[int]) -> None:
    data = simulated(P, (40, 50), seed=86)
    model, prior = LinearGaussian().bind(data), PRIOR.bind(data.feature_names)
    target = CompiledTarget.of(Target(model, PRIOR.bind(data.feature_names, model.largest_size)))
    state, included = active_set(3, P + 1, 6), np.zeros(P + 1, bool)
    included[members] = True

    def value(mask: np.ndarray) -> float:
        return float((model.log_ratio_many(mask[None, :P]) + prior.log_prob(mask[None, :P]))[0])

    def flipped(*columns: int) -> np.ndarray:
        other = included.copy()
        other[list(columns)] ^= True
        return other

    assert load(target.scoring, state, included)
    change = np.empty(P + 1)
    flip_scores(target.scoring, state, change)
    free = np.flatnonzero(target.prior.free)
    gains = _flip_gains(target.prior, included, change)
    np.testing.assert_allclose(gains[free], [value(flipped(j)) - value(included) for j in free], atol=1e-8)
    assert (np.delete(gains, free) == -np.inf).all()

    exchanges = {
        (out, j): value(flipped(out, j)) - value(included)
        for out in free
        for j in free
        if included[out] and not included[j]
    }
    leaving, entering, gain = _best_exchange(target.scoring, target.prior, state, included, change)
    best = max(exchanges, key=lambda pair: exchanges[pair], default=(-1, -1))
    if exchanges.get(best, 0.0) > 0.0:
        assert (leaving, entering) == best
        assert gain == pytest.approx(exchanges[best], abs=1e-8)
    else:
        assert (leaving, entering, gain) == (-1, -1, 0.0)
