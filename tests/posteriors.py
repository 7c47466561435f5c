"""Small posteriors made by plain numpy enumeration, and what the tests of Posterior share."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from invariance.posterior import Posterior

JSON_ARRAYS = ("inclusion", "pairwise", "masks", "log_ratios", "log_probabilities", "counts")
JSON_PLAIN = (
    *("feature_names", "log_evidence", "entropy", "n_subsets", "engine", "prior", "outcome_name"),
    *("environments", "notes", "diagnostics", "model", "kind"),
)


def all_masks(p: int) -> NDArray[np.bool_]:
    return np.array(list(itertools.product([False, True], repeat=p)), dtype=bool)


def enumerate_posterior(
    log_ratios: ArrayLike, keep: int | None = None, **changes: Any
) -> Posterior:
    """Uniform prior over all subsets of p features; log_ratios (2**p,) follow `all_masks`."""
    log_ratios = np.asarray(log_ratios, dtype=float)
    p = int(math.log2(len(log_ratios)))
    masks = all_masks(p)
    weights = np.exp(log_ratios - log_ratios.max())
    probabilities = weights / weights.sum()
    positive = probabilities[probabilities > 0]
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(probabilities)
    order = np.argsort(-probabilities, kind="stable")[:keep]
    arguments: dict[str, Any] = {
        "feature_names": tuple(f"x{j}" for j in range(p)),
        "inclusion": probabilities @ masks,
        "pairwise": (masks * probabilities[:, None]).T @ masks.astype(float),
        "masks": masks[order],
        "log_ratios": log_ratios[order],
        "log_probabilities": log_probabilities[order],
        "log_evidence": math.log(weights.mean()) + log_ratios.max(),
        "entropy": float(-(positive * np.log(positive)).sum()),
        "n_subsets": 2**p,
        "engine": "exact enumeration",
        "prior": "uniform over all subsets",
        "outcome_name": "y",
        "environments": ("a", "b", "c"),
        "counts": np.array([40, 50, 1060]),
    }
    return Posterior(**(arguments | changes))


def random_posterior(seed: int, p: int = 4, scale: float = 3.0, **changes: Any) -> Posterior:
    return enumerate_posterior(-np.random.default_rng(seed).exponential(scale, 2**p), **changes)


def from_probabilities(
    table: dict[tuple[int, ...], float], p: int = 3, **changes: Any
) -> Posterior:
    """The posterior that puts the given probabilities on subsets of positions and nothing
    elsewhere."""
    log_ratios = np.full(2**p, -np.inf)
    for subset, probability in table.items():
        log_ratios[sum(1 << (p - 1 - j) for j in subset)] = math.log(probability)
    return enumerate_posterior(log_ratios, **changes)


@dataclass
class EnumeratedSource:
    """A source that knows the whole posterior."""

    whole: Posterior

    def log_probability(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.log([self.whole.probability(mask) for mask in masks])

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return self.whole.masks[np.full(n, 2)]

    def leading(
        self, mass: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]] | None:
        whole = self.whole
        return whole.masks[::-1], whole.log_ratios[::-1], whole.log_probabilities[::-1]


def cut(whole: Posterior, k: int, source: bool = False, **changes: Any) -> Posterior:
    return replace(
        whole,
        masks=whole.masks[:k],
        log_ratios=whole.log_ratios[:k],
        log_probabilities=whole.log_probabilities[:k],
        source=EnumeratedSource(whole) if source else None,
        **changes,
    )


def assert_same(a: Posterior, b: Posterior) -> None:
    for name in JSON_ARRAYS:
        left = getattr(a, name)
        right = getattr(b, name)
        assert (left is None) == (right is None)
        if left is not None:
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes(), name
    for name in JSON_PLAIN:
        assert getattr(a, name) == getattr(b, name), name
