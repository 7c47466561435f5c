"""Sites that shift everything but the log odds of an outcome, whose causes are known; as labels and
as a table."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from scipy.special import expit

from invariance import BIPClassifier

N_SITES = 4
ROWS = 100


def rows(seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, 0 or 1, and sites: log odds x0 − x1 everywhere; x2 follows the outcome, differently in
    each site."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(N_SITES), ROWS)
    X = rng.normal(size=(len(site), 4)) + rng.normal(size=(N_SITES, 4))[site]
    y = (rng.uniform(size=len(site)) < expit(X[:, 0] - X[:, 1])).astype(int)
    X[:, 2] = y * np.array([2.0, -2.0, 1.0, -1.0])[site] + rng.normal(size=len(site))
    return X, y, site


X, Y, SITE = rows()
LABELS = np.where(Y == 1, "yes", "no")


def table() -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("abcd")).assign(
        site=np.array(["north", "south", "east", "west"])[SITE]
    )


def classifier(y: object = LABELS, **settings: object) -> BIPClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BIPClassifier(**settings).fit(X, y, environments=SITE)
