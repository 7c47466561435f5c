"""A linear mixed model with a random intercept in each environment, from second moments.
y = a + x·b + u_e + ε, Var u_e = ψ·Var ε: generalised least squares at the ψ of restricted maximum
likelihood (REML). It is the model of `models.random_coefficients` in which the intercept alone
deviates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._tools.arrays import Floats, Integers
from .moments import Moments

# Share of a direction's scatter, after scaling, below which the columns depend on each other.
_DEPENDENT_SHARE = 1e-11
# ψ × rows of an average environment that is tried first, how many values, and how often the best is
# looked at closer.
_TRIED = 31
_REFINEMENTS = 3
_RATIOS_TRIED = np.append(0.0, np.geomspace(1e-4, 1e14, _TRIED))


@dataclass(frozen=True, eq=False)
class RandomInterceptFit:
    """coefficients (k,), of minimum norm where columns depend on each other; intercept: of an
    unknown environment; ratio: ψ; noise: Var ε; effects (E,): predicted u_e (BLUP); pooled (k,):
    coefficients of pooled least squares"""

    coefficients: Floats
    intercept: float
    ratio: float
    noise: float
    effects: Floats
    pooled: Floats


def random_intercept(
    moments: Moments, columns: Integers, ratio: float | None = None
) -> RandomInterceptFit:
    """Of the outcome on these columns (k,). ratio: ψ where it is known; 0 is pooled least squares.
    With whitened columns of pooled cross products I those at ψ are I − Z'MZ, Z (E, r) being the
    environments' means and M (E, E) what ψ takes from the weight of differences between them: by
    Woodbury's identity each ψ costs the smaller of r³ and E³."""
    counts = moments.counts.astype(float)
    y = moments.outcome
    scatter = moments.scatter[-1]
    whitening = whitening_of(scatter[np.ix_(columns, columns)])
    products = whitening.T @ scatter[columns, y]
    means = moments.gaps[:, columns] @ whitening
    own = moments.gaps[:, y]
    freedom = max(moments.n_rows - 1.0 - whitening.shape[1], 1.0)
    gram = means @ means.T
    onto = means @ products

    def profile(ratios: Floats) -> tuple[Floats, Floats, Floats]:
        """(R, r) coefficients of whitened columns, (R,) residual sums of squares and −2 log
        restricted likelihoods"""
        weights = counts / (1.0 + ratios[:, None] * counts)
        lost = partial(_lost_gaps, counts, weights)
        moved = lost(own[:, None])[:, :, 0]
        right = products - moved @ means
        if means.shape[1] <= len(counts):
            inner = np.eye(means.shape[1]) - means.T @ lost(means)
            found = np.linalg.solve(inner, right[:, :, None])[:, :, 0]
        else:
            each = np.eye(len(counts))
            taken = lost(each)
            inner = each - gram @ taken
            back = (taken @ np.linalg.solve(inner, (onto - moved @ gram)[:, :, None]))[:, :, 0]
            found = right + back @ means
        rss = scatter[y, y] - moved @ own - np.einsum("rk,rk->r", right, found)
        penalty = np.log1p(ratios[:, None] * counts).sum(axis=1) + np.log(weights.sum(axis=1))
        least = np.finfo(float).tiny
        return (
            found,
            rss,
            freedom * np.log(np.maximum(rss, least)) + penalty + np.linalg.slogdet(inner)[1],
        )

    if ratio is None:
        ratio = _least(lambda ratios: profile(ratios)[2], 1.0 / counts.mean())
    found = products[None]
    rss = scatter[y, y] - products @ products
    if ratio > 0.0:
        found, (rss,), _ = profile(np.array([ratio]))
    coefficients = whitening @ found[0]
    weights = counts / (1.0 + ratio * counts)
    left = own - means @ found[0]
    common = float(weights @ left / weights.sum())
    intercept = float(moments.pooled_mean[y] - moments.pooled_mean[columns] @ coefficients) + common
    noise = max(float(rss), 0.0) / freedom
    effects = ratio * weights * (left - common)
    return RandomInterceptFit(coefficients, intercept, ratio, noise, effects, whitening @ products)


def uncertainty(moments: Moments, columns: Integers, ratio: float) -> Floats:
    """(1 + k, 1 + k) covariance, in units of the noise, of what is predicted at the pooled means in
    a new environment, whose intercept is not known, and of the coefficients; ratio : ψ"""
    counts = moments.counts.astype(float)
    gaps = moments.gaps[:, columns]
    sums = counts[:, None] * np.column_stack([np.ones(len(counts)), gaps])
    information = np.zeros((1 + len(columns), 1 + len(columns)))
    information[0, 0] = counts.sum()
    information[1:, 1:] = moments.scatter[-1][np.ix_(columns, columns)]
    information -= (sums.T * (ratio / (1.0 + ratio * counts))) @ sums
    scale = inverse_roots(np.diagonal(information))
    found = (
        scale[:, None]
        * np.linalg.pinv(scale[:, None] * information * scale, hermitian=True)
        * scale
    )
    found[0, 0] += ratio
    return np.asarray(found)


def _least(criterion: Callable[[Floats], Floats], unit: float) -> float:
    """The ψ ≥ 0 with the least criterion: on ever finer grids, then at the vertex of a parabola."""
    ratios = unit * _RATIOS_TRIED
    for _ in range(_REFINEMENTS):
        best = int(np.argmin(criterion(ratios)))
        ratios = np.linspace(
            ratios[max(best - 1, 0)], ratios[min(best + 1, len(ratios) - 1)], _TRIED
        )
    values = criterion(ratios)
    best = int(np.argmin(values))
    if best in (0, len(ratios) - 1):
        return float(ratios[best])
    before, at, after = values[best - 1 : best + 2]
    bend = before - 2.0 * at + after
    return float(
        ratios[best]
        + (0.5 * (before - after) / bend * (ratios[1] - ratios[0]) if bend > 0.0 else 0.0)
    )


def _lost_gaps(counts: Floats, weights: Floats, values: Floats) -> Floats:
    """Return (R, E, m) differences of values (E, m) from their means, each mean weighted by counts
    (E,), times these, less the same with weights (R, E)."""

    def gaps(weights: Floats) -> Floats:
        means = weights @ values / weights.sum(axis=1)[:, None]
        return weights[:, :, None] * (values - means[:, None])

    return gaps(counts[None]) - gaps(weights)


def whitening_of(scatter: Floats) -> Floats:
    """(k, r) W with W W' a generalised inverse of the scatter (k, k), whose columns may depend on
    each other"""
    scale = inverse_roots(np.diagonal(scatter))
    values, vectors = np.linalg.eigh(scatter * scale[:, None] * scale)
    kept = values > _DEPENDENT_SHARE * len(values)
    return scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])


def whitening_of_rows(X: Floats) -> Floats:
    """The same of centred rows (n, k)"""
    if X.shape[1] <= X.shape[0]:
        return whitening_of(X.T @ X)
    scale = inverse_roots(np.einsum("nk,nk->k", X, X))
    _, roots, vectors = np.linalg.svd(X * scale, full_matrices=False)
    kept = roots**2 > _DEPENDENT_SHARE * X.shape[1]
    return np.asarray(scale[:, None] * vectors[kept].T / roots[kept])


def inverse_roots(squares: Floats) -> Floats:
    """1 / √ of each, 0 where one is 0"""
    return np.where(squares > 0.0, 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)), 0.0)
