"""References to time ours beside, as one writes them in NumPy. Committed ratios rest on them: keep
their speed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from invariance import MultiEnvironmentData

Floats = NDArray[np.float64]


def groups(data: MultiEnvironmentData) -> list[NDArray[np.intp]]:
    """Rows of each environment, and all rows."""
    return [*map(data.rows, range(data.n_environments)), np.arange(data.n_rows)]


def design(data: MultiEnvironmentData, columns: list[int]) -> Floats:
    return np.column_stack([np.ones(data.n_rows), data.X[:, columns]])


def least_squares(data: MultiEnvironmentData, columns: list[int]) -> float:
    """log Λ of one subset by a least-squares fit per environment and one to all rows."""
    X = design(data, columns)
    costs = []
    for rows in groups(data):
        residual = data.y[rows] - X[rows] @ np.linalg.lstsq(X[rows], data.y[rows], rcond=None)[0]
        costs.append(0.5 * len(rows) * np.log(residual @ residual / len(rows)))
    return float(sum(costs[:-1]) - costs[-1])


def logistic(data: MultiEnvironmentData, columns: list[int], steps: int = 6) -> float:
    """log Λ of one subset by Newton's method per environment and for all rows."""
    X = design(data, columns)
    costs = []
    for rows in groups(data):
        A = X[rows]
        y = data.y[rows]
        beta = np.zeros(A.shape[1])
        for _ in range(steps):
            chance = 1.0 / (1.0 + np.exp(-A @ beta))
            hessian = A.T @ (A * (chance * (1.0 - chance))[:, None])
            beta += np.linalg.solve(hessian, A.T @ (y - chance))
        costs.append(float(np.logaddexp(0.0, A @ beta).sum() - y @ (A @ beta)))
    return sum(costs[:-1]) - costs[-1]


def random_coefficients(
    data: MultiEnvironmentData, columns: list[int], variances: int = 20
) -> float:
    """Highest log likelihood of one subset over a grid of variances of coefficients that differ by
    environment."""
    X = design(data, columns)
    sites = groups(data)[:-1]
    best = -np.inf
    for variance in np.geomspace(0.01, 10.0, variances):
        factors = [
            np.linalg.cholesky(np.eye(len(rows)) + variance * X[rows] @ X[rows].T) for rows in sites
        ]
        A = np.concatenate(
            [np.linalg.solve(factor, X[rows]) for factor, rows in zip(factors, sites, strict=True)]
        )
        b = np.concatenate(
            [
                np.linalg.solve(factor, data.y[rows])
                for factor, rows in zip(factors, sites, strict=True)
            ]
        )
        residual = b - A @ np.linalg.lstsq(A, b, rcond=None)[0]
        log_determinant = sum(np.log(np.diagonal(factor)).sum() for factor in factors)
        best = max(
            best, -0.5 * data.n_rows * np.log(residual @ residual / data.n_rows) - log_determinant
        )
    return float(best)


def metropolis(data: MultiEnvironmentData, steps: int, start: int = 3) -> NDArray[np.bool_]:
    """The subset after so many proposed flips, each scored by least squares."""
    rng = np.random.default_rng(0)
    mask = np.arange(data.n_features) < start
    score = least_squares(data, np.flatnonzero(mask).tolist())
    for _ in range(steps):
        j = rng.integers(data.n_features)
        flipped = mask ^ (np.arange(data.n_features) == j)
        value = least_squares(data, np.flatnonzero(flipped).tolist())
        if np.log(rng.random()) < value - score:
            mask = flipped
            score = value
    return mask


def ascent(
    data: MultiEnvironmentData, iterations: int, pairs: int = 20, start: float = 0.1
) -> Floats:
    """Inclusion probabilities after gradient ascent of the ELBO with coupled pairs of draws; scores
    by moments."""
    rng = np.random.default_rng(0)
    Z = np.column_stack([data.X, data.y])
    centred = [Z[rows] - Z[rows].mean(axis=0) for rows in groups(data)]
    scatters = [part.T @ part for part in centred]
    weights = [0.5 * len(part) for part in centred[:-1]] + [-0.5 * data.n_rows]
    phi = np.full(data.n_features, np.log(start / (1.0 - start)))

    def log_ratio(draw: NDArray[np.bool_]) -> float:
        columns = np.append(np.flatnonzero(draw), data.n_features)
        value = 0.0
        for scatter, weight in zip(scatters, weights, strict=True):
            value += (
                weight * 2.0 * np.log(np.linalg.cholesky(scatter[np.ix_(columns, columns)])[-1, -1])
            )
        return value

    for _ in range(iterations):
        q = 1.0 / (1.0 + np.exp(-phi))
        u = rng.random((pairs, data.n_features))
        gradient = np.zeros(data.n_features)
        for one, other in zip(u > 1.0 - q, u < q, strict=True):
            gradient += (log_ratio(one) - log_ratio(other)) * (one.astype(float) - other)
        phi += 5.0 * (gradient / pairs / data.n_rows - phi * q * (1.0 - q) / data.n_rows)
    return q


def second_moments(file: object) -> list[Floats]:
    """Of each environment of a Parquet file that is read as a whole."""
    table: pd.DataFrame = pq.read_table(file, use_threads=False).to_pandas(use_threads=False)
    found = []
    for _, part in table.groupby("site"):
        values = part.drop(columns="site").to_numpy()
        found.append(np.cov(values, rowvar=False))
    return found


def subsets(p: int) -> list[list[int]]:
    """All, in the order of the binary numbers whose bits they are."""
    return [[j for j in range(p) if code >> j & 1] for code in range(1 << p)]
