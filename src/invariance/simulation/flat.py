"""Data whose outcome and causes no environment touches: many subsets are invariant, and one of them predicts best.

The paper has no such data. They are for the second question, which features to predict with.
"""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import SettingError
from .presets import signed
from .structural import StructuralModel

# 4 causes, 3 descendants and 2 siblings
FEWEST_FEATURES = 9
P_HIT = 0.6


def flat(n_environments: int, rng: np.random.Generator, p: int = 10) -> StructuralModel:
    """2 to 4 causes, 2 or 3 descendants of the outcome, 2 siblings; the other features are irrelevant.

    causes : linear Gaussian among themselves, coefficients ±U[0.25, 0.75], noise of variance 1
    outcome : coefficients ±U[0.5, 1.5] on the causes, noise of deviation U[0.5, 1.2]
    descendants : ±U[0.5, 1.5] times the outcome, half of them plus 0.5 times a cause, noise of deviation U[0.5, 1.2]
    siblings : ±U[0.5, 1.5] times every cause, noise of deviation U[0.3, 0.8]
    irrelevant : Normal(m, 1) with an m ~ Normal(0, 1) of its own in each environment

    Every environment after the first hits each descendant and sibling with probability 0.6: its mean moves by
    Normal(0, 4²), its coefficients are multiplied by one U[−1, 1.5] and its noise's deviation by U[0.5, 2].
    Causes and outcome are never touched, so that no environment tells the subsets of the causes apart. The truth is
    the best predictor among the invariant subsets once each descendant has been hit.
    """
    if p < FEWEST_FEATURES or n_environments < 1:
        raise SettingError(f"p={p} must be at least {FEWEST_FEATURES} and n_environments={n_environments} at least 1.")
    n_causes, n_descendants = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    shuffled = rng.permutation(p)
    causes, followers, irrelevant = np.split(shuffled, [n_causes, n_causes + n_descendants + 2])
    descendants, siblings = np.split(followers, [n_descendants])
    coefficients, deviations = np.zeros((p + 1, p + 1)), np.ones(p + 1)

    for k, cause in enumerate(causes):
        coefficients[cause, causes[:k]] = _coefficients(rng, 0.25, 0.75, k)
    coefficients[p, causes] = _coefficients(rng, 0.5, 1.5, n_causes)
    deviations[p] = rng.uniform(0.5, 1.2)
    coefficients[descendants, p] = _coefficients(rng, 0.5, 1.5, n_descendants)
    mixed = descendants[rng.random(n_descendants) < 0.5]
    coefficients[mixed, rng.choice(causes, len(mixed))] = 0.5
    deviations[descendants] = rng.uniform(0.5, 1.2, n_descendants)
    coefficients[np.ix_(siblings, causes)] = _coefficients(rng, 0.5, 1.5, (2, n_causes))
    deviations[siblings] = rng.uniform(0.3, 0.8, 2)

    everywhere = np.repeat(coefficients[None], n_environments, axis=0)
    scales = np.repeat(deviations[None], n_environments, axis=0)
    intercepts = np.zeros((n_environments, p + 1))
    intervened = np.zeros((n_environments, p), dtype=bool)
    intercepts[0, irrelevant] = rng.standard_normal(len(irrelevant))
    for e in range(1, n_environments):
        hit = followers[rng.random(len(followers)) < P_HIT]
        intercepts[e, hit] = rng.normal(0.0, 4.0, len(hit))
        everywhere[e, hit] *= rng.uniform(-1.0, 1.5, (len(hit), 1))
        scales[e, hit] *= rng.uniform(0.5, 2.0, len(hit))
        intercepts[e, irrelevant] = rng.standard_normal(len(irrelevant))
        intervened[e, hit] = intervened[e, irrelevant] = True
    ordering = np.concatenate([causes, [p], followers, irrelevant])
    return StructuralModel(ordering, everywhere, intercepts, scales**2, intervened)


def _coefficients(rng: np.random.Generator, low: float, high: float, shape: int | tuple[int, ...]) -> Floats:
    return signed(rng, rng.uniform(low, high, shape))
