"""Data sets for the predictive posterior, and its value for a subset in plain NumPy and SciPy."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2, f, kurtosis, ncf, ncx2

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


def fitted(X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Residual sum of squares and rank of y on X and an intercept."""
    X, y = X - X.mean(axis=0), y - y.mean()
    X = X / np.maximum(np.abs(X).max(axis=0, initial=1e-300), 1e-300)
    X = X[:, np.abs(X).max(axis=0, initial=0.0) > 0.0] if X.shape[1] else X
    slopes, _, rank, _ = np.linalg.lstsq(X, y, rcond=1e-10)
    return float(np.sum((y - X @ slopes) ** 2)), int(rank)


def twin_value(data: MultiEnvironmentData, columns: np.ndarray, tolerance: Tolerance, tails: bool = True) -> float:
    """−½ cost of a subset given by its columns (q,); -inf where it is not compatible with invariance."""
    groups = [data.rows(e) for e in range(data.n_environments)]
    X, y, n, E = data.X[:, columns], data.y, data.n_rows, data.n_environments
    pooled, rank = fitted(X, y)
    local = [fitted(X[rows], y[rows]) for rows in groups]
    counts = np.array([len(rows) for rows in groups])
    rss, freedom = np.array([part[0] for part in local]), counts - 1 - np.array([part[1] for part in local])
    if (freedom < 1).any() or (rss < 1e-9).any():
        return -np.inf
    between = n - 1 - rank - freedom.sum()
    p_mean = p_spread = 1.0
    if between > 0:
        statistic = max(pooled - rss.sum(), 0.0) / between / (rss.sum() / freedom.sum())
        law = ncf(between, freedom.sum(), n * tolerance.delta) if tolerance.delta else f(between, freedom.sum())
        p_mean = law.sf(statistic)
    if E > 1:
        total = freedom.sum()
        bartlett = total * np.log(rss.sum() / total) - np.sum(freedom * np.log(rss / freedom))
        bartlett /= 1.0 + (np.sum(1.0 / freedom) - 1.0 / total) / (3.0 * (E - 1))
        own = np.column_stack([data.environment_index == e for e in range(E)]).astype(float)
        design = np.column_stack([own, X])
        residual = y - design @ np.linalg.lstsq(design, y, rcond=1e-10)[0]
        inflation = 1.0 + max(float(kurtosis(residual)), 0.0) / 2.0 if tails else 1.0
        noncentrality = n * tolerance.tau**2 / 2.0 / inflation
        law = ncx2(E - 1, noncentrality) if tolerance.tau else chi2(E - 1)
        p_spread = law.sf(max(bartlett, 0.0) / inflation)
    if chi2.sf(-2.0 * np.log(p_mean * p_spread + 1e-300), 4) < tolerance.level:
        return -np.inf
    price = max(np.log(n) + 2.0 * np.log(data.n_features), FLOOR * n)
    return 0.5 * n * np.log(np.sum((y - y.mean()) ** 2) / pooled) - 0.5 * price * columns.sum()


def twin_values(data: MultiEnvironmentData, tolerance: Tolerance, tails: bool = True) -> np.ndarray:
    """(2**p,)"""
    masks = data.features.expand(all_masks(data.n_features))
    return np.array([twin_value(data, columns, tolerance, tails) for columns in masks])
