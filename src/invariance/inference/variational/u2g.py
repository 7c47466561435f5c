"""U2G: unbiased gradients of expectations over independent binary variables (Yin et al. 2020).

One uniform vector gives two coupled draws, z1 = 1[u > 1 - σ(φ)] and z2 = 1[u < σ(φ)], and
½ · σ(|φ|) · (f(z1) - f(z2)) · (z1 - z2) has expectation ∇_φ E[f(z)].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..._tools.arrays import Floats, Mask

Function = Callable[[Mask], ArrayLike]


def coupled_draws(logits: ArrayLike, uniforms: ArrayLike) -> tuple[Mask, Mask]:
    """The two draws (n, p) that each row of uniforms (n, p) gives."""
    inclusion = expit(np.asarray(logits))
    u = np.asarray(uniforms)
    return u > 1.0 - inclusion, u < inclusion


def u2g_estimates(function: Function, logits: ArrayLike, uniforms: ArrayLike) -> Floats:
    """(n, p) one unbiased gradient of E[function(z)], z_j ~ Bernoulli(σ(logits_j)), per row of uniforms (n, p).

    `function` maps masks (S, p) to values (S,).
    """
    first, second = coupled_draws(logits, uniforms)
    difference = np.asarray(function(first), dtype=float) - np.asarray(function(second), dtype=float)
    sign = first.astype(float) - second.astype(float)
    return 0.5 * expit(np.abs(np.asarray(logits))) * difference[:, None] * sign


def u2g_gradient(function: Function, logits: ArrayLike, n_pairs: int, rng: np.random.Generator) -> Floats:
    """(p,) average of n_pairs independent estimates."""
    uniforms = rng.random((n_pairs, np.size(logits)))
    return u2g_estimates(function, logits, uniforms).mean(axis=0)
