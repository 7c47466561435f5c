"""What is to be expected in a new environment if coefficients scatter between environments as they did so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..moments.moments import Moments
from .pivots import PIVOT_TOLERANCE

_AT_ONCE = 512


def random_effects_risk(moments: Moments, masks: Mask, rss: Floats, freedom: Floats) -> Floats:
    """(S,) expected squared error in a new environment, s²_pool + (1 + 1/E) · tr(T₊ M̄), of subsets given by columns
    (S, q): T is how the coefficients of (1, x − x̄) scatter between environments beyond their own errors, M̄ the pooled
    second moment of these.

    rss, freedom (S, G): of the fits. Environments in which some column is constant say nothing about its coefficient
    and are left out; inf where fewer than two remain, or where columns nearly depend on each other there.
    """
    absent = ~moments.present[:-1, moments.feature_columns]
    telling = (masks.astype(np.int64) @ absent.T.astype(np.int64) == 0) & (freedom[:, :-1] > 0.0)
    possible = (telling.sum(axis=1) >= 2) & (freedom[:, -1] > 0.0) & ~np.isnan(rss).any(axis=1)
    risks = np.full(len(masks), np.inf)
    keys = np.column_stack([masks.sum(axis=1), telling])
    for key in np.unique(keys[possible], axis=0):
        alike = np.flatnonzero(possible & (keys == key).all(axis=1))
        for rows in np.array_split(alike, -(-len(alike) // _AT_ONCE)):
            members = np.nonzero(masks[rows])[1].reshape(len(rows), int(key[0]))
            columns = moments.feature_columns[members]
            noise = rss[rows] / freedom[rows]
            risks[rows] = noise[:, -1] + _between(moments, columns, key[1:].astype(bool), noise[:, :-1])
    return risks


def _between(moments: Moments, columns: NDArray[np.intp], telling: Mask, noise: Floats) -> Floats:
    """(S,) (1 + 1/E) · tr(T₊ M̄) of columns (S, k), from the environments that are telling; noise (S, E): variances"""
    counts, n, k = moments.counts[telling].astype(float), int(telling.sum()), columns.shape[1]
    # Columns are measured in units of their pooled spread, so that products neither overflow nor lose a column.
    unit = np.sqrt(np.diagonal(moments.scatter[-1]) / moments.n_rows)[columns]
    gaps = moments.gaps[telling]
    shifts = gaps[:, columns].swapaxes(0, 1) / unit[:, None]
    pairs = columns[:, :, None], columns[:, None, :]
    units = unit[:, :, None] * unit[:, None, :]
    local = moments.scatter[:-1][telling]
    scatter = local[:, *pairs].swapaxes(0, 1) / units[:, None]
    cross = local[:, columns, moments.outcome].swapaxes(0, 1) / unit[:, None]
    own = np.sqrt(np.einsum("seii->sei", scatter))
    independent = np.linalg.eigvalsh(scatter / (own[:, :, :, None] * own[:, :, None, :])).min(axis=(1, 2), initial=1.0)
    slopes = np.einsum("seij,sej->sei", np.linalg.pinv(scatter, hermitian=True) if k else scatter, cross)
    heights = gaps[:, moments.outcome] - np.einsum("sei,sei->se", shifts, slopes)
    coefficients = np.concatenate([heights[:, :, None], slopes], axis=2)
    apart = coefficients - coefficients.mean(axis=1, keepdims=True)
    scattered = np.einsum("sei,sej->sij", apart, apart) / (n - 1)
    products = np.empty((len(columns), n, k + 1, k + 1))
    products[:, :, 0, 0] = counts
    products[:, :, 0, 1:] = products[:, :, 1:, 0] = counts[:, None] * shifts
    products[:, :, 1:, 1:] = scatter + counts[:, None, None] * shifts[:, :, :, None] * shifts[:, :, None, :]
    inverse = np.linalg.pinv(products, hermitian=True)
    errors = np.einsum("se,seij->sij", noise[:, telling], inverse) / n
    weight = np.zeros((len(columns), k + 1, k + 1))
    weight[:, 0, 0] = 1.0
    weight[:, 1:, 1:] = moments.scatter[-1][pairs] / moments.n_rows / units
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    between = np.linalg.eigvalsh(root.swapaxes(1, 2) @ (scattered - errors) @ root)
    risks = (1.0 + 1.0 / n) * np.maximum(between, 0.0).sum(axis=1)
    return np.where(independent < PIVOT_TOLERANCE, np.inf, risks)
