"""Means, covariances and heterogeneity of structural models, without sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from invariance._tools.arrays import Floats, Integers, Mask
from invariance.data.features import as_lists, as_masks
from invariance.kernels.row_residuals import relative_residuals
from invariance.simulation import StructuralModel
from invariance.simulation.structural import propagate

UNDECIDABLE = 1e-20  # squared, scaled pivot under which float64 no longer gives μ to about 1e-5
ROUNDING = 1e-9  # μ ≥ 0 by definition: a value this little below is rounding


def population(model: StructuralModel) -> tuple[Floats, Floats]:
    """Means (E, p+1) and factors F (E, p+1, p+1) of the covariances F F'."""
    d = model.n_features + 1
    means = np.empty((model.n_environments, d))
    factors = np.empty((model.n_environments, d, d))
    for e in range(model.n_environments):
        columns = np.column_stack([np.diag(np.sqrt(model.variances[e])), model.intercepts[e]])
        propagate(model.coefficients[e], model.ordering, columns)
        factors[e], means[e] = columns[:, :-1], columns[:, -1]
    return means, factors


def mu(model: StructuralModel, masks: ArrayLike) -> Floats:
    """(S,) heterogeneity μ(z) of the subsets in masks (S, p): how far y | x^z is from being the
    same everywhere."""
    return discrepancy(*population(model), masks)


def discrepancy(means: Floats, factors: Floats, masks: ArrayLike) -> Floats:
    """(S,) the same for means (E, p+1) and factors (E, p+1, m) of the covariances; the outcome is
    the last column.

    The paper's μ̄(z) = ½ [ log σ²_pool(z) − (1/E) Σ_e log σ²_e(z) ], with σ²_e(z) the residual
    variance of y on x^z in environment e and σ²_pool(z) that in their equal mixture: the limit of
    −log Λ(z) / N, 0 for an invariant z.

    Residuals come from orthogonalising factors of the covariances, without squares. Where columns
    are collinear, or fix y, up to a squared, scaled pivot under 1e-20 in some environment or in the
    pool, μ is nan.
    """
    n_environments = len(means)
    p = means.shape[1] - 1
    chosen = as_masks(masks, p)
    used = np.append(np.flatnonzero(chosen.any(axis=0)), p)
    starts, members = as_lists(chosen[:, used[:-1]])
    shifts = (means - means.mean(axis=0))[:, used]
    factors = factors[:, used]
    mixture = np.concatenate([*factors, shifts.T], axis=1) / np.sqrt(n_environments)
    local = np.mean([_log_variances(factor, starts, members) for factor in factors], axis=0)
    values = 0.5 * (_log_variances(mixture, starts, members) - local)
    values[values < -ROUNDING] = np.nan
    return np.maximum(values, 0.0)


def all_subsets(p: int) -> Mask:
    """(2**p, p): row s holds the bits of s"""
    return (np.arange(1 << p)[:, None] >> np.arange(p) & 1).astype(bool)


def mu_min(model: StructuralModel) -> float:
    """The smallest μ(z) over all subsets except the truth; nan where some μ is."""
    masks = all_subsets(model.n_features)
    return float(np.min(mu(model, masks[(masks != model.truth).any(axis=1)])))


def _log_variances(factor: Floats, starts: Integers, members: Integers) -> Floats:
    """(S,) log residual variance of the last row of `factor` (k, m) on the rows of each subset; nan
    if undecidable."""
    norms = np.linalg.norm(factor, axis=1)
    triangle = np.asarray(np.linalg.qr((factor / norms[:, None]).T, mode="r"))
    share, rank = relative_residuals(triangle.T, starts, members, len(factor) - 1, UNDECIDABLE)
    share[(rank < np.diff(starts)) | (share == 0.0)] = np.nan
    return np.log(share) + 2.0 * np.log(norms[-1])
