"""What is to be expected in a new environment if coefficients scatter between environments as they did so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..moments.moments import Moments


def random_effects_risk(moments: Moments, masks: Mask, rss: Floats, freedom: Floats) -> Floats:
    """(S,) expected squared error in a new environment, s²_pool + (1 + 1/E) · tr(T₊ M̄), of subsets given by columns
    (S, q): T is how the coefficients of (1, x − x̄) scatter between environments beyond their own errors, M̄ the pooled
    second moment of these.

    rss, freedom (S, G): of the fits. Environments in which some column is constant say nothing about its coefficient
    and are left out; inf where fewer than two remain.
    """
    return np.array(
        [
            _risk(moments, moments.feature_columns[np.flatnonzero(mask)], squares, left)
            for mask, squares, left in zip(masks, rss, freedom, strict=True)
        ]
    )


def _risk(moments: Moments, columns: NDArray[np.intp], rss: Floats, freedom: Floats) -> float:
    telling = moments.present[:-1, columns].all(axis=1) & (freedom[:-1] > 0.0)
    n = int(telling.sum())
    if n < 2 or not freedom[-1] > 0.0 or np.isnan(rss).any():
        return np.inf
    counts, k = moments.counts[telling].astype(float), len(columns)
    # Columns are measured in units of their pooled spread, so that products neither overflow nor lose a column.
    unit = np.sqrt(np.diagonal(moments.scatter[-1])[columns] / moments.n_rows)
    gaps = (moments.means - moments.pooled_mean)[telling]
    shifts, heights = gaps[:, columns] / unit, gaps[:, moments.outcome]
    local = moments.scatter[:-1][telling]
    scatter = local[:, columns[:, None], columns] / np.outer(unit, unit)
    cross = local[:, columns, moments.outcome] / unit
    inverse = np.linalg.pinv(scatter, hermitian=True) if k else scatter
    slopes = np.einsum("eij,ej->ei", inverse, cross)
    coefficients = np.column_stack([heights - np.einsum("ei,ei->e", shifts, slopes), slopes])
    scatter_between = np.atleast_2d(np.cov(coefficients, rowvar=False))
    products = np.empty((n, k + 1, k + 1))
    products[:, 0, 0] = counts
    products[:, 0, 1:] = products[:, 1:, 0] = counts[:, None] * shifts
    products[:, 1:, 1:] = scatter + counts[:, None, None] * shifts[:, :, None] * shifts[:, None, :]
    noise = rss[:-1][telling] / freedom[:-1][telling]
    errors = (noise[:, None, None] * np.linalg.pinv(products, hermitian=True)).mean(axis=0)
    weight = np.eye(k + 1)
    weight[1:, 1:] = moments.scatter[-1][np.ix_(columns, columns)] / moments.n_rows / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    between = np.linalg.eigvalsh(root.T @ (scatter_between - errors) @ root)
    return float(rss[-1] / freedom[-1] + (1.0 + 1.0 / n) * np.maximum(between, 0.0).sum())
