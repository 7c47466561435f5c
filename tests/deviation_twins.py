"""Random deviations by dense algebra: matrices of all rows by all rows, straight from the
definition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar

from invariance import MultiEnvironmentData


def sites(
    counts: tuple[int, ...] = (1, 9, 4, 12, 1, 7, 15, 3, 8, 10, 6, 11),
    p: int = 4,
    seed: int = 0,
    size: float = 0.3,
    n_slopes: int = 1,
) -> MultiEnvironmentData:
    """y follows the first three columns, and its intercept and the first n_slopes slopes deviate
    between sites"""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(len(counts)), counts)
    n = len(counts)
    X = rng.normal(size=(len(place), p)) + 0.5 * rng.normal(size=(n, p))[place]
    own = size * rng.normal(size=(1 + n_slopes, n))[:, place]
    y = (
        X[:, :3].sum(axis=1)
        + own[0]
        + np.sum(own[1:] * X.T[:n_slopes], axis=0)
        + rng.normal(size=len(place))
    )
    return MultiEnvironmentData.from_arrays(X, y, place)


class Dense(NamedTuple):
    """design W (N, k); basis T (k, k); effects Z (N, E·k); outcome (N,)"""

    design: NDArray
    basis: NDArray
    effects: NDArray
    outcome: NDArray

    @classmethod
    def of(cls, data: MultiEnvironmentData, mask: NDArray) -> Dense:
        X = data.X[:, data.features.expand(np.asarray(mask, dtype=bool))]
        W = np.column_stack([np.ones(len(X)), X - X.mean(axis=0)])
        T = np.linalg.inv(np.linalg.cholesky(W.T @ W / len(W))).T / np.sqrt(W.shape[1])
        inside = data.environment_index[:, None] == np.arange(data.n_environments)
        Z = (inside[:, :, None] * (W @ T)[:, None, :]).reshape(len(W), -1)
        return cls(W, T, Z, data.y)

    def covariance(self, share: float) -> NDArray:
        return np.eye(len(self.outcome)) + share * self.effects @ self.effects.T

    def whitened(self, share: float) -> tuple[NDArray, NDArray, NDArray]:
        """Z, the projection on what W leaves, and y"""
        root = np.linalg.cholesky(self.covariance(share))
        W, Z, y = (
            np.linalg.solve(root, given) for given in (self.design, self.effects, self.outcome)
        )
        return Z, np.eye(len(y)) - W @ np.linalg.solve(W.T @ W, W.T), y

    def p_value(self, share: float) -> float:
        """Of the score test, by the first three moments of Q"""
        Z, M, y = self.whitened(share)
        C = Z.T @ M @ Z
        v = len(y) - self.design.shape[1]
        one, two, three = (np.trace(np.linalg.matrix_power(C, power)) for power in (1, 2, 3))
        mean = one / v
        square = (one**2 + 2 * two) / (v * (v + 2))
        cube = (one**3 + 6 * one * two + 8 * three) / (v * (v + 2) * (v + 4))
        variance = square - mean**2
        skew = (cube - 3 * mean * square + 2 * mean**3) / variance**1.5
        statistic = np.sum((Z.T @ M @ y) ** 2) / (y @ M @ y)
        return float(stats.pearson3.sf((statistic - mean) / np.sqrt(variance), skew))

    def jackknife(self, index: NDArray, share: float) -> NDArray:
        """Covariance of generalised least squares, by leaving out each environment in turn"""

        def estimate(rows: NDArray) -> NDArray:
            root = np.linalg.cholesky(self.covariance(share)[np.ix_(rows, rows)])
            W, y = (np.linalg.solve(root, values[rows]) for values in (self.design, self.outcome))
            return np.linalg.lstsq(W, y)[0]

        n = int(index.max()) + 1
        apart = [estimate(index != e) - estimate(index >= 0) for e in range(n)]
        return (n - 1) / n * sum(np.outer(each, each) for each in apart)

    def new_environment(self, n: int, share: float, steps: int) -> NDArray:
        """Covariance of the coefficients of a new environment over that of the noise at this share,
        from deviations whose covariance is what so many steps of expectation and maximisation
        (REML) find"""
        _, M, y = self.whitened(share)
        k = self.design.shape[1]
        Z = self.effects
        W = self.design
        noise = y @ M @ y / (len(y) - k)
        deviations = share * np.eye(k)
        for _ in range(steps):
            D = np.kron(np.eye(n), deviations)
            inverse = np.linalg.inv(np.eye(len(y)) + Z @ D @ Z.T)
            P = inverse - inverse @ W @ np.linalg.solve(W.T @ inverse @ W, W.T @ inverse)
            u = (D @ Z.T @ P @ self.outcome).reshape(n, k)
            left = D - D @ Z.T @ P @ Z @ D
            unknown = sum(left[k * e : k * e + k, k * e : k * e + k] for e in range(n))
            deviations = (u.T @ u / noise + unknown) / n
        inverse = np.linalg.inv(np.eye(len(y)) + Z @ np.kron(np.eye(n), deviations) @ Z.T)
        return self.basis @ deviations @ self.basis.T + np.linalg.inv(W.T @ inverse @ W)

    def log_likelihood(self, share: float) -> float:
        _, M, y = self.whitened(share)
        return (
            -0.5 * len(y) * np.log(y @ M @ y / len(y))
            - 0.5 * np.linalg.slogdet(self.covariance(share))[1]
        )

    def best(self) -> tuple[float, float]:
        """log Λ and the share of the largest likelihood"""
        shares = np.append(0.0, np.geomspace(1e-4, 30.0, 40))
        values = [self.log_likelihood(share) for share in shares]
        j = int(np.argmax(values))
        ends = shares[max(j - 1, 0)], shares[min(j + 1, 40)]
        found = minimize_scalar(
            lambda w: -self.log_likelihood(w), bounds=ends, options={"xatol": 1e-12}
        )
        return (
            (0.0, 0.0)
            if -found.fun <= values[0]
            else (float(values[0] + found.fun), float(found.x))
        )

    def henderson(self, share: float) -> tuple[NDArray, NDArray, float]:
        """β and u (k + E·k,), the covariance of their errors, and Var ε, by the mixed model's
        equations"""
        W = self.design
        Z = self.effects
        y = self.outcome
        k = self.design.shape[1]
        both = np.column_stack([W, Z])
        penalty = np.append(np.zeros(k), np.full(Z.shape[1], 1 / share))
        inverse = np.linalg.inv(both.T @ both + np.diag(penalty))
        found = inverse @ both.T @ y
        noise = (y @ y - found @ both.T @ y) / (len(y) - k)
        return found, noise * inverse, float(noise)


def levene(data: MultiEnvironmentData, mask: NDArray, tau: float) -> float:
    """The score test of random intercepts of absolute residuals, which may differ by the share tau
    of their mean"""
    dense = Dense.of(data, mask)
    absolute = np.abs(
        dense.outcome - dense.design @ np.linalg.lstsq(dense.design, dense.outcome, rcond=None)[0]
    )
    inside = (data.environment_index[:, None] == np.arange(data.n_environments)).astype(float)
    share = tau**2 * absolute.mean() ** 2 / absolute.var()
    ones = np.ones((len(absolute), 1))
    return Dense(ones, np.eye(1), inside, absolute).p_value(share)
