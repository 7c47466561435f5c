"""μ(z) in extended precision, by the recursion and Gram-Schmidt written out."""

from __future__ import annotations

import numpy as np

from invariance.simulation import StructuralModel


def precise_mu(model: StructuralModel, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) μ and (S,) the smallest squared, scaled pivot in any environment or in the mixture."""
    populations = [_population(model, e) for e in range(model.n_environments)]
    mean = sum(means for _, means in populations) / np.longdouble(model.n_environments)
    values, pivots = np.empty(len(masks)), np.empty(len(masks))
    for s, mask in enumerate(masks):
        columns = np.append(np.flatnonzero(mask), model.n_features)
        factors = [factor[columns] for factor, _ in populations]
        shifts = np.array([(means - mean)[columns] for _, means in populations]).T
        mixture = np.concatenate([*factors, shifts], axis=1) / np.sqrt(np.longdouble(model.n_environments))
        fits = [_residual(rows) for rows in (*factors, mixture)]
        values[s] = 0.5 * (fits[-1][0] - np.mean([fit[0] for fit in fits[:-1]]))
        pivots[s] = min(fit[1] for fit in fits)
    return values, pivots


def _population(model: StructuralModel, e: int) -> tuple[np.ndarray, np.ndarray]:
    d = model.n_features + 1
    loadings = np.zeros((d, d + 1), np.longdouble)
    for i in model.ordering:
        loadings[i] = model.coefficients[e, i].astype(np.longdouble) @ loadings
        loadings[i, i] += np.sqrt(np.longdouble(model.variances[e, i]))
        loadings[i, d] += model.intercepts[e, i]
    return loadings[:, :d], loadings[:, d]


def _residual(rows: np.ndarray) -> tuple[np.longdouble, np.longdouble]:
    """log residual variance of the last row on the others, and the smallest squared pivot of the unit rows."""
    norms = np.sqrt((rows * rows).sum(axis=1))
    basis: list[np.ndarray] = []
    smallest = squared = np.longdouble(1.0)
    for row in rows / norms[:, None]:
        rest = row.copy()
        for _ in range(2):
            for unit in basis:
                rest -= (unit @ rest) * unit
        squared = rest @ rest
        smallest = min(smallest, squared)
        basis.append(rest / np.sqrt(squared))
    return np.log(squared) + 2 * np.log(norms[-1]), smallest
