"""Families as somebody else would write them, by what CONTRIBUTING teaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, expit, gammaln

from invariance.models.likelihood import ByLikelihood, Maximum


@dataclass(frozen=True)
class GammaLog(ByLikelihood):
    """Outcome ~ Gamma with mean exp(intercept + coefficients · columns of z) and one shape, by
    maximum likelihood."""

    name = "gamma"
    kind = "number"
    link = "log"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        if y.min() <= 0.0:
            return None
        design = np.column_stack([np.ones(len(y)), X])
        beta = np.append(np.log(y.mean()), np.zeros(X.shape[1]))
        for _ in range(100):
            ratio = y * np.exp(-design @ beta)
            step = np.linalg.lstsq(design, ratio - 1.0)[0]  # of Fisher's scoring
            beta = beta + step / max(1.0, np.abs(design @ step).max())
            if np.abs(step).max() < 1e-10:
                break
        logs = np.log(y) - design @ beta
        excess = float(np.mean(np.exp(logs) - logs) - 1.0)  # log a − ψ(a) at the largest likelihood
        if excess < 1e-8:
            return None
        shape = np.exp(brentq(lambda log_a: log_a - digamma(np.exp(log_a)) - excess, -20.0, 20.0))
        each = shape * (np.log(shape) + logs - np.exp(logs)) - gammaln(shape) - np.log(y)
        return Maximum(float(each.sum()), beta[1:], float(beta[0]), X.shape[1] + 2)


@dataclass(frozen=True)
class PlainLogistic(ByLikelihood):
    """Two classes with log odds intercept + coefficients · columns of z; no fit where a plane
    separates them."""

    name = "logistic"
    kind = "class"
    link = "logit"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        design = np.column_stack([np.ones(len(y)), X])
        beta = np.zeros(design.shape[1])
        for _ in range(25):
            chances = expit(design @ beta)
            weights = np.maximum(chances * (1.0 - chances), 1e-12)
            step = np.linalg.lstsq((design.T * weights) @ design, design.T @ (y - chances))[0]
            beta = beta + step
            predictor = design @ beta
            if np.abs(predictor).max() > 30.0:
                return None
            if np.abs(step).max() < 1e-9:
                return Maximum(
                    float(y @ predictor - np.logaddexp(0.0, predictor).sum()),
                    beta[1:],
                    beta[0],
                    len(beta),
                )
        return None


@dataclass(frozen=True)
class Probit(ByLikelihood):
    """Two classes with a link that is not known here."""

    name = "probit"
    kind = "class"
    link = "probit"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        import statsmodels.api as sm

        fit = sm.Probit(y, np.column_stack([np.ones(len(y)), X])).fit(disp=False)
        return Maximum(float(fit.llf), fit.params[1:], float(fit.params[0]), X.shape[1] + 1)

    def mean(self, predictor: NDArray) -> NDArray:
        from scipy.stats import norm

        return np.asarray(norm.cdf(predictor))


def skewed(
    n_environments: int, n_rows: int, seed: int, shape: float = 2.0, columns: int = 2
) -> tuple[NDArray, NDArray, NDArray]:
    """X (N, columns), y (N,) and environments (N,): Gamma given the first column, the same way
    everywhere"""
    rng = np.random.default_rng(seed)
    sites = np.repeat(np.arange(n_environments), n_rows)
    X = (
        rng.normal(size=(len(sites), columns))
        + 0.5 * rng.normal(size=(n_environments, columns))[sites]
    )
    mean = np.exp(1.0 + 0.8 * X[:, 0])
    return X, rng.gamma(shape, mean / shape), sites
