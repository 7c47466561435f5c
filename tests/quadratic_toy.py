"""A conditional without any ability, whose posterior brute force knows; how the tests run
engines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from invariance import (
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    MultiEnvironmentData,
    Posterior,
    UniformPrior,
)
from invariance.data.features import Features
from invariance.inference.base import Engine, RunOptions, Target
from invariance.models.base import BoundModel, Fit, Null
from invariance.priors import Prior
from twins import all_masks


class Toy(BoundModel):
    """log Λ = −½ (z − c)'A(z − c), or −inf for subsets that hold all of `hole`."""

    name = "toy"

    def __init__(
        self, p: int, seed: int = 0, strength: float = 3.0, hole: tuple[int, ...] = ()
    ) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(p, p))
        self.curvature = strength * root.T @ root / p
        self.centre = 0.2 + (rng.random(p) < 0.4)
        self.hole = hole
        self.asked: list[np.ndarray] = []

        features = Features.single(f"x{j}" for j in range(p))
        counts = np.array([50, 50])
        super().__init__(
            SimpleNamespace(
                features=features, outcome_name="y", environments=("a", "b"), counts=counts
            )
        )

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        z = np.asarray(masks, dtype=float)
        self.asked.append(z.astype(bool))
        values = -0.5 * np.einsum("si,ij,sj->s", z - self.centre, self.curvature, z - self.centre)
        holed = z[:, self.hole].all(axis=1) if self.hole else np.zeros(len(z), dtype=bool)
        return np.where(holed, -np.inf, values)

    def gain_many(self, masks: ArrayLike) -> np.ndarray:
        raise NotImplementedError

    def null_many(self, masks: ArrayLike) -> Null:
        n = len(np.asarray(masks))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def fit(self, subset: object) -> Fit:
        raise NotImplementedError


class TwoModes(Toy):
    """Eight features all in or all out, and 20 nats between."""

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        sizes = np.asarray(masks)[:, :8].sum(axis=1)
        return np.where(sizes < 4, -0.5, 0.0) - 5.0 * np.minimum(sizes, 8 - sizes)


PRIORS = {
    "uniform": UniformPrior(),
    "max_size": UniformPrior(max_size=3),
    "beta-binomial": BetaBinomialPrior(1, 2),
    "inclusion": InclusionPrior({"x1": 1.0, "x2": 0.0, "x0": 0.8}, max_size=4),
}


def target_of(model: BoundModel, prior: object = None) -> Target:
    return Target(model, (prior or UniformPrior()).bind(model.feature_names))  # type: ignore[attr-defined]


def with_sum(data: MultiEnvironmentData) -> MultiEnvironmentData:
    """A further column, the sum of the first two"""
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def run(
    model: BoundModel,
    prior: Prior,
    engine: Engine | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Posterior:
    """By enumeration, where no engine is given"""
    target = Target(model, prior.bind(model.feature_names, model.largest_size))
    return (engine or Enumeration()).run(
        target, RunOptions(n_jobs, np.random.default_rng(seed), progress=False)
    )


class Brute(NamedTuple):
    """All subsets: masks (2**p, p), probability (2**p,), log_evidence"""

    masks: np.ndarray
    probability: np.ndarray
    log_evidence: float

    @property
    def inclusion(self) -> np.ndarray:
        return self.probability @ self.masks


def brute_force(target: Target) -> Brute:
    masks = all_masks(target.n_features)
    log_joint = target.log_joint(masks)
    evidence = float(logsumexp(log_joint))
    return Brute(masks, np.exp(log_joint - evidence), evidence)


def codes(subsets: np.ndarray) -> np.ndarray:
    return subsets @ (1 << np.arange(subsets.shape[-1]))
