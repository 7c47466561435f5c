"""How the evidence for invariance scatters where a subset is invariant."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from .._tools.arrays import Floats


def residual_law(seconds: Floats, counts: Floats, prior_rows: float) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of Σ_e ½(n_e + prior_rows)·log t_e of invariant subsets with Gaussian noise, t_e the
    residual sum of squares in environment e, regularised by the prior, over that of the pool.

    seconds (S, E + 1, m, m): sums of products of the m columns of each fit, the constant one included, in each
    environment and over all rows; counts (E,).

    t_e is a quadratic form of the noise over the pooled residual sum of squares, of which it is independent. First and
    second moments of these forms are exact; their logarithms are taken as those of gamma variables.
    """
    n_rows, m = counts.sum(), seconds.shape[-1]
    share, freedom, weights = prior_rows / n_rows, n_rows - m, 0.5 * (counts + prior_rows)
    spectrum, axes = np.linalg.eigh(_whitened(seconds))
    spectrum = np.clip(spectrum, 0.0, 1.0)
    forms = (axes * (share * spectrum / (spectrum + share))[..., None, :]) @ np.swapaxes(axes, -1, -2)
    kept = share * (1.0 - spectrum) / (spectrum + share)
    traces = counts - m + kept.sum(axis=-1)
    products = np.einsum("seij,sfij->sef", forms, forms)
    diagonal = np.arange(len(counts))
    products[:, diagonal, diagonal] = counts - m + (kept**2).sum(axis=-1)
    means = share * freedom + traces
    covariances = 2.0 * (share**2 * freedom + share * (traces[:, :, None] + traces[:, None, :]) + products)
    variances = covariances[:, diagonal, diagonal]
    shapes = means**2 / variances
    log_means = digamma(shapes) + np.log(variances / means)
    log_covariances = covariances / (means[:, :, None] * means[:, None, :])
    log_covariances[:, diagonal, diagonal] = polygamma(1, shapes)
    mean = log_means @ weights - weights.sum() * (digamma(freedom / 2.0) + np.log(2.0))
    spread = np.einsum("sef,e,f->s", log_covariances, weights, weights)
    return mean, spread - weights.sum() ** 2 * polygamma(1, freedom / 2.0)


def _whitened(seconds: Floats) -> Floats:
    """(S, E, m, m) in coordinates where the pool's are the identity"""
    root = np.linalg.cholesky(seconds[:, -1])[:, None]
    half = np.linalg.solve(root, seconds[:, :-1])
    return np.asarray(np.linalg.solve(root, np.swapaxes(half, -1, -2)))
