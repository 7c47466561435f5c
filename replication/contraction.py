"""What the paper's theorems say about one structural model: R, μ(z), v(z), the rate bound, and b_n,
μ_n, v_n."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, polygamma, psi

from invariance._tools.arrays import Floats, Mask
from invariance.data.features import as_masks
from invariance.priors import BoundPrior
from invariance.simulation import StructuralModel

from .heterogeneity import population


def log_prior_factor(prior: BoundPrior, truth: Mask) -> float:
    """log R, with R = max over z ≠ z* of p(z) / p(z*), times the number of subsets of positive
    prior; inf if p(z*) = 0.

    For any number of features: the most probable subset of each size has the largest odds.
    """
    at_truth = prior.log_prob(truth)[0]
    if at_truth == -np.inf:
        return math.inf
    order = prior.free[np.argsort(-prior.log_odds[prior.free], kind="stable")]
    masks = []
    for size in range(len(order) + 1):
        leading = prior.forced_in.copy()
        leading[order[:size]] = True
        if (leading == truth).all():
            if not 0 < size < len(order):
                continue
            leading[order[size - 1 : size + 1]] = [False, True]
        masks.append(leading)
    return float(prior.log_prob(masks).max() - at_truth + math.log(prior.support_size()))


def row_moments(model: StructuralModel, masks: ArrayLike) -> tuple[Floats, Floats]:
    """(S, E) each: mean and variance, in each environment, of one row's log p_e(y|x^z) − log
    ḡ(y|x^z).

    ḡ is the best linear Gaussian fit to the mixture of the environments. The mean over environments
    of the means is μ̄(z). In an environment the residual from ḡ is Normal(m, s²), that from p_e
    Normal(0, σ²), their covariance σ².
    """
    chosen, (means, factors) = as_masks(masks, model.n_features), population(model)
    n_environments, d, _ = factors.shape
    blocks = np.concatenate([factors, (means - means.mean(axis=0))[:, :, None]], axis=2)
    mixture = np.moveaxis(blocks, 0, 1).reshape(d, -1) / np.sqrt(n_environments)
    mean, variance = np.empty((2, len(chosen), n_environments))
    for s, mask in enumerate(chosen):
        rest = _residual(mixture, mask)
        pooled = rest @ rest
        parts = rest.reshape(n_environments, d + 1)
        spread = (parts[:, :-1] ** 2).sum(axis=1)
        shift = parts[:, -1] ** 2
        spread = n_environments / pooled * spread
        shift = n_environments / pooled * shift
        local = np.array([_square(_residual(factor, mask)) for factor in factors]) / pooled
        mean[s] = 0.5 * (spread + shift - 1.0 - np.log(local))
        variance[s] = 0.5 * (spread**2 + 2.0 * shift * spread + 1.0 - 2.0 * local)
    return mean, np.maximum(variance, 0.0)


def v(model: StructuralModel, masks: ArrayLike) -> Floats:
    """(S,) the paper's v(z): variance of a row's log p_e − log ḡ, its environment drawn like the
    row.

    Rows of one environment share it: the variance of their sum over n rows each in E given
    environments is nE times the mean over environments of `row_moments`' variances, which is at
    most nE v(z).
    """
    mean, variance = row_moments(model, masks)
    return np.asarray(variance.mean(axis=1) + mean.var(axis=1))


def exact_pool(
    model: StructuralModel, mask: Mask, n: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """μ(z) and v(z) with the exact pooled conditional g, a ratio of mixtures, from n rows of each
    environment; then the standard error of μ(z)."""
    means, factors = population(model)
    columns = np.append(np.flatnonzero(mask), model.n_features)
    drawn = (
        rng.standard_normal((len(means), n, factors.shape[2])) @ factors.swapaxes(1, 2)
        + means[:, None]
    )
    rows = drawn.reshape(-1, factors.shape[1])
    joint, features = (
        np.array(
            [
                _log_density(rows[:, kept], m[kept], f[kept])
                for m, f in zip(means, factors, strict=True)
            ]
        )
        for kept in (columns, columns[:-1])
    )
    own = np.repeat(np.arange(len(means)), n), np.arange(len(rows))
    ratio = (joint - features)[own] - logsumexp(joint, axis=0) + logsumexp(features, axis=0)
    within = ratio.reshape(-1, n).var(axis=1).mean()
    return float(ratio.mean()), float(ratio.var()), float(np.sqrt(within / len(ratio)))


def rate_bound(
    log_factor: float, mu_min: ArrayLike, n_rows: ArrayLike, kappa: float = 0.5
) -> Floats:
    """R exp(−κ nE μ_min), which 1 − p̂(z*|D) exceeds with a probability that goes to 0; n_rows is
    nE."""
    return np.asarray(np.exp(log_factor - kappa * np.asarray(n_rows) * np.asarray(mu_min)))


def epsilon(bound: ArrayLike) -> Floats:
    """The proof's ε = 1 − 1 / (1 + bound), below 1 whatever the bound is."""
    return np.asarray(bound) / (1.0 + np.asarray(bound))


def local_bias(n: int, size: ArrayLike) -> Floats:
    """b_n(z) of subsets of this size: by how much the fit to its own n rows flatters an
    environment's density, per row.

    Exact: with σ̂² the residual variance, n σ̂²/σ² is χ² with n − |z| − 1 degrees of freedom. About
    (|z| + 2) / 2n.
    """
    return np.asarray(0.5 * (np.log(n / 2.0) - psi((n - np.asarray(size) - 1.0) / 2.0)))


def local_bias_variance(n: int, size: ArrayLike) -> Floats:
    """v_n(z): the variance of what b_n is the mean of, summed over the n rows. About (|z| + 2) /
    2."""
    return np.asarray(0.25 * n**2 * polygamma(1, (n - np.asarray(size) - 1.0) / 2.0) - 0.5 * n)


def _log_density(rows: Floats, mean: Floats, factor: Floats) -> Floats:
    """(N,) log density of rows (N, k) under Normal(mean, factor factor'), without the powers of
    2π."""
    triangle = np.asarray(np.linalg.qr(factor.T, mode="r")).T
    standard = solve_triangular(triangle, (rows - mean).T, lower=True)
    return np.asarray(-0.5 * (standard**2).sum(axis=0) - np.log(np.abs(np.diag(triangle))).sum())


def _residual(rows: Floats, mask: Mask) -> Floats:
    """(m,) the last of rows (p+1, m) less its projection on those of the mask, orthogonalised
    twice."""
    rest = rows[-1]
    if mask.any():
        chosen = rows[:-1][mask]
        basis, _ = np.linalg.qr((chosen / np.linalg.norm(chosen, axis=1)[:, None]).T)
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
    return np.asarray(rest)


def _square(vector: Floats) -> float:
    return float(vector @ vector)
