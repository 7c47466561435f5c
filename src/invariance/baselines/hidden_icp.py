"""Invariant causal prediction with hidden variables (Rothenhäusler, Bühlmann, Meinshausen & Peters 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from ..checks import DataError, quoted, rows_text
from ..data import MultiEnvironmentData
from ..lasso import screened
from ..selector import EnvironmentSelector
from .icp import check_level

Floats = NDArray[np.float64]

_SMALLEST_ERROR = 1e-10
_SINGULAR = 1e-13


class HiddenICP(EnvironmentSelector):
    """Effects from how second moments differ between environments: hidden confounders may exist, their strength stays.

    For each environment against the rest (one contrast when there are two), the effects solve
    (difference of X'X/n) β = difference of X'y/n.

    Parameters
    ----------
    alpha : level; a feature is selected when its p-value is at most alpha
    intercept : add a column of ones; without it the moments are not centred and the answer depends on where zero is
    environment : name of the column of a data frame X that holds the environment labels

    Attributes
    ----------
    p_values_ : (n_features_in_,) smallest over the contrasts, Bonferroni corrected; 1 for a constant feature
    effects_ : (n_features_in_,) β averaged over the contrasts
    confidence_intervals_ : (n_features_in_, 2) intersection over the contrasts; where they contradict each other the
        lower end is above the upper one
    support_ : selected features; coef_, intercept_ : pooled least squares on them, for prediction

    Notes
    -----
    With a single environment there is no contrast: p-values are 1, effects NaN, and nothing is selected.

    Examples
    --------
    >>> from invariance.baselines import HiddenICP
    >>> from invariance.datasets import make_example
    >>> HiddenICP(intercept=True).fit_data(make_example()).effects_.shape
    (8,)
    """

    _single_environment_message = (
        "no environments were given, so all rows count as one environment: there is nothing to contrast and nothing "
        "is selected. Pass fit(X, y, environments=labels)."
    )

    def __init__(self, alpha: float = 0.05, intercept: bool = False, environment: str | None = None) -> None:
        self.alpha = alpha
        self.intercept = intercept
        self.environment = environment

    def _select(self, data: MultiEnvironmentData) -> NDArray[np.bool_]:
        check_level(self.alpha)
        effects = hidden_effects(data, self.alpha, self.intercept)
        self.p_values_ = self._expand(effects.p_values, 1.0)
        self.effects_ = self._expand(effects.effects, 0.0)
        self.confidence_intervals_ = self._expand(effects.intervals, 0.0)
        return effects.p_values <= self.alpha


@dataclass(frozen=True, eq=False)
class HiddenEffects:
    """p_values (p,), effects (p,), intervals (p, 2)."""

    p_values: Floats
    effects: Floats
    intervals: Floats


def hidden_effects(data: MultiEnvironmentData, alpha: float, intercept: bool) -> HiddenEffects:
    """All contrasts of one environment against the rest, combined."""
    p, n_environments = data.n_features, data.n_environments
    if n_environments == 1:
        return HiddenEffects(np.ones(p), np.full(p, np.nan), np.tile([-np.inf, np.inf], (p, 1)))
    X, y, names = data.X, data.y, data.feature_names
    if intercept:  # only the intercept depends on where zero is, and a large mean would cost the slopes their digits
        X, y = X - X.mean(axis=0), y - y.mean()
    scale = np.abs(X).max(axis=0)  # the equations are equivariant: unit scale keeps the solve well conditioned
    X = X / scale
    if intercept:
        X = np.column_stack([np.ones(data.n_rows), X])
        names = ("(intercept)", *names)
    if data.n_rows <= X.shape[1]:
        raise DataError(
            f"Hidden-ICP needs more rows than features: {rows_text(data.n_rows)}, {p} features"
            + (" and an intercept" if intercept else "")
            + f". Screen the features first with {screened('HiddenICP', data.n_rows, data.n_rows - 1 - intercept)}."
        )
    n_contrasts = n_environments if n_environments > 2 else 1
    quantile = ndtri(max(0.5, 1.0 - alpha / (2.0 * n_environments)))
    effects, p_values = np.zeros(X.shape[1]), np.ones(X.shape[1])
    lower, upper = np.full(X.shape[1], -np.inf), np.full(X.shape[1], np.inf)
    for e in range(n_contrasts):
        beta, error = _contrast(X, y, data.environment_index == e, names, data.environments[e])
        effects += beta / n_contrasts
        tail = stdtr(data.n_rows - 1.0, -np.abs(beta) / error)
        p_values = np.minimum(p_values, 2.0 * n_environments * tail)
        lower = np.maximum(lower, beta - quantile * error)
        upper = np.minimum(upper, beta + quantile * error)
    features = slice(int(intercept), None)
    intervals = np.column_stack([lower, upper])[features] / scale[:, None]
    return HiddenEffects(p_values[features], effects[features] / scale, intervals)


def _contrast(
    X: Floats, y: Floats, inside: NDArray[np.bool_], names: tuple[str, ...], label: object
) -> tuple[Floats, Floats]:
    """β (p,) and its standard error (p,) from one environment against the rest."""
    groups = [np.flatnonzero(inside), np.flatnonzero(~inside)]
    (gram, cross), (other_gram, other_cross) = ((X[g].T @ X[g] / len(g), X[g].T @ y[g] / len(g)) for g in groups)
    difference, target = gram - other_gram, cross - other_cross
    values, vectors = np.linalg.eigh(difference)
    weakest = int(np.argmin(np.abs(values)))
    if abs(values[weakest]) <= _SINGULAR * (np.abs(gram).max() + np.abs(other_gram).max()):
        involved = np.array(names, dtype=object)[np.abs(vectors[:, weakest]) > 1e-3]
        raise DataError(
            f"environment {label!r} does not differ from the others in the second moments of {quoted(involved)}, so "
            "their effects cannot be told apart. Leave out features that are combinations of others, or the "
            "environment."
        )
    inverse = (vectors / values) @ vectors.T
    directions = X @ inverse
    influence = directions * (y - directions @ target)[:, None]
    variance = sum(influence[g].var(axis=0, ddof=1) / len(g) for g in groups)
    return inverse @ target, np.maximum(np.sqrt(variance), _SMALLEST_ERROR)
