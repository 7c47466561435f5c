"""Data sets for the predictive posterior, and its value for a subset in plain NumPy and SciPy."""

from __future__ import annotations

import numpy as np

from decision_twins import evidence
from invariance import MultiEnvironmentData
from invariance.decisions.predictive import FLOOR
from invariance.models.invariance_test import Tolerance
from twins import all_masks


def plain(
    p: int = 6, counts: tuple[int, ...] = (60, 50, 70), seed: int = 0, effect: float = 0.6
) -> MultiEnvironmentData:
    """y from x0 and x1 with heavy tails; the last feature follows from y, differently in each environment."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(environment), p)) * (1.0 + environment[:, None] / 3.0) + environment[:, None]
    y = X[:, 0] - effect * X[:, 1] + rng.standard_t(5, len(X))
    X[:, -1] += (1.0 + 0.7 * environment) * y
    return MultiEnvironmentData.from_arrays(X, y, environment if len(counts) > 1 else None)


def changed(columns, groups: dict[str, list[str]] | None = None, **how) -> MultiEnvironmentData:
    """`plain` with other columns, given those there are and the environments."""
    data = plain(**how)
    X = columns(data.X.copy(), data.environment_index)
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index, groups=groups or {})


def constant_inside() -> MultiEnvironmentData:
    def columns(X, environment):
        X[environment == 1, 2], X[environment == 0, 3], X[environment == 2, 3] = 0.5, 1.0, -1.0
        return X

    return changed(columns)


def grouped() -> MultiEnvironmentData:
    def columns(X, environment):
        codes = np.random.default_rng(3).integers(0, 4, len(X))
        codes[(environment == 1) & (codes == 0)] = 1
        return np.column_stack([X, codes[:, None] == np.arange(1, 4), X[:, 2] ** 2])

    return changed(columns, {"g": ["x6", "x7", "x8"], "h": ["x3", "x9"]})


def set_columns() -> MultiEnvironmentData:
    """Three columns that each environment has set for all of its rows: of rank two in the pool."""
    return changed(lambda X, e: np.column_stack([X, (e + 1.0)[:, None] ** np.arange(1, 4)]), p=4)


def collinear() -> MultiEnvironmentData:
    return changed(lambda X, e: np.column_stack([X, X[:, 0] + X[:, 2], X[:, 3]]), p=5)


DATA = {
    "plain": plain,
    "constant inside": constant_inside,
    "grouped": grouped,
    "settings": set_columns,
    "collinear": collinear,
    "one environment": lambda: plain(counts=(80,)),
    "small": lambda: plain(p=5, counts=(9, 12, 10, 14)),
    "many environments": lambda: plain(p=5, counts=(20,) * 8, effect=0.3),
}


def twin_values(data: MultiEnvironmentData, tolerance: Tolerance, masks: np.ndarray | None = None, tails: bool = True):
    """(S,) −½ cost of subsets (S, p), by default all; -inf where they are not compatible with invariance."""
    columns = data.features.expand(all_masks(data.n_features) if masks is None else masks)
    found, n = evidence(data, columns), data.n_rows
    if not tails:
        found.kurtosis[:] = 0.0
    with np.errstate(all="ignore"):
        p_values = np.ones(len(columns))
        if data.n_environments > 1:
            p_values = found.p_invariant(tolerance.delta, tolerance.tau)
        _, freedom = found.freedom
        scored = (freedom >= 1).all(axis=0) & (found.local > 1e-9).all(axis=0)
    price = max(np.log(n) + 2.0 * np.log(data.n_features), FLOOR * n)
    gain = 0.5 * n * np.log(np.sum((data.y - data.y.mean()) ** 2) / found.pooled)
    return np.where(scored & (p_values >= tolerance.level), gain - 0.5 * price * columns.sum(axis=1), -np.inf)
