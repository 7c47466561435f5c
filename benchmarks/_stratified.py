"""Likelihood ratios of effects that are the same in strata with baselines of their own, by plain
NumPy: what a test with the exact level could find."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

STEPS = 40
HALVINGS = 30
TOLERANCE = 1e-9
# Log hazards, relative to the largest, do not go below: their exponentials are positive.
LEAST = -500.0
# Added to the information, so that strata that are separated have steps.
RIDGE = 1e-9


class Local(NamedTuple):
    """Log-likelihood (E,), gradient (E, q) and information (E, q, q) of strata"""

    value: np.ndarray
    gradient: np.ndarray
    information: np.ndarray


Likelihood = Callable[[np.ndarray], Local]


def logistic(X: np.ndarray, y: np.ndarray) -> Likelihood:
    """Of parameters (E, 1 + k): an intercept and slopes on X (E, n, k)"""
    design = np.concatenate([np.ones((*X.shape[:2], 1)), X], axis=2)

    def at(parameters: np.ndarray) -> Local:
        eta = np.einsum("enq,eq->en", design, parameters)
        mean = 1.0 / (1.0 + np.exp(-np.clip(eta, -500.0, 500.0)))
        value = (y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
        return _of_means(design, value, y - mean, mean * (1.0 - mean))

    return at


def poisson(X: np.ndarray, y: np.ndarray) -> Likelihood:
    """As `logistic`, of counts"""
    design = np.concatenate([np.ones((*X.shape[:2], 1)), X], axis=2)

    def at(parameters: np.ndarray) -> Local:
        eta = np.clip(np.einsum("enq,eq->en", design, parameters), -50.0, 50.0)
        mean = np.exp(eta)
        return _of_means(design, (y * eta - mean).sum(axis=1), y - mean, mean)

    return at


def cox(X: np.ndarray, time: np.ndarray, event: np.ndarray) -> Likelihood:
    """Partial, of slopes (E, k): each stratum has a baseline hazard of its own"""
    order = np.argsort(-time, axis=1)
    X = np.take_along_axis(X, order[:, :, None], axis=1)
    died = np.take_along_axis(event, order, axis=1)

    def at(parameters: np.ndarray) -> Local:
        eta = np.einsum("enk,ek->en", X, parameters)
        eta = np.maximum(eta - eta.max(axis=1, keepdims=True), LEAST)
        weight = np.exp(eta)
        risk = np.cumsum(weight, axis=1)
        first = np.cumsum(weight[:, :, None] * X, axis=1) / risk[:, :, None]
        second = np.einsum("en,enj,enk->enjk", weight, X, X)
        second = np.cumsum(second, axis=1) / risk[:, :, None, None]
        value = (died * (eta - np.log(risk))).sum(axis=1)
        gradient = np.einsum("en,enk->ek", died, X - first)
        spread = second - first[:, :, :, None] * first[:, :, None, :]
        return Local(value, gradient, np.einsum("en,enjk->ejk", died, spread))

    return at


def _of_means(
    design: np.ndarray, value: np.ndarray, residual: np.ndarray, weight: np.ndarray
) -> Local:
    information = np.einsum("enq,en,enr->eqr", design, weight, design)
    return Local(value, np.einsum("enq,en->eq", design, residual), information)


def separate_maximum(likelihood: Likelihood, shape: tuple[int, int]) -> float:
    """Of parameters (E, q) of each stratum alone"""
    parameters = np.zeros(shape)
    now = likelihood(parameters)
    for _ in range(STEPS):
        step = _solved(now.information, now.gradient)
        size = np.ones(shape[0])
        for _ in range(HALVINGS):
            then = likelihood(parameters + size[:, None] * step)
            worse = ~(then.value >= now.value - TOLERANCE)
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        gain = float((then.value - now.value).sum())
        parameters = parameters + size[:, None] * step
        now = then
        if gain < TOLERANCE:
            break
    return float(now.value.sum())


def common_maximum(likelihood: Likelihood, shape: tuple[int, int], own: int) -> float:
    """Of parameters (E, q), of which all but the first `own` are the same in all strata"""
    parameters = np.zeros(shape)
    now = likelihood(parameters)
    for _ in range(STEPS):
        step = _common_step(now, own)
        size = 1.0
        for _ in range(HALVINGS):
            then = likelihood(parameters + size * step)
            if then.value.sum() >= now.value.sum() - TOLERANCE:
                break
            size *= 0.5
        gain = float((then.value - now.value).sum())
        parameters = parameters + size * step
        now = then
        if gain < TOLERANCE:
            break
    return float(now.value.sum())


def _common_step(now: Local, own: int) -> np.ndarray:
    shared = now.information[:, own:, own:].sum(axis=0)
    gradient = now.gradient[:, own:].sum(axis=0)
    if not own:
        step = _solved(shared[None], gradient[None])[0]
        return np.broadcast_to(step, now.gradient.shape)
    cross = now.information[:, :own, own:]
    half = np.linalg.solve(_ridged(now.information[:, :own, :own]), cross)
    shared = shared - np.einsum("eoj,eok->jk", cross, half)
    gradient = gradient - np.einsum("eo,eok->k", now.gradient[:, :own], half)
    step = _solved(shared[None], gradient[None])[0]
    alone = _solved(now.information[:, :own, :own], now.gradient[:, :own]) - half @ step
    return np.concatenate([alone, np.tile(step, (len(alone), 1))], axis=1)


def _solved(information: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    return np.linalg.solve(_ridged(information), gradient[:, :, None])[:, :, 0]


def _ridged(information: np.ndarray) -> np.ndarray:
    return information + RIDGE * np.eye(information.shape[-1])


def likelihood_ratio(family: str, X: np.ndarray, y: np.ndarray, event: np.ndarray | None) -> float:
    """2 · (log-likelihood with effects of each stratum − with common ones), baselines free in both;
    X (E, n, k), y and event (E, n). Of numbers, N log of the ratio of sums of squares."""
    E, _, k = X.shape
    if family == "linear_gaussian":
        return _of_squares(X, y)
    if family == "piecewise_exponential":
        assert event is not None
        likelihood = cox(X, y, event)
        shape = (E, k)
        return 2.0 * (separate_maximum(likelihood, shape) - common_maximum(likelihood, shape, 0))
    likelihood = {"logistic": logistic, "poisson": poisson}[family](X, y)
    shape = (E, 1 + k)
    return 2.0 * (separate_maximum(likelihood, shape) - common_maximum(likelihood, shape, 1))


def _of_squares(X: np.ndarray, y: np.ndarray) -> float:
    X = X - X.mean(axis=1, keepdims=True)
    y = y - y.mean(axis=1, keepdims=True)
    products = np.einsum("enj,enk->ejk", X, X)
    scores = np.einsum("enk,en->ek", X, y)
    total = float((y**2).sum())
    separate = total - float((scores * _solved(products, scores)).sum())
    pooled = scores.sum(axis=0)
    common = total - float(pooled @ np.linalg.solve(products.sum(axis=0), pooled))
    return y.size * float(np.log(common / separate))
