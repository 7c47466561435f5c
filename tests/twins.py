"""Plain NumPy versions of what the kernels compute, and data to compare them on."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from invariance import UniformPrior
from invariance.data import MultiEnvironmentData
from invariance.inference.enumeration import subset_blocks
from invariance.models.base import BoundModel


def half_n_log_variance(X: np.ndarray, y: np.ndarray) -> float:
    """½ n log(RSS/n) of y on X and an intercept; a pseudo-inverse, so that dependent columns are
    harmless."""
    design = np.column_stack([np.ones(len(y)), X])
    scale = np.abs(design).max(axis=0)
    design = design / np.where(scale > 0, scale, 1.0)
    residual = y - design @ (np.linalg.pinv(design) @ y)
    residual = residual - design @ (np.linalg.pinv(design) @ residual)
    return 0.5 * len(y) * np.log(residual @ residual / len(y))


def log_ratio(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    local = sum(
        half_n_log_variance(data.X[rows][:, mask], data.y[rows])
        for rows in map(data.rows, range(data.n_environments))
    )
    return local - half_n_log_variance(data.X[:, mask], data.y)


def coupled_draws(logits: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two draws (n, p) that U2G makes of each row of uniforms (n, p)."""
    inclusion = expit(logits)
    return uniforms > 1.0 - inclusion, uniforms < inclusion


def u2g_estimates(function, logits: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """(n, p) one unbiased gradient of E[function(z)], z_j ~ Bernoulli(σ(logits_j)), per row of
    uniforms (n, p).

    `function` maps masks (S, p) to values (S,).
    """
    first, second = coupled_draws(logits, uniforms)
    difference = function(first) - function(second)
    return 0.5 * expit(np.abs(logits)) * difference[:, None] * (first.astype(float) - second)


def all_masks(p: int) -> np.ndarray:
    """(2**p, p): row s holds the bits of s."""
    return (np.arange(1 << p)[:, None] >> np.arange(p) & 1).astype(bool)


def all_log_ratios(data: MultiEnvironmentData) -> np.ndarray:
    return np.array([log_ratio(data, mask) for mask in all_masks(data.n_features)])


def walked_log_ratios(model: BoundModel, max_size: int | None = None) -> np.ndarray:
    """log Λ of every subset of at most max_size features by a walk, in the order of
    `subset_blocks`: that of their bit patterns where these are all; -inf outside the support"""
    limit = model.largest_size if max_size is None else min(max_size, model.n_features)
    model.check_max_size(limit)
    walk = model.subset_walk(np.arange(model.n_features), np.empty(0, np.int64))
    blocks = subset_blocks(walk, UniformPrior(limit).bind(model.n_features))
    log_ratios = np.concatenate([blocks.scored(b).log_ratio for b in range(blocks.n_blocks)])
    return np.where(np.isnan(log_ratios), -np.inf, log_ratios)


def simulated(
    p: int = 4, counts: tuple[int, ...] = (12, 15, 20), seed: int = 0, scale: float = 1.0
) -> MultiEnvironmentData:
    """Features with environment-specific means and spreads; y from the first two; the last follows
    from y."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(len(counts)), counts)
    spread = rng.uniform(0.5, 2.0, (len(counts), p))[environment]
    X = (
        rng.normal(size=(len(environment), p)) * spread
        + rng.normal(size=(len(counts), p))[environment]
    )
    X[:, p // 2] += 0.5 * X[:, 0]
    y = X[:, : min(2, p)].sum(axis=1) + rng.normal(size=len(X))
    if p > 2:
        X[:, -1] += rng.normal(size=len(counts))[environment] * y
    return MultiEnvironmentData.from_arrays(X * scale, y, environment)


@st.composite
def datasets(draw: st.DrawFn, max_features: int = 5) -> MultiEnvironmentData:
    p = draw(st.integers(1, max_features))
    counts = draw(st.lists(st.integers(p + 3, 25), min_size=2, max_size=4))
    return simulated(p, tuple(counts), draw(st.integers(0, 10_000)))


def icp_p_value(X: np.ndarray, y: np.ndarray, env: np.ndarray) -> float:
    """Of one subset in ICP, straight from the definition, with residual vectors."""
    design = np.column_stack([np.ones(len(y)), X])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    labels = np.unique(env)
    smallest = np.inf
    for e in labels:
        inside = residual[env == e]
        others = residual[env != e]
        cdf = stats.f.cdf(inside.var(ddof=1) / others.var(ddof=1), len(inside) - 1, len(others) - 1)
        t_test = stats.ttest_ind(inside, others, equal_var=False).pvalue
        smallest = min(smallest, t_test, 2 * min(cdf, 1 - cdf))
    return min(1.0, 2 * (len(labels) - 1) * smallest)
