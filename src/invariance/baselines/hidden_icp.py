"""Invariant causal prediction with hidden variables (Rothenhäusler, Bühlmann, Meinshausen & Peters 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from .._tools.arrays import Floats, Mask
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError
from .base import Baseline, check_level
from .subset_lists import check_columns

_SMALLEST_ERROR = 1e-10
_SINGULAR = 1e-13


class HiddenICP(Baseline):
    """Effects from how second moments differ between environments: hidden confounders may exist, their strength stays.

    For each environment against the rest (one contrast when there are two), the effects solve
    (difference of X'X/n) β = difference of X'y/n.

    Parameters
    ----------
    alpha : level; a feature is selected when its p-value is at most alpha
    intercept : add a column of ones; without it the moments are not centred and the answer depends on where zero is
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    p_values_ : (n_features_in_,) smallest over the contrasts and over the feature's columns, Bonferroni corrected for
        both; 1 for a constant feature
    effects_ : (len(coef_),) β averaged over the contrasts, one for each column where features have several
    confidence_intervals_ : (len(coef_), 2) intersection over the contrasts; where they contradict each other the
        lower end is above the upper one
    support_ : selected features; coef_, intercept_ : pooled least squares on them, for prediction

    Examples
    --------
    >>> from invariance.baselines import HiddenICP
    >>> from invariance.datasets import make_example
    >>> HiddenICP(intercept=True).fit(make_example()).effects_.shape
    (8,)
    """

    _single_environment_message = "all rows count as one environment: there is nothing to contrast"

    def __init__(self, alpha: float = 0.05, intercept: bool = False, columns: Columns | None = None) -> None:
        self.alpha = alpha
        self.intercept = intercept
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        check_level(self.alpha)
        p_values, effects, intervals = hidden_effects(data, self.alpha, self.intercept)
        self.p_values_ = self._expand(p_values, 1.0)
        self.effects_ = self._expand_columns(effects, 0.0)
        self.confidence_intervals_ = self._expand_columns(intervals, 0.0)
        return p_values <= self.alpha


def hidden_effects(data: MultiEnvironmentData, alpha: float, intercept: bool) -> tuple[Floats, Floats, Floats]:
    """p-values (p,) of the features; effects (q,) and intervals (q, 2) of their columns: all contrasts of one
    environment against the rest, combined."""
    features, n_environments = data.features, data.n_environments
    q = features.n_columns
    if n_environments == 1:
        return np.ones(data.n_features), np.full(q, np.nan), np.tile([-np.inf, np.inf], (q, 1))
    check_columns("HiddenICP", data, data.n_rows - 1 - intercept)
    names = features.columns
    # The equations are equivariant: unit scale keeps the solve well conditioned. With an intercept shifts do not count.
    scale = _spread_within(data) if intercept else np.abs(data.X).max(axis=0)
    X, y = data.X / scale, data.y
    if intercept:
        names = ("(intercept)", *names)
        X, y = (data.X - data.X.mean(axis=0)) / scale, y - y.mean()
    n_contrasts = n_environments if n_environments > 2 else 1
    quantile = ndtri(max(0.5, 1.0 - alpha / (2.0 * n_environments)))
    effects, p_values = np.zeros(len(names)), np.ones(len(names))
    lower, upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for e in range(n_contrasts):
        inside = data.environment_index == e
        groups = np.flatnonzero(inside), np.flatnonzero(~inside)
        moments = _with_intercept(X, y, groups) if intercept else _as_given(X, y, groups)
        beta, error = _contrast(*moments, groups, names, data.environments[e])
        effects += beta / n_contrasts
        tail = stdtr(data.n_rows - 1.0, -np.abs(beta) / error)
        p_values = np.minimum(p_values, 2.0 * n_environments * tail)
        lower = np.maximum(lower, beta - quantile * error)
        upper = np.minimum(upper, beta + quantile * error)
    columns = slice(int(intercept), None)
    intervals = np.column_stack([lower, upper])[columns] / scale[:, None]
    smallest = np.minimum.reduceat(p_values[columns], features.starts[:-1])
    return np.minimum(1.0, features.widths * smallest), effects[columns] / scale, intervals


Groups = tuple[NDArray[np.intp], NDArray[np.intp]]
# Rows X (N, q), y (N,); difference (q, q), target (q,): of X'X/n and X'y/n between two groups; the size of these.
Contrast = tuple[Floats, Floats, Floats, Floats, float]


def _as_given(X: Floats, y: Floats, groups: Groups) -> Contrast:
    (gram, cross), (other, other_cross) = ((X[g].T @ X[g] / len(g), X[g].T @ y[g] / len(g)) for g in groups)
    return X, y, gram - other, cross - other_cross, np.abs(gram).max() + np.abs(other).max()


def _with_intercept(X: Floats, y: Floats, groups: Groups) -> Contrast:
    """With a first column of ones, as large as keeps the equations balanced.

    Only the intercept depends on where zero is. Seen from halfway between the two groups' means, the means' products
    are the same in both and drop out of the difference, however large they are.
    """
    values = np.column_stack([X, y])
    means = [values[g].mean(axis=0) for g in groups]
    inner, other = ((values[g] - mean).T @ (values[g] - mean) / len(g) for g, mean in zip(groups, means, strict=True))
    gap, values = means[0] - means[1], values - (means[0] + means[1]) / 2.0
    largest = float(np.abs(gap[:-1]).max())
    one = 1.0 / largest if largest > 0.0 else 1.0
    difference, target = np.zeros((len(gap), len(gap))), np.append(one * gap[-1], (inner - other)[:-1, -1])
    difference[0, 1:] = difference[1:, 0] = one * gap[:-1]
    difference[1:, 1:] = (inner - other)[:-1, :-1]
    rows = np.column_stack([np.full(len(y), one), values[:, :-1]])
    return rows, values[:, -1], difference, target, np.abs(inner).max() + np.abs(other).max()


def _spread_within(data: MultiEnvironmentData) -> Floats:
    """(q,) standard deviation of each column inside the environments; its largest value where that is 0."""
    squares = sum(len(rows) * data.X[rows].var(axis=0) for rows in map(data.rows, range(data.n_environments)))
    spread = np.sqrt(squares / data.n_rows)
    return np.where(spread > 0.0, spread, np.abs(data.X).max(axis=0))


def _contrast(
    X: Floats,
    y: Floats,
    difference: Floats,
    target: Floats,
    size: float,
    groups: Groups,
    names: tuple[str, ...],
    label: object,
) -> tuple[Floats, Floats]:
    """β (q,) and its standard error (q,) from one environment against the rest."""
    values, vectors = np.linalg.eigh(difference)
    weakest = int(np.argmin(np.abs(values)))
    if abs(values[weakest]) <= _SINGULAR * size:
        involved = np.array(names, dtype=object)[np.abs(vectors[:, weakest]) > 1e-3]
        raise DataError(
            f"environment {label!r} has the others' second moments of {quoted(involved)}, whose effects cannot be told "
            "apart: leave out combinations of other features, or the environment."
        )
    inverse = (vectors / values) @ vectors.T
    directions = X @ inverse
    influence = directions * (y - directions @ target)[:, None]
    variance = sum(influence[g].var(axis=0, ddof=1) / len(g) for g in groups)
    return inverse @ target, np.maximum(np.sqrt(variance), _SMALLEST_ERROR)
