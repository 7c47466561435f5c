"""Data sets and fits of which decisions are looked at."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.decisions.decision import Decision
from invariance.decisions.pipeline import Findings


def made(
    n_environments: int = 4,
    n: int = 120,
    n_noise: int = 1,
    shifted: float = 1.5,
    seed: int = 0,
    **changes: Any,
) -> MultiEnvironmentData:
    """y = a − b/2 + noise alike everywhere; `effect` results from y, differently in each; `noise0`,
    … say nothing. Only a is moved by the environments."""
    rng = np.random.default_rng(seed)
    e = np.repeat(np.arange(n_environments), n)
    a, b = rng.normal(size=(2, len(e)))
    a += shifted * np.linspace(-1, 1, n_environments)[e]
    y = a - 0.5 * b + rng.normal(size=len(e))
    effect = y * np.linspace(0.2, 1.5, n_environments)[e] + rng.normal(size=len(e))
    X = np.column_stack([a, b, effect, rng.normal(size=(len(e), n_noise))])
    arguments = {
        "X": X,
        "y": y,
        "environment_index": e,
        "feature_names": ("a", "b", "effect", *(f"noise{j}" for j in range(n_noise))),
        "environments": tuple(f"site {k}" for k in range(n_environments)),
    }
    return MultiEnvironmentData(**(arguments | changes))


def decided(data: MultiEnvironmentData | Moments, **settings: Any) -> Decision:
    model = BIP(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(data)
    assert fitted.decision_ is fitted.decision_
    assert fitted.invariant_ == fitted.decision_.invariant
    assert fitted.selected_features_ == fitted.decision_.selected
    return fitted.decision_


@dataclass(frozen=True)
class Fixed:
    """A rule that always chooses the same features."""

    chosen: tuple[bool, ...]

    def select(self, findings: Findings) -> Any:
        return np.array(self.chosen)


def role_of(decision: Decision, name: str) -> Any:
    return next(feature for feature in decision.features if feature.name == name)


def broken() -> MultiEnvironmentData:
    """An environment acts on the outcome itself."""
    data = made(shifted=1.0)
    return replace(data, y=data.y + np.array([0.0, 3.0, -4.0, 9.0])[data.environment_index])
