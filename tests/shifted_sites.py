"""Sites that shift everything but the outcome's equation, whose causes are known; and models fitted
to them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd

from invariance import BIP, MultiEnvironmentData


def several(n_environments: int = 4, n: int = 60, seed: int = 7) -> MultiEnvironmentData:
    """y = x0 − x1 + noise everywhere; x2 follows y, differently in each environment; x3 is
    nothing."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(env), 4)) + rng.normal(size=(n_environments, 4))[env]
    y = X[:, 0] - X[:, 1] + rng.normal(size=len(env))
    X[:, 2] = y * rng.uniform(-2, 2, n_environments)[env] + rng.normal(size=len(env))
    return MultiEnvironmentData.from_arrays(X, y, env if n_environments > 1 else None)


def own_baselines(
    n_environments: int = 5, n: int = 60, seed: int = 7, sd: float = 1.0
) -> MultiEnvironmentData:
    """y = x0 − 0.7 x1 + a baseline of each site + noise; x2 follows y, differently in each; x3 is
    nothing."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(env), 4)) + rng.normal(size=(n_environments, 4))[env]
    y = (
        X[:, 0]
        - 0.7 * X[:, 1]
        + sd * rng.normal(size=n_environments)[env]
        + rng.normal(size=len(env))
    )
    X[:, 2] = y * np.linspace(-2, 2, n_environments)[env] + rng.normal(size=len(env))
    data = MultiEnvironmentData.from_arrays(X, y, [f"s{e}" for e in env])
    return replace(data, outcome_name="y", environment_name="site")


DATA = several()
NEW = np.random.default_rng(9).normal(size=(7, 4))


def fitted(data: MultiEnvironmentData = DATA, **settings) -> BIP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = data.environment_index if data.n_environments > 1 else None
        return BIP(random_state=0, **settings).fit(data.X, data.y, environments=labels)


def as_table(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
